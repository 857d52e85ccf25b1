//! WebSockets and event streams: doubles on real sockets, those that behave and those that do not.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures_util::stream;
use tokio::sync::mpsc;
use tollgate_guard::client::{CannotRead, CredentialSource, Credentials};
use tollgate_mcp::upstream::UpstreamState;
use tollgate_types::{BoxFuture, Code, Secret};

use super::*;

/// What a double is like, and what it was asked.
#[derive(Default)]
struct Double {
    character: &'static str,
    log: Mutex<Vec<String>>,
    opened: AtomicUsize,
    streams: Mutex<BTreeMap<usize, mpsc::Sender<String>>>,
    key: Mutex<&'static str>,
}

type Shared = Arc<Double>;

impl Double {
    fn lets_in(&self, headers: &HeaderMap) -> bool {
        let key = headers.get("authorization").map(|value| value.to_str().unwrap().to_owned());
        self.character != "locked" || key.as_deref() == Some(*self.key.lock().unwrap())
    }

    /// What is said to a message; none where the connection is cut instead.
    fn say(&self, text: &str) -> Option<Vec<String>> {
        let message: Value = serde_json::from_str(text).unwrap();
        let method = message["method"].as_str().unwrap_or("-").to_owned();
        self.log.lock().unwrap().push(method.clone());
        let id = &message["id"];
        let reply = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
        let error =
            |code: i64| json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": "no"}}).to_string();
        let tool = json!({"name": "echo", "inputSchema": {"type": "object",
            "properties": {"a": {"type": "string", "x-mcp-header": "A"}}}});
        Some(match (method.as_str(), self.character) {
            ("initialize", "dies") => return None,
            ("server/discover", "modern") => vec![reply(json!({"supportedVersions": ["2026-07-28"]}))],
            ("server/discover", "dies at the probe") => return None,
            ("subscriptions/listen", _) => Vec::new(),
            ("initialize", character) => {
                assert_ne!(character, "modern");
                vec![reply(json!({"protocolVersion": "2024-11-05", "capabilities": {}}))]
            }
            ("tools/list", _) => vec![reply(json!({"tools": [tool]}))],
            ("tools/call", _) => match message["params"]["arguments"]["do"].as_str() {
                Some("die") => return None,
                Some("huge") => vec![reply(json!({"content": [{"type": "text", "text": "x".repeat(2_000_000)}]}))],
                Some("rubbish") => {
                    let wrong = json!({"jsonrpc": "2.0", "id": 10_000, "result": {}}).to_string();
                    let right = reply(json!({"content": [{"type": "text", "text": "right"}]}));
                    vec!["rubbish".to_owned(), "{".to_owned(), wrong, right.clone(), right]
                }
                Some("change") => vec![
                    r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#.to_owned(),
                    reply(json!({"content": []})),
                ],
                _ => vec![reply(json!({"content": [{"type": "text",
                    "text": message["params"]["arguments"].to_string()}]}))],
            },
            (_, _) if id.is_null() => Vec::new(),
            _ => vec![error(-32601)],
        })
    }
}

async fn socket(State(it): State<Shared>, headers: HeaderMap, upgrade: WebSocketUpgrade) -> Response {
    it.opened.fetch_add(1, Ordering::SeqCst);
    if !it.lets_in(&headers) {
        return (StatusCode::UNAUTHORIZED, "who are you?").into_response();
    }
    match it.character {
        "plain" => return "hello".into_response(),
        "elsewhere" => return (StatusCode::FOUND, [("location", "ws://127.0.0.1:1/")]).into_response(),
        _ => {}
    }
    assert_eq!(headers["sec-websocket-protocol"], "mcp");
    let mut response = upgrade.protocols(["mcp"]).on_upgrade(move |socket| converse(it.clone(), socket));
    if headers.contains_key("x-forged") {
        response.headers_mut().insert("sec-websocket-accept", "AAAA".parse().unwrap());
    }
    response
}

async fn converse(it: Shared, mut socket: WebSocket) {
    while let Some(Ok(message)) = socket.recv().await {
        let Message::Text(text) = message else { continue };
        let Some(said) = it.say(&text) else { return };
        for text in said {
            // Half of what servers send is bytes.
            let message = if text.len() % 2 == 0 { Message::text(text) } else { Message::binary(text.into_bytes()) };
            let _ = socket.send(message).await;
        }
    }
}

async fn events(State(it): State<Shared>, headers: HeaderMap) -> Response {
    if !it.lets_in(&headers) {
        return (StatusCode::UNAUTHORIZED, "who are you?").into_response();
    }
    assert_eq!(headers["accept"], "text/event-stream");
    let number = it.opened.fetch_add(1, Ordering::SeqCst) + 1;
    let (to, said) = mpsc::channel(100);
    let place = match it.character {
        "elsewhere" => "http://127.0.0.2:1/messages".to_owned(),
        "rubbish" => "http://[".to_owned(),
        _ => format!("messages?sessionId={number}"),
    };
    if it.character != "silent" {
        to.try_send(format!(": hello\r\n\r\nevent: endpoint\r\ndata: {place}\r\n\r\nevent: other\ndata: {{}}\n\n"))
            .unwrap();
    }
    it.streams.lock().unwrap().insert(number, to);
    let pieces =
        stream::unfold(
            said,
            |mut said| async move { Some((Ok::<_, std::convert::Infallible>(said.recv().await?), said)) },
        );
    ([("content-type", "text/event-stream")], Body::from_stream(pieces)).into_response()
}

async fn message(State(it): State<Shared>, uri: Uri, body: Bytes) -> Response {
    let number = uri.query().unwrap().strip_prefix("sessionId=").unwrap().parse().unwrap();
    let text = std::str::from_utf8(&body).unwrap();
    let Some(to) = it.streams.lock().unwrap().get(&number).cloned() else {
        return (StatusCode::NOT_FOUND, "no such session").into_response();
    };
    if it.character == "refuses" && text.contains("tools/call") {
        return (StatusCode::BAD_REQUEST, r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"no"}}"#)
            .into_response();
    }
    match it.say(text) {
        None => drop(it.streams.lock().unwrap().remove(&number)),
        Some(said) => {
            for text in said {
                to.send(format!("event: message\ndata: {text}\n\n")).await.unwrap();
            }
        }
    }
    StatusCode::ACCEPTED.into_response()
}

async fn serve(character: &'static str) -> (Shared, String, tokio::task::JoinSet<()>) {
    let double = Arc::new(Double { character, key: Mutex::new("Bearer key"), ..Double::default() });
    // A POST to the stream's path is refused, as such servers do.
    let app = Router::new().route("/ws", get(socket)).route("/sse", get(events)).route("/messages", post(message));
    let app = app.with_state(Arc::clone(&double));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let place = listener.local_addr().unwrap().to_string();
    let mut serving = tokio::task::JoinSet::new();
    serving.spawn(async move { axum::serve(listener, app).await.unwrap() });
    (double, place, serving)
}

fn sockets(place: &str) -> UpstreamKind {
    UpstreamKind::Socket { url: format!("ws://{place}/ws"), headers: Credentials::default() }
}

fn streams(place: &str) -> UpstreamKind {
    UpstreamKind::Sse { url: format!("http://{place}/sse"), headers: Credentials::default() }
}

/// As configured today: only the answers say that it is an older one.
fn unsaid(place: &str) -> UpstreamKind {
    UpstreamKind::Http { url: format!("http://{place}/sse"), headers: Credentials::default() }
}

async fn house(kind: UpstreamKind) -> House {
    let hasty = Limits { handshake: Duration::from_secs(2), ..limits() };
    let house = House::of(|_| vec![UpstreamConfig::new("x", kind)], hasty);
    house.upstreams.settle(NEVER).await;
    house
}

type Kind = fn(&str) -> UpstreamKind;
const WAYS: [Kind; 3] = [sockets, streams, unsaid];

#[tokio::test]
async fn each_way_is_greeted_in_its_era_and_called() {
    for (kind, character, era) in [
        (sockets as Kind, "legacy", "2024-11-05"),
        (sockets, "modern", "2026-07-28"),
        (sockets, "dies at the probe", "2024-11-05"),
        (streams, "legacy", "2024-11-05"),
        (streams, "modern", "2026-07-28"),
        (unsaid, "legacy", "2024-11-05"),
    ] {
        let (double, place, _serving) = serve(character).await;
        let house = house(kind(&place)).await;
        let status = house.status();
        assert_eq!((status.state, status.era), (UpstreamState::Ready, Some(era)), "{character}: {status:?}");
        // No headers go along here, so none has to be repeated.
        assert_eq!((status.tools.len(), status.quarantined.len(), status.restarts), (1, 0, 0), "{status:?}");
        let answer = house.call("mcp__x__echo", json!({"a": "好"})).await.unwrap();
        assert_eq!(text(&answer), r#"{"a":"好"}"#);
        let calls = (0..20).map(|n| house.call("mcp__x__echo", json!({"n": n})));
        for (n, answered) in futures_util::future::join_all(calls).await.into_iter().enumerate() {
            assert_eq!(text(&answered.unwrap()), format!(r#"{{"n":{n}}}"#));
        }
        house.call("mcp__x__echo", json!({"do": "change"})).await.unwrap();
        let lists = || double.log.lock().unwrap().iter().filter(|method| *method == "tools/list").count();
        until("it is listed again", || lists() == 2).await;
        house.upstreams.stop().await;
        assert_eq!(house.status().state, UpstreamState::Stopped);
    }
}

#[tokio::test]
async fn rubbish_costs_nothing_and_a_break_costs_one_call() {
    for kind in WAYS {
        let (_double, place, _serving) = serve("legacy").await;
        let house = house(kind(&place)).await;
        let output = house.call("mcp__x__echo", json!({"do": "rubbish"})).await.unwrap();
        assert_eq!(text(&output), "right");
        until("all of it is counted", || house.status().noise.stale_answers == 1).await;
        let noise = house.status().noise;
        assert_eq!((noise.lines, noise.unknown_ids), (2, 1), "{noise:?}");
        for how in ["die", "huge"] {
            let error = house.call("mcp__x__echo", json!({"do": how})).await.unwrap_err();
            assert_eq!(
                (error.code, error.tool_code.as_deref()),
                (Code::UpstreamError, Some("BROKEN_OFF")),
                "{error:?}"
            );
            until("it may be started again", || house.status().retry_in_ms == Some(0)).await;
            assert_eq!(text(&house.call("mcp__x__echo", json!({"n": 1})).await.unwrap()), r#"{"n":1}"#);
        }
        let status = house.status();
        assert_eq!((status.restarts, status.state), (2, UpstreamState::Ready));
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_server_is_said() {
    for (kind, character, part) in [
        (sockets as Kind, "plain", "HTTP 200"),
        (sockets, "elsewhere", "HTTP 302"),
        (sockets, "locked", "HTTP 401: who are you?"),
        (sockets, "dies", "broke off"),
        (streams, "elsewhere", "another origin"),
        (streams, "rubbish", "no address"),
        (streams, "silent", "no answer within"),
        (streams, "locked", "HTTP 401: who are you?"),
        (streams, "dies", "ended its event stream"),
        (unsaid, "elsewhere", "HTTP 405; and as an event stream of 2024-11-05"),
    ] {
        let (_double, place, _serving) = serve(character).await;
        let house = house(kind(&place)).await;
        let status = house.status();
        let said = status.last_error.clone().unwrap_or_default();
        assert!(said.contains(part) && status.restarts > 0, "{character}: {said}");
        house.upstreams.stop().await;
    }
    let (_double, place, _serving) = serve("legacy").await;
    let headers = Credentials::fixed(vec![("x-forged".to_owned(), Secret::new("1"))]);
    let house = house(UpstreamKind::Socket { url: format!("ws://{place}/ws"), headers }).await;
    assert!(house.status().last_error.unwrap().contains("another WebSocket"));
}

#[tokio::test]
async fn a_refused_message_costs_its_call_and_a_forgotten_stream_is_opened_again() {
    let (double, place, _serving) = serve("refuses").await;
    let house = house(streams(&place)).await;
    let error = house.call("mcp__x__echo", json!({})).await.unwrap_err();
    assert_eq!((error.code, error.tool_code.as_deref()), (Code::UpstreamError, Some("RPC_-32602")), "{error:?}");
    assert_eq!(house.status().restarts, 0);
    double.streams.lock().unwrap().clear();
    let error = house.call("mcp__x__echo", json!({})).await.unwrap_err();
    assert_eq!(error.tool_code.as_deref(), Some("BROKEN_OFF"), "{error:?}");
    until("it may be started again", || house.status().retry_in_ms == Some(0)).await;
    let error = house.call("mcp__x__echo", json!({})).await.unwrap_err();
    assert_eq!(error.tool_code.as_deref(), Some("RPC_-32602"), "it is there again");
}

/// A key that another one takes the place of.
struct Rotated;

impl CredentialSource for Rotated {
    fn read(&self) -> BoxFuture<'_, Result<Vec<(String, Secret)>, CannotRead>> {
        Box::pin(async { Ok(vec![("authorization".to_owned(), Secret::new("Bearer key"))]) })
    }
}

#[tokio::test]
async fn a_key_that_is_not_taken_is_read_anew() {
    for is_socket in [true, false] {
        let (double, place, _serving) = serve("locked").await;
        let old = vec![("authorization".to_owned(), Secret::new("Bearer old"))];
        let headers = Credentials::renewable(old, Arc::new(Rotated));
        let house = house(match is_socket {
            true => UpstreamKind::Socket { url: format!("ws://{place}/ws"), headers },
            false => UpstreamKind::Sse { url: format!("http://{place}/sse"), headers },
        })
        .await;
        assert_eq!((house.status().state, house.status().restarts), (UpstreamState::Ready, 0), "{:?}", house.status());
        assert!(double.opened.load(Ordering::SeqCst) >= 1);
    }
}

#[tokio::test]
async fn an_address_of_another_kind_is_refused_before_anything_starts() {
    for (kind, part) in [
        (UpstreamKind::Socket { url: "ftp://a/".into(), headers: Credentials::default() }, "http://"),
        (UpstreamKind::Socket { url: "ws://u:p@a/".into(), headers: Credentials::default() }, "user name"),
        (UpstreamKind::Sse { url: "ws://a/".into(), headers: Credentials::default() }, "http://"),
    ] {
        let error = UpstreamConfig::new("x", kind).check().unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}
