//! A recording as a model: the turns come from the file, everything else is real.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::de::DeserializeOwned;
use tollgate_types::{BoxFuture, limits};
use tollgate_wire::Turn;

use crate::model::{Model, ModelError, ModelRequest};
use crate::record::{Header, Line, ResultRecord, VERSION};

/// A recording to read.
const RECORDING_BYTES_MAX: usize = 4 * limits::HTTP_BODY_BYTES_MAX;

/// A recording that answers as a model.
#[derive(Debug)]
pub struct Replay {
    path: String,
    prompts: Vec<String>,
    turns: Vec<Turn>,
    results: HashMap<String, ResultRecord>,
    lines: usize,
    next: AtomicUsize,
}

/// Why a recording cannot be replayed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ReplayError {
    /// The file cannot be read.
    #[error("cannot read the recording `{path}`: {reason}")]
    Unreadable {
        /// Which file.
        path: String,
        /// Why.
        reason: String,
    },
    /// A line is not what a recording holds.
    #[error("{path}:{line}: {reason}")]
    Broken {
        /// Which file.
        path: String,
        /// Which line, from one.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// More turns are asked for than were recorded.
    #[error("{path}:{line}: the recording ends after {turns} turns, and another is asked for")]
    RanOut {
        /// Which file.
        path: String,
        /// Its last line.
        line: usize,
        /// How many turns it holds.
        turns: usize,
    },
}

impl ReplayError {
    /// What to do about it.
    pub fn hint(&self) -> String {
        match self {
            Self::Unreadable { .. } => "name a file that `tollgate run --record` wrote",
            Self::Broken { .. } => "correct the line, or record the run again",
            Self::RanOut { .. } => "ask what was asked when it was recorded, or record the run again",
        }
        .to_owned()
    }
}

impl Replay {
    /// Reads a recording whole.
    ///
    /// # Errors
    /// When the file cannot be read, or the line that is no part of a recording.
    pub fn open(path: &Path) -> Result<Self, ReplayError> {
        let name = path.display().to_string();
        let unreadable = |reason: String| ReplayError::Unreadable { path: name.clone(), reason };
        let file = File::open(path).map_err(|e| unreadable(e.to_string()))?;
        let mut text = String::new();
        let limit = u64::try_from(RECORDING_BYTES_MAX).unwrap_or(u64::MAX);
        file.take(limit + 1).read_to_string(&mut text).map_err(|e| unreadable(e.to_string()))?;
        if text.len() > RECORDING_BYTES_MAX {
            return Err(unreadable(format!("it is larger than {RECORDING_BYTES_MAX} bytes")));
        }
        Self::parse(name, &text)
    }

    fn parse(path: String, text: &str) -> Result<Self, ReplayError> {
        let mut lines = text.lines().enumerate().map(|(at, line)| (at + 1, line));
        let first = lines.next().map_or("", |(_, line)| line);
        let version = read::<Header>(&path, 1, first)?.tollgate_recording;
        let mut replay = Self {
            path,
            prompts: Vec::new(),
            turns: Vec::new(),
            results: HashMap::new(),
            lines: 1,
            next: AtomicUsize::new(0),
        };
        if version != VERSION {
            return Err(replay.broken(1, format!("a recording of version {version}; this program reads {VERSION}")));
        }
        for (at, line) in lines {
            replay.lines = at;
            if line.trim_ascii().is_empty() {
                continue;
            }
            match read(&replay.path, at, line)? {
                Line::Run { prompt, .. } => replay.prompts.push(prompt),
                Line::Turn { turn, .. } => replay.turns.push(turn),
                Line::Answer { .. } => {}
                Line::Result { call_id, result, .. } => {
                    if replay.results.contains_key(&call_id) {
                        return Err(replay.broken(at, format!("a second result for the call `{call_id}`")));
                    }
                    replay.results.insert(call_id, result);
                }
            }
        }
        Ok(replay)
    }

    /// The prompts that were recorded, in order.
    pub fn prompts(&self) -> &[String] {
        &self.prompts
    }

    fn broken(&self, line: usize, reason: String) -> ReplayError {
        ReplayError::Broken { path: self.path.clone(), line, reason }
    }
}

fn read<T: DeserializeOwned>(path: &str, line: usize, text: &str) -> Result<T, ReplayError> {
    serde_json::from_str(text).map_err(|e| ReplayError::Broken { path: path.to_owned(), line, reason: e.to_string() })
}

impl Model for Replay {
    fn name(&self) -> &'static str {
        "replay"
    }

    fn turn<'a>(
        &'a self,
        _request: ModelRequest<'a>,
        on_text: &'a mut (dyn FnMut(&str) + Send),
    ) -> BoxFuture<'a, Result<Turn, ModelError>> {
        Box::pin(async move {
            let at = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(turn) = self.turns.get(at) else {
                let turns = self.turns.len();
                return Err(ReplayError::RanOut { path: self.path.clone(), line: self.lines, turns }.into());
            };
            if !turn.text.is_empty() {
                on_text(&turn.text);
            }
            Ok(turn.clone())
        })
    }

    fn recorded(&self, call_id: &str) -> Option<ResultRecord> {
        self.results.get(call_id).cloned()
    }
}
