//! The HTTP clients against real servers, and redaction and verdicts against the shared cases and their laws.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod address;
mod cases;
mod client;
mod public;
mod redact;
mod spelling;
mod stream;
mod values;
