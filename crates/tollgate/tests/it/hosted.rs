//! Tools that the provider of a model runs itself: offered where policy allows it, and on record whenever they ran.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use serde_json::value::to_raw_value;
use serde_json::{Value, json};
use tollgate::agent::{Agent, Event, Hosted, Model, ModelError, ModelRequest, Options, RunError};
use tollgate::wire::{HostedCall, Turn};
use tollgate::{BoxFuture, Caller, CancellationToken, Permission, Risk, Role, Surface, Tollgate};

/// A provider that searches in every turn, whether it may or not.
struct Searching {
    hosted: Vec<Hosted>,
    offered: Mutex<Vec<String>>,
}

impl Searching {
    fn new() -> Arc<Self> {
        let wire = |kind: &str| to_raw_value(&json!({ "type": kind })).unwrap();
        let hosted = vec![
            Hosted::new("web_search", Risk::Read, Permission::Network, wire("web_search")),
            Hosted::new("code_interpreter", Risk::Dangerous, Permission::Execute, wire("code_interpreter")),
        ];
        Arc::new(Self { hosted, offered: Mutex::default() })
    }
}

impl Model for Searching {
    fn name(&self) -> &str {
        "searching"
    }

    fn hosted(&self) -> &[Hosted] {
        &self.hosted
    }

    fn turn<'a>(
        &'a self,
        request: ModelRequest<'a>,
        _: &'a mut (dyn FnMut(&str) + Send),
    ) -> BoxFuture<'a, Result<Turn, ModelError>> {
        self.offered.lock().unwrap().extend(request.hosted.iter().map(|tool| tool.get().to_owned()));
        let call = |name: &str, is_error| HostedCall {
            id: format!("ws_{name}"),
            name: name.to_owned(),
            arguments: json!({"query": "北京天气", "token": "Bearer sk-live-4711-4711-4711"}).to_string(),
            result: Some("晴".to_owned()),
            is_error,
        };
        let hosted = vec![call("web_search", false), call("shell", true)];
        Box::pin(async { Ok(Turn { text: "晴".to_owned(), hosted, ..Turn::default() }) })
    }
}

async fn house(folder: &std::path::Path) -> Tollgate {
    let searcher = Role::new("searcher").allow("hosted__web_*").permission(Permission::Network);
    let builder = Tollgate::builder().workspace(folder).data_dir(folder.join("data"));
    builder.role(searcher).role(Role::new("closed").allow("read_file")).build().await.unwrap()
}

async fn ask(house: &Tollgate, model: Arc<Searching>, role: &str) -> (Result<String, RunError>, Vec<Value>) {
    let caller = Caller::new("alice", role, Surface::Agent);
    let mut agent = Agent::new(house.door(), caller, model, Options::default());
    let mut seen = Vec::new();
    let answer = agent
        .ask("天气？", &CancellationToken::new(), &mut |event| {
            if matches!(event, Event::Observed { .. }) {
                seen.push(serde_json::to_value(event).unwrap());
            }
        })
        .await;
    (answer.map(|answer| answer.text), seen)
}

fn records(folder: &std::path::Path) -> Vec<Value> {
    let files = std::fs::read_dir(folder.join("data/audit")).unwrap().map(|entry| entry.unwrap().path());
    let segments: BTreeSet<_> = files.filter(|path| path.extension().is_some_and(|ext| ext == "jsonl")).collect();
    let lines = segments.iter().flat_map(|path| {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>()
    });
    lines.filter(|record| record["event"] == "observed").collect()
}

#[tokio::test]
async fn what_a_provider_runs_is_offered_by_policy_and_on_record() {
    let folder = tempfile::tempdir().unwrap();
    let house = house(folder.path()).await;
    for (role, offered) in [("searcher", vec![r#"{"type":"web_search"}"#]), ("closed", vec![])] {
        let model = Searching::new();
        let (answer, seen) = ask(&house, Arc::clone(&model), role).await;
        assert_eq!(answer.unwrap(), "晴");
        assert_eq!(*model.offered.lock().unwrap(), offered, "{role}");
        assert_eq!(seen.len(), 2);
        assert_eq!(seen[0]["is_offered"], !offered.is_empty(), "{role}");
        assert_eq!(seen[1]["is_offered"], false, "{role}: nobody offered it, and it ran all the same");
    }
    let records = records(folder.path());
    let told: Vec<_> = records
        .iter()
        .map(|record| {
            let text = |pointer: &str| record.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            (text("/tool/name"), text("/tool/source"), text("/decision/effect"), text("/outcome/status"))
        })
        .collect();
    let searched = ("hosted__web_search", "provider");
    let ran = ("hosted__shell", "provider");
    assert_eq!(
        told,
        [
            (searched.0, searched.1, "allow", "done"),
            (ran.0, ran.1, "deny", "failed"),
            (searched.0, searched.1, "deny", "done"),
            (ran.0, ran.1, "deny", "failed"),
        ]
    );
    for record in &records {
        let note = record["note"].as_str().unwrap();
        assert!(note.contains("北京天气") && note.contains("`searching`"), "{note}");
        assert!(!record.to_string().contains("4711-4711"), "{record}");
        assert!(record.get("arguments").is_none() && record.get("result").is_none(), "{record}");
    }
}

#[tokio::test]
async fn a_hosted_tool_is_never_the_doors_to_run() {
    let folder = tempfile::tempdir().unwrap();
    let house = house(folder.path()).await;
    let caller = Caller::new("alice", "searcher", Surface::Agent);
    assert!(house.door().list(&caller).await.iter().all(|tool| !tool.name.starts_with(Hosted::PREFIX)));
    let outcome = house.call(&caller, tollgate::Call::tool("hosted__web_search", json!({}))).await;
    assert_eq!(outcome.code().unwrap().as_str(), "unknown_tool");
}
