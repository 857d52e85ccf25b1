//! The MCP server that every proxy of `bench/peers` is measured in front of. It gives back the text it is sent and does
//! next to nothing else, so that what is measured is the proxy. It speaks the handshake era.
//!
//! ```text
//! bench-echo          on standard input and output
//! bench-echo --http   on a free port of 127.0.0.1; the first line of the output is its address
//! bench-echo --many N      on standard input and output, with N tools, and one more for each call of `grow`
//! bench-echo --bare PORT   on that port, in front of one whose input is its output and whose output is its input
//! ```
//!
//! The last is no server but the least that a proxy can be: it hands bodies and lines on without a look at them.

#![expect(clippy::print_stdout, reason = "the address is its output")]

use std::borrow::Cow;
use std::error::Error;
use std::io::{self, BufRead, Write};
use std::os::fd::AsFd;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::serve::ListenerExt;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::net::unix::pipe;
use tokio::sync::Mutex;

const TOOLS: &str = r#"{"tools":[
{"name":"look","description":"Gives the text back.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}},
{"name":"change","description":"Gives the text back.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}}
]}"#;

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Cow<'a, str>,
    #[serde(borrow, default)]
    params: Params<'a>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Params<'a> {
    #[serde(borrow)]
    protocol_version: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    arguments: Arguments<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Arguments<'a> {
    #[serde(borrow)]
    text: Option<&'a RawValue>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    match words.next().as_deref() {
        None => stdio(answer),
        Some("--many") => many(words.next().unwrap_or_default().parse()?),
        Some("--http") => on_one_thread(http()),
        Some("--bare") => on_one_thread(bare(words.next().unwrap_or_default().parse()?)),
        Some(other) => Err(format!("no option is named `{other}`").into()),
    }
}

/// The answer to one message, on one line; none to a notification.
fn answer(frame: &[u8]) -> Option<String> {
    let message: Message<'_> = match serde_json::from_slice(frame) {
        Ok(message) => message,
        Err(error) => {
            let text = serde_json::Value::from(format!("Parse error: {error}"));
            return Some(format!(r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":-32700,"message":{text}}}}}"#));
        }
    };
    let id = message.id?.get();
    let params = &message.params;
    let result = match &*message.method {
        "tools/call" => {
            let text = params.arguments.text.map_or(r#""""#, RawValue::get);
            format!(r#"{{"content":[{{"type":"text","text":{text}}}],"isError":false}}"#)
        }
        "tools/list" => TOOLS.replace('\n', ""),
        "initialize" => {
            let version = params.protocol_version.map_or(r#""2025-06-18""#, RawValue::get);
            let about = r#""capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"echo","version":"1"}"#;
            format!(r#"{{"protocolVersion":{version},{about}}}"#)
        }
        "ping" => "{}".to_owned(),
        _ => {
            let error = r#"{"code":-32601,"message":"Method not found"}"#;
            return Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#));
        }
    };
    Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#))
}

/// A server of so many tools, which grows when it is told to.
fn many(mut count: usize) -> Result<(), Box<dyn Error>> {
    let answer = move |frame: &[u8]| {
        let message: Message<'_> = serde_json::from_slice(frame).ok()?;
        let id = message.id?.get();
        match (&*message.method, &*message.params.name) {
            ("tools/list", _) => {
                let about = r#""description":"Gives the text back.","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}"#;
                let tools: Vec<String> = (0..count).map(|n| format!(r#"{{"name":"tool_{n}",{about}}}"#)).collect();
                let grow = r#"{"name":"grow","inputSchema":{"type":"object"}}"#;
                Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"tools":[{grow},{}]}}}}"#, tools.join(",")))
            }
            ("tools/call", "grow") => {
                count += 1;
                let told = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
                Some(format!("{told}\n{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[]}}}}"))
            }
            _ => answer(frame),
        }
    };
    stdio(answer)
}

fn stdio(mut answer: impl FnMut(&[u8]) -> Option<String>) -> Result<(), Box<dyn Error>> {
    let (mut input, mut output) = (io::stdin().lock(), io::stdout());
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        if let Some(mut answer) = answer(&line) {
            answer.push('\n');
            output.write_all(answer.as_bytes())?;
            output.flush()?;
        }
        line.clear();
    }
    Ok(())
}

fn on_one_thread(work: impl Future<Output = Result<(), Box<dyn Error>>>) -> Result<(), Box<dyn Error>> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

async fn http() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/mcp", listener.local_addr()?);
    serve(listener, Router::new().route("/mcp", post(posted))).await
}

async fn serve(listener: TcpListener, router: Router) -> Result<(), Box<dyn Error>> {
    let listener = listener.tap_io(|stream| {
        // Without it answers may wait; the figures would show it.
        let _ = stream.set_nodelay(true);
    });
    Ok(axum::serve(listener, router).await?)
}

async fn posted(body: Bytes) -> Response {
    match answer(&body) {
        Some(answer) => json(answer),
        None => StatusCode::ACCEPTED.into_response(),
    }
}

fn json(body: String) -> Response {
    ([(CONTENT_TYPE, "application/json")], body).into_response()
}

/// The pipes to the server behind, one message and its answer at a time.
struct Behind {
    to: pipe::Sender,
    from: BufReader<pipe::Receiver>,
}

async fn bare(port: u16) -> Result<(), Box<dyn Error>> {
    let to = pipe::Sender::from_owned_fd(io::stdout().as_fd().try_clone_to_owned()?)?;
    let from = BufReader::new(pipe::Receiver::from_owned_fd(io::stdin().as_fd().try_clone_to_owned()?)?);
    let behind = Arc::new(Mutex::new(Behind { to, from }));
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    serve(listener, Router::new().route("/mcp", post(handed_on)).with_state(behind)).await
}

async fn handed_on(State(behind): State<Arc<Mutex<Behind>>>, body: Bytes) -> Result<Response, StatusCode> {
    let mut behind = behind.lock().await;
    let mut frame = body.to_vec();
    frame.push(b'\n');
    behind.to.write_all(&frame).await.map_err(|_| StatusCode::BAD_GATEWAY)?;
    if frame.windows(4).all(|word| word != b"\"id\"") {
        return Ok(StatusCode::ACCEPTED.into_response());
    }
    let mut line = String::new();
    behind.from.read_line(&mut line).await.map_err(|_| StatusCode::BAD_GATEWAY)?;
    Ok(json(line))
}
