//! `tollgate call`: one call through the gate.

use std::io::{IsTerminal, Read};

use tollgate::shape::{described, embedded_text, is_media};
use tollgate::{Call, CancellationToken, Content, Outcome, Surface, Tollgate, TraceContext, limits};

use super::{caller, configuration, open_for_person, unhurried};
use crate::args::{CallArgs, Format, Global};
use crate::failure::Failure;
use crate::output::{self, Style, style, visible};
use crate::signal::stopped;

pub(crate) async fn run(global: &Global, args: CallArgs) -> Result<u8, Failure> {
    let arguments = read(args.arguments.as_deref().unwrap_or("{}"))?;
    let loaded = configuration(global)?;
    let role = global.role.clone().unwrap_or_else(|| loaded.config.role.get_ref().clone());
    let house = open_for_person(global, unhurried(loaded)).await?;
    let caller = caller(&house, &role, Surface::Cli)?;
    let mut call = Call::raw(args.tool, arguments);
    (call.idempotency_key, call.trace) = (args.idempotency_key, trace());
    let cancellation = CancellationToken::new();
    let outcome = until_stopped(house.call_until(&caller, call, cancellation.clone()), &cancellation).await;
    tell(global, &house, &outcome).await
}

/// The outcome of a call, also of one that a signal cancels.
pub(super) async fn until_stopped(call: impl Future<Output = Outcome>, cancellation: &CancellationToken) -> Outcome {
    let mut running = std::pin::pin!(call);
    tokio::select! {
        outcome = &mut running => outcome,
        // What came of it is said all the same.
        () = stopped() => {
            cancellation.cancel();
            running.await
        }
    }
}

/// Says what came of a call, and gives its exit status.
pub(super) async fn tell(global: &Global, house: &Tollgate, outcome: &Outcome) -> Result<u8, Failure> {
    let said = match output::format(global) {
        Format::Json => output::json(outcome),
        Format::Text => output::out(&for_people(outcome)),
    };
    house.stop().await;
    said?;
    Ok(outcome.exit())
}

/// The place in a trace of whoever started this (OpenTelemetry, Environment variables as context propagation carriers).
fn trace() -> Option<TraceContext> {
    let [parent, state] = ["TRACEPARENT", "TRACESTATE"].map(|name| std::env::var(name).ok());
    TraceContext::read(parent.as_deref(), state.as_deref())
}

/// The arguments as they were given: text, `-` for standard input, `@FILE` for a file.
pub(crate) fn read(given: &str) -> Result<String, Failure> {
    let bytes = match given.strip_prefix('@') {
        Some(path) => {
            let file = std::fs::File::open(path)
                .map_err(|error| Failure::usage(format!("the file `{path}` cannot be read: {error}")))?;
            limited(file, path)?
        }
        None if given == "-" => limited(std::io::stdin().lock(), "standard input")?,
        None => return Ok(given.to_owned()),
    };
    Ok(String::from_utf8(bytes).unwrap_or_else(|error| {
        // What is not text is no JSON either: the gate refuses it, and the ledger keeps that it was tried.
        output::err(&format!("the arguments are not UTF-8 from byte {} on\n", error.utf8_error().valid_up_to()));
        error.as_bytes().escape_ascii().to_string()
    }))
}

fn limited(reader: impl Read, name: &str) -> Result<Vec<u8>, Failure> {
    let limit = limits::ARGUMENTS_BYTES_MAX as u64;
    let mut bytes = Vec::new();
    reader
        .take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::usage(format!("{name} cannot be read: {error}")))?;
    if bytes.len() as u64 > limit {
        return Err(Failure::usage(format!("{name} has more than {limit} bytes, the most that arguments may have")));
    }
    Ok(bytes)
}

fn for_people(outcome: &Outcome) -> String {
    let is_terminal = std::io::stdout().is_terminal();
    if let Some(result) = outcome.result() {
        let parts = result.content.iter().map(|part| match part {
            Content::Text(text) => visible(text),
            Content::Other(block) if is_media(block) => {
                let words = embedded_text(block).unwrap_or_else(|| described(block, None));
                format!("{}\n(--format json has it whole)", visible(&words))
            }
            Content::Other(value) => visible(&value.to_string()),
        });
        let warnings = result
            .warnings
            .iter()
            .map(|warning| format!("{} {}", style(Style::Dim, "warning:", is_terminal), visible(warning)));
        return format!("{}\n", parts.chain(warnings).collect::<Vec<_>>().join("\n").trim_end_matches('\n'));
    }
    let Some(error) = outcome.end.error() else { return String::new() };
    let head = format!("{} ({})", outcome.status().as_str(), error.error);
    let mut text = format!("{}: {}\n", style(Style::Red, &head, is_terminal), visible(&error.message));
    for detail in &error.details {
        text.push_str(&format!(
            "  {} {}\n",
            style(Style::Bold, &place(&detail.path), is_terminal),
            visible(&detail.message)
        ));
    }
    if let Some(hint) = &error.hint {
        text.push_str(&format!("{} {}\n", style(Style::Dim, "hint:", is_terminal), visible(hint)));
    }
    text
}

fn place(pointer: &str) -> String {
    if pointer.is_empty() { "(arguments)".to_owned() } else { visible(pointer) }
}
