//! Data sets, replayed through the gate, and what came of them. Nothing here is part of serving calls.

pub mod agentdojo;
