//! What went wrong, as the model, the client and the operator read it.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::text::{Flaw, Language, Made, Text};
use crate::{ClientCapability, Code};

/// One thing that is wrong with the arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Violation {
    /// Where: a JSON Pointer (RFC 6901) into the arguments; empty for the whole.
    pub path: String,
    /// What is wrong, a lowercase fragment.
    pub message: String,
    /// What would be right, such as a type, an enumeration or a range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Value>,
    /// Keys that the schema does not know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
    /// Keys that the schema knows at this place, where that helps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepted: Vec<String>,
    /// What the message was made of.
    #[serde(skip)]
    pub made: Made<Flaw>,
}

impl Violation {
    /// A violation at a JSON Pointer.
    pub fn new(path: impl Into<String>, message: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            message: message.into(),
            expected: None,
            unknown: Vec::new(),
            accepted: Vec::new(),
            made: Made::default(),
        }
    }
}

/// The error object: what the model sees when a call did not end as `done`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ErrorObject {
    /// Always false, so that a reader needs no schema to tell it from a result.
    pub ok: bool,
    /// The code.
    pub error: Code,
    /// What happened, a lowercase fragment.
    pub message: String,
    /// Whether asking again unchanged can work.
    pub retryable: bool,
    /// What to do next.
    pub hint: Option<String>,
    /// When to ask again, in milliseconds from now.
    pub retry_after_ms: Option<u64>,
    /// The tool's own code.
    pub tool_code: Option<String>,
    /// Each single thing that is wrong.
    #[serde(default)]
    pub details: Vec<Violation>,
    /// What the asker's client would have to offer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_lacks: Option<ClientCapability>,
    /// Whether message, hint or code say what others wrote: data, and never instructions.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outside: bool,
    /// What message and hint were made of.
    #[serde(skip)]
    pub made: Made<Text>,
}

impl ErrorObject {
    /// An error with the code's own retryability.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            ok: false,
            error: code,
            message: message.into(),
            retryable: code.is_retryable(),
            hint: None,
            retry_after_ms: None,
            tool_code: None,
            details: Vec::new(),
            client_lacks: None,
            outside: false,
            made: Made::default(),
        }
    }

    /// The same error with advice.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same error with its single parts.
    #[must_use]
    pub fn with_details(mut self, details: Vec<Violation>) -> Self {
        self.details = details;
        // A text may say the first of them.
        self.render(Language::En);
        self
    }
}

/// What an executor says when it could not do it.
///
/// ```
/// use tollgate_types::ToolError;
///
/// let error = ToolError::new("no product has the SKU `A1O3`")
///     .with_tool_code("SKU_NOT_FOUND")
///     .with_hint("the letter O may stand for the digit 0: ask for `A103`");
/// assert!(!error.retryable);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct ToolError {
    /// The code; `tool_error` unless the executor knows better.
    pub code: Code,
    /// What happened, a lowercase fragment without secrets.
    pub message: String,
    /// Whether the same call can work later.
    pub retryable: bool,
    /// What to do next.
    pub hint: Option<String>,
    /// The tool's own code.
    pub tool_code: Option<String>,
    /// Each single thing that is wrong.
    pub details: Vec<Violation>,
    /// What the asker's client would have to offer.
    pub client_lacks: Option<ClientCapability>,
    /// That it changed nothing: the same call may be made anew, also under its idempotency key.
    pub nothing_happened: bool,
    /// When the server wants to be asked again, in milliseconds from now.
    pub retry_after_ms: Option<u64>,
    /// Whether message, hint or code say what somebody else wrote: a server, a program.
    pub outside: bool,
}

impl ToolError {
    /// A `tool_error`.
    pub fn new(message: impl Into<String>) -> Self {
        Self::with_code(Code::ToolError, message)
    }

    /// An error of another code.
    pub fn with_code(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            retryable: code.is_retryable(),
            hint: None,
            tool_code: None,
            details: Vec::new(),
            client_lacks: None,
            nothing_happened: false,
            retry_after_ms: None,
            outside: false,
        }
    }

    /// The tool needs something of the asker's client that it does not offer.
    pub fn client_lacks(capability: ClientCapability) -> Self {
        let name = capability.as_str();
        let error = Self {
            client_lacks: Some(capability),
            retryable: false,
            ..Self::with_code(Code::Unavailable, format!("the client does not offer `{name}`, which the tool needs"))
        };
        error.with_hint(format!("ask from a client that declares the capability `{name}`"))
    }

    /// The arguments are wrong at one place, found by the tool's own check.
    pub fn invalid(path: impl Into<String>, message: impl Into<String>) -> Self {
        let message = message.into();
        let mut error = Self::with_code(Code::InvalidArguments, message.clone());
        error.details.push(Violation::new(path, message));
        error
    }

    /// The same error with advice.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same error with the tool's own code.
    #[must_use]
    pub fn with_tool_code(mut self, code: impl Into<String>) -> Self {
        self.tool_code = Some(code.into());
        self
    }

    /// The same error, which came before anything was changed.
    #[must_use]
    pub fn nothing_happened(mut self) -> Self {
        self.nothing_happened = true;
        self
    }

    /// The same error, after which the server wants to be left alone for so long.
    #[must_use]
    pub fn retry_after(mut self, wait: Option<Duration>) -> Self {
        self.retry_after_ms = wait.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX));
        self
    }

    /// The same error, which says what a server or a program wrote.
    #[must_use]
    pub fn from_outside(mut self) -> Self {
        self.outside = true;
        self
    }

    /// The same error, worth another try.
    #[must_use]
    pub fn retryable(mut self) -> Self {
        self.retryable = true;
        self
    }
}

impl From<ToolError> for ErrorObject {
    fn from(error: ToolError) -> Self {
        Self {
            ok: false,
            error: error.code,
            message: error.message,
            retryable: error.retryable,
            hint: error.hint,
            retry_after_ms: error.retry_after_ms,
            tool_code: error.tool_code,
            details: error.details,
            client_lacks: error.client_lacks,
            outside: error.outside,
            made: Made::default(),
        }
    }
}
