//! The server over real HTTP, in front of a real house.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop at the first surprise")]

mod answers;
mod asking;
mod entrance;
mod faithful;
mod hidden;
mod mcp;
mod news;
mod rest;
mod servers;
mod serving;
mod sets;
mod tasks;
mod threats;
mod undo;
mod watched;
mod ways;
mod world;
