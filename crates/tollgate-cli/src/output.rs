//! Printing: machine output to standard output, everything else to standard error, and a closed pipe is no fault.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};

use comfy_table::{ContentArrangement, Table, presets};
use serde::Serialize;
use tollgate::redact::Redactor;

pub(crate) use tollgate::visible::text as visible;

use crate::args::{Format, FormatArg, Global};
use crate::failure::Failure;

/// Where something is printed.
#[derive(Clone, Copy)]
enum Stream {
    Out,
    Err,
}

/// What is to be printed while a question is open on the terminal.
static HELD: Mutex<Option<Vec<(Stream, String)>>> = Mutex::new(None);

fn held() -> MutexGuard<'static, Option<Vec<(Stream, String)>>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether it is held back.
fn hold(stream: Stream, text: &str) -> bool {
    held().as_mut().map(|held| held.push((stream, text.to_owned()))).is_some()
}

/// Holds what is printed to standard output or said on the way until the guard is dropped, so that nothing lands in an open
/// question.
pub(crate) struct Hold;

impl Hold {
    pub(crate) fn new() -> Self {
        held().get_or_insert_default();
        Self
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        for (stream, text) in held().take().unwrap_or_default() {
            match stream {
                // A closed terminal has nobody to read it.
                Stream::Out => drop(out(&text)),
                Stream::Err => err(&text),
            }
        }
    }
}

/// Whether a line of progress stands on the terminal. Whatever is printed comes in its place.
static PROGRESS: AtomicBool = AtomicBool::new(false);

/// To the beginning of the line, which is wiped.
const WIPE: &str = "\r\x1b[2K";

/// Shows how far something is, on the line where the cursor stands, instead of what was shown there. Not while a question is
/// open.
pub(crate) fn progress(text: &str) {
    if held().is_none() {
        wipe();
        let line: String = text.chars().take(terminal_columns().saturating_sub(1)).collect();
        let _ = io::stderr().lock().write_all(style(Style::Dim, &line, true).as_bytes());
        PROGRESS.store(true, Ordering::Relaxed);
    }
}

/// Takes the line of progress away.
pub(crate) fn wipe() {
    if PROGRESS.swap(false, Ordering::Relaxed) {
        let _ = io::stderr().lock().write_all(WIPE.as_bytes());
    }
}

/// Whether somebody sees progress: on a terminal that can move its cursor.
pub(crate) fn can_show_progress() -> bool {
    io::stderr().is_terminal() && std::env::var_os("TERM").is_none_or(|terminal| terminal != "dumb")
}

fn terminal_columns() -> usize {
    #[cfg(unix)]
    if let Ok(size) = rustix::termios::tcgetwinsize(io::stderr())
        && size.ws_col > 0
    {
        return size.ws_col.into();
    }
    80
}

/// Prints text to standard output. A reader that left is no fault.
pub(crate) fn out(text: &str) -> Result<(), Failure> {
    if hold(Stream::Out, text) {
        return Ok(());
    }
    wipe();
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::internal(format!("standard output cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints a line to standard output.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    out(&format!("{text}\n"))
}

/// Prints a value as one line of JSON. Somebody may look at it: hidden characters are escapes.
pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = tollgate::visible::json(value).map_err(|error| Failure::internal(error.to_string()))?;
    line(&text)
}

/// What hides secrets in what goes to standard error, once a house is open.
static REDACTOR: OnceLock<Redactor> = OnceLock::new();

/// Hides from now on what this knows.
pub(crate) fn hide_with(redactor: &Redactor) {
    let _ = REDACTOR.set(redactor.clone());
}

/// Prints a value as one line of JSON, without secrets.
pub(crate) fn json_hiding(value: &impl Serialize) -> Result<(), Failure> {
    let mut value = serde_json::to_value(value).map_err(|error| Failure::internal(error.to_string()))?;
    if let Some(redactor) = REDACTOR.get() {
        redactor.value(&mut value);
    }
    json(&value)
}

/// Prints to standard error. When even that is closed there is nobody to tell.
pub(crate) fn err(text: &str) {
    wipe();
    let clean = REDACTOR.get().map_or(Cow::Borrowed(text), |redactor| redactor.secrets_only(text));
    let _ = io::stderr().lock().write_all(clean.as_bytes());
}

/// Says to standard error what may wait until an open question is answered.
pub(crate) fn aside(text: &str) {
    if !hold(Stream::Err, text) {
        err(text);
    }
}

/// What hides secrets before a house is open.
static STRANGER: LazyLock<Redactor> = LazyLock::new(|| Redactor::new(&[], []));

/// What happened, without secrets: other people's words may be in it.
pub(crate) fn tell(text: &str) {
    err(&REDACTOR.get().unwrap_or(&STRANGER).text(text));
}

/// A value as JSON on one line, without secrets. Somebody may look at it: hidden characters are escapes.
pub(crate) fn hidden(mut value: serde_json::Value) -> String {
    REDACTOR.get().unwrap_or(&STRANGER).value(&mut value);
    tollgate::visible::json(&value).unwrap_or_default()
}

/// Where the log goes.
pub(crate) struct Log {
    /// What comes is whole lines of JSON, without secrets.
    pub(crate) is_json: bool,
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_json {
            return io::stderr().lock().write_all(bytes).map(|()| bytes.len());
        }
        tell(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Prints a warning.
pub(crate) fn warn(global: &Global, text: &str) {
    if !global.quiet {
        tell(&format!("{} {text}\n", style(Style::Yellow, "warning:", io::stderr().is_terminal())));
    }
}

/// How to print here.
pub(crate) fn format(global: &Global) -> Format {
    match global.format {
        Some(FormatArg::Text) => Format::Text,
        Some(FormatArg::Json) => Format::Json,
        None | Some(FormatArg::Export(_)) if io::stdout().is_terminal() => Format::Text,
        None | Some(FormatArg::Export(_)) => Format::Json,
    }
}

/// No table is made narrower than this, in characters.
const NARROWEST: u16 = 60;

/// A table that fits the terminal.
pub(crate) fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    // Some terminals say that they are nothing wide.
    if table.width().is_some_and(|width| width < NARROWEST) {
        table.set_width(NARROWEST);
    }
    table.set_header(header.iter().copied());
    for row in rows {
        table.add_row(row);
    }
    format!("{table}\n")
}

/// The colours in use.
#[derive(Clone, Copy)]
pub(crate) enum Style {
    Bold,
    Dim,
    Green,
    Yellow,
    Red,
}

/// Text in a style, where colour is wanted and `NO_COLOR` (no-color.org) is not set.
pub(crate) fn style(style: Style, text: &str, is_terminal: bool) -> String {
    if !is_terminal || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()) {
        return text.to_owned();
    }
    let code = match style {
        Style::Bold => 1,
        Style::Dim => 2,
        Style::Green => 32,
        Style::Yellow => 33,
        Style::Red => 31,
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}
