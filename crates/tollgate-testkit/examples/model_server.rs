//! A scripted model server for shell tests and README trials.
//!
//! `cargo run -p tollgate-testkit --example model_server -- script.jsonl [PORT]` prints its base URL and answers one
//! step of the script a request, until it is interrupted or terminated. It then exits 1 when a request broke the
//! protocol, and says how. A line of the script is a step such as
//! `{"turn":{"calls":[{"id":"call_1","name":"calculate","arguments":{"expression":"34817 * 293"}}]}}`,
//! `{"turn":{"text":"10201381"}}` or `"hang"`.

use std::env;
use std::error::Error;
use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};
use tollgate_testkit::model::{ModelServer, Step};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let mut arguments = env::args().skip(1);
    let path = arguments.next().ok_or("usage: model_server SCRIPT.jsonl [PORT]")?;
    let port = arguments.next().map_or(Ok(0), |port| port.parse::<u16>())?;
    let script = read(&path, &fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?)?;

    let mut terminated = signal(SignalKind::terminate())?;
    let server = ModelServer::start_on(port, script).await?;
    writeln!(io::stdout(), "{}", server.base_url())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted?,
        _ = terminated.recv() => {}
    }
    for violation in server.violations() {
        writeln!(io::stderr(), "{violation}")?;
    }
    Ok(if server.violations().is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn read(path: &str, text: &str) -> Result<Vec<Step>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let steps =
        lines.map(|(index, line)| serde_json::from_str(line).map_err(|error| format!("{path}:{}: {error}", index + 1)));
    steps.collect()
}
