//! The servers that Tollgate calls: our own raw client of MCP, over stdio, streamable HTTP, HTTP with an event stream
//! (2024-11-05) and WebSockets, in both eras.
//!
//! [`Upstreams`] holds servers by name and gives their tools as [`Tool`](tollgate_types::Tool)s. Messages stay raw text
//! until somebody needs a part of them, so that fields, kinds of content and numbers that are not known here pass
//! unharmed; one tool that makes no sense costs itself and no other; and every wait and every size has a bound. Nothing
//! here decides whether a call may happen, and nothing a server says of itself is believed.

mod client;
mod config;
mod definition;
mod entry;
mod events;
mod fault;
mod handshake;
mod heard;
mod hearing;
mod http;
mod introduction;
mod link;
mod list;
mod log;
mod message;
mod name;
mod offered;
mod outcome;
mod pending;
mod pool;
mod rounds;
mod server;
mod socket;
mod sse;
mod status;
mod stdio;
mod tasks;
mod tool;
mod traces;
mod upstreams;

pub use config::{Asks, Limits, Override, Sessions, Start, UpstreamConfig, UpstreamError, UpstreamKind};
pub use introduction::Introduction;
pub use log::{LogFile, tail};
pub use sse::{Event, Events, TooLong};
pub use status::{Quarantined, Trouble, UpstreamState, UpstreamStatus};
pub use traces::Noise;
pub use upstreams::{OnChange, Upstreams};
