//! The tools as the gate meets them: definitions, check, preview and call, on real files, databases, programs and
//! servers.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

mod calculate;
mod confinement;
mod database;
mod definitions;
mod engines;
mod files;
mod http;
mod kept;
mod laws;
mod pages;
mod postgres;
mod program;
mod schema;
mod search;
mod server;
mod support;
mod undo;
