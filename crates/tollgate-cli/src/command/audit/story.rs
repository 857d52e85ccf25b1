//! `tollgate audit show`: one attempt as a story. Its sentences are in `words`.

mod words;

use std::io::IsTerminal;

use jiff::tz::TimeZone;
use serde_json::Value;
use tollgate::Timestamp;
use tollgate::ledger::{Attempt, Event, Found, Index, Record};

use super::query::{index, local, span, wrong, zone_name};
use crate::args::{Format, Global};
use crate::failure::Failure;
use crate::language::Language;
use crate::output::{self, Style, style, visible};
use words::Relation;

/// What is shown of arguments and results.
const SHOWN_CHARS: usize = 400;

pub(super) fn run(global: &Global, part: &str, language: Option<Language>) -> Result<u8, Failure> {
    let mut index = index(global)?;
    let found = index.attempt_by(part).map_err(|error| wrong(&error))?;
    match output::format(global) {
        Format::Json => {
            let values: Vec<&Value> = found.records.iter().map(Record::as_value).collect();
            output::json(&values)?;
        }
        Format::Text => {
            let language = language.unwrap_or_else(Language::of_locale);
            output::out(&Story { found: &found, language }.told(&mut index)?)?;
        }
    }
    Ok(0)
}

/// An attempt that is told.
struct Story<'a> {
    found: &'a Found,
    language: Language,
}

/// A member of a record as people may see it, in one line.
fn text(record: &Record, pointer: &str) -> String {
    visible(record.as_value().pointer(pointer).and_then(Value::as_str).unwrap_or_default()).replace('\n', " ")
}

fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

impl Story<'_> {
    fn told(&self, index: &mut Index) -> Result<String, Failure> {
        let mut lines = self.title();
        lines.push(String::new());
        let begin = self.found.attempt.time;
        for record in &self.found.records {
            let time: Option<Timestamp> = record.time().parse().ok();
            let after = time.map(|time| time.as_millisecond() - begin.as_millisecond()).unwrap_or_default();
            let mut label = format!("+ {}", span(u64::try_from(after).unwrap_or_default()));
            for line in self.sentences(record) {
                lines.push(format!("{} {line}", style(Style::Dim, &format!("{label:>13}"), is_terminal())));
                label.clear();
            }
        }
        let relatives = self.relatives(index)?;
        if !relatives.is_empty() {
            lines.push(String::new());
        }
        lines.extend(relatives);
        Ok(format!("{}\n", lines.join("\n")))
    }

    fn title(&self) -> Vec<String> {
        let attempt = &self.found.attempt;
        let zone = TimeZone::system();
        let time = attempt.time.to_zoned_datetime(zone.clone());
        let colour = match attempt.status.as_str() {
            "done" => Style::Green,
            "waiting" | "open" => Style::Yellow,
            _ => Style::Red,
        };
        let mut facts = vec![
            self.language.attempt(&visible(&attempt.attempt)),
            format!("{} ({})", local(attempt.time, &zone), zone_name(&time)),
        ];
        let words = [&attempt.risk, &attempt.permission];
        facts.extend(words.into_iter().filter(|word| !word.is_empty()).map(|word| visible(word)));
        if attempt.erased {
            facts.push(self.language.erased(attempt.tool.is_empty()));
        }
        let tool = if attempt.tool.is_empty() { "…".to_owned() } else { visible(&attempt.tool) };
        vec![
            format!(
                "{}{}{}",
                style(Style::Bold, &tool, is_terminal()),
                self.language.colon(),
                style(colour, &self.ended(attempt), is_terminal())
            ),
            style(Style::Dim, &facts.join(" · "), is_terminal()),
        ]
    }

    fn ended(&self, attempt: &Attempt) -> String {
        let code = visible(&attempt.code);
        let codes: Vec<&str> = [code.as_str()].into_iter().filter(|code| !code.is_empty()).collect();
        self.language.ended(&visible(&attempt.status), &codes)
    }

    /// What one record tells, in a few lines.
    fn sentences(&self, record: &Record) -> Vec<String> {
        let language = self.language;
        let note = language.note(&text(record, "/note"));
        let approval = text(record, "/approval");
        match record.event() {
            Some(Event::Received) => self.received(record),
            Some(Event::Decided) => self.decided(record),
            Some(Event::Waiting) => vec![language.waits(&approval)],
            Some(Event::Approved) => vec![language.answered(true, &note)],
            Some(Event::Rejected) => vec![language.answered(false, &note)],
            Some(Event::Expired) => vec![language.expired(&note)],
            Some(Event::Started) => match text(record, "/sandbox") {
                sandbox if sandbox.is_empty() => vec![language.tool_began()],
                sandbox => vec![language.began(&text(record, "/tool/source"), &sandbox, &approval)],
            },
            Some(Event::Finished) => self.finished(record, &note),
            Some(Event::Settled) => vec![language.settled(&text(record, "/outcome/status"), &note)],
            Some(event @ (Event::Observed | Event::Recovered | Event::Halted)) => {
                vec![format!("{}{note}", event.as_str())]
            }
            None => vec![format!("{}{note}", text(record, "/event"))],
        }
    }

    fn received(&self, record: &Record) -> Vec<String> {
        let language = self.language;
        let mut who = match text(record, "/caller/subject") {
            subject if subject.is_empty() => vec![language.somebody_asked()],
            subject => vec![language.asked(&subject, &text(record, "/caller/role"))],
        };
        for (key, pointer) in [
            ("tenant", "/caller/tenant"),
            ("surface", "/caller/surface"),
            ("session", "/caller/session"),
            ("key", "/key"),
        ] {
            match text(record, pointer) {
                value if value.is_empty() => {}
                value => who.push(language.of_asker(key, &value)),
            }
        }
        let mut lines = vec![who.join(language.comma())];
        lines.extend(self.content(record, "arguments"));
        lines
    }

    fn decided(&self, record: &Record) -> Vec<String> {
        let policy: String = text(record, "/policy").chars().take(12).collect();
        let mut lines = self.mended(record);
        let effect = style(Style::Bold, &text(record, "/decision/effect"), is_terminal());
        lines.push(match record.get("decision") {
            None => self.language.policy_was_asked(),
            Some(_) => {
                let rule = text(record, "/decision/rule");
                let reason = match record.get("erased") {
                    None => text(record, "/decision/reason"),
                    Some(_) => self.language.erased_reason(),
                };
                self.language.decided(&policy, &effect, &rule, &reason)
            }
        });
        lines
    }

    fn mended(&self, record: &Record) -> Vec<String> {
        let repairs = record.get("repairs").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let word = |repair: &Value, key: &str| visible(repair.get(key).and_then(Value::as_str).unwrap_or_default());
        let repairs = repairs.iter().map(|repair| match word(repair, "path") {
            path if path.is_empty() => word(repair, "rule"),
            path => self.language.mended_at(&word(repair, "rule"), &path),
        });
        let repairs: Vec<String> = repairs.collect();
        if repairs.is_empty() { Vec::new() } else { vec![self.language.mended(&repairs)] }
    }

    fn finished(&self, record: &Record, note: &str) -> Vec<String> {
        let language = self.language;
        let mut lines = self.mended(record);
        let codes = [text(record, "/outcome/code"), text(record, "/outcome/tool_code")];
        let codes: Vec<&str> = codes.iter().map(String::as_str).filter(|code| !code.is_empty()).collect();
        let mut end = language.ended(&text(record, "/outcome/status"), &codes);
        if let Some(duration) = self.found.attempt.duration_ms {
            end.push_str(&language.took(&span(duration)));
        }
        if let Some(retries) = self.found.attempt.retries {
            end.push_str(&language.retried(retries));
        }
        lines.push(language.finished(&end, note));
        lines.extend(self.content(record, "result"));
        lines
    }

    /// What was asked or answered, as far as it is there.
    fn content(&self, record: &Record, key: &str) -> Option<String> {
        match record.get(key) {
            Some(value) => Some(self.language.with(&self.shown(value))),
            None => record.get("erased").map(|_| self.language.with_erased()),
        }
    }

    /// A value in one line, its beginning.
    fn shown(&self, value: &Value) -> String {
        let length = value.get("length").and_then(Value::as_u64);
        if let (Some(length), Some(_)) = (length, value.get("sha256")) {
            return self.language.digested(length);
        }
        let text = visible(&value.as_str().map_or_else(|| value.to_string(), str::to_owned)).replace('\n', " ");
        match text.char_indices().nth(SHOWN_CHARS).and_then(|(end, _)| text.get(..end)) {
            Some(head) => format!("{head}…"),
            None => text,
        }
    }

    /// Attempts that have to do with this one.
    fn relatives(&self, index: &mut Index) -> Result<Vec<String>, Failure> {
        let attempt = &self.found.attempt;
        let line = |how: Relation, other: &Found| {
            let other = &other.attempt;
            self.language.relative(how, &visible(&other.tool), &visible(&other.attempt), &self.ended(other))
        };
        let mut lines = Vec::new();
        if let Some(parent) = attempt.parent.as_deref().and_then(|parent| index.attempt_by(parent).ok()) {
            lines.push(line(Relation::Parent, &parent));
        }
        let linked = |index: &mut Index, id: &str| index.linked(id).map_err(|error| wrong(&error));
        let of_it = |other: &&Found| other.attempt.parent.as_deref() == Some(&attempt.attempt);
        lines.extend(linked(index, &attempt.attempt)?.iter().filter(of_it).map(|other| line(Relation::Child, other)));
        if let Some(approval) = &attempt.approval {
            let others = linked(index, approval)?;
            let others = others.iter().filter(|other| other.attempt.attempt != attempt.attempt);
            lines.extend(others.map(|other| line(Relation::SameApproval, other)));
        }
        Ok(lines)
    }
}
