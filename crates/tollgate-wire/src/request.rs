//! What a model is asked, before a dialect makes a body of it.

use std::borrow::Cow;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value};

use crate::dialect::Dialect;
use crate::history::Message;
use crate::ids::CallIds;
use crate::lower::Lowered;

/// Whether the model may, must or must not call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ToolChoice {
    /// As it likes.
    #[default]
    Auto,
    /// It must not.
    None,
    /// It must call something.
    Required,
    /// It must call this tool.
    Named(String),
    /// It may call only these, or must call one of these.
    Allowed {
        /// Whether it must.
        required: bool,
        /// The tools' names.
        tools: Vec<String>,
    },
}

impl From<&str> for ToolChoice {
    /// `auto`, `none` and `required` are themselves, and anything else is a tool's name. Several names, with commas
    /// between, are those that may be called; with `required:` before them one of them must be.
    ///
    /// ```
    /// use tollgate_wire::ToolChoice;
    ///
    /// let tools = vec!["read_file".to_owned(), "search_files".to_owned()];
    /// assert_eq!(ToolChoice::from("read_file"), ToolChoice::Named("read_file".to_owned()));
    /// assert_eq!(ToolChoice::from("required:read_file, search_files"), ToolChoice::Allowed { required: true, tools });
    /// ```
    fn from(words: &str) -> Self {
        let (required, names) = words.strip_prefix("required:").map_or((false, words), |names| (true, names));
        match words {
            "auto" => Self::Auto,
            "none" => Self::None,
            "required" => Self::Required,
            _ if required || names.contains(',') => {
                let tools = names.split(',').map(str::trim).filter(|name| !name.is_empty());
                Self::Allowed { required, tools: tools.map(str::to_owned).collect() }
            }
            name => Self::Named(name.to_owned()),
        }
    }
}

/// How an assistant message with calls and no text is written. No encoding works with every server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EmptyContent {
    /// `"content": null`, as OpenAI specifies.
    #[default]
    Null,
    /// `"content": ""`, for servers that insist on a string.
    Text,
    /// No `content` at all, for servers that refuse both.
    Omitted,
}

/// What a server of Chat Completions wants otherwise than OpenAI specifies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quirks {
    /// How empty content is written.
    pub empty_content: EmptyContent,
    /// Whether it knows only the older `functions` and `function_call`.
    pub legacy_functions: bool,
    /// Which ids of calls it takes.
    pub call_ids: CallIds,
    /// Whether the limit of tokens is called `max_completion_tokens`, as OpenAI's newer models insist.
    pub max_completion_tokens: bool,
}

/// One request.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The model's name at the server.
    pub model: &'a str,
    /// The conversation. It must be sound; see [`crate::History::repair`].
    pub messages: &'a [Message],
    /// The tools, lowered for the dialect.
    pub tools: &'a Lowered,
    /// Tools that the provider itself runs, as its dialect writes them.
    pub hosted: &'a [Box<RawValue>],
    /// Whether it may call.
    pub tool_choice: &'a ToolChoice,
    /// Whether it may ask for several calls at once; nothing leaves it to the server.
    pub parallel: Option<bool>,
    /// The most tokens it may write.
    pub max_tokens: Option<u32>,
    /// The sampling temperature.
    pub temperature: Option<f64>,
    /// Whether to ask for a stream.
    pub stream: bool,
    /// Whether the server shall keep the request for the next one, where it must be asked to (Anthropic).
    pub cache: bool,
    /// What the server wants otherwise (Chat Completions).
    pub quirks: Quirks,
    /// Whether the server may keep the reply (Responses); nothing leaves it to the server.
    pub store: Option<bool>,
    /// The reply that the server still has and that this goes on from (Responses). `messages` then holds the whole
    /// conversation all the same; what came up to that reply is not sent again.
    pub previous: Option<&'a str>,
    /// Whether the server has forgotten what it kept, so that its own ids mean nothing to it (Responses).
    pub is_forgotten: bool,
    /// More fields of the body, as the operator wrote them. They never replace one that stands there.
    pub extra: Option<&'a Map<String, Value>>,
}

impl<'a> Request<'a> {
    /// A request with every default.
    pub fn new(model: &'a str, messages: &'a [Message], tools: &'a Lowered) -> Self {
        Self {
            model,
            messages,
            tools,
            hosted: &[],
            tool_choice: &ToolChoice::Auto,
            parallel: None,
            max_tokens: None,
            temperature: None,
            stream: false,
            cache: false,
            quirks: Quirks::default(),
            store: None,
            previous: None,
            is_forgotten: false,
            extra: None,
        }
    }

    /// The body to post.
    ///
    /// # Errors
    /// Only when a number in the request cannot be written as JSON.
    pub fn to_body(&self, dialect: Dialect) -> Result<Vec<u8>, serde_json::Error> {
        match dialect {
            Dialect::Chat => crate::chat::body(self),
            Dialect::Responses => crate::responses::body(self),
            Dialect::Anthropic => crate::anthropic::body(self),
            Dialect::Gemini => crate::gemini::body(self),
        }
    }

    /// The tools, and behind them those that the provider runs; nothing when there are none.
    pub(crate) fn all_tools(&self) -> Result<Option<Cow<'_, RawValue>>, serde_json::Error> {
        if self.hosted.is_empty() {
            return Ok((!self.tools.is_empty()).then(|| Cow::Borrowed(self.tools.tools())));
        }
        let mut tools: Vec<&RawValue> = match self.tools.is_empty() {
            true => Vec::new(),
            false => serde_json::from_str(self.tools.tools().get())?,
        };
        tools.extend(self.hosted.iter().map(|tool| &**tool));
        Ok(Some(Cow::Owned(to_raw_value(&tools)?)))
    }
}

/// The fields of a body, in order.
#[derive(Debug, Default)]
pub(crate) struct Fields(Vec<(&'static str, Box<RawValue>)>);

impl Fields {
    /// Adds a field.
    pub(crate) fn put<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), serde_json::Error> {
        self.0.push((name, to_raw_value(value)?));
        Ok(())
    }

    /// Adds a field where there is a value.
    pub(crate) fn put_some<T: Serialize>(
        &mut self,
        name: &'static str,
        value: Option<T>,
    ) -> Result<(), serde_json::Error> {
        value.map_or(Ok(()), |value| self.put(name, &value))
    }

    /// The body, with what an operator adds.
    pub(crate) fn into_body(self, extra: Option<&Map<String, Value>>) -> Result<Vec<u8>, serde_json::Error> {
        let mut body = Vec::new();
        let mut serializer = serde_json::Serializer::new(&mut body);
        let mut map = serializer.serialize_map(None)?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        for (name, value) in
            extra.into_iter().flatten().filter(|(name, _)| self.0.iter().all(|(known, _)| known != name))
        {
            map.serialize_entry(name, value)?;
        }
        map.end()?;
        Ok(body)
    }
}
