//! What it costs that the ledger can be proved: a checkpoint over hundreds of records, and a verification of all.

use std::error::Error;
use std::path::Path;

use tollgate::ledger::{Durability, Entry, Event, verify};
use tollgate::{AttemptId, CallId, Clock, SystemClock, Tollgate};

use crate::stats::{Aim, Row, median_us};

const ROUNDS: usize = 21;
const RECORDS: u32 = 800;

/// A checkpoint, divided by the records that it covers. Its two fdatasyncs are most of it.
pub(crate) async fn checkpoint(house: &Tollgate) -> Result<Row, Box<dyn Error + Send + Sync>> {
    let (clock, ledger) = (SystemClock::new(), house.ledger());
    let mut entry = Entry::new(Event::Observed, &AttemptId::new("attempt"), &CallId::new("call"));
    entry.note = Some("n".repeat(500));
    let mut took = Vec::with_capacity(ROUNDS);
    for _ in 0..ROUNDS {
        ledger.append(vec![entry.clone(); RECORDS as usize], Durability::Strict).await?;
        let began = clock.monotonic();
        ledger.checkpoint_now().await?;
        took.push((clock.monotonic() - began) / RECORDS);
    }
    let against = format!("nothing, p50 of {ROUNDS} checkpoints over {RECORDS} records each");
    Ok(Row {
        what: "a record's share of its checkpoint".into(),
        value: median_us(took),
        unit: "µs",
        aim: Aim::AtMost(5.0),
        against,
    })
}

/// Every record of a ledger with its hash, its place in the chain and in the tree, and every checkpoint.
pub(crate) fn verification(data_dir: &Path) -> Result<Row, Box<dyn Error + Send + Sync>> {
    let clock = SystemClock::new();
    let began = clock.monotonic();
    let report = verify(data_dir)?;
    let took = clock.monotonic() - began;
    if !report.ok {
        return Err(format!("the ledger is not as it was written: {report:?}").into());
    }
    let value = report.records as f64 / took.as_secs_f64();
    let against = format!("nothing, once over {} records, {} MB", report.records, report.bytes / 1_000_000);
    Ok(Row { what: "records verified".into(), value, unit: "/s", aim: Aim::AtLeast(200_000.0), against })
}
