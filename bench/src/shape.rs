//! Shaping of results: making visible what is hidden, and cutting what is too long, by the size of the whole result.
//! Redaction is measured by itself.

use std::time::Duration;

use serde_json::{Value, json};
use tollgate::shape::{Limits, Listing, Search, cut_text, cut_value, neutral};
use tollgate::{Clock, CutAt, SystemClock};

use crate::stats::{Aim, Row, median_us};

const TEXT_BYTES: usize = 8 * 1024 * 1024;
const ROUNDS: usize = 9;
/// 300 MB/s.
const US_PER_KB: f64 = 1000.0 / 300.0;

const PROSE: &str =
    "The gate takes one call from request to recorded outcome. It finds the tool, validates and asks.\n";
const LOG: &str = "2026-11-30T09:30:00.123456Z INFO gate: call 18 took 12 ms status=done bytes=4711 peer=10.1.2.3\n";
const CHINESE: &str =
    "无线键盘的库存有三百二十件，价格是一百九十九元，明天上午十点以前可以发货。请把地址改成北京市海淀区。\n";
const MIXED: &str = "naïve café – “quoted” text, Привет мир, emoji 👍 and ⚠️ signs…\n";
const COLOURED: &str =
    "\u{1b}[32mok\u{1b}[0m test result: passed in 0.12s, 0 failed, 12 ignored, 40 filtered out of them\n";

/// Every figure of this file.
pub(crate) fn measure() -> Vec<Row> {
    let clock = SystemClock::new();
    let texts =
        [("prose", PROSE), ("logs", LOG), ("Chinese", CHINESE), ("many writings", MIXED), ("coloured", COLOURED)];
    let mut rows = Vec::new();
    for (name, piece) in texts {
        let text = piece.repeat(TEXT_BYTES / piece.len());
        let shape = |at: CutAt| {
            let limits = Limits { chars: 10_000, bytes: usize::MAX, tokens: Some(2_500) };
            let shown = neutral(std::hint::black_box(&text));
            cut_text(&shown, &limits, Listing::default(), at).map_or(0, |cut| cut.shown)
        };
        rows.push(row(&clock, &format!("shaping, {name}, at a line"), text.len(), || shape(CutAt::Line)));
        rows.push(row(&clock, &format!("shaping, {name}, at a sentence"), text.len(), || shape(CutAt::Sentence)));
    }
    let text = LOG.repeat(TEXT_BYTES / LOG.len());
    if let Ok(search) = Search::new("status=failed", false) {
        rows.push(row(&clock, "searching a kept result, logs", text.len(), || {
            search.run(text.as_bytes(), |_| true).map_or(0, |()| 1)
        }));
    }
    rows.push(items(&clock));
    rows
}

/// A list of many small objects, of which some hundred are shown. The value is there already: its text is not made.
fn items(clock: &SystemClock) -> Row {
    let item =
        |n: usize| json!({ "id": n, "name": "无线机械键盘", "price": 199.0, "stock": true, "note": "a short note" });
    let value: Value = (0..60_000).map(item).collect();
    let bytes = value.to_string().len();
    row(clock, "shaping, JSON, at an item", bytes, || {
        let value = std::hint::black_box(&value);
        cut_value(value, &Limits::chars(10_000), Listing::default()).map_or(0, |cut| cut.shown)
    })
}

fn row(clock: &SystemClock, what: &str, bytes: usize, mut work: impl FnMut() -> usize) -> Row {
    let times = (0..ROUNDS).map(|_| {
        let began = clock.monotonic();
        std::hint::black_box(work());
        clock.monotonic().saturating_sub(began)
    });
    let us = median_us(times.collect::<Vec<Duration>>());
    let kb = f64::from(u32::try_from(bytes).unwrap_or(u32::MAX)) / 1000.0;
    Row {
        what: what.to_owned(),
        value: us / kb,
        unit: "µs/kB",
        aim: Aim::AtMost(US_PER_KB),
        against: format!("{:.0} MB/s; the aim is 300", 1000.0 * kb / us),
    }
}
