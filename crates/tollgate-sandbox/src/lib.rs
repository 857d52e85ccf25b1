//! The only place that starts processes: one program, run to its end, in a process group of its own.
//!
//! It knows nothing of tools. It does not isolate yet: [`level`] says so, and every record repeats it.

mod env;
mod group;
mod launch;
mod level;
mod pipes;

pub use env::base_env;
pub use launch::{Finished, Launch, LaunchError, run};
pub use level::{Level, level};
