//! Servers that make tasks of calls.

use tollgate_types::{ClientCapability, Code, Cx, Progress};

use super::asking::{Client, cx};
use super::*;

async fn call(house: &House, cx: Cx, task: &str) -> Result<ToolOutput, ToolError> {
    let tool = find(&house.upstreams, "mcp__x__echo");
    tokio::time::timeout(NEVER, tool.call(json!({ "task": task }), cx)).await.unwrap()
}

#[tokio::test]
async fn a_task_is_followed_to_its_end() {
    let (house, client) = (House::with(&["modern"]).await, Arc::new(Client::default()));
    let steps = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&steps);
    let progress = Progress::to(move |step| heard.lock().unwrap().extend(step.message));
    let output = call(&house, Cx { progress, ..cx(&house, &client) }, "ends").await.unwrap();
    assert_eq!((text(&output), steps.lock().unwrap().as_slice()), ("null", &["half".to_owned()][..]));
    let raw = output.raw.unwrap();
    assert!(raw.get().contains("1000000000000000000000000000000"), "as it came: {}", raw.get());
    let declared = &house.log().pop().unwrap()["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(declared["extensions"], json!({ "io.modelcontextprotocol/tasks": {} }));
    assert_eq!(house.methods().iter().filter(|method| *method == "tasks/cancel").count(), 0);
}

#[tokio::test]
async fn what_a_task_asks_is_asked_of_the_client_once() {
    let (house, client) = (House::with(&["modern"]).await, Arc::new(Client::default()));
    let output = call(&house, cx(&house, &client), "asks").await.unwrap();
    let told: Value = serde_json::from_str(text(&output)).unwrap();
    assert_eq!(told["q1"]["action"], "accept");
    assert_eq!(client.asked.lock().unwrap().len(), 1, "it was shown twice");
    assert_eq!(house.methods().iter().filter(|method| *method == "tasks/update").count(), 1);
    // Who cannot be asked gives the task up.
    let error = call(&house, Cx { peer: None, ..cx(&house, &client) }, "asks").await.unwrap_err();
    assert!(error.client_lacks.is_some(), "{error:?}");
    assert_eq!(house.methods().pop().unwrap(), "tasks/cancel");
}

#[tokio::test]
async fn a_task_that_does_not_complete_is_a_failure_that_says_how() {
    let (house, client) = (House::with(&["modern"]).await, Arc::new(Client::default()));
    for (task, said) in [
        ("fails", "the job broke"),
        ("is cancelled", "cancelled the task"),
        ("is odd", "`resting`"),
        ("is forgotten", "does not say how the task does"),
    ] {
        let error = call(&house, cx(&house, &client), task).await.unwrap_err();
        assert!(error.code == Code::UpstreamError && error.message.contains(said), "{task}: {error:?}");
    }
    let error = call(&house, cx(&house, &client), "lacks").await.unwrap_err();
    assert_eq!(error.client_lacks, Some(ClientCapability::Sampling), "it is told as what it is: {error:?}");
}

#[tokio::test]
async fn a_task_that_nobody_waits_for_any_more_is_cancelled() {
    let (house, client) = (House::with(&["modern"]).await, Arc::new(Client::default()));
    let cx = cx(&house, &client);
    let stop = cx.cancellation.clone();
    let calling = call(&house, cx, "goes on");
    let stopping = async {
        until("the task is asked about", || house.methods().iter().any(|method| method == "tasks/get")).await;
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(calling, stopping);
    assert_eq!(ended.unwrap_err().code, Code::Cancelled);
    let last = house.log().into_iter().rfind(|message| message["method"] == "tasks/cancel").unwrap();
    assert_eq!(last["params"]["taskId"], "t1");
}

#[tokio::test]
async fn a_server_of_old_that_wants_tasks_gets_them() {
    let (house, client) = (House::with(&["old-tasks"]).await, Arc::new(Client::default()));
    let output = call(&house, cx(&house, &client), "ends").await.unwrap();
    assert_eq!(text(&output), "of old");
    let methods = house.methods();
    assert_eq!(methods.iter().rev().take(2).collect::<Vec<_>>(), ["tasks/result", "tools/call"]);
}
