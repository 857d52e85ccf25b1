//! Which attempts, or which records, are asked for; and how that is said on the command line and in a URL.

use globset::{GlobBuilder, GlobMatcher};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, ToSpan, ZonedDateTime};
use serde_json::Value;
use tollgate_types::{Code, Risk, Status};

use crate::attempt::{Attempt, Events, OPEN};
use crate::{Event, Record};

/// The words of one filter.
const CHARS_MAX: usize = 2_000;
/// The words of one kind.
const WORDS_MAX: usize = 64;

/// What must hold for an attempt to be asked for. What is empty or none asks for nothing; of the words of one kind, one
/// must fit; of the kinds, all must.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub(crate) since: Option<Timestamp>,
    pub(crate) until: Option<Timestamp>,
    pub(crate) callers: Vec<String>,
    pub(crate) roles: Vec<String>,
    pub(crate) tenants: Vec<String>,
    pub(crate) tools: Vec<GlobMatcher>,
    pub(crate) codes: Vec<String>,
    pub(crate) statuses: Vec<String>,
    pub(crate) risks: Vec<String>,
    pub(crate) events: Events,
    pub(crate) attempt: Option<String>,
    pub(crate) session: Option<String>,
}

/// A filter that cannot be meant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FilterError {
    message: String,
    hint: String,
}

impl FilterError {
    fn new(message: String, hint: impl Into<String>) -> Self {
        Self { message, hint: hint.into() }
    }

    /// What would be right.
    pub fn hint(&self) -> &str {
        &self.hint
    }
}

impl Filter {
    /// The kinds of filter, as [`Filter::set`] takes them.
    pub const NAMES: [&str; 12] =
        ["since", "until", "caller", "role", "tenant", "tool", "code", "status", "risk", "event", "attempt", "session"];

    /// Adds what stands under one of [`Filter::NAMES`]. Words of one kind are parted by commas; a tool is a glob. A time
    /// is RFC 3339, a date, a date and time of day, or a span such as `2h` before `now`; what names no zone is meant in
    /// `now`'s. `since` is inclusive and `until` exclusive, but the day that `until` names is within it.
    ///
    /// # Errors
    /// When the text cannot be meant.
    pub fn set(&mut self, name: &str, text: &str, now: &ZonedDateTime) -> Result<(), FilterError> {
        if text.chars().nth(CHARS_MAX).is_some() {
            return Err(FilterError::new(format!("`{name}` is too long"), format!("at most {CHARS_MAX} characters")));
        }
        let words = || text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned);
        match name {
            "since" => self.since = Some(time(name, text, now, Edge::Begin)?),
            "until" => self.until = Some(time(name, text, now, Edge::End)?),
            "caller" => self.callers.extend(words()),
            "role" => self.roles.extend(words()),
            "tenant" => self.tenants.extend(words()),
            "tool" => {
                for word in words() {
                    self.tools.push(glob(&word)?);
                }
            }
            "code" => {
                self.codes.extend(closed(
                    name,
                    words(),
                    &Code::ALL.iter().map(|code| code.as_str()).collect::<Vec<_>>(),
                )?);
            }
            "status" => self.statuses.extend(closed(name, words(), &statuses())?),
            "risk" => {
                let risks = [Risk::Read, Risk::Write, Risk::Dangerous].map(Risk::as_str);
                self.risks.extend(closed(name, words(), &risks)?);
            }
            "event" => {
                let all: Vec<&str> = Event::ALL.iter().map(|event| event.as_str()).collect();
                for word in closed(name, words(), &all)? {
                    self.events = Event::named(&word).map_or(self.events, |event| self.events.and(event));
                }
            }
            "attempt" => self.attempt = Some(text.trim().to_owned()),
            "session" => self.session = Some(text.trim().to_owned()),
            _ => {
                let names = Self::NAMES.join(", ");
                return Err(FilterError::new(
                    format!("nothing can be asked for by `{name}`"),
                    format!("there is {names}"),
                ));
            }
        }
        let kinds = [&self.callers, &self.roles, &self.tenants];
        if kinds.iter().any(|words| words.len() > WORDS_MAX) || self.tools.len() > WORDS_MAX {
            return Err(FilterError::new(format!("`{name}` has too many words"), format!("at most {WORDS_MAX}")));
        }
        self.range()
    }

    /// Asks for what came in before a time, as [`Filter::set`] takes times. A day that it names is not within.
    ///
    /// # Errors
    /// When the text cannot be meant.
    pub fn set_before(&mut self, text: &str, now: &ZonedDateTime) -> Result<(), FilterError> {
        self.until = Some(time("before", text, now, Edge::Begin)?);
        self.range()
    }

    fn range(&self) -> Result<(), FilterError> {
        match (self.since, self.until) {
            (Some(since), Some(until)) if since >= until => Err(FilterError::new(
                format!("`since` ({since}) is not before `until` ({until})"),
                "swap them, or leave one out",
            )),
            _ => Ok(()),
        }
    }

    /// From when on.
    pub fn since(&self) -> Option<Timestamp> {
        self.since
    }

    /// Up to when, exclusive.
    pub fn until(&self) -> Option<Timestamp> {
        self.until
    }

    /// Whether nothing is asked for but all.
    pub fn is_empty(&self) -> bool {
        self.has_no_words()
            && self.since.is_none()
            && self.until.is_none()
            && self.attempt.is_none()
            && self.session.is_none()
    }

    pub(crate) fn has_no_words(&self) -> bool {
        let lists = [&self.callers, &self.roles, &self.tenants, &self.codes, &self.statuses, &self.risks];
        lists.iter().all(|words| words.is_empty()) && self.tools.is_empty() && self.events == Events::default()
    }

    /// Whether an attempt is asked for.
    pub fn takes(&self, attempt: &Attempt) -> bool {
        let caller = &attempt.caller;
        self.has_time(attempt.time)
            && one_of(&self.callers, &caller.subject)
            && one_of(&self.roles, &caller.role)
            && one_of(&self.tenants, &caller.tenant)
            && self.has_tool(&attempt.tool)
            && one_of(&self.codes, &attempt.code)
            && one_of(&self.statuses, &attempt.status)
            && one_of(&self.risks, &attempt.risk)
            && (self.events == Events::default() || attempt.events.has_any(self.events))
            && self.attempt.as_ref().is_none_or(|part| is_part(&attempt.attempt, part))
            && self.session.as_ref().is_none_or(|session| *session == caller.session)
    }

    /// Whether a record is asked for, by what it says itself: who follows the ledger does not know yet how an attempt
    /// will end.
    pub fn takes_record(&self, record: &Record) -> bool {
        let text = |pointer: &str| record.as_value().pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let status = if record.event() == Some(Event::Waiting) { "waiting" } else { text("/outcome/status") };
        (self.since.is_none() && self.until.is_none() || record.time().parse().is_ok_and(|time| self.has_time(time)))
            && one_of(&self.callers, text("/caller/subject"))
            && one_of(&self.roles, text("/caller/role"))
            && one_of(&self.tenants, text("/caller/tenant"))
            && self.has_tool(text("/tool/name"))
            && one_of(&self.codes, text("/outcome/code"))
            && one_of(&self.statuses, status)
            && one_of(&self.risks, text("/risk"))
            && self.takes_event(record)
            && self.attempt.as_ref().is_none_or(|part| is_part(text("/attempt"), part))
            && self.session.as_ref().is_none_or(|session| session == text("/caller/session"))
    }

    /// Whether a record of an attempt that is asked for is of an event that is asked for.
    pub fn takes_event(&self, record: &Record) -> bool {
        self.events == Events::default() || record.event().is_some_and(|event| self.events.has(event))
    }

    fn has_time(&self, time: Timestamp) -> bool {
        self.since.is_none_or(|since| since <= time) && self.until.is_none_or(|until| time < until)
    }

    pub(crate) fn has_tool(&self, name: &str) -> bool {
        self.tools.is_empty() || !name.is_empty() && self.tools.iter().any(|glob| glob.is_match(name))
    }
}

fn one_of(words: &[String], word: &str) -> bool {
    words.is_empty() || words.iter().any(|it| it == word)
}

/// Whether an attempt's id begins or ends so.
pub(crate) fn is_part(id: &str, part: &str) -> bool {
    !id.is_empty() && (id.starts_with(part) || id.ends_with(part))
}

fn statuses() -> Vec<&'static str> {
    let ends = [Status::Done, Status::Refused, Status::Failed, Status::Waiting, Status::Unknown];
    ends.iter().map(|status| status.as_str()).chain([OPEN]).collect()
}

/// The words of a list that is closed.
fn closed(name: &str, words: impl Iterator<Item = String>, known: &[&str]) -> Result<Vec<String>, FilterError> {
    words
        .map(|word| match known.contains(&word.as_str()) {
            true => Ok(word),
            false => {
                Err(FilterError::new(format!("no {name} is named `{word}`"), format!("there is {}", known.join(", "))))
            }
        })
        .collect()
}

fn glob(text: &str) -> Result<GlobMatcher, FilterError> {
    let glob = GlobBuilder::new(text).literal_separator(false).build();
    glob.map(|glob| glob.compile_matcher()).map_err(|error| {
        FilterError::new(format!("`{text}` is not a glob: {}", error.kind()), "such as `mcp__files__*`")
    })
}

/// Which end of a day a date means.
#[derive(Clone, Copy)]
enum Edge {
    Begin,
    End,
}

fn time(name: &str, text: &str, now: &ZonedDateTime, edge: Edge) -> Result<Timestamp, FilterError> {
    let text = text.trim();
    let zone = now.time_zone();
    let found = text.parse().ok().or_else(|| of_day(text, zone, edge)).or_else(|| ago(text, now));
    found.ok_or_else(|| {
        FilterError::new(
            format!("`{text}` is not a time for `{name}`"),
            "such as 2h, 7d, 2026-11-30, 2026-11-30T09:30 or 2026-11-30T09:30:00Z",
        )
    })
}

fn of_day(text: &str, zone: &TimeZone, edge: Edge) -> Option<Timestamp> {
    // A date alone parses as a date and time too.
    if let Some(date) = text.parse::<jiff::civil::Date>().ok().filter(|_| text.len() <= 10) {
        let day = if matches!(edge, Edge::End) { date.tomorrow().ok()? } else { date };
        return Some(day.to_zoned_datetime(zone.clone()).ok()?.timestamp());
    }
    Some(text.parse::<jiff::civil::DateTime>().ok()?.to_zoned_datetime(zone.clone()).ok()?.timestamp())
}

fn ago(text: &str, now: &ZonedDateTime) -> Option<Timestamp> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let number: i64 = number.trim().parse().ok().filter(|number| (0..=1_000_000).contains(number))?;
    let span: Span = match unit {
        "s" => number.seconds(),
        "m" => number.minutes(),
        "h" => number.hours(),
        "d" => number.days(),
        "w" => number.weeks(),
        _ => return None,
    };
    Some(now.checked_sub(span).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> ZonedDateTime {
        "2026-11-30T10:00:00+08:00[Asia/Shanghai]".parse().unwrap()
    }

    fn filter(name: &str, text: &str) -> Result<Filter, FilterError> {
        let mut filter = Filter::default();
        filter.set(name, text, &now()).map(|()| filter)
    }

    #[test]
    fn times_are_said_in_many_ways() {
        let cases = [
            ("2h", "2026-11-30T00:00:00Z"),
            ("90m", "2026-11-30T00:30:00Z"),
            ("1d", "2026-11-29T02:00:00Z"),
            ("1w", "2026-11-23T02:00:00Z"),
            ("2026-11-30", "2026-11-29T16:00:00Z"),
            ("2026-11-30T09:30", "2026-11-30T01:30:00Z"),
            ("2026-11-30 09:30:15", "2026-11-30T01:30:15Z"),
            ("2026-11-30T09:30:00Z", "2026-11-30T09:30:00Z"),
            ("2026-11-30T09:30:00.5+01:00", "2026-11-30T08:30:00.5Z"),
        ];
        for (text, expected) in cases {
            assert_eq!(filter("since", text).unwrap().since.unwrap(), expected.parse().unwrap(), "{text}");
        }
        let until = filter("until", "2026-11-30").unwrap().until.unwrap();
        assert_eq!(until, "2026-11-30T16:00:00Z".parse().unwrap(), "the day is within");
        for bad in ["", "h", "-2h", "yesterday", "2026-13-01", "99999999999d", "2y", "小时", "1000000w"] {
            let error = filter("since", bad).unwrap_err();
            assert!(error.hint().contains("2h"), "{bad}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_said() {
        for (name, text, hint) in [
            ("status", "finished", "open"),
            ("code", "not_found", "unknown_tool"),
            ("risk", "high", "dangerous"),
            ("event", "begun", "received"),
            ("tool", "a[", "mcp__"),
            ("colour", "red", "caller"),
        ] {
            assert!(filter(name, text).unwrap_err().hint().contains(hint), "{name}");
        }
        let mut both = filter("since", "1h").unwrap();
        assert!(both.set("until", "2h", &now()).is_err());
        assert!(filter("caller", &"x".repeat(2001)).is_err());
    }
}
