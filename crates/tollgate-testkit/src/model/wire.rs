//! The dialects that the server speaks: what each one asks of a request, and how it says a turn.

use axum::http::{HeaderMap, Uri};
use serde_json::{Value, json};

use super::reply::Asked;
use super::step::Turn;
use super::{anthropic, gemini, protocol, reply, responses};

/// A dialect, by the path of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Wire {
    /// OpenAI Chat Completions.
    #[default]
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Anthropic,
    /// Gemini's `generateContent`, whole and streamed.
    Gemini,
}

impl Wire {
    pub(super) fn of(uri: &Uri) -> Option<Self> {
        match uri.path().strip_prefix("/v1/models/").and_then(|rest| rest.split_once(':')) {
            Some((_, "generateContent")) => Some(Self::Gemini),
            // Without the word the stream would be one JSON array.
            Some((_, "streamGenerateContent")) if uri.query() == Some("alt=sse") => Some(Self::Gemini),
            Some(_) => None,
            None => [Self::Chat, Self::Responses, Self::Anthropic].into_iter().find(|wire| wire.path() == uri.path()),
        }
    }

    /// Whether the address asks for a stream, in a dialect whose body does not.
    pub(super) fn is_streamed(self, uri: &Uri) -> bool {
        self == Self::Gemini && uri.path().ends_with(":streamGenerateContent")
    }

    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Responses => "/v1/responses",
            Self::Anthropic => "/v1/messages",
            Self::Gemini => "/v1/models/MODEL:generateContent",
        }
    }

    /// The header that carries the key.
    pub(super) fn key_header(self) -> &'static str {
        match self {
            Self::Chat | Self::Responses => "authorization",
            Self::Anthropic => "x-api-key",
            Self::Gemini => "x-goog-api-key",
        }
    }

    /// Says what is wrong with a request first. What was said before may have to come back.
    pub(super) fn check(self, headers: &HeaderMap, body: &Value, said: &[Turn]) -> Result<(), String> {
        match self {
            Self::Chat => protocol::check(body),
            Self::Responses => responses::check(body, said),
            Self::Anthropic => anthropic::check(headers, body, said),
            Self::Gemini => gemini::check(body, said),
        }
    }

    /// A turn as one object.
    pub(super) fn whole(self, turn: &Turn, asked: &Asked) -> Value {
        match self {
            Self::Chat => reply::completion(turn, asked),
            Self::Responses => responses::response(turn, asked),
            Self::Anthropic => anthropic::message(turn, asked),
            Self::Gemini => gemini::response(turn),
        }
    }

    /// A turn as the data of the events of a stream.
    pub(super) fn events(self, turn: &Turn, asked: &Asked) -> Vec<String> {
        match self {
            Self::Chat => reply::events(turn, asked),
            Self::Responses => responses::events(turn, asked),
            Self::Anthropic => anthropic::events(turn, asked),
            Self::Gemini => gemini::events(turn),
        }
    }

    /// An error object.
    pub(super) fn error(self, message: &str) -> Value {
        let error = json!({ "message": message, "type": "invalid_request_error", "code": "testkit" });
        match self {
            Self::Chat | Self::Responses | Self::Gemini => json!({ "error": error }),
            Self::Anthropic => json!({ "type": "error", "error": error }),
        }
    }
}
