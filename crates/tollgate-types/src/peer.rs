//! What a running call may ask of the client that it serves: its human, its model, where it works; and what it tells that
//! client beside its result.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::{BoxFuture, ClientCapability, ErrorObject};

/// The client of a running call.
pub trait Peer: fmt::Debug + Send + Sync {
    /// Asks and waits for the answer, for as long as the surface lets a question stand. Dropping the future takes the
    /// question back.
    ///
    /// # Errors
    /// Why there is no answer.
    fn ask(&self, question: PeerQuestion) -> BoxFuture<'_, Result<Box<RawValue>, PeerError>>;

    /// Where the call began elsewhere and stood still at questions there: what their asker left for going on
    /// ([`GoesOn::With`]).
    fn resumed(&self) -> Option<Arc<RawValue>> {
        None
    }

    /// Tells what happens meanwhile. It never waits: what the client does not read, or did not ask for, is lost.
    fn log(&self, message: LogMessage);
}

/// A question to a client.
#[derive(Debug, Clone)]
pub struct PeerQuestion {
    /// What it is asked for.
    pub kind: ClientCapability,
    /// What the asker calls the question, where it has a name for it. The same name stands for the same question when the
    /// call is made again.
    pub key: Option<String>,
    /// The parameters of the request as MCP has them.
    pub params: Box<RawValue>,
    /// How the call goes on where it does not stand.
    pub goes_on: GoesOn,
}

/// What the name of a question begins with that asks for a yes to the call; which one, is said after it.
pub const APPROVAL_QUESTION: &str = "tollgate/approval/";

/// How a call that stands still at a question goes on in a process where it does not stand: a replica, or the same one after
/// it was started again.
#[derive(Debug, Clone, Default)]
pub enum GoesOn {
    /// Not at all: what it did so far is known only where it stands.
    #[default]
    Here,
    /// As a call that begins: nothing was done yet.
    Anew,
    /// As a call that begins, whose tool goes on from this.
    With(Arc<RawValue>),
}

impl PeerQuestion {
    /// A question without a name, from a value.
    pub fn new(kind: ClientCapability, params: &Value) -> Self {
        // A value is always valid JSON.
        Self::raw(kind, serde_json::value::to_raw_value(params).unwrap_or_else(|_| RawValue::NULL.to_owned()))
    }

    /// The same from parameters as they came.
    pub fn raw(kind: ClientCapability, params: Box<RawValue>) -> Self {
        Self { kind, key: None, params, goes_on: GoesOn::Here }
    }

    /// The same under a name.
    #[must_use]
    pub fn named(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }
}

/// Why a question to a client brought no answer.
#[derive(Debug, Clone, PartialEq)]
pub enum PeerError {
    /// The client does not offer it.
    Lacks(ClientCapability),
    /// The house does not let it be asked, or nobody said yes.
    Denied(Box<ErrorObject>),
    /// The client answered with an error.
    Refused {
        /// The code of JSON-RPC.
        code: i64,
        /// What it says.
        message: String,
    },
    /// The client went away, or nobody answered in time.
    Unanswered,
}

impl fmt::Display for PeerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lacks(capability) => write!(f, "the client does not offer {}", capability.as_str()),
            Self::Denied(error) => f.write_str(&error.message),
            Self::Refused { message, .. } => write!(f, "the client refused: {message}"),
            Self::Unanswered => f.write_str("nobody answered"),
        }
    }
}

/// How much a message matters (RFC 5424 §6.2.1). What matters more is greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// For who looks for a fault.
    Debug,
    /// What happens.
    Info,
    /// What happens and is worth seeing.
    Notice,
    /// What may be wrong.
    Warning,
    /// What is wrong.
    Error,
    /// A part failed.
    Critical,
    /// Somebody must act at once.
    Alert,
    /// Nothing works.
    Emergency,
}

impl LogLevel {
    /// All of them, from the least.
    pub const ALL: [Self; 8] = [
        Self::Debug,
        Self::Info,
        Self::Notice,
        Self::Warning,
        Self::Error,
        Self::Critical,
        Self::Alert,
        Self::Emergency,
    ];

    /// The name in MCP.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Notice => "notice",
            Self::Warning => "warning",
            Self::Error => "error",
            Self::Critical => "critical",
            Self::Alert => "alert",
            Self::Emergency => "emergency",
        }
    }

    /// The level of this name.
    ///
    /// ```
    /// use tollgate_types::LogLevel;
    ///
    /// assert!(LogLevel::read("error") > LogLevel::read("info") && LogLevel::read("loud").is_none());
    /// ```
    pub fn read(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.as_str() == name)
    }
}

/// What a call tells its client meanwhile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LogMessage {
    /// How much it matters.
    pub level: LogLevel,
    /// Which part of the asked speaks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logger: Option<String>,
    /// What it says: a text, or any value.
    pub data: Value,
}
