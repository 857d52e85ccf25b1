//! The HTTP client against real servers, and redaction against the shared cases and its laws.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod cases;
mod client;
mod redact;
