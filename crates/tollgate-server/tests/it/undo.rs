//! A key's holder takes back what it did, and nobody else's doings.

use reqwest::Method;
use serde_json::{Value, json};
use tollgate_server::keys::{self, KeyKind};

use crate::world::{World, read};

#[tokio::test]
async fn a_key_undoes_its_own_calls() {
    let world = World::new().await;
    let clock = world.house.clock();
    let make = async |name| {
        keys::create(world.house.data_dir(), name, KeyKind::Client, Some("teller"), &*clock).await.unwrap()
    };
    let (own, other) = (make("own").await, make("other").await);
    let post = async |key: &keys::NewKey, path: String, body: Value| {
        read(world.bare(Method::POST, &path).bearer_auth(key.secret.expose()).json(&body).send().await.unwrap()).await
    };
    let write = json!({"tool": "write_file", "arguments": {"path": "a.txt", "content": "x"}});
    let (_, mut written) = post(&own, "/api/v1/calls".into(), write.clone()).await;
    if written["status"] == "waiting" {
        let id = written["waiting"]["id"].as_str().unwrap();
        let yes = world.operator(Method::POST, &format!("/api/v1/approvals/{id}/approve")).send().await.unwrap();
        assert_eq!(yes.status(), 200);
        written = post(&own, "/api/v1/calls".into(), write).await.1;
    }
    assert_eq!(written["status"], "done", "{written}");
    let path = format!("/api/v1/attempts/{}/undo", written["attempt"].as_str().unwrap());
    assert_eq!(post(&other, path.clone(), json!({})).await.0, 404, "somebody else's");
    assert_eq!(post(&own, "/api/v1/attempts/nope/undo".into(), json!({})).await.0, 404);
    let mut undone = post(&own, path.clone(), json!({})).await;
    if undone.1["status"] == "waiting" {
        let id = undone.1["waiting"]["id"].as_str().unwrap();
        world.operator(Method::POST, &format!("/api/v1/approvals/{id}/approve")).send().await.unwrap();
        undone = post(&own, path.clone(), json!({})).await;
    }
    assert_eq!((undone.0, &undone.1["status"]), (200, &json!("done")), "{}", undone.1);
    assert!(!world.folder().join("work/a.txt").exists());
    let again = post(&own, path, json!({})).await;
    assert_eq!((again.0, &again.1["error"]["error"]), (200, &json!("conflict")));

    let metrics = world.operator(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
    assert!(metrics.contains("tollgate_forbidden_total 0"), "{metrics}");
    let hidden = world.client(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
    assert!(!hidden.contains("tollgate_forbidden_total"), "a client learns nothing of it");
    world.end().await;
}
