//! Keeping a run as readable JSON lines, so that anyone can replay it without a model. Each line is written at once,
//! so that a run that is cut short is still a recording.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollgate_guard::redact::Redactor;
use tollgate_types::{AttemptId, CallResult, Code, Content, Outcome, Status};
use tollgate_wire::{Image, Message, Piece, Turn};

use crate::mask;
use crate::run::React;

/// The version of the format; it stands in the first line.
pub(crate) const VERSION: u32 = 1;

/// The first line of a recording.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) tollgate_recording: u32,
}

/// Every other line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Line {
    /// A prompt begins a run.
    Run {
        prompt: String,
        model: String,
        #[serde(default)]
        tools: Vec<String>,
        /// How the answer was looked for.
        #[serde(default = "react")]
        strategy: String,
    },
    /// The model's answer in one round.
    Turn {
        round: u32,
        #[serde(flatten)]
        turn: Turn,
    },
    /// What one call brought.
    Result {
        call_id: String,
        tool: String,
        #[serde(flatten)]
        result: ResultRecord,
    },
    /// The end of a run.
    Answer { text: String },
}

/// Before there were others.
fn react() -> String {
    React::NAME.to_owned()
}

/// What a call brought, as far as a model can tell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultRecord {
    /// How it ended.
    pub status: Status,
    /// Why, for every end but `done`.
    pub code: Option<Code>,
    /// What the model read.
    pub text: String,
    /// What it saw besides.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
    /// The attempt in the ledger of whoever recorded it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<AttemptId>,
}

impl ResultRecord {
    pub(crate) fn of(outcome: &Outcome) -> Self {
        let content = outcome.result().map(|result| result.content.as_slice()).unwrap_or_default();
        let images: Vec<Image> = content.iter().filter_map(image).collect();
        let text = match outcome.result() {
            Some(result) if !images.is_empty() => {
                let content = content.iter().filter(|part| image(part).is_none()).cloned().collect();
                CallResult { content, ..result.clone() }.text()
            }
            _ => outcome.model_text(),
        };
        Self { status: outcome.status(), code: outcome.code(), text, images, attempt: outcome.attempt.clone() }
    }

    /// What the model is told.
    pub(crate) fn message(&self, call_id: &str) -> Message {
        // A redactor may have taken something for a secret: what is no base64 any more is no image either.
        let is_whole = |image: &&Image| !matches!(image, Image::Data { base64, .. } if base64.contains('['));
        let images = self.images.iter().filter(is_whole).cloned().map(Piece::Image);
        let pieces: Vec<Piece> = std::iter::once(Piece::Text(self.text.clone())).chain(images).collect();
        Message::tool(call_id, pieces, self.status != Status::Done)
    }

    /// Whether both are the same but for the handles, ids and times that are new in each run.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.status == other.status && self.code == other.code && mask::is_same(&self.text, &other.text)
    }
}

/// The image in a part of a result. The gate leaves only those there that the asker can show.
fn image(part: &Content) -> Option<Image> {
    let Content::Other(block) = part else { return None };
    let text = |name| block.get(name).and_then(Value::as_str);
    let is_image = text("type") == Some("image");
    let (mime_type, base64) = (text("mimeType")?.to_owned(), text("data")?.to_owned());
    is_image.then_some(Image::Data { mime_type, base64 })
}

/// The JSON without secrets. From what a provider wants back byte for byte only the secrets that are known go: a rule
/// that takes a signature for one would make the conversation useless.
pub(crate) fn without_secrets(redactor: &Redactor, value: &impl Serialize) -> Result<Value, serde_json::Error> {
    let mut value = serde_json::to_value(value)?;
    let kept = value.get_mut("kept").map(Value::take);
    redactor.value(&mut value);
    if let (Some(mut kept), Some(place)) = (kept, value.get_mut("kept")) {
        for part in kept.get_mut("parts").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(Value::String(raw)) = part.get_mut("raw") {
                *raw = redactor.secrets_only(raw).into_owned();
            } else {
                redactor.value(part);
            }
        }
        *place = kept;
    }
    Ok(value)
}

/// Writes a recording.
#[derive(Debug)]
pub struct Recorder {
    file: File,
    path: PathBuf,
    redactor: Option<Redactor>,
}

/// Why a recording cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// There is something in the file already.
    #[error("`{path}` exists and is not empty")]
    Exists {
        /// Which file.
        path: String,
    },
    /// The file cannot be written.
    #[error("cannot write the recording `{path}`: {source}")]
    Unwritable {
        /// Which file.
        path: String,
        /// What the system said.
        source: io::Error,
    },
}

impl RecordError {
    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Exists { .. } => "name a new file, or remove this one",
            Self::Unwritable { .. } => "check the folder, its permissions and the space on the disk",
        }
    }
}

impl Recorder {
    /// Begins a recording in a new or empty file. It holds prompts and results, so on Unix only its owner may read a new
    /// one (mode 0600); the mode of an empty file stays as it is.
    ///
    /// # Errors
    /// When the file has content or cannot be written.
    pub fn create(path: &Path) -> Result<Self, RecordError> {
        let unwritable = |source| RecordError::Unwritable { path: path.display().to_string(), source };
        let mut options = OpenOptions::new();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path).map_err(unwritable)?;
        if file.metadata().map_err(unwritable)?.len() > 0 {
            return Err(RecordError::Exists { path: path.display().to_string() });
        }
        let mut recorder = Self { file, path: path.to_owned(), redactor: None };
        recorder.write_line(&Header { tollgate_recording: VERSION })?;
        Ok(recorder)
    }

    /// The same recording without secrets.
    #[must_use]
    pub fn hiding(mut self, redactor: Redactor) -> Self {
        self.redactor = Some(redactor);
        self
    }

    pub(crate) fn write(&mut self, line: &Line) -> Result<(), RecordError> {
        let Some(redactor) = &self.redactor else { return self.write_line(line) };
        let value = without_secrets(redactor, line).map_err(|e| self.unwritable(e.into()))?;
        self.write_line(&value)
    }

    fn write_line(&mut self, line: &impl Serialize) -> Result<(), RecordError> {
        let mut text = serde_json::to_vec(line).map_err(|e| self.unwritable(e.into()))?;
        text.push(b'\n');
        self.file.write_all(&text).map_err(|e| self.unwritable(e))
    }

    fn unwritable(&self, source: io::Error) -> RecordError {
        RecordError::Unwritable { path: self.path.display().to_string(), source }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_types::Secret;
    use tollgate_wire::{Kept, Part};

    use super::*;

    #[test]
    fn what_goes_back_to_a_provider_is_left_alone_but_for_known_secrets() {
        let redactor = Redactor::new(&[], [Secret::new("hunter2-hunter2")]);
        let signed = r#"{"type":"thinking","signature":"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N"}"#;
        let parts = vec![
            Part::Raw(signed.to_owned()),
            Part::Raw(r#"{"thinking":"the key is hunter2-hunter2"}"#.to_owned()),
            Part::Text("the key is hunter2-hunter2".to_owned()),
            Part::Call(0),
        ];
        let kept = Some(Box::new(Kept { parts: parts.clone(), ..Kept::default() }));
        let line = Line::Turn { round: 1, turn: Turn { kept, ..Turn::default() } };
        let value = without_secrets(&redactor, &line).unwrap();
        assert!(!value.to_string().contains("hunter2"), "{value}");
        let Line::Turn { turn, .. } = serde_json::from_value(value).unwrap() else { panic!("not a turn") };
        let kept = turn.kept.unwrap().parts;
        assert_eq!((&kept[0], &kept[3], kept.len()), (&parts[0], &parts[3], 4));
    }
}
