//! What an operator sees of a server.

use serde::Serialize;

use super::introduction::Introduction;
use super::traces::Noise;

/// Where a server is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum UpstreamState {
    /// Nobody needed it yet.
    Idle,
    /// It is being started and asked for its tools.
    Starting,
    /// It answers.
    Ready,
    /// It ended or could not be started, and will be started again: by itself, or at its next use.
    Down,
    /// It was stopped for good.
    Stopped,
}

impl UpstreamState {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Starting => "starting",
            Self::Ready => "ready",
            Self::Down => "down",
            Self::Stopped => "stopped",
        }
    }
}

/// What is wrong with a server that does not come up, in a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Trouble {
    /// The program cannot be started, or nobody listens at the address.
    NotFound,
    /// It lets nobody in without other credentials.
    NeedsAuth,
    /// It lets nobody in without a login, and nobody is logged in.
    NeedsLogin,
    /// It prints on standard output what is no message, and does not answer.
    PrintsOnStdout,
    /// It does not answer in time.
    TooSlow,
    /// It speaks a revision of the protocol that is not spoken here.
    OtherProtocol,
    /// Its program ended.
    Ended,
    /// It answers with an error, or with what is no answer.
    Refuses,
}

/// A tool that is set aside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Quarantined {
    /// The server's name for it, or which one it is in the list.
    pub tool: String,
    /// What is wrong with it.
    pub reason: String,
}

/// One server as an operator sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UpstreamStatus {
    /// Its name.
    pub name: String,
    /// Where it is in its life.
    pub state: UpstreamState,
    /// The revision of the protocol that was agreed on, such as `2026-07-28`.
    pub era: Option<&'static str>,
    /// The tools it gives, by their names here.
    pub tools: Vec<String>,
    /// The resources and templates it gives, by their names here.
    pub resources: Vec<String>,
    /// The prompts it gives, by their names here.
    pub prompts: Vec<String>,
    /// The tools, resources, templates and prompts that are set aside.
    pub quarantined: Vec<Quarantined>,
    /// What it said of itself when it was greeted last.
    pub introduction: Introduction,
    /// What keeps it from coming up, where it is not up.
    pub trouble: Option<Trouble>,
    /// The last thing that went wrong.
    pub last_error: Option<String>,
    /// When it may be started again, from now.
    pub retry_in_ms: Option<u64>,
    /// The end of its standard error.
    pub stderr_tail: String,
    /// How often it ended, or could not be started, and had to be started again.
    pub restarts: u64,
    /// What it sent that was no answer.
    pub noise: Noise,
}
