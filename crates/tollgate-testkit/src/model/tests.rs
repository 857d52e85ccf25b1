//! The model server seen through a raw connection, where every byte counts.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

/// A response as it came: head, and body in the pieces of its transfer encoding.
struct Heard {
    head: String,
    pieces: Vec<Vec<u8>>,
    is_whole: bool,
}

impl Heard {
    fn body(&self) -> String {
        String::from_utf8(self.pieces.concat()).unwrap()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.body()).unwrap()
    }

    fn data(&self) -> Vec<String> {
        self.body().split("\n\n").filter_map(|event| event.strip_prefix("data: ")).map(str::to_owned).collect()
    }

    fn chunks(&self) -> Vec<Value> {
        self.data().iter().filter(|data| *data != "[DONE]").map(|data| serde_json::from_str(data).unwrap()).collect()
    }

    fn status(&self) -> &str {
        self.head.split(' ').nth(1).unwrap_or("nothing")
    }
}

fn request(path: &str, content_type: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nhost: t\r\nconnection: close\r\nauthorization: Bearer k\r\n\
         content-type: {content_type}\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

async fn send(server: &ModelServer, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

async fn hear(mut stream: TcpStream) -> Heard {
    let mut bytes = Vec::new();
    // A connection that breaks off may end in an error; what came before counts.
    let _ = stream.read_to_end(&mut bytes).await;
    let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
        return Heard { head: String::new(), pieces: Vec::new(), is_whole: false };
    };
    let head = String::from_utf8(bytes[..end].to_vec()).unwrap().to_lowercase();
    let mut rest = &bytes[end + 4..];
    if !head.contains("transfer-encoding: chunked") {
        return Heard { head, pieces: vec![rest.to_vec()], is_whole: true };
    }
    let mut pieces = Vec::new();
    while let Some(line) = rest.windows(2).position(|window| window == b"\r\n") {
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
        if length == 0 {
            return Heard { head, pieces, is_whole: true };
        }
        pieces.push(rest[line + 2..line + 2 + length].to_vec());
        rest = &rest[line + 4 + length..];
    }
    Heard { head, pieces, is_whole: false }
}

fn asked(extra: &Value) -> String {
    let mut body = json!({ "model": "m", "messages": [{ "role": "user", "content": "还有货吗？" }] });
    body.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    request("/v1/chat/completions", "application/json", &body.to_string())
}

async fn ask(server: &ModelServer, extra: Value) -> Heard {
    hear(send(server, &asked(&extra)).await).await
}

const TEXT: &str = "无线机械键盘（A103）目前可售 37 件，现货充足。🙂";

#[tokio::test]
async fn a_turn_is_json_without_stream() {
    let arguments = json!({ "keyword": "无线键盘" });
    let calls = [("call_1", "query_inventory", arguments.clone()), ("call_2", "x", json!("{\"broken\":"))];
    let server = ModelServer::start(vec![Step::calls(calls), Step::text(TEXT)]).await;
    let first = ask(&server, json!({})).await;
    assert!(first.head.contains("content-type: application/json"), "{}", first.head);
    let choice = &first.json()["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls");
    assert_eq!(choice["message"]["content"], Value::Null);
    let calls = &choice["message"]["tool_calls"];
    assert_eq!(calls[0]["function"]["arguments"], arguments.to_string());
    assert_eq!(calls[1]["function"]["arguments"], "{\"broken\":");
    let second = ask(&server, json!({ "stream": false })).await.json();
    assert_eq!(second["choices"][0]["message"], json!({ "role": "assistant", "content": TEXT }));
    assert_eq!(second["model"], "m");
    server.assert_clean();
    assert_eq!((server.steps_left(), server.requests().len()), (0, 2));
    assert_eq!(server.authorizations()[0].as_deref(), Some("Bearer k"));
    assert_eq!(server.requests()[0]["messages"][0]["content"], "还有货吗？");
}

#[tokio::test]
async fn a_streamed_turn_is_cut_everywhere_and_still_the_same() {
    let arguments = json!({ "keyword": "无线键盘 🙂", "note": "键".repeat(300) });
    let calls = [("call_1", "query_inventory", arguments.clone()), ("call_2", "x", json!({}))];
    let server = ModelServer::start(vec![Step::calls(calls).with_text(TEXT)]).await;
    let heard = ask(&server, json!({ "stream": true, "stream_options": { "include_usage": true } })).await;
    assert!(heard.is_whole);
    assert!(heard.head.contains("content-type: text/event-stream"), "{}", heard.head);
    assert!(heard.pieces.iter().any(|piece| std::str::from_utf8(piece).is_err()), "no character is cut");
    assert!(heard.body().contains("\\u") && heard.body().contains('键'), "both ways to write a character");
    assert_eq!(heard.data().last().map(String::as_str), Some("[DONE]"));

    let (mut text, mut ids, mut written) = (String::new(), Vec::new(), vec![String::new(); 2]);
    let mut finishes = Vec::new();
    let chunks = heard.chunks();
    for choice in chunks.iter().filter_map(|chunk| chunk["choices"].get(0)) {
        text.push_str(choice["delta"]["content"].as_str().unwrap_or_default());
        for part in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
            let index = usize::try_from(part["index"].as_u64().unwrap()).unwrap();
            written[index].push_str(part["function"]["arguments"].as_str().unwrap());
            ids.extend(part["id"].as_str().map(|id| (index, id.to_owned())));
        }
        finishes.extend(choice["finish_reason"].as_str());
    }
    assert_eq!(text, TEXT);
    assert_eq!(ids, [(0, "call_1".to_owned()), (1, "call_2".to_owned())]);
    assert_eq!(written, [arguments.to_string(), "{}".to_owned()]);
    assert_eq!(finishes, ["tool_calls"]);
    assert_eq!(chunks.last().unwrap()["usage"]["total_tokens"], 30);
    assert!(chunks.len() > 12, "few deltas: {}", chunks.len());
}

#[tokio::test]
async fn raw_steps_arrive_as_they_are() {
    let odd = json!({ "choices": [] });
    let server = ModelServer::start(vec![
        Step::raw_json(odd.clone()),
        Step::raw_sse(vec!["{not json".to_owned(), "[DONE]".to_owned()]),
        Step::status(429, &[("retry-after", "2")], "slow down"),
        Step::html("<h1>Sign in</h1>"),
        Step::status(200, &[("bad name", "x")], ""),
        Step::text("cut").with_finish("length"),
    ])
    .await;
    let stream = json!({ "stream": true });
    assert_eq!(ask(&server, stream.clone()).await.json(), odd);
    assert_eq!(ask(&server, stream.clone()).await.data(), ["{not json", "[DONE]"]);
    let limited = ask(&server, stream.clone()).await;
    assert_eq!((limited.status(), limited.body().as_str()), ("429", "slow down"));
    assert!(limited.head.contains("retry-after: 2"));
    assert!(ask(&server, stream.clone()).await.head.contains("content-type: text/html"));
    assert_eq!(ask(&server, stream.clone()).await.status(), "500");
    assert_eq!(ask(&server, stream).await.chunks().last().unwrap()["choices"][0]["finish_reason"], "length");
    server.assert_clean();
}

#[tokio::test]
async fn connections_break_where_the_script_says() {
    let half = vec!["{\"choices\":[]}".to_owned()];
    let server = ModelServer::start(vec![Step::close_mid_stream(half.clone()), Step::close_before_head()]).await;
    let middle = ask(&server, json!({ "stream": true })).await;
    assert_eq!((middle.status(), middle.is_whole), ("200", false));
    assert_eq!(middle.data(), half);
    assert_eq!(ask(&server, json!({ "stream": true })).await.head, "");
    server.assert_clean();
}

#[tokio::test]
async fn silence_lasts_until_the_server_is_dropped() {
    let server = ModelServer::start(vec![Step::hang(), Step::hang_mid_stream(vec!["{}".to_owned()])]).await;
    let first = send(&server, &asked(&json!({}))).await;
    server.wait_for_requests(1).await;
    let mut second = send(&server, &asked(&json!({ "stream": true }))).await;
    // The comment and the one event have come when the stream falls silent.
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("200 OK") {
        seen.push(second.read_u8().await.unwrap());
    }
    let address = server.address;
    drop(server);
    assert_eq!(hear(first).await.head, "");
    let mut rest = Vec::new();
    let _ = second.read_to_end(&mut rest).await;
    assert!(!String::from_utf8_lossy(&rest).contains("\r\n0\r\n"), "the stream must not look whole");
    while TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn breaches_are_answered_and_remembered() {
    let server = ModelServer::start(vec![Step::text("once")]).await;
    let cases = [
        (request("/v1/chat/completions", "application/json", "{nope"), "400", "the body is not JSON"),
        (request("/v1/chat/completions", "text/plain", "{}"), "400", "the content type is `text/plain`"),
        (request("/chat/completions", "application/json", "{}"), "400", "`POST /chat/completions` is not"),
        (asked(&json!({ "tool_choice": "auto" })), "400", "request 4: `tool_choice` stands without `tools`"),
        (asked(&json!({})), "200", "once"),
        (asked(&json!({})), "500", "request 6: goes beyond the script"),
    ];
    for (request, status, expected) in &cases {
        let heard = hear(send(&server, request).await).await;
        assert_eq!(heard.status(), *status, "{expected}");
        assert!(heard.body().contains(expected), "{} is not {expected}", heard.body());
    }
    let violations = server.violations();
    assert_eq!(violations.len(), 5, "{violations:?}");
    assert_eq!(server.requests()[0], "{nope");
    let fails = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| server.assert_clean()));
    assert!(fails.is_err());
}

#[test]
fn script_files_say_every_step() {
    let lines = [
        (r#"{"turn":{"text":"你好","finish":"length"}}"#, Step::text("你好").with_finish("length")),
        (r#"{"turn":{"calls":[{"id":"a","name":"b","arguments":"{"}]}}"#, Step::calls([("a", "b", json!("{"))])),
        (r#"{"raw_json":{"x":1}}"#, Step::raw_json(json!({"x": 1}))),
        (r#"{"raw_sse":["{}"]}"#, Step::raw_sse(vec!["{}".to_owned()])),
        (r#"{"status":{"code":429,"headers":{"retry-after":"1"}}}"#, Step::status(429, &[("retry-after", "1")], "")),
        (r#""hang""#, Step::hang()),
        (r#"{"hang_mid_stream":["{}"]}"#, Step::hang_mid_stream(vec!["{}".to_owned()])),
        (r#"{"close_mid_stream":[]}"#, Step::close_mid_stream(Vec::new())),
        (r#""close_before_head""#, Step::close_before_head()),
    ];
    for (line, step) in lines {
        assert_eq!(serde_json::from_str::<Step>(line).unwrap(), step, "{line}");
    }
    for bad in [r#""sleep""#, r#"{"turn":{"txt":"x"}}"#, "{}"] {
        assert!(serde_json::from_str::<Step>(bad).is_err(), "{bad}");
    }
}
