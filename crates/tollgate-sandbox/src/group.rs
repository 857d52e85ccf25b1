//! A process group: the program that was started and every child of it that did not leave the group.

use std::io;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessGroup};
use rustix::process::{Pid, Signal, test_kill_process_group};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::time::{sleep, timeout};
use tollgate_types::Progress;

use crate::launch::Spawn;
use crate::parent;
use crate::pipes::Pipes;

/// How long a killed program may take to be gone before we go on without it.
const KILL_WAIT_MS: u64 = 1_000;
/// The same for its killed children, of which we cannot tell the dying from the dead that nobody buries.
const CHILDREN_KILL_WAIT_MS: u64 = 50;
/// Between two looks whether the group is gone.
const KILL_POLL_MS: u64 = 1;

/// A running group. Dropping it kills what is left of it.
#[derive(Debug)]
pub(crate) struct Group {
    child: Box<dyn ChildWrapper>,
    id: Option<Pid>,
    gone: bool,
}

impl Group {
    /// Starts the program as the leader of a new group. It does not outlive this process.
    pub(crate) async fn start(spawn: Spawn) -> io::Result<Self> {
        parent::start(move || {
            let mut command = CommandWrap::with_new(&spawn.program, |command| {
                command
                    .args(&spawn.args)
                    .current_dir(&spawn.cwd)
                    .env_clear()
                    .envs(&spawn.env)
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped());
                #[cfg(target_os = "linux")]
                crate::linux::die_with_parent(command);
            });
            let child = command.wrap(ProcessGroup::leader()).spawn()?;
            let id = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
            Ok(Self { child, id, gone: false })
        })
        .await
    }

    /// The group, which is named after its leader.
    pub(crate) fn id(&self) -> Option<Pid> {
        self.id
    }

    /// The three pipes, once.
    pub(crate) fn take_pipes(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdin().take(), self.child.stdout().take(), self.child.stderr().take())
    }

    /// The program's ends of its three pipes. They can be taken once.
    pub(crate) fn pipes(
        &mut self,
        stdin: Vec<u8>,
        stdout_bytes_max: usize,
        stderr_bytes_max: usize,
        progress: Progress,
    ) -> Pipes {
        let (input, output, errors) = self.take_pipes();
        Pipes::new(input, output, errors, stdin, stdout_bytes_max, stderr_bytes_max, progress)
    }

    /// Waits for the program itself; its children may go on.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Asks every process of the group to stop.
    pub(crate) fn terminate(&self) {
        // An error means that nobody is left to ask.
        let _ = self.child.signal(Signal::TERM.as_raw());
    }

    /// Kills every process of the group and waits until none is left.
    pub(crate) async fn kill(&mut self) {
        self.gone = true;
        let nobody_was_left = self.child.start_kill().is_err();
        if timeout(Duration::from_millis(KILL_WAIT_MS), self.child.wait()).await.is_err() {
            // It is in uninterruptible sleep, where nothing can be done to it.
            tracing::warn!(group = self.id.map(Pid::as_raw_nonzero), "a killed program is still there");
        }
        let children_gone = async {
            while !nobody_was_left && self.id.is_some_and(|id| test_kill_process_group(id).is_ok()) {
                sleep(Duration::from_millis(KILL_POLL_MS)).await;
            }
        };
        let _ = timeout(Duration::from_millis(CHILDREN_KILL_WAIT_MS), children_gone).await;
    }
}

impl Group {
    /// Kills every process of the group and waits for none.
    pub(crate) fn kill_now(&mut self) {
        if !std::mem::replace(&mut self.gone, true) {
            let _ = self.child.start_kill();
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill_now();
    }
}
