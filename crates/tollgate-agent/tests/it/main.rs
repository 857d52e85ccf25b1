//! The loop and its models against real sockets and real files.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop at the first surprise")]

mod anthropic;
mod cases;
mod door;
mod gemini;
mod limits;
mod model;
mod recording;
mod responses;
mod run;
mod server;
