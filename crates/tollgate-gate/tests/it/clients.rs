//! The clients of callers: asked for approvals where the operator trusts them to ask a human, told no secrets, and waited for
//! in time that is not the call's.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};
use tollgate_types::{
    BoxFuture, Call, ClientCapabilities, ClientCapability, Code, Door, GoesOn, LogLevel, LogMessage, Outcome, Peer,
    PeerError, PeerQuestion, Risk, Secret, Status, Tool, ToolDefinition, ToolError, ToolOutput,
};

use crate::world::{Setup, World, developer, free, tool};

/// A client that gives these answers, one after the other, and then none.
#[derive(Debug)]
struct Client {
    answers: Mutex<Vec<Value>>,
    asked: Mutex<Vec<PeerQuestion>>,
    told: Mutex<Vec<LogMessage>>,
}

impl Peer for Client {
    fn ask(&self, question: PeerQuestion) -> BoxFuture<'_, Result<Box<RawValue>, PeerError>> {
        self.asked.lock().unwrap().push(question);
        let mut answers = self.answers.lock().unwrap();
        let answer = if answers.is_empty() { None } else { Some(answers.remove(0)) };
        Box::pin(async move {
            match answer {
                Some(answer) => {
                    tokio::time::sleep(Duration::from_secs(90)).await;
                    Ok(to_raw_value(&answer).unwrap())
                }
                None => Err(PeerError::Unanswered),
            }
        })
    }

    fn resumed(&self) -> Option<Arc<RawValue>> {
        Some(left())
    }

    fn log(&self, message: LogMessage) {
        self.told.lock().unwrap().push(message);
    }
}

/// What a call goes on from.
fn left() -> Arc<RawValue> {
    to_raw_value("left").unwrap().into()
}

fn client(answers: impl IntoIterator<Item = Value>) -> Arc<Client> {
    let answers = Mutex::new(answers.into_iter().collect());
    Arc::new(Client { answers, asked: Mutex::default(), told: Mutex::default() })
}

async fn call(world: &World, name: &str, client: &Arc<Client>) -> Outcome {
    let offers = ClientCapabilities { elicitation: true, ..ClientCapabilities::default() };
    let peer: Arc<dyn Peer> = Arc::<Client>::clone(client);
    world.gate.call(&developer(), Call::tool(name, json!({})).with_client(offers).with_peer(Some(peer))).await
}

fn pay() -> Arc<dyn Tool> {
    tool("pay", Risk::Dangerous, |_, _| async { Ok(ToolOutput::text("paid")) }).arc()
}

fn accept(content: &Value) -> Value {
    json!({ "action": "accept", "content": content })
}

#[tokio::test(start_paused = true)]
async fn a_trusted_client_asks_its_human() {
    let trusting = |roles: &[&str]| {
        let clients_approve = roles.iter().map(|role| (*role).to_owned()).collect();
        World::with(Setup { tools: vec![pay()], clients_approve, ..Setup::default() })
    };
    let world = trusting(&["developer"]);
    for (answer, status, code) in [
        (accept(&json!({ "decision": "approve" })), Status::Done, None),
        (accept(&json!({ "decision": "reject", "reason": "too much" })), Status::Refused, Some(Code::ApprovalRejected)),
        (json!({ "action": "decline" }), Status::Refused, Some(Code::ApprovalRejected)),
        (json!({ "action": "cancel" }), Status::Waiting, Some(Code::ApprovalRequired)),
        (accept(&json!({ "decision": "perhaps" })), Status::Waiting, Some(Code::ApprovalRequired)),
        (accept(&json!({})), Status::Waiting, Some(Code::ApprovalRequired)),
    ] {
        let client = client([answer.clone()]);
        let outcome = call(&world, "pay", &client).await;
        assert_eq!((outcome.status(), outcome.code()), (status, code), "{answer}: {outcome:?}");
        let asked = client.asked.lock().unwrap();
        let asked: Value = serde_json::from_str(asked[0].params.get()).unwrap();
        assert!(asked["message"].as_str().unwrap().contains("May `pay` run?"), "{asked}");
        if status == Status::Done {
            assert_eq!(world.events(&outcome), ["received", "decided", "approved", "started", "finished"]);
            assert_eq!(world.record(&outcome, "approved")["note"], "by bob (in their client)");
        }
    }
    let world = trusting(&["operator"]);
    let client = client([accept(&json!({ "decision": "approve" }))]);
    assert_eq!(call(&world, "pay", &client).await.status(), Status::Waiting, "not of a role that is trusted");
    assert!(client.asked.lock().unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn one_client_is_no_two_persons_and_what_must_be_typed_is_typed() {
    let two = tool("two", Risk::Dangerous, |_, _| async { Ok(ToolOutput::text("done")) })
        .define(|definition| definition.security.approvers = std::num::NonZeroU32::new(2));
    let typed = tool("typed", Risk::Dangerous, |_, _| async { Ok(ToolOutput::text("done")) })
        .define(|definition| definition.security.typed_confirmation = Some(String::new()));
    let tools = vec![two.arc(), typed.arc()];
    let world = World::with(Setup { tools, clients_approve: vec!["developer".to_owned()], ..Setup::default() });
    let approve = accept(&json!({ "decision": "approve" }));
    assert_eq!(call(&world, "two", &client([approve.clone()])).await.status(), Status::Waiting);
    assert_eq!(call(&world, "typed", &client([approve])).await.status(), Status::Waiting, "nothing was typed");
    let whole = accept(&json!({ "decision": "approve", "typed": "typed" }));
    assert_eq!(call(&world, "typed", &client([whole])).await.status(), Status::Done);
}

/// Each wait is longer than the tool may run.
#[tokio::test(start_paused = true)]
async fn what_runs_asks_in_time_that_is_not_its_own_and_tells_no_secret() {
    let asks = tool("asks", Risk::Read, |_, cx| async move {
        let peer = cx.peer.unwrap();
        let secret = "zq-injected-secret-value";
        let question = json!({ "message": format!("is it {secret}?") });
        for _ in 0..2 {
            peer.ask(PeerQuestion::new(ClientCapability::Elicitation, &question)).await.unwrap();
        }
        peer.log(LogMessage { level: LogLevel::Info, logger: None, data: json!({ "it is": secret }) });
        Ok(ToolOutput::text("done"))
    });
    let secrets = vec![Secret::new("zq-injected-secret-value")];
    let world = World::with(Setup { roles: vec![free()], tools: vec![asks.arc()], secrets, ..Setup::default() });
    let client = client([json!({ "action": "cancel" }), json!({ "action": "cancel" })]);
    assert_eq!(call(&world, "asks", &client).await.status(), Status::Done);
    let seen = format!("{client:?}");
    assert!(seen.contains("is it [redacted") && !seen.contains("zq-injected"), "{seen}");
}

#[tokio::test(start_paused = true)]
async fn a_call_within_a_call_goes_on_nowhere_else() {
    let asks = tool("asks", Risk::Read, |_, cx| async move {
        let peer = cx.peer.unwrap();
        let question = PeerQuestion::new(ClientCapability::Elicitation, &json!({ "message": "?" }));
        peer.ask(PeerQuestion { goes_on: GoesOn::With(left()), ..question }).await.unwrap();
        Ok(ToolOutput::text(if peer.resumed().is_some() { "it goes on" } else { "it begins" }))
    });
    let outer = |name: &'static str, inner: &'static str| {
        tool(name, Risk::Read, move |_, cx| async move {
            Ok(ToolOutput::text(cx.door.call(&cx.caller, Call::tool(inner, json!({}))).await.model_text()))
        })
    };
    let tools = vec![asks.arc(), outer("asks_within", "asks").arc(), pay()];
    let world = World::with(Setup { tools, clients_approve: vec!["developer".to_owned()], ..Setup::default() });
    let approve = || accept(&json!({ "decision": "approve" }));
    for (name, says, goes_on) in
        [("asks", "it goes on", "With"), ("asks_within", "it begins", "Here"), ("pay", "paid", "Anew")]
    {
        let client = client([approve()]);
        let outcome = call(&world, name, &client).await;
        assert!(outcome.model_text().contains(says), "{name}: {outcome:?}");
        let asked = format!("{:?}", client.asked.lock().unwrap()[0].goes_on);
        assert!(asked.starts_with(goes_on), "{name}: {asked}");
    }
}

fn of_house(definition: &mut ToolDefinition) {
    definition.source.server = Some("house".to_owned());
}

/// A tool of one place, which asks its client.
fn alone(goes_on: GoesOn) -> Arc<dyn Tool> {
    let asks = tool("alone", Risk::Read, move |_, cx| {
        let question = PeerQuestion::new(ClientCapability::Elicitation, &json!({ "message": "is it?" }));
        let question = PeerQuestion { goes_on: goes_on.clone(), ..question };
        async move {
            cx.peer.unwrap().ask(question).await.map_err(|error| ToolError::new(error.to_string()))?;
            Ok(ToolOutput::text("done"))
        }
    });
    asks.define(of_house).define(|definition| definition.execution.max_concurrent = 1).arc()
}

/// Each client takes longer than a call waits for a place.
#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_its_client_with_nothing_under_way_keeps_no_place() {
    let answer = json!({ "action": "cancel" });
    for (goes_on, second) in [(GoesOn::With(left()), Status::Done), (GoesOn::Here, Status::Refused)] {
        let world = World::with(Setup { roles: vec![free()], tools: vec![alone(goes_on)], ..Setup::default() });
        let clients = [client([answer.clone()]), client([answer.clone()])];
        let calls = clients.each_ref().map(|client| call(&world, "alone", client));
        let outcomes = futures_util::future::join_all(calls).await;
        assert_eq!(outcomes.iter().map(Outcome::status).collect::<Vec<_>>(), [Status::Done, second], "{outcomes:?}");
    }
}

/// The place is another's when the client answers, and stays so.
#[tokio::test(start_paused = true)]
async fn who_comes_back_from_its_client_waits_for_a_place() {
    for (seconds, status) in [(100, Status::Done), (1_000, Status::Failed)] {
        let asks = alone(GoesOn::With(left()));
        let runs = tool("runs", Risk::Read, move |_, _| async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            Ok(ToolOutput::text("done"))
        });
        let runs = runs.define(of_house).define(|definition| definition.execution.timeout_ms = 2_000_000);
        let mut setup = Setup { roles: vec![free()], tools: vec![asks, runs.arc()], ..Setup::default() };
        setup.resilience.max_concurrent = Some(1);
        let world = World::with(setup);
        let client = client([json!({ "action": "cancel" })]);
        let (asked, _) = tokio::join!(call(&world, "alone", &client), call(&world, "runs", &client));
        assert_eq!(asked.status(), status, "{asked:?}");
    }
}
