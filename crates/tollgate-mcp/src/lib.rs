//! The Model Context Protocol: a server over any [`Door`](tollgate_types::Door), and a client of other servers
//! ([`upstream`]) that logs in where they want it ([`oauth`]).
//!
//! [`Session`] is the protocol without I/O: one message in, one [`Action`] out. [`serve_stdio`] drives it over a pair
//! of byte streams; [`http::Endpoint`] is the protocol of streamable HTTP, for a server to drive. Both eras share one
//! connection or endpoint: the handshake revisions (`initialize`, 2024-11-05 to 2025-11-25) and the stateless one
//! (per-request `_meta`, 2026-07-28). Nothing here decides whether a call may happen: that is the door's business.

mod encoded;
mod jsonrpc;
pub mod oauth;
mod parameters;
mod question;
mod server;
mod stdio;
pub mod upstream;
pub mod wire_name;

pub use jsonrpc::Id;
pub use server::{Action, Answer, Request, Revision, ServerInfo, Session, StateKeys, TaskRules, Tasks, http};
pub use stdio::{ServeError, serve_stdio};
