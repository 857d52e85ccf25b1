//! Taking records out in forms that other programs read. What is written is streamed, in memory that does not grow.

mod csv;
mod ocsf;
mod parquet;

use std::io::{self, Write};
use std::str::FromStr;

use jiff::Timestamp;

use crate::index::{Found, Index, View};
use crate::{Filter, LedgerError, Record};

/// The forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// The records' own lines, those of an attempt together: each can still be checked against its hash.
    Jsonl,
    /// RFC 4180, one row an attempt. A cell that a spreadsheet would take for a formula begins with `'`.
    Csv,
    /// Apache Parquet, one row an attempt, not compressed.
    Parquet,
    /// One API Activity event (class 6003) of the Open Cybersecurity Schema Framework 1.8.0 an attempt, a line each.
    Ocsf,
}

impl FromStr for ExportFormat {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "jsonl" => Ok(Self::Jsonl),
            "csv" => Ok(Self::Csv),
            "parquet" => Ok(Self::Parquet),
            "ocsf" => Ok(Self::Ocsf),
            _ => Err(format!("no format is named `{name}`: there is jsonl, csv, parquet, ocsf")),
        }
    }
}

impl Index {
    /// Writes what is asked for, oldest first, and gives the number of attempts; for [`ExportFormat::Jsonl`] a record
    /// about the ledger itself counts as one.
    ///
    /// # Errors
    /// As [`Index::find`], and what `out` says.
    pub fn export(
        &mut self,
        filter: &Filter,
        format: ExportFormat,
        mut out: impl Write + Send,
    ) -> Result<u64, LedgerError> {
        let writing = LedgerError::io("be exported");
        let mut count = 0;
        let mut each = |index: &mut Self, view, write: &mut dyn FnMut(&Found) -> io::Result<()>| {
            index.each(filter, view, |found| {
                count += 1;
                write(&found).map_err(LedgerError::io("be exported"))
            })
        };
        match format {
            ExportFormat::Jsonl => each(self, View::Records, &mut |found| lines(&mut out, filter, found))?,
            ExportFormat::Csv => {
                csv::head(&mut out).map_err(LedgerError::io("be exported"))?;
                each(self, View::Attempts, &mut |found| csv::row(&mut out, &row(found)))?;
            }
            ExportFormat::Parquet => {
                let mut file = parquet::File::new(&mut out).map_err(LedgerError::io("be exported"))?;
                each(self, View::Attempts, &mut |found| file.row(row(found)))?;
                file.close().map_err(LedgerError::io("be exported"))?;
            }
            ExportFormat::Ocsf => each(self, View::Attempts, &mut |found| {
                serde_json::to_writer(&mut out, &ocsf::event(found))?;
                out.write_all(b"\n")
            })?,
        }
        out.flush().map_err(writing)?;
        Ok(count)
    }
}

fn lines(out: &mut impl Write, filter: &Filter, found: &Found) -> io::Result<()> {
    let asked_for = found.records.iter().zip(&found.lines).filter(|(record, _)| filter.takes_event(record));
    for (_, line) in asked_for {
        out.write_all(line)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Time,
    Text,
    Number,
}

/// The columns of the forms that have columns.
const COLUMNS: [(&str, Kind); 27] = [
    ("time", Kind::Time),
    ("ended", Kind::Time),
    ("seq", Kind::Number),
    ("attempt", Kind::Text),
    ("call_id", Kind::Text),
    ("parent", Kind::Text),
    ("subject", Kind::Text),
    ("role", Kind::Text),
    ("tenant", Kind::Text),
    ("surface", Kind::Text),
    ("session", Kind::Text),
    ("tool", Kind::Text),
    ("risk", Kind::Text),
    ("permission", Kind::Text),
    ("status", Kind::Text),
    ("code", Kind::Text),
    ("tool_code", Kind::Text),
    ("effect", Kind::Text),
    ("rule", Kind::Text),
    ("reason", Kind::Text),
    ("approval", Kind::Text),
    ("answer_ms", Kind::Number),
    ("duration_ms", Kind::Number),
    ("retries", Kind::Number),
    ("events", Kind::Text),
    ("arguments", Kind::Text),
    ("result", Kind::Text),
];

/// One value of a row.
#[derive(Debug, Clone, PartialEq)]
enum Cell {
    Nothing,
    Time(Timestamp),
    Number(u64),
    Text(String),
}

fn row(found: &Found) -> [Cell; COLUMNS.len()] {
    let attempt = found.attempt.clone();
    let text = |text: String| if text.is_empty() { Cell::Nothing } else { Cell::Text(text) };
    let number = |number: Option<u64>| number.map_or(Cell::Nothing, Cell::Number);
    let [effect, rule, reason] =
        attempt.decision.map(|ruling| [ruling.effect, ruling.rule, ruling.reason]).unwrap_or_default();
    let events: Vec<&str> = found.records.iter().filter_map(Record::event).map(crate::Event::as_str).collect();
    [
        Cell::Time(attempt.time),
        attempt.ended.map_or(Cell::Nothing, Cell::Time),
        number(found.records.first().map(Record::seq)),
        text(attempt.attempt),
        text(attempt.call_id),
        text(attempt.parent.unwrap_or_default()),
        text(attempt.caller.subject),
        text(attempt.caller.role),
        text(attempt.caller.tenant),
        text(attempt.caller.surface),
        text(attempt.caller.session),
        text(attempt.tool),
        text(attempt.risk),
        text(attempt.permission),
        text(attempt.status),
        text(attempt.code),
        text(attempt.tool_code),
        text(effect),
        text(rule),
        text(reason),
        text(attempt.approval.unwrap_or_default()),
        number(attempt.answer_ms),
        number(attempt.duration_ms),
        number(attempt.retries),
        text(events.join(" ")),
        text(said(found, "arguments").unwrap_or_default()),
        text(said(found, "result").unwrap_or_default()),
    ]
}

/// The JSON of a member that at most one record of an attempt has; `erased`, which is no JSON, where it may have been one.
fn said(found: &Found, key: &str) -> Option<String> {
    let said = found.records.iter().find_map(|record| record.get(key)).map(ToString::to_string);
    said.or_else(|| found.attempt.erased.then(|| "erased".to_owned()))
}
