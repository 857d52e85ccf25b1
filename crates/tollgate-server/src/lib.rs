//! Tollgate over HTTP: MCP, REST, metrics, and the keys that open them.
//!
//! Every surface here is a way to the one door; nothing in this crate decides whether a call may happen, or runs one.
//! [`Bound::bind`] listens before anything slow is done, [`Bound::serve`] serves until its token is cancelled, and
//! [`router`] is the same for a program that has an axum server of its own.
//!
//! - `/mcp`: the Model Context Protocol, streamable HTTP, both eras
//! - `/api/v1/*`: calls, tools, approvals, audit, events
//! - `/metrics`, `/healthz`, `/readyz`, `/openapi.json`
//!
//! A request must name a host that is known (no DNS rebinding), come from a known origin if it comes from a browser, and
//! carry a key: a client's to list and to call, an operator's to answer approvals and to read the ledger.

mod app;
mod body;
mod entrance;
mod health;
pub mod keys;
mod limits;
mod mcp;
mod metrics;
mod openapi;
mod problem;
mod rest;
mod serve;
mod sse;

pub use app::{ServeOptions, Service, router};
pub use openapi::document as openapi;
pub use serve::{Bound, ServeError, serve};
