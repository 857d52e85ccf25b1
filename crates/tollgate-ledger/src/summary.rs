//! A stretch of the ledger in numbers: what was tried, by whom, and why it was refused. It is counted from the index.

use std::collections::{BTreeMap, HashMap};

use jiff::tz::TimeZone;
use jiff::{RoundMode, Timestamp, ToSpan, Unit, ZonedDateTime, ZonedDateTimeRound};
use serde::Serialize;

use crate::attempt::{Events, OPEN};
use crate::filter::Filter;
use crate::index::{Index, IndexRow, Trouble};
use crate::{Event, LedgerError};

/// Names of one list. The rest is counted together.
const NAMES_MAX: usize = 20;
/// Attempts named as never settled.
const UNSETTLED_MAX: usize = 20;
/// Steps of the order of time.
const BINS_MAX: usize = 400;

/// A stretch of the ledger in numbers.
#[derive(Debug, Clone, Serialize)]
pub struct Summary {
    /// The first attempt's time.
    pub first: Option<Timestamp>,
    /// The last attempt's time.
    pub last: Option<Timestamp>,
    /// How many attempts there were.
    pub attempts: u64,
    /// Of how many of them content was erased.
    #[serde(skip_serializing_if = "is_none")]
    pub erased: u64,
    /// How they ended.
    pub statuses: Vec<Count>,
    /// By tool, with how long those took that were started.
    pub tools: Vec<ToolTimes>,
    /// By who asked.
    pub callers: Vec<Count>,
    /// By role.
    pub roles: Vec<Count>,
    /// By why they did not end as `done`.
    pub codes: Vec<Count>,
    /// What was refused, by code and, where policy was asked, the rule.
    pub refusals: Vec<Refusal>,
    /// Questions to humans.
    pub approvals: Approvals,
    /// Attempts that were started, whose end nobody knows.
    pub unknown: u64,
    /// Their ids, the newest first, as far as they are few.
    pub unknown_attempts: Vec<String>,
    /// Through time; empty steps too.
    pub bins: Vec<Bin>,
}

/// How many of a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Count {
    /// The name; empty for those that have none, `…` for the rest of a long list.
    pub name: String,
    /// How many.
    pub count: u64,
}

/// Why something was refused.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Refusal {
    /// The code.
    pub code: String,
    /// The rule that decided; empty where the call did not come so far.
    pub rule: String,
    /// How many.
    pub count: u64,
}

/// One tool in numbers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolTimes {
    /// The tool's name as it was asked for.
    pub name: String,
    /// How many attempts.
    pub count: u64,
    /// How many ended as `done`.
    pub done: u64,
    /// How many were refused.
    pub refused: u64,
    /// How many were started and ended.
    pub started: u64,
    /// Half of those took at most so long. This and the next two are at most 3 % too high.
    pub p50_ms: u64,
    /// Of a hundred of those, 95 took at most so long.
    pub p95_ms: u64,
    /// Of a hundred of those, 99 took at most so long.
    pub p99_ms: u64,
}

/// Questions to humans in numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Approvals {
    /// How many were put.
    pub asked: u64,
    /// Of those, how many were answered with yes.
    pub approved: u64,
    /// With no.
    pub rejected: u64,
    /// Not in time.
    pub expired: u64,
    /// Half of the answers took at most so long.
    pub p50_ms: u64,
    /// Of a hundred answers, 95 took at most so long.
    pub p95_ms: u64,
}

/// A step of time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Bin {
    /// When it begins.
    pub time: Timestamp,
    /// Attempts that ended as `done`.
    pub done: u64,
    /// Attempts that were refused.
    pub refused: u64,
    /// Attempts that failed, or nobody knows how they ended.
    pub failed: u64,
    /// Attempts that wait for a human, or have not ended.
    pub open: u64,
}

// serde hands over the field itself.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_none(count: &u64) -> bool {
    *count == 0
}

fn moment(micros: i64) -> Option<Timestamp> {
    Timestamp::from_microsecond(micros).ok()
}

/// What attempts of one kind have in common, and those that were met.
struct Kind {
    id: i64,
    tool: String,
    caller: String,
    role: String,
    status: String,
    code: String,
    rule: String,
    events: Events,
    count: u64,
    durations: Durations,
    answers: Durations,
}

impl Kind {
    fn add(&mut self, row: &IndexRow) {
        self.count += 1;
        if let Some(duration) = row.duration_ms.filter(|_| self.events.has(Event::Started)) {
            self.durations.add(duration);
        }
        if let Some(answer) = row.answer_ms.filter(|_| self.events.has(Event::Waiting)) {
            self.answers.add(answer);
        }
    }
}

impl Index {
    /// What is asked for, in numbers. The steps of time are hours, days, weeks or months in `zone`.
    ///
    /// # Errors
    /// As [`Index::find`].
    pub fn summary(&mut self, filter: &Filter, zone: &TimeZone) -> Result<Summary, LedgerError> {
        self.using(|index| index.count(filter, zone))
    }

    fn count(&self, filter: &Filter, zone: &TimeZone) -> Result<Summary, Trouble> {
        let mut kinds = self.kinds_by_id()?;
        let bounds = self.bounds(filter)?.and_then(|(first, last)| moment(first).zip(moment(last)));
        let mut bins = bounds.map(|(first, last)| bins(first, last, zone)).unwrap_or_default();
        let (mut first, mut last) = (i64::MAX, i64::MIN);
        self.visit_rows(filter, &mut |row| {
            let Some(kind) = kinds.get_mut(&row.kind) else { return };
            (first, last) = (first.min(row.time), last.max(row.time));
            let after = bins.partition_point(|bin| bin.time.as_microsecond() <= row.time);
            if let Some(bin) = after.checked_sub(1).and_then(|place| bins.get_mut(place)) {
                *bin.of(&kind.status) += 1;
            }
            kind.add(&row);
        })?;
        let mut tally = Tally::default();
        let mut counted: Vec<&Kind> = kinds.values().filter(|kind| kind.count > 0).collect();
        counted.sort_by_key(|kind| kind.id);
        counted.into_iter().for_each(|kind| tally.add(kind));
        let mut unknown = filter.clone();
        unknown.statuses = vec!["unknown".to_owned()];
        let unknown_attempts = match tally.statuses.contains_key("unknown") {
            true => self.newest_ids(&unknown, UNSETTLED_MAX)?,
            false => Vec::new(),
        };
        Ok(tally.summary(moment(first), moment(last), bins, unknown_attempts))
    }

    fn kinds_by_id(&self) -> rusqlite::Result<HashMap<i64, Kind>> {
        let kinds = self.rows(
            "select kind.id, tool.text, subject.text, role.text, status.text, code.text, rule.text, events from kind
             left join word tool on tool.id = kind.tool left join word subject on subject.id = kind.subject
             left join word role on role.id = kind.role left join word status on status.id = kind.status
             left join word code on code.id = kind.code left join word rule on rule.id = kind.rule",
            [],
            |row| {
                let text = |column| Ok::<_, rusqlite::Error>(row.get::<_, Option<String>>(column)?.unwrap_or_default());
                let (tool, caller, role) = (text(1)?, text(2)?, text(3)?);
                let (status, code, rule) = (text(4)?, text(5)?, text(6)?);
                let events = Events(row.get(7)?);
                let id = row.get(0)?;
                let (durations, answers) = (Durations::default(), Durations::default());
                Ok((id, Kind { id, tool, caller, role, status, code, rule, events, count: 0, durations, answers }))
            },
        );
        kinds.map(|kinds| kinds.into_iter().collect())
    }
}

/// The counts while they are made.
#[derive(Default)]
struct Tally {
    attempts: u64,
    erased: u64,
    statuses: BTreeMap<String, u64>,
    tools: BTreeMap<String, ToolTally>,
    callers: BTreeMap<String, u64>,
    roles: BTreeMap<String, u64>,
    codes: BTreeMap<String, u64>,
    refusals: BTreeMap<(String, String), u64>,
    approvals: Approvals,
    answers: Durations,
}

#[derive(Default)]
struct ToolTally {
    count: u64,
    done: u64,
    refused: u64,
    durations: Durations,
}

impl Tally {
    fn add(&mut self, kind: &Kind) {
        let count = kind.count;
        self.attempts += count;
        self.erased += if kind.events.is_of_erased() { count } else { 0 };
        let name = |name: &String| match name.as_str() {
            "" if kind.events.is_of_erased() => "erased".to_owned(),
            name => name.to_owned(),
        };
        let tool = self.tools.entry(name(&kind.tool)).or_default();
        tool.count += count;
        tool.done += if kind.status == "done" { count } else { 0 };
        tool.refused += if kind.status == "refused" { count } else { 0 };
        tool.durations.merge(&kind.durations);
        *self.statuses.entry(kind.status.clone()).or_default() += count;
        *self.callers.entry(name(&kind.caller)).or_default() += count;
        *self.roles.entry(name(&kind.role)).or_default() += count;
        if !kind.code.is_empty() {
            *self.codes.entry(kind.code.clone()).or_default() += count;
        }
        if kind.status == "refused" {
            *self.refusals.entry((kind.code.clone(), kind.rule.clone())).or_default() += count;
        }
        if kind.events.has(Event::Waiting) {
            let approvals = &mut self.approvals;
            approvals.asked += count;
            match () {
                () if kind.events.has(Event::Rejected) => approvals.rejected += count,
                () if kind.events.has(Event::Expired) => approvals.expired += count,
                () if kind.events.has(Event::Approved) => approvals.approved += count,
                () => {}
            }
            self.answers.merge(&kind.answers);
        }
    }

    fn summary(
        self,
        first: Option<Timestamp>,
        last: Option<Timestamp>,
        bins: Vec<Bin>,
        unknown_attempts: Vec<String>,
    ) -> Summary {
        let unknown = self.statuses.get("unknown").copied().unwrap_or_default();
        let mut refusals: Vec<Refusal> =
            self.refusals.into_iter().map(|((code, rule), count)| Refusal { code, rule, count }).collect();
        refusals.sort_by_key(|refusal| std::cmp::Reverse(refusal.count));
        refusals.truncate(NAMES_MAX);
        let mut tools: Vec<ToolTimes> = self.tools.into_iter().map(|(name, tool)| tool.times(name)).collect();
        tools.sort_by_key(|tool| std::cmp::Reverse(tool.count));
        tools.truncate(NAMES_MAX);
        let [p50_ms, p95_ms] = [50, 95].map(|percent| self.answers.percentile(percent));
        Summary {
            first,
            last,
            attempts: self.attempts,
            erased: self.erased,
            statuses: counts(self.statuses),
            tools,
            callers: counts(self.callers),
            roles: counts(self.roles),
            codes: counts(self.codes),
            refusals,
            approvals: Approvals { p50_ms, p95_ms, ..self.approvals },
            unknown,
            unknown_attempts,
            bins,
        }
    }
}

impl ToolTally {
    fn times(self, name: String) -> ToolTimes {
        let [p50_ms, p95_ms, p99_ms] = [50, 95, 99].map(|percent| self.durations.percentile(percent));
        let Self { count, done, refused, durations } = self;
        ToolTimes { name, count, done, refused, started: durations.count, p50_ms, p95_ms, p99_ms }
    }
}

/// The most frequent first, and the rest together.
fn counts(map: BTreeMap<String, u64>) -> Vec<Count> {
    let mut counts: Vec<Count> = map.into_iter().map(|(name, count)| Count { name, count }).collect();
    counts.sort_by_key(|count| std::cmp::Reverse(count.count));
    let rest: u64 = counts.iter().skip(NAMES_MAX).map(|count| count.count).sum();
    counts.truncate(NAMES_MAX);
    if rest > 0 {
        counts.push(Count { name: "…".to_owned(), count: rest });
    }
    counts
}

/// How long things took, in few buckets: exact below 32, then 32 to each doubling.
#[derive(Default)]
struct Durations {
    buckets: BTreeMap<u64, u64>,
    count: u64,
}

impl Durations {
    /// The bits of a duration that are kept.
    const BITS: u32 = 5;

    fn add(&mut self, ms: u64) {
        let shift = (u64::BITS - ms.leading_zeros()).saturating_sub(Self::BITS + 1);
        // The greatest duration of the bucket.
        let top = (ms >> shift << shift) + ((1 << shift) - 1);
        *self.buckets.entry(top).or_default() += 1;
        self.count += 1;
    }

    fn merge(&mut self, other: &Self) {
        for (top, count) in &other.buckets {
            *self.buckets.entry(*top).or_default() += count;
        }
        self.count += other.count;
    }

    fn percentile(&self, percent: u64) -> u64 {
        let rank = (self.count * percent).div_ceil(100);
        let mut below = 0;
        for (top, count) in &self.buckets {
            below += count;
            if below >= rank {
                return *top;
            }
        }
        0
    }
}

impl Bin {
    fn of(&mut self, status: &str) -> &mut u64 {
        match status {
            "done" => &mut self.done,
            "refused" => &mut self.refused,
            "waiting" | OPEN => &mut self.open,
            _ => &mut self.failed,
        }
    }
}

/// The steps from the first attempt to the last.
fn bins(first: Timestamp, last: Timestamp, zone: &TimeZone) -> Vec<Bin> {
    const HOUR_S: i64 = 60 * 60;
    const DAY_S: i64 = 24 * HOUR_S;
    let length_s = last.as_second() - first.as_second();
    let first = first.to_zoned_datetime(zone.clone());
    let begin = match length_s {
        ..=172_800 => first.round(ZonedDateTimeRound::new().smallest(Unit::Hour).mode(RoundMode::Trunc)),
        _ => first.start_of_day(),
    };
    let step = match length_s {
        s if s <= 2 * DAY_S => 1.hour(),
        s if s <= 120 * DAY_S => 1.day(),
        s if s <= 1200 * DAY_S => 7.days(),
        _ => 1.month(),
    };
    let next = |time: &ZonedDateTime| time.checked_add(step).ok();
    let times = std::iter::successors(begin.ok(), next).map(|time| time.timestamp());
    let bin = |time| Bin { time, done: 0, refused: 0, failed: 0, open: 0 };
    times.take_while(|time| *time <= last).take(BINS_MAX).map(bin).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_at_most_3_percent_too_high() {
        for scale in [1, 7, 1000, 123_456] {
            let mut durations = Durations::default();
            (1..=1000).for_each(|n| durations.add(n * scale));
            for percent in [1, 50, 95, 99, 100] {
                let exact = percent * 10 * scale;
                let found = durations.percentile(percent);
                assert!(exact <= found && found <= exact + exact / 32, "{percent}: {found} for {exact}");
            }
        }
        assert_eq!(Durations::default().percentile(50), 0);
        let mut extremes = Durations::default();
        extremes.add(0);
        extremes.add(u64::MAX);
        assert_eq!((extremes.percentile(50), extremes.percentile(100)), (0, u64::MAX));
    }

    #[test]
    fn steps_follow_the_calendar() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let times = |first: &str, last: &str| -> Vec<String> {
            let bins = bins(first.parse().unwrap(), last.parse().unwrap(), &zone);
            bins.iter().map(|bin| bin.time.to_string()).collect()
        };
        let hours = times("2026-11-30T09:30:00Z", "2026-11-30T11:00:00Z");
        assert_eq!(hours, ["2026-11-30T09:00:00Z", "2026-11-30T10:00:00Z", "2026-11-30T11:00:00Z"]);
        // The night in which the clocks go back has 25 hours.
        let days = times("2026-10-24T12:00:00Z", "2026-10-27T12:00:00Z");
        assert_eq!(days[1..3], ["2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"]);
        assert!(times("1970-01-01T00:00:00Z", "2026-11-30T00:00:00Z").len() <= BINS_MAX);
    }
}
