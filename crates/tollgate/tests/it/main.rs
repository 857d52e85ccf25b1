//! The library's face: building, configuration, tools of one's own, an agent.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may stop at the first surprise"
)]

mod agent;
mod anchors;
mod budgets;
mod configuration;
mod credentials;
mod data;
mod failure;
mod faithful;
mod hosted;
mod laws;
mod library;
mod own;
mod prompts;
mod resources;
mod results;
mod retention;
mod sets;
mod streams;
mod threats;
mod world;
