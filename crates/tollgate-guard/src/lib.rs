//! What may leave: the only HTTP client, and redaction.
//!
//! [`client`] speaks to the origins the operator configured and to nothing else; [`redact`] takes secrets out of what
//! is about to be recorded, logged or shown.

pub mod client;
pub mod redact;
