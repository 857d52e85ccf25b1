//! A door with a few tools whose timing the test holds in its hands.

use std::sync::{Arc, Mutex};

use futures_util::future::join_all;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, mpsc};
use tollgate_types::{
    ApprovalId, BoxFuture, Call, CallResult, Caller, ClientCapability, Code, Content, Door, End, ErrorObject, LogLevel,
    LogMessage, Outcome, PeerQuestion, ProgressUpdate, ToolDefinition, ToolError, Waiting, WaitingKind,
};

/// What happened behind the door.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Held(String),
    Dropped(String),
}

pub(crate) struct Fixture {
    pub(crate) tools: Vec<Arc<ToolDefinition>>,
    pub(crate) calls: Mutex<Vec<Call>>,
    /// One permit lets one `hold` go.
    pub(crate) release: Semaphore,
    events: mpsc::Sender<Event>,
}

/// Tells when a held call's future is dropped before its end.
struct Held<'a> {
    id: String,
    events: Option<&'a mpsc::Sender<Event>>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(events) = self.events {
            let _ = events.try_send(Event::Dropped(std::mem::take(&mut self.id)));
        }
    }
}

pub(crate) fn done(text: &str, structured: Option<Value>) -> End {
    End::Done(CallResult { content: vec![Content::Text(text.to_owned())], structured, ..CallResult::default() })
}

/// A question with numbers and spaces that must pass as they are.
fn question(kind: ClientCapability, key: &str) -> PeerQuestion {
    let params = match kind {
        ClientCapability::Elicitation => {
            r#"{ "message" : "Who?", "requestedSchema": {"type":"object","properties":{"n":{"type":"integer","maximum":12345678901234567890123}}} }"#
        }
        ClientCapability::Sampling => {
            r#"{"messages":[{"role":"user","content":{"type":"text","text":"Hi"}}],"maxTokens":50}"#
        }
        ClientCapability::Roots => "{}",
    };
    let params = RawValue::from_string(params.to_owned()).unwrap();
    PeerQuestion::raw(kind, params).named(key)
}

async fn asked(call: &Call, question: PeerQuestion) -> Result<String, String> {
    let Some(peer) = &call.peer else { return Err("nobody to ask".to_owned()) };
    peer.ask(question).await.map(|answer| answer.get().to_owned()).map_err(|error| error.to_string())
}

fn told(answer: Result<String, String>) -> End {
    match answer {
        Ok(text) => done(&text, None),
        Err(text) => End::Failed(ErrorObject::new(Code::ToolError, text)),
    }
}

impl Fixture {
    pub(crate) fn new() -> (Arc<Self>, mpsc::Receiver<Event>) {
        Self::with_tools(
            ["array", "boom", "echo", "hold", "picture", "refuse", "sample", "steps", "wait"].map(String::from),
        )
    }

    pub(crate) fn with_tools(names: impl IntoIterator<Item = String>) -> (Arc<Self>, mpsc::Receiver<Event>) {
        let (events, received) = mpsc::channel(1000);
        let define = |name: String| {
            let mut tool = ToolDefinition::new(name, "Does what its name says.");
            tool.title = Some("A tool".to_owned());
            tool.output_schema = Some(json!({
                "type": "object", "properties": { "echo": { "type": "object" } }, "required": ["echo"],
            }));
            Arc::new(tool)
        };
        let tools = names.into_iter().map(define).collect();
        (Arc::new(Self { tools, calls: Mutex::default(), release: Semaphore::new(0), events }), received)
    }

    pub(crate) fn last_call(&self) -> Call {
        self.calls.lock().unwrap().last().unwrap().clone()
    }

    async fn hold(&self, id: &str) -> End {
        let mut held = Held { id: id.to_owned(), events: Some(&self.events) };
        self.events.try_send(Event::Held(id.to_owned())).unwrap();
        self.release.acquire().await.unwrap().forget();
        held.events = None;
        done("let go", None)
    }

    /// What has to do with the client beside the answer.
    async fn talk(&self, call: &Call) -> End {
        match call.name.as_str() {
            "ask" => told(asked(call, question(ClientCapability::Elicitation, "user_name")).await),
            "ask_and_hold" => {
                let mut held = Held { id: call.id.as_str().to_owned(), events: Some(&self.events) };
                self.events.try_send(Event::Held(call.id.as_str().to_owned())).unwrap();
                let answer = asked(call, question(ClientCapability::Elicitation, "user_name")).await;
                held.events = None;
                told(answer)
            }
            "ask_all" => {
                let kinds = [
                    (ClientCapability::Elicitation, "user_name"),
                    (ClientCapability::Sampling, "greeting"),
                    (ClientCapability::Roots, "client_roots"),
                ];
                let answers = join_all(kinds.map(|(kind, key)| asked(call, question(kind, key)))).await;
                done(&format!("{answers:?}"), None)
            }
            "ask_twice" => {
                let first = asked(call, question(ClientCapability::Elicitation, "step1")).await;
                call.progress.report(ProgressUpdate { progress: 1.0, total: None, message: None });
                done(
                    &format!("{first:?} {:?}", asked(call, question(ClientCapability::Elicitation, "step2")).await),
                    None,
                )
            }
            _ => {
                for (level, data) in [(LogLevel::Debug, "a"), (LogLevel::Info, "b"), (LogLevel::Error, "c")] {
                    if let Some(peer) = &call.peer {
                        peer.log(LogMessage { level, logger: Some("chat".to_owned()), data: json!({ "said": data }) });
                    }
                }
                done("chatted", None)
            }
        }
    }

    async fn run(&self, call: &Call) -> End {
        match call.name.as_str() {
            "array" => done("[1]", Some(json!([1]))),
            "boom" => panic!("boom"),
            "echo" => done(&call.arguments, Some(json!({ "id": call.id.as_str() }))),
            "hold" => self.hold(call.id.as_str()).await,
            "picture" => {
                let block =
                    json!({ "type": "image", "data": "aGk=", "mimeType": "image/png", "vendor": { "n": u64::MAX } });
                End::Done(CallResult { content: vec![Content::Other(block)], ..CallResult::default() })
            }
            "refuse" => {
                End::Refused(ErrorObject::new(Code::InvalidArguments, "`city` is missing").with_hint("give it"))
            }
            "sample" if call.client.sampling => done("sampled", None),
            "sample" => End::from_error(ToolError::client_lacks(ClientCapability::Sampling).into()),
            "steps" => {
                for progress in [1.0, 2.0, 2.0, f64::NAN, 1.5, 3.0] {
                    call.progress.report(ProgressUpdate { progress, total: Some(3.0), message: Some("on".to_owned()) });
                }
                done("stepped", None)
            }
            "ask" | "ask_and_hold" | "ask_all" | "ask_twice" | "chat" => self.talk(call).await,
            "flood" => {
                for step in 0..100_000_u32 {
                    call.progress.report(ProgressUpdate { progress: step.into(), total: None, message: None });
                    if step % 1000 == 0 {
                        tokio::task::yield_now().await;
                    }
                }
                done("flooded", None)
            }
            "wait" => {
                let id = ApprovalId::new("a1");
                let waiting = Waiting { kind: WaitingKind::Approval, id, expires: "2030-01-01T00:00:00Z".to_owned() };
                End::Waiting(waiting, ErrorObject::new(Code::ApprovalRequired, "a human must say yes"))
            }
            name => End::Refused(ErrorObject::new(Code::UnknownTool, format!("there is no tool `{name}`"))),
        }
    }
}

impl Door for Fixture {
    fn list<'a>(&'a self, _: &'a Caller) -> BoxFuture<'a, Vec<Arc<ToolDefinition>>> {
        Box::pin(async { self.tools.clone() })
    }

    fn call<'a>(&'a self, _: &'a Caller, call: Call) -> BoxFuture<'a, Outcome> {
        self.calls.lock().unwrap().push(call.clone());
        Box::pin(async move {
            Outcome {
                end: self.run(&call).await,
                call_id: call.id,
                attempt: None,
                tool: call.name,
                duration_ms: 0,
                repairs: Vec::new(),
                replayed: false,
            }
        })
    }
}
