//! What is done about failures, and what protects those who fail: small machines that are told the time and start nothing.
//! The stages `run` and `descend` drive them.
//!
//! ```text
//! source: breaker ─▶ places ─▶ tries: retry, retry budget ─▶ ladder: fallback ─▶ human ─▶ fail
//! ```

mod breaker;
mod budget;
pub(crate) mod failure;
pub(crate) mod ladder;
pub(crate) mod mapping;
mod places;
mod report;
mod retry;
mod rules;
pub(crate) mod source;

pub use breaker::{Breaker, Entered, Health};
pub(crate) use report::rungs;
pub use report::{FailureReport, RungReport, SourceReport};
pub(crate) use rules::ladder as ladder_rules;
pub use rules::{RuleError, check};
