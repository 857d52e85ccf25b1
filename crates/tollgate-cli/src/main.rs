//! The command line of Tollgate: reads the words, opens the house, prints what came of it.

mod args;
mod command;
mod failure;
mod import;
mod language;
mod log;
mod output;
mod signal;
mod terminal;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command, DoctorAction, ServeArgs};
use crate::failure::Failure;

fn main() -> ExitCode {
    let cli = Cli::parse();
    log::start(&cli.global);
    let ended = scheduler(&cli)
        .enable_all()
        .build()
        .map_err(|error| Failure::internal(format!("the runtime does not start: {error}")))
        .and_then(|runtime| {
            let ended = runtime.block_on(run(cli));
            // A tool that ignores its cancellation must not keep the program from ending.
            runtime.shutdown_timeout(std::time::Duration::from_millis(100));
            ended
        });
    match ended {
        Ok(code) => ExitCode::from(code),
        Err(failure) => failure.report(),
    }
}

/// One thread for all that waits, unless more are asked for: what computes or blocks has threads of its own, and waking
/// another one for each step of a call costs more than the step.
fn scheduler(cli: &Cli) -> tokio::runtime::Builder {
    match &cli.command {
        Command::Serve(ServeArgs { threads, .. }) if *threads > 1 => {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(usize::from(*threads));
            builder
        }
        _ => tokio::runtime::Builder::new_current_thread(),
    }
}

async fn run(cli: Cli) -> Result<u8, Failure> {
    let global = cli.global;
    match cli.command {
        Command::Init(args) => command::init::run(&global, &args),
        Command::Serve(args) => command::serve::run(&global, args).await,
        Command::Run(args) => command::run::run(&global, args).await,
        Command::Call(args) => command::call::run(&global, args).await,
        Command::Undo { attempt } => command::undo::run(&global, &attempt).await,
        Command::Tools { action } => command::tools::run(&global, action).await,
        Command::Approvals { action } => command::approvals::run(&global, action).await,
        Command::Sessions { action } => command::sessions::run(&global, action).await,
        Command::Keys { action } => command::keys::run(&global, action).await,
        Command::Mcp { action } => command::mcp::run(&global, action).await,
        Command::Policy { action } => command::policy::run(&global, action).await,
        Command::Eval { action } => command::eval::run(&global, action).await,
        Command::Audit { action } => command::audit::run(&global, action).await,
        Command::Doctor { action: Some(DoctorAction::Url { url, resolve }), .. } => {
            command::doctor::url::run(&global, url, &resolve).await
        }
        Command::Doctor { offline, wait, action: None } => command::doctor::run(&global, offline, wait).await,
        Command::Completions { shell } => command::docs::completions(shell),
        Command::Man => command::docs::man(),
        Command::Docs { folder } => command::docs::write(&folder),
    }
}
