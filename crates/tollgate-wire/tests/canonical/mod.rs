//! A request as JSON that belongs to no dialect, for the golden files and for the example program.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tollgate_types::ToolDefinition;
use tollgate_wire::{Content, Dialect, Image, Message, Piece, Request, Target, ToolChoice, Turn, lower};

/// One request.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Input {
    model: String,
    messages: Vec<Said>,
    tools: Vec<Arc<ToolDefinition>>,
    /// Whether the model shall be held to the schemas.
    strict: bool,
    hosted: Vec<Box<RawValue>>,
    tool_choice: Choice,
    parallel: Option<bool>,
    max_tokens: Option<u32>,
    temperature: Option<f64>,
    stream: bool,
    store: Option<bool>,
    previous: Option<String>,
    extra: Map<String, Value>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Said {
    System(String),
    User(Vec<Bit>),
    Turn(Box<Turn>),
    Result {
        call_id: String,
        content: Vec<Bit>,
        #[serde(default)]
        is_error: bool,
    },
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Bit {
    Text(String),
    /// Its address.
    Image(String),
}

#[derive(Clone, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Choice {
    #[default]
    Auto,
    None,
    Required,
    Named(String),
    Allowed {
        required: bool,
        tools: Vec<String>,
    },
}

impl Default for Input {
    fn default() -> Self {
        Self {
            model: "model".to_owned(),
            messages: Vec::new(),
            tools: Vec::new(),
            strict: false,
            hosted: Vec::new(),
            tool_choice: Choice::Auto,
            parallel: None,
            max_tokens: None,
            temperature: None,
            stream: false,
            store: None,
            previous: None,
            extra: Map::new(),
        }
    }
}

impl Input {
    /// The body in a dialect.
    pub(crate) fn body(self, dialect: Dialect) -> Result<Vec<u8>, serde_json::Error> {
        let messages: Vec<Message> = self.messages.into_iter().map(Message::from).collect();
        let (tools, tool_choice) =
            (lower(&self.tools, &Target { strict: self.strict, ..Target::of(dialect) })?, self.tool_choice.into());
        let request = Request {
            hosted: &self.hosted,
            tool_choice: &tool_choice,
            parallel: self.parallel,
            max_tokens: self.max_tokens,
            temperature: self.temperature,
            stream: self.stream,
            store: self.store,
            previous: self.previous.as_deref(),
            extra: Some(&self.extra),
            ..Request::new(&self.model, &messages, &tools)
        };
        request.to_body(dialect)
    }
}

impl From<Said> for Message {
    fn from(said: Said) -> Self {
        match said {
            Said::System(text) => Self::System(text),
            Said::User(bits) => Self::User(content(bits)),
            Said::Turn(turn) => Self::assistant(&turn),
            Said::Result { call_id, content: bits, is_error } => Self::tool(call_id, content(bits), is_error),
        }
    }
}

fn content(bits: Vec<Bit>) -> Content {
    let piece = |bit| match bit {
        Bit::Text(text) => Piece::Text(text),
        Bit::Image(url) => Piece::Image(Image::from_url(&url)),
    };
    bits.into_iter().map(piece).collect::<Vec<_>>().into()
}

impl From<Choice> for ToolChoice {
    fn from(choice: Choice) -> Self {
        match choice {
            Choice::Auto => Self::Auto,
            Choice::None => Self::None,
            Choice::Required => Self::Required,
            Choice::Named(name) => Self::Named(name),
            Choice::Allowed { required, tools } => Self::Allowed { required, tools },
        }
    }
}
