//! The words of Tollgate as types, and the ports between its parts.
//!
//! Everything here is data and traits. Nothing in this crate does I/O, spawns a task or reads the clock, so that each
//! part of the house can be tested with the real types and without the house.

mod call;
mod changes;
mod client;
mod code;
mod cost;
mod error;
mod idempotency;
mod ids;
mod level;
pub mod limits;
mod observer;
mod outcome;
mod output;
mod peer;
mod port;
mod quota;
mod raw;
mod repair;
mod resilience;
mod schema;
mod secret;
mod task;
mod text;
mod text_input;
mod tool;
mod trace;
mod undo;
pub mod visible;

pub use call::{Call, CallKind, Caller, ObservedCall, Said, Surface};
pub use changes::{Changed, Changes, Owner, Unfollowed, Watch};
pub use client::{ClientCapabilities, ClientCapability};
pub use code::{Code, Status};
pub use cost::{ArgumentCost, Cost, ResultCost, Units, UnitsError};
pub use error::{ErrorObject, ToolError, Violation};
pub use idempotency::{HandedKey, Idempotency};
pub use ids::{ApprovalId, AttemptId, BootId, CallId, Digest, Pin, uuid_v7};
pub use level::{Category, Permission, Risk};
pub use observer::{Observed, Observer, Stage, Staged};
pub use outcome::{CallResult, Content, End, Outcome, Repair, ToolOutput, Truncated, Waiting, WaitingKind};
pub use output::{
    CutAt, Mismatch, Output, OutputFormat, OutsideMark, Summary, SurfaceLimits, TableForm, TimeForm, Unit,
};
pub use peer::{APPROVAL_QUESTION, GoesOn, LogLevel, LogMessage, Peer, PeerError, PeerQuestion};
pub use port::{
    ApprovalAnswer, ApprovalChannel, ApprovalQuestion, BoxFuture, Clock, Cx, Door, Following, Member, Progress,
    ProgressUpdate, Summarize, Supply, Tool, Workspace,
};
pub use quota::{QuotaStore, Rate, Turn};
pub use raw::Raw;
pub use repair::{RepairLevel, RepairRule};
pub use resilience::{
    BreakerRule, DEFAULT_STRATEGY, Fallback, FromPointer, FromTemplate, Literal, MappedArgument, NETWORK_ERROR,
    OnError, Resilience, Retry, RetryBudget, Rungs, SourceRules, Strategy, StrategyWord,
};
pub use schema::{input_schema, output_schema};
pub use secret::Secret;
pub use task::{KeptTask, TaskShelf, TaskSupport};
pub use text::{Flaw, Language, MAY_HAVE_HAPPENED, Made, Parameters, Text, alternatives, meant};
pub use text_input::{Grammar, GrammarSyntax, TextInput};
pub use tool::{
    Annotations, Concurrency, Dialect, Execution, HEADER_KEYWORD, Security, Source, SourceKind, ToolDefinition,
};
pub use trace::{SpanId, TraceContext, TraceId};
pub use undo::{BeforeImage, BeforeImages, Compensation, FileImage, RESTORE_FILE, Undo};

/// A cooperative stop signal that a call, its tool and its surface share.
pub use tokio_util::sync::CancellationToken;
