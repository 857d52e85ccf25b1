//! A server behind streamable HTTP of the handshake era that says things unasked, on the stream that a GET opens.

use std::convert::Infallible;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::any;
use futures_util::stream;
use tokio::sync::mpsc;
use tollgate_guard::client::Credentials;
use tollgate_types::{CallKind, Owner, Unfollowed};

use super::*;

const NOTE: &str = "mcp__web__resources/demo://note";

/// What was asked, by which method and in which session, and where a GET wants to go on.
type Asked = (String, String, Option<String>);

#[derive(Default)]
struct Double {
    /// Whether it has a stream at all.
    is_deaf: bool,
    session: AtomicUsize,
    tools: AtomicUsize,
    log: Mutex<Vec<Asked>>,
    open: Mutex<Option<mpsc::Sender<String>>>,
}

impl Double {
    fn asked(&self, method: &str) -> Vec<Asked> {
        self.log.lock().unwrap().iter().filter(|(asked, ..)| asked == method).cloned().collect()
    }

    async fn say(&self, event: &str) {
        let open = self.open.lock().unwrap().clone().unwrap();
        open.send(format!("{event}\n\n")).await.unwrap();
    }

    async fn notify(&self, method: &str, params: &Value) {
        self.say(&format!("data: {}", json!({"jsonrpc": "2.0", "method": method, "params": params}))).await;
    }

    fn cut(&self) {
        *self.open.lock().unwrap() = None;
    }
}

async fn endpoint(State(it): State<Arc<Double>>, method: Method, headers: HeaderMap, body: Bytes) -> Response {
    let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    let message: Value = serde_json::from_slice(&body).unwrap_or_default();
    let asked = message["method"].as_str().unwrap_or(method.as_str()).to_owned();
    let current = format!("s{}", it.session.load(Ordering::SeqCst));
    let given = header("mcp-session-id").unwrap_or_default();
    it.log.lock().unwrap().push((asked.clone(), given.clone(), header("last-event-id")));
    let reply = |result: Value| {
        let body = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
        ([("content-type", "application/json".to_owned()), ("mcp-session-id", current.clone())], body).into_response()
    };
    match asked.as_str() {
        "server/discover" => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        "initialize" => {
            let says = json!({"tools": {"listChanged": true}, "resources": {"subscribe": true, "listChanged": true}});
            reply(json!({"protocolVersion": "2025-11-25", "capabilities": says}))
        }
        "notifications/initialized" => StatusCode::ACCEPTED.into_response(),
        _ if given != current => StatusCode::NOT_FOUND.into_response(),
        "GET" if it.is_deaf => StatusCode::METHOD_NOT_ALLOWED.into_response(),
        "GET" => {
            assert!(header("accept").unwrap().contains("text/event-stream"));
            assert_eq!(header("mcp-protocol-version").as_deref(), Some("2025-11-25"));
            let (say, said) = mpsc::channel::<String>(16);
            *it.open.lock().unwrap() = Some(say);
            let events =
                stream::unfold(said, |mut said| async move { Some((Ok::<_, Infallible>(said.recv().await?), said)) });
            ([("content-type", "text/event-stream")], Body::from_stream(events)).into_response()
        }
        "tools/list" => {
            let tool = |n: usize| json!({"name": format!("tool_{n}"), "inputSchema": {"type": "object"}});
            reply(json!({"tools": (0..=it.tools.load(Ordering::SeqCst)).map(tool).collect::<Vec<_>>()}))
        }
        "resources/list" => reply(json!({"resources": [{"uri": "demo://note", "name": "note"}]})),
        "resources/templates/list" => reply(json!({"resourceTemplates": []})),
        "tools/call" => reply(json!({"content": []})),
        _ => reply(json!({})),
    }
}

async fn house(is_deaf: bool) -> (Arc<Double>, House, tokio::task::JoinSet<()>) {
    let double = Arc::new(Double { is_deaf, ..Double::default() });
    let app = Router::new().route("/mcp", any(endpoint)).with_state(Arc::clone(&double));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let mut serving = tokio::task::JoinSet::new();
    serving.spawn(async move { axum::serve(listener, app).await.unwrap() });
    let kind = UpstreamKind::Http { url, headers: Credentials::fixed(Vec::new()) };
    let house = House::of(|_| vec![UpstreamConfig::new("web", kind)], limits());
    house.upstreams.settle(NEVER).await;
    assert_eq!(house.status().era, Some("2025-11-25"), "{:?}", house.status());
    (double, house, serving)
}

async fn follow(house: &House) {
    let mut cx = tollgate_testkit::cx("/");
    (cx.kind, cx.deadline) = (CallKind::Subscription, NEVER);
    find(&house.upstreams, NOTE).call(json!({ "uri": "demo://note" }), cx).await.unwrap();
}

/// The names of the resources that changed, as they are told.
fn updates(house: &House) -> mpsc::Receiver<String> {
    let (told, updates) = mpsc::channel(64);
    house.upstreams.on_update(move |name, _| drop(told.try_send(name.to_owned())));
    updates
}

async fn heard(updates: &mut mpsc::Receiver<String>) -> String {
    tokio::time::timeout(NEVER, updates.recv()).await.unwrap().unwrap()
}

#[tokio::test]
async fn what_changes_is_heard_on_the_stream_and_questions_there_are_refused() {
    let (double, house, _serving) = house(false).await;
    let mut updates = updates(&house);
    until("the stream is open", || double.open.lock().unwrap().is_some()).await;
    follow(&house).await;
    double.tools.store(2, Ordering::SeqCst);
    double.notify("notifications/tools/list_changed", &json!({})).await;
    until("the tools are listed again", || house.status().tools.len() == 3).await;
    double.say("data: rubbish").await;
    double.say(r#"data: {"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}"#).await;
    double.notify("notifications/resources/updated", &json!({"uri": "demo://note"})).await;
    assert_eq!(heard(&mut updates).await, NOTE);
    let owner = Owner::from(&*tollgate_testkit::cx("/").caller);
    house.upstreams.unfollow(Unfollowed { name: NOTE, owner: &owner, by_all: true });
    until("it is taken back", || double.asked("resources/unsubscribe").len() == 1).await;
    house.upstreams.stop().await;
}

#[tokio::test]
async fn a_server_without_a_stream_is_left_alone() {
    let (double, house, _serving) = house(true).await;
    until("it was asked once", || !double.asked("GET").is_empty()).await;
    follow(&house).await;
    house.call("mcp__web__tool_0", json!({})).await.unwrap();
    assert_eq!((double.asked("GET").len(), house.status().restarts), (1, 0));
    house.upstreams.stop().await;
}

#[tokio::test]
async fn a_stream_that_breaks_off_goes_on_where_it_was_or_everything_may_have_changed() {
    let (double, house, _serving) = house(false).await;
    let mut updates = updates(&house);
    until("the stream is open", || double.open.lock().unwrap().is_some()).await;
    follow(&house).await;
    // It says from where it goes on.
    double.say("id: e7\nretry: 1\ndata:").await;
    double.cut();
    until("it is opened again", || double.asked("GET").len() == 2).await;
    assert_eq!(double.asked("GET")[1].2.as_deref(), Some("e7"));
    double.notify("notifications/resources/updated", &json!({"uri": "demo://note"})).await;
    assert_eq!(heard(&mut updates).await, NOTE);
    assert_eq!(double.asked("resources/subscribe").len(), 1);

    // The session is gone, and with it all that was asked for in it.
    double.session.fetch_add(1, Ordering::SeqCst);
    double.cut();
    house.call("mcp__web__tool_0", json!({})).await.unwrap();
    until("the new session has a stream", || {
        double.asked("GET").iter().any(|(_, session, last)| session == "s1" && last.is_none())
    })
    .await;
    until("it is asked for in the new session", || {
        double.asked("resources/subscribe").iter().any(|(_, session, _)| session == "s1")
    })
    .await;
    assert_eq!(heard(&mut updates).await, NOTE, "it may have changed");
    house.upstreams.stop().await;
}
