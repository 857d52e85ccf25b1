//! Calls as spans, taken by a receiver that decodes them with the official definitions of OTLP.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

mod collector;
mod delivery;
mod spans;
