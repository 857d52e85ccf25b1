//! The client against servers that behave and servers that do not.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Redirect;
use axum::routing::{get, post};
use futures_util::{StreamExt, stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tollgate_guard::client::{Client, ClientError, Origin, Request};
use tollgate_types::Secret;

const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(100);

/// A server of this test, stopped with it.
struct Server {
    url: String,
    requests: Arc<AtomicUsize>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn routes(requests: Arc<AtomicUsize>) -> Router {
    let chunks = |tail: Option<Duration>| {
        let chunks = stream::iter(["one ", "two"]).map(|chunk| Ok::<_, Infallible>(Bytes::from(chunk)));
        let silence = stream::once(async move {
            if let Some(silence) = tail {
                tokio::time::sleep(silence).await;
            }
            Ok(Bytes::new())
        });
        Body::from_stream(chunks.chain(silence))
    };
    Router::new()
        .route("/chunks", get(move || async move { chunks(None) }))
        .route("/hangs-between-chunks", get(move || async move { chunks(Some(LONG)) }))
        .route("/hangs", get(|| tokio::time::sleep(LONG)))
        .route("/elsewhere", get(|| async { Redirect::temporary("/chunks") }))
        .route("/large", get(|| async { vec![b'x'; 100_000] }))
        .route(
            "/echo",
            post(|headers: HeaderMap, body: Bytes| async move {
                let key = headers.get("x-api-key").cloned().unwrap();
                (StatusCode::ACCEPTED, [("x-seen", key)], body)
            }),
        )
        .layer(axum::middleware::from_fn_with_state(
            requests,
            |State(requests): State<Arc<AtomicUsize>>,
             request: axum::extract::Request,
             next: axum::middleware::Next| async move {
                requests.fetch_add(1, Ordering::SeqCst);
                next.run(request).await
            },
        ))
}

#[expect(clippy::disallowed_methods, reason = "the server is stopped when the test drops it")]
async fn serve() -> Server {
    let requests = Arc::new(AtomicUsize::new(0));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let app = routes(Arc::clone(&requests));
    let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    Server { url, requests, task }
}

/// A server that answers each connection with these bytes and closes it.
#[expect(clippy::disallowed_methods, reason = "the server is stopped when the test drops it")]
async fn serve_raw(answer: &'static str) -> Server {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let task = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = [0; 4096];
            let _ = stream.read(&mut head).await;
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    Server { url, requests: Arc::default(), task }
}

fn client(server: &Server) -> Client {
    Client::new([Origin::of(&server.url).unwrap()])
}

fn get_from(url: impl Into<String>) -> Request {
    Request {
        method: "GET".into(),
        url: url.into(),
        headers: vec![],
        secret_headers: vec![],
        body: None,
        timeout: LONG,
    }
}

#[tokio::test]
async fn a_request_goes_to_an_origin_that_is_configured() {
    let server = serve().await;
    let request = Request {
        method: "POST".into(),
        headers: vec![("content-type".into(), "text/plain".into())],
        secret_headers: vec![("X-Api-Key".into(), Secret::new("zq-secret"))],
        body: Some(b"hello".to_vec()),
        ..get_from(format!("{}/echo", server.url))
    };
    assert!(!format!("{request:?}").contains("zq-secret"));
    let response = client(&server).send(request).await.unwrap();
    assert_eq!((response.status, response.header("X-Seen")), (202, Some("zq-secret")));
    assert_eq!(response.bytes(5, LONG).await.unwrap(), b"hello");

    let mut response = client(&server).send(get_from(format!("{}/chunks", server.url))).await.unwrap();
    let mut chunks = Vec::new();
    while let Some(chunk) = response.next_chunk(LONG).await.unwrap() {
        chunks.push(chunk);
    }
    assert_eq!(chunks.concat(), b"one two");
}

#[tokio::test]
async fn no_other_origin_is_contacted() {
    let (server, other) = (serve().await, serve().await);
    let client = client(&server);
    let elsewhere = [
        other.url.clone(),
        server.url.replace("http:", "https:"),
        server.url.replace("127.0.0.1", "localhost"),
        "http://169.254.169.254/latest/meta-data?token=zq".into(),
    ];
    for url in elsewhere {
        let error = client.send(get_from(url.clone())).await.unwrap_err();
        assert!(matches!(&error, ClientError::NotAllowed { origin } if url.starts_with(origin)), "{error}");
        assert!(!error.to_string().contains("zq"));
    }
    assert_eq!(other.requests.load(Ordering::SeqCst), 0);

    let response = client.send(get_from(format!("{}/elsewhere", server.url))).await.unwrap();
    assert_eq!((response.status, response.header("location")), (307, Some("/chunks")));
    assert_eq!(server.requests.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_bad_request_is_refused_without_its_secrets() {
    let client = Client::new([Origin::of("http://127.0.0.1:1").unwrap()]);
    let urls = [
        ("127.0.0.1/zq?zq", "it does not begin with"),
        ("ftp://127.0.0.1:1/?zq", "it does not begin with"),
        ("http://user:zq@127.0.0.1:1/", "it carries a user name"),
        ("http://zq@127.0.0.1:1/", "it carries a user name"),
        ("http://user:z?zq@127.0.0.1:1/", "invalid port number"),
        ("http://127.0.0.1:99999/?zq", "invalid port number"),
        ("http://127.0.0.1:1\\@evil.test/?zq", "white space, control"),
        ("http://127.0.0.1:1/?\r\nzq: zq", "white space, control"),
        ("http://", "empty host"),
        ("", "it does not begin with"),
    ];
    for (url, reason) in urls {
        let error = client.send(get_from(url)).await.unwrap_err();
        let ClientError::BadUrl { reason: said, .. } = &error else { panic!("{url}: {error:?}") };
        assert!(said.starts_with(reason), "{url}: {said}");
        assert!(!error.to_string().replace("127.0.0.1/zq", "").contains("zq"), "{error}");
    }
    let request = || get_from("http://127.0.0.1:1/");
    let secret = |name: &str, value: &str| vec![(name.to_owned(), Secret::new(value))];
    let bad = [
        Request { method: "GE T".into(), ..request() },
        Request { headers: vec![("a b".into(), "zq".into())], ..request() },
        Request { secret_headers: secret("authorization", "Bearer zq\r\nx: y"), ..request() },
    ];
    for request in bad {
        let error = client.send(request).await.unwrap_err();
        assert!(matches!(error, ClientError::BadRequest { .. }), "{error:?}");
        assert!(!format!("{error} {error:?}").contains("zq"), "{error}");
    }
    let refused = Request { secret_headers: secret("authorization", "zq"), ..get_from("http://127.0.0.1:1/?zq") };
    let error = client.send(refused).await.unwrap_err();
    assert!(matches!(error, ClientError::Connect { .. }), "{error:?}");
    assert!(!format!("{error} {error:?}").contains("zq"), "{error}");
}

#[tokio::test]
async fn a_body_has_a_limit() {
    let server = serve().await;
    let client = client(&server);
    let large = || client.send(get_from(format!("{}/large", server.url)));
    assert_eq!(large().await.unwrap().bytes(100_000, LONG).await.unwrap().len(), 100_000);
    let too_large = Err(ClientError::TooLarge { limit_bytes: 99_999 });
    assert_eq!(large().await.unwrap().bytes(99_999, LONG).await, too_large);
    let unannounced = client.send(get_from(format!("{}/chunks", server.url))).await.unwrap();
    assert_eq!(unannounced.bytes(6, LONG).await, Err(ClientError::TooLarge { limit_bytes: 6 }));
}

#[tokio::test]
async fn silence_ends() {
    let server = serve().await;
    let client = client(&server);
    let silent = ClientError::TimedOut { origin: server.url.clone(), ms: 100 };
    let before_the_head = Request { timeout: SHORT, ..get_from(format!("{}/hangs", server.url)) };
    assert_eq!(client.send(before_the_head).await.unwrap_err(), silent);

    let mut response = client.send(get_from(format!("{}/hangs-between-chunks", server.url))).await.unwrap();
    let mut body = Vec::new();
    let error = loop {
        match response.next_chunk(SHORT).await {
            Ok(chunk) => body.extend(chunk.unwrap()),
            Err(error) => break error,
        }
    };
    assert_eq!((body.as_slice(), error), (&b"one two"[..], silent));
}

#[tokio::test]
async fn a_broken_connection_is_an_error() {
    let cases = [
        ("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nonly this", true),
        ("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n", true),
        ("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 4\r\n\r\nnope", true),
        ("HTTP/1.1 20", false),
        ("rubbish\r\n\r\n", false),
        ("", false),
    ];
    for (answer, has_head) in cases {
        let server = serve_raw(answer).await;
        let sent = client(&server).send(get_from(format!("{}/?zq", server.url))).await;
        assert_eq!(sent.is_ok(), has_head, "{answer}");
        let error = match sent {
            Ok(response) => response.bytes(1000, LONG).await.unwrap_err(),
            Err(error) => error,
        };
        assert!(matches!(error, ClientError::Closed { .. }), "{answer}: {error:?}");
        assert!(!error.to_string().contains("zq"), "{error}");
    }
}

#[test]
fn the_proxy_of_the_environment_is_not_asked() {
    const NAME: &str = "client::the_proxy_of_the_environment_is_not_asked";
    if std::env::var_os("HTTP_PROXY").is_none() {
        // The environment of a process cannot be changed safely, so the test runs itself again in another one.
        #[expect(clippy::disallowed_methods, reason = "the test's own binary, not a tool's program")]
        let again = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME])
            .env("HTTP_PROXY", "http://127.0.0.1:1")
            .env("http_proxy", "http://127.0.0.1:1")
            .env("ALL_PROXY", "http://127.0.0.1:1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&again.stdout);
        assert!(again.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = serve().await;
        let response = client(&server).send(get_from(format!("{}/chunks", server.url))).await.unwrap();
        assert_eq!(response.status, 200);
    });
}

#[test]
fn origins_are_compared_in_normal_form() {
    let of = |url: &str| Origin::of(url).unwrap().to_string();
    assert_eq!(of("HTTPS://API.Example.com:443/v1?x"), "https://api.example.com");
    assert_eq!(of("http://[::1]:8000/"), "http://[::1]:8000");
    assert_eq!(of("http://127.1"), "http://127.0.0.1");
}
