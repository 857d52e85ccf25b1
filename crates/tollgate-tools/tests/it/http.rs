//! HTTP requests as tools, against a real server.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::Response;
use axum::routing::any;
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use tollgate_guard::client::{Client, Origin};
use tollgate_tools::{HeaderValue, HttpSpec, HttpTool, HttpToolError};
use tollgate_types::{
    Code, Cx, HandedKey, Progress, Secret, SourceKind, Tool as _, ToolDefinition, ToolError, ToolOutput, TraceContext,
};

use crate::support::{call, cx, text};

/// A server that answers as its path says, on a task that ends with the test's runtime.
async fn server() -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let app = Router::new().fallback(any(answer));
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move { axum::serve(listener, app).await });
    tasks.detach_all();
    address
}

async fn answer(request: Request) -> Response<Body> {
    let (head, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let reply = |status: u16, media: &str, body: &str| {
        Response::builder().status(status).header("content-type", media).body(Body::from(body.to_owned())).unwrap()
    };
    match head.uri.path() {
        "/status/404" => reply(404, "application/json", r#"{"error":"no such city"}"#),
        "/status/429" => {
            let mut response = reply(429, "text/plain", "slow down");
            response.headers_mut().insert("retry-after", "7".parse().unwrap());
            response
        }
        "/status/500" => reply(500, "text/html", "<h1>oops\u{1b}[2J</h1>\n"),
        "/status/302" => reply(302, "text/plain", ""),
        "/status/401" => reply(401, "text/plain", "who?"),
        path if path.starts_with("/status/long%2F") => {
            let padding = path.trim_start_matches("/status/long%2F").parse().unwrap();
            let words = format!("{}{}", "x".repeat(padding), " word".repeat(95));
            reply(400, "text/plain", &format!("{words} sk-0123456789abcdef0123456789abcdef {words}"))
        }
        "/status/204" => reply(204, "text/plain", ""),
        "/status/text" => reply(200, "text/plain; charset=utf-8", "晴, 21 °C"),
        "/status/broken" => reply(200, "application/json", "{\"a\": "),
        "/status/binary" => Response::builder().status(200).body(Body::from(vec![0xff, 0xfe, 0x00])).unwrap(),
        "/status/large" => Response::builder().status(200).body(Body::from(vec![b'x'; 17 << 20])).unwrap(),
        "/status/silent" => std::future::pending().await,
        _ => {
            let header = |name: &str| head.headers.get(name).map(|value| value.to_str().unwrap().to_owned());
            let echo = json!({
                "method": head.method.as_str(),
                "uri": head.uri.to_string(),
                "body": String::from_utf8_lossy(&body),
                "type": header("content-type"),
                "key": header("x-key"),
                "handed": [header("idempotency-key"), header("paypal-request-id")],
                "authorization": header("authorization"),
                "trace": [header("traceparent"), header("tracestate")],
            });
            reply(200, "application/json", &echo.to_string())
        }
    }
}

fn definition() -> ToolDefinition {
    ToolDefinition {
        input_schema: json!({
            "type": "object",
            "properties": {"city": {"type": "string"}, "unit": {"type": "string"}, "days": {"type": "integer"}},
            "required": ["city"],
        }),
        ..ToolDefinition::new("get_weather", "Tells the weather.")
    }
}

fn tool(method: &str, url: &str) -> Result<HttpTool, HttpToolError> {
    let headers = BTreeMap::from([
        ("X-Key".to_owned(), HeaderValue::Plain("plain".into())),
        ("Authorization".to_owned(), HeaderValue::Secret(Secret::new("Bearer hunter2"))),
    ]);
    let client = Client::new(Origin::of(url));
    HttpTool::new(definition(), HttpSpec { method: method.into(), url: url.into(), headers, source: None }, client)
}

async fn status(which: &str, change: impl FnOnce(&mut Cx)) -> Result<ToolOutput, ToolError> {
    let tool = tool("GET", &format!("{}/status/{{city}}", server().await)).unwrap();
    let mut cx = cx(std::path::Path::new("/"), Vec::new());
    change(&mut cx);
    call(&tool, json!({"city": which}), &cx).await
}

#[tokio::test]
async fn arguments_fill_the_path_then_the_query_or_the_body() {
    let cx = cx(std::path::Path::new("/"), Vec::new());
    let base = server().await;
    let url = format!("{base}/v1/{{city}}/now");
    let arguments = json!({"city": "北京/a?b", "unit": "c&d", "days": 3});
    for (method, query, body) in [("GET", "?unit=c%26d&days=3", ""), ("post", "", r#"{"unit":"c&d","days":3}"#)] {
        let tool = tool(method, &url).unwrap();
        let echo = call(&tool, arguments.clone(), &cx).await.unwrap().structured.unwrap();
        assert_eq!(echo["uri"], format!("/v1/%E5%8C%97%E4%BA%AC%2Fa%3Fb/now{query}"));
        assert_eq!(echo["body"], body);
        assert_eq!(echo["type"], if body.is_empty() { Value::Null } else { json!("application/json") });
        assert_eq!((&echo["key"], &echo["authorization"]), (&json!("plain"), &json!("Bearer hunter2")));
        let preview = tool.preview(&arguments, &cx).unwrap();
        assert!(preview.starts_with(&format!("{} {base}/v1/%E5", method.to_uppercase())), "{preview}");
        assert!(!format!("{preview}{tool:?}").contains("hunter2"));
        assert_eq!(tool.definition().source.kind, SourceKind::Http);
    }
    let tool = tool("GET", &url).unwrap();
    for city in ["..", ".", ""] {
        let error = tool.check(&json!({"city": city}), &cx).unwrap_err();
        assert_eq!((error.code, error.details[0].path.as_str()), (Code::InvalidArguments, "/city"));
    }
}

#[tokio::test]
async fn a_key_is_handed_on_as_a_header() {
    let tool = tool("POST", &format!("{}/v1/{{city}}", server().await)).unwrap();
    let handed = |name: &str| HandedKey { name: name.into(), value: "0a-1b".into() };
    for (name, expected) in
        [("Idempotency-Key", json!(["\"0a-1b\"", null])), ("PayPal-Request-Id", json!([null, "0a-1b"]))]
    {
        let cx = Cx { handed_key: Some(handed(name)), ..cx(std::path::Path::new("/"), Vec::new()) };
        let echo = call(&tool, json!({"city": "北京"}), &cx).await.unwrap().structured.unwrap();
        assert_eq!(echo["handed"], expected);
    }
    let cx = Cx { handed_key: Some(handed("x-key")), ..cx(std::path::Path::new("/"), Vec::new()) };
    let error = call(&tool, json!({"city": "北京"}), &cx).await.unwrap_err();
    assert_eq!((error.tool_code.as_deref(), error.nothing_happened), (Some("NOT_CONFIGURED"), true));
}

#[tokio::test]
async fn the_place_in_a_trace_goes_along() {
    let tool = tool("GET", &format!("{}/v1/{{city}}", server().await)).unwrap();
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0b5902b7-01";
    for (state, expected) in [("a=1", json!([parent, "a=1"])), ("", json!([parent, null]))] {
        let trace = TraceContext::read([parent], [state]);
        let cx = Cx { trace, ..cx(std::path::Path::new("/"), Vec::new()) };
        let echo = call(&tool, json!({"city": "北京"}), &cx).await.unwrap().structured.unwrap();
        assert_eq!(echo["trace"], expected);
    }
    let echo = call(&tool, json!({"city": "北京"}), &cx(std::path::Path::new("/"), Vec::new())).await.unwrap();
    assert_eq!(echo.structured.unwrap()["trace"], json!([null, null]));
}

#[tokio::test]
async fn an_answer_is_text_or_structured() {
    let output = status("text", |_| ()).await.unwrap();
    assert_eq!((text(&output).as_str(), output.structured), ("晴, 21 °C", None));
    assert_eq!(text(&status("204", |_| ()).await.unwrap()), "(the server answered 204 with an empty body)");
}

#[tokio::test]
async fn what_a_server_says_is_an_error_with_a_way_on() {
    for (which, code, tool_code, retryable) in [
        ("404", Code::ToolError, "NOT_FOUND", false),
        ("401", Code::ToolError, "HTTP_401", false),
        ("302", Code::ToolError, "REDIRECT", false),
        ("429", Code::UpstreamError, "RATE_LIMITED", true),
        ("500", Code::UpstreamError, "HTTP_500", true),
        ("broken", Code::UpstreamError, "INVALID_JSON", true),
        ("binary", Code::ToolError, "INVALID_UTF8", false),
    ] {
        let error = status(which, |_| ()).await.unwrap_err();
        assert_eq!(
            (error.code, error.tool_code.as_deref(), error.retryable),
            (code, Some(tool_code), retryable),
            "{which}"
        );
        assert!(error.hint.is_some(), "{which}");
        // Nobody but the server wrote what it says.
        assert_eq!(error.outside, !matches!(which, "302" | "binary"), "{which}");
    }
    let error = status("404", |_| ()).await.unwrap_err();
    assert_eq!(error.message, r#"the server answered 404: {"error":"no such city"}"#);
    let error = status("429", |_| ()).await.unwrap_err();
    assert!(error.hint.unwrap().ends_with("ask again in 7 seconds"));
    let error = status("500", |_| ()).await.unwrap_err();
    assert_eq!(error.message, "the server answered 500: <h1>oops\\u{1b}[2J</h1>");
}

#[tokio::test]
async fn silence_size_and_absence_have_their_codes() {
    let error = status("silent", |cx| cx.deadline = Duration::from_millis(200)).await.unwrap_err();
    assert_eq!(error.code, Code::Timeout);
    let error = status("silent", |cx| cx.cancellation.cancel()).await.unwrap_err();
    assert_eq!(error.code, Code::Cancelled);
    assert_eq!(status("large", |_| ()).await.unwrap_err().code, Code::ResultTooLarge);
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let tool = tool("GET", &format!("http://{free}/{{city}}")).unwrap();
    let cx = cx(std::path::Path::new("/"), Vec::new());
    let error = call(&tool, json!({"city": "x"}), &cx).await.unwrap_err();
    assert_eq!((error.code, error.tool_code.as_deref()), (Code::UpstreamError, Some("UNREACHABLE")));
}

#[test]
fn a_request_that_could_not_be_meant_is_refused_at_start() {
    for (method, url) in [
        ("TRACE", "https://a.test/{city}"),
        ("GET", "https://{city}.test/"),
        ("GET", "https://a.test/{town}"),
        ("GET", "https://a.test/{unit}"),
        ("GET", "/{city}"),
    ] {
        assert!(tool(method, url).is_err(), "{method} {url}");
    }
    let client = Client::new([]);
    for (name, value) in [("X Key", "a"), ("X-Key", "a\r\nHost: b"), ("", "a")] {
        let spec = HttpSpec {
            method: "GET".into(),
            url: "https://a.test/{city}".into(),
            headers: BTreeMap::from([(name.to_owned(), HeaderValue::Plain(value.to_owned()))]),
            source: None,
        };
        let error = HttpTool::new(definition(), spec, client.clone()).unwrap_err();
        assert_eq!(error, HttpToolError::Header { name: name.to_owned() });
    }
}

#[test]
fn what_is_sent_is_part_of_what_is_pinned_and_no_secret_is() {
    let mark = |headers: &[(&str, HeaderValue)]| {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let spec = HttpSpec { method: "GET".into(), url: "https://a.test/{city}".into(), headers, source: None };
        HttpTool::new(definition(), spec, Client::new([])).unwrap().definition().source.version.unwrap()
    };
    let plain = |value: &str| HeaderValue::Plain(value.into());
    let secret = |value: &str| HeaderValue::Secret(Secret::new(value));
    let marks = [
        mark(&[]),
        mark(&[("X-Shop", plain("1"))]),
        mark(&[("X-Shop", plain("2"))]),
        mark(&[("X-Shop2", plain("1"))]),
        mark(&[("X-Shop", plain(""))]),
        mark(&[("X-Shop", secret("1"))]),
        mark(&[("X-Shop", plain("1")), ("X-User", plain("2"))]),
        mark(&[("X-Shop", plain("2")), ("X-User", plain("1"))]),
    ];
    assert_eq!(marks.iter().collect::<std::collections::BTreeSet<_>>().len(), marks.len());
    assert_eq!(mark(&[("X-Shop", secret("1"))]), mark(&[("X-Shop", secret("2"))]));
}

#[tokio::test]
async fn a_cancelled_request_ends_at_once_and_closes_its_connection() {
    use tokio::io::AsyncReadExt as _;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let tool = tool("GET", &format!("http://{}/{{city}}", listener.local_addr().unwrap())).unwrap();
    let cx = cx(std::path::Path::new("/"), Vec::new());
    let server = async {
        let (mut connection, _) = listener.accept().await.unwrap();
        let mut buffer = [0; 4096];
        assert!(connection.read(&mut buffer).await.unwrap() > 0);
        cx.cancellation.cancel();
        while connection.read(&mut buffer).await.is_ok_and(|bytes| bytes > 0) {}
    };
    let both = async { tokio::join!(call(&tool, json!({"city": "x"}), &cx), server).0 };
    let error = tokio::time::timeout(Duration::from_secs(10), both).await.unwrap().unwrap_err();
    assert_eq!(error.code, Code::Cancelled);
}

#[tokio::test]
async fn no_half_of_a_secret_stands_at_the_end_of_what_a_server_said() {
    for city in ["long/0", "long/7", "long/13", "long/19"] {
        let message = status(city, |_| ()).await.unwrap_err().message;
        assert!(message.contains(" word … ") || message.contains(" word… ["), "{message}");
        assert!(!message.contains("sk-0"), "{message}");
    }
}

/// A body that comes in three pieces, each after what came before was heard.
#[tokio::test]
async fn each_piece_of_a_body_is_a_sign_of_life() {
    let (tell, heard) = tokio::sync::watch::channel(0_usize);
    let (pieces, told) = (heard.clone(), std::sync::Arc::new(tell));
    let app = Router::new().fallback(any(move || {
        let heard = pieces.clone();
        let piece = move |at: usize| {
            let mut heard = heard.clone();
            async move {
                // The head is heard first.
                heard.wait_for(|times| *times > at).await.unwrap();
                Ok::<_, std::convert::Infallible>(["a", "b", "c"][at])
            }
        };
        async move { Body::from_stream(stream::iter(0..3).then(piece)) }
    }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/{{city}}", listener.local_addr().unwrap());
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move { axum::serve(listener, app).await });
    let mut cx = cx(std::path::Path::new("/"), Vec::new());
    let alive = std::sync::Arc::clone(&told);
    cx.progress = Progress::none().with_alive(move || alive.send_modify(|times| *times += 1));
    let output = call(&tool("GET", &url).unwrap(), json!({"city": "x"}), &cx).await.unwrap();
    assert_eq!(text(&output), "abc");
    assert!(*heard.borrow() >= 4, "the head and three pieces");
}
