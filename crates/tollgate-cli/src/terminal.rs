//! Asking a human on the terminal: exactly what would run, and a yes or no.

use std::io::{self, BufRead, IsTerminal};

use tokio::sync::Mutex;
use tollgate::{ApprovalAnswer, ApprovalChannel, ApprovalQuestion, BoxFuture};

use crate::output::{Hold, Style, err, style, visible};

/// The terminal as a way to ask.
pub(crate) struct Terminal {
    /// The name under which the answer is recorded.
    user: String,
    /// One question at a time.
    turn: Mutex<()>,
}

impl Terminal {
    /// The terminal, when there is a person at both ends of it.
    pub(crate) fn new(user: &str) -> Option<Self> {
        let is_terminal = io::stdin().is_terminal() && io::stderr().is_terminal();
        is_terminal.then(|| Self { user: user.to_owned(), turn: Mutex::new(()) })
    }
}

impl ApprovalChannel for Terminal {
    fn ask<'a>(&'a self, question: &'a ApprovalQuestion) -> BoxFuture<'a, ApprovalAnswer> {
        Box::pin(async move {
            let _turn = self.turn.lock().await;
            let _hold = Hold::new();
            // What was typed before the question was seen is no answer to it.
            #[cfg(unix)]
            let _ = rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush);
            err(&shown(question));
            let answer = tokio::task::spawn_blocking(line);
            match answer.await {
                Ok(Ok(Some(line))) if is_yes(question, line.trim()) => {
                    let typed = question.typed.as_ref().map(|_| line.trim().to_owned());
                    ApprovalAnswer::Approved { by: self.user.clone(), typed }
                }
                Ok(Ok(Some(_))) => ApprovalAnswer::Rejected { by: self.user.clone(), reason: None },
                _ => ApprovalAnswer::Later,
            }
        })
    }
}

/// One line of what is typed; none when there is no more.
fn line() -> io::Result<Option<String>> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).map(|bytes| (bytes > 0).then_some(line))
}

fn is_yes(question: &ApprovalQuestion, line: &str) -> bool {
    match &question.typed {
        Some(expected) => line == expected.trim(),
        None => matches!(line.to_lowercase().as_str(), "y" | "yes" | "是"),
    }
}

/// Asks a person for what must be typed; none where nobody sits.
pub(crate) fn typed(tool: &str, expected: &str) -> Option<String> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return None;
    }
    let (tool, expected) = (visible(tool), visible(expected));
    err(&format!("To let `{tool}` run once, type {}: ", style(Style::Bold, &expected, true)));
    line().ok().flatten().map(|line| line.trim().to_owned())
}

fn shown(question: &ApprovalQuestion) -> String {
    let bold = |text: &str| style(Style::Bold, text, true);
    let arguments = serde_json::to_string_pretty(&question.arguments).unwrap_or_default();
    let preview =
        question.preview.as_ref().map(|preview| format!("\n{}\n{}", bold("What would run:"), indented(preview)));
    format!(
        "\n{} {} ({}, {})\n{}\n{}\n{}{}\n{} ",
        style(Style::Yellow, "Approve?", true),
        bold(&visible(&question.tool)),
        question.risk,
        question.permission,
        visible(&question.reason),
        bold("Arguments:"),
        indented(&arguments),
        preview.unwrap_or_default(),
        match &question.typed {
            Some(expected) => format!("To let it run once, type {}:", bold(&visible(expected))),
            None => format!("{} [y/N]", bold("Let it run once?")),
        },
    )
}

fn indented(text: &str) -> String {
    visible(text).lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}
