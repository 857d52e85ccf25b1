//! Tollgate as a library: the tool layer of AI agents.
//!
//! A model can only *ask* for a tool call. Tollgate decides whether it may happen, makes it happen, and writes down
//! that it was asked for.
//!
//! ```
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//! use serde_json::json;
//! use tollgate::{Call, Caller, Cx, Risk, Surface, Tollgate, tool_fn};
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Weather {
//!     /// The city's name, such as 北京.
//!     city: String,
//! }
//!
//! # let folder = tempfile::tempdir()?;
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let gate = Tollgate::builder()
//!     .data_dir(folder.path().join("data"))
//!     .tool(
//!         tool_fn("get_weather", "Says the weather of a city.", |args: Weather, _cx: Cx| async move {
//!             Ok(format!("{}: 12 °C, cloudy", args.city))
//!         })
//!         .risk(Risk::Read),
//!     )
//!     .build()
//!     .await?;
//!
//! let caller = Caller::new("alice", "developer", Surface::Library);
//! let outcome = gate.call(&caller, Call::tool("get_weather", json!({ "city": "北京" }))).await;
//! assert_eq!(outcome.model_text(), "北京: 12 °C, cloudy");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod anchor;
mod builder;
pub mod config;
mod credentials;
mod data;
mod error;
mod logins;
mod model;
mod overlay;
mod own;
mod prompts;
mod reloads;
mod replicas;
mod servers;
mod tasks;
mod telemetry;
mod tollgate;
mod view;
mod watch;
mod webhook;

pub use anchor::{AnchorStatus, AnchorWatch, read_anchor};
pub use builder::Builder;
pub use error::Error;
pub use jiff::Timestamp;
pub use reloads::Reloads;
pub use tollgate::Tollgate;
pub use tollgate_agent as agent;
pub use tollgate_catalog::{Catalog, Lanes, Schedule};
pub use tollgate_gate as gate;
pub use tollgate_gate::{
    BudgetReport, Erasing, FailureReport, Gate, Operator, OperatorError, Retention, RungReport, SourceReport,
    SystemClock, Verdict, current_attempt,
};
pub use tollgate_guard::check as check_url;
pub use tollgate_guard::redact;
pub use tollgate_ledger as ledger;
pub use tollgate_mcp as mcp;
pub use tollgate_policy as policy;
pub use tollgate_policy::{Ask, Policy, Role};
pub use tollgate_shape as shape;
pub use tollgate_store as store;
pub use tollgate_telemetry as spans;
pub use tollgate_tools::native::{IntoToolOutput, Json, tool_fn};
pub use tollgate_types::*;
pub use tollgate_webhook as webhooks;
pub use tollgate_wire as wire;
pub use tollgate_wire::ToolChoice;
pub use view::{Selection, View};
pub use watch::{ServerWatch, server_log};

/// The isolation of what runs on this machine, as every record says it.
pub fn sandbox_level() -> &'static str {
    tollgate_sandbox::level().as_str()
}

/// The examples of the README compile.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct ReadmeDoctests;
