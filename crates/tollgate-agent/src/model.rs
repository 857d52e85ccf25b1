//! What the loop asks of a model, and why a model may not answer.

mod client;
mod hide;

use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tollgate_guard::client::ClientError;
use tollgate_guard::redact::Redactor;
use tollgate_types::{BoxFuture, Code, ErrorObject, Secret, limits};
use tollgate_wire::{Lowered, Message, Quirks, Target, ToolChoice, Turn, WireFault};

pub use client::ModelClient;

use crate::hosted::Hosted;
use crate::record::ResultRecord;
use crate::replay::ReplayError;

/// How a model server is reached and asked.
#[derive(Debug, Clone)]
pub struct ModelConfig {
    /// The address before the dialect's own path, such as `http://127.0.0.1:8000/v1`.
    pub base_url: String,
    /// How it is spoken to, and in which form it takes tools.
    pub target: Target,
    /// The model's name at the server.
    pub model: String,
    /// The key; it goes into the header where the dialect wants it and nowhere else.
    pub api_key: Option<Secret>,
    /// More headers. Their values are treated as secrets, but for those of fewer than four bytes.
    pub headers: Vec<(String, Secret)>,
    /// The most tokens of one turn.
    pub max_tokens: Option<u32>,
    /// The sampling temperature.
    pub temperature: Option<f64>,
    /// Whether the model may ask for several calls at once; nothing leaves it to the server.
    pub parallel: Option<bool>,
    /// Whether it can be shown the images of a result; unsaid, where the dialect has a place for them.
    pub images: Option<bool>,
    /// Whether the server shall keep each request for the next one, where it must be asked to.
    pub cache: bool,
    /// Whether the server may keep replies (Responses); nothing leaves it to the server.
    pub store: Option<bool>,
    /// Whether to go on from the last reply that the server keeps, instead of sending the whole conversation (Responses).
    pub stateful: bool,
    /// More fields of each request's body. They never replace one that stands there.
    pub extra: Map<String, Value>,
    /// Whether to ask for a stream. Either form of reply is read.
    pub stream: bool,
    /// How often a failure that may pass is tried again.
    pub max_retries: u32,
    /// How long it is waited for.
    pub timeouts: Timeouts,
    /// What a server of Chat Completions wants otherwise.
    pub quirks: Quirks,
    /// Tools that the provider itself runs. Each is offered only to a caller whom the door permits it.
    pub hosted: Vec<Hosted>,
    /// What takes secrets out of the conversation before the server sees it; none leaves it as it is.
    pub redactor: Option<Redactor>,
}

/// How long a model server is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Until there is a connection.
    pub connect: Duration,
    /// From asking to the head of the reply.
    pub first_byte: Duration,
    /// Between two pieces of the reply.
    pub idle: Duration,
    /// From asking to the end of the reply, with every try.
    pub total: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_millis(limits::HTTP_CONNECT_TIMEOUT_MS),
            first_byte: Duration::from_millis(limits::MODEL_IDLE_TIMEOUT_MS),
            idle: Duration::from_millis(limits::MODEL_IDLE_TIMEOUT_MS),
            total: Duration::from_millis(limits::MODEL_TOTAL_TIMEOUT_MS),
        }
    }
}

impl ModelConfig {
    /// A server with every default.
    pub fn new(base_url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            target: Target::default(),
            model: model.into(),
            api_key: None,
            headers: Vec::new(),
            max_tokens: None,
            temperature: None,
            parallel: None,
            images: None,
            cache: false,
            store: None,
            stateful: false,
            extra: Map::new(),
            stream: true,
            max_retries: limits::MODEL_RETRIES,
            timeouts: Timeouts::default(),
            quirks: Quirks::default(),
            hosted: Vec::new(),
            redactor: None,
        }
    }
}

/// What a model is asked in one round.
#[derive(Debug, Clone, Copy)]
pub struct ModelRequest<'a> {
    /// The conversation, sound.
    pub messages: &'a [Message],
    /// Whether something was taken out of it since the last request, so that what a server keeps of it is too long.
    pub is_shortened: bool,
    /// The tools.
    pub tools: &'a Lowered,
    /// The tools that the provider runs.
    pub hosted: &'a [Box<RawValue>],
    /// Whether it may call.
    pub tool_choice: &'a ToolChoice,
}

/// Something that answers in turns.
pub trait Model: Send + Sync {
    /// Its name, for records and events.
    fn name(&self) -> &str;

    /// What tools are lowered for.
    fn target(&self) -> Target {
        Target::default()
    }

    /// Whether it can be shown the images of a result.
    fn takes_images(&self) -> bool {
        false
    }

    /// The tools that its provider runs.
    fn hosted(&self) -> &[Hosted] {
        &[]
    }

    /// One turn. New text goes to `on_text` as it comes. Dropping the future stops the request.
    fn turn<'a>(
        &'a self,
        request: ModelRequest<'a>,
        on_text: &'a mut (dyn FnMut(&str) + Send),
    ) -> BoxFuture<'a, Result<Turn, ModelError>>;

    /// What a call brought when these turns were recorded, for a model that is a recording.
    fn recorded(&self, call_id: &str) -> Option<ResultRecord> {
        let _ = call_id;
        None
    }
}

/// Why a model did not answer. No variant carries a key.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ModelError {
    /// The configuration cannot work.
    #[error("the model server cannot be asked: {reason}")]
    Config {
        /// What is wrong with it.
        reason: String,
    },
    /// Nobody listens there.
    #[error("the model server is unreachable: {reason}")]
    Unreachable {
        /// What the system said.
        reason: String,
    },
    /// It went silent.
    #[error("the model server at `{origin}` was silent for {ms} ms")]
    TimedOut {
        /// Which server.
        origin: String,
        /// How long it was waited for.
        ms: u64,
    },
    /// It did not come to an end.
    #[error("the model server at `{origin}` was not done within {ms} ms")]
    TooLong {
        /// Which server.
        origin: String,
        /// How long it was waited for.
        ms: u64,
    },
    /// It hung up in the middle.
    #[error("the model server broke off in the middle of its reply: {reason}")]
    Closed {
        /// What the connection said.
        reason: String,
    },
    /// It sent something else, such as a web page.
    #[error("the model server answered `{content_type}` instead of a model's reply: `{excerpt}`")]
    NotJson {
        /// The kind it claims.
        content_type: String,
        /// How it begins.
        excerpt: String,
    },
    /// It refused.
    #[error("the model server answered with HTTP {status}: {message}")]
    Status {
        /// The HTTP status.
        status: u16,
        /// Its words.
        message: String,
        /// When it wants to be asked again, in milliseconds.
        retry_after_ms: Option<u64>,
    },
    /// It no longer has the reply that the request goes on from.
    #[error("the model server no longer has the reply that this goes on from: {message}")]
    PreviousGone {
        /// Its words.
        message: String,
    },
    /// Its reply cannot be used.
    #[error("the model server's reply cannot be used: {fault}")]
    Malformed {
        /// What is wrong with it.
        fault: WireFault,
    },
    /// It said nothing at all.
    #[error("the model answered with neither text nor a call (`{finish}`)")]
    Empty {
        /// Why it says it stopped.
        finish: String,
    },
    /// The recording has no answer.
    #[error(transparent)]
    Replay(#[from] ReplayError),
}

impl ModelError {
    /// Whether asking again at once, or soon, can work.
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Closed { .. } => true,
            Self::Status { status, .. } => matches!(status, 408 | 429 | 500 | 502 | 503 | 504 | 529),
            Self::Malformed { fault: WireFault::Server { .. } | WireFault::Ended { is_retryable: true, .. } } => true,
            Self::Config { .. }
            | Self::TimedOut { .. }
            | Self::TooLong { .. }
            | Self::NotJson { .. }
            | Self::Malformed { .. }
            | Self::PreviousGone { .. }
            | Self::Empty { .. }
            | Self::Replay(_) => false,
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Config { .. } => "correct `base_url` and the headers of this model in the configuration",
            Self::Unreachable { reason, .. } if reason.contains("certificate") => {
                "nobody vouches for the server's certificate: give it one that the system trusts, or add its authority to the system's"
            }
            Self::Unreachable { .. } => "start the model server, or correct `base_url` in the configuration (`http://` where the server has no TLS)",
            Self::TimedOut { .. } => "see whether the server is overloaded or still loading the model, then ask again",
            Self::TooLong { .. } => "ask for less, or raise `total_timeout_ms` of this model",
            Self::Closed { .. } => "ask again; if it happens again, look into the server's log",
            Self::NotJson { .. } => {
                "check `base_url`: it usually ends in `/v1`, and a proxy may stand before the server"
            }
            Self::Status { status: 401 | 403, .. } => "check the key that `api_key` of this model refers to",
            Self::Status { status: 404, .. } => "check `base_url` (it usually ends in `/v1`) and the name in `model`",
            Self::Status { status: 429, .. } => "wait, or ask for a higher quota",
            Self::Status { status: 400 | 422, .. } => {
                "the server does not take this request: read its words; some models take no tools"
            }
            Self::Status { status: 100..400, .. } => {
                "this is no model's answer: check `base_url`, which is asked as it stands and follows no redirect"
            }
            Self::Status { .. } => "ask again later; if it stays, look into the server's log",
            Self::Malformed { fault: WireFault::Ended { hint, .. } } => hint,
            Self::PreviousGone { .. } => "ask again: the whole conversation is sent then",
            Self::Malformed { fault: WireFault::Server { .. } } => {
                "these are the server's own words: the key, the quota or the name in `model` may be wrong; else ask again later"
            }
            Self::Malformed { fault: WireFault::TooLarge { .. } } => {
                "ask for less at once, set `max_tokens`, or see why the server does not come to an end"
            }
            Self::Malformed { .. } => {
                "check that `api` of this model names what the server speaks (`chat`, `responses`, `anthropic`, `gemini`)"
            }
            Self::Empty { .. } => "ask again, or in other words",
            Self::Replay(error) => return error.hint(),
        }
        .to_owned()
    }
}

impl From<ModelError> for ErrorObject {
    fn from(error: ModelError) -> Self {
        let code = match &error {
            ModelError::TimedOut { .. } | ModelError::TooLong { .. } => Code::Timeout,
            ModelError::Status { status: 429, .. } => Code::RateLimited,
            _ => Code::UpstreamError,
        };
        let retry_after_ms = match &error {
            ModelError::Status { retry_after_ms, .. } => *retry_after_ms,
            _ => None,
        };
        let retryable = error.is_retryable() || code == Code::Timeout;
        Self { retryable, retry_after_ms, ..Self::new(code, error.to_string()).with_hint(error.hint()) }
    }
}

impl From<ClientError> for ModelError {
    fn from(error: ClientError) -> Self {
        let reason = error.to_string();
        match error {
            ClientError::BadUrl { .. } | ClientError::BadRequest { .. } | ClientError::NotAllowed { .. } => {
                Self::Config { reason }
            }
            ClientError::Connect { .. } => Self::Unreachable { reason },
            ClientError::TimedOut { origin, ms } => Self::TimedOut { origin, ms },
            ClientError::Closed { .. } => Self::Closed { reason },
            ClientError::TooLarge { limit_bytes } => {
                Self::Malformed { fault: WireFault::TooLarge { limit: limit_bytes, unit: "bytes" } }
            }
        }
    }
}

impl From<WireFault> for ModelError {
    fn from(fault: WireFault) -> Self {
        match fault {
            WireFault::Closed => Self::Closed { reason: fault.to_string() },
            WireFault::PreviousGone { message } => Self::PreviousGone { message },
            WireFault::Malformed { .. }
            | WireFault::Server { .. }
            | WireFault::Ended { .. }
            | WireFault::TooLarge { .. }
            | WireFault::Request { .. } => Self::Malformed { fault },
        }
    }
}
