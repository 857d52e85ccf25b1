//! `tollgate run`: a model works with the tools.

use std::io::{BufRead, IsTerminal};
use std::sync::Arc;

use tollgate::agent::{Agent, Event, Model, Options, Recorder, Replay, RunError};
use tollgate::{CancellationToken, Code, Surface, Tollgate, ToolChoice, limits, uuid_v7};

use super::{caller, configuration, open_for_person};
use crate::args::{Format, Global, RunArgs};
use crate::failure::Failure;
use crate::output::{self, Style, err, style, visible};
use crate::signal::stopped;

/// Exit status when reality differs from a recording.
const DIFFERS: u8 = 1;

pub(crate) async fn run(global: &Global, args: RunArgs) -> Result<u8, Failure> {
    let loaded = configuration(global)?;
    let role = global.role.clone().unwrap_or_else(|| loaded.config.role.get_ref().clone());
    let house = open_for_person(global, loaded).await?;
    let session = uuid_v7(house.clock().now());
    let caller = caller(&house, &role, Surface::Agent)?.with_session(session);
    let (model, recorded) = model(&house, &args).await?;
    let options = Options {
        system: args.system.clone(),
        rounds_max: args.rounds.unwrap_or(limits::ROUNDS_MAX),
        tool_choice: tool_choice(&args.tool_choice),
        ..Options::default()
    };
    let mut agent = Agent::new(house.door(), caller, model, options);
    if let Some(path) = &args.record {
        let recorder = Recorder::create(path).map_err(|error| Failure::usage(error.to_string()).hint(error.hint()))?;
        agent = agent.with_recorder(recorder);
    }
    if !global.quiet {
        err(&format!(
            "tollgate: role {role} · ledger {} · sandbox {}\n",
            house.data_dir().join("audit").display(),
            tollgate::sandbox_level()
        ));
    }
    let is_json = args.json || output::format(global) == Format::Json;
    let prompts = match (&args.prompt, recorded) {
        (Some(prompt), _) => vec![prompt.clone()],
        (None, prompts) => prompts,
    };
    let code = if prompts.is_empty() {
        conversation(&mut agent, is_json).await?
    } else {
        let mut worst = 0;
        for prompt in prompts {
            worst = worst.max(ask(&mut agent, &prompt, is_json).await?);
        }
        worst
    };
    house.stop().await;
    Ok(code)
}

/// The model, and the prompts of a recording.
async fn model(house: &Tollgate, args: &RunArgs) -> Result<(Arc<dyn Model>, Vec<String>), Failure> {
    if let Some(path) = &args.replay {
        let replay = Replay::open(path).map_err(|error| Failure::usage(error.to_string()).hint(error.hint()))?;
        let prompts = replay.prompts().to_vec();
        return Ok((Arc::new(replay), prompts));
    }
    let model = house.model(&args.model).await.map_err(|why| {
        Failure::usage(why)
            .hint("[models.…] in tollgate.toml says which model and where; `tollgate init` writes one with comments")
    })?;
    Ok((Arc::new(model), Vec::new()))
}

fn tool_choice(given: &str) -> ToolChoice {
    match given {
        "auto" => ToolChoice::Auto,
        "none" => ToolChoice::None,
        "required" => ToolChoice::Required,
        name => ToolChoice::Named(name.to_owned()),
    }
}

/// Line by line, until the input ends.
async fn conversation(agent: &mut Agent, is_json: bool) -> Result<u8, Failure> {
    let is_terminal = std::io::stdin().is_terminal();
    let mut worst = 0;
    loop {
        if is_terminal {
            err(&style(Style::Bold, "› ", true));
        }
        let read = tokio::task::spawn_blocking(|| {
            let mut line = String::new();
            std::io::stdin().lock().read_line(&mut line).map(|bytes| (bytes > 0).then_some(line))
        });
        let line = tokio::select! {
            line = read => line.map_err(|error| Failure::internal(error.to_string()))?,
            () = stopped() => return Ok(worst),
        };
        match line.map_err(|error| Failure::usage(format!("standard input cannot be read: {error}")))? {
            None => return Ok(worst),
            Some(line) if line.trim().is_empty() => {}
            Some(line) => worst = worst.max(ask(agent, line.trim(), is_json).await?),
        }
    }
}

async fn ask(agent: &mut Agent, prompt: &str, is_json: bool) -> Result<u8, Failure> {
    let cancellation = CancellationToken::new();
    let mut printer = Printer::new(is_json);
    let stopped = stopped();
    let answer = {
        let mut on_event = |event: &Event| printer.print(event);
        let mut asked = std::pin::pin!(agent.ask(prompt, &cancellation, &mut on_event));
        tokio::select! {
            answer = &mut asked => answer,
            () = stopped => {
                cancellation.cancel();
                asked.await
            }
        }
    };
    printer.failure.map_or(Ok(()), Err)?;
    match answer {
        Ok(answer) if answer.differences.is_empty() => Ok(0),
        Ok(answer) => {
            err(&format!("{} result(s) differ from the recording\n", answer.differences.len()));
            Ok(DIFFERS)
        }
        Err(error) => Ok(exit_of(&error)),
    }
}

fn exit_of(error: &RunError) -> u8 {
    match error.code() {
        Code::Internal => Code::UpstreamError.exit(),
        code => code.exit(),
    }
}

/// Events as they come: JSON lines, or a conversation to read.
struct Printer {
    is_json: bool,
    is_terminal: bool,
    /// Whether the last thing printed was text without a line end.
    is_within_line: bool,
    has_streamed: bool,
    failure: Option<Failure>,
}

impl Printer {
    fn new(is_json: bool) -> Self {
        let is_terminal = std::io::stdout().is_terminal();
        Self { is_json, is_terminal, is_within_line: false, has_streamed: false, failure: None }
    }

    fn print(&mut self, event: &Event) {
        let printed = if self.is_json { output::json(event) } else { self.say(event) };
        if let Err(failure) = printed {
            self.failure.get_or_insert(failure);
        }
    }

    fn say(&mut self, event: &Event) -> Result<(), Failure> {
        match event {
            Event::RunStarted { prompt, .. } => self.note(Style::Bold, &format!("› {}", visible(prompt))),
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

struct ResultTexts {
    then: String,
    now: String,
}

fn texts(difference: &tollgate::agent::Difference) -> ResultTexts {
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
