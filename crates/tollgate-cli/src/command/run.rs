//! `tollgate run`: a model works with the tools.

mod printer;
mod session;

use std::io::{BufRead, IsTerminal};
use std::sync::Arc;

use tollgate::agent::{Agent, Event, Model, Options, Recorder, Replay, RunError};
use tollgate::{CancellationToken, Code, Surface, Tollgate, limits, uuid_v7};

use super::{caller, configuration, open_for_person};
use crate::args::{Format, Global, RunArgs};
use crate::failure::Failure;
use crate::output::{self, Style, err, style};
use crate::signal::stopped;
use printer::Printer;

/// Exit status when reality differs from a recording.
const DIFFERS: u8 = 1;

/// The model of a new session.
const DEFAULT_MODEL: &str = "default";

pub(crate) async fn run(global: &Global, args: RunArgs) -> Result<u8, Failure> {
    let loaded = configuration(global)?;
    let role = loaded.config.role.get_ref().clone();
    let house = open_for_person(global, loaded).await?;
    let is_json = args.json || output::format(global) == Format::Json;
    let (mut agent, recorded) = agent(&house, global, &args, &role).await?;
    if !global.quiet {
        let session = agent.session().map(|session| format!(" · session {}", session.label())).unwrap_or_default();
        err(&format!(
            "tollgate: role {}{session} · ledger {} · sandbox {}\n",
            agent.caller().role,
            house.data_dir().join("audit").display(),
            tollgate::sandbox_level()
        ));
    }
    let prompts = match &args.prompt {
        Some(prompt) => vec![prompt.clone()],
        None => recorded,
    };
    let code = if !prompts.is_empty() {
        let mut worst = 0;
        for prompt in prompts {
            worst = worst.max(ask(&mut agent, Some(&prompt), is_json).await?);
        }
        worst
    } else if args.resume.is_some() {
        ask(&mut agent, None, is_json).await?
    } else {
        conversation(&house, &mut agent, is_json).await?
    };
    if let (false, 1.., Some(session)) = (global.quiet, code, agent.session())
        && code != Code::ApprovalRequired.exit()
    {
        err(&format!("nothing that was done is lost: tollgate run --resume {}\n", session.label()));
    }
    house.stop().await;
    Ok(code)
}

/// The agent of this run, and the prompts of a recording. All but a replay is kept in a session.
async fn agent(
    house: &Tollgate,
    global: &Global,
    args: &RunArgs,
    default_role: &str,
) -> Result<(Agent, Vec<String>), Failure> {
    let known = session::known(house, global, args).await?;
    let role = known.as_ref().map(|session| session.meta().caller.role.clone()).or_else(|| global.role.clone());
    let caller = caller(house, role.as_deref().unwrap_or(default_role), Surface::Agent)?;
    let stored = known.as_ref().map(|session| session.meta().model.clone());
    let name = args.model.clone().or(stored).unwrap_or_else(|| DEFAULT_MODEL.to_owned());
    let (model, recorded) = model(house, args, &name).await?;
    let options = Options {
        system: args.system.clone(),
        rounds_max: args.rounds.unwrap_or(limits::ROUNDS_MAX),
        tool_choice: args.tool_choice.as_str().into(),
        ..Options::default()
    };
    let recorder = args.record.as_deref().map(Recorder::create).transpose();
    let recorder = recorder.map_err(|error| Failure::usage(error.to_string()).hint(error.hint()))?;
    let mut agent = match (known, &args.replay) {
        (None, Some(_)) => {
            let caller = caller.with_session(uuid_v7(house.clock().now()));
            Agent::new(house.door(), caller, model, options)
        }
        (known, _) => {
            let session = match known {
                Some(session) => session::under(house, session, &name).await?,
                None => session::begin(house, args, caller.clone(), name).await?,
            };
            Agent::new(house.door(), caller, model, options).with_session(session)
        }
    };
    if let Some(recorder) = recorder {
        agent = agent.with_recorder(recorder.hiding(house.redactor().clone()));
    }
    Ok((agent, recorded))
}

/// The model, and the prompts of a recording.
async fn model(house: &Tollgate, args: &RunArgs, name: &str) -> Result<(Arc<dyn Model>, Vec<String>), Failure> {
    if let Some(path) = &args.replay {
        let replay = Replay::open(path).map_err(|error| Failure::usage(error.to_string()).hint(error.hint()))?;
        let prompts = replay.prompts().to_vec();
        return Ok((Arc::new(replay), prompts));
    }
    let model = house.model(name).await.map_err(|why| {
        Failure::usage(why)
            .hint("[models.…] in tollgate.toml says which model and where; `tollgate init` writes one with comments")
    })?;
    Ok((Arc::new(model), Vec::new()))
}

/// Line by line, until the input ends.
async fn conversation(house: &Tollgate, agent: &mut Agent, is_json: bool) -> Result<u8, Failure> {
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
            Some(line) => {
                let code = ask(agent, Some(line.trim()), is_json).await?;
                worst = worst.max(code);
                // What was broken off comes to its end before the next prompt asks what became of it.
                house.gate().drain().await;
                // What waits for a human is gone on with by another run.
                if agent.session().is_some() && code == Code::ApprovalRequired.exit() {
                    return Ok(code);
                }
            }
        }
    }
}

/// Asks, or goes on with the session where there is no prompt.
async fn ask(agent: &mut Agent, prompt: Option<&str>, is_json: bool) -> Result<u8, Failure> {
    let cancellation = CancellationToken::new();
    let mut printer = Printer::new(is_json);
    let stopped = stopped();
    let answer = {
        let mut on_event = |event: &Event| printer.print(event);
        let mut asked = std::pin::pin!(async {
            match prompt {
                Some(prompt) => agent.ask(prompt, &cancellation, &mut on_event).await,
                None => agent.resume(&cancellation, &mut on_event).await,
            }
        });
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
