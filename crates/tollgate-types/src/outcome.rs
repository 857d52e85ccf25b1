//! How an attempt ended, as every surface hands it on.

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use crate::{ApprovalId, AttemptId, CallId, Code, ErrorObject, Language, Raw, Status};

/// One part of a result, in MCP's form. Kinds that are not known here pass through unharmed.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Text for the model.
    Text(String),
    /// Any other content block, as it came: an object with a `type`.
    Other(Value),
}

impl Serialize for Content {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => {
                let mut map = serializer.serialize_map(Some(2))?;
                map.serialize_entry("type", "text")?;
                map.serialize_entry("text", text)?;
                map.end()
            }
            Self::Other(value) => value.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let is_plain_text = value.get("type").and_then(Value::as_str) == Some("text")
            && value.as_object().is_some_and(|object| object.len() == 2);
        match value.get("text").and_then(Value::as_str) {
            Some(text) if is_plain_text => Ok(Self::Text(text.to_owned())),
            _ => Ok(Self::Other(value)),
        }
    }
}

/// What an executor returns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ToolOutput {
    /// The parts, for the model.
    pub content: Vec<Content>,
    /// The same as one value, for programs; fits the output schema where there is one.
    pub structured: Option<Value>,
    /// The whole result object of an MCP server, as it came. It leaves the gate where no stage changed the result.
    pub raw: Option<Raw>,
}

impl ToolOutput {
    /// Text and nothing else.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Content::Text(text.into())], ..Self::default() }
    }

    /// A value; its compact JSON is the text.
    pub fn structured(value: Value) -> Self {
        Self { content: vec![Content::Text(value.to_string())], structured: Some(value), raw: None }
    }

    /// A value, and a text that is better to read.
    pub fn text_and_structured(text: impl Into<String>, value: Value) -> Self {
        Self { content: vec![Content::Text(text.into())], structured: Some(value), raw: None }
    }
}

/// That a result was cut, and how to get the rest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Truncated {
    /// How many lines or items are shown.
    pub shown: usize,
    /// How many there are.
    pub total: usize,
    /// What `read_result` takes.
    pub handle: String,
}

/// A result as it leaves the gate.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CallResult {
    /// The parts.
    pub content: Vec<Content>,
    /// The same as one value; null when there is none or it was too long.
    pub structured: Option<Value>,
    /// Set when this is not all of it.
    pub truncated: Option<Truncated>,
    /// Whether it may say what others wrote: data, and never instructions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outside: bool,
    /// What is not as it should be with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The whole result object of an MCP server, as it came, where no stage changed it. A stored answer is without.
    #[serde(skip)]
    pub raw: Option<Raw>,
}

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// A yes or no, or a result.
    pub kind: WaitingKind,
    /// What `tollgate approvals approve` takes.
    pub id: ApprovalId,
    /// When the question closes by itself, RFC 3339.
    pub expires: String,
}

/// What a human is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitingKind {
    /// A yes or no.
    Approval,
    /// The result itself.
    Intervention,
}

impl WaitingKind {
    /// The name on every wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Intervention => "intervention",
        }
    }
}

/// One thing that was mended in the arguments before they were validated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repair {
    /// Where: a JSON Pointer into the arguments; empty for the whole text.
    pub path: String,
    /// The rule, such as `trailing_comma` or `string_to_integer`.
    pub rule: String,
}

impl Repair {
    /// A repair at a JSON Pointer.
    pub fn new(path: impl Into<String>, rule: impl Into<String>) -> Self {
        Self { path: path.into(), rule: rule.into() }
    }
}

/// How it ended, with what belongs to that end.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// It happened.
    Done(CallResult),
    /// It did not happen, by decision.
    Refused(ErrorObject),
    /// It was tried and did not work.
    Failed(ErrorObject),
    /// It waits for a human.
    Waiting(Waiting, ErrorObject),
    /// It was started, and nobody knows how it ended.
    Unknown(ErrorObject),
}

impl End {
    /// The end that an error belongs to, by its code. An error can not say that it waits: that needs a question.
    pub fn from_error(error: ErrorObject) -> Self {
        match error.error.status() {
            Status::Refused => Self::Refused(error),
            Status::Unknown => Self::Unknown(error),
            Status::Done | Status::Failed | Status::Waiting => Self::Failed(error),
        }
    }

    /// The status.
    pub fn status(&self) -> Status {
        match self {
            Self::Done(_) => Status::Done,
            Self::Refused(_) => Status::Refused,
            Self::Failed(_) => Status::Failed,
            Self::Waiting(..) => Status::Waiting,
            Self::Unknown(_) => Status::Unknown,
        }
    }

    /// Puts what the model reads of it in a language.
    pub fn put_in(&mut self, language: Language) {
        match self {
            Self::Done(_) => {}
            Self::Refused(error) | Self::Failed(error) | Self::Waiting(_, error) | Self::Unknown(error) => {
                error.put_in(language);
            }
        }
    }

    /// The error object, for every end but `done`.
    pub fn error(&self) -> Option<&ErrorObject> {
        match self {
            Self::Done(_) => None,
            Self::Refused(error) | Self::Failed(error) | Self::Waiting(_, error) | Self::Unknown(error) => Some(error),
        }
    }
}

/// The outcome object: what every surface hands back for a call. It serializes with every key of the contract, null
/// where there is nothing to say.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The asker's id for the call.
    pub call_id: CallId,
    /// The attempt in the ledger; none when the record could not be opened.
    pub attempt: Option<AttemptId>,
    /// The name as asked, or the tool's own name once it was found.
    pub tool: String,
    /// From asking to answer.
    pub duration_ms: u64,
    /// How it ended.
    pub end: End,
    /// What was mended in the arguments.
    pub repairs: Vec<Repair>,
    /// Whether this is the stored answer of an earlier call with the same idempotency key.
    pub replayed: bool,
}

impl Outcome {
    /// The status.
    pub fn status(&self) -> Status {
        self.end.status()
    }

    /// The code, for every end but `done`.
    pub fn code(&self) -> Option<Code> {
        self.end.error().map(|error| error.error)
    }

    /// The result, when it is done.
    pub fn result(&self) -> Option<&CallResult> {
        match &self.end {
            End::Done(result) => Some(result),
            End::Refused(_) | End::Failed(_) | End::Waiting(..) | End::Unknown(_) => None,
        }
    }

    /// The exit status of the command line.
    pub fn exit(&self) -> u8 {
        self.code().map_or(0, Code::exit)
    }

    /// What a model reads: the text of the result, bare, or the error object as JSON.
    ///
    /// ```
    /// use tollgate_types::{CallId, CallResult, Content, End, Outcome};
    ///
    /// let result = CallResult { content: vec![Content::Text("42".into())], ..CallResult::default() };
    /// let outcome = Outcome {
    ///     call_id: CallId::new("c1"), attempt: None, tool: "calculate".into(), duration_ms: 1,
    ///     end: End::Done(result), repairs: vec![], replayed: false,
    /// };
    /// assert_eq!(outcome.model_text(), "42");
    /// ```
    pub fn model_text(&self) -> String {
        match &self.end {
            End::Done(result) => result.text(),
            _ => self.end.error().and_then(|error| serde_json::to_string(error).ok()).unwrap_or_default(),
        }
    }
}

impl CallResult {
    /// What a model reads of it.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for part in &self.content {
            if !text.is_empty() {
                text.push('\n');
            }
            match part {
                Content::Text(part) => text.push_str(part),
                Content::Other(value) => text.push_str(&value.to_string()),
            }
        }
        if text.is_empty() { "(the tool returned nothing)".to_owned() } else { text }
    }
}

impl Serialize for Outcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let waiting = match &self.end {
            End::Waiting(waiting, _) => Some(waiting),
            End::Done(_) | End::Refused(_) | End::Failed(_) | End::Unknown(_) => None,
        };
        let mut map = serializer.serialize_map(Some(10))?;
        map.serialize_entry("status", &self.status())?;
        map.serialize_entry("call_id", &self.call_id)?;
        map.serialize_entry("attempt", &self.attempt)?;
        map.serialize_entry("tool", &self.tool)?;
        map.serialize_entry("duration_ms", &self.duration_ms)?;
        map.serialize_entry("result", &self.result())?;
        map.serialize_entry("error", &self.end.error())?;
        map.serialize_entry("waiting", &waiting)?;
        map.serialize_entry("repairs", &self.repairs)?;
        map.serialize_entry("replayed", &self.replayed)?;
        map.end()
    }
}
