//! `tollgate audit query`: attempts by who asked for what, when, and how it ended.

use std::io::IsTerminal;

use jiff::ZonedDateTime;
use jiff::tz::TimeZone;
use serde_json::Value;
use tollgate::ledger::{Attempt, Filter, Found, Index, LedgerError, Record, View};
use tollgate::{Clock, SystemClock, Timestamp};

use super::{data_dir, print, unreadable};
use crate::args::{FilterArgs, Format, Global, QueryArgs};
use crate::failure::Failure;
use crate::output::{self, visible};

/// A ledger from which on reading it for the first time takes long enough to say so.
const SLOW_BYTES: u64 = 32 * 1024 * 1024;
/// The end of an attempt's id that is shown in tables.
const ID_CHARS: usize = 12;

pub(super) fn run(global: &Global, args: &QueryArgs) -> Result<u8, Failure> {
    let filter = filter(&args.filter)?;
    let mut index = index(global)?;
    let view = if args.records { View::Records } else { View::Attempts };
    let page = index.find(&filter, view, args.limit.into(), args.cursor).map_err(|error| wrong(&error))?;
    match (output::format(global), view) {
        (_, View::Records) => {
            for found in &page.found {
                let records: Vec<Record> =
                    found.records.iter().filter(|record| filter.takes_event(record)).cloned().collect();
                print(global, &records)?;
            }
        }
        (Format::Json, View::Attempts) => page.found.iter().try_for_each(|found| output::json(&line(found)))?,
        (Format::Text, View::Attempts) if page.found.is_empty() => output::line("no attempt fits")?,
        (Format::Text, View::Attempts) => output::out(&table(&page.found))?,
    }
    if let Some(next) = page.next.filter(|_| std::io::stdout().is_terminal() && !global.quiet) {
        output::err(&format!("there are more: --cursor {next}\n"));
    }
    Ok(0)
}

/// The filter that is meant here and now.
pub(super) fn filter(args: &FilterArgs) -> Result<Filter, Failure> {
    let now = SystemClock::new().now().to_zoned_datetime(TimeZone::system());
    let mut filter = Filter::default();
    for (name, text) in args.given() {
        filter.set(name, text, &now).map_err(|error| Failure::usage(error.to_string()).hint(error.hint()))?;
    }
    Ok(filter)
}

/// The index over the ledger of here. A long reading is shown on a terminal.
pub(super) fn index(global: &Global) -> Result<Index, Failure> {
    let is_shown = std::io::stderr().is_terminal() && !global.quiet;
    let mut percent = None;
    let mut progress = |read: u64, total: u64| {
        let now = read.saturating_mul(100) / total.max(1);
        if is_shown && total > SLOW_BYTES && percent != Some(now) {
            percent = Some(now);
            output::err(&format!("\rreading the ledger: {now} %"));
        }
    };
    let index = Index::open(&data_dir(global)?, &mut progress);
    if percent.is_some() {
        output::err("\r\x1b[2K");
    }
    index.map_err(|error| unreadable(&error))
}

/// The attempt whose id begins or ends so.
pub(crate) fn attempt(global: &Global, part: &str) -> Result<Attempt, Failure> {
    Ok(index(global)?.attempt_by(part).map_err(|error| wrong(&error))?.attempt)
}

/// What was asked for amiss, or cannot be read.
pub(super) fn wrong(error: &LedgerError) -> Failure {
    match error {
        LedgerError::UnknownAttempt { .. } | LedgerError::AmbiguousAttempt { .. } => {
            Failure::usage(error.to_string()).hint("`tollgate audit query` names some")
        }
        other => unreadable(other),
    }
}

fn line(found: &Found) -> Value {
    let mut line = serde_json::to_value(&found.attempt).unwrap_or_default();
    if let Some(line) = line.as_object_mut() {
        line.insert("cursor".to_owned(), Value::from(found.cursor.to_string()));
    }
    line
}

fn table(found: &[Found]) -> String {
    let zone = TimeZone::system();
    let now = SystemClock::new().now().to_zoned_datetime(zone.clone());
    let time = format!("time ({})", zone_name(&now));
    let header = [time.as_str(), "attempt", "asker", "tool", "ended", "took", "why"];
    output::table(&header, found.iter().map(|found| row(&found.attempt, &zone)))
}

fn row(attempt: &Attempt, zone: &TimeZone) -> Vec<String> {
    let caller = &attempt.caller;
    let asker = [&caller.subject, &caller.role, &caller.tenant].map(|name| visible(name));
    let asker: Vec<&str> = asker.iter().map(String::as_str).filter(|name| !name.is_empty()).collect();
    let why = attempt.decision.as_ref().filter(|_| attempt.status != "done").map(|ruling| visible(&ruling.rule));
    vec![
        local(attempt.time, zone),
        short(&attempt.attempt),
        asker.join(" / "),
        visible(&attempt.tool),
        ended(attempt),
        attempt.duration_ms.map(span).unwrap_or_default(),
        why.unwrap_or_default(),
    ]
}

/// The status, with the code where there is one, and whether content is gone.
fn ended(attempt: &Attempt) -> String {
    let erased = if attempt.erased { ", erased" } else { "" };
    match attempt.code.as_str() {
        "" => visible(&format!("{}{erased}", attempt.status)),
        code => visible(&format!("{} ({code}){erased}", attempt.status)),
    }
}

/// The end of an id, by which it can be asked for.
pub(crate) fn short(id: &str) -> String {
    let from = id.chars().count().saturating_sub(ID_CHARS);
    visible(&id.chars().skip(from).collect::<String>())
}

/// A time as people here read it.
pub(super) fn local(time: Timestamp, zone: &TimeZone) -> String {
    time.to_zoned_datetime(zone.clone()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// The name of a time zone, as far as it has one.
pub(super) fn zone_name(now: &ZonedDateTime) -> String {
    now.time_zone().iana_name().map_or_else(|| now.offset().to_string(), str::to_owned)
}

/// A length of time as people read it.
pub(super) fn span(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        60_000..3_600_000 => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1_000),
        3_600_000..86_400_000 => format!("{} h {} min", ms / 3_600_000, ms % 3_600_000 / 60_000),
        _ => format!("{} d {} h", ms / 86_400_000, ms % 86_400_000 / 3_600_000),
    }
}
