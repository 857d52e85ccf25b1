//! Two endpoints with the same keys: what a call leaves at one, the other goes on from, or refuses.

use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tollgate_mcp::http::{Endpoint, Reply};
use tollgate_mcp::{ServerInfo, StateKeys};
use tollgate_testkit::{RecordingDoor, TestClock};
use tollgate_types::{
    APPROVAL_QUESTION, Call, CallResult, Caller, ClientCapability, Content, End, GoesOn, PeerQuestion, Surface,
    ToolDefinition,
};

/// A question under a name, with how the call goes on elsewhere.
fn question(name: &str, goes_on: GoesOn) -> PeerQuestion {
    let form = PeerQuestion::new(ClientCapability::Elicitation, &json!({ "message": name }));
    PeerQuestion { goes_on, ..form.named(name) }
}

fn left(text: &str) -> Arc<RawValue> {
    to_raw_value(text).unwrap().into()
}

async fn answer(call: &Call, question: PeerQuestion) -> String {
    let asked = call.peer.as_ref().unwrap().ask(question).await;
    asked.map_or_else(|error| error.to_string(), |answer| answer.get().to_owned())
}

/// Tools that ask, and say what they heard and from where they went on.
fn door() -> Arc<RecordingDoor> {
    let tool = |name: &str| ToolDefinition::new(name, "Asks.");
    let done = |text: String| End::Done(CallResult { content: vec![Content::Text(text)], ..CallResult::default() });
    let door = RecordingDoor::new()
        .on(tool("rounds"), move |call, _| {
            Box::pin(async move {
                let resumed = call.peer.as_ref().unwrap().resumed();
                let from = resumed.clone().unwrap_or_else(|| left("the first"));
                let mut heard = vec![from.get().to_owned()];
                if from.get() == r#""the first""# {
                    let both = [question("a", GoesOn::With(Arc::clone(&from))), question("b", GoesOn::With(from))];
                    heard.extend(futures_util::future::join_all(both.map(|it| answer(&call, it))).await);
                }
                let second =
                    resumed.filter(|from| from.get() == r#""the second""#).unwrap_or_else(|| left("the second"));
                heard.push(answer(&call, question("c", GoesOn::With(second))).await);
                done(heard.join(" "))
            })
        })
        .on(tool("here"), move |call, _| {
            Box::pin(async move { done(answer(&call, question("a", GoesOn::Here)).await) })
        })
        .on(tool("approved"), move |call, _| {
            Box::pin(async move {
                // Another question each time, as if the first was settled meanwhile.
                let name =
                    format!("{APPROVAL_QUESTION}{}", call.peer.as_ref().map_or(0, |peer| Arc::as_ptr(peer).addr()));
                done(answer(&call, question(&name, GoesOn::Anew)).await)
            })
        });
    Arc::new(door)
}

struct Replicas {
    clock: Arc<TestClock>,
    door: Arc<RecordingDoor>,
    ends: Vec<Endpoint>,
}

impl Replicas {
    fn new() -> Self {
        let clock: Arc<TestClock> = Arc::default();
        let keys = StateKeys::new([b"a secret of all".as_slice()], Arc::clone(&clock) as _);
        let info = || ServerInfo { name: "t".into(), version: "1".into(), instructions: None };
        let end = |place: &str| Endpoint::new(info()).sealing(keys.at(place));
        Self { clock, door: door(), ends: vec![end(""), end(""), end("a set")] }
    }

    async fn ask(&self, at: usize, name: &str, more: &Value) -> Value {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} },
        });
        let mut params = json!({ "name": name, "arguments": {}, "_meta": meta });
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
        let mut headers = HeaderMap::new();
        headers.insert("mcp-protocol-version", HeaderValue::from_static("2026-07-28"));
        headers.insert("mcp-method", HeaderValue::from_static("tools/call"));
        headers.insert("mcp-name", name.parse().unwrap());
        let Reply::Run(run) = self.ends[at].post(&headers, body.as_bytes(), "ann", Duration::ZERO) else {
            panic!("a call is for the door")
        };
        let caller = Arc::new(Caller::new("ann", "reader", Surface::McpHttp));
        let (out, _kept) = tokio::sync::mpsc::channel(1);
        let answer = run.answer(Arc::clone(&self.door) as _, caller, out).await.unwrap();
        serde_json::from_slice(&answer.text).unwrap()
    }
}

/// The same request with answers to these questions.
fn retry(asked: &Value, names: &[&str]) -> Value {
    let answers: serde_json::Map<String, Value> = names
        .iter()
        .map(|name| ((*name).to_owned(), json!({ "action": "accept", "content": { "to": name } })))
        .collect();
    json!({ "requestState": asked["result"]["requestState"], "inputResponses": answers })
}

fn names(asked: &Value) -> Vec<String> {
    let requests = asked["result"]["inputRequests"].as_object();
    requests.unwrap_or_else(|| panic!("{asked}")).keys().cloned().collect()
}

#[tokio::test]
async fn what_was_asked_together_is_answered_bit_by_bit_anywhere() {
    let replicas = Replicas::new();
    let first = replicas.ask(0, "rounds", &json!({})).await;
    assert_eq!(names(&first), ["a", "b"]);
    let second = replicas.ask(1, "rounds", &retry(&first, &["b"])).await;
    assert_eq!(names(&second), ["a"], "what was answered is not asked again");
    let third = replicas.ask(0, "rounds", &retry(&second, &["a"])).await;
    assert_eq!(names(&third), ["c"]);
    // Answers to what one thing asked are not those to what the next asks.
    let last = replicas.ask(1, "rounds", &retry(&third, &["c"])).await;
    let text = last["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with(r#""the second" "#) && text.contains(r#""to":"c""#), "{text}");
    let keys: Vec<_> = replicas.door.calls().into_iter().map(|(_, call)| call.idempotency_key).collect();
    assert!(keys[0].is_none() && keys[1..].iter().flatten().all(|key| key.starts_with("requestState ")), "{keys:?}");
    assert!(keys.len() == 4 && keys[1] != keys[2] && keys[2] != keys[3], "{keys:?}");
    // Its own answers find it where it stands.
    let own = replicas.ask(0, "rounds", &retry(&first, &["a", "b"])).await;
    assert_eq!((names(&own), replicas.door.calls().len()), (vec!["c".to_owned()], 4));
}

#[tokio::test]
async fn what_does_not_go_on_elsewhere_is_refused_in_words() {
    let replicas = Replicas::new();
    let refused = async |at: usize, name: &str, more: &Value, why: &str| {
        let answer = replicas.ask(at, name, more).await;
        let message = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{answer}"));
        assert!(answer["error"]["code"] == -32602 && message.contains(why), "{message}");
    };
    let here = replicas.ask(0, "here", &json!({})).await;
    refused(1, "here", &retry(&here, &["a"]), "waits in another process").await;
    assert!(replicas.ask(0, "here", &retry(&here, &["a"])).await["result"]["content"].is_array());
    refused(0, "here", &retry(&here, &["a"]), "nothing waits").await;
    let rounds = replicas.ask(0, "rounds", &json!({})).await;
    refused(2, "rounds", &retry(&rounds, &["a"]), "not what was given").await;
    replicas.clock.advance(Duration::from_secs(10 * 60));
    refused(1, "rounds", &retry(&rounds, &["a"]), "waits in another process").await;
    assert_eq!(replicas.door.calls().len(), 2);
}

#[tokio::test]
async fn a_yes_counts_for_the_question_that_it_answers() {
    let replicas = Replicas::new();
    let asked = replicas.ask(0, "approved", &json!({})).await;
    let name = names(&asked).remove(0);
    let elsewhere = replicas.ask(1, "approved", &retry(&asked, &[&name])).await;
    assert_eq!(elsewhere["result"]["content"][0]["text"], "nobody answered", "{elsewhere}");
}

#[tokio::test(start_paused = true)]
async fn who_has_many_calls_waiting_loses_the_memory_of_one_and_no_call() {
    let replicas = Replicas::new();
    let first = replicas.ask(0, "rounds", &json!({})).await;
    for _ in 0..80 {
        names(&replicas.ask(0, "rounds", &json!({})).await);
    }
    assert_eq!(names(&replicas.ask(1, "rounds", &retry(&first, &["a", "b"])).await), ["c"]);
}
