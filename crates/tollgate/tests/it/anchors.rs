//! Checkpoints that are kept elsewhere: each place takes them, and one that does not costs no call.

use std::path::Path;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};
use tollgate::config::Loaded;
use tollgate::ledger::{Trust, verify_with};
use tollgate::{Call, Caller, Surface, Tollgate};

async fn house(folder: &Path, anchor: &str) -> Tollgate {
    let path = folder.join("tollgate.toml");
    std::fs::write(&path, format!("[audit]\ncheckpoint_idle = \"1h\"\n[audit.anchor]\nevery = \"1ms\"\n{anchor}"))
        .unwrap();
    Tollgate::builder().config(Loaded::read(&path, folder).unwrap()).build().await.unwrap()
}

async fn call(house: &Tollgate) {
    let caller = Caller::new("alice", "developer", Surface::Library);
    let outcome = house.call(&caller, Call::tool("calculate", json!({ "expression": "1 + 1" }))).await;
    assert_eq!(outcome.model_text(), "2");
}

/// One request: its head and its body.
async fn take(listener: &TcpListener, status: &str) -> (String, String) {
    let mut stream = listener.accept().await.unwrap().0;
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.to_lowercase().split("content-length: ").nth(1).unwrap().lines().next().unwrap().parse();
            if body.len() >= length.unwrap() {
                let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                stream.write_all(answer.as_bytes()).await.unwrap();
                return (head.to_owned(), body.to_owned());
            }
        }
        assert_ne!(stream.read_buf(&mut bytes).await.unwrap(), 0, "{text}");
    }
}

#[tokio::test]
async fn each_place_takes_what_was_signed() {
    let folder = tempfile::tempdir().unwrap();
    let http = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let syslog = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let anchor = format!(
        "file = \"kept.jsonl\"\nsyslog = \"udp://{}\"\nhttp = \"http://{}/kept\"\nheaders = {{ X-Team = \"ops\" }}\n",
        syslog.local_addr().unwrap(),
        http.local_addr().unwrap()
    );
    let house = house(folder.path(), &anchor).await;
    call(&house).await;
    let watch = house.anchors();
    let (posted, ()) = tokio::join!(take(&http, "204 No Content"), house.stop());
    assert!(posted.0.starts_with("POST /kept HTTP/1.1"), "{}", posted.0);
    assert!(posted.0.to_lowercase().contains("x-team: ops"), "{}", posted.0);
    let mut buffer = [0; 4096];
    let length = syslog.recv(&mut buffer).await.unwrap();
    let logged = String::from_utf8_lossy(&buffer[..length]).into_owned();
    assert!(logged.starts_with("<109>1 "), "{logged}");
    let kept = std::fs::read_to_string(folder.path().join("kept.jsonl")).unwrap();
    assert!(
        watch.statuses().iter().all(|status| status.kept == 1 && status.failing.is_none()),
        "{:?}",
        watch.statuses()
    );
    drop(house);
    for text in [posted.1, logged, kept] {
        let trust = Trust { key: None, anchor: Some(text) };
        let report = verify_with(&folder.path().join(".tollgate"), &trust).unwrap();
        assert!(report.ok && report.checkpoints.as_ref().unwrap().anchored == Some(1), "{report:?}");
    }
}

#[tokio::test]
async fn a_place_that_fails_costs_no_call_and_is_asked_again() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let house = house(folder.path(), &format!("http = \"http://{}/\"\n", listener.local_addr().unwrap())).await;
    call(&house).await;
    house.ledger().checkpoint_now().await.unwrap();
    let (_, first) = take(&listener, "503 Service Unavailable").await;
    call(&house).await;
    house.ledger().checkpoint_now().await.unwrap();
    let (_, second) = take(&listener, "200 OK").await;
    let size = |body: &str| {
        let note = serde_json::from_str::<Value>(body).unwrap()["note"].as_str().unwrap().to_owned();
        note.lines().nth(1).unwrap().parse::<u64>().unwrap()
    };
    assert_eq!((size(&first), size(&second)), (4, 8), "the latest stands for those that were missed");
    house.stop().await;
    let statuses = house.anchors().statuses();
    assert_eq!((statuses[0].kept, &statuses[0].failing), (1, &None));
}
