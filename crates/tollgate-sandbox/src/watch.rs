//! Who outlives us for a moment: a shell in a process group of its own, which waits for the end of its input and then
//! kills what we left behind. Its input ends when we die, however that happens.

use std::process::Stdio;
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap, ProcessGroup};
use rustix::process::Pid;
use tokio::process::ChildStdin;
use tokio::time::timeout;

use crate::mark::Mark;
use crate::parent;

/// `$1` is the group, `$2` the marked variable. Where there is no `grep`, only the group is killed.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM
read -r _
kill -s KILL -- "-$1"
for file in $(grep -a -l -s -F -- "$2" /proc/[0-9]*/environ); do
    process=${file#/proc/}
    kill -s KILL -- "${process%/environ}"
done
"#;
const KILL_WAIT_MS: u64 = 1_000;

/// A watcher at work. Dropping it closes its input: it does what it would do if we died, and ends.
#[derive(Debug)]
pub(crate) struct Watch {
    child: Box<dyn ChildWrapper>,
    /// Held open for as long as the watcher should wait.
    _input: Option<ChildStdin>,
}

impl Watch {
    /// Starts a watcher. Without a shell there is none, and a killed Tollgate then leaves descendants behind.
    pub(crate) async fn start(group: Pid, mark: &Mark) -> Option<Self> {
        let variable = format!("{}={}", Mark::NAME, mark.as_str());
        let group = group.as_raw_nonzero().to_string();
        let started = parent::start(move || {
            let mut command = CommandWrap::with_new("/bin/sh", |command| {
                command
                    .args(["-c", SCRIPT, "tollgate-watch", &group, &variable])
                    .current_dir("/")
                    .env_clear()
                    .env("PATH", "/usr/bin:/bin")
                    .stdin(Stdio::piped())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null());
            });
            let mut child = command.wrap(ProcessGroup::leader()).spawn()?;
            let input = child.stdin().take();
            Ok(Self { child, _input: input })
        });
        match started.await {
            Ok(watch) => Some(watch),
            Err(error) => {
                tracing::warn!(%error, "no watcher: were this process killed, descendants of a program could stay");
                None
            }
        }
    }

    /// Ends it without harm to anybody.
    pub(crate) async fn stop(mut self) {
        let _ = self.child.start_kill();
        let _ = timeout(Duration::from_millis(KILL_WAIT_MS), self.child.wait()).await;
    }
}
