//! Reading the arguments of a call, beside reading the same text with `serde_json` and its fewer checks: valid JSON, as
//! nearly every call has it.

use std::hint::black_box;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate::wire::repair;
use tollgate::{Clock, RepairLevel, SystemClock};

use crate::stats::{Aim, Row, median};

const ROUNDS: usize = 31;
/// What is read in one round, so that a clock can see it.
const ROUND_BYTES: usize = 2 * 1024 * 1024;
const RATIO_MAX: f64 = 1.1;

/// Every figure of this file.
pub(crate) fn measure() -> Vec<Row> {
    let clock = SystemClock::new();
    let texts = [
        ("a small call", json!({ "city": "北京", "days": 3, "unit": "celsius", "detailed": true }).to_string()),
        ("10 kB, records", records(10_000)),
        ("1 MB, records", records(1_000_000)),
        ("1 MB, one text", json!({ "path": "notes.md", "content": prose(1_000_000) }).to_string()),
        ("1 MB, one Chinese text", json!({ "path": "笔记.md", "content": chinese(1_000_000) }).to_string()),
        ("1 MB, numbers", json!({ "points": numbers(1_000_000) }).to_string()),
    ];
    texts.map(|(what, text)| row(&clock, what, &text)).into()
}

fn row(clock: &SystemClock, what: &str, text: &str) -> Row {
    let times = (ROUND_BYTES / text.len()).max(1);
    let took = |work: &dyn Fn()| {
        let began = clock.monotonic();
        (0..times).for_each(|_| work());
        clock.monotonic().saturating_sub(began)
    };
    let ours = || drop(black_box(repair::arguments(black_box(text), RepairLevel::Lossless)));
    let plain = || drop(black_box(serde_json::from_str::<Value>(black_box(text))));
    let (mut ratios, mut speeds) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        // Side by side, and each first as often as the other: what the machine does meanwhile meets both.
        let (ours, plain) = if round % 2 == 0 {
            let ours = took(&ours);
            (ours, took(&plain))
        } else {
            let plain = took(&plain);
            (took(&ours), plain)
        };
        ratios.push(ours.as_secs_f64() / plain.as_secs_f64().max(Duration::from_nanos(1).as_secs_f64()));
        speeds.push(ours.as_secs_f64() * 1e6 / times_f64(times));
    }
    Row {
        what: format!("arguments that are valid, {what}"),
        value: median(ratios),
        unit: "×",
        aim: Aim::AtMost(RATIO_MAX),
        against: format!("`serde_json::from_str::<Value>` of the same {} bytes; {:.1} µs", text.len(), median(speeds)),
    }
}

fn times_f64(times: usize) -> f64 {
    f64::from(u32::try_from(times).unwrap_or(u32::MAX))
}

/// Records as a model writes them into a table: texts, numbers, lists, and what is nested.
fn records(bytes: usize) -> String {
    let record = |n: usize| {
        json!({
            "id": 7_512_292_042_121_000_000_u64 + u64::try_from(n).unwrap_or_default(), "name": format!("Ana \"{n}\" Müller"),
            "price": 19.99, "quantity": n, "is_new": n.is_multiple_of(3), "note": null, "tags": ["red", "蓝色", "line one\nline two"],
            "address": { "street": "Example Street 5", "city": "Shanghai", "geo": [31.2304, 121.4737] }
        })
    };
    let size = record(100).to_string().len() + 1;
    json!({ "table": "orders", "rows": (0..bytes / size).map(record).collect::<Vec<_>>() }).to_string()
}

fn prose(bytes: usize) -> String {
    const TEXT: &str = "The gate takes one call from request to recorded outcome: it finds the tool, validates its \
        arguments, asks the policy, and writes down what was decided.\n\n    fn main() { println!(\"hello\"); }\n";
    TEXT.repeat(bytes / TEXT.len())
}

fn chinese(bytes: usize) -> String {
    const TEXT: &str = "无线键盘的库存有三百二十件,价格是一百九十九元,明天上午十点以前可以发货。\n";
    TEXT.repeat(bytes / TEXT.len())
}

fn numbers(bytes: usize) -> Vec<[f64; 3]> {
    let at = |n: u32| [f64::from(n) / 7.0, f64::from(n) * 0.25, f64::from(n)];
    (0..u32::try_from(bytes / 32).unwrap_or_default()).map(at).collect()
}
