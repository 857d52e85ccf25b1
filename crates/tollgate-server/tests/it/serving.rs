//! Coming up, and going down.

use reqwest::Method;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Duration;
use tollgate::ledger;
use tollgate_server::{Bound, ServeError};

use crate::world::{World, door, read};

#[tokio::test]
async fn what_is_under_way_is_answered_before_the_server_is_gone() {
    let (begin, begun) = tokio::sync::watch::channel(false);
    let door = tollgate_testkit::RecordingDoor::new().on(
        tollgate::ToolDefinition::new("slow", "Waits for a sign."),
        move |_, _| {
            let mut begun = begun.clone();
            Box::pin(async move {
                let _ = begun.wait_for(|begun| *begun).await;
                tollgate::End::Done(tollgate::CallResult::default())
            })
        },
    );
    let door = std::sync::Arc::new(door);
    let world = World::before(&door, Duration::from_secs(20)).await;
    let address = world.address;
    let heard = world.operator(Method::GET, "/api/v1/events").send().await.unwrap();
    let call = world.client(Method::POST, "/api/v1/calls").json(&json!({ "tool": "slow" })).send();
    let stopped = async {
        door.wait_for_calls(1).await;
        world.stop.cancel();
        // The listener is dropped first: from now on nobody new comes in.
        while TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
        begin.send(true).unwrap();
    };
    let (answer, ()) = tokio::join!(call, stopped);
    let (status, outcome) = read(answer.unwrap()).await;
    assert_eq!((status, &outcome["status"]), (200, &json!("done")));
    assert_eq!(heard.text().await.unwrap(), "", "a listener is let go");
    world.ended().await;
}

#[tokio::test]
async fn what_does_not_end_is_cancelled_and_recorded() {
    let door = door();
    let world = World::before(&door, Duration::from_millis(50)).await;
    let call = world.client(Method::POST, "/api/v1/calls").json(&json!({ "tool": "wait" })).send();
    let stopped = async {
        door.wait_for_calls(1).await;
        world.stop.cancel();
    };
    let (answer, ()) = tokio::join!(call, stopped);
    let (status, problem) = crate::world::read(answer.unwrap()).await;
    assert!(status == 503 && problem.to_string().contains("went down while the call ran"), "{problem}");
    world.ended().await;
    assert_eq!(door.cancelled().len(), 1);
}

#[tokio::test]
async fn the_ledger_is_whole_when_the_server_is_gone() {
    let world = World::new().await;
    for number in 0..20 {
        world.call("calculate", &json!({ "expression": format!("{number} + 1") })).await;
    }
    let data_dir = world.house.data_dir().to_owned();
    world.stop.cancel();
    let folder = world.ended().await;
    let report = ledger::verify(&data_dir).unwrap();
    assert!(report.ok, "{}: {report:?}", folder.path().display());
    let finished = ledger::read(&data_dir).filter(|record| record.as_ref().unwrap().status() == Some("done")).count();
    assert_eq!(finished, 20);
}

#[tokio::test]
async fn a_taken_address_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let taken = Bound::bind("127.0.0.1:0".parse().unwrap(), folder.path()).await.unwrap();
    let error = Bound::bind(taken.address(), folder.path()).await.unwrap_err();
    assert!(matches!(error, ServeError::Bind { .. }));
    assert!(error.to_string().contains(&taken.address().to_string()));
}

#[tokio::test]
async fn a_head_without_end_is_not_read_for_ever() {
    let world = World::new().await;
    let mut stream = TcpStream::connect(world.address).await.unwrap();
    let long = "x".repeat(100 * 1024);
    let _ = stream.write_all(format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: {long}").as_bytes()).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(answer.starts_with(b"HTTP/1.1 431"), "{}", String::from_utf8_lossy(&answer));
    let (status, _) = read(world.bare(Method::GET, "/healthz").send().await.unwrap()).await;
    assert_eq!(status, 200);
    world.end().await;
}
