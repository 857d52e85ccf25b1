//! The tasks extension: calls that go on after their answer, for clients that know it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};
use tollgate_mcp::{Session, TaskRules, Tasks};
use tollgate_testkit::TestClock;
use tollgate_types::{
    ApprovalId, AttemptId, BoxFuture, Call, Caller, Clock, Code, Door, End, ErrorObject, KeptTask, Outcome, Surface,
    TaskShelf, TaskSupport, ToolDefinition, Waiting, WaitingKind,
};

use crate::door::{Event, Fixture, done};
use crate::peer::{CAPABILITIES, Peer, bare, info, initialize, modern};

const KEEP: Duration = Duration::from_secs(60);

/// A shelf that a test can look into, and break.
#[derive(Default)]
struct Shelf {
    kept: Mutex<BTreeMap<String, (Caller, KeptTask)>>,
    is_full: AtomicBool,
    is_broken: AtomicBool,
}

impl TaskShelf for Shelf {
    fn begin<'a>(&'a self, id: &'a str, caller: &'a Caller, created: Timestamp) -> BoxFuture<'a, Result<bool, String>> {
        let task = KeptTask { created, end: None, expires: Timestamp::MAX, is_alive: true };
        let has_room = !self.is_full.load(Ordering::SeqCst);
        if has_room {
            self.kept.lock().unwrap().insert(id.to_owned(), (caller.clone(), task));
        }
        Box::pin(std::future::ready(Ok(has_room)))
    }

    fn end<'a>(
        &'a self,
        id: &'a str,
        _: Option<AttemptId>,
        end: (Timestamp, String),
        expires: Timestamp,
    ) -> BoxFuture<'a, Result<(), String>> {
        if self.is_broken.load(Ordering::SeqCst) {
            return Box::pin(std::future::ready(Err("the disk is full".to_owned())));
        }
        let mut kept = self.kept.lock().unwrap();
        let (_, task) = kept.get_mut(id).unwrap();
        assert_eq!(task.end, None, "a task ends once");
        (task.end, task.expires) = (Some(end), expires);
        Box::pin(std::future::ready(Ok(())))
    }

    fn find<'a>(
        &'a self,
        id: &'a str,
        caller: &'a Caller,
        now: Timestamp,
    ) -> BoxFuture<'a, Result<Option<KeptTask>, String>> {
        let kept = self.kept.lock().unwrap();
        let found = kept.get(id).filter(|(owner, task)| owner.subject == caller.subject && task.expires > now);
        Box::pin(std::future::ready(Ok(found.map(|(_, task)| task.clone()))))
    }
}

/// A door whose `transfer` waits for a human, and that says of some tools how they may be called.
struct Desk {
    inner: Arc<Fixture>,
    answers: Semaphore,
    has_asked: AtomicBool,
}

impl Door for Desk {
    fn list<'a>(&'a self, caller: &'a Caller) -> BoxFuture<'a, Vec<Arc<ToolDefinition>>> {
        self.inner.list(caller)
    }

    fn call<'a>(&'a self, caller: &'a Caller, mut call: Call) -> BoxFuture<'a, Outcome> {
        if let Some(name) = call.name.strip_prefix("now_").or(call.name.strip_prefix("never_")) {
            call.name = name.to_owned();
        }
        if call.name != "transfer" {
            return self.inner.call(caller, call);
        }
        let end = if self.has_asked.swap(true, Ordering::SeqCst) {
            done("transferred", None)
        } else {
            let waiting = Waiting {
                kind: WaitingKind::Approval,
                id: ApprovalId::new("a1"),
                expires: "2030-01-01T00:00:00Z".to_owned(),
            };
            End::Waiting(waiting, ErrorObject::new(Code::ApprovalRequired, "a human must say yes"))
        };
        let (call_id, tool) = (call.id, call.name);
        let outcome = Outcome { call_id, attempt: None, tool, duration_ms: 0, end, repairs: vec![], replayed: false };
        Box::pin(std::future::ready(outcome))
    }

    fn special(&self, _: &Caller, tool: &str) -> Option<Arc<ToolDefinition>> {
        let mut special = ToolDefinition::new(tool, "Does what its name says.");
        special.execution.task = match tool {
            "sample" => TaskSupport::Required,
            _ if tool.starts_with("now_") => TaskSupport::Always,
            _ if tool.starts_with("never_") => TaskSupport::Never,
            _ => return None,
        };
        Some(Arc::new(special))
    }

    fn answered<'a>(&'a self, approval: &'a ApprovalId) -> BoxFuture<'a, ()> {
        assert_eq!(approval.as_str(), "a1");
        Box::pin(async { self.answers.acquire().await.unwrap().forget() })
    }
}

struct World {
    desk: Arc<Desk>,
    events: mpsc::Receiver<Event>,
    clock: Arc<TestClock>,
    shelf: Arc<Shelf>,
    tasks: Arc<Tasks>,
}

fn tasks(clock: &Arc<TestClock>, shelf: &Arc<Shelf>) -> Arc<Tasks> {
    let rules = TaskRules { after: Duration::from_secs(10), keep: KEEP };
    let clock: Arc<dyn Clock> = Arc::<TestClock>::clone(clock);
    Tasks::new(rules, clock, Arc::<Shelf>::clone(shelf) as _)
}

impl World {
    fn new() -> Self {
        let (inner, events) = Fixture::new();
        let desk = Arc::new(Desk { inner, answers: Semaphore::new(0), has_asked: AtomicBool::new(false) });
        let (clock, shelf) = (Arc::new(TestClock::default()), Arc::new(Shelf::default()));
        let tasks = tasks(&clock, &shelf);
        Self { desk, events, clock, shelf, tasks }
    }

    fn peer(&self, subject: &str) -> Peer {
        let caller = Caller::new(subject, "reader", Surface::McpHttp);
        let session = Session::new(info()).with_tasks(Arc::clone(&self.tasks));
        Peer::of(Arc::<Desk>::clone(&self.desk) as _, 64 * 1024, caller, session)
    }

    /// As after a restart: nothing is known but what is on the shelf.
    fn dies(&mut self) {
        self.tasks = tasks(&self.clock, &self.shelf);
        for (_, task) in self.shelf.kept.lock().unwrap().values_mut() {
            task.is_alive = false;
        }
    }
}

/// A request of a client that knows tasks.
fn knowing(id: impl Into<Value>, method: &str, params: &Value) -> String {
    let mut params = params.clone();
    params["_meta"] = json!({});
    let mut line: Value = serde_json::from_str(&modern(id, method, &params)).unwrap();
    line["params"]["_meta"][CAPABILITIES] = json!({ "elicitation": {}, "sampling": {}, "roots": {}, "extensions": { "io.modelcontextprotocol/tasks": {} } });
    line.to_string()
}

fn call(id: u32, name: &str) -> String {
    knowing(id, "tools/call", &json!({ "name": name, "arguments": {} }))
}

async fn begin(peer: &mut Peer, name: &str) -> String {
    let begun = peer.ask(&call(1, name)).await;
    assert_eq!(begun["result"]["resultType"], "task", "{begun}");
    begun["result"]["taskId"].as_str().unwrap().to_owned()
}

async fn of_task(peer: &mut Peer, method: &str, task: &str, more: Value) -> Value {
    let mut params = more;
    params["taskId"] = json!(task);
    peer.ask(&knowing("task", method, &params)).await
}

async fn get(peer: &mut Peer, task: &str) -> Value {
    of_task(peer, "tasks/get", task, json!({})).await["result"].clone()
}

/// How a task ended, once it has.
async fn ended(peer: &mut Peer, task: &str) -> Value {
    loop {
        let now = get(peer, task).await;
        if !matches!(now["status"].as_str(), Some("working" | "input_required")) {
            return now;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// What a task asks, once it does.
async fn asked(peer: &mut Peer, task: &str, count: usize) -> Vec<String> {
    loop {
        let now = get(peer, task).await;
        let asked = now["inputRequests"].as_object().map(|asked| asked.keys().cloned().collect::<Vec<_>>());
        if let Some(asked) = asked.filter(|asked| asked.len() == count) {
            return asked;
        }
        assert!(matches!(now["status"].as_str(), Some("working" | "input_required")), "{now}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

fn accepted(n: u32) -> Value {
    json!({ "action": "accept", "content": { "n": n } })
}

#[tokio::test(start_paused = true)]
async fn a_call_that_takes_long_is_a_task_and_what_it_comes_to_is_kept() {
    let world = World::new();
    let mut peer = world.peer("ann");
    let begun = peer.ask(&call(1, "hold")).await["result"].clone();
    assert_eq!((&begun["resultType"], &begun["status"]), (&json!("task"), &json!("working")));
    assert_eq!((&begun["ttlMs"], &begun["pollIntervalMs"]), (&json!(60_000), &json!(1_000)));
    assert_eq!(begun["createdAt"], "2026-01-02T03:04:05Z");
    let task = begun["taskId"].as_str().unwrap();
    assert_eq!(task.len(), 32);
    assert_eq!(get(&mut peer, task).await["status"], "working");
    world.clock.advance(10 * KEEP);
    assert_eq!(get(&mut peer, task).await["ttlMs"], 660_000, "it is kept for as long as it runs, and then for as long");
    world.desk.inner.release.add_permits(1);
    let end = ended(&mut peer, task).await;
    assert_eq!((&end["status"], &end["resultType"]), (&json!("completed"), &json!("complete")));
    let result = &end["result"];
    assert_eq!((&result["content"][0]["text"], &result["resultType"]), (&json!("let go"), &json!("complete")));
    // Its connection may end, and its caller come again.
    drop(peer);
    let mut peer = world.peer("ann");
    world.clock.advance(KEEP - Duration::from_secs(1));
    assert_eq!(get(&mut peer, task).await["status"], "completed");
    world.clock.advance(Duration::from_secs(1));
    let expired = of_task(&mut peer, "tasks/get", task, json!({})).await;
    assert_eq!(expired["error"]["code"], -32602, "{expired}");
}

#[tokio::test(start_paused = true)]
async fn only_who_made_a_task_finds_it() {
    let world = World::new();
    let (mut ann, mut bob) = (world.peer("ann"), world.peer("bob"));
    let task = begin(&mut ann, "hold").await;
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let more = json!({ "inputResponses": {} });
        let others = of_task(&mut bob, method, &task, more.clone()).await["error"].clone();
        let nobodys = of_task(&mut bob, method, "0123", more.clone()).await["error"].clone();
        assert_eq!((&others["code"], &others), (&json!(-32602), &nobodys), "{method}");
        for odd in [json!({}), json!({ "taskId": 7 }), json!({ "taskId": null })] {
            assert_eq!(ann.ask(&knowing(2, method, &odd)).await["error"]["code"], -32602);
        }
        // Who does not know tasks is told so, whatever it asks for.
        let bare = ann.ask(&modern(3, method, &json!({ "taskId": task, "_meta": {} }))).await;
        let needs = &bare["error"]["data"]["requiredCapabilities"]["extensions"];
        assert_eq!((&bare["error"]["code"], needs), (&json!(-32021), &json!({ "io.modelcontextprotocol/tasks": {} })));
    }
    for gone in ["tasks/result", "tasks/list"] {
        assert_eq!(of_task(&mut ann, gone, &task, json!({})).await["error"]["code"], -32601);
    }
    assert_eq!(get(&mut ann, &task).await["status"], "working", "nobody else ended it");
}

#[tokio::test(start_paused = true)]
async fn a_task_is_cancelled_once_and_an_end_stays() {
    let mut world = World::new();
    let mut peer = world.peer("ann");
    let task = begin(&mut peer, "hold").await;
    assert_eq!(world.events.recv().await, Some(Event::Held("1".into())));
    for _ in 0..2 {
        let acknowledged = of_task(&mut peer, "tasks/cancel", &task, json!({})).await;
        let members: Vec<_> = acknowledged["result"].as_object().unwrap().keys().collect();
        assert_eq!(members, ["resultType", "_meta"]);
    }
    assert_eq!(world.events.recv().await, Some(Event::Dropped("1".into())), "the call is cancelled with it");
    assert_eq!(ended(&mut peer, &task).await["status"], "cancelled");

    let task = begin(&mut peer, "now_echo").await;
    assert_eq!(ended(&mut peer, &task).await["status"], "completed");
    assert!(of_task(&mut peer, "tasks/cancel", &task, json!({})).await.get("result").is_some());
    assert_eq!(get(&mut peer, &task).await["status"], "completed", "what has ended is not cancelled");
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_that_meets_the_end_leaves_one_end() {
    let world = World::new();
    let mut peer = world.peer("ann");
    let task = begin(&mut peer, "hold").await;
    world.desk.inner.release.add_permits(1);
    of_task(&mut peer, "tasks/cancel", &task, json!({})).await;
    let first = ended(&mut peer, &task).await["status"].clone();
    assert!(first == "completed" || first == "cancelled", "{first}");
    of_task(&mut peer, "tasks/cancel", &task, json!({})).await;
    assert_eq!(get(&mut peer, &task).await["status"], first);
}

#[tokio::test(start_paused = true)]
async fn questions_are_asked_by_the_task_and_answered_one_by_one() {
    let world = World::new();
    let mut peer = world.peer("ann");
    let task = begin(&mut peer, "now_ask_all").await;
    let names = asked(&mut peer, &task, 3).await;
    let now = get(&mut peer, &task).await;
    assert_eq!(now["status"], "input_required");
    let named = |method: &str| names.iter().find(|name| now["inputRequests"][name]["method"] == method).unwrap();
    let (who, model, place) = (named("elicitation/create"), named("sampling/createMessage"), named("roots/list"));
    let unfit = json!({ "inputResponses": { who: { "action": "perhaps" } } });
    assert_eq!(of_task(&mut peer, "tasks/update", &task, unfit).await["error"]["code"], -32602);
    let some = json!({ "inputResponses": { who: accepted(7), place: { "roots": [] }, "unasked": { "a": 1 } } });
    let acknowledged = of_task(&mut peer, "tasks/update", &task, some.clone()).await;
    assert_eq!(acknowledged["result"].as_object().unwrap().len(), 2, "{acknowledged}");
    assert_eq!(asked(&mut peer, &task, 1).await, std::slice::from_ref(model));
    // Answers count once.
    of_task(&mut peer, "tasks/update", &task, some).await;
    let said = json!({ "role": "assistant", "content": { "type": "text", "text": "Hello" }, "model": "m" });
    of_task(&mut peer, "tasks/update", &task, json!({ "inputResponses": { model: said } })).await;
    let end = ended(&mut peer, &task).await;
    let text = end["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("\\\"n\\\":7") && text.contains("Hello"), "{text}");
    let late = json!({ "inputResponses": { who: accepted(8) } });
    assert!(of_task(&mut peer, "tasks/update", &task, late).await.get("result").is_some());
}

#[tokio::test(start_paused = true)]
async fn no_name_of_a_question_comes_twice_and_one_that_nobody_answers_is_taken_back() {
    let world = World::new();
    let mut peer = world.peer("ann");
    let task = begin(&mut peer, "now_ask_twice").await;
    let first = asked(&mut peer, &task, 1).await;
    of_task(&mut peer, "tasks/update", &task, json!({ "inputResponses": { &first[0]: accepted(1) } })).await;
    let end = loop {
        let now = get(&mut peer, &task).await;
        match now["inputRequests"].as_object().and_then(|asked| asked.keys().next()) {
            Some(name) => assert_ne!(*name, first[0]),
            None if now["status"] == "completed" => break now,
            None => {}
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    };
    assert!(end["result"]["content"][0]["text"].as_str().unwrap().contains("nobody answered"), "{end}");
}

#[tokio::test(start_paused = true)]
async fn what_is_asked_before_a_call_is_a_task_is_asked_by_the_answer() {
    let world = World::new();
    let mut peer = world.peer("ann");
    let first = peer.ask(&call(1, "ask")).await["result"].clone();
    assert_eq!(first["resultType"], "input_required");
    let params = json!({
        "name": "ask", "arguments": {}, "requestState": first["requestState"],
        "inputResponses": { "user_name": accepted(3) },
    });
    let second = peer.ask(&knowing(2, "tools/call", &params)).await["result"].clone();
    assert_eq!(second["resultType"], "complete");
    assert!(second["content"][0]["text"].as_str().unwrap().contains("\"n\":3"), "{second}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_a_human_is_made_again_once_they_have_answered() {
    let world = World::new();
    let mut peer = world.peer("ann");
    let task = begin(&mut peer, "transfer").await;
    let now = get(&mut peer, &task).await;
    assert_eq!((&now["status"], &now["statusMessage"]), (&json!("working"), &json!("a human must say yes")));
    world.desk.answers.add_permits(1);
    let end = ended(&mut peer, &task).await;
    assert_eq!(end["result"]["content"][0]["text"], "transferred");
}

#[tokio::test(start_paused = true)]
async fn at_the_end_of_the_process_who_waits_for_a_human_is_told_to_ask_again() {
    let mut world = World::new();
    let mut peer = world.peer("ann");
    let (waits, holds) = (begin(&mut peer, "transfer").await, begin(&mut peer, "hold").await);
    world.tasks.settle().await;
    assert!(get(&mut peer, &waits).await["result"]["isError"] == true);
    drop(peer);
    world.dies();
    let mut peer = world.peer("ann");
    let told = get(&mut peer, &waits).await;
    assert_eq!(told["result"]["structuredContent"]["error"], "approval_required", "{told}");
    let lost = get(&mut peer, &holds).await;
    assert_eq!((&lost["status"], lost.get("result")), (&json!("failed"), None));
    assert_eq!(lost["error"]["data"]["error"], "outcome_unknown", "{lost}");
    assert!(of_task(&mut peer, "tasks/cancel", &holds, json!({})).await.get("result").is_some());
}

#[tokio::test(start_paused = true)]
async fn what_another_process_runs_is_working_and_is_ended_there() {
    let mut world = World::new();
    let task = begin(&mut world.peer("ann"), "hold").await;
    world.tasks = tasks(&world.clock, &world.shelf);
    let mut peer = world.peer("ann");
    assert_eq!(get(&mut peer, &task).await["status"], "working");
    let refused = of_task(&mut peer, "tasks/cancel", &task, json!({})).await;
    assert!(refused["error"]["message"].as_str().unwrap().contains("another process"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_the_tool_completes_and_one_of_the_protocol_fails() {
    let world = World::new();
    let mut peer = world.peer("ann");
    let task = begin(&mut peer, "now_refuse").await;
    let end = ended(&mut peer, &task).await;
    assert_eq!((&end["status"], &end["result"]["isError"]), (&json!("completed"), &json!(true)));
    let mut bare: Value = serde_json::from_str(&call(1, "now_sample")).unwrap();
    bare["params"]["_meta"][CAPABILITIES] = json!({ "extensions": { "io.modelcontextprotocol/tasks": {} } });
    let task = peer.ask(&bare.to_string()).await["result"]["taskId"].as_str().unwrap().to_owned();
    let end = ended(&mut peer, &task).await;
    assert_eq!((&end["status"], &end["error"]["code"]), (&json!("failed"), &json!(-32021)), "{end}");
    assert!(end.get("result").is_none());
}

#[tokio::test(start_paused = true)]
async fn who_does_not_know_tasks_waits_and_what_must_be_one_is_refused() {
    let world = World::new();
    world.desk.inner.release.add_permits(4);
    let mut peer = world.peer("ann");
    let plain = |name: &str| json!({ "name": name, "arguments": {} });
    for line in [modern(1, "tools/call", &plain("hold")), modern(1, "tools/call", &plain("now_hold"))] {
        let mut line: Value = serde_json::from_str(&line).unwrap();
        line["params"]["task"] = json!({ "ttl": 60_000 });
        assert_eq!(peer.ask(&line.to_string()).await["result"]["content"][0]["text"], "let go");
    }
    assert_eq!(peer.ask(&call(1, "never_hold")).await["result"]["content"][0]["text"], "let go");
    let refused = peer.ask(&modern(1, "tools/call", &plain("sample"))).await;
    assert_eq!(refused["error"]["code"], -32021, "{refused}");
    assert_eq!(world.desk.inner.last_call().refusal.unwrap().error, Code::Unavailable, "it is recorded");
    assert!(peer.ask(&call(1, "sample")).await["result"]["resultType"] == "task");

    peer.ask(&bare("hello", "initialize", &initialize("2025-11-25"))).await;
    assert_eq!(peer.ask(&bare(1, "tools/call", &plain("hold"))).await["result"]["content"][0]["text"], "let go");
    assert_eq!(peer.ask(&bare(1, "tasks/get", &json!({ "taskId": "a" }))).await["error"]["code"], -32601);
    let discovered = peer.ask(&modern(2, "server/discover", &json!({}))).await;
    assert_eq!(
        discovered["result"]["capabilities"]["extensions"],
        json!({ "io.modelcontextprotocol/tasks": {} }),
        "{discovered}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_tasks_is_waited_for() {
    let mut world = World::new();
    let mut peer = world.peer("ann");
    for _ in 0..64 {
        begin(&mut peer, "now_hold").await;
    }
    peer.send(&call(1, "now_hold")).await;
    for _ in 0..65 {
        assert_eq!(world.events.recv().await, Some(Event::Held("1".into())));
    }
    world.desk.inner.release.add_permits(66);
    let beyond = peer.receive().await;
    assert_eq!(beyond["result"]["content"][0]["text"], "let go", "{beyond}");
    world.shelf.is_full.store(true, Ordering::SeqCst);
    let kept_back = world.peer("bob").ask(&call(1, "now_hold")).await;
    assert_eq!(kept_back["result"]["content"][0]["text"], "let go", "{kept_back}");
}

#[tokio::test(start_paused = true)]
async fn where_the_shelf_breaks_the_end_is_told_by_the_process() {
    let world = World::new();
    let mut peer = world.peer("ann");
    let task = begin(&mut peer, "now_hold").await;
    world.shelf.is_broken.store(true, Ordering::SeqCst);
    world.desk.inner.release.add_permits(1);
    assert_eq!(ended(&mut peer, &task).await["result"]["content"][0]["text"], "let go");
    world.clock.advance(KEEP);
    begin(&mut peer, "now_echo").await;
    let gone = get(&mut peer, &task).await;
    assert_ne!(gone["status"], "completed", "{gone}");
}
