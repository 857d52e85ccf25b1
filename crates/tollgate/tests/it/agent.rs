//! An agent in a few lines, against a model double that checks the protocol.

use std::sync::Arc;

use serde_json::json;
use tollgate::agent::{Agent, ChatModel, ModelConfig, Options};
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
    let model = ChatModel::new(ModelConfig::new(server.base_url(), "scripted"))?;
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
