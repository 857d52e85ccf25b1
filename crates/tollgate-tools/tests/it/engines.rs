//! `search_web` against servers that answer as the engines do.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::Response;
use serde_json::{Value, json};
use tollgate_tools::{BaseOptions, SearchConfig, SearchKind};
use tollgate_types::{Code, Secret};

use crate::support::House;

/// What was asked: the path with its query, and the key.
type Asked = Arc<Mutex<Vec<(String, String)>>>;

/// An engine that answers `status` and `body`, behind the path `/at`.
async fn engine(kind: SearchKind, key: Option<&str>, status: u16, body: impl Into<String>) -> (House, Asked) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/at/", listener.local_addr().unwrap());
    let asked = Asked::default();
    let (seen, body) = (Arc::clone(&asked), body.into());
    let app = Router::new().fallback(move |request: Request| {
        let (seen, body) = (Arc::clone(&seen), body.clone());
        async move {
            let header = |name: &str| request.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
            let key = header("authorization").or_else(|| header("x-subscription-token")).unwrap_or_default();
            seen.lock().unwrap().push((request.uri().to_string(), key));
            Response::builder().status(status).body(Body::from(body)).unwrap()
        }
    });
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move { axum::serve(listener, app).await });
    tasks.detach_all();
    let search = SearchConfig::new(kind, &base, key.map(Secret::new)).unwrap();
    (House::with(BaseOptions { search: Some(search), ..BaseOptions::default() }), asked)
}

fn searxng(results: &[Value]) -> String {
    json!({"query": "x", "number_of_results": 0, "results": results, "answers": [], "suggestions": []}).to_string()
}

#[tokio::test]
async fn the_best_results_come_as_a_list() {
    let results: Vec<Value> = (1..=30)
        .map(|n| json!({"url": format!("https://a.example/{n}"), "title": format!("第 {n}\n页"), "content": "a <b>b</b> &amp; c"}))
        .collect();
    let (house, asked) = engine(SearchKind::Searxng, None, 200, searxng(&results)).await;
    let query = json!({"query": " 无线键盘 & co ", "count": 2, "language": "zh-CN", "freshness": "month"});
    let output = house.call("search_web", query).await.unwrap();
    assert_eq!(
        crate::support::text(&output),
        "1. 第 1 页\n   https://a.example/1\n   a b & c\n2. 第 2 页\n   https://a.example/2\n   a b & c"
    );
    assert_eq!(output.structured.unwrap()["results"].as_array().unwrap().len(), 2);
    let (uri, key) = asked.lock().unwrap()[0].clone();
    assert_eq!(key, "");
    assert_eq!(
        uri,
        "/at/search?q=%E6%97%A0%E7%BA%BF%E9%94%AE%E7%9B%98+%26+co&format=json&language=zh-CN&time_range=month"
    );
    let five = house.value("search_web", json!({"query": "x"})).await;
    assert_eq!(five["results"].as_array().unwrap().len(), 5);
}

#[tokio::test]
async fn brave_is_asked_with_its_key() {
    let body = json!({"type": "search", "web": {"type": "search", "results": [
        {"title": "T", "url": "https://b.example/", "description": "d", "page_age": "2026-03-04T05:06:07", "extra": [1]},
        {"title": "no page", "url": "javascript:alert(1)", "description": "d"},
    ]}});
    let (house, asked) = engine(SearchKind::Brave, Some("zq-key"), 200, body.to_string()).await;
    let text = house.text("search_web", json!({"query": "x"})).await;
    assert_eq!(text, "1. T (2026-03-04T05:06:07)\n   https://b.example/\n   d");
    let (uri, key) = asked.lock().unwrap()[0].clone();
    assert_eq!((uri.as_str(), key.as_str()), ("/at/res/v1/web/search?q=x&count=5&text_decorations=false", "zq-key"));
    let (house, asked) = engine(SearchKind::Searxng, Some("zq-key"), 200, searxng(&[])).await;
    assert_eq!(house.text("search_web", json!({"query": "x"})).await, "nothing was found; use fewer or other words");
    assert_eq!(asked.lock().unwrap()[0].1, "Bearer zq-key");
}

#[tokio::test]
async fn what_goes_wrong_is_told_without_the_key() {
    for (kind, status, body, code, retryable) in [
        (SearchKind::Searxng, 403, "", "NOT_CONFIGURED", false),
        (SearchKind::Searxng, 200, "<html>", "BAD_ANSWER", true),
        (SearchKind::Searxng, 404, "", "BAD_ANSWER", true),
        (SearchKind::Searxng, 302, "", "BAD_ANSWER", true),
        (SearchKind::Brave, 401, "zq-key is wrong", "KEY_REFUSED", true),
        (SearchKind::Brave, 422, "", "BAD_QUERY", true),
        (SearchKind::Brave, 429, "", "RATE_LIMITED", true),
        (SearchKind::Brave, 500, "", "SERVER_ERROR", true),
    ] {
        let (house, _) = engine(kind, Some("zq-key"), status, body).await;
        let error = house.call("search_web", json!({"query": "x"})).await.unwrap_err();
        let is_upstream = error.code == Code::UpstreamError;
        assert_eq!((error.tool_code.as_deref(), is_upstream), (Some(code), retryable), "{kind:?} {status}: {error:?}");
        assert!(error.hint.is_some() && !format!("{error:?}").contains("zq-key"), "{error:?}");
    }
    let (house, _) = engine(SearchKind::Searxng, None, 200, "x".repeat(3 << 20)).await;
    assert_eq!(house.code("search_web", json!({"query": "x"})).await, "BAD_ANSWER");
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let search = SearchConfig::new(SearchKind::Searxng, &format!("http://{closed}"), None).unwrap();
    let house = House::with(BaseOptions { search: Some(search), ..BaseOptions::default() });
    assert_eq!(house.code("search_web", json!({"query": "x"})).await, "UNREACHABLE");
    for arguments in [
        json!({"query": " "}),
        json!({"query": "x", "count": 21}),
        json!({"query": "x", "language": "Chinese"}),
        json!({"query": "x", "freshness": "hour"}),
    ] {
        let error = house.call("search_web", arguments.clone()).await.unwrap_err();
        assert_eq!(error.code, Code::InvalidArguments, "{arguments}");
    }
}
