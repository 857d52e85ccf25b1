//! `tollgate audit`: reading, verifying, proving, settling and erasing the ledger.

mod erase;
mod export;
mod page;
mod plot;
mod query;
mod report;
mod story;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tollgate::ledger::{self, ErasedRecords, LedgerError, Record, Report, Trust};
use tollgate::{Tollgate, Verdict, limits};

pub(super) use query::{attempt, short};

use super::{configuration, open_quietly, unhurried, user};
use crate::args::{AuditAction, FilterArgs, Format, Global, VerdictArg};
use crate::failure::{Failure, UNAVAILABLE};
use crate::output::{self, Style, style, visible};

/// Between two looks of `tail --follow`.
const FOLLOW_PAUSE: Duration = Duration::from_millis(200);

pub(crate) async fn run(global: &Global, action: AuditAction) -> Result<u8, Failure> {
    match action {
        AuditAction::Tail { lines, follow, filter } => tail(global, lines, follow, &filter).await,
        AuditAction::Query(args) => query::run(global, &args),
        AuditAction::Show { attempt, lang } => story::run(global, &attempt, lang),
        AuditAction::Report { filter, html } => report::run(global, &filter, html.as_deref()),
        AuditAction::Export(args) => export::run(global, &args),
        AuditAction::Verify { pubkey, anchor } => verify(global, pubkey.as_deref(), anchor.as_deref()).await,
        AuditAction::Prove { seq, since } => prove(global, seq, since.as_deref()),
        AuditAction::Key => key(global),
        AuditAction::Recover { accept_damage } => recover(global, accept_damage).await,
        AuditAction::Settle { attempt, verdict, note } => settle(global, attempt, verdict, note).await,
        AuditAction::Erase(args) => erase::run(global, &args).await,
        AuditAction::Retain { dry_run } => erase::retain(global, dry_run).await,
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
    let is_erased = record.get("erased").is_some();
    let detail = ["/arguments", "/result", "/decision/reason", "/note"]
        .iter()
        .find_map(|pointer| record.pointer(pointer))
        .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        .unwrap_or_else(|| if is_erased { "erased".to_owned() } else { String::new() });
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

/// What the check believes beyond the data folder.
async fn trust(pubkey: Option<&str>, anchor: Option<&str>) -> Result<Trust, Failure> {
    let key = match pubkey {
        None => None,
        Some(text) if text.contains('+') && !Path::new(text).exists() => Some(text.to_owned()),
        Some(path) => Some(read(Path::new(path))?),
    };
    let key = key.map(|text| text.parse()).transpose();
    let key = key.map_err(|error: LedgerError| {
        Failure::usage(format!("--pubkey: {error}")).hint(error.hint().unwrap_or_default())
    })?;
    let anchor = match anchor {
        None => None,
        Some(place) => Some(
            tollgate::read_anchor(place)
                .await
                .map_err(|why| Failure::unavailable(format!("the checkpoints at `{place}` cannot be read: {why}")))?,
        ),
    };
    Ok(Trust { key, anchor })
}

/// A small file that the operator named.
fn read(path: &Path) -> Result<String, Failure> {
    use std::io::Read;
    let mut text = String::new();
    let opened = std::fs::File::open(path);
    let read = opened.and_then(|file| file.take(limits::CONFIG_BYTES_MAX as u64).read_to_string(&mut text));
    read.map_err(|error| Failure::usage(format!("the file `{}` cannot be read: {error}", path.display())))?;
    Ok(text)
}

fn prove(global: &Global, seq: u64, since: Option<&Path>) -> Result<u8, Failure> {
    let data_dir = data_dir(global)?;
    let since = since.map(read).transpose()?;
    let proof = ledger::prove(&data_dir, seq, since.as_deref()).map_err(|error| match error {
        LedgerError::NotCovered { .. } => Failure::usage(error.to_string()).hint(error.hint().unwrap_or_default()),
        LedgerError::NotACheckpoint { .. } => {
            Failure::usage(format!("--since: {error}")).hint("it takes a signed note")
        }
        error => unreadable(&error),
    })?;
    output::json(&proof)?;
    Ok(0)
}

fn key(global: &Global) -> Result<u8, Failure> {
    let key = ledger::verifier_key(&data_dir(global)?).map_err(|error| match error {
        LedgerError::NoKey => Failure::unavailable("there is no key yet").hint("the first call makes it"),
        error => unreadable(&error),
    })?;
    match output::format(global) {
        Format::Json => output::json(&serde_json::json!({ "key": key.to_string() }))?,
        Format::Text => output::line(&key.to_string())?,
    }
    Ok(0)
}

async fn recover(global: &Global, accept_damage: bool) -> Result<u8, Failure> {
    let loaded = configuration(global)?;
    let data_dir = loaded.data_dir();
    if !data_dir.join("audit").is_dir() {
        return Err(Failure::unavailable(format!("there is no ledger at `{}`", data_dir.display())));
    }
    let before = ledger::verifier_key(&data_dir).ok();
    let builder = Tollgate::builder().config(unhurried(loaded));
    let builder = if accept_damage { builder.accept_damage() } else { builder };
    let house = builder.build().await.map_err(|error| {
        let damage = matches!(&error, tollgate::Error::Ledger(LedgerError::Damaged { .. } | LedgerError::Key { .. }));
        let failure = Failure::from(error);
        if damage && !accept_damage {
            return failure.hint("copy the data folder, then `tollgate audit recover --accept-damage`");
        }
        failure
    })?;
    house.stop().await;
    let key = ledger::verifier_key(&data_dir).map_err(|error| unreadable(&error))?;
    let is_new = before.as_ref() != Some(&key);
    match output::format(global) {
        Format::Json => output::json(&serde_json::json!({ "ok": true, "key": key.to_string(), "is_new_key": is_new }))?,
        Format::Text if is_new => output::line(&format!("the ledger opens again, with a new key: {key}"))?,
        Format::Text => output::line("the ledger opens, and its checkpoints hold")?,
    }
    Ok(0)
}

async fn verify(global: &Global, pubkey: Option<&str>, anchor: Option<&str>) -> Result<u8, Failure> {
    let data_dir = data_dir(global)?;
    let trust = trust(pubkey, anchor).await?;
    let report = match ledger::verify_with(&data_dir, &trust) {
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
        None => {
            let mut text = format!(
                "{} {} records in {} segment(s), one unbroken chain",
                style(Style::Green, "intact:", is_terminal),
                report.records,
                report.segments
            );
            if let Some(covered) = &report.checkpoints {
                let time = covered.time.as_deref().unwrap_or_default();
                text.push_str(&format!("; the first {} are signed ({time})\nkey: {}", covered.size, covered.key));
            }
            if let Some(erased) = &report.erased {
                let ErasedRecords { records, erasures, undone } = erased;
                text.push_str(&format!("\nerased: content of {records} records, as {erasures} of them say"));
                if *undone > 0 {
                    text.push_str(&format!(
                        "; {undone} erasures are not finished: `tollgate audit retain` or `erase` does it"
                    ));
                }
            }
            text
        }
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
