//! A door with a few tools of its own that checks what every door may expect: ids that are there and not used twice.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::sync::{Barrier, Notify};
use tollgate_testkit::RecordingDoor;
use tollgate_types::{
    ApprovalId, BoxFuture, Call, CallResult, Caller, Code, Content, Door, End, ErrorObject, Outcome, Said, Surface,
    ToolDefinition, ToolError, ToolOutput, Waiting, WaitingKind,
};

/// `echo` gives its arguments back; `meet` ends only when two run at once, the one with `first` last; `stall` never
/// ends; `ask` waits for a human; `cut` has a result too long to show. As with any door, the ids and times in what the
/// last two say are new each time.
pub(crate) struct Shelf {
    calls: Mutex<Vec<Call>>,
    meeting: Barrier,
    second_is_done: Notify,
    pub(crate) is_stalled: Notify,
    pub(crate) prefix: &'static str,
}

impl Shelf {
    pub(crate) fn new() -> Arc<Self> {
        Self::answering("")
    }

    pub(crate) fn answering(prefix: &'static str) -> Arc<Self> {
        Arc::new(Self {
            calls: Mutex::default(),
            meeting: Barrier::new(2),
            second_is_done: Notify::new(),
            is_stalled: Notify::new(),
            prefix,
        })
    }

    /// What people had said when the calls came.
    pub(crate) fn said(&self) -> Vec<Arc<Said>> {
        self.calls.lock().unwrap().iter().map(|call| Arc::clone(&call.said)).collect()
    }

    pub(crate) fn called(&self) -> Vec<String> {
        self.calls.lock().unwrap().iter().map(|call| format!("{} {} {}", call.id, call.name, call.arguments)).collect()
    }
}

pub(crate) fn caller() -> Caller {
    Caller::new("tester", "developer", Surface::Agent)
}

fn fresh() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl Door for Shelf {
    fn list<'a>(&'a self, _caller: &'a Caller) -> BoxFuture<'a, Vec<Arc<ToolDefinition>>> {
        let names = ["ask", "cut", "echo", "meet", "stall"];
        Box::pin(async move { names.map(|name| Arc::new(ToolDefinition::new(name, "Does it."))).to_vec() })
    }

    fn call<'a>(&'a self, _caller: &'a Caller, call: Call) -> BoxFuture<'a, Outcome> {
        Box::pin(async move {
            let (id, name, arguments) = (call.id.clone(), call.name.clone(), call.arguments.clone());
            let refusal = call.refusal.clone();
            if refusal.is_none() {
                let mut calls = self.calls.lock().unwrap();
                calls.push(call);
                let ids: HashSet<&str> = calls.iter().map(|call| call.id.as_str()).collect();
                assert!(ids.len() == calls.len() && !ids.contains(""), "each call has an id of its own");
            }
            let text =
                |text: String| End::Done(CallResult { content: vec![Content::Text(text)], ..CallResult::default() });
            let end = match name.as_str() {
                _ if refusal.is_some() => refusal.map(End::from_error).unwrap(),
                "echo" => text(format!("{}{arguments}", self.prefix)),
                "meet" => {
                    self.meeting.wait().await;
                    if arguments.contains("first") {
                        self.second_is_done.notified().await;
                    } else {
                        self.second_is_done.notify_one();
                    }
                    text(format!("met {arguments}"))
                }
                "stall" => {
                    self.is_stalled.notify_one();
                    std::future::pending().await
                }
                "cut" => {
                    text(format!("{}shown 1 of 9, the rest: res_0197c0de0000700080000000{:08x}", self.prefix, fresh()))
                }
                "ask" => {
                    let id = ApprovalId::new(format!("0197c0de-0000-7000-8000-0000{:08x}", fresh()));
                    let expires = format!("2027-01-01T00:00:00.{:06}Z", fresh());
                    let message = format!("a human must say yes to {id} before {expires}");
                    End::Waiting(
                        Waiting { kind: WaitingKind::Approval, id, expires },
                        ErrorObject::new(Code::ApprovalRequired, message),
                    )
                }
                _ => End::from_error(ErrorObject::new(Code::UnknownTool, format!("no tool is named `{name}`"))),
            };
            Outcome {
                call_id: id,
                attempt: None,
                tool: name,
                duration_ms: 0,
                end,
                repairs: Vec::new(),
                replayed: false,
            }
        })
    }
}

/// A door that keeps what it was asked, with a tool that echoes, one that fails and one that draws.
pub(crate) fn recording() -> Arc<RecordingDoor> {
    let tool = |name: &str| ToolDefinition::new(name, "Does it.");
    let image = || Content::Other(json!({ "type": "image", "mimeType": "image/png", "data": "aGk=" }));
    let door = RecordingDoor::new()
        .tool(tool("echo"), |arguments| Ok(ToolOutput::text(arguments.to_string())))
        .tool(tool("fail"), |_| Err(ToolError::new("it is broken")))
        .tool(tool("draw"), move |_| {
            Ok(ToolOutput { content: vec![Content::Text("a cup".into()), image()], structured: None, raw: None })
        });
    Arc::new(door)
}
