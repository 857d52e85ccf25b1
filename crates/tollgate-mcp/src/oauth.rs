//! Logins at the authorization servers of MCP servers: Tollgate as an OAuth 2.1 client (MCP 2026-07-28 and 2025-11-25,
//! Authorization). It finds out who gives tokens for a server, becomes known there, has a human agree, and keeps and renews
//! what comes of it.
//!
//! [`Oauth`] is one server's login: a source of credentials for the client in [`upstream`](crate::upstream), which asks it
//! when the server refuses. Nobody who is told an address here is believed: each is judged before it is asked
//! (`outbound.rs`), and a token goes to the server that it was given for and to no other. It listens nowhere and shows
//! nothing: that is the part of a [`UserAgent`].

mod assertion;
mod challenge;
mod client;
mod discovery;
mod error;
mod file;
mod login;
mod outbound;
mod request;
mod scope;
mod token;

pub use assertion::SigningKey;
pub use client::{ClientIdentity, ClientProof};
pub use error::AuthError;
pub use file::{LoggedIn, LoginFile};
pub use login::{Grant, Oauth, OauthConfig, UserAgent};
pub use request::Asked;
