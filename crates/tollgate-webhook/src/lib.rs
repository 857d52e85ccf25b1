//! Approvals by webhook: open questions are sent as signed requests to one address that the operator configured, and signed
//! answers that come back are checked.
//!
//! [`Webhook`] sends every open question of a data folder at least once, whichever process asked it, for as long as it can be
//! answered; it never makes a call wait. As an observer it also tells of calls of tools that are kept from who asked.
//! [`Webhook::read`] says whether an answer is genuine and in time. What an answer
//! does is the operator's desk's business, not this crate's; what the receiver's HTTP response says is nobody's: it is not
//! signed.

mod alerts;
mod answer;
mod courier;
mod message;
mod signature;

pub use answer::{Headers, Received, Refusal};
pub use courier::{Counts, Webhook, WebhookConfig, WebhookError};
pub use signature::{SecretFault, check_secret};
