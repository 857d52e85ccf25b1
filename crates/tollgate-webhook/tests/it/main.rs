//! The webhook over real HTTP: what a receiver gets, and what comes of receivers that do not take it.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may stop at the first surprise")]

mod alerts;
mod answers;
mod questions;
mod receiver;
