//! A call that a server makes a task of (MCP's extension `io.modelcontextprotocol/tasks`): it is asked how the task does until
//! it has ended, and told the client's answers meanwhile. The tasks of 2025-11-25 are waited for by one question.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::sleep;
use tollgate_types::{Code, Cx, GoesOn, ProgressUpdate, ToolError};

use super::fault::Fault;
use super::hearing;
use super::link::Link;
use super::message::{self, Ask, RpcFailure, TaskAsk};
use super::rounds::{self, Asked, Ended, Required, Retry, broken};

/// The pause between two questions, where the server names none, and what it may name.
const POLL: Duration = Duration::from_secs(1);
const POLL_MIN: Duration = Duration::from_millis(50);
const POLL_MAX: Duration = Duration::from_secs(60);
/// Questions in a row that brought no answer before the task is given up.
const FAULTS_MAX: u32 = 5;
/// What a server may ask the client in the course of one task.
const QUESTIONS_MAX: usize = 1_000;
const ID_BYTES_MAX: usize = 1_024;
/// How long a server is waited for to take that nobody wants the task any more.
const CANCEL_WAIT: Duration = Duration::from_millis(500);

/// What a server says of a task.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Task<'a> {
    task_id: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    status_message: Option<String>,
    #[serde(default)]
    last_updated_at: Option<String>,
    #[serde(default)]
    poll_interval_ms: Option<u64>,
    #[serde(borrow, default)]
    input_requests: Option<BTreeMap<String, Asked<'a>>>,
    #[serde(borrow, default)]
    result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    error: Option<&'a RawValue>,
}

/// What tells a task from a result: the one by its type, the one of 2025-11-25 by standing in the result.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Created<'a> {
    #[serde(default)]
    result_type: Option<String>,
    #[serde(borrow, default)]
    task: Option<&'a RawValue>,
}

/// The task of a call, as long as the server works on it.
#[derive(Debug, Default)]
pub(super) struct Open(Mutex<Option<(Arc<Link>, String)>>);

impl Open {
    fn set(&self, task: Option<(Arc<Link>, String)>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = task;
    }

    /// Tells the server that nobody wants the task any more, if it still works on one.
    pub(super) async fn cancel(&self) {
        let open = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((link, id)) = open {
            // It need not honour it, and ends the task by itself one day.
            let _ = link.ask_within(CANCEL_WAIT, Ask::Task { what: TaskAsk::Cancel, id: &id }).await;
        }
    }
}

/// The result of a call, once there is one. `is_wanted`: the call was made to be a task of 2025-11-25.
pub(super) async fn settled(
    link: &Arc<Link>,
    server: &str,
    cx: &Cx,
    answered: Box<RawValue>,
    open: &Open,
    is_wanted: bool,
) -> Result<Box<RawValue>, Ended> {
    let Ok(created) = serde_json::from_str::<Created<'_>>(answered.get()) else { return Ok(answered) };
    let of_old = created.task.filter(|_| is_wanted);
    let task = match (&created.result_type, of_old) {
        (Some(kind), _) if kind == "task" => read(server, &answered)?,
        (None, Some(task)) => read(server, task)?,
        _ => return Ok(answered),
    };
    open.set(Some((Arc::clone(link), task.task_id.clone())));
    let ended = match of_old {
        Some(_) => {
            let ask = Ask::Task { what: TaskAsk::Result, id: &task.task_id };
            hearing::ask(link, ask, server, cx, Arc::default()).await.map_err(Ended::from)
        }
        None => followed(link, server, cx, &task).await,
    };
    if matches!(&ended, Ok(_) | Err(Ended::Fault(Fault::Rpc(_)))) {
        open.set(None);
    }
    ended
}

fn read<'a>(server: &str, raw: &'a RawValue) -> Result<Task<'a>, Ended> {
    let unfit = |what: &str| Ended::Refused(broken(server, &format!("its task can not be read: {what}")));
    let task: Task<'_> = serde_json::from_str(raw.get()).map_err(|error| unfit(&error.to_string()))?;
    if task.task_id.is_empty() || task.task_id.len() > ID_BYTES_MAX {
        return Err(unfit("its name is empty or too long"));
    }
    Ok(task)
}

/// What was heard of a task so far.
struct Heard {
    at: Option<String>,
    message: Option<String>,
    steps: u32,
    asked: BTreeSet<String>,
}

/// Asks until the task has ended.
async fn followed(link: &Link, server: &str, cx: &Cx, begun: &Task<'_>) -> Result<Box<RawValue>, Ended> {
    let mut heard = Heard { at: None, message: None, steps: 0, asked: BTreeSet::new() };
    let (mut pause, mut faults) = (pause(begun), 0);
    heard.of(begun, cx);
    loop {
        sleep(pause).await;
        let ask = Ask::Task { what: TaskAsk::Get, id: &begun.task_id };
        let answer = match hearing::ask(link, ask, server, cx, Arc::default()).await {
            Ok(answer) => answer,
            Err(Fault::Rpc(failure)) => {
                let what = format!("it does not say how the task does: {}", failure.message);
                return Err(Ended::Refused(ToolError { retryable: false, ..broken(server, &what) }.from_outside()));
            }
            Err(fault) if faults == FAULTS_MAX => return Err(fault.into()),
            Err(_) => {
                faults += 1;
                continue;
            }
        };
        faults = 0;
        let task = read(server, &answer)?;
        pause = self::pause(&task);
        heard.of(&task, cx);
        match (task.status.as_str(), task.result, task.error) {
            ("completed", Some(result), _) => return Ok(result.to_owned()),
            ("failed", _, Some(error)) => return Err(failed(cx, message::failure(error))),
            ("cancelled", ..) => {
                let error = ToolError::with_code(Code::UpstreamError, format!("`{server}` cancelled the task"));
                return Err(Ended::Refused(ToolError { retryable: false, ..error }));
            }
            ("working", ..) => {}
            ("input_required", ..) => answered(link, server, cx, task, &mut heard.asked).await?,
            (status, ..) => {
                let what = format!("its task is `{}`, and says no more", status.escape_debug());
                return Err(Ended::Refused(broken(server, &what)));
            }
        }
    }
}

/// An error of the protocol. One that says what the client lacks is the client's own, as without tasks.
fn failed(cx: &Cx, failure: RpcFailure) -> Ended {
    match failure.needs.filter(|kind| !rounds::offers(cx, *kind)) {
        Some(kind) => Ended::Refused(ToolError::client_lacks(kind)),
        None => Fault::Rpc(failure).into(),
    }
}

fn pause(task: &Task<'_>) -> Duration {
    task.poll_interval_ms.map_or(POLL, Duration::from_millis).clamp(POLL_MIN, POLL_MAX)
}

impl Heard {
    /// A task that moves is not silent.
    fn of(&mut self, task: &Task<'_>, cx: &Cx) {
        if self.at == task.last_updated_at && self.message == task.status_message {
            return;
        }
        self.at.clone_from(&task.last_updated_at);
        self.steps += 1;
        match &task.status_message {
            Some(message) if self.message != task.status_message => {
                let (progress, message) = (f64::from(self.steps), Some(message.clone()));
                cx.progress.report(ProgressUpdate { progress, total: None, message });
            }
            _ => cx.progress.alive(),
        }
        self.message.clone_from(&task.status_message);
    }
}

/// Puts to the client what it was not asked yet, and tells the server the answers.
async fn answered(
    link: &Link,
    server: &str,
    cx: &Cx,
    task: Task<'_>,
    asked: &mut BTreeSet<String>,
) -> Result<(), Ended> {
    let mut requests = task.input_requests.unwrap_or_default();
    requests.retain(|key, _| !asked.contains(key));
    if requests.is_empty() {
        return Ok(());
    }
    asked.extend(requests.keys().cloned());
    if asked.len() > QUESTIONS_MAX {
        return Err(Ended::Refused(broken(server, &format!("it asks more than {QUESTIONS_MAX} things"))));
    }
    let retry: Retry =
        rounds::answered(link, server, cx, Required::of(requests), &GoesOn::Here).await.map_err(Ended::Refused)?;
    let ask = Ask::Task { what: TaskAsk::Update, id: &task.task_id };
    hearing::ask(link, ask, server, cx, Arc::new(retry)).await?;
    Ok(())
}
