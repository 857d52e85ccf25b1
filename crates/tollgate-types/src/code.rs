//! The one list of codes. `docs/errors.md` is generated from it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// It happened.
    Done,
    /// It did not happen, by decision.
    Refused,
    /// It was tried and did not work.
    Failed,
    /// It waits for a human.
    Waiting,
    /// It was started, and nobody knows how it ended.
    Unknown,
}

impl Status {
    /// The name in the ledger and in outcome objects.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Refused => "refused",
            Self::Failed => "failed",
            Self::Waiting => "waiting",
            Self::Unknown => "unknown",
        }
    }
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal, $status:ident, $retryable:literal, $exit:literal;)+) => {
        /// Why an attempt did not end as `done`. The list is closed; what a tool says of itself is its `tool_code`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum Code {
            $($(#[doc = $doc])+ #[serde(rename = $name)] $variant),+
        }

        impl Code {
            /// Every code, in the order of the documentation.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            /// The name on every wire and in the ledger.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }

            /// The status that this code belongs to.
            pub fn status(self) -> Status {
                match self { $(Self::$variant => Status::$status),+ }
            }

            /// Whether asking again unchanged can work. For failed calls the tool may say otherwise.
            pub fn is_retryable(self) -> bool {
                match self { $(Self::$variant => $retryable),+ }
            }

            /// The exit status of the command line.
            pub fn exit(self) -> u8 {
                match self { $(Self::$variant => $exit),+ }
            }

            /// What it means, for people.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+).trim_ascii_start()),+ }
            }
        }
    };
}

codes! {
    /// No tool of this name exists for this caller.
    UnknownTool = "unknown_tool", Refused, false, 3;
    /// The tool exists, but not for this caller. Only the ledger says so; the caller is told `unknown_tool`.
    Forbidden = "forbidden", Refused, false, 3;
    /// The arguments are not JSON that can be used without guessing.
    InvalidJson = "invalid_json", Refused, false, 3;
    /// The arguments do not fit the tool's schema or its own check.
    InvalidArguments = "invalid_arguments", Refused, false, 3;
    /// Policy forbids this call.
    Denied = "denied", Refused, false, 3;
    /// A human said no.
    ApprovalRejected = "approval_rejected", Refused, false, 3;
    /// Nobody answered in time.
    ApprovalExpired = "approval_expired", Refused, false, 3;
    /// The idempotency key was used with other arguments, its first call is still under way, or what an undo would take back
    /// is not as the call left it.
    Conflict = "conflict", Refused, false, 3;
    /// The same calls bring the same results again and again.
    NoProgress = "no_progress", Refused, false, 3;
    /// A budget of rounds, calls, tokens or money is used up.
    BudgetExceeded = "budget_exceeded", Refused, false, 3;
    /// The tool is switched off, quarantined, or its server is down.
    Unavailable = "unavailable", Refused, true, 3;
    /// Too many calls; `retry_after_ms` says when to ask again.
    RateLimited = "rate_limited", Refused, true, 3;
    /// A human must say yes first.
    ApprovalRequired = "approval_required", Waiting, false, 4;
    /// Every other way failed; a human may give the result.
    InterventionRequired = "intervention_required", Waiting, false, 4;
    /// The tool did not finish in its time.
    Timeout = "timeout", Failed, true, 1;
    /// A server that the tool needs failed.
    UpstreamError = "upstream_error", Failed, true, 1;
    /// The tool says that it failed; `tool_code` and `hint` are its own words.
    ToolError = "tool_error", Failed, false, 1;
    /// The tool's result does not fit its own output schema.
    InvalidOutput = "invalid_output", Failed, false, 1;
    /// The tool gave more than may be kept.
    ResultTooLarge = "result_too_large", Failed, false, 1;
    /// The asker stopped waiting.
    Cancelled = "cancelled", Failed, true, 1;
    /// It was started and nobody knows whether it happened. Check before asking again.
    OutcomeUnknown = "outcome_unknown", Unknown, false, 5;
    /// The record could not be written, so nothing was done.
    AuditUnavailable = "audit_unavailable", Failed, true, 6;
    /// The isolation that the tool requires cannot be had here.
    SandboxUnavailable = "sandbox_unavailable", Failed, true, 6;
    /// A fault of Tollgate's own.
    Internal = "internal", Failed, true, 6;
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
