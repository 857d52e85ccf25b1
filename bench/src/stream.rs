//! Reading of streamed replies, by dialect: what one chunk costs, and that long arguments cost no more for each byte than
//! short ones.

use std::time::Duration;

use serde_json::json;
use tollgate::wire::{Dialect, Names, Stream};
use tollgate::{Clock, SystemClock};

use crate::stats::{Aim, Row, median_us};

const CHUNKS: usize = 20_000;
const PIECE: &str = "the order of 无线键盘 is on its \\\"way\\\" ";
/// Decimal, so that four of them fit into what arguments may have.
const MEGABYTE: usize = 1_000_000;
const ROUNDS: usize = 7;

/// Every figure of this file. A dialect that cannot read its own script has one row that is never met.
pub(crate) fn measure() -> Vec<Row> {
    let clock = SystemClock::new();
    let all = |dialect| {
        let mut rows = vec![chunk(&clock, dialect)?];
        rows.extend(lengths(&clock, dialect)?);
        Ok(rows)
    };
    let broken = |why: String| {
        vec![Row {
            what: "a streamed reply".into(),
            value: f64::INFINITY,
            unit: "µs",
            aim: Aim::AtMost(5.0),
            against: why,
        }]
    };
    Dialect::ALL.into_iter().flat_map(|dialect| all(dialect).unwrap_or_else(broken)).collect()
}

/// The events of a reply: its beginning, one that is said again and again, and its end.
struct Script {
    begin: String,
    piece: String,
    end: String,
}

impl Script {
    /// A call whose arguments come in pieces; Gemini sends its arguments whole, so that there it is text.
    fn of(dialect: Dialect) -> Self {
        let event = |value: serde_json::Value| format!("data: {value}\n\n");
        let chat = |delta: serde_json::Value| event(json!({ "choices": [{ "index": 0, "delta": delta }] }));
        match dialect {
            Dialect::Chat => {
                let call =
                    json!({ "index": 0, "id": "c1", "function": { "name": "write", "arguments": "{\"text\":\"" } });
                Self {
                    begin: chat(json!({ "tool_calls": [call] })),
                    piece: chat(json!({ "tool_calls": [{ "index": 0, "function": { "arguments": PIECE } }] })),
                    end: chat(json!({ "tool_calls": [{ "index": 0, "function": { "arguments": "\"}" } }] }))
                        + &event(json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": "tool_calls" }] }))
                        + "data: [DONE]\n\n",
                }
            }
            Dialect::Responses => {
                let item = |arguments: &str| {
                    json!({ "type": "function_call", "id": "fc_1", "call_id": "c1", "name": "write",
                        "arguments": arguments, "status": "completed" })
                };
                let delta = |text: &str| {
                    event(json!({ "type": "response.function_call_arguments.delta", "item_id": "fc_1",
                        "output_index": 0, "sequence_number": 7, "delta": text }))
                };
                Self {
                    begin: event(json!({ "type": "response.output_item.added", "output_index": 0, "item": item("") }))
                        + &delta("{\"text\":\""),
                    piece: delta(PIECE),
                    end: delta("\"}")
                        + &event(json!({ "type": "response.completed",
                            "response": { "id": "r1", "status": "completed", "output": [] } })),
                }
            }
            Dialect::Anthropic => {
                let delta = |text: &str| {
                    event(json!({ "type": "content_block_delta", "index": 0,
                        "delta": { "type": "input_json_delta", "partial_json": text } }))
                };
                let block = json!({ "type": "tool_use", "id": "c1", "name": "write", "input": {} });
                Self {
                    begin: event(json!({ "type": "message_start", "message": { "id": "m1", "role": "assistant",
                        "content": [], "usage": { "input_tokens": 1, "output_tokens": 1 } } }))
                        + &event(json!({ "type": "content_block_start", "index": 0, "content_block": block }))
                        + &delta("{\"text\":\""),
                    piece: delta(PIECE),
                    end: delta("\"}")
                        + &event(json!({ "type": "content_block_stop", "index": 0 }))
                        + &event(json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" } }))
                        + &event(json!({ "type": "message_stop" })),
                }
            }
            Dialect::Gemini => {
                let parts = |text: &str| json!({ "content": { "role": "model", "parts": [{ "text": text }] } });
                Self {
                    begin: event(json!({ "candidates": [parts("so: ")] })),
                    piece: event(json!({ "candidates": [parts(PIECE)] })),
                    end: event(json!({ "candidates": [{ "finishReason": "STOP", "content": { "parts": [] } }] })),
                }
            }
        }
    }

    /// Reads it with this many pieces.
    fn read(&self, dialect: Dialect, pieces: usize) -> Result<usize, String> {
        let mut stream = Stream::new(dialect);
        let mut push = |event: &str| stream.push(event.as_bytes(), &mut |_| {}).map_err(|fault| fault.to_string());
        push(&self.begin)?;
        (0..pieces).try_for_each(|_| push(&self.piece))?;
        push(&self.end)?;
        let turn = stream.finish(&Names::of(["write"])).map_err(|fault| fault.to_string())?;
        let arguments = turn.calls.first().map_or(0, |call| call.arguments.len());
        match turn.text.len().max(arguments) {
            length if length >= pieces * PIECE.len() => Ok(length),
            length => Err(format!("{dialect}: {length} bytes came of {pieces} pieces")),
        }
    }
}

fn chunk(clock: &SystemClock, dialect: Dialect) -> Result<Row, String> {
    let script = Script::of(dialect);
    let mut stream = Stream::new(dialect);
    let mut push = |event: &str| stream.push(event.as_bytes(), &mut |_| {}).map_err(|fault| fault.to_string());
    push(&script.begin)?;
    let mut times = Vec::with_capacity(CHUNKS);
    for _ in 0..CHUNKS {
        let began = clock.monotonic();
        push(&script.piece)?;
        times.push(clock.monotonic().saturating_sub(began));
    }
    Ok(Row {
        what: format!("one streamed chunk, {dialect}"),
        value: median_us(times),
        unit: "µs",
        aim: Aim::AtMost(5.0),
        against: format!("{} bytes on the wire", script.piece.len()),
    })
}

/// 1, 2 and 4 MB in pieces: the time for each byte may not grow.
fn lengths(clock: &SystemClock, dialect: Dialect) -> Result<Vec<Row>, String> {
    let script = Script::of(dialect);
    let time = |megabytes: usize| -> Result<f64, String> {
        let pieces = megabytes * MEGABYTE / PIECE.len();
        let mut times = Vec::with_capacity(ROUNDS);
        for _ in 0..ROUNDS {
            let began = clock.monotonic();
            std::hint::black_box(script.read(dialect, pieces)?);
            times.push(clock.monotonic().saturating_sub(began));
        }
        Ok(median_us(times.into_iter().collect::<Vec<Duration>>()))
    };
    let one = time(1)?;
    let row = |megabytes: u32| -> Result<Row, String> {
        let us = time(megabytes as usize)?;
        Ok(Row {
            what: format!("{megabytes} MB streamed in pieces, {dialect}: time for each byte"),
            value: us / f64::from(megabytes) / one,
            unit: "×",
            aim: Aim::AtMost(1.25),
            against: format!("1 MB takes {:.1} ms, {megabytes} MB {:.1} ms", one / 1000.0, us / 1000.0),
        })
    };
    Ok(vec![row(2)?, row(4)?])
}
