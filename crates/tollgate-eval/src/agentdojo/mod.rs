//! AgentDojo: tasks of a user, and injections that stand in what tools return.
//!
//! No model takes part. A scripted agent makes the calls that solve the user's task; as soon as an injection reaches it
//! through a result, it makes the injection's calls as well, and once more at the end. Both pass a real gate with a
//! written policy. The tools are doubles: they return what AgentDojo's own tools returned when the tasks were recorded
//! (`scripts/agentdojo_record.py`), with the injection where AgentDojo puts it.

mod data;
mod double;
mod human;
mod play;
mod report;

pub use data::{Recorded, RecordedCall, RecordedSuite, RecordedTask, RecordedTool, Source};
pub use play::{ReplayError, Setup, replay};
pub use report::{Attacks, Benign, Score, table};
