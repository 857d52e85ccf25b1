//! What a server may do instead of answering, and the forms in which it may answer.

use std::time::Duration;

use serde_json::json;
use tollgate_agent::{Model, ModelClient, ModelConfig, ModelError, ModelRequest, Timeouts};
use tollgate_types::Secret;
use tollgate_wire::{Lowered, Message, ToolChoice, Turn, WireFault};

use crate::server::{Reply, Server, head, http, says};

const KEY: &str = "sk-very-secret-key";

async fn ask(config: ModelConfig) -> (Result<Turn, ModelError>, String) {
    let model = ModelClient::new(ModelConfig { api_key: Some(Secret::new(KEY)), ..config }).unwrap();
    let (messages, tools) = ([Message::user("hello")], Lowered::default());
    let request = ModelRequest {
        messages: &messages,
        is_shortened: false,
        tools: &tools,
        hosted: &[],
        tool_choice: &ToolChoice::Auto,
    };
    let mut shown = String::new();
    let result = model.turn(request, &mut |text| shown.push_str(text)).await;
    if let Err(error) = &result {
        let said = format!("{error} {error:?} {}", error.hint());
        assert!(!said.contains(KEY), "{said}");
        assert!(!format!("{model:?}").contains(KEY));
    }
    (result, shown)
}

fn events(events: &str) -> String {
    head("200 OK", "content-type: text/event-stream\r\n") + events
}

#[tokio::test]
async fn each_failure_is_told_apart() {
    let chunk = "data: {\"choices\":[{\"delta\":{\"content\":\"he\"}}]}\n\n";
    let chunked = head("200 OK", "content-type: text/event-stream\r\ntransfer-encoding: chunked\r\n");
    let page = "<!doctype html>\n<title>Welcome</title>";
    let cases: Vec<(Reply, &str, &str)> = vec![
        (
            http("200 OK", "content-type: text/html\r\n", page),
            "answered `text/html` instead of a model's reply: `<!doctype html> <title>Welcome</title>`",
            "base_url",
        ),
        (
            http("200 OK", "content-type: application/json\r\n", "nope"),
            "instead of a model's reply: `nope`",
            "base_url",
        ),
        (
            http("200 OK", "content-type: application/json\r\n", "{\"ok\":true}"),
            "it has no `choices`",
            "names what the server speaks",
        ),
        (
            http("200 OK", "content-type: application/json\r\n", "{\"choices\":[{"),
            "cannot be used",
            "names what the server speaks",
        ),
        (
            http("401 Unauthorized", "", &json!({"error": {"message": format!("bad key {KEY}")}}).to_string()),
            "HTTP 401: bad key [secret]",
            "api_key",
        ),
        (http("404 Not Found", "content-type: text/plain\r\n", "no such model"), "HTTP 404: no such model", "`model`"),
        (http("400 Bad Request", "", "{\"error\":\"no tools\"}"), "HTTP 400: no tools", "request"),
        (http("429 Too Many", "retry-after: 3600\r\n", "{}"), "HTTP 429", "wait"),
        (http("302 Found", "location: http://example.com/\r\n", ""), "HTTP 302", "no redirect"),
        (Reply::Bytes(events(chunk)), "broke off in the middle", "ask again"),
        (Reply::Bytes(format!("{chunked}{:x}\r\n{chunk}\r\n", chunk.len())), "broke off in the middle", "ask again"),
        (Reply::Bytes(events("data: <html>\n\n")), "cannot be used", "names what the server speaks"),
        (Reply::Bytes(events("<html>busy</html>\n")), "`<html>busy</html>", "`base_url`"),
        (
            Reply::Bytes(events(&format!("{chunk}data: {{\"error\":{{\"message\":\"overloaded\"}}}}\n\n"))),
            "the server reports: overloaded",
            "the server's own words",
        ),
    ];
    for (reply, message, hint) in cases {
        let server = Server::start(vec![reply]);
        let error = ask(server.config()).await.0.unwrap_err();
        assert!(error.to_string().contains(message), "{message}: {error}");
        assert!(error.hint().contains(hint), "{hint}: {}", error.hint());
        assert_eq!(server.asked().len(), 1, "{message}: asked once");
    }
}

#[tokio::test]
async fn silence_ends_with_a_timeout() {
    let begun = events("data: {\"choices\":[{\"delta\":{\"content\":\"he\"}}]}\n\n");
    for reply in [Reply::Hang(String::new()), Reply::Hang(begun)] {
        let server = Server::start(vec![reply]);
        let patience = Duration::from_millis(50);
        let timeouts = Timeouts { first_byte: patience, idle: patience, ..Timeouts::default() };
        let error = ask(ModelConfig { timeouts, ..server.config() }).await.0.unwrap_err();
        assert!(matches!(error, ModelError::TimedOut { ms: 50, .. }), "{error:?}");
    }
}

/// A server may keep the line warm for ever, or send more than anybody wants.
#[tokio::test]
async fn a_reply_without_end_ends() {
    let delta = "data: {\"choices\":[{\"delta\":{\"content\":\"he\"}}]}\n\n";
    let total = Duration::from_millis(300);
    for drip in [delta, ": still here\n\n", "d"] {
        let server = Server::start(vec![Reply::Endless(events(delta), drip.to_owned(), Duration::from_millis(5))]);
        let config = ModelConfig { timeouts: Timeouts { total, ..server.config().timeouts }, ..server.config() };
        let error = ask(config).await.0.unwrap_err();
        assert!(matches!(error, ModelError::TooLong { ms: 300, .. }), "{drip}: {error:?}");
        assert!(error.hint().contains("total_timeout_ms"));
    }
    let floods = [
        ("a line of any length", events("data: "), "x".repeat(1 << 20)),
        (
            "events without end",
            events(""),
            format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{}\"}}}}]}}\n\n", "x".repeat(1 << 16)),
        ),
        ("one object without end", head("200 OK", "content-type: application/json\r\n"), "[".repeat(1 << 20)),
    ];
    for (name, head, more) in floods {
        let server = Server::start(vec![Reply::Endless(head, more, Duration::ZERO)]);
        let error = ask(server.config()).await.0.unwrap_err();
        assert!(matches!(error, ModelError::Malformed { fault: WireFault::TooLarge { .. } }), "{name}: {error}");
    }
}

#[tokio::test]
async fn a_server_that_speaks_no_tls_is_told_apart() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/v1", listener.local_addr().unwrap());
    let answer = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = std::io::Write::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    let error = ask(ModelConfig { max_retries: 0, ..ModelConfig::new(url, "m") }).await.0.unwrap_err();
    answer.join().unwrap();
    assert!(matches!(error, ModelError::Unreachable { .. }), "{error:?}");
    assert!(error.hint().contains("`http://`"), "{}", error.hint());
    // Who is not trusted is not to be asked without TLS.
    let reason = "invalid peer certificate: UnknownIssuer".to_owned();
    let error = ModelError::Unreachable { reason };
    assert!(error.hint().contains("certificate") && !error.hint().contains("http://"), "{}", error.hint());
}

/// Who must wait longer than there is time is told why at once.
#[tokio::test]
async fn a_wait_that_there_is_no_time_for_is_not_begun() {
    let server = Server::start(vec![http("429 Too Many", "retry-after: 25\r\n", "{\"error\":\"slow down\"}")]);
    let mut config = server.config();
    config.timeouts.total = std::time::Duration::from_secs(20);
    let error = ask(ModelConfig { max_retries: 3, ..config }).await.0.unwrap_err();
    assert!(error.to_string().contains("HTTP 429: slow down") && error.hint().contains("wait"), "{error}");
}

#[tokio::test]
async fn nobody_there_is_unreachable() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = ModelConfig { max_retries: 0, ..ModelConfig::new(format!("http://{closed}/v1"), "m") };
    let error = ask(config).await.0.unwrap_err();
    assert!(matches!(error, ModelError::Unreachable { .. }), "{error:?}");
    assert!(error.hint().contains("start the model server"));
    for bad in ["localhost:8000", "ftp://a/b", ""] {
        let error = ModelClient::new(ModelConfig::new(bad, "m")).map(|_| ()).unwrap_err();
        assert!(matches!(error, ModelError::Config { .. }), "{bad}: {error:?}");
    }
}

#[tokio::test]
async fn what_passes_is_tried_again() {
    let busy = || http("429 Too Many", "retry-after: 0\r\n", "{}");
    let server = Server::start(vec![busy(), http("503 Unavailable", "retry-after: 0\r\n", "later"), says("hi")]);
    assert_eq!(ask(server.config()).await.0.unwrap().text, "hi");
    assert_eq!(server.asked().len(), 3);
    let server = Server::start(vec![busy(), busy(), busy(), says("hi")]);
    let error = ask(server.config()).await.0.unwrap_err();
    assert!(matches!(error, ModelError::Status { status: 429, .. }));
    assert_eq!(server.asked().len(), 3, "two tries more and no other");
}

/// RFC 9110 §10.2.3: seconds or a date, which counts from the server's own.
#[tokio::test]
async fn a_server_says_in_either_form_when_to_ask_again() {
    let date = "Sun, 06 Nov 1994 08:49:37 GMT";
    let cases = [
        ("retry-after: 3\r\n".to_owned(), Some(3_000)),
        (format!("date: {date}\r\nretry-after: Sun, 06 Nov 1994 08:49:40 GMT\r\n"), Some(3_000)),
        (format!("date: {date}\r\nretry-after: Mon, 07 Nov 1994 08:49:37 GMT\r\n"), Some(86_400_000)),
        (format!("date: {date}\r\nretry-after: Sat, 05 Nov 1994 08:49:37 GMT\r\n"), Some(0)),
        (format!("retry-after: {date}\r\n"), None),
        (format!("date: {date}\r\nretry-after: soon\r\n"), None),
        ("retry-after: -1\r\n".to_owned(), None),
        (String::new(), None),
    ];
    for (headers, expected) in cases {
        let server = Server::start(vec![http("429 Too Many", &headers, "{}")]);
        let error = ask(ModelConfig { max_retries: 0, ..server.config() }).await.0.unwrap_err();
        assert!(
            matches!(error, ModelError::Status { retry_after_ms, .. } if retry_after_ms == expected),
            "{headers}: {error:?}"
        );
    }
    let at_once = format!("date: {date}\r\nretry-after: {date}\r\n");
    let server = Server::start(vec![http("503 Unavailable", &at_once, ""), says("hi")]);
    assert_eq!(ask(server.config()).await.0.unwrap().text, "hi");
    let too_late = format!("date: {date}\r\nretry-after: Sun, 06 Nov 1994 08:50:08 GMT\r\n");
    let server = Server::start(vec![http("503 Unavailable", &too_late, ""), says("hi")]);
    assert!(ask(server.config()).await.0.is_err(), "31 s are more than anybody waits");
    assert_eq!(server.asked().len(), 1);
}

/// Servers repeat what they were sent. No cut may go through a secret before it is hidden, and no escape may save it.
#[tokio::test]
async fn secrets_that_a_server_repeats_are_hidden() {
    let headers = [("x-token", "Token zq-4711-token"), ("x-odd", r#"a"b\c'd/e secret"#)];
    let secrets = [KEY, "Token zq-4711-token", "zq-4711-token", r#"a"b\c'd/e secret"#];
    type Say = fn(&str) -> Reply;
    let says: [(&str, usize, Say); 9] = [
        ("error object", 200, |text| http("401 No", "", &json!({"error": {"message": text}}).to_string())),
        ("error of its own", 200, |text| http("401 No", "", &json!({"detail": [{"got": text}]}).to_string())),
        ("plain refusal", 200, |text| http("403 No", "", text)),
        ("page", 200, |text| http("200 OK", "content-type: text/html\r\n", &format!("<p>{text}"))),
        ("no completion", 120, |text| http("200 OK", "", &json!({"ok": text}).to_string())),
        ("wrong kind", 500, |text| http("200 OK", "", &json!({"choices": text}).to_string())),
        ("error in a reply", 500, |text| http("200 OK", "", &json!({"error": text}).to_string())),
        ("error in a stream", 500, |text| Reply::Bytes(events(&format!("data: {}\n\n", json!({"error": text}))))),
        ("broken event", 120, |text| Reply::Bytes(events(&format!("data: <{text}\n\n")))),
    ];
    let cases: Vec<_> = says
        .iter()
        .flat_map(|says| secrets.map(|secret| (says, secret)))
        .flat_map(|((name, cut, say), secret)| [0, cut - 30, cut - 10, cut - 1].map(|at| (name, say, secret, at)))
        .collect();
    let text = |secret: &str, at| format!("{}{secret} {KEY}", "é".repeat(at));
    let server = Server::start(cases.iter().map(|(_, say, secret, at)| say(&text(secret, *at))).collect());
    let secret_headers = headers.map(|(name, value)| (name.to_owned(), Secret::new(value))).to_vec();
    let api_key = Some(Secret::new(KEY));
    let config = ModelConfig { api_key, headers: secret_headers, max_retries: 0, ..server.config() };
    let model = ModelClient::new(config).unwrap();
    for (name, _, secret, at) in cases {
        let (messages, tools) = ([Message::user("hello")], Lowered::default());
        let request = ModelRequest {
            messages: &messages,
            is_shortened: false,
            tools: &tools,
            hosted: &[],
            tool_choice: &ToolChoice::Auto,
        };
        let error = model.turn(request, &mut |_| {}).await.unwrap_err();
        let said = format!("{error} {error:?}");
        for part in ["sk-v", "zq-47", "c'd", r"c\'d", "e secret"] {
            assert!(!said.contains(part), "{name} {secret} {at}: {said}");
        }
        assert!(at > 0 || error.to_string().contains("[secret]"), "{name} {secret}: {error}");
        assert!(error.to_string().chars().count() < 1000, "{name}: {error}");
    }
    let body = json!({"choices": [{"message": {"content": ""}, "finish_reason": format!("no {KEY}")}]});
    let server = Server::start(vec![http("200 OK", "", &body.to_string())]);
    assert_eq!(ask(server.config()).await.0.unwrap().finish.as_str(), "no [secret]");
}

#[tokio::test]
async fn a_reply_is_read_as_what_it_is() {
    let streamed = "data: {\"choices\":[{\"delta\":{\"content\":\"h\"}}]}\r\n\r\n: hold on\r\n\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"i\"},\"finish_reason\":\"stop\"}]}\r\n\r\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1}}\r\n\r\ndata: [DONE]\r\n\r\n";
    let replies: Vec<(&str, Reply)> = vec![
        ("stream", Reply::Bytes(events(streamed))),
        ("stream that stays open", Reply::Hang(events(streamed))),
        ("one object", says("hi")),
        ("stream under another type", http("200 OK", "content-type: text/plain\r\n", streamed)),
    ];
    for (name, reply) in replies {
        for stream in [true, false] {
            let server = Server::start(vec![reply.again()]);
            let (turn, shown) = ask(ModelConfig { stream, ..server.config() }).await;
            assert_eq!((turn.unwrap().text.as_str(), shown.as_str()), ("hi", "hi"), "{name}");
            let (head, body) = server.asked().remove(0);
            assert!(head.starts_with("post /v1/chat/completions http/1.1\r\n"), "{head}");
            assert!(head.contains(&format!("authorization: bearer {KEY}\r\n")));
            assert_eq!((&body["stream"], &body["model"]), (&json!(stream), &json!("scripted")));
            assert_eq!(body["messages"], json!([{"role": "user", "content": "hello"}]));
            assert!(body.get("tools").is_none() && body.get("tool_choice").is_none());
        }
    }
}
