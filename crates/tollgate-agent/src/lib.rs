//! The agent loop over model servers and one [`Door`](tollgate_types::Door).
//!
//! A model answers in turns; each call of a turn passes the door, and its result goes back to the model. A [`Model`]
//! is a server over HTTP ([`ModelClient`]) or a recording of one ([`Replay`]). Nothing here runs a
//! tool or decides whether one may run.
//!
//! A [`Session`] keeps the conversation in the store, step by step, so that another process can go on with it.

mod hosted;
mod mask;
mod model;
mod record;
mod replay;
mod run;
mod session;
mod tokens;

pub use hosted::Hosted;
pub use model::{Model, ModelClient, ModelConfig, ModelError, ModelRequest, Timeouts};
pub use record::{RecordError, Recorder, ResultRecord};
pub use replay::{Replay, ReplayError};
pub use run::{
    Agent, Answer, Compacted, Compaction, Context, Cost, Difference, Event, Exceeded, Mark, OpenQuestion, Options,
    Price, React, Round, RunBudget, RunError, STRATEGIES, Search, Spent, Strategy, ToolTally, strategy,
};
pub use session::{ExportForm, Listed, Progress, Session, SessionError, Sessions, Shown, ShownCall, ShownStep, Start};
pub use tokens::TokenSource;
