//! The server as a client meets it: text in, text out, over in-memory pipes. Every line that it writes is checked
//! against the official schema of the revision it speaks.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may stop at the first surprise"
)]

mod asking;
mod calls;
mod door;
mod eras;
mod laws;
mod lists;
mod news;
mod peer;
mod replicas;
mod schema;
mod shelf;
mod streams;
mod tasks;
mod upstream;
