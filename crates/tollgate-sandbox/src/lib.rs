//! The only place that starts processes: one program, [`run`] to its end or [`spawn`]ed until it is told to stop, in a
//! process group of its own. No program outlives this process, however it ends.
//!
//! It knows nothing of tools. It does not isolate yet: [`level`] says so, and every record repeats it.

mod env;
mod group;
mod launch;
mod level;
#[cfg(target_os = "linux")]
mod linux;
mod mark;
mod parent;
mod pipes;
mod spawn;
mod watch;

pub use env::base_env;
pub use launch::{Finished, Launch, LaunchError, Spawn, run};
pub use level::{Level, level};
pub use spawn::{Child, ChildPipes, spawn};
