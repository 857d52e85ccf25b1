//! The steps of a script: what the model server says to one request.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// What the server says to one request. In a script file it is one JSON value a line, such as
/// `{"turn":{"text":"你好"}}` or `"hang"`.
///
/// ```
/// use serde_json::json;
/// use tollgate_testkit::model::Step;
///
/// let line = r#"{"turn":{"calls":[{"id":"call_1","name":"calculate","arguments":{"expression":"1 + 1"}}]}}"#;
/// let step: Step = serde_json::from_str(line)?;
/// assert_eq!(step, Step::calls([("call_1", "calculate", json!({"expression": "1 + 1"}))]));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct Step(pub(super) Say);

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Say {
    Turn(Turn),
    RawJson(Value),
    RawSse(Vec<String>),
    #[serde(rename = "status")]
    Http(Http),
    Hang,
    HangMidStream(Vec<String>),
    CloseMidStream(Vec<String>),
    CloseBeforeHead,
}

/// What a model says in one turn.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Turn {
    #[serde(default)]
    pub(super) text: Option<String>,
    #[serde(default)]
    pub(super) calls: Vec<Asked>,
    #[serde(default)]
    pub(super) finish: Option<String>,
    /// What else comes before the text, as its dialect writes it, and must come back unchanged.
    #[serde(default)]
    pub(super) parts: Vec<Value>,
}

/// One tool call that a model asks for. A string as `arguments` is sent as it is, whatever it says.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Asked {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: Value,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Http {
    pub(super) code: u16,
    #[serde(default)]
    pub(super) headers: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) body: String,
}

impl Step {
    /// A turn that is text.
    pub fn text(text: impl Into<String>) -> Self {
        Self(Say::Turn(Turn { text: Some(text.into()), ..Turn::default() }))
    }

    /// A turn that asks for tool calls: id, name, arguments. Arguments that are a JSON string are sent as that text, so
    /// that `json!("{\"a\": 1,")` is a model's broken JSON.
    pub fn calls(calls: impl IntoIterator<Item = (impl Into<String>, impl Into<String>, Value)>) -> Self {
        let calls =
            calls.into_iter().map(|(id, name, arguments)| Asked { id: id.into(), name: name.into(), arguments });
        Self(Say::Turn(Turn { calls: calls.collect(), ..Turn::default() }))
    }

    /// The same turn with text before its calls. Other steps stay as they are.
    #[must_use]
    pub fn with_text(mut self, text: impl Into<String>) -> Self {
        if let Say::Turn(turn) = &mut self.0 {
            turn.text = Some(text.into());
        }
        self
    }

    /// The same turn with parts of its dialect before the text, such as thoughts. The server insists on having them back
    /// unchanged. Other steps stay as they are.
    #[must_use]
    pub fn with_parts(mut self, parts: impl IntoIterator<Item = Value>) -> Self {
        if let Say::Turn(turn) = &mut self.0 {
            turn.parts = parts.into_iter().collect();
        }
        self
    }

    /// The same turn with another `finish_reason`, such as `length`. Other steps stay as they are.
    #[must_use]
    pub fn with_finish(mut self, finish: impl Into<String>) -> Self {
        if let Say::Turn(turn) = &mut self.0 {
            turn.finish = Some(finish.into());
        }
        self
    }

    /// A whole response body as JSON, also where a stream was asked for.
    pub fn raw_json(body: Value) -> Self {
        Self(Say::RawJson(body))
    }

    /// A stream of these payloads, each sent as `data: <payload>` and a blank line. No `[DONE]` is added.
    pub fn raw_sse(data: Vec<String>) -> Self {
        Self(Say::RawSse(data))
    }

    /// Any HTTP response; with status 200 and the type `text/event-stream` also a stream that `raw_sse` cannot say. A
    /// status or header that HTTP does not know becomes a 500 that says so.
    pub fn status(code: u16, headers: &[(&str, &str)], body: impl Into<String>) -> Self {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Self(Say::Http(Http { code, headers, body: body.into() }))
    }

    /// A web page with status 200, as proxies and sign-in pages answer.
    pub fn html(body: impl Into<String>) -> Self {
        Self::status(200, &[("content-type", "text/html; charset=utf-8")], body)
    }

    /// No answer at all, until the client or the server goes away.
    pub fn hang() -> Self {
        Self(Say::Hang)
    }

    /// A stream of these payloads, then silence.
    pub fn hang_mid_stream(data: Vec<String>) -> Self {
        Self(Say::HangMidStream(data))
    }

    /// A stream of these payloads, then the connection breaks off.
    pub fn close_mid_stream(data: Vec<String>) -> Self {
        Self(Say::CloseMidStream(data))
    }

    /// The connection breaks off before the first byte of an answer.
    pub fn close_before_head() -> Self {
        Self(Say::CloseBeforeHead)
    }
}
