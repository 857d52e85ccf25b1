//! Steps as HTTP responses. Streams are cut where it hurts: text and arguments into deltas of odd lengths, the bytes of
//! the body inside characters, and every second event in ASCII with `\u` escapes, as many servers write it.

use std::fmt::Write as _;
use std::future::ready;
use std::io;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::response::Response;
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use tollgate_types::CancellationToken;

use super::line::Cut;
use super::step::{Asked as Wanted, Http, Say, Step, Turn};
use super::wire::Wire;

/// Lengths of the deltas, in characters, over and over. Long texts still take few events.
const DELTA_CHARS: [usize; 7] = [1, 3, 2, 5, 7, 61, 509];
/// Lengths of the body's pieces, in bytes, over and over. Odd, so that characters of three bytes are cut everywhere.
const PIECE_BYTES: [usize; 8] = [1, 7, 2, 31, 3, 127, 5, 1021];

/// What of a request its answer depends on.
pub(super) struct Asked {
    wire: Wire,
    pub(super) model: Value,
    /// The number of the turn that answers it.
    pub(super) number: usize,
    /// The tools that take a text.
    pub(super) custom_tools: Vec<String>,
    is_stream: bool,
    wants_usage: bool,
}

impl Asked {
    pub(super) fn of(wire: Wire, uri: &Uri, body: &Value, number: usize) -> Self {
        let is_true = |pointer| body.pointer(pointer).and_then(Value::as_bool).unwrap_or(false);
        let tools = body.get("tools").and_then(Value::as_array).into_iter().flatten();
        let custom = tools.filter(|tool| tool.get("type").is_some_and(|kind| kind == "custom"));
        Self {
            wire,
            model: body.get("model").cloned().unwrap_or(Value::Null),
            number,
            custom_tools: custom.filter_map(|tool| Some(tool.get("name")?.as_str()?.to_owned())).collect(),
            is_stream: is_true("/stream") || wire.is_streamed(uri),
            wants_usage: is_true("/stream_options/include_usage"),
        }
    }

    /// The part that all responses and chunks share.
    fn envelope(&self, object: &str, choices: Value) -> Value {
        json!({ "id": "chatcmpl-testkit", "object": object, "created": 1_767_323_045, "model": self.model, "choices": choices })
    }
}

/// How a stream ends.
enum Ending {
    Whole,
    Broken,
    Silent,
}

pub(super) async fn reply(step: Step, asked: &Asked, cut: &Cut, stop: &CancellationToken) -> Response {
    match step.0 {
        Say::Turn(turn) if asked.is_stream => sse(&asked.wire.events(&turn, asked), Ending::Whole, stop),
        Say::Turn(turn) => json(StatusCode::OK, &asked.wire.whole(&turn, asked)),
        Say::RawJson(body) => json(StatusCode::OK, &body),
        Say::RawSse(data) => sse(&data, Ending::Whole, stop),
        Say::Http(http) => other(http),
        Say::Hang => {
            stop.cancelled().await;
            broken(cut)
        }
        Say::HangMidStream(data) => sse(&data, Ending::Silent, stop),
        Say::CloseMidStream(data) => sse(&data, Ending::Broken, stop),
        Say::CloseBeforeHead => broken(cut),
    }
}

/// A JSON response.
pub(super) fn json(status: StatusCode, body: &Value) -> Response {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn other(http: Http) -> Response {
    let mut builder = Response::builder().status(http.code);
    for (name, value) in &http.headers {
        builder = builder.header(name, value);
    }
    builder.body(Body::from(http.body)).unwrap_or_else(|error| {
        json(StatusCode::INTERNAL_SERVER_ERROR, &json!({ "error": { "message": format!("bad step: {error}") } }))
    })
}

/// A response of which nothing leaves: writing it closes the connection.
fn broken(cut: &Cut) -> Response {
    cut.cut();
    Response::new(Body::empty())
}

pub(super) fn completion(turn: &Turn, asked: &Asked) -> Value {
    let mut message = json!({ "role": "assistant", "content": turn.text });
    if let (Some(message), false) = (message.as_object_mut(), turn.calls.is_empty()) {
        let calls = turn.calls.iter().map(|call| {
            let function = json!({ "name": call.name, "arguments": arguments(call) });
            json!({ "id": call.id, "type": "function", "function": function })
        });
        message.insert("tool_calls".to_owned(), calls.collect());
    }
    let choice = json!({ "index": 0, "message": message, "finish_reason": finish(turn) });
    let mut body = asked.envelope("chat.completion", json!([choice]));
    insert_usage(&mut body);
    body
}

pub(super) fn events(turn: &Turn, asked: &Asked) -> Vec<String> {
    let chunk = |delta: Value, finish: Option<&str>| {
        asked.envelope("chat.completion.chunk", json!([{ "index": 0, "delta": delta, "finish_reason": finish }]))
    };
    let mut chunks = vec![chunk(json!({ "role": "assistant", "content": "" }), None)];
    for delta in deltas(turn.text.as_deref().unwrap_or_default()) {
        chunks.push(chunk(json!({ "content": delta }), None));
    }
    for (index, call) in turn.calls.iter().enumerate() {
        let function = json!({ "name": call.name, "arguments": "" });
        let head = json!({ "index": index, "id": call.id, "type": "function", "function": function });
        chunks.push(chunk(json!({ "tool_calls": [head] }), None));
        for delta in deltas(&arguments(call)) {
            let part = json!({ "index": index, "function": { "arguments": delta } });
            chunks.push(chunk(json!({ "tool_calls": [part] }), None));
        }
    }
    chunks.push(chunk(json!({}), Some(finish(turn))));
    if asked.wants_usage {
        let mut last = asked.envelope("chat.completion.chunk", json!([]));
        insert_usage(&mut last);
        chunks.push(last);
    }
    let mut events = printed(&chunks);
    events.push("[DONE]".to_owned());
    events
}

/// Events as JSON, every second in ASCII.
pub(super) fn printed(events: &[Value]) -> Vec<String> {
    let mut events: Vec<String> = events.iter().map(Value::to_string).collect();
    events.iter_mut().skip(1).step_by(2).for_each(|event| *event = ascii(event));
    events
}

pub(super) fn arguments(call: &Wanted) -> String {
    call.arguments.as_str().map_or_else(|| call.arguments.to_string(), str::to_owned)
}

fn finish(turn: &Turn) -> &str {
    let usual = if turn.calls.is_empty() { "stop" } else { "tool_calls" };
    turn.finish.as_deref().unwrap_or(usual)
}

fn insert_usage(body: &mut Value) {
    if let Some(body) = body.as_object_mut() {
        let usage = json!({ "prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30 });
        body.insert("usage".to_owned(), usage);
    }
}

pub(super) fn deltas(text: &str) -> Vec<String> {
    let mut chars = text.chars();
    let pieces = DELTA_CHARS.iter().cycle().map(|&count| chars.by_ref().take(count).collect::<String>());
    pieces.take_while(|piece| !piece.is_empty()).collect()
}

/// The same JSON in ASCII.
fn ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for char in json.chars() {
        if char.is_ascii() {
            out.push(char);
        } else {
            for unit in char.encode_utf16(&mut [0; 2]) {
                // Writing to a string cannot fail.
                let _ = write!(out, "\\u{unit:04x}");
            }
        }
    }
    out
}

fn pieces(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut pieces = Vec::new();
    for &count in PIECE_BYTES.iter().cycle() {
        if bytes.is_empty() {
            break;
        }
        let (piece, rest) = bytes.split_at(count.min(bytes.len()));
        pieces.push(piece.to_vec());
        bytes = rest;
    }
    pieces
}

fn sse(data: &[String], ending: Ending, stop: &CancellationToken) -> Response {
    let mut text = String::from(": a comment, which clients skip\n\n");
    for payload in data {
        // Writing to a string cannot fail.
        let _ = write!(text, "data: {payload}\n\n");
    }
    let body = stream::iter(pieces(text.as_bytes())).then(|piece| async move {
        // Lets the server flush, so that each piece leaves as a piece.
        tokio::task::yield_now().await;
        Ok::<_, io::Error>(piece)
    });
    let stop = stop.clone();
    let end = stream::once(async move {
        tokio::task::yield_now().await;
        match ending {
            Ending::Whole => return None,
            Ending::Broken => {}
            Ending::Silent => stop.cancelled().await,
        }
        Some(Err(io::ErrorKind::ConnectionReset.into()))
    });
    let mut response = Response::new(Body::from_stream(body.chain(end.filter_map(ready))));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    response
}
