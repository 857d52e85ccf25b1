//! How many tokens a conversation has: counted for models whose vocabulary is here, estimated for all others.

mod o200k;

use serde::{Deserialize, Serialize};
use tollgate_wire::{Content, Message, ModelCall, Part, Turn};

/// What a message takes beside its text: its role and its edges.
const MESSAGE_TOKENS: u64 = 4;
/// What a call takes beside its name and its arguments.
const CALL_TOKENS: u64 = 8;

/// What an image takes: providers count 85 to 1,600, by its size.
const IMAGE_TOKENS: u64 = 1_000;

/// From where a number of tokens is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenSource {
    /// The model's server said it.
    #[default]
    Reported,
    /// Counted with the model's own vocabulary.
    Counted,
    /// Estimated from the characters.
    Estimated,
}

impl TokenSource {
    /// The word in events.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reported => "reported",
            Self::Counted => "counted",
            Self::Estimated => "estimated",
        }
    }
}

/// Counts or estimates for one model.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tokens {
    is_o200k: bool,
}

impl Tokens {
    /// For the model of this name at its server.
    pub(crate) fn of_model(name: &str) -> Self {
        Self { is_o200k: o200k::is_of(name) }
    }

    /// Makes counting ready where that is possible; until then everything is estimated.
    pub(crate) async fn prepare(&self) {
        if self.is_o200k && o200k::ready().is_none() {
            // It takes a second; a task that fails leaves estimates.
            let _ = tokio::task::spawn_blocking(o200k::prepare).await;
        }
    }

    /// From where [`Tokens::in_text`] knows.
    pub(crate) fn source(&self) -> TokenSource {
        match self.is_o200k && o200k::ready().is_some() {
            true => TokenSource::Counted,
            false => TokenSource::Estimated,
        }
    }

    /// How many a text has.
    pub(crate) fn in_text(&self, text: &str) -> u64 {
        match o200k::ready().filter(|_| self.is_o200k) {
            Some(tokenizer) => u64::try_from(tokenizer.count(text)).unwrap_or(u64::MAX),
            None => estimate(text),
        }
    }

    /// How many a message has on the wire.
    pub(crate) fn in_message(&self, message: &Message) -> u64 {
        MESSAGE_TOKENS
            + match message {
                Message::System(text) => self.in_text(text),
                Message::User(content) => self.in_content(content),
                Message::Tool { call_id, content, .. } => self.in_content(content) + self.in_text(call_id),
                Message::Assistant { calls, kept: Some(kept), .. } => {
                    kept.parts.iter().map(|part| self.in_part(part, calls)).sum()
                }
                Message::Assistant { text, calls, provider_meta, kept: None } => {
                    let thoughts: u64 = provider_meta.values().map(|value| self.in_text(&value.to_string())).sum();
                    self.in_text(text) + thoughts + calls.iter().map(|call| self.in_call(call)).sum::<u64>()
                }
            }
    }

    fn in_content(&self, content: &Content) -> u64 {
        content.pieces().iter().map(|piece| piece.as_text().map_or(IMAGE_TOKENS, |text| self.in_text(text))).sum()
    }

    fn in_part(&self, part: &Part, calls: &[ModelCall]) -> u64 {
        match part {
            Part::Text(text) | Part::Raw(text) => self.in_text(text),
            Part::Call(at) => calls.get(*at).map_or(0, |call| self.in_call(call)),
        }
    }

    /// How many a turn has that the model wrote.
    pub(crate) fn in_turn(&self, turn: &Turn) -> u64 {
        self.in_text(&turn.text) + turn.calls.iter().map(|call| self.in_call(call)).sum::<u64>()
    }

    fn in_call(&self, call: &ModelCall) -> u64 {
        let kept = call.provider_meta.as_ref().map_or(0, |value| self.in_text(&value.to_string()));
        CALL_TOKENS + self.in_text(&call.id) + self.in_text(&call.name) + self.in_text(&call.arguments) + kept
    }
}

/// What characters have in common for vocabularies.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Space,
    Line,
    Upper,
    Lower,
    Digit,
    Sign,
    /// Of Chinese, Japanese and Korean: a character is a word or a syllable.
    Ideograph,
    Letter,
    Other,
}

impl Kind {
    fn of(character: char) -> Self {
        match character {
            '\n' | '\r' => Self::Line,
            'a'..='z' => Self::Lower,
            'A'..='Z' => Self::Upper,
            '0'..='9' => Self::Digit,
            _ if character.is_whitespace() => Self::Space,
            _ if character.is_ascii() => Self::Sign,
            '\u{2e80}'..='\u{9fff}'
            | '\u{ac00}'..='\u{d7ff}'
            | '\u{f900}'..='\u{faff}'
            | '\u{ff00}'..='\u{ffef}'
            | '\u{20000}'..='\u{3ffff}' => Self::Ideograph,
            _ if character.is_alphabetic() => Self::Letter,
            _ => Self::Other,
        }
    }

    /// What a run of this kind takes, in hundredths of a token. A space belongs to the word behind it.
    fn hundredths(self, length: u64) -> u64 {
        match self {
            Self::Space if length == 1 => 0,
            Self::Space => 100,
            Self::Line => 70,
            Self::Lower | Self::Upper => 92 + length.saturating_sub(5) * 13,
            Self::Digit => 40 + length * 30,
            Self::Sign => 50 + length * 30,
            Self::Ideograph => length * 80,
            Self::Letter => length * 45,
            Self::Other => length * 120,
        }
    }
}

/// An estimate that is within a quarter of what `o200k_base` and its like count of prose, code, JSON and Chinese; the test
/// below says of what it was made.
fn estimate(text: &str) -> u64 {
    let mut hundredths = 0;
    let mut run: Option<(Kind, u64)> = None;
    for character in text.chars() {
        let kind = Kind::of(character);
        run = Some(match run {
            Some((before, length)) if before == kind => (kind, length + 1),
            // A capital begins the word that goes on behind it.
            Some((Kind::Upper, 1)) if kind == Kind::Lower => (kind, 2),
            other => {
                hundredths += other.map_or(0, |(before, length)| before.hundredths(length));
                (kind, 1)
            }
        });
    }
    hundredths += run.map_or(0, |(kind, length)| kind.hundredths(length));
    u64::div_ceil(hundredths, 100)
}

#[cfg(test)]
mod tests;
