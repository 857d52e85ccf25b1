//! What a server may do instead of answering, and the forms in which it may answer.

use std::time::Duration;

use serde_json::json;
use tollgate_agent::{ChatModel, Model, ModelConfig, ModelError, ModelRequest};
use tollgate_types::Secret;
use tollgate_wire::{Lowered, Message, ToolChoice, Turn};

use crate::server::{Reply, Server, head, http, says};

const KEY: &str = "sk-very-secret-key";

async fn ask(config: ModelConfig) -> (Result<Turn, ModelError>, String) {
    let model = ChatModel::new(ModelConfig { api_key: Some(Secret::new(KEY)), ..config }).unwrap();
    let (messages, tools) = ([Message::User("hello".to_owned())], Lowered::default());
    let request = ModelRequest { messages: &messages, tools: &tools, tool_choice: &ToolChoice::Auto };
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
            "answered `text/html` instead of a chat completion: `<!doctype html> <title>Welcome</title>`",
            "base_url",
        ),
        (
            http("200 OK", "content-type: application/json\r\n", "nope"),
            "instead of a chat completion: `nope`",
            "base_url",
        ),
        (
            http("200 OK", "content-type: application/json\r\n", "{\"ok\":true}"),
            "it has no `choices`",
            "Chat Completions",
        ),
        (http("200 OK", "content-type: application/json\r\n", "{\"choices\":[{"), "cannot be used", "Chat Completions"),
        (
            http("401 Unauthorized", "", &json!({"error": {"message": format!("bad key {KEY}")}}).to_string()),
            "HTTP 401: bad key [secret]",
            "api_key",
        ),
        (http("404 Not Found", "content-type: text/plain\r\n", "no such model"), "HTTP 404: no such model", "`model`"),
        (http("400 Bad Request", "", "{\"error\":\"no tools\"}"), "HTTP 400: no tools", "request"),
        (http("429 Too Many", "retry-after: 3600\r\n", "{}"), "HTTP 429", "wait"),
        (http("302 Found", "location: http://example.com/\r\n", ""), "HTTP 302", "later"),
        (Reply::Bytes(events(chunk)), "broke off in the middle", "ask again"),
        (Reply::Bytes(format!("{chunked}{:x}\r\n{chunk}\r\n", chunk.len())), "broke off in the middle", "ask again"),
        (Reply::Bytes(events("data: <html>\n\n")), "cannot be used", "Chat Completions"),
        (
            Reply::Bytes(events(&format!("{chunk}data: {{\"error\":{{\"message\":\"overloaded\"}}}}\n\n"))),
            "the server reports: overloaded",
            "Chat Completions",
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
        let config = ModelConfig { idle_timeout: Duration::from_millis(50), ..server.config() };
        let error = ask(config).await.0.unwrap_err();
        assert!(matches!(error, ModelError::TimedOut { ms: 50, .. }), "{error:?}");
    }
}

#[tokio::test]
async fn nobody_there_is_unreachable() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = ModelConfig { max_retries: 0, ..ModelConfig::new(format!("http://{closed}/v1"), "m") };
    let error = ask(config).await.0.unwrap_err();
    assert!(matches!(error, ModelError::Unreachable { .. }), "{error:?}");
    assert!(error.hint().contains("start the model server"));
    for bad in ["localhost:8000", "ftp://a/b", ""] {
        let error = ChatModel::new(ModelConfig::new(bad, "m")).map(|_| ()).unwrap_err();
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
            let again = match &reply {
                Reply::Bytes(bytes) => Reply::Bytes(bytes.clone()),
                Reply::Hang(bytes) => Reply::Hang(bytes.clone()),
            };
            let server = Server::start(vec![again]);
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
