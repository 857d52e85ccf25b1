//! Runs one program to its end: feeds it, reads it, and stops its whole process group when it is over.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use tollgate_types::{CancellationToken, Progress, limits};

use crate::group::Group;
use crate::pipes::{Pipes, PumpError};

/// How long children may go on printing after the program itself has ended.
const PIPE_GRACE_MS: u64 = 200;

/// One program to start with [`spawn`](crate::spawn).
#[derive(Debug, Clone)]
pub struct Spawn {
    /// A path, or a name that is looked up in the `PATH` of `env`.
    pub program: String,
    /// Its arguments, without its own name.
    pub args: Vec<String>,
    /// Where it runs.
    pub cwd: PathBuf,
    /// Its whole environment: nothing is inherited. [`base_env`](crate::base_env) is a start.
    pub env: BTreeMap<String, String>,
}

/// One program to run to its end.
#[derive(Debug, Clone)]
pub struct Launch {
    /// A path, or a name that is looked up in the `PATH` of `env`.
    pub program: String,
    /// Its arguments, without its own name.
    pub args: Vec<String>,
    /// Where it runs.
    pub cwd: PathBuf,
    /// Its whole environment: nothing is inherited. [`base_env`](crate::base_env) is a start.
    pub env: BTreeMap<String, String>,
    /// What it reads on standard input, before the end of it.
    pub stdin: Vec<u8>,
    /// How long it may run.
    pub timeout: Duration,
    /// What it may print on standard output; more is an error.
    pub stdout_bytes_max: usize,
    /// What is kept of standard error: its end.
    pub stderr_bytes_max: usize,
    /// Told of each piece that it prints on either: it is alive.
    pub progress: Progress,
}

/// What a program left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// Its exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it, if one did.
    pub signal: Option<i32>,
    /// Everything it printed on standard output.
    pub stdout: Vec<u8>,
    /// The end of what it printed on standard error; what is not UTF-8 is replaced.
    pub stderr: String,
}

/// Why a program did not come to its own end.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// There is no such program.
    #[error("the program `{program}` was not found")]
    NotFound {
        /// As it was asked for.
        program: String,
    },
    /// The program is there, but the system would not start it.
    #[error("the program `{program}` could not be started: {source}")]
    NotStarted {
        /// As it was asked for.
        program: String,
        /// What the system said.
        source: io::Error,
    },
    /// It ran too long and was stopped.
    #[error("the program did not end within {timeout_ms} ms and was stopped")]
    TimedOut {
        /// How long it was allowed to run.
        timeout_ms: u64,
        /// The end of its standard error.
        stderr: String,
    },
    /// It was stopped because the call was cancelled.
    #[error("the program was stopped because the call was cancelled")]
    Cancelled,
    /// It printed too much and was stopped.
    #[error("the program printed more than {limit_bytes} bytes and was stopped")]
    StdoutTooLarge {
        /// What it was allowed to print.
        limit_bytes: usize,
    },
    /// Talking to the running program failed.
    #[error("talking to the program `{program}` failed: {source}")]
    Io {
        /// As it was asked for.
        program: String,
        /// What the system said.
        source: io::Error,
    },
}

/// Runs a program to its end; the whole process group is gone when this returns, and killed when the future is dropped.
///
/// A child that outlives the program has a moment to finish its output, and is then killed. When time is up, or on
/// cancellation, the group is asked to stop (`SIGTERM`) and killed after [`limits::PROGRAM_GRACE_MS`]. A process that
/// left the group (`setsid`) is out of reach.
///
/// # Errors
/// When the program could not be started, ran too long, printed too much, or was cancelled. A program that fails by
/// itself is not an error: see [`Finished::code`].
pub async fn run(mut launch: Launch, cancellation: &CancellationToken) -> Result<Finished, LaunchError> {
    if cancellation.is_cancelled() {
        return Err(LaunchError::Cancelled);
    }
    let stdin = std::mem::take(&mut launch.stdin);
    let spawn = Spawn {
        program: launch.program.clone(),
        args: std::mem::take(&mut launch.args),
        cwd: launch.cwd.clone(),
        env: std::mem::take(&mut launch.env),
    };
    // It may run before we hear of it: who gave up at once would kill it without asking it to stop.
    let unheard_of = async {
        cancellation.cancelled().await;
        sleep(Duration::from_millis(limits::PROGRAM_GRACE_MS)).await;
    };
    let started = tokio::select! {
        started = Group::start(spawn) => started,
        () = unheard_of => return Err(LaunchError::Cancelled),
    };
    let mut group = started.map_err(|source| not_started(&launch.program, &launch.cwd, source))?;
    let mut pipes = group.pipes(stdin, launch.stdout_bytes_max, launch.stderr_bytes_max, launch.progress);

    let ended = tokio::select! {
        ended = timeout(launch.timeout, to_the_end(&mut group, &mut pipes)) => ended.map_err(|_| Stop::TimedOut),
        () = cancellation.cancelled() => Err(Stop::Cancelled),
    };
    if ended.is_err() {
        group.terminate();
        // Reading goes on: a program that has last words must not block on a full pipe.
        let grace = Duration::from_millis(limits::PROGRAM_GRACE_MS);
        let _ = timeout(grace, to_the_end(&mut group, &mut pipes)).await;
    }
    group.kill().await;

    let (stdout, stderr) = pipes.into_outputs();
    match ended {
        Ok(Ok(status)) => Ok(Finished { code: status.code(), signal: status.signal(), stdout, stderr }),
        Ok(Err(PumpError::StdoutTooLarge)) => Err(LaunchError::StdoutTooLarge { limit_bytes: launch.stdout_bytes_max }),
        Ok(Err(PumpError::Io(source))) => Err(LaunchError::Io { program: launch.program, source }),
        Err(Stop::TimedOut) => {
            let timeout_ms = u64::try_from(launch.timeout.as_millis()).unwrap_or(u64::MAX);
            Err(LaunchError::TimedOut { timeout_ms, stderr })
        }
        Err(Stop::Cancelled) => Err(LaunchError::Cancelled),
    }
}

enum Stop {
    TimedOut,
    Cancelled,
}

/// Until the program has ended and its outputs are closed, or its children have had their grace to close them.
async fn to_the_end(group: &mut Group, pipes: &mut Pipes) -> Result<ExitStatus, PumpError> {
    let status = {
        let exit = group.wait();
        tokio::pin!(exit);
        tokio::select! {
            status = &mut exit => status?,
            pumped = pipes.pump() => {
                pumped?;
                exit.await?
            }
        }
    };
    pipes.close_input();
    match timeout(Duration::from_millis(PIPE_GRACE_MS), pipes.pump()).await {
        Ok(pumped) => pumped?,
        // Children hold the pipes: what they have not printed by now is not part of the answer.
        Err(_elapsed) => {}
    }
    Ok(status)
}

/// `ENOENT` has three meanings, and the one that matters is rarely the one that is said.
pub(crate) fn not_started(program: &str, cwd: &Path, source: io::Error) -> LaunchError {
    let program = program.to_owned();
    if source.kind() != io::ErrorKind::NotFound {
        return LaunchError::NotStarted { program, source };
    }
    let reason = if !cwd.is_dir() {
        format!("its working folder `{}` is not there", cwd.display())
    } else if program.contains('/') && cwd.join(&program).exists() {
        "the interpreter that its first line names is not there".to_owned()
    } else {
        return LaunchError::NotFound { program };
    };
    LaunchError::NotStarted { program, source: io::Error::new(io::ErrorKind::NotFound, reason) }
}
