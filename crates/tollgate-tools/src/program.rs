//! A program as a tool: the arguments as JSON on its standard input, its standard output as the result.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use serde_json::Value;
use tollgate_sandbox::{Finished, Launch, LaunchError};
use tollgate_types::{BoxFuture, Code, Cx, SourceKind, Tool, ToolDefinition, ToolError, ToolOutput, limits};

use crate::fingerprint;
use crate::text::{beheaded, bytes, tail, visible};

const MESSAGE_CHARS_MAX: usize = 2_000;
const PREVIEW_CHARS_MAX: usize = 4_000;
const NOTHING: &str = "(the program printed nothing)";

/// A program from the configuration as a tool.
///
/// Exit status 0 is a result; any other is a `tool_error` whose message is the end of standard error. What it prints is
/// the text; a JSON object or array is the structured result too.
#[derive(Debug, Clone)]
pub struct ProgramTool {
    definition: ToolDefinition,
    program: String,
    args: Vec<String>,
    folder: PathBuf,
}

/// Why a program can not be a tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProgramToolError {
    /// There is no program to start.
    #[error("`command` names no program")]
    NoProgram,
    /// A word that no program can be given.
    #[error("`command` has a NUL character in its word {index}")]
    Nul {
        /// Which word, from 0.
        index: usize,
    },
}

impl ProgramTool {
    /// A tool that runs `command` (a program and its first arguments) in `folder`. A program with a slash in its name
    /// is meant from `folder` on; one without is looked up in the call's `PATH`.
    ///
    /// # Errors
    /// When the command is empty or can not be passed to a program.
    pub fn new(
        mut definition: ToolDefinition,
        command: Vec<String>,
        folder: PathBuf,
    ) -> Result<Self, ProgramToolError> {
        if let Some(index) = command.iter().position(|word| word.contains('\0')) {
            return Err(ProgramToolError::Nul { index });
        }
        let parts = command.iter().map(String::as_bytes).chain([folder.as_os_str().as_encoded_bytes()]);
        fingerprint::mark(&mut definition, parts);
        let mut words = command.into_iter();
        let program = words.next().filter(|program| !program.trim().is_empty()).ok_or(ProgramToolError::NoProgram)?;
        definition.source.kind = SourceKind::Program;
        Ok(Self { definition, program, args: words.collect(), folder })
    }

    fn launch(&self, arguments: &Value, cx: &Cx) -> Launch {
        let mut env = cx.env.as_ref().clone();
        env.extend(cx.handed_key.iter().map(|key| (key.name.clone(), key.value.clone())));
        // OpenTelemetry, Environment variables as context propagation carriers.
        let trace = cx.trace.iter().flat_map(|trace| trace.headers());
        env.extend(trace.map(|(name, value)| (name.to_ascii_uppercase(), value)));
        Launch {
            program: self.program.clone(),
            args: self.args.clone(),
            cwd: self.folder.clone(),
            env,
            stdin: arguments.to_string().into_bytes(),
            timeout: cx.deadline,
            stdout_bytes_max: limits::PROGRAM_STDOUT_BYTES_MAX,
            stderr_bytes_max: limits::PROGRAM_STDERR_BYTES_MAX,
            progress: cx.progress.clone(),
        }
    }
}

impl Tool for ProgramTool {
    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    fn preview(&self, arguments: &Value, _: &Cx) -> Option<String> {
        let command: Vec<String> = std::iter::once(&self.program).chain(&self.args).map(|word| quote(word)).collect();
        let stdin = arguments.to_string();
        let stdin = crate::text::cut(&stdin, PREVIEW_CHARS_MAX);
        let folder = self.folder.to_string_lossy();
        Some(format!("{}\nin {}\nstandard input: {}", command.join(" "), visible(&folder), visible(&stdin)))
    }

    fn call(&self, arguments: Value, cx: Cx) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let launch = self.launch(&arguments, &cx);
            drop(arguments);
            let finished = tollgate_sandbox::run(launch, &cx.cancellation).await.map_err(|error| explain(&error))?;
            result(finished)
        })
    }
}

fn result(finished: Finished) -> Result<ToolOutput, ToolError> {
    let size = finished.stdout.len();
    let stdout = String::from_utf8(finished.stdout);
    if finished.code != Some(0) {
        return Err(failure(finished.code, finished.signal, &finished.stderr, &stdout.unwrap_or_default()));
    }
    let mut text = stdout.map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        ToolError::new(format!("the program printed {} that are not UTF-8 at byte {at}", bytes(size as u64)))
            .with_tool_code("INVALID_UTF8")
            .with_hint(
                "the program must print UTF-8 (in Python set PYTHONIOENCODING=utf-8); binary data must be printed as \
                 Base64, or written to a file whose path is printed",
            )
    })?;
    text.truncate(text.trim_end().len());
    if text.is_empty() {
        return Ok(ToolOutput::text(NOTHING));
    }
    let json = text.trim_start_matches('\u{feff}').trim_start();
    let structured = json.starts_with(['{', '[']).then(|| serde_json::from_str::<Value>(json).ok()).flatten();
    Ok(match structured {
        Some(value) => ToolOutput::text_and_structured(text, value),
        None => ToolOutput::text(text),
    })
}

fn failure(code: Option<i32>, signal: Option<i32>, stderr: &str, stdout: &str) -> ToolError {
    let (ending, tool_code) = match (code, signal) {
        (Some(code), _) => (format!("exit status {code}"), format!("EXIT_{code}")),
        (None, Some(signal)) => (format!("killed by signal {signal}"), format!("SIGNAL_{signal}")),
        (None, None) => ("ended in an unknown way".to_owned(), "EXIT_UNKNOWN".to_owned()),
    };
    let message = match (stderr.trim(), stdout.trim()) {
        ("", "") => format!("the program said nothing ({ending})"),
        ("", said) => visible(&tail(said, MESSAGE_CHARS_MAX)).into_owned(),
        _ => last_words(stderr),
    };
    let error = ToolError::new(message)
        .with_tool_code(tool_code)
        .with_hint(format!("the program ended with {ending}; change the arguments if the message says how"));
    if stderr.trim().is_empty() && stdout.trim().is_empty() { error } else { error.from_outside() }
}

fn explain(error: &LaunchError) -> ToolError {
    let message = error.to_string();
    match error {
        LaunchError::NotFound { .. } => ToolError::new(message)
            .nothing_happened()
            .with_tool_code("PROGRAM_NOT_FOUND")
            .with_hint("the operator must install it, or correct `command` in the configuration"),
        LaunchError::NotStarted { .. } => ToolError::new(message)
            .nothing_happened()
            .with_tool_code("PROGRAM_NOT_STARTED")
            .with_hint("the operator must make it executable, or correct `command` in the configuration"),
        LaunchError::TimedOut { stderr, .. } => {
            let error = ToolError::with_code(Code::Timeout, message);
            match stderr.trim() {
                "" => error,
                _ => error.with_hint(format!("its last words: {}", last_words(stderr))).from_outside(),
            }
        }
        LaunchError::Cancelled => ToolError::with_code(Code::Cancelled, message),
        LaunchError::StdoutTooLarge { .. } => {
            ToolError::with_code(Code::ResultTooLarge, message).with_hint("ask it for less")
        }
        LaunchError::Io { .. } => ToolError::new(message).with_tool_code("PROGRAM_IO"),
    }
}

/// The end of standard error, of which the sandbox kept the end already, wherever that began.
fn last_words(stderr: &str) -> String {
    let is_cut = stderr.len() + char::MAX.len_utf8() > limits::PROGRAM_STDERR_BYTES_MAX;
    let said = if is_cut { beheaded(stderr) } else { Cow::Borrowed(stderr) };
    visible(&tail(said.trim(), MESSAGE_CHARS_MAX)).into_owned()
}

/// The files that a command runs, as absolute paths: its program where that is a path, there or not, and every word (or
/// what follows `=` in one) that names a file. For [`Workspace::read_only`](tollgate_types::Workspace::read_only): who
/// can change them chooses what runs.
///
/// ```
/// let command = ["./convert".to_owned(), "--fast".to_owned()];
/// let files = tollgate_tools::program_files(&command, std::path::Path::new("/srv/shop"));
/// assert_eq!(files, [std::path::PathBuf::from("/srv/shop/convert")]);
/// ```
pub fn program_files(command: &[String], folder: &Path) -> Vec<PathBuf> {
    let absolute = |word: &str| std::path::absolute(folder.join(word)).ok();
    let program = command.first().filter(|program| program.contains('/')).and_then(|program| absolute(program));
    let words = command.iter().flat_map(|word| [Some(word.as_str()), word.split_once('=').map(|(_, value)| value)]);
    let named = words.flatten().filter(|word| !word.is_empty()).filter_map(absolute).filter(|path| path.is_file());
    let mut files = Vec::new();
    for path in program.into_iter().chain(named) {
        if !files.contains(&path) {
            files.push(path);
        }
    }
    files
}

/// A word as it would be typed.
fn quote(word: &str) -> String {
    let is_plain =
        |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':' | '=' | '@' | '%' | '+' | ',');
    let word = visible(word);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.into_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_as_a_shell_would_take_them() {
        for (word, quoted) in [
            ("tools/convert.py", "tools/convert.py"),
            ("库存", "库存"),
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", "'it'\\''s'"),
            ("$(rm -rf x)", "'$(rm -rf x)'"),
            ("a\u{1b}[2J", "'a\\u{1b}[2J'"),
        ] {
            assert_eq!(quote(word), quoted);
        }
    }
}
