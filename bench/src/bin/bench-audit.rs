//! Measures how soon the ledger answers a question, over a ledger that it makes up.
//!
//! ```text
//! cargo run --release -p tollgate-bench --bin bench-audit -- [--records 1000000] [--folder DIR]
//! ```
//!
//! A row is one JSON object: the median and the worst of 21 queries of 50 attempts each, in milliseconds; behind them stands
//! the slowest median with its aim. A ledger that is in the folder already is used as it is.

#![expect(clippy::print_stdout, reason = "its output is its purpose")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use serde_json::json;
use tollgate::ledger::{
    DecisionRef, Durability, Entry, Event, Filter, Index, Ledger, OutcomeRef, ToolRef, View, abridge,
};
use tollgate::{AttemptId, CallId, Caller, Clock, Code, Pin, Risk, Status, Surface, SystemClock, Timestamp};

/// 2026-01-01, in microseconds.
const BEGIN: i64 = 1_767_225_600_000_000;
/// From one record to the next, so that ten million of them fill half a year.
const STEP: i64 = 1_500_000;
/// Attempts of one append.
const ATTEMPTS_AT_ONCE: u64 = 100;
const QUERIES: usize = 21;
const LIMIT: usize = 50;
/// What the slowest of the queries may take, over ten million records.
const QUERY_MS: f64 = 100.0;

/// A clock that goes on with each record.
struct Made(AtomicI64);

impl Clock for Made {
    fn now(&self) -> Timestamp {
        let micros =
            BEGIN + self.0.fetch_add(STEP * 4 * i64::try_from(ATTEMPTS_AT_ONCE).unwrap_or(1), Ordering::Relaxed);
        Timestamp::from_microsecond(micros).unwrap_or_default()
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut records = 1_000_000;
    let mut folder = None;
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--records" => records = words.next().ok_or("--records takes a number")?.parse()?,
            "--folder" => folder = Some(PathBuf::from(words.next().ok_or("--folder takes a folder")?)),
            other => return Err(format!("no option is named `{other}`").into()),
        }
    }
    let scratch = tempfile::tempdir()?;
    let folder = folder.unwrap_or_else(|| scratch.path().to_owned());
    let clock = SystemClock::new();
    if !folder.join("audit").exists() {
        let began = clock.monotonic();
        make(&folder, records)?;
        row("made up", json!({ "records": records, "s": (clock.monotonic() - began).as_secs_f64() }));
    }
    let began = clock.monotonic();
    let mut index = Index::open(&folder, &mut |_, _| {})?;
    let (ledger, index_bytes) = sizes(&folder)?;
    row(
        "index made",
        json!({
            "s": (clock.monotonic() - began).as_secs_f64(), "ledger_mb": ledger / 1_000_000,
            "index_mb": index_bytes / 1_000_000, "index_percent": index_bytes * 100 / ledger.max(1),
        }),
    );
    let mut slowest = 0.0;
    for filter in FILTERS {
        slowest = measure(&folder, &mut index, &clock, filter)?.max(slowest);
    }
    let began = clock.monotonic();
    let summary = index.summary(&Filter::default(), &jiff::tz::TimeZone::UTC)?;
    let took = (clock.monotonic() - began).as_secs_f64();
    row("report of all", json!({ "attempts": summary.attempts, "s": took }));
    let against = format!("nothing, p50 of {QUERIES}, of {} filters over {ledger} bytes of records", FILTERS.len());
    let aim = json!({ "at_most": QUERY_MS });
    println!(
        "{}",
        json!({ "what": "slowest query by index", "value": slowest, "unit": "ms", "aim": aim, "against": against })
    );
    Ok(())
}

type Words = &'static [(&'static str, &'static str)];

const HALF: (&str, &str) = ("until", "2026-01-03");

const FILTERS: &[Words] = &[
    &[],
    &[HALF],
    &[("caller", "caller-3")],
    &[("caller", "caller-199"), HALF],
    &[("role", "reader")],
    &[("role", "auditor"), HALF],
    &[("tenant", "tenant-7")],
    &[("tenant", "tenant-19"), HALF],
    &[("tool", "tool_5")],
    &[("tool", "tool_3*"), HALF],
    &[("code", "denied")],
    &[("code", "outcome_unknown"), HALF],
    &[("status", "refused")],
    &[("status", "unknown"), HALF],
    &[("risk", "dangerous")],
    &[("risk", "read"), HALF],
    &[("event", "approved")],
    &[("session", "session-900")],
    &[("attempt", "00000000-00c8-7")],
    &[("caller", "caller-17"), ("tool", "tool_1*"), ("code", "denied"), ("role", "reader")],
    &[("caller", "caller-17"), ("tool", "tool_39"), ("status", "unknown"), ("tenant", "tenant-2")],
    &[("caller", "nobody")],
];

/// The median, in milliseconds.
fn measure(folder: &Path, index: &mut Index, clock: &SystemClock, words: Words) -> Result<f64, Box<dyn Error>> {
    let now = Timestamp::from_microsecond(BEGIN)?.to_zoned_datetime(jiff::tz::TimeZone::UTC);
    let mut filter = Filter::default();
    for (name, text) in words {
        filter.set(name, text, &now)?;
    }
    let mut times = Vec::with_capacity(QUERIES);
    let mut found = 0;
    for _ in 0..QUERIES {
        let began = clock.monotonic();
        // As the command line does it: opened, caught up, asked.
        *index = Index::open(folder, &mut |_, _| {})?;
        found = index.find(&filter, View::Attempts, LIMIT, None)?.found.len();
        times.push(clock.monotonic() - began);
    }
    times.sort_unstable();
    let ms = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1e3);
    let what: Vec<String> = words.iter().map(|(name, text)| format!("{name}={text}")).collect();
    let what = if what.is_empty() { "all".to_owned() } else { what.join(" ") };
    let median = ms(times.get(QUERIES / 2));
    row(&what, json!({ "found": found, "p50_ms": median, "max_ms": ms(times.last()) }));
    Ok(median)
}

fn row(what: &str, figures: serde_json::Value) {
    println!("{}", json!({ "what": what, "figures": figures }));
}

/// The bytes of the segments, and of the index.
fn sizes(folder: &Path) -> Result<(u64, u64), Box<dyn Error>> {
    let (mut ledger, mut index) = (0, 0);
    for entry in std::fs::read_dir(folder.join("audit"))? {
        let entry = entry?;
        let is_index = entry.file_name().to_string_lossy().starts_with("index");
        *(if is_index { &mut index } else { &mut ledger }) += entry.metadata()?.len();
    }
    Ok((ledger, index))
}

fn make(folder: &Path, records: u64) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    let (ledger, _) = Ledger::open(folder, Arc::new(Made(AtomicI64::new(0))))?;
    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    let mut attempt = 0;
    while attempt * 4 < records {
        let entries = (0..ATTEMPTS_AT_ONCE).flat_map(|n| trip(attempt + n, &mut dice)).collect();
        runtime.block_on(ledger.append(entries, Durability::Batched))?;
        attempt += ATTEMPTS_AT_ONCE;
    }
    Ok(ledger.close()?)
}

/// Xorshift64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }

    /// The lower ones more often.
    fn low(&mut self, sides: u64) -> u64 {
        self.below(sides).min(self.below(sides))
    }
}

fn trip(number: u64, dice: &mut Dice) -> Vec<Entry> {
    let id =
        AttemptId::new(format!("{:08x}-{:04x}-7000-8000-{:012x}", number >> 16, number & 0xffff, dice.below(1 << 48)));
    let call_id = CallId::new(format!("call_{number}"));
    let who = dice.low(200);
    let role = match who % 4 {
        0 => "developer",
        1 => "reader",
        2 => "operator",
        _ => "auditor",
    };
    let caller = Caller::new(format!("caller-{who}"), role, Surface::Rest)
        .with_tenant(format!("tenant-{}", who % 20))
        .with_session(format!("session-{}", number / 50));
    let caller = Arc::new(caller);
    let tool = dice.low(40);
    let risk = match tool % 4 {
        0 | 1 => Risk::Read,
        2 => Risk::Write,
        _ => Risk::Dangerous,
    };
    let (status, code, middle) = match dice.below(100) {
        0..85 => (Status::Done, None, Event::Started),
        85..88 => (Status::Failed, Some(Code::ToolError), Event::Started),
        88..89 => (Status::Failed, Some(Code::Timeout), Event::Started),
        89..93 => (Status::Refused, Some(Code::InvalidArguments), Event::Decided),
        93..96 => (Status::Refused, Some(Code::Denied), Event::Decided),
        96..99 => (Status::Done, None, Event::Approved),
        _ if dice.below(50) == 0 => (Status::Unknown, Some(Code::OutcomeUnknown), Event::Started),
        _ => (Status::Refused, Some(Code::Forbidden), Event::Decided),
    };
    [Event::Received, Event::Decided, middle, Event::Finished]
        .map(|event| {
            let mut entry = Entry::new(event, &id, &call_id);
            entry.caller = Some(Arc::clone(&caller));
            let pin = (event != Event::Received)
                .then(|| Pin::new("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"));
            entry.tool = Some(ToolRef { name: format!("tool_{tool}"), pin, source: Some("builtin") });
            entry.risk = Some(risk);
            match event {
                Event::Received => {
                    entry.arguments = Some(abridge(&json!({ "path": format!("notes/{number}.md"), "limit": 20 })))
                }
                Event::Decided => {
                    let rule = format!("cedar:rule-{}", tool % 6);
                    entry.decision = Some(DecisionRef { effect: "allow", rule, reason: "the role may".to_owned() });
                }
                Event::Finished => {
                    entry.outcome = Some(OutcomeRef { status, code, tool_code: None, retryable: None });
                    entry.result = Some(abridge(&json!([{ "type": "text", "text": "x".repeat(120) }])));
                    entry.duration_ms = Some(1 + dice.low(5_000));
                }
                _ => {}
            }
            entry
        })
        .into()
}
