//! Asking a human on the terminal: exactly what would run, and a yes or no.

use std::io::{self, BufRead, IsTerminal};

use tokio::sync::Mutex;
use tollgate::{ApprovalAnswer, ApprovalChannel, ApprovalQuestion, BoxFuture, visible};

use crate::output::{Hold, Style, err, style};

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
    let (tool, expected) = (visible::line(tool), visible::line(expected));
    err(&format!("To let `{tool}` run once, type {}: ", style(Style::Bold, &expected, true)));
    line().ok().flatten().map(|line| line.trim().to_owned())
}

fn shown(question: &ApprovalQuestion) -> String {
    let bold = |text: &str| style(Style::Bold, text, true);
    let tool = visible::line(&question.tool);
    let arguments = visible::block(&visible::pretty(&question.arguments));
    let preview = question.preview.as_ref().map(|preview| visible::block(preview));
    let mut asked = format!("{}\n{arguments}", bold("Arguments:"));
    if let Some(preview) = preview {
        asked.push_str(&format!("\n{}\n{preview}", bold("What would run:")));
    }
    // What does not fit on the screen must not be all that is seen.
    if let Some(size) = visible::size(&asked) {
        let warning = style(Style::Yellow, &format!("{size}: scroll up to its beginning."), true);
        asked.push_str(&format!("\n{warning} It asks for {} ({}).", bold(&tool), question.risk));
    }
    format!(
        "\n{} {} ({}, {})\n{}\n{asked}\n{} ",
        style(Style::Yellow, "Approve?", true),
        bold(&tool),
        question.risk,
        question.permission,
        visible::line(&question.reason),
        match &question.typed {
            Some(expected) => format!("To let it run once, type {}:", bold(&visible::line(expected))),
            None => format!("{} [y/N]", bold("Let it run once?")),
        },
    )
}
