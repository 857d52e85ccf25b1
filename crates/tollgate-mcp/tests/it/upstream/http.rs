//! Streamable HTTP: doubles of both eras on real sockets.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use tollgate_guard::client::{CannotRead, CredentialSource, Credentials};
use tollgate_mcp::upstream::UpstreamState;
use tollgate_types::{BoxFuture, Code, Progress, Secret};

use super::*;

/// What a double is like, and what it was asked.
#[derive(Default)]
struct Double {
    character: &'static str,
    log: Mutex<Vec<(String, Option<String>, Value)>>,
    sessions: AtomicUsize,
    /// The answer to a call whose stream broke off.
    owed: Mutex<Value>,
    /// What `locked` wants to see.
    key: Mutex<&'static str>,
    /// How many pieces of a flood were fetched.
    pieces: AtomicUsize,
}

type Shared = Arc<Double>;

/// It says nothing unasked.
async fn endpoint(it: State<Shared>, method: Method, headers: HeaderMap, body: Bytes) -> Response {
    match method == Method::GET && !headers.contains_key("last-event-id") {
        true => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        false => asked(it, method, headers, body).await,
    }
}

async fn asked(State(it): State<Shared>, method: Method, headers: HeaderMap, body: Bytes) -> Response {
    let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    let session = header("mcp-session-id");
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let asked = message["method"].as_str().unwrap_or(method.as_str()).to_owned();
    it.log.lock().unwrap().push((asked.clone(), session.clone(), message.clone()));
    if it.character == "locked" && header("authorization").as_deref() != Some(*it.key.lock().unwrap()) {
        return (StatusCode::UNAUTHORIZED, "who are you?").into_response();
    }
    let id = &message["id"];
    let reply = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
    let json = |value: Value| json_of(&value);
    if it.character == "modern" {
        check_stateless(&header, &asked, &message["params"]);
    }
    let meta = &message["params"]["_meta"];
    assert_eq!(header("traceparent").as_deref(), meta["traceparent"].as_str());
    assert_eq!(header("tracestate").as_deref(), meta["tracestate"].as_str());
    match (asked.as_str(), it.character) {
        ("server/discover", _) => discovered(&it, &reply, id),
        ("subscriptions/listen", _) => (StatusCode::BAD_REQUEST, "Bad Request: no session").into_response(),
        ("initialize", _) => {
            let number = it.sessions.fetch_add(1, Ordering::SeqCst) + 1;
            let info = json!({"name": "double", "version": "1"});
            let result = json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info});
            let headers = [("content-type", "application/json".to_owned()), ("mcp-session-id", format!("s{number}"))];
            (headers, reply(result).to_string()).into_response()
        }
        ("ping", _) => json(reply(json!({}))),
        ("notifications/initialized", _) => StatusCode::ACCEPTED.into_response(),
        ("DELETE", _) => StatusCode::OK.into_response(),
        (_, character)
            if !matches!(character, "modern" | "picky")
                && session != Some(format!("s{}", it.sessions.load(Ordering::SeqCst))) =>
        {
            let body = json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32001, "message": "Session not found"}});
            (StatusCode::NOT_FOUND, body.to_string()).into_response()
        }
        ("tools/list", _) => {
            let tools = [
                json!({"name": "echo", "inputSchema": {"type": "object"}}),
                json!({"name": "owed", "inputSchema": {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "A"}}}}),
            ];
            json(reply(json!({"tools": tools})))
        }
        ("tools/call", _) if message["params"]["arguments"]["do"] == "break off" => {
            *it.owed.lock().unwrap() = reply(json!({"content": [{"type": "text", "text": "after all"}]}));
            stream("id: e1\nretry: 1\ndata:\n\ndata: {\"cut".to_owned())
        }
        ("GET", _) => {
            assert_eq!(header("last-event-id").as_deref(), Some("e1"));
            assert_eq!(header("mcp-protocol-version").as_deref(), Some("2025-06-18"));
            stream(format!("data: {}\n\n", it.owed.lock().unwrap().take()))
        }
        ("tools/call", _) if message.to_string().contains("flood") => flood(it, message.to_string().contains("event")),
        ("tools/call", _) => called(&message["params"], &reply),
        other => panic!("{other:?}"),
    }
}

fn check_stateless(header: &dyn Fn(&str) -> Option<String>, asked: &str, params: &Value) {
    assert_eq!(header("mcp-protocol-version").as_deref(), Some("2026-07-28"));
    assert_eq!(header("mcp-method").as_deref(), Some(asked));
    assert_eq!(header("mcp-name").as_deref(), params["name"].as_str());
    let argument = params["arguments"]["a"].as_str().filter(|_| params["name"] == "owed");
    assert_eq!(header("mcp-param-a").as_deref(), argument);
}

fn json_of(value: &Value) -> Response {
    ([("content-type", "application/json")], value.to_string()).into_response()
}

fn stream(text: String) -> Response {
    ([("content-type", "text/event-stream")], text).into_response()
}

fn discovered(it: &Double, reply: &dyn Fn(Value) -> Value, id: &Value) -> Response {
    let info = json!({"io.modelcontextprotocol/serverInfo": {"name": "double", "version": "1"}});
    let well = reply(json!({"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, "_meta": info}));
    let refused = |code: i64, data: Value| json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no", "data": data}});
    match it.character {
        "modern" => json_of(&well),
        "picky" if it.log.lock().unwrap().len() == 1 => {
            (StatusCode::BAD_REQUEST, json_of(&refused(-32022, json!({"supported": ["2026-07-28"]})))).into_response()
        }
        "picky" => json_of(&well),
        "rpc error" => json_of(&refused(-32601, Value::Null)),
        "not allowed" => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        "page" => (StatusCode::NOT_FOUND, "<html>no</html>").into_response(),
        _ => (StatusCode::BAD_REQUEST, "Bad Request: no session").into_response(),
    }
}

fn called(params: &Value, reply: &dyn Fn(Value) -> Value) -> Response {
    let answer = reply(json!({"content": [{"type": "text", "text": params["arguments"].to_string()}]}));
    let step = json!({"jsonrpc": "2.0", "method": "notifications/progress",
        "params": {"progressToken": params["_meta"]["progressToken"], "progress": 1}});
    match params["arguments"]["do"].as_str() {
        Some("stream") => stream(format!(": hi\n\nid: 1\ndata: {step}\n\ndata: rubbish\n\ndata: {answer}\n\n")),
        Some("no answer") => stream(format!("data: {step}\n\n")),
        Some("endless") => stream(format!("data: {}", "x".repeat(2_000_000))),
        Some("other id") => {
            ([("content-type", "application/json")], r#"{"jsonrpc":"2.0","id":"z","result":{}}"#).into_response()
        }
        Some("fault") => (StatusCode::INTERNAL_SERVER_ERROR, "it  broke").into_response(),
        _ => ([("content-type", "application/json")], answer.to_string()).into_response(),
    }
}

/// Two billion bytes, as far as somebody fetches them.
fn flood(it: Shared, is_event: bool) -> Response {
    let (kind, head) = if is_event { ("text/event-stream", "data: ") } else { ("application/json", "") };
    let piece = Bytes::from(vec![b'x'; 1_000_000]);
    let pieces = (0..2_000).map(move |_| {
        it.pieces.fetch_add(1, Ordering::SeqCst);
        piece.clone()
    });
    let whole = std::iter::once(Bytes::from(head)).chain(pieces).map(Ok::<_, std::convert::Infallible>);
    ([("content-type", kind)], Body::from_stream(futures_util::stream::iter(whole))).into_response()
}

async fn serve(character: &'static str) -> (Shared, String, tokio::task::JoinSet<()>) {
    let double = Arc::new(Double { character, key: Mutex::new("Bearer key"), ..Double::default() });
    let app = Router::new().route("/mcp", any(endpoint)).with_state(Arc::clone(&double));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let mut serving = tokio::task::JoinSet::new();
    serving.spawn(async move { axum::serve(listener, app).await.unwrap() });
    (double, url, serving)
}

async fn house(url: &str, headers: &[(&str, &str)]) -> House {
    let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), Secret::new(*value))).collect();
    house_known_by(url, Credentials::fixed(headers)).await
}

async fn house_known_by(url: &str, headers: Credentials) -> House {
    let config = UpstreamConfig::new("web", UpstreamKind::Http { url: url.to_owned(), headers });
    let house = House::of(|_| vec![config], limits());
    house.upstreams.settle(NEVER).await;
    house
}

#[tokio::test]
async fn both_eras_are_found_and_called() {
    for (character, era) in [
        ("modern", "2026-07-28"),
        ("rpc error", "2025-06-18"),
        ("not allowed", "2025-06-18"),
        ("page", "2025-06-18"),
        ("bad request", "2025-06-18"),
    ] {
        let (_double, url, _serving) = serve(character).await;
        let house = house(&url, &[]).await;
        let status = house.status();
        assert_eq!((status.state, status.era), (UpstreamState::Ready, Some(era)), "{character}: {status:?}");
        assert_eq!((status.tools.len(), status.quarantined.len()), (2, 0), "{character}: {status:?}");
        house.call("mcp__web__owed", json!({"a": "north"})).await.unwrap();
        assert!(house.upstreams.ping("web").await.unwrap().is_ok(), "{character}");
        assert!(house.upstreams.ping("nobody").await.is_none());
        let told = &status.introduction;
        assert_eq!((told.name.as_deref(), &told.capabilities), (Some("double"), &json!({"tools": {}})), "{character}");
        assert_eq!(text(&house.call("mcp__web__echo", json!({"a": 1})).await.unwrap()), r#"{"a":1}"#);
        house.upstreams.stop().await;
    }
}

#[tokio::test]
async fn two_billion_bytes_are_given_up_at_the_limit() {
    for character in ["modern", "legacy"] {
        let (double, url, _serving) = serve(character).await;
        let house = house(&url, &[]).await;
        for flood in ["flood", "flood of one event"] {
            let error = house.call("mcp__web__echo", json!({ "do": flood })).await.unwrap_err();
            assert_eq!(error.code, Code::ResultTooLarge, "{flood}: {error:?}");
            assert!(error.message.contains("larger than 1048576 bytes"), "{error:?}");
            assert_eq!(text(&house.call("mcp__web__echo", json!({"a": 1})).await.unwrap()), r#"{"a":1}"#);
        }
        let fetched = double.pieces.load(Ordering::SeqCst);
        assert!(fetched < 200, "{fetched} of 4,000 million bytes were fetched");
        house.upstreams.stop().await;
    }
}

#[tokio::test]
async fn a_place_in_a_trace_goes_along_in_meta_and_in_headers() {
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0b5902b7-01";
    for character in ["modern", "legacy"] {
        let (double, url, _serving) = serve(character).await;
        let house = house(&url, &[]).await;
        let mut cx = tollgate_testkit::cx("/");
        cx.trace = tollgate_types::TraceContext::read([parent], ["a=1"]);
        find(&house.upstreams, "mcp__web__echo").call(json!({}), cx).await.unwrap();
        let told = double.log.lock().unwrap().last().unwrap().2["params"]["_meta"].clone();
        assert_eq!((&told["traceparent"], &told["tracestate"]), (&json!(parent), &json!("a=1")), "{character}");
        house.upstreams.stop().await;
    }
}

#[tokio::test]
async fn a_lost_session_is_renewed_once_and_a_finished_one_is_ended() {
    let (double, url, _serving) = serve("legacy").await;
    let house = house(&url, &[]).await;
    house.call("mcp__web__echo", json!({})).await.unwrap();
    // The server forgets: only the next session will do.
    double.sessions.fetch_add(10, Ordering::SeqCst);
    double.log.lock().unwrap().clear();
    let calls = (0..3).map(|n| house.call("mcp__web__echo", json!({"n": n})));
    for (n, answered) in futures_util::future::join_all(calls).await.into_iter().enumerate() {
        assert_eq!(text(&answered.unwrap()), format!(r#"{{"n":{n}}}"#));
    }
    let asked = |method: &str| double.log.lock().unwrap().iter().filter(|(asked, ..)| asked == method).count();
    assert_eq!((asked("initialize"), asked("tools/call")), (1, 6), "one renewal for all three");
    house.upstreams.stop().await;
    let log = double.log.lock().unwrap();
    let (last, session, _) = log.last().unwrap();
    assert_eq!((last.as_str(), session.as_deref()), ("DELETE", Some("s12")));
}

#[tokio::test]
async fn streams_errors_and_rubbish_are_told_apart() {
    let (_double, url, _serving) = serve("legacy").await;
    let house = house(&url, &[]).await;
    let steps = Arc::new(AtomicUsize::new(0));
    let heard = Arc::clone(&steps);
    let mut cx = tollgate_testkit::cx("/");
    cx.progress = Progress::to(move |_| {
        heard.fetch_add(1, Ordering::SeqCst);
    });
    let output = find(&house.upstreams, "mcp__web__echo").call(json!({"do": "stream"}), cx).await.unwrap();
    assert_eq!((text(&output), steps.load(Ordering::SeqCst)), (r#"{"do":"stream"}"#, 1));
    assert_eq!(house.status().noise.last_lines, ["rubbish"]);
    for (how, code, part) in [
        ("no answer", Code::UpstreamError, "without an answer"),
        ("endless", Code::ResultTooLarge, "larger than"),
        ("other id", Code::UpstreamError, "not the one"),
        ("fault", Code::UpstreamError, "HTTP 500: it broke"),
    ] {
        let error = house.call("mcp__web__echo", json!({"do": how})).await.unwrap_err();
        assert!(error.code == code && error.message.contains(part), "{how}: {error:?}");
    }
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_taken_up_where_the_server_says_how() {
    let (double, url, _serving) = serve("legacy").await;
    let house = house(&url, &[]).await;
    let answered = house.call("mcp__web__echo", json!({"do": "break off"})).await.unwrap();
    assert_eq!(text(&answered), "after all");
    let asked = |method: &str| double.log.lock().unwrap().iter().filter(|(asked, ..)| asked == method).count();
    assert_eq!((asked("tools/call"), asked("GET")), (1, 1), "it is taken up, not asked again");
}

#[tokio::test]
async fn a_server_that_first_refuses_our_revision_and_speaks_it_is_asked_again() {
    let (double, url, _serving) = serve("picky").await;
    let house = house(&url, &[]).await;
    assert_eq!(house.status().era, Some("2026-07-28"));
    let log = double.log.lock().unwrap();
    let asked: Vec<&str> = log.iter().map(|(asked, ..)| asked.as_str()).collect();
    assert_eq!(asked.get(..3), Some(&["server/discover", "server/discover", "tools/list"][..]), "{asked:?}");
}

#[tokio::test]
async fn a_key_is_sent_and_a_missing_one_is_said() {
    let (_double, url, _serving) = serve("locked").await;
    let without = house(&url, &[]).await;
    assert_eq!(without.status().last_error.as_deref(), Some("the server answered HTTP 401: who are you?"));
    let with = house(&url, &[("Authorization", "Bearer key")]).await;
    assert_eq!(with.status().state, UpstreamState::Ready);
    assert!(!format!("{:?}", with.upstreams).contains("Bearer"));

    let gone = house("http://127.0.0.1:9/mcp", &[]).await;
    assert!(gone.status().last_error.unwrap().contains("no connection to `http://127.0.0.1:9`"));
}

/// Gives each of these in turn, and nothing after them.
struct Reads(Mutex<Vec<&'static str>>);

impl CredentialSource for Reads {
    fn read(&self) -> BoxFuture<'_, Result<Vec<(String, Secret)>, CannotRead>> {
        let mut left = self.0.lock().unwrap();
        let next = if left.is_empty() { Err(CannotRead::Unread) } else { Ok(authorization(left.remove(0))) };
        Box::pin(std::future::ready(next))
    }
}

fn authorization(value: &str) -> Vec<(String, Secret)> {
    vec![("Authorization".to_owned(), Secret::new(value))]
}

#[tokio::test]
async fn credentials_that_are_refused_are_read_anew_once() {
    for (reads, advice) in [
        (vec!["Bearer new"], None),
        (vec!["Bearer key"], Some("read anew they are the same")),
        (vec!["Bearer other"], Some("read anew, and are refused too")),
        (vec![], Some("could not be read anew")),
    ] {
        let (double, url, _serving) = serve("locked").await;
        let known_by = Credentials::renewable(authorization("Bearer key"), Arc::new(Reads(Mutex::new(reads))));
        let house = house_known_by(&url, known_by).await;
        assert_eq!(house.status().state, UpstreamState::Ready, "{:?}", house.status());
        *double.key.lock().unwrap() = "Bearer new";
        double.log.lock().unwrap().clear();
        let answered = house.call("mcp__web__echo", json!({"a": 1})).await;
        let calls = double.log.lock().unwrap().iter().filter(|(asked, ..)| asked == "tools/call").count();
        match advice {
            None => assert_eq!((text(&answered.unwrap()), calls), (r#"{"a":1}"#, 2)),
            Some(advice) => {
                let error = answered.unwrap_err();
                let hint = error.hint.unwrap_or_default();
                assert!(hint.contains(advice) && error.nothing_happened && !error.retryable, "{hint}");
                assert_eq!(calls, if advice.contains("refused too") { 2 } else { 1 }, "{advice}");
            }
        }
        house.upstreams.stop().await;
    }
}
