//! One block of a turn while it grows, and what becomes of it.

use std::borrow::Cow;

use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use tollgate_types::limits;

use super::event::{Delta, Start, read};
use super::message::CALL_FIELDS;
use super::{other_fields, with_fields};
use crate::calls::Draft;
use crate::chat::delta::{Unescape, scalar_text};
use crate::turn::{Finish, HostedCall};

/// A block that began.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) index: i64,
    pub(super) kind: Kind,
    pub(super) is_over: bool,
    /// As it came when it began.
    start: Box<RawValue>,
    /// Its text, thought or input so far.
    text: String,
    signature: String,
    citations: Vec<Box<RawValue>>,
    pieces: Unescape,
    has_grown: bool,
    is_too_large: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Thought,
    /// A call for us.
    Call,
    /// A call that the provider ran itself.
    HostedCall,
    /// What came of one.
    HostedResult,
    /// Anything else, which goes back as it came.
    Other,
}

impl Kind {
    fn of(word: &str) -> Self {
        match word {
            "text" => Self::Text,
            "thinking" => Self::Thought,
            "tool_use" => Self::Call,
            _ if word.ends_with("_tool_use") => Self::HostedCall,
            _ if word.ends_with("_tool_result") => Self::HostedResult,
            _ => Self::Other,
        }
    }
}

impl Block {
    pub(super) fn new(index: i64, start: &RawValue) -> Self {
        let head: Start<'_> = read(Some(start));
        let kind = Kind::of(&scalar_text(head.r#type));
        let mut pieces = Unescape::default();
        let text = match kind {
            Kind::Text => head.text.map(|text| pieces.piece(text).into_owned()),
            Kind::Thought => head.thinking.map(|text| pieces.piece(text).into_owned()),
            Kind::Call | Kind::HostedCall | Kind::HostedResult | Kind::Other => None,
        };
        Self {
            index,
            kind,
            is_over: false,
            start: start.to_owned(),
            text: text.unwrap_or_default(),
            signature: scalar_text(head.signature).into_owned(),
            citations: read(head.citations),
            pieces,
            has_grown: false,
            is_too_large: false,
        }
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    /// Adds what is new. Text that people may see is handed back; a code says what was odd.
    pub(super) fn grow<'a>(&mut self, delta: &Delta<'a>) -> Result<Cow<'a, str>, &'static str> {
        let word = scalar_text(delta.r#type);
        let piece = match (word.as_ref(), self.kind) {
            ("text_delta", Kind::Text) => delta.text,
            ("thinking_delta", Kind::Thought) => delta.thinking,
            ("input_json_delta", Kind::Call | Kind::HostedCall) => delta.partial_json,
            ("signature_delta", Kind::Thought) => {
                self.has_grown = true;
                self.signature.push_str(&scalar_text(delta.signature));
                return Ok("".into());
            }
            ("citations_delta", Kind::Text) => {
                self.has_grown = true;
                self.citations.extend(delta.citation.map(RawValue::to_owned));
                return Ok("".into());
            }
            _ => return Err("event_ignored"),
        };
        let Some(piece) = piece else { return Err("event_ignored") };
        let is_call = matches!(self.kind, Kind::Call | Kind::HostedCall);
        self.has_grown |= !is_call || !matches!(piece.get(), "\"\"");
        let piece = self.pieces.piece(piece);
        if is_call && self.text.len() + piece.len() > limits::ARGUMENTS_BYTES_MAX {
            self.is_too_large = true;
            return Err("args_too_large");
        }
        self.text.push_str(&piece);
        Ok(if self.kind == Kind::Text { piece } else { "".into() })
    }

    /// Whether half of a surrogate pair is missing.
    pub(super) fn has_lost(&self) -> bool {
        self.pieces.has_lost()
    }

    /// Whether there is nothing to it but text.
    pub(super) fn is_plain(&self) -> bool {
        self.citations.is_empty() && other_fields(&self.start, &["type", "text", "citations"]).is_none()
    }

    /// The block as it goes back; nothing where it did not arrive whole and would be refused.
    pub(super) fn raw(&self, finish: &Finish) -> Option<String> {
        let fields = match self.kind {
            Kind::Thought if !self.is_over || finish.is_cut() && self.signature.is_empty() => return None,
            _ if !self.has_grown => return Some(self.start.get().to_owned()),
            Kind::Text => vec![("text", to_raw_value(&self.text)), ("citations", to_raw_value(&self.citations))],
            Kind::Thought => vec![("thinking", to_raw_value(&self.text)), ("signature", to_raw_value(&self.signature))],
            Kind::HostedCall => match RawValue::from_string(self.text.clone()) {
                Ok(input) => vec![("input", Ok(input))],
                Err(_) => Vec::new(),
            },
            Kind::Call | Kind::HostedResult | Kind::Other => Vec::new(),
        };
        let fields = fields.into_iter().filter_map(|(name, value)| Some((name, value.ok()?)));
        with_fields(&self.start, fields).ok().map(|raw| raw.get().to_owned())
    }

    /// The block as a call for us. The place that an argument's piece belongs to may be unknown.
    pub(super) fn draft(&self, is_torn: bool) -> Draft {
        let head: Start<'_> = read(Some(&self.start));
        let broken = match self {
            Self { is_too_large: true, .. } => Some("its arguments are larger than the limit"),
            _ if self.has_lost() => Some("it holds half of a surrogate pair"),
            _ if is_torn => Some("a piece of its arguments has no place"),
            Self { is_over: false, .. } => Some("its end never came"),
            _ => None,
        };
        Draft {
            wire_id: scalar_text(head.id).into_owned(),
            name: scalar_text(head.name).into_owned(),
            arguments: self.arguments(&head),
            provider_meta: other_fields(&self.start, &CALL_FIELDS),
            broken,
            ..Draft::default()
        }
    }

    /// The block as a call that is over.
    pub(super) fn hosted_call(&self) -> HostedCall {
        let head: Start<'_> = read(Some(&self.start));
        HostedCall {
            id: scalar_text(head.id).into_owned(),
            name: scalar_text(head.name).into_owned(),
            arguments: self.arguments(&head),
            ..HostedCall::default()
        }
    }

    /// Adds what came of a call that the provider ran, in this turn or the one before it.
    pub(super) fn settle(&self, hosted: &mut Vec<HostedCall>) {
        let head: Start<'_> = read(Some(&self.start));
        let id = scalar_text(head.tool_use_id);
        let at = hosted.iter().rposition(|call| call.id == id).unwrap_or_else(|| {
            let word = scalar_text(head.r#type);
            let name = word.strip_suffix("_tool_result").unwrap_or_default().to_owned();
            hosted.push(HostedCall { id: id.into_owned(), name, ..HostedCall::default() });
            hosted.len() - 1
        });
        let Some(call) = hosted.get_mut(at) else { return };
        call.result = head.content.map(|content| content.get().to_owned());
        let content: Value = read(head.content);
        let says_so = content.get("type").and_then(Value::as_str).is_some_and(|word| word.ends_with("_error"));
        call.is_error = says_so || read::<bool>(head.is_error);
    }

    fn arguments(&self, head: &Start<'_>) -> String {
        match head.input {
            Some(input) if !self.has_grown => input.get().to_owned(),
            _ => self.text.clone(),
        }
    }
}
