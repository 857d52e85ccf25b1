//! A program that runs until it is told to stop: its three pipes are the caller's, its end and that of its descendants
//! is ours, also when this process is killed.

use std::process::ExitStatus;
use std::time::Duration;

use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::time::timeout;
use tollgate_types::limits;

use crate::group::Group;
use crate::launch::{LaunchError, Spawn, not_started};
use crate::mark::Mark;
use crate::watch::Watch;

/// A running program and its descendants. Dropping it kills them all.
#[derive(Debug)]
pub struct Child {
    group: Group,
    mark: Mark,
    watch: Option<Watch>,
    is_stopped: bool,
}

/// The caller's ends of a program's pipes.
#[derive(Debug)]
pub struct ChildPipes {
    /// What the program reads. Dropping it is the end of its input.
    pub stdin: ChildStdin,
    /// What the program prints.
    pub stdout: ChildStdout,
    /// What the program complains of. It must be read, or the program blocks.
    pub stderr: ChildStderr,
}

/// Starts a program that runs until it is told to stop.
///
/// It leads a process group of its own, and carries a mark in its environment (`TOLLGATE_SPAWN`) by which descendants
/// that left the group are found. When this process dies, the kernel kills the program, and a watcher (a shell that
/// waits for our end of its pipe to close) kills the rest.
///
/// # Errors
/// When the program could not be started.
pub async fn spawn(mut spawn: Spawn) -> Result<(Child, ChildPipes), LaunchError> {
    let mark = Mark::new();
    spawn.env.insert(Mark::NAME.to_owned(), mark.as_str().to_owned());
    let (program, cwd) = (spawn.program.clone(), spawn.cwd.clone());
    let mut group = Group::start(spawn).await.map_err(|source| not_started(&program, &cwd, source))?;
    let (Some(stdin), Some(stdout), Some(stderr)) = group.take_pipes() else {
        let source = std::io::Error::other("its pipes are not there");
        return Err(LaunchError::NotStarted { program, source });
    };
    let watch = match group.id() {
        Some(id) => Watch::start(id, &mark).await,
        None => None,
    };
    Ok((Child { group, mark, watch, is_stopped: false }, ChildPipes { stdin, stdout, stderr }))
}

impl Child {
    /// The program's process id, while it runs.
    pub fn id(&self) -> Option<u32> {
        self.group.id().and_then(|id| u32::try_from(id.as_raw_nonzero().get()).ok())
    }

    /// Waits for the program itself to end; its descendants may go on. May be dropped and asked again.
    ///
    /// # Errors
    /// When the system does not say.
    pub async fn wait(&mut self) -> std::io::Result<ExitStatus> {
        self.group.wait().await
    }

    /// Stops the program and all its descendants: `grace` to end by itself (its input should be closed by now), then
    /// `SIGTERM` to the group, then `SIGKILL` after [`limits::PROGRAM_GRACE_MS`] to whatever is left, in the group or
    /// out of it. Says how the program ended, where that is known.
    pub async fn stop(mut self, grace: Duration) -> Option<ExitStatus> {
        let mut ended = timeout(grace, self.group.wait()).await.ok().and_then(Result::ok);
        if ended.is_none() {
            self.group.terminate();
            let last = Duration::from_millis(limits::PROGRAM_GRACE_MS);
            ended = timeout(last, self.group.wait()).await.ok().and_then(Result::ok);
        }
        self.group.kill().await;
        self.mark.kill_all();
        self.is_stopped = true;
        if let Some(watch) = self.watch.take() {
            watch.stop().await;
        }
        ended
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if !self.is_stopped {
            self.group.kill_now();
            self.mark.kill_all();
        }
    }
}
