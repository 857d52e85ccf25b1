//! Data sets through the gate.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod agentdojo;
