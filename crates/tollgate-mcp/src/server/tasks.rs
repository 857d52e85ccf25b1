//! The tasks extension (MCP, `io.modelcontextprotocol/tasks`): a call of a client that knows it may go on after its answer,
//! which is then a task that the client asks about. The call stays where it is, on the gate's task; nothing is run again
//! that has begun. What it came to is on the shelf before anybody is told.

mod live;
mod told;
mod wire;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;
use tollgate_types::{
    Call, Caller, CancellationToken, Clock, Code, Door, End, ErrorObject, KeptTask, Outcome, TaskShelf, TaskSupport,
    limits,
};

use super::http::fresh_id;
use super::park::{Passage, Responses};
use super::{Peer, ServerInfo};
use crate::jsonrpc::RpcError;
use live::{Live, Running};
pub(super) use told::{answer, begun};
use wire::Ended;
pub(super) use wire::Task;

/// The extension, as both sides name it.
pub(crate) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// How long calls are waited for, and tasks kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskRules {
    /// A call that takes longer becomes a task.
    pub after: Duration,
    /// How long a task is kept after its end.
    pub keep: Duration,
}

impl Default for TaskRules {
    fn default() -> Self {
        let (after, keep) = (limits::TASK_AFTER_MS, limits::TASK_KEPT_MS);
        Self { after: Duration::from_millis(after), keep: Duration::from_millis(keep) }
    }
}

/// The tasks of all clients.
pub struct Tasks {
    rules: TaskRules,
    clock: Arc<dyn Clock>,
    shelf: Arc<dyn TaskShelf>,
    table: Mutex<Table>,
    /// The process ends: no human is waited for any more.
    closing: CancellationToken,
}

#[derive(Default)]
struct Table {
    open: HashMap<String, Arc<Live>>,
    /// What follows each call. A call that is not followed any more is dropped, and so cancelled.
    running: JoinSet<()>,
}

impl std::fmt::Debug for Tasks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tasks").field("rules", &self.rules).finish_non_exhaustive()
    }
}

/// What a client wants of a task.
#[derive(Debug)]
pub(super) enum Want {
    /// To know how it does.
    Get,
    /// To answer what it asks.
    Update(Responses),
    /// That it ends.
    Cancel,
}

/// That a call may go on as a task.
#[derive(Debug)]
pub(super) struct Offer {
    tasks: Arc<Tasks>,
    info: Arc<ServerInfo>,
    is_at_once: bool,
}

impl Offer {
    /// Whether a call may go on as a task; an error where it can be made in no other way, and its client does not know tasks.
    pub(super) fn to(
        tasks: Option<&Arc<Tasks>>,
        peer: Peer,
        info: &Arc<ServerInfo>,
        support: TaskSupport,
    ) -> Result<Option<Self>, RpcError> {
        match tasks.filter(|_| peer.knows_tasks) {
            None if support == TaskSupport::Required => Err(RpcError::missing_extension(EXTENSION)),
            Some(tasks) if support != TaskSupport::Never => {
                Ok(Some(Self { tasks: Arc::clone(tasks), info: Arc::clone(info), is_at_once: support.is_at_once() }))
            }
            None | Some(_) => Ok(None),
        }
    }

    /// The same for this very call.
    pub(super) fn of(self, door: &Arc<dyn Door>, caller: &Arc<Caller>, call: Call) -> Job {
        let Self { tasks, info, is_at_once } = self;
        let making = Making { door: Arc::clone(door), caller: Arc::clone(caller), call, info };
        Job { tasks, making, is_at_once }
    }
}

/// How a call is made, and told of.
struct Making {
    door: Arc<dyn Door>,
    caller: Arc<Caller>,
    call: Call,
    info: Arc<ServerInfo>,
}

/// A call that may go on as a task.
pub(super) struct Job {
    tasks: Arc<Tasks>,
    making: Making,
    is_at_once: bool,
}

/// Where a call came to.
pub(super) enum Came {
    /// Its end.
    Ended(Box<Outcome>),
    /// It stands still until its client answers.
    Asks(Passage),
    /// It goes on as a task.
    Task(Box<Task>),
}

impl Job {
    /// Goes on until the call ends, asks, or is a task. What its client is asked before that is asked by the answer (MCP
    /// tasks: task creation). Dropping the future cancels the call, unless it is a task by then.
    pub(super) async fn go(self, mut passage: Passage) -> Came {
        let waited = match self.is_at_once {
            true => None,
            false => timeout(self.tasks.rules.after, passage.go()).await.ok(),
        };
        let ended = match waited {
            None => None,
            Some(Some(outcome)) if matches!(outcome.end, End::Waiting(..)) => Some(outcome),
            Some(Some(outcome)) => return Came::Ended(outcome),
            Some(None) => return Came::Asks(passage),
        };
        // A question may have come in the moment before.
        match self.tasks.adopt(self.making, passage, ended).await {
            Ok(task) => Came::Task(task),
            // There is no room: it is waited for, as others are.
            Err((_, Some(outcome))) => Came::Ended(outcome),
            Err((mut passage, None)) => match passage.go().await {
                Some(outcome) => Came::Ended(outcome),
                None => Came::Asks(passage),
            },
        }
    }
}

/// What no task was made of: the call, and how it ended if it waits for a human.
type Refused = (Passage, Option<Box<Outcome>>);

impl Tasks {
    /// No tasks yet but those on the shelf.
    pub fn new(rules: TaskRules, clock: Arc<dyn Clock>, shelf: Arc<dyn TaskShelf>) -> Arc<Self> {
        Arc::new(Self { rules, clock, shelf, table: Mutex::default(), closing: CancellationToken::new() })
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits, but not for long, until what the last calls came to is on the shelf. To be called when no call is under way.
    pub async fn settle(&self) {
        self.closing.cancel();
        let mut running = std::mem::take(&mut self.table().running);
        let ended = async { while running.join_next().await.is_some() {} };
        if timeout(Duration::from_millis(limits::TASK_STOP_MS), ended).await.is_err() {
            tracing::warn!("tasks were still open at the end: their clients will be told that nobody knows their ends");
        }
    }

    /// Makes a task of a call.
    async fn adopt(
        self: &Arc<Self>,
        making: Making,
        mut passage: Passage,
        ended: Option<Box<Outcome>>,
    ) -> Result<Box<Task>, Refused> {
        let Some(id) = fresh_id() else { return Err((passage, ended)) };
        let live = Arc::new(Live::new(&making.caller, Arc::clone(&self.clock), passage.take_open()));
        let Some(place) = self.place(&id, &live) else {
            return Err((live.give_back(passage), ended));
        };
        match self.shelf.begin(&id, &making.caller, live.created()).await {
            Ok(true) => {}
            Ok(false) => return Err((live.give_back(passage), ended)),
            Err(why) => {
                tracing::error!(why, "no task can be kept, and the call is waited for");
                return Err((live.give_back(passage), ended));
            }
        }
        let task = live.task(&id, self.rules.keep);
        let running = Running {
            id,
            live,
            making,
            tasks: Arc::downgrade(self),
            shelf: Arc::clone(&self.shelf),
            closing: self.closing.clone(),
            keep: self.rules.keep,
        };
        place.keep();
        self.table().running.spawn(running.follow(passage, ended));
        Ok(Box::new(task.begun()))
    }

    /// A place for a task, if there is one.
    fn place(self: &Arc<Self>, id: &str, live: &Arc<Live>) -> Option<Place> {
        let mut table = self.table();
        while table.running.try_join_next().is_some() {}
        let now = self.clock.now();
        table.open.retain(|_, live| !live.is_expired(now, self.rules.keep));
        let own = table.open.values().filter(|other| other.is_same_owner(live)).count();
        if table.open.len() >= limits::TASKS_OPEN_MAX || own >= limits::TASKS_OPEN_BY_ONE_MAX {
            return None;
        }
        table.open.insert(id.to_owned(), Arc::clone(live));
        Some(Place { tasks: Arc::clone(self), id: Some(id.to_owned()) })
    }

    fn forget(&self, id: &str) {
        self.table().open.remove(id);
    }

    /// The caller's task of this name that this process runs.
    fn open(&self, id: &str, caller: &Caller) -> Option<Arc<Live>> {
        self.table().open.get(id).filter(|live| live.is_of(caller)).cloned()
    }

    /// The caller's task of this name that this process does not run, or not any more.
    async fn kept(&self, id: &str, caller: &Caller) -> Result<KeptTask, RpcError> {
        let found = self.shelf.find(id, caller, self.clock.now()).await.map_err(|why| {
            tracing::error!(why, "a task cannot be looked up");
            RpcError::internal("tasks cannot be looked up now")
        })?;
        // The same words for one that is another's, is expired, or never was.
        found.ok_or_else(|| RpcError::invalid_params("there is no such task, or it is expired"))
    }

    /// Does what a client wants of a task. Only what it wants to know is told.
    pub(super) async fn serve(&self, id: &str, want: Want, caller: &Caller) -> Result<Option<Task>, RpcError> {
        let Some(live) = self.open(id, caller) else {
            let kept = self.kept(id, caller).await?;
            return match want {
                Want::Get => Ok(Some(kept_task(id, kept))),
                Want::Update(_) | Want::Cancel if kept.end.is_none() && kept.is_alive => {
                    Err(RpcError::refused("another process of this house runs the task: ask there"))
                }
                Want::Update(_) | Want::Cancel => Ok(None),
            };
        };
        match want {
            Want::Get => return Ok(Some(live.task(id, self.rules.keep))),
            Want::Update(responses) => live.answer(responses)?,
            Want::Cancel => live.cancel(),
        }
        Ok(None)
    }
}

/// A task that this process does not run.
fn kept_task(id: &str, kept: KeptTask) -> Task {
    let KeptTask { created, end, expires, is_alive } = kept;
    let (updated, ended) = match end {
        Some((at, text)) => (at, serde_json::from_str(&text).unwrap_or_else(|_| unknown())),
        None if is_alive => (created, Ended::not_yet(None)),
        None => (created, unknown()),
    };
    Task::new(id, created, updated, expires, ended)
}

/// The end of what died with its process. It is not run again.
fn unknown() -> Ended {
    let message = "the process that ran it ended before it did: whether it happened is not known";
    let error = ErrorObject::new(Code::OutcomeUnknown, message).with_hint("look before asking again");
    Ended::failed(&RpcError::refused(message).with_data(&error))
}

/// A place among the open tasks, given back when it is dropped.
struct Place {
    tasks: Arc<Tasks>,
    id: Option<String>,
}

impl Place {
    fn keep(mut self) {
        self.id = None;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(id) = &self.id {
            self.tasks.forget(id);
        }
    }
}
