//! An agent in a few lines, against a model double that checks the protocol.

use std::sync::Arc;

use serde_json::json;
use tollgate::agent::{Agent, Event, ModelClient, ModelConfig, Options, Start};
use tollgate::{Caller, CancellationToken, Surface, Tollgate};
use tollgate_testkit::model::{ModelServer, Step};

#[tokio::test]
async fn a_model_works_with_the_tools() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let server = ModelServer::start(vec![
        Step::calls([
            ("call_1", "calculate", json!({"expression": "34817 * 293"})),
            ("call_2", "list_files", json!({})),
            ("call_3", "calculate", json!({"expr": "1"})),
        ]),
        Step::text("34817 × 293 = 10201381。"),
    ])
    .await;

    let house = Tollgate::builder().workspace(folder.path()).data_dir(folder.path().join("data")).build().await?;
    let model = ModelClient::new(ModelConfig::new(server.base_url(), "scripted"))?;
    let caller = Caller::new("alice", "developer", Surface::Agent);
    let mut agent = Agent::new(house.door(), caller, Arc::new(model), Options::default());
    let answer = agent.ask("34817 × 293 = ?", &CancellationToken::new(), &mut |_| {}).await?;
    assert_eq!(answer.text, "34817 × 293 = 10201381。");

    server.assert_clean();
    let second = &server.requests()[1];
    let results: Vec<(&str, &str)> = second["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| (message["tool_call_id"].as_str().unwrap(), message["content"].as_str().unwrap()))
        .collect();
    assert_eq!(results[0], ("call_1", "10201381"));
    assert_eq!(results[1].0, "call_2");
    assert!(results[2].0 == "call_3" && results[2].1.contains("invalid_arguments"));
    Ok(())
}

#[tokio::test]
async fn a_session_is_taken_up_after_a_run_that_was_stopped() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let write = |id: &str| Step::calls([(id, "write_file", json!({"path": "a.txt", "content": "一次"}))]);
    let server = ModelServer::start(vec![write("c1"), Step::hang(), Step::text("好的"), Step::text("再见")]).await;
    let house = Tollgate::builder().workspace(folder.path()).data_dir(folder.path().join("data")).build().await?;
    let caller = Caller::new("alice", "developer", Surface::Agent);
    let start = Start { name: None, caller: caller.clone(), model: "m".into(), system: Some("be brief".into()) };
    let session = house.sessions().begin(start).await?;
    let id = session.meta().id.clone();
    let agent = |session| -> Result<Agent, Box<dyn std::error::Error>> {
        let model = ModelClient::new(ModelConfig::new(server.base_url(), "scripted"))?;
        Ok(Agent::new(house.door(), caller.clone(), Arc::new(model), Options::default()).with_session(session))
    };
    let mut first = agent(session)?;
    let cancellation = CancellationToken::new();
    let stop = async {
        server.wait_for_requests(2).await;
        cancellation.cancel();
    };
    let mut ignore = |_: &Event| {};
    let (stopped, ()) = tokio::join!(first.ask("write it", &cancellation, &mut ignore), stop);
    assert!(stopped.is_err());
    let answer = first.ask("and now?", &CancellationToken::new(), &mut |_| {}).await?;
    assert_eq!(answer.text, "好的");
    assert!(house.sessions().resume(&id).await.is_err(), "one at a time, within a process too");
    drop(first);

    let mut second = agent(house.sessions().resume(&id).await?)?;
    second.ask("bye", &CancellationToken::new(), &mut |_| {}).await?;
    server.assert_clean();
    let asked = server.requests();
    let roles = |at: usize| -> Vec<String> {
        let messages = asked[at]["messages"].as_array().unwrap();
        messages.iter().map(|message| message["role"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(roles(2), ["system", "user", "assistant", "tool", "user"]);
    assert_eq!(roles(3).len(), 7);
    assert_eq!(std::fs::read_to_string(folder.path().join("a.txt"))?, "一次");
    Ok(())
}
