//! What is wrong with a configuration: file, line, key, and what would be right.

use std::fs;
use std::path::Path;

use tollgate_guard::redact::Redactor;
use tollgate_types::limits;

/// A configuration that cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}{}: {}{message}", file.display(), place(*line), key.as_ref().map(|key| format!("`{key}`: ")).unwrap_or_default())]
pub struct ConfigError {
    /// The file.
    pub file: Box<Path>,
    /// The line, from 1; 0 when the whole file is meant.
    pub line: usize,
    /// Bytes from the start of the file.
    pub offset: usize,
    /// The key, dotted.
    pub key: Option<String>,
    /// What is wrong.
    pub message: String,
    /// What would be right.
    pub hint: Option<String>,
    /// The file's text.
    pub text: Box<str>,
}

fn place(line: usize) -> String {
    if line == 0 { String::new() } else { format!(":{line}") }
}

impl ConfigError {
    pub(crate) fn at(
        file: &Path,
        text: &str,
        offset: usize,
        key: Option<String>,
        message: String,
        hint: Option<String>,
    ) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line = if text.is_empty() { 0 } else { before.matches('\n').count() + 1 };
        let hint = nearest_key(&message).or(hint);
        let message = for_people(message);
        let (text, offset) = redacted(text, line, before.len() - before.rfind('\n').map_or(0, |end| end + 1));
        Self { file: file.into(), line, offset, key, message, hint, text: text.into() }
    }

    pub(crate) fn whole(file: &Path, message: String, hint: &str) -> Self {
        Self::at(file, "", 0, None, message, Some(hint.to_owned()))
    }

    pub(crate) fn toml(file: &Path, text: &str, source: &toml::de::Error) -> Self {
        let offset = source.span().map_or(0, |span| span.start);
        let message = source.message().trim().replace('\n', ", ");
        let key = key_at(text, offset);
        let hint = if message.starts_with("unknown field") {
            "the keys are listed in docs/config.md".to_owned()
        } else if key.as_deref().is_some_and(|key| key.ends_with("api_key") || key.ends_with(".postgres")) {
            "never the secret itself: write { env = \"NAME\" }, { file = \"PATH\" } or { command = [\"PROGRAM\"] }"
                .to_owned()
        } else {
            "see docs/config.md, or write a fresh file with `tollgate init`".to_owned()
        };
        Self::at(file, text, offset, key, message, Some(hint))
    }
}

/// The text as it may be shown: a secret that somebody wrote into the file is hidden. The place moves along.
fn redacted(text: &str, line: usize, column: usize) -> (String, usize) {
    let redactor = Redactor::new(&[], []);
    let (mut shown, mut offset) = (String::with_capacity(text.len()), 0);
    for (index, one) in text.split_inclusive('\n').enumerate() {
        if index + 1 == line {
            offset = shown.len() + column.min(one.trim_end().len());
        }
        // Whatever stands at a key for secrets is not shown at all.
        match one.split_once('=').filter(|(key, _)| matches!(key.trim(), "api_key" | "postgres")) {
            Some((key, _)) => shown.push_str(&format!("{key}= …\n")),
            None => shown.push_str(&redactor.text(one)),
        }
    }
    let offset = offset.min(shown.len());
    let offset = (0..=offset).rev().find(|at| shown.is_char_boundary(*at)).unwrap_or(0);
    (shown, offset)
}

/// The field that an error of serde does not know.
pub(super) fn unknown_field(message: &str) -> Option<&str> {
    message.strip_prefix("unknown field `")?.split('`').next()
}

/// «did you mean …?», where an unknown key is near to a known one.
fn nearest_key(message: &str) -> Option<String> {
    let asked = unknown_field(message)?;
    let mut known: Vec<&str> = message.split('`').skip(3).step_by(2).collect();
    if known.contains(&"input_schema") {
        known.extend(["command", "http"]);
    }
    let near = tollgate_catalog::nearest(asked, known);
    (!near.is_empty()).then(|| format!("did you mean `{}`?", near.join("` or `")))
}

/// The words of a user for those of a programmer.
fn for_people(message: String) -> String {
    const WORDS: [(&str, &str); 5] = [
        ("a sequence", "a list"),
        ("sequence", "list"),
        ("a map", "a table"),
        ("unknown variant", "unknown value"),
        ("unit variant", "a word"),
    ];
    WORDS.iter().fold(message, |text, (theirs, ours)| text.replace(theirs, ours))
}

/// Where `key` is set in the table that begins at `start`; the table itself when it is not found.
pub(super) fn line_of(text: &str, start: usize, key: &str) -> usize {
    let mut offset = start;
    for line in text.get(start..).unwrap_or_default().split_inclusive('\n') {
        if offset > start && line.trim_start().starts_with("[[") {
            break;
        }
        let word = line.trim_start();
        // A key may stand in quotes, as one with a dot or a star must.
        let plain = word.replace(['"', '\''], "");
        let is_key = plain.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with(['=', '.']));
        let header = plain.trim_end().strip_suffix(']').filter(|header| header.starts_with('['));
        let is_table = header.is_some_and(|header| header.ends_with(&format!(".{key}")));
        if !key.is_empty() && (is_key || is_table) {
            return offset + (line.len() - word.len());
        }
        offset += line.len();
    }
    start
}

/// The dotted key that stands at or before `offset`: the table header above it and the key of its line.
fn key_at(text: &str, offset: usize) -> Option<String> {
    let line_start = text.get(..offset)?.rfind('\n').map_or(0, |end| end + 1);
    let line = text.get(line_start..)?.lines().next()?.trim();
    let header = |line: &str| line.trim_start_matches('[').trim_end_matches(']').trim().to_owned();
    if line.starts_with('[') {
        return Some(header(line));
    }
    let key = line.split('=').next()?.trim();
    let is_key = |key: &str| !key.is_empty() && key.chars().all(|c| c.is_alphanumeric() || "_-.\"".contains(c));
    let key = is_key(key).then(|| key.to_owned())?;
    let above = text.get(..line_start)?.lines().rev().find(|line| line.trim_start().starts_with('['));
    Some(above.map(|line| format!("{}.{key}", header(line.trim()))).unwrap_or(key))
}

/// Reads a configuration file within its limit.
pub(super) fn read(path: &Path) -> Result<String, ConfigError> {
    read_text(path, limits::CONFIG_BYTES_MAX, "check the path, or write one with `tollgate init`")
}

/// Reads a file that belongs to the configuration within its limit; `hint` says what to do when there is none.
pub(super) fn read_text(path: &Path, bytes_max: usize, hint: &str) -> Result<String, ConfigError> {
    let unread = |message: String| ConfigError::whole(path, message, hint);
    let metadata = fs::metadata(path).map_err(|error| unread(format!("cannot be read: {error}")))?;
    if !metadata.is_file() {
        return Err(unread("is not a file".into()));
    }
    if metadata.len() > bytes_max as u64 {
        return Err(unread(format!("has {} bytes; such a file has at most {bytes_max}", metadata.len())));
    }
    let bytes = fs::read(path).map_err(|error| unread(format!("cannot be read: {error}")))?;
    String::from_utf8(bytes).map_err(|error| {
        let line =
            error.as_bytes().iter().take(error.utf8_error().valid_up_to()).filter(|byte| **byte == b'\n').count();
        let mut fault = ConfigError::whole(path, "is not UTF-8".into(), "save the file as UTF-8");
        fault.line = line + 1;
        fault
    })
}
