//! What each dialect carries of a conversation and of a request, as a table: docs/dialects.md is made from it, and the tests
//! of identity hold the dialects to it.

use std::fmt::Write as _;

use crate::dialect::Dialect;

/// Something that not every wire has a place for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Feature {
    /// A system's message behind the first.
    LaterSystem,
    /// Images in what a person says.
    UserImages,
    /// Images in a result.
    ResultImages,
    /// The order of text and images in a result.
    ResultOrder,
    /// That a result is an error.
    ResultErrors,
    /// The ids of calls.
    CallIds,
    /// What the provider wants back with a call.
    CallMeta,
    /// What the provider wants back with the model's message.
    MessageMeta,
    /// Thoughts, their signatures, and parts that nobody here understands.
    RawParts,
    /// The order of text and calls within a turn.
    PartOrder,
    /// Tools that take a text instead of arguments.
    CustomTools,
    /// Whether the model must keep to a schema.
    Strict,
    /// Tools that the provider runs.
    HostedTools,
    /// The choice that forbids calls.
    ChoiceNone,
    /// The choice of one tool.
    ChoiceNamed,
    /// The choice among some tools.
    ChoiceAllowed,
    /// Whether there may be several calls at once.
    Parallel,
    /// Whether the server may keep the reply.
    Store,
    /// The reply that a request goes on from.
    Previous,
    /// Tokens that the provider had read before.
    CachedTokens,
    /// Tokens that were thoughts.
    ReasoningTokens,
}

/// What becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carry {
    /// It arrives, and is read back as it was.
    Whole,
    /// It does not; this is done instead.
    Not(&'static str),
}

impl Feature {
    /// All of them.
    pub const ALL: [Self; 21] = [
        Self::LaterSystem,
        Self::UserImages,
        Self::ResultImages,
        Self::ResultOrder,
        Self::ResultErrors,
        Self::CallIds,
        Self::CallMeta,
        Self::MessageMeta,
        Self::RawParts,
        Self::PartOrder,
        Self::CustomTools,
        Self::Strict,
        Self::HostedTools,
        Self::ChoiceNone,
        Self::ChoiceNamed,
        Self::ChoiceAllowed,
        Self::Parallel,
        Self::Store,
        Self::Previous,
        Self::CachedTokens,
        Self::ReasoningTokens,
    ];

    fn words(self) -> &'static str {
        match self {
            Self::LaterSystem => "a system's message behind the first",
            Self::UserImages => "images in what a person says",
            Self::ResultImages => "images in a result",
            Self::ResultOrder => "the order of text and images in a result",
            Self::ResultErrors => "that a result is an error",
            Self::CallIds => "the ids of calls",
            Self::CallMeta => "what the provider wants back with a call",
            Self::MessageMeta => "what the provider wants back with the model's message",
            Self::RawParts => "thoughts, signatures and parts that nobody here understands, byte for byte",
            Self::PartOrder => "the order of text and calls within a turn",
            Self::CustomTools => "tools that take a text instead of arguments",
            Self::Strict => "whether the model must keep to a schema",
            Self::HostedTools => "tools that the provider runs",
            Self::ChoiceNone => "the choice that forbids calls",
            Self::ChoiceNamed => "the choice of one tool",
            Self::ChoiceAllowed => "the choice among some tools",
            Self::Parallel => "whether there may be several calls at once",
            Self::Store => "whether the server may keep the reply",
            Self::Previous => "the reply that a request goes on from",
            Self::CachedTokens => "tokens that the provider had read before",
            Self::ReasoningTokens => "tokens that were thoughts",
        }
    }
}

impl Dialect {
    /// What becomes of a feature in this dialect.
    pub fn carries(self, feature: Feature) -> Carry {
        match self {
            Self::Chat => crate::chat::carries(feature),
            Self::Responses => crate::responses::carries(feature),
            Self::Anthropic => crate::anthropic::carries(feature),
            Self::Gemini => crate::gemini::carries(feature),
        }
    }
}

/// The page docs/dialects.md.
pub fn dialects_page() -> String {
    let mut page = String::from(
        "# Dialects\n\nGenerated from the code by `tollgate docs`. One conversation is spoken in four dialects. Text, calls, \
         their arguments, results and their order pass through each of them unharmed, whole and streamed; the table says \
         what becomes of the rest. A number stands for a note below it.\n\n",
    );
    let names: Vec<String> = Dialect::ALL.iter().map(|dialect| format!("`{dialect}`")).collect();
    let _ = writeln!(page, "| | {} |\n|---|{}", names.join(" | "), "---|".repeat(names.len()));
    let mut notes: Vec<&str> = Vec::new();
    for feature in Feature::ALL {
        let cells = Dialect::ALL.map(|dialect| match dialect.carries(feature) {
            Carry::Whole => "yes".to_owned(),
            Carry::Not(instead) => {
                let at = notes.iter().position(|note| *note == instead).unwrap_or_else(|| {
                    notes.push(instead);
                    notes.len() - 1
                });
                format!("no ({})", at + 1)
            }
        });
        let _ = writeln!(page, "| {} | {} |", feature.words(), cells.join(" | "));
    }
    page.push('\n');
    for (at, note) in notes.iter().enumerate() {
        let _ = writeln!(page, "{}. {note}", at + 1);
    }
    page
}
