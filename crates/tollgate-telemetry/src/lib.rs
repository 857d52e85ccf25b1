//! Calls as OpenTelemetry spans, sent by OTLP over HTTP. Every call is a span `execute_tool {name}` after the GenAI
//! conventions, with a child for each stage; the spans of a call are made and sent when it is over, off its path.
//!
//! Nothing here is started unless somebody configured where spans go. A collector that is slow or not there costs spans,
//! and no call.

mod environment;
mod export;
mod queue;
mod sampler;
mod span;

pub use environment::Environment;
pub use queue::{Counts, Settings, Telemetry, TelemetryError};
pub use sampler::Sampler;
