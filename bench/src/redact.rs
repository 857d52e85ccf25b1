//! Redaction of texts, beside turning the same texts into lower case: what a walk over every character costs.

use std::time::Duration;

use tollgate::redact::Redactor;
use tollgate::{Clock, Secret, SystemClock};

use crate::stats::{Aim, Row, median_us};

const TEXT_BYTES: usize = 512 * 1024;
const ROUNDS: usize = 15;
/// 200 MB/s, and what text that is all traps may cost.
const ORDINARY_US_PER_KB: f64 = 5.0;
const HOSTILE_US_PER_KB: f64 = 100.0;

const PROSE: &str = "The gate takes one call from request to recorded outcome: it finds the tool, validates its arguments, asks \
    the policy, and writes down what was decided. A token bucket keeps callers within their limits; tokens used: 1532. ";
const CODE: &str = "pub(crate) fn head(text: &str, limit: usize) -> (String, usize) {\n    let total = text.lines().count();\n    \
    let key = map.get(\"order-17\");\n    if shown == 0 { return (text.chars().take(limit).collect(), 0); }\n}\n";
const LOG: &str =
    "2026-11-30T09:30:00.123456Z INFO gate: call 18 of search_files took 12 ms status=done bytes=4711 peer=10.1.2.3\n";
const JSON: &str = "{\"seq\":7,\"time\":\"2026-11-30T09:30:00Z\",\"tool\":{\"name\":\"read_file\",\"source\":\"builtin\"},\"rows\":[1,2,3]}\n";
const CHINESE: &str = "无线键盘的库存有三百二十件，价格是一百九十九元，明天上午十点以前可以发货。请把订单的地址改成北京市海淀区中关村大街一号。";
const SECRETS: &str =
    "user=bob&password=hunter2-hunter2&x=1 and https://bob:s3cret@h.test/ and token: a1b2c3d4e5f6 in one line\n";

/// Every figure of this file.
pub(crate) fn measure() -> Vec<Row> {
    let clock = SystemClock::new();
    let secrets = ["zq-injected-secret", "another-secret-of-the-house"].map(Secret::new);
    let redactor = Redactor::new(b"key of the bench", secrets);
    let texts = [
        ("prose", PROSE, ORDINARY_US_PER_KB),
        ("code", CODE, ORDINARY_US_PER_KB),
        ("logs", LOG, ORDINARY_US_PER_KB),
        ("JSON lines", JSON, ORDINARY_US_PER_KB),
        ("Chinese", CHINESE, ORDINARY_US_PER_KB),
        ("lines of secrets", SECRETS, HOSTILE_US_PER_KB),
        ("hostile: names", "token=token(", HOSTILE_US_PER_KB),
        ("hostile: prefixes", "sk-", HOSTILE_US_PER_KB),
        ("hostile: half tokens", " eyJaaaaaaaaaaaaaaaaaaaaaaaa.", HOSTILE_US_PER_KB),
        ("hostile: digits", "4111 1111 ", HOSTILE_US_PER_KB),
    ];
    texts.map(|(name, piece, aim)| row(&clock, &redactor, name, &piece.repeat(TEXT_BYTES / piece.len()), aim)).into()
}

fn row(clock: &SystemClock, redactor: &Redactor, name: &str, text: &str, aim: f64) -> Row {
    let us = |work: &dyn Fn() -> usize| {
        let times = (0..ROUNDS).map(|_| {
            let began = clock.monotonic();
            std::hint::black_box(work());
            clock.monotonic().saturating_sub(began)
        });
        median_us(times.collect::<Vec<Duration>>())
    };
    let redacted = us(&|| redactor.text(std::hint::black_box(text)).len());
    let lowered = us(&|| std::hint::black_box(text).to_lowercase().len());
    let kb = f64::from(u32::try_from(text.len()).unwrap_or(u32::MAX)) / 1000.0;
    Row {
        what: format!("redaction, {name}"),
        value: redacted / kb,
        unit: "µs/kB",
        aim: Aim::AtMost(aim),
        against: format!(
            "{:.0} MB/s; {:.1} × `to_lowercase` of the same text",
            1000.0 * kb / redacted,
            redacted / lowered
        ),
    }
}
