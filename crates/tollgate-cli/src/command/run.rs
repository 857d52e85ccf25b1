//! `tollgate run`: a model works with the tools.

mod printer;
mod session;
mod tally;

use std::io::{BufRead, IsTerminal};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tollgate::agent::{
    Agent, Event, Model, Options, Recorder, Replay, RunError, STRATEGIES, Strategy, strategy as strategy_named,
};
use tollgate::{CancellationToken, Clock, Code, Surface, SystemClock, Tollgate, uuid_v7};

use super::{caller, configuration, open_for_person};
use crate::args::{Format, Global, RunArgs};
use crate::failure::Failure;
use crate::output::{self, Style, err, style};
use crate::signal::stopped;
use printer::{Printer, PrinterOptions};

/// Exit status when reality differs from a recording.
const DIFFERS: u8 = 1;

/// Between two looks at the clock while a run is under way.
const TICK: Duration = Duration::from_secs(1);

/// The model of a new session.
const DEFAULT_MODEL: &str = "default";

pub(crate) async fn run(global: &Global, args: RunArgs) -> Result<u8, Failure> {
    let loaded = configuration(global)?;
    let role = loaded.config.role.get_ref().clone();
    let strategy = strategy(args.strategy.as_deref().unwrap_or(&loaded.config.run.get_ref().strategy))?;
    let house = open_for_person(global, loaded).await?;
    let is_json = args.json || output::format(global) == Format::Json;
    let printing = PrinterOptions { is_json, is_quiet: global.quiet };
    let (agent, recorded) = agent(&house, global, &args, &role).await?;
    let mut agent = agent.with_strategy(strategy).with_clock(house.clock());
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
            worst = worst.max(ask(&mut agent, Some(&prompt), printing).await?);
        }
        worst
    } else if args.resume.is_some() {
        ask(&mut agent, None, printing).await?
    } else {
        conversation(&house, &mut agent, printing).await?
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
    let options = options(house, args, &name)?;
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

fn strategy(name: &str) -> Result<Arc<dyn Strategy>, Failure> {
    strategy_named(name).ok_or_else(|| {
        Failure::usage(format!("no strategy is named `{name}`")).hint(format!("there is {}", STRATEGIES.join(", ")))
    })
}

/// How the agent works: as the configuration says, but for what the command says.
fn options(house: &Tollgate, args: &RunArgs, model: &str) -> Result<Options, Failure> {
    let mut options = house.run_options(model)?;
    options.system.clone_from(&args.system);
    options.tool_choice = args.tool_choice.as_str().into();
    options.rounds_max = args.rounds.unwrap_or(options.rounds_max);
    let budget = &mut options.budget;
    budget.tokens_max = args.max_tokens_total.or(budget.tokens_max);
    budget.cost_max = args.max_cost.or(budget.cost_max);
    budget.time_max = args.max_time.or(budget.time_max);
    if args.replay.is_some() {
        // What was said already costs nothing.
        (options.price, options.context, options.budget.cost_max) = (None, None, None);
    }
    if options.budget.cost_max.is_some() && options.price.is_none() {
        let message = format!("what the run may cost is limited, and nobody knows what the model `{model}` costs");
        let hint =
            format!("say it in tollgate.toml, for a million tokens: [models.{model}.price] input = 0.25, output = 2");
        return Err(Failure::usage(message).hint(hint));
    }
    Ok(options)
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
async fn conversation(house: &Tollgate, agent: &mut Agent, printing: PrinterOptions) -> Result<u8, Failure> {
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
                let code = ask(agent, Some(line.trim()), printing).await?;
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
async fn ask(agent: &mut Agent, prompt: Option<&str>, printing: PrinterOptions) -> Result<u8, Failure> {
    let cancellation = CancellationToken::new();
    let clock = SystemClock::new();
    let begun = clock.monotonic();
    let printer = Mutex::new(Printer::new(printing));
    let show = |event: Option<&Event>| {
        let mut printer = printer.lock().unwrap_or_else(PoisonError::into_inner);
        event.into_iter().for_each(|event| printer.print(event));
        let elapsed = clock.monotonic().saturating_sub(begun);
        printer.show_progress(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX));
    };
    let answer = {
        let mut on_event = |event: &Event| show(Some(event));
        let mut asked = std::pin::pin!(async {
            match prompt {
                Some(prompt) => agent.ask(prompt, &cancellation, &mut on_event).await,
                None => agent.resume(&cancellation, &mut on_event).await,
            }
        });
        let mut stopped = std::pin::pin!(stopped());
        let mut ticks = tokio::time::interval(TICK);
        loop {
            tokio::select! {
                answer = &mut asked => break answer,
                () = &mut stopped => {
                    cancellation.cancel();
                    break asked.await;
                }
                _ = ticks.tick() => show(None),
            }
        }
    };
    output::wipe();
    let printer = printer.into_inner().unwrap_or_else(PoisonError::into_inner);
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
