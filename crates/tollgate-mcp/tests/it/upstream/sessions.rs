//! A server behind streamable HTTP that forgets, in words or by a status, or becomes another one.

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use tollgate_guard::client::Credentials;
use tollgate_mcp::upstream::UpstreamState;

use super::*;

/// What a server is like from now on, and what it was asked.
#[derive(Default)]
struct Double {
    character: Mutex<&'static str>,
    session: AtomicUsize,
    log: Mutex<Vec<String>>,
}

async fn endpoint(State(it): State<Arc<Double>>, headers: HeaderMap, body: Bytes) -> Response {
    let character = *it.character.lock().unwrap();
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let (method, id) = (message["method"].as_str().unwrap_or_default().to_owned(), &message["id"]);
    it.log.lock().unwrap().push(method.clone());
    let session = format!("s{}", it.session.load(Ordering::SeqCst));
    let json = |value: Value| ([("content-type", "application/json")], value.to_string()).into_response();
    let reply = |result: Value| json(json!({"jsonrpc": "2.0", "id": id, "result": result}));
    let refuse = |status: StatusCode, code: i64, words: &str| {
        let error = json!({"jsonrpc": "2.0", "id": null, "error": {"code": code, "message": words}});
        (status, [("content-type", "application/json")], error.to_string()).into_response()
    };
    let is_modern = headers.get("mcp-protocol-version").is_some_and(|version| version == "2026-07-28");
    match (character, method.as_str()) {
        ("modern", "server/discover") => reply(json!({"supportedVersions": ["2026-07-28"]})),
        ("modern", _) if !is_modern => refuse(StatusCode::BAD_REQUEST, -32020, "headers"),
        ("unversioned", _) if is_modern => refuse(StatusCode::BAD_REQUEST, -32022, "no such version"),
        ("forgets" | "hints" | "unversioned", "server/discover") => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        ("forgets" | "hints" | "unversioned", "initialize") => {
            let answer = json!({"jsonrpc": "2.0", "id": id, "result": {"protocolVersion": "2025-11-25"}}).to_string();
            ([("content-type", "application/json".to_owned()), ("mcp-session-id", session)], answer).into_response()
        }
        ("forgets", _) if headers.get("mcp-session-id").is_none_or(|named| *named != *session) => {
            StatusCode::NOT_FOUND.into_response()
        }
        ("hints", _) if headers.get("mcp-session-id").is_none_or(|named| *named != *session) => {
            refuse(StatusCode::BAD_REQUEST, -32000, "Bad Request: No valid session ID provided")
        }
        (_, "tools/list") => reply(json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]})),
        (_, "tools/call") => reply(json!({"content": [{"type": "text", "text": "done"}]})),
        _ => StatusCode::ACCEPTED.into_response(),
    }
}

async fn serve(character: &'static str) -> (Arc<Double>, House, tokio::task::JoinSet<()>) {
    let double = Arc::new(Double { character: Mutex::new(character), ..Double::default() });
    let app = Router::new().route("/mcp", any(endpoint)).with_state(Arc::clone(&double));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let mut serving = tokio::task::JoinSet::new();
    serving.spawn(async move { axum::serve(listener, app).await.unwrap() });
    let kind = UpstreamKind::Http { url, headers: Credentials::default() };
    let house = House::of(|_| vec![UpstreamConfig::new("x", kind)], limits());
    house.upstreams.settle(NEVER).await;
    (double, house, serving)
}

fn asked(double: &Double, method: &str) -> usize {
    double.log.lock().unwrap().iter().filter(|asked| *asked == method).count()
}

/// 404 is the protocol's word, said before the question is looked at. Of other words nobody knows that.
#[tokio::test]
async fn a_call_is_repeated_by_us_only_where_nothing_happened() {
    for (character, is_certain) in [("forgets", true), ("hints", false)] {
        let (double, house, _serving) = serve(character).await;
        house.call("mcp__x__echo", json!({})).await.unwrap();
        double.session.fetch_add(1, Ordering::SeqCst);
        double.log.lock().unwrap().clear();
        let answered = house.call("mcp__x__echo", json!({})).await;
        assert_eq!(answered.is_ok(), is_certain, "{answered:?}");
        assert_eq!((asked(&double, "initialize"), asked(&double, "tools/call")), (1, 1 + usize::from(is_certain)));
        if let Err(error) = answered {
            assert_eq!(error.tool_code.as_deref(), Some("BROKEN_OFF"), "{error:?}");
            assert!(error.retryable, "the gate knows whether it may happen twice: {error:?}");
        }
        house.call("mcp__x__echo", json!({})).await.unwrap();
        assert_eq!(asked(&double, "initialize"), 1, "the session is there again");
        until("what it has now is listed", || asked(&double, "tools/list") == 1).await;
    }
}

#[tokio::test]
async fn a_server_that_speaks_another_era_now_is_greeted_anew() {
    for (before, now, eras) in
        [("modern", "unversioned", ["2026-07-28", "2025-11-25"]), ("forgets", "modern", ["2025-11-25", "2026-07-28"])]
    {
        let (double, house, _serving) = serve(before).await;
        assert_eq!((house.status().state, house.status().era), (UpstreamState::Ready, Some(eras[0])));
        *double.character.lock().unwrap() = now;
        double.session.fetch_add(1, Ordering::SeqCst);
        let first = house.call("mcp__x__echo", json!({})).await;
        assert!(first.is_err(), "{before}: {first:?}");
        until("it fell", || house.status().restarts == 1).await;
        until("it may be started again", || house.status().retry_in_ms.is_none_or(|ms| ms == 0)).await;
        house.call("mcp__x__echo", json!({})).await.unwrap();
        assert_eq!(house.status().era, Some(eras[1]), "{:?}", house.status());
    }
}
