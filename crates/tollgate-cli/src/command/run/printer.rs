//! Events as they come: JSON lines, or a conversation to read.

use std::io::IsTerminal;

use tollgate::agent::{Difference, Event, OpenQuestion};

use crate::failure::Failure;
use crate::output::{self, Style, err, style, visible};

/// What prints them.
pub(super) struct Printer {
    is_json: bool,
    is_terminal: bool,
    /// Whether the last thing printed was text without a line end.
    is_within_line: bool,
    has_streamed: bool,
    pub(super) failure: Option<Failure>,
}

impl Printer {
    pub(super) fn new(is_json: bool) -> Self {
        let is_terminal = std::io::stdout().is_terminal();
        Self { is_json, is_terminal, is_within_line: false, has_streamed: false, failure: None }
    }

    pub(super) fn print(&mut self, event: &Event) {
        let printed = if self.is_json { output::json_hiding(event) } else { self.say(event) };
        if let Err(failure) = printed {
            self.failure.get_or_insert(failure);
        }
    }

    fn say(&mut self, event: &Event) -> Result<(), Failure> {
        match event {
            Event::RunStarted { prompt, .. } => self.note(Style::Bold, &format!("› {}", visible(prompt))),
            Event::RunResumed { session, open_calls, .. } => {
                self.note(Style::Bold, &format!("↻ {session}: {open_calls} call(s) without an outcome"))
            }
            Event::TextDelta { text } => {
                self.is_within_line = !text.ends_with('\n');
                self.has_streamed = true;
                output::out(&visible(text))
            }
            Event::Turn { turn, .. } => {
                for diagnostic in &turn.diagnostics {
                    self.note(Style::Dim, &format!("  ({})", visible(diagnostic)))?;
                }
                Ok(())
            }
            Event::CallStarted { tool, arguments, .. } => {
                self.has_streamed = false;
                self.note(Style::Dim, &format!("→ {} {}", visible(tool), short(arguments)))
            }
            Event::CallFinished { outcome } => {
                let (mark, colour) =
                    if outcome.result().is_some() { ("✓", Style::Green) } else { ("✗", Style::Red) };
                self.note(colour, &format!("{mark} {} {}", visible(&outcome.tool), short(&outcome.model_text())))
            }
            Event::Observed { tool, is_offered, is_error, .. } => {
                self.note(Style::Dim, &observed(tool, *is_offered, *is_error))
            }
            Event::Answer { text, .. } => {
                if !self.has_streamed {
                    output::out(&visible(text))?;
                    self.is_within_line = !text.ends_with('\n');
                }
                self.end_line()
            }
            Event::Difference(difference) => {
                let ResultTexts { then, now } = texts(difference);
                self.note(
                    Style::Yellow,
                    &format!(
                        "≠ {} ({})\n  recorded: {then}\n  now:      {now}",
                        visible(&difference.tool),
                        difference.call_id
                    ),
                )
            }
            Event::Paused { session, waiting } => {
                self.end_line()?;
                let text = paused(session, waiting);
                err(&style(Style::Yellow, &text, std::io::stderr().is_terminal()));
                Ok(())
            }
            Event::Error { error } => {
                self.end_line()?;
                let hint = error.hint.as_ref().map(|hint| format!("\nhint: {}", visible(hint))).unwrap_or_default();
                let text = format!("{}: {}{hint}\n", error.error, visible(&error.message));
                err(&style(Style::Red, &text, std::io::stderr().is_terminal()));
                Ok(())
            }
        }
    }

    fn note(&mut self, colour: Style, text: &str) -> Result<(), Failure> {
        self.end_line()?;
        output::line(&style(colour, text, self.is_terminal))
    }

    fn end_line(&mut self) -> Result<(), Failure> {
        if std::mem::take(&mut self.is_within_line) { output::line("") } else { Ok(()) }
    }
}

fn observed(tool: &str, is_offered: bool, is_error: bool) -> String {
    let mark = if is_error { "✗" } else { "◦" };
    let offered = if is_offered { "" } else { ", though it was not offered" };
    format!("{mark} {} ran at the provider{offered}", visible(tool))
}

fn paused(session: &str, waiting: &[OpenQuestion]) -> String {
    let lines = waiting.iter().map(|one| {
        format!("  tollgate approvals approve {}    {}, until {}\n", one.approval, visible(&one.tool), one.expires)
    });
    format!("waits for a human:\n{}then go on with:\n  tollgate run --resume {session}\n", lines.collect::<String>())
}

struct ResultTexts {
    then: String,
    now: String,
}

fn texts(difference: &Difference) -> ResultTexts {
    ResultTexts { then: short(&difference.recorded.text), now: short(&difference.actual.text) }
}

/// One line of at most 160 characters.
fn short(text: &str) -> String {
    const CHARS: usize = 160;
    let line = visible(text).replace('\n', " ");
    let mut cut: String = line.chars().take(CHARS).collect();
    if cut.len() < line.len() {
        cut.push('…');
    }
    cut
}
