//! What may leave: verdicts on addresses, the only HTTP clients, syslog, and redaction.
//!
//! [`client`] speaks to the origins the operator configured and to nothing else; [`public`] asks the open web, under the
//! verdicts of [`address`]; [`redact`] takes secrets out of what is about to be recorded, logged or shown.

pub mod address;
mod check;
pub mod client;
pub mod public;
pub mod redact;
pub mod syslog;

pub use check::{Report, check};
