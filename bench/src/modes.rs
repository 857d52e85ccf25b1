//! A conversation over OpenAI Responses in both of its modes, side by side: each request with the whole conversation, or only
//! with what is new after the reply that the server kept. The server stands here and knows its lines, so that the figures are
//! those of the wire and of this side: what a provider does with a kept reply, and what it asks for it, is the provider's.

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::post;
use serde_json::json;
use tokio::net::TcpListener;
use tollgate::agent::{Agent, ModelClient, ModelConfig, Options};
use tollgate::wire::{Dialect, Target};
use tollgate::{Caller, CancellationToken, Clock, Surface, SystemClock, Tollgate};

use crate::stats::{Aim, Row, median_us};

/// Rounds of one prompt; each brings a result of some kilobytes.
const ROUNDS: u32 = 24;
const TEXT_LINES: usize = 60;
const LINE: &str = "无线键盘 K380: 320 in stock, 199.00 CNY each, ships tomorrow before ten.\n";
/// What a token has of bytes, nearly, in such text: to put both modes into one measure, and not to bill anybody.
const BYTES_PER_TOKEN: f64 = 3.5;

#[derive(Default)]
struct Server {
    asked: AtomicU64,
    bytes: AtomicU64,
    came: Mutex<Vec<Duration>>,
}

#[derive(Clone)]
struct Shared {
    server: Arc<Server>,
    clock: SystemClock,
}

/// The next line of the script: a call, and after the last an answer.
async fn reply(State(Shared { server, clock }): State<Shared>, body: Bytes) -> impl IntoResponse {
    let n = server.asked.fetch_add(1, Ordering::Relaxed) + 1;
    server.bytes.fetch_add(body.len() as u64, Ordering::Relaxed);
    if let Ok(mut came) = server.came.lock() {
        came.push(clock.monotonic());
    }
    let item = if n < u64::from(ROUNDS) {
        json!({ "type": "function_call", "id": format!("fc_{n}"), "call_id": format!("call_{n}"), "name": "read_file",
            "arguments": json!({ "path": "stock.txt", "start_line": n }).to_string(), "status": "completed" })
    } else {
        let text = json!({ "type": "output_text", "text": "done", "annotations": [] });
        json!({ "type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [text] })
    };
    axum::Json(json!({ "id": format!("resp_{n}"), "object": "response", "status": "completed", "output": [item] }))
}

/// The bytes that were sent, and the time from one request to the next.
async fn run(house: &Tollgate, is_stateful: bool) -> Result<(f64, f64), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let base_url = format!("http://{}/v1", listener.local_addr()?);
    let shared = Shared { server: Arc::default(), clock: SystemClock::new() };
    let router = Router::new().route("/v1/responses", post(reply)).with_state(shared.clone());
    let mut config = ModelConfig::new(base_url, "scripted");
    config.target = Target::of(Dialect::Responses);
    config.stateful = is_stateful;
    config.stream = false;
    let caller = Caller::new("bench", "developer", Surface::Agent);
    let options = Options { rounds_max: ROUNDS, ..Options::default() };
    let mut agent = Agent::new(house.door(), caller, Arc::new(ModelClient::new(config)?), options);
    let stop = CancellationToken::new();
    let mut ignore = |_: &_| {};
    tokio::select! {
        served = axum::serve(listener, router) => served?,
        answer = agent.ask("看看库存", &stop, &mut ignore) => drop(answer?),
    }
    let came = shared.server.came.lock().map(|came| came.clone()).unwrap_or_default();
    let between = came.iter().zip(came.iter().skip(1)).map(|(first, next)| next.saturating_sub(*first)).collect();
    Ok((shared.server.bytes.load(Ordering::Relaxed) as f64, median_us(between)))
}

/// Every figure of this file.
pub(crate) fn measure() -> Result<Vec<Row>, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("stock.txt"), LINE.repeat(TEXT_LINES))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let data = folder.path().join("data");
        let house = Tollgate::builder().workspace(folder.path()).data_dir(data).build().await?;
        let (whole, whole_us) = run(&house, false).await?;
        let (new, new_us) = run(&house, true).await?;
        let tokens = |bytes: f64| bytes / BYTES_PER_TOKEN;
        Ok(vec![
            Row {
                what: format!("{ROUNDS} rounds over Responses: bytes sent with `previous_response_id`"),
                value: new / whole,
                unit: "×",
                aim: Aim::AtMost(1.0),
                against: format!(
                    "whole conversations: {:.0} kB (about {:.0} tokens) instead of {:.0} kB ({:.0})",
                    whole / 1000.0,
                    tokens(whole),
                    new / 1000.0,
                    tokens(new)
                ),
            },
            Row {
                what: "one such round, a read of a file in it, with `previous_response_id`".into(),
                value: new_us / whole_us,
                unit: "×",
                aim: Aim::AtMost(1.1),
                against: format!("p50 of {whole_us:.0} µs with the whole conversation, {new_us:.0} µs without"),
            },
        ])
    })
}
