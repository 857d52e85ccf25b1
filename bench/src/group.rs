//! The ledger by itself: many callers' strict records beside a bare group commit of the same bytes, one caller's beside a
//! bare write and fdatasync, and what the records of a call cost that nobody waits for.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tollgate::ledger::{Durability, Entry, Event, Ledger, OutcomeRef, ToolRef, abridge};
use tollgate::{AttemptId, CallId, Caller, Clock, Status, Surface, SystemClock};

use crate::disk::{Bare, Group};
use crate::stats::{Aim, Row, median, median_us};

/// Ledger and bare take turns, so that a disk that changes its mind changes it for both.
const ROUNDS: usize = 9;
const CALLERS: usize = 64;
const APPENDS: usize = 60;
const ALONE: usize = 60;
const CALLS: usize = 20_000;

type Failure = Box<dyn Error + Send + Sync>;

/// Every figure of this file.
pub(crate) async fn measure(folder: &Path) -> Result<Vec<Row>, Failure> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let folder = folder.join("group");
    std::fs::create_dir(&folder)?;
    let ledger = Arc::new(Ledger::open(&folder, Arc::clone(&clock))?.0);
    ledger.append(vec![started()], Durability::Strict).await?;
    let line: Arc<[u8]> = last_line(&folder)?.into();
    let group = Arc::new(Group::new(&folder, CALLERS)?);
    let mut disk = Bare::new(&folder)?;
    let (mut shares, mut rates, mut alone) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (theirs, line) = (Arc::clone(&group), Arc::clone(&line));
        let bare = rate(&*clock, move || theirs.clone().append(Arc::clone(&line))).await?;
        let ours = Arc::clone(&ledger);
        let strict = rate(&*clock, move || strict(Arc::clone(&ours))).await?;
        shares.push(strict / bare);
        rates.push(bare);
        alone.extend(one_by_one(&*clock, &ledger, &mut disk).await?);
    }
    let against = format!("a bare group commit of the same bytes ({:.0}/s), median of {ROUNDS} rounds", median(rates));
    let what = format!("strict records of {CALLERS} callers");
    let rows = vec![
        Row { what, value: median(shares), unit: "×", aim: Aim::AtLeast(0.9), against },
        single(alone),
        batched(&*clock, &ledger).await?,
    ];
    Ok(rows)
}

/// How often a second `append` returns to so many callers, each of whom asks again as soon as it did.
async fn rate<F>(clock: &dyn Clock, append: impl Fn() -> F + Clone + Send + 'static) -> Result<f64, Failure>
where
    F: Future<Output = Result<(), Failure>> + Send + 'static,
{
    let mut callers = JoinSet::new();
    let began = clock.monotonic();
    for _ in 0..CALLERS {
        let append = append.clone();
        callers.spawn(async move {
            for _ in 0..APPENDS {
                append().await?;
            }
            Ok::<(), Failure>(())
        });
    }
    while let Some(done) = callers.join_next().await {
        done??;
    }
    Ok((CALLERS * APPENDS) as f64 / (clock.monotonic() - began).as_secs_f64())
}

async fn strict(ledger: Arc<Ledger>) -> Result<(), Failure> {
    ledger.append(vec![started()], Durability::Strict).await?;
    Ok(())
}

/// What a strict record and a bare write with its fdatasync take, turn by turn.
async fn one_by_one(clock: &dyn Clock, ledger: &Ledger, disk: &mut Bare) -> Result<Vec<(Duration, Duration)>, Failure> {
    let mut times = Vec::with_capacity(ALONE);
    for _ in 0..ALONE {
        let began = clock.monotonic();
        disk.append()?;
        let between = clock.monotonic();
        ledger.append(vec![started()], Durability::Strict).await?;
        times.push((between - began, clock.monotonic() - between));
    }
    Ok(times)
}

fn single(times: Vec<(Duration, Duration)>) -> Row {
    let count = times.len();
    let (bare, strict): (Vec<_>, Vec<_>) = times.into_iter().unzip();
    let (bare, strict) = (median_us(bare), median_us(strict));
    let against = format!("a write and fdatasync ({bare:.0} µs), p50 of {count}");
    Row {
        what: "strict record of one caller".into(), value: strict / bare, unit: "×", aim: Aim::AtMost(1.25), against
    }
}

/// The three appends of a call that reads: `received`; `decided` with `started`; `finished`.
async fn batched(clock: &dyn Clock, ledger: &Ledger) -> Result<Row, Failure> {
    let mut times = Vec::with_capacity(CALLS);
    for _ in 0..CALLS {
        let appends = [vec![record(Event::Received)], vec![record(Event::Decided), started()], vec![finished()]];
        let began = clock.monotonic();
        for entries in appends {
            ledger.append(entries, Durability::Batched).await?;
        }
        times.push(clock.monotonic() - began);
    }
    let against = format!("nothing: its four records in three appends, p50 of {CALLS}");
    let value = median_us(times);
    Ok(Row { what: "batched records of a call".into(), value, unit: "µs", aim: Aim::AtMost(10.0), against })
}

/// A record as long as the gate's are.
fn record(event: Event) -> Entry {
    let attempt = AttemptId::new("01982d3c-7a51-7c3e-9f0a-5d2e8c1b4a6f");
    let mut entry = Entry::new(event, &attempt, &CallId::new("call_8Zk2mQw1"));
    entry.caller = Some(Arc::new(Caller::new("bench", "bench", Surface::Library)));
    entry.tool = Some(ToolRef { name: "change".into(), pin: None, source: Some("native") });
    entry.policy = Some("3f".repeat(32));
    entry
}

fn started() -> Entry {
    record(Event::Started)
}

fn finished() -> Entry {
    let mut entry = record(Event::Finished);
    entry.outcome = Some(OutcomeRef { status: Status::Done, code: None, tool_code: None, retryable: None });
    entry.result = Some(abridge(&"A TEXT OF SOME LENGTH, AS A MODEL WRITES IT".into()));
    entry
}

fn last_line(data_dir: &Path) -> Result<Vec<u8>, Failure> {
    let text = std::fs::read(data_dir.join("audit/segment-000000000001.jsonl"))?;
    Ok(text.split_inclusive(|byte| *byte == b'\n').next_back().ok_or("no record was written")?.to_vec())
}
