//! Events as they come: JSON lines, or a conversation to read. To standard output goes the answer and nothing else; on a
//! terminal also what the model says on the way there.

use std::io::IsTerminal;

use tollgate::agent::{Compacted, Difference, Event, OpenQuestion, Spent};

use super::tally;
use crate::failure::Failure;
use crate::output::{self, Style, style, visible};

/// What prints them.
pub(super) struct Printer {
    options: PrinterOptions,
    /// Whether what the model says is seen as it comes.
    is_streaming: bool,
    is_colourful: bool,
    /// Whether the last thing printed was text without a line end.
    is_within_line: bool,
    has_streamed: bool,
    spent: Option<Spent>,
    pub(super) failure: Option<Failure>,
}

/// How they are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PrinterOptions {
    /// As JSON lines.
    pub(super) is_json: bool,
    /// Nothing but the answer.
    pub(super) is_quiet: bool,
}

impl Printer {
    pub(super) fn new(options: PrinterOptions) -> Self {
        Self {
            options,
            is_streaming: std::io::stdout().is_terminal(),
            is_colourful: std::io::stderr().is_terminal(),
            is_within_line: false,
            has_streamed: false,
            spent: None,
            failure: None,
        }
    }

    pub(super) fn print(&mut self, event: &Event) {
        let printed = if self.options.is_json { output::json_hiding(event) } else { self.say(event) };
        if let Err(failure) = printed {
            self.failure.get_or_insert(failure);
        }
    }

    /// Shows how far the run is, after so many milliseconds.
    pub(super) fn show_progress(&self, elapsed_ms: u64) {
        let is_seen = !self.options.is_json && !self.options.is_quiet && output::can_show_progress();
        if is_seen && !self.is_within_line {
            let spent = Spent { elapsed_ms: Some(elapsed_ms), ..self.spent.clone().unwrap_or_default() };
            output::progress(&format!("⋯ {spent}"));
        }
    }

    fn say(&mut self, event: &Event) -> Result<(), Failure> {
        match event {
            Event::RunStarted { prompt, .. } => self.note(Style::Bold, &format!("› {}", visible(prompt))),
            Event::RunResumed { session, open_calls, .. } => {
                self.note(Style::Bold, &format!("↻ {session}: {open_calls} call(s) without an outcome"))
            }
            Event::TextDelta { text } => self.stream(text),
            Event::Turn { turn, .. } => turn
                .diagnostics
                .iter()
                .try_for_each(|diagnostic| self.note(Style::Dim, &format!("  ({})", visible(diagnostic)))),
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
            Event::Compacted(compacted) => self.note(Style::Yellow, &left_out(compacted)),
            Event::Spent(spent) => {
                self.spent = Some(spent.clone());
                Ok(())
            }
            Event::Answer { text, finish, .. } => {
                if !self.has_streamed {
                    output::out(&visible(text))?;
                    self.is_within_line = !text.ends_with('\n');
                }
                self.end_line()?;
                if finish.is_cut() {
                    let why = format!("the answer was cut (`{}`): it is not whole\n", visible(finish.as_str()));
                    self.say_anyway(Style::Yellow, &why)?;
                }
                self.sum_up()
            }
            Event::Difference(difference) => self.note(Style::Yellow, &differs(difference)),
            Event::Paused { session, waiting } => {
                self.sum_up()?;
                self.say_anyway(Style::Yellow, &paused(session, waiting))
            }
            Event::Error { error } => {
                self.sum_up()?;
                let hint = error.hint.as_ref().map(|hint| format!("\nhint: {}", visible(hint))).unwrap_or_default();
                self.say_anyway(Style::Red, &format!("{}: {}{hint}\n", error.error, visible(&error.message)))
            }
        }
    }

    /// What the model says, where somebody sees it as it comes. Elsewhere only the answer is wanted.
    fn stream(&mut self, text: &str) -> Result<(), Failure> {
        if !self.is_streaming {
            return Ok(());
        }
        self.is_within_line = !text.ends_with('\n');
        self.has_streamed = true;
        output::out(&visible(text))
    }

    /// The calls and what the run took, once it asked the model.
    fn sum_up(&mut self) -> Result<(), Failure> {
        match self.spent.take().filter(|spent| spent.rounds > 0) {
            Some(spent) => self.note(Style::Dim, tally::page(&spent).trim_end()),
            None => Ok(()),
        }
    }

    fn note(&mut self, colour: Style, text: &str) -> Result<(), Failure> {
        self.end_line()?;
        if !self.options.is_quiet {
            output::aside(&format!("{}\n", style(colour, text, self.is_colourful)));
        }
        Ok(())
    }

    fn say_anyway(&mut self, colour: Style, text: &str) -> Result<(), Failure> {
        self.end_line()?;
        output::aside(&style(colour, text, self.is_colourful));
        Ok(())
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

fn left_out(compacted: &Compacted) -> String {
    let Compacted { results, turns, tokens_before, tokens, tokens_max, source, why } = compacted;
    let source = source.as_str();
    let why = why.as_ref().map(|why| format!("; still more than {tokens_max}: {why}")).unwrap_or_default();
    format!(
        "⋯ the conversation has {tokens_before} tokens ({source}): {results} result(s) are shortened and {turns} turn(s) left \
         out, {tokens} tokens are sent{why}"
    )
}

fn differs(difference: &Difference) -> String {
    let (then, now) = (short(&difference.recorded.text), short(&difference.actual.text));
    format!("≠ {} ({})\n  recorded: {then}\n  now:      {now}", visible(&difference.tool), difference.call_id)
}

fn paused(session: &str, waiting: &[OpenQuestion]) -> String {
    let lines = waiting.iter().map(|one| {
        format!("  tollgate approvals approve {}    {}, until {}\n", one.approval, visible(&one.tool), one.expires)
    });
    format!("waits for a human:\n{}then go on with:\n  tollgate run --resume {session}\n", lines.collect::<String>())
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
