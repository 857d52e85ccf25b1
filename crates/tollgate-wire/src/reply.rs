//! Replies as a served endpoint writes them.

use crate::dialect::Dialect;
use crate::lower::Names;
use crate::turn::Turn;

/// What stands over a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heading<'a> {
    /// Its id.
    pub id: &'a str,
    /// The model's name.
    pub model: &'a str,
    /// When it was made, in seconds since 1970.
    pub created: i64,
    /// The names of the tools as whoever asks offered them.
    pub names: &'a Names,
}

/// Writes a turn as a whole reply, such that [`crate::read_reply`] makes the same turn of it, as far as the dialect carries
/// it.
///
/// # Errors
/// Only when a part of the turn that should go back unchanged is no JSON.
pub fn write_reply(dialect: Dialect, turn: &Turn, heading: &Heading<'_>) -> Result<Vec<u8>, serde_json::Error> {
    match dialect {
        Dialect::Chat => crate::chat::write_reply(turn, heading),
        Dialect::Responses => crate::responses::write_reply(turn, heading),
        Dialect::Anthropic => crate::anthropic::write_reply(turn, heading),
        Dialect::Gemini => crate::gemini::write_reply(turn, heading),
    }
}
