//! What happens in a house, told to a ledger whose disk may fail at any moment: calls as the gate makes them, a checkpoint,
//! full segments, an end, a death, and a new beginning. It keeps count of what was promised.

use std::collections::{BTreeMap, BTreeSet};

use tollgate_ledger::{LedgerError, verify};
use tollgate_testkit::TestDisk;

use super::*;

/// How a call ended, as the one who asked was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The result, once its record was there.
    Done,
    /// `audit_unavailable`: it did not run.
    Refused,
    /// It ran, and its record could not be written: `outcome_unknown` for a change, `audit_unavailable` for a read.
    Withheld,
}

/// What was promised.
#[derive(Debug, Default, Clone)]
pub(crate) struct Told {
    /// The calls that ran.
    pub(crate) ran: BTreeSet<String>,
    /// Events of calls that were acknowledged as being on the disk.
    pub(crate) durable: BTreeSet<String>,
    /// What was said to be unknown after a death.
    pub(crate) unknown: BTreeSet<String>,
}

pub(crate) struct Story {
    pub(crate) data_dir: PathBuf,
    pub(crate) disk: TestDisk,
    pub(crate) told: Told,
    ledger: Option<Ledger>,
    calls: usize,
}

impl Story {
    pub(crate) fn new(folder: &Path, disk: TestDisk) -> Self {
        Self { data_dir: folder.to_owned(), disk, told: Told::default(), ledger: None, calls: 0 }
    }

    /// The calls that follow are none of those before.
    pub(crate) fn go_on_from(&mut self, call: usize) {
        self.calls = call;
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        self.ledger.as_ref().unwrap()
    }

    pub(crate) fn has_ledger(&self) -> bool {
        self.ledger.is_some()
    }

    pub(crate) fn open(&mut self) -> Result<(), LedgerError> {
        let (segment_bytes_max, reserve_bytes) = (3_000, 4_096);
        let options = Options { segment_bytes_max, reserve_bytes, disk: self.disk.shared(), ..Options::default() };
        let tell = |recovery: &Recovery| {
            self.told.unknown.extend(recovery.unknown.iter().map(|it| it.attempt.as_str().to_owned()));
            Ok(())
        };
        let (ledger, _) = Ledger::open_telling(&self.data_dir, clock(), options, tell)?;
        self.ledger = Some(ledger);
        Ok(())
    }

    /// Ends the ledger as a process does, whose mark stays where a call never ended.
    pub(crate) fn close(&mut self) {
        if let Some(ledger) = self.ledger.take() {
            // A last record that may not be on the disk is one; the next opening looks.
            let _ = ledger.close();
        }
    }

    async fn append(&mut self, entries: Vec<Entry>, durability: Durability) -> Result<(), LedgerError> {
        let names: Vec<_> =
            entries.iter().map(|entry| format!("{} {}", entry.event.as_str(), entry.attempt.as_str())).collect();
        match self.ledger().append(entries, durability).await {
            Ok(_) if durability == Durability::Strict => self.told.durable.extend(names),
            Ok(_) => {}
            Err(error) => {
                assert!(
                    matches!(error, LedgerError::Unavailable { .. }),
                    "a fault of the disk is said to be one: {error}"
                );
                return Err(error);
            }
        }
        Ok(())
    }

    /// Begins a call as the gate does. Whether it runs.
    pub(crate) async fn begin(&mut self, durability: Durability) -> Option<String> {
        self.calls += 1;
        let attempt = format!("attempt-{}", self.calls);
        self.append(vec![entry(Event::Received, &attempt)], Durability::Batched).await.ok()?;
        let started = vec![entry(Event::Decided, &attempt), entry(Event::Started, &attempt)];
        if self.append(started, durability).await.is_err() {
            let _ = self.append(vec![entry(Event::Finished, &attempt)], Durability::Batched).await;
            return None;
        }
        let started = self.events().remove(&attempt).unwrap_or_default();
        assert_eq!(started, ["received", "decided", "started"], "no record, no call");
        self.told.ran.insert(attempt.clone());
        Some(attempt)
    }

    pub(crate) async fn finish(&mut self, attempt: &str, durability: Durability) -> End {
        let mut finished = entry(Event::Finished, attempt);
        finished.note = Some("它做完了".repeat(20));
        match self.append(vec![finished], durability).await {
            Ok(()) => End::Done,
            Err(_) => End::Withheld,
        }
    }

    pub(crate) async fn call(&mut self, durability: Durability) -> End {
        match self.begin(durability).await {
            Some(attempt) => self.finish(&attempt, durability).await,
            None => End::Refused,
        }
    }

    /// The events of each attempt, from the files as they are.
    pub(crate) fn events(&self) -> BTreeMap<String, Vec<String>> {
        events_in(&self.data_dir)
    }
}

pub(crate) fn events_in(data_dir: &Path) -> BTreeMap<String, Vec<String>> {
    let mut events: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in lines(data_dir) {
        let record: Value = serde_json::from_str(&line).unwrap();
        if let (Some(attempt), Some(event)) = (record["attempt"].as_str(), record["event"].as_str()) {
            events.entry(attempt.to_owned()).or_default().push(event.to_owned());
        }
    }
    events
}

/// What must hold of a ledger that nobody has open and in which nothing is left to recover.
pub(crate) fn check_end(data_dir: &Path, told: &Told) {
    check_chain(data_dir);
    let report = verify(data_dir).unwrap();
    assert!(report.ok && report.checkpoints.as_ref().unwrap().unproven == 0, "{report:?}");
    let events = events_in(data_dir);
    for (attempt, events) in &events {
        let count = |wanted: &str| events.iter().filter(|event| *event == wanted).count();
        assert_eq!((count("received"), count("finished")), (1, 1), "{attempt}: {events:?}");
    }
    let there: BTreeSet<_> = events
        .iter()
        .flat_map(|(attempt, events)| events.iter().map(move |event| format!("{event} {attempt}")))
        .collect();
    assert!(told.durable.is_subset(&there), "lost: {:?}", told.durable.difference(&there));
}
