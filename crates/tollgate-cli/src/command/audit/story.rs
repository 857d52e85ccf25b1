//! `tollgate audit show`: one attempt as a story.

use std::io::IsTerminal;

use jiff::tz::TimeZone;
use serde_json::Value;
use tollgate::Timestamp;
use tollgate::ledger::{Event, Found, Index, Record};

use super::query::{ended, index, local, span, wrong, zone_name};
use crate::args::{Format, Global};
use crate::failure::Failure;
use crate::output::{self, Style, style, visible};

/// What is shown of arguments and results.
const SHOWN_CHARS: usize = 400;

pub(super) fn run(global: &Global, part: &str) -> Result<u8, Failure> {
    let mut index = index(global)?;
    let found = index.attempt_by(part).map_err(|error| wrong(&error))?;
    match output::format(global) {
        Format::Json => {
            let values: Vec<&Value> = found.records.iter().map(Record::as_value).collect();
            output::json(&values)?;
        }
        Format::Text => output::out(&story(&mut index, &found)?)?,
    }
    Ok(0)
}

fn story(index: &mut Index, found: &Found) -> Result<String, Failure> {
    let mut lines = title(found);
    lines.push(String::new());
    let begin = found.attempt.time;
    for record in &found.records {
        let time: Option<Timestamp> = record.time().parse().ok();
        let after = time.map(|time| time.as_millisecond() - begin.as_millisecond()).unwrap_or_default();
        let mut label = format!("+ {}", span(u64::try_from(after).unwrap_or_default()));
        for line in told(record, found) {
            lines.push(format!("{} {line}", style(Style::Dim, &format!("{label:>13}"), is_terminal())));
            label.clear();
        }
    }
    let relatives = relatives(index, found)?;
    if !relatives.is_empty() {
        lines.push(String::new());
    }
    lines.extend(relatives);
    Ok(format!("{}\n", lines.join("\n")))
}

fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

fn title(found: &Found) -> Vec<String> {
    let attempt = &found.attempt;
    let zone = TimeZone::system();
    let time = attempt.time.to_zoned_datetime(zone.clone());
    let colour = match attempt.status.as_str() {
        "done" => Style::Green,
        "waiting" | "open" => Style::Yellow,
        _ => Style::Red,
    };
    let mut facts = vec![format!("{} ({})", local(attempt.time, &zone), zone_name(&time))];
    facts.extend([&attempt.risk, &attempt.permission].into_iter().filter(|word| !word.is_empty()).map(|w| visible(w)));
    vec![
        format!(
            "{}: {}",
            style(Style::Bold, &visible(&attempt.tool), is_terminal()),
            style(colour, &ended(attempt), is_terminal())
        ),
        style(Style::Dim, &format!("attempt {} · {}", visible(&attempt.attempt), facts.join(" · ")), is_terminal()),
    ]
}

/// What one record tells, in a few lines.
fn told(record: &Record, found: &Found) -> Vec<String> {
    let text = |pointer: &str| {
        visible(record.as_value().pointer(pointer).and_then(Value::as_str).unwrap_or_default()).replace('\n', " ")
    };
    let note = match text("/note") {
        note if note.is_empty() => String::new(),
        note => format!(": {note}"),
    };
    let approval = text("/approval");
    match record.event() {
        Some(Event::Received) => received(record),
        Some(Event::Decided) => decided(record),
        Some(Event::Waiting) => vec![format!("it waits for a human: approval {approval}")],
        Some(Event::Approved) => vec![format!("a human said yes{note}")],
        Some(Event::Rejected) => vec![format!("a human said no{note}")],
        Some(Event::Expired) => vec![format!("nobody answered in time{note}")],
        Some(Event::Started) => {
            let under = if approval.is_empty() { String::new() } else { format!(", under approval {approval}") };
            vec![format!("the tool began ({}, isolation: {}){under}", text("/tool/source"), text("/sandbox"))]
        }
        Some(Event::Finished) => finished(record, found, &note),
        Some(Event::Settled) => vec![format!("a human said how it ended: {}{note}", text("/outcome/status"))],
        Some(event @ (Event::Observed | Event::Recovered | Event::Halted)) => vec![format!("{}{note}", event.as_str())],
        None => vec![format!("{}{note}", text("/event"))],
    }
}

fn received(record: &Record) -> Vec<String> {
    let text = |pointer: &str| visible(record.as_value().pointer(pointer).and_then(Value::as_str).unwrap_or_default());
    let mut who = vec![format!("{} asked for it, as {}", text("/caller/subject"), text("/caller/role"))];
    for (word, pointer) in [
        ("of", "/caller/tenant"),
        ("through", "/caller/surface"),
        ("in session", "/caller/session"),
        ("under the key", "/key"),
    ] {
        match text(pointer) {
            value if value.is_empty() => {}
            value => who.push(format!("{word} {value}")),
        }
    }
    let mut lines = vec![who.join(", ")];
    lines.extend(record.get("arguments").map(|arguments| format!("  with {}", shown(arguments))));
    lines
}

fn decided(record: &Record) -> Vec<String> {
    let text = |pointer: &str| visible(record.as_value().pointer(pointer).and_then(Value::as_str).unwrap_or_default());
    let policy: String = text("/policy").chars().take(12).collect();
    let mut lines = mended(record);
    lines.push(format!(
        "policy {policy} said {}, by the rule {}: {}",
        style(Style::Bold, &text("/decision/effect"), is_terminal()),
        text("/decision/rule"),
        text("/decision/reason").replace('\n', " ")
    ));
    lines
}

fn mended(record: &Record) -> Vec<String> {
    let repairs = record.get("repairs").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let word = |repair: &Value, key: &str| visible(repair.get(key).and_then(Value::as_str).unwrap_or_default());
    let repairs = repairs.iter().map(|repair| match word(repair, "path") {
        path if path.is_empty() => word(repair, "rule"),
        path => format!("{} at {path}", word(repair, "rule")),
    });
    let repairs: Vec<String> = repairs.collect();
    if repairs.is_empty() { Vec::new() } else { vec![format!("its arguments were mended: {}", repairs.join(", "))] }
}

fn finished(record: &Record, found: &Found, note: &str) -> Vec<String> {
    let text = |pointer: &str| visible(record.as_value().pointer(pointer).and_then(Value::as_str).unwrap_or_default());
    let mut lines = mended(record);
    let codes = [text("/outcome/code"), text("/outcome/tool_code")];
    let codes: Vec<&str> = codes.iter().map(String::as_str).filter(|code| !code.is_empty()).collect();
    let mut end = text("/outcome/status");
    if !codes.is_empty() {
        end.push_str(&format!(" ({})", codes.join(", ")));
    }
    if let Some(duration) = found.attempt.duration_ms {
        end.push_str(&format!(" after {}", span(duration)));
    }
    if let Some(retries) = found.attempt.retries {
        end.push_str(&format!(", tried again {retries} time(s)"));
    }
    lines.push(format!("it ended as {end}{note}"));
    lines.extend(record.get("result").map(|result| format!("  with {}", shown(result))));
    lines
}

/// A value in one line, its beginning.
fn shown(value: &Value) -> String {
    let length = value.get("length").and_then(Value::as_u64);
    if let (Some(length), Some(_)) = (length, value.get("sha256")) {
        return format!("{length} characters, of which the ledger keeps the SHA-256");
    }
    let text = visible(&value.as_str().map_or_else(|| value.to_string(), str::to_owned)).replace('\n', " ");
    match text.char_indices().nth(SHOWN_CHARS).and_then(|(end, _)| text.get(..end)) {
        Some(head) => format!("{head}…"),
        None => text,
    }
}

/// Attempts that have to do with this one.
fn relatives(index: &mut Index, found: &Found) -> Result<Vec<String>, Failure> {
    let attempt = &found.attempt;
    let line = |what: &str, other: &Found| {
        let other = &other.attempt;
        format!("{what}: {} {}, {}", visible(&other.tool), visible(&other.attempt), ended(other))
    };
    let mut lines = Vec::new();
    if let Some(parent) = attempt.parent.as_deref().and_then(|parent| index.attempt_by(parent).ok()) {
        lines.push(line("it was made on behalf of", &parent));
    }
    let linked = |index: &mut Index, id: &str| index.linked(id).map_err(|error| wrong(&error));
    let of_it = |other: &&Found| other.attempt.parent.as_deref() == Some(&attempt.attempt);
    lines.extend(linked(index, &attempt.attempt)?.iter().filter(of_it).map(|other| line("on its behalf", other)));
    if let Some(approval) = &attempt.approval {
        let others = linked(index, approval)?;
        let others = others.iter().filter(|other| other.attempt.attempt != attempt.attempt);
        lines.extend(others.map(|other| line("under the same approval", other)));
    }
    Ok(lines)
}
