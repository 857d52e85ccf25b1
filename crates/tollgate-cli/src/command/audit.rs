//! `tollgate audit`: reading, verifying and settling the ledger.

mod export;
mod page;
mod plot;
mod query;
mod report;
mod story;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tollgate::Verdict;
use tollgate::ledger::{self, LedgerError, Record, Report};

use super::{configuration, open_quietly, user};
use crate::args::{AuditAction, FilterArgs, Format, Global, VerdictArg};
use crate::failure::{Failure, UNAVAILABLE};
use crate::output::{self, Style, style, visible};

/// Between two looks of `tail --follow`.
const FOLLOW_PAUSE: Duration = Duration::from_millis(200);

pub(crate) async fn run(global: &Global, action: AuditAction) -> Result<u8, Failure> {
    match action {
        AuditAction::Tail { lines, follow, filter } => tail(global, lines, follow, &filter).await,
        AuditAction::Query(args) => query::run(global, &args),
        AuditAction::Show { attempt } => story::run(global, &attempt),
        AuditAction::Report { filter, html } => report::run(global, &filter, html.as_deref()),
        AuditAction::Export(args) => export::run(global, &args),
        AuditAction::Verify => verify(global),
        AuditAction::Settle { attempt, verdict, note } => settle(global, attempt, verdict, note).await,
        AuditAction::Redact { secret_env, profile } => super::redact::run(global, &secret_env, profile),
    }
}

/// Looking at the ledger opens nothing and changes nothing.
fn data_dir(global: &Global) -> Result<PathBuf, Failure> {
    Ok(configuration(global)?.data_dir())
}

fn unreadable(error: &LedgerError) -> Failure {
    Failure::unavailable(error.to_string()).hint(error.hint().unwrap_or("run `tollgate audit verify`"))
}

async fn tail(global: &Global, lines: usize, follow: bool, filter: &FilterArgs) -> Result<u8, Failure> {
    let data_dir = data_dir(global)?;
    let filter = query::filter(filter)?;
    let tail =
        if filter.is_empty() { ledger::tail(&data_dir, lines) } else { ledger::tail_of(&data_dir, lines, &filter) };
    let (records, mut follower) = tail.map_err(|error| unreadable(&error))?;
    print(global, &records)?;
    if !follow {
        return Ok(0);
    }
    loop {
        tokio::select! {
            () = tokio::time::sleep(FOLLOW_PAUSE) => {}
            _ = tokio::signal::ctrl_c() => return Ok(0),
        }
        let mut records = follower.poll_new().map_err(|error| unreadable(&error))?;
        records.retain(|record| filter.takes_record(record));
        print(global, &records)?;
    }
}

fn print(global: &Global, records: &[Record]) -> Result<(), Failure> {
    for record in records {
        match output::format(global) {
            Format::Json => output::json(record.as_value())?,
            Format::Text => output::line(&for_people(record.as_value()))?,
        }
    }
    Ok(())
}

fn for_people(record: &Value) -> String {
    let is_terminal = std::io::stdout().is_terminal();
    let text = |pointer: &str| record.pointer(pointer).and_then(Value::as_str).map(visible).unwrap_or_default();
    let event = text("/event");
    let code = text("/outcome/code");
    let ended = match (text("/outcome/status").as_str(), code.as_str()) {
        ("", _) => text("/decision/effect"),
        (status, "") => status.to_owned(),
        (status, code) => format!("{status} ({code})"),
    };
    let colour = match text("/outcome/status").as_str() {
        "done" => Style::Green,
        "" => Style::Dim,
        _ => Style::Red,
    };
    let detail = ["/arguments", "/result", "/decision/reason", "/note"]
        .iter()
        .find_map(|pointer| record.pointer(pointer))
        .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        .unwrap_or_default();
    let detail: String = visible(&detail).replace('\n', " ").chars().take(100).collect();
    let approval = match text("/approval").as_str() {
        "" => String::new(),
        id => format!("approval {id} "),
    };
    let line = format!(
        "{:>6} {} {:<9} {} {} {} {approval}{}",
        record.pointer("/seq").map(Value::to_string).unwrap_or_default(),
        style(Style::Dim, &text("/time"), is_terminal),
        event,
        style(Style::Dim, &text("/attempt"), is_terminal),
        style(Style::Bold, &text("/tool/name"), is_terminal),
        style(colour, &ended, is_terminal),
        detail
    );
    line.trim_end().to_owned()
}

fn verify(global: &Global) -> Result<u8, Failure> {
    let data_dir = data_dir(global)?;
    let report = match ledger::verify(&data_dir) {
        Ok(report) => report,
        Err(error) => {
            if output::format(global) == Format::Json {
                output::json(&serde_json::json!({ "ok": false, "unreadable": error.to_string() }))?;
            }
            output::err(&format!("the ledger cannot be read: {error}\n"));
            return Ok(UNAVAILABLE);
        }
    };
    match output::format(global) {
        Format::Json => output::json(&report)?,
        Format::Text => output::line(&verdict(&report))?,
    }
    Ok(u8::from(!report.ok))
}

fn verdict(report: &Report) -> String {
    let is_terminal = std::io::stdout().is_terminal();
    match &report.fault {
        None => format!(
            "{} {} records in {} segment(s), one unbroken chain",
            style(Style::Green, "intact:", is_terminal),
            report.records,
            report.segments
        ),
        Some(fault) => format!(
            "{} record {} ({}, line {}): {}",
            style(Style::Red, "not intact:", is_terminal),
            fault.seq,
            fault.segment,
            fault.line,
            fault.message
        ),
    }
}

async fn settle(
    global: &Global,
    attempt: Option<String>,
    verdict: Option<VerdictArg>,
    note: Option<String>,
) -> Result<u8, Failure> {
    let loaded = configuration(global)?;
    // To look makes no data folder.
    let house =
        if attempt.is_some() || loaded.data_dir().exists() { Some(open_quietly(global, loaded).await?) } else { None };
    let (Some(house), Some(attempt)) = (&house, attempt) else {
        let unsettled = match &house {
            Some(house) => house.operator().unsettled().await?,
            None => Vec::new(),
        };
        match output::format(global) {
            Format::Json => output::json(&unsettled)?,
            Format::Text if unsettled.is_empty() => output::line("every call that was started has ended")?,
            Format::Text => {
                let rows = unsettled
                    .iter()
                    .map(|one| vec![one.attempt.to_string(), one.tool.clone(), one.time.clone(), one.caller.clone()]);
                output::out(&output::table(&["attempt", "tool", "started", "asker"], rows))?;
            }
        }
        return Ok(0);
    };
    let verdict = match verdict {
        Some(VerdictArg::Done) => Verdict::Done,
        Some(VerdictArg::Failed) => Verdict::Failed,
        None => return Err(Failure::usage("say what became of it: --as done or --as failed")),
    };
    let note = match note {
        Some(note) => format!("by {}: {note}", user()),
        None => format!("by {}", user()),
    };
    let settled = house.operator().settle(&attempt, verdict, note).await?;
    match output::format(global) {
        Format::Json => output::json(&settled)?,
        Format::Text => output::line(&format!("settled {}", settled.attempt))?,
    }
    Ok(0)
}
