//! The questions under way on one connection. Ids are ours; an answer to none of them changes nothing.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::oneshot;
use tollgate_types::ProgressUpdate;

use super::fault::Fault;
use super::hearing::{Ear, Listener};
use super::message::{Answer, Ask};

/// The questions under way.
#[derive(Debug, Default)]
pub(super) struct Pending(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    issued: u64,
    waiting: HashMap<String, Waiter>,
    closed: Option<String>,
    probe: Option<String>,
    late_discovery: bool,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    answer: oneshot::Sender<Result<Answer, Fault>>,
    listener: Listener,
}

/// A question's place in the table.
#[derive(Debug)]
pub(super) struct Ticket {
    /// The id as raw JSON.
    pub(super) id: String,
    /// The same as a number.
    pub(super) number: u64,
    /// Where the answer comes.
    pub(super) answer: oneshot::Receiver<Result<Answer, Fault>>,
}

/// What became of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settled {
    /// Somebody waited for it.
    Taken,
    /// The id is ours, but was answered already or is not waited for any more.
    Stale,
    /// The id is none of ours.
    Unknown,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Step<'a> {
    #[serde(borrow)]
    progress_token: &'a RawValue,
    progress: f64,
    total: Option<f64>,
    message: Option<String>,
}

impl Pending {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a place for a question. The probe's id is text, so that no number can be mistaken for it.
    pub(super) fn open(&self, ask: Ask<'_>, listener: Listener) -> Result<Ticket, Fault> {
        let mut table = self.table();
        if let Some(reason) = &table.closed {
            return Err(Fault::Closed(reason.clone()));
        }
        table.issued += 1;
        let number = table.issued;
        let id = if matches!(ask, Ask::Discover) { format!("\"probe-{number}\"") } else { number.to_string() };
        if matches!(ask, Ask::Discover) {
            table.probe = Some(id.clone());
        }
        let (sender, answer) = oneshot::channel();
        table.waiting.insert(id.clone(), Waiter { number, answer: sender, listener });
        Ok(Ticket { id, number, answer })
    }

    /// Hands an answer to whoever waits for it.
    pub(super) fn settle(&self, id: &str, answer: Result<Answer, Fault>) -> Settled {
        let mut table = self.table();
        if let Some(waiter) = table.waiting.remove(id) {
            drop(table);
            let _ = waiter.answer.send(answer);
            return Settled::Taken;
        }
        if table.probe.as_deref() == Some(id) {
            table.late_discovery |= matches!(answer, Ok(Ok(_)));
            return Settled::Stale;
        }
        let is_ours = id.parse::<u64>().is_ok_and(|number| (1..=table.issued).contains(&number));
        if is_ours { Settled::Stale } else { Settled::Unknown }
    }

    /// Nobody waits for this answer any more.
    pub(super) fn forget(&self, id: &str) {
        self.table().waiting.remove(id);
    }

    /// Whether the probe was answered well, though too late.
    pub(super) fn discovered_late(&self) -> bool {
        self.table().late_discovery
    }

    /// Hands a step of progress to whoever waits for its question.
    pub(super) fn progress(&self, params: Option<&RawValue>) {
        let Some(step) = params.and_then(|raw| serde_json::from_str::<Step<'_>>(raw.get()).ok()) else { return };
        let listener =
            self.table().waiting.get(step.progress_token.get()).map(|waiter| waiter.listener.progress.clone());
        if let Some(listener) = listener {
            listener.report(ProgressUpdate { progress: step.progress, total: step.total, message: step.message });
        }
    }

    /// Hands what a server agrees to to whoever asked it to tell.
    pub(super) fn acknowledged(&self, params: Option<&RawValue>) {
        #[derive(Deserialize)]
        struct Tagged<'a> {
            #[serde(rename = "_meta", borrow)]
            meta: Meta<'a>,
        }
        #[derive(Deserialize)]
        struct Meta<'a> {
            #[serde(rename = "io.modelcontextprotocol/subscriptionId", borrow)]
            id: &'a RawValue,
        }
        let tagged = params.and_then(|raw| serde_json::from_str::<Tagged<'_>>(raw.get()).ok());
        let acknowledge = tagged
            .and_then(|Tagged { meta }| Some(self.table().waiting.get(meta.id.get())?.listener.acknowledge.clone()));
        if let Some(acknowledge) = acknowledge {
            acknowledge.say(params);
        }
    }

    /// Who hears what the server says beside its answers: whoever asked last. On a pipe it does not say on which call's
    /// behalf it speaks, so that all calls must be one caller's.
    pub(super) fn ear(&self) -> Option<Ear> {
        let table = self.table();
        let calls = || table.waiting.values().filter_map(|waiter| Some((waiter.number, waiter.listener.ear.as_ref()?)));
        let (_, last) = calls().max_by_key(|(number, _)| *number)?;
        calls().all(|(_, ear)| ear.caller == last.caller).then(|| last.clone())
    }

    /// The connection is over: nobody is answered any more, and nobody asks.
    pub(super) fn close(&self, reason: &str) {
        let mut table = self.table();
        table.closed.get_or_insert_with(|| reason.to_owned());
        let waiting = std::mem::take(&mut table.waiting);
        drop(table);
        for waiter in waiting.into_values() {
            let _ = waiter.answer.send(Err(Fault::Closed(reason.to_owned())));
        }
    }
}
