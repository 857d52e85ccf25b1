//! Who may come in.

use reqwest::Method;
use reqwest::header::{HOST, ORIGIN};
use serde_json::json;
use tollgate::Clock as _;
use tollgate_server::keys::{self, KeyKind};
use tollgate_server::{Bound, ServeError};

use crate::world::{World, read};

#[tokio::test]
async fn nobody_comes_in_without_a_key_that_counts() {
    let world = World::new().await;
    for path in ["/api/v1/tools", "/api/v1/approvals", "/api/v1/audit", "/api/v1/events", "/metrics"] {
        for key in [None, Some("tollgate_client_0000"), Some("")] {
            let mut request = world.bare(Method::GET, path);
            if let Some(key) = key {
                request = request.bearer_auth(key);
            }
            let response = request.send().await.unwrap();
            assert_eq!(response.status(), 401, "{path} {key:?}");
            assert_eq!(response.headers()["www-authenticate"], "Bearer realm=\"tollgate\"");
        }
    }
    let (status, _) = read(world.bare(Method::POST, "/mcp").json(&json!({})).send().await.unwrap()).await;
    assert_eq!(status, 401);
    for path in ["/healthz", "/readyz", "/openapi.json"] {
        let response = world.bare(Method::GET, path).send().await.unwrap();
        assert_eq!(response.status(), 200, "{path}");
    }
    world.end().await;
}

#[tokio::test]
async fn a_client_does_not_approve_and_an_operator_does_not_call() {
    let world = World::new().await;
    let cases = [
        (world.client(Method::POST, "/api/v1/approvals/x/approve"), 403),
        (world.client(Method::POST, "/api/v1/approvals/x/reject"), 403),
        (world.client(Method::GET, "/api/v1/audit"), 403),
        (world.client(Method::GET, "/api/v1/events"), 403),
        (world.operator(Method::GET, "/api/v1/tools"), 403),
        (world.operator(Method::POST, "/api/v1/calls").json(&json!({ "tool": "calculate" })), 403),
        (world.operator(Method::POST, "/mcp").json(&json!({})), 403),
        (world.operator(Method::GET, "/api/v1/audit"), 200),
        (world.operator(Method::GET, "/metrics"), 200),
        (world.client(Method::GET, "/metrics"), 200),
    ];
    for (request, expected) in cases {
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), expected, "{}", response.url());
    }
    world.end().await;
}

#[tokio::test]
async fn a_page_of_another_site_reaches_nothing() {
    let world = World::new().await;
    let port = world.address.port();
    let hosts = [
        ("localhost", 200),
        ("LOCALHOST:99", 200),
        ("127.0.0.1", 200),
        ("127.8.8.8:80", 200),
        ("[::1]:7373", 200),
        ("evil.example.com", 403),
        ("localhost.evil.example.com", 403),
        ("127.0.0.1.evil.example.com", 403),
        ("192.168.1.1", 403),
        ("user@localhost", 403),
        ("", 403),
    ];
    for (host, expected) in hosts {
        let response = world.bare(Method::GET, "/healthz").header(HOST, host).send().await.unwrap();
        assert_eq!(response.status(), expected, "{host}");
    }
    let own = format!("http://127.0.0.1:{port}");
    let origins = [
        (own.as_str(), 200),
        ("http://localhost:3000", 200),
        ("https://[::1]", 200),
        ("http://evil.example.com", 403),
        ("http://localhost@evil.example.com", 403),
        ("file://localhost", 403),
        ("null", 403),
    ];
    for (origin, expected) in origins {
        let response = world.bare(Method::GET, "/healthz").header(ORIGIN, origin).send().await.unwrap();
        assert_eq!(response.status(), expected, "{origin}");
    }
    world.end().await;
}

#[tokio::test]
async fn keys_are_made_once_hidden_and_revoked() {
    let world = World::new().await;
    let data_dir = world.house.data_dir();
    let clock = world.house.clock();
    assert!(keys::first(data_dir, None, &*clock).await.unwrap().is_none());
    for (file, key) in
        [(&world.keys.client_file, &world.keys.client), (&world.keys.operator_file, &world.keys.operator)]
    {
        let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(file).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(std::fs::read_to_string(file).unwrap().trim(), key.secret.expose());
    }
    let kept = std::fs::read(data_dir.join("store.db")).unwrap();
    let secret = world.keys.client.secret.expose().as_bytes();
    assert!(!kept.windows(secret.len()).any(|window| window == secret));
    assert!(!format!("{:?}", world.keys).contains(world.keys.client.secret.expose()));

    let made = keys::create(data_dir, "ci", KeyKind::Client, Some("teller"), &*clock).await.unwrap();
    let asked = || world.bare(Method::GET, "/api/v1/tools").bearer_auth(made.secret.expose()).send();
    let (status, tools) = read(asked().await.unwrap()).await;
    assert_eq!(status, 200, "a key works at once");
    assert!(tools.to_string().contains("\"say\""), "its role is the one it was made for");
    let (_, tools) = world.get("/api/v1/tools").await;
    assert!(!tools.to_string().contains("\"say\""), "a first key is a reader's");
    for name in ["ci", "client", "", "a b", "é", &"x".repeat(65)] {
        assert!(keys::create(data_dir, name, KeyKind::Client, None, &*clock).await.is_err(), "{name:?}");
    }
    keys::revoke(data_dir, "ci", &*clock).await.unwrap();
    let since = clock.monotonic();
    while asked().await.unwrap().status() != 401 {
        assert!(clock.monotonic() - since < std::time::Duration::from_secs(5), "it still counts");
    }
    let names: Vec<_> =
        keys::list(data_dir).await.unwrap().into_iter().map(|key| (key.name, key.revoked.is_some())).collect();
    assert_eq!(names, [("client".into(), false), ("operator".into(), false), ("ci".to_owned(), true)]);
    world.end().await;
}

#[tokio::test]
async fn other_machines_are_let_in_only_where_there_are_keys() {
    let folder = tempfile::tempdir().unwrap();
    let address = "0.0.0.0:0".parse().unwrap();
    assert!(matches!(Bound::bind(address, folder.path()).await, Err(ServeError::Exposed(_))));
    assert!(!folder.path().join("store.db").exists(), "a refusal leaves nothing behind");
    let clock = tollgate::SystemClock::new();
    keys::create(folder.path(), "ops", KeyKind::Operator, None, &clock).await.unwrap();
    assert!(Bound::bind(address, folder.path()).await.is_ok());
    keys::revoke(folder.path(), "ops", &clock).await.unwrap();
    assert!(matches!(Bound::bind(address, folder.path()).await, Err(ServeError::Exposed(_))));
    assert!(clock.now().as_second() > 0);
}
