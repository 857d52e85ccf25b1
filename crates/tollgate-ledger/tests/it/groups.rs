//! What waits for the disk goes there together: one write and one sync for all who came while another sync was under way.

use std::io;
use std::sync::{Condvar, Mutex};

use tokio::task::{JoinSet, yield_now};
use tollgate_ledger::{Access, Disk, DiskFile, SystemDisk};

use super::*;

/// Holds up syncs as long as it is closed, and counts them and the writes.
#[derive(Debug, Default)]
struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct State {
    is_closed: bool,
    writes: usize,
    syncs: usize,
}

impl Gate {
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
        changed
    }

    fn wait_until(&self, is_so: impl Fn(&State) -> bool) -> State {
        *self.changed.wait_while(self.state.lock().unwrap(), |state| !is_so(state)).unwrap()
    }
}

#[derive(Debug)]
struct GatedDisk(Arc<Gate>);

#[derive(Debug)]
struct GatedFile(Box<dyn DiskFile>, Arc<Gate>);

impl Disk for GatedDisk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>> {
        let file = SystemDisk.open(path, access)?;
        let is_segment = path.extension().is_some_and(|extension| extension == "jsonl");
        Ok(if is_segment { Box::new(GatedFile(file, Arc::clone(&self.0))) } else { file })
    }
}

impl DiskFile for GatedFile {
    fn file(&self) -> &fs::File {
        self.0.file()
    }

    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        self.1.change(|state| state.writes += 1);
        self.0.append(bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.1.change(|state| state.syncs += 1);
        self.1.wait_until(|state| !state.is_closed);
        self.0.sync_data()
    }
}

#[tokio::test]
async fn all_who_come_during_a_sync_share_the_next_one() {
    let (folder, gate) = (tempfile::tempdir().unwrap(), Arc::new(Gate::default()));
    let options = Options { disk: Arc::new(GatedDisk(Arc::clone(&gate))), ..Options::default() };
    let ledger = Arc::new(Ledger::open_with(folder.path(), clock(), options).unwrap().0);
    ledger.append(vec![entry(Event::Received, "first")], Durability::Strict).await.unwrap();
    // Of two attempts under way neither is alone.
    ledger.append(vec![entry(Event::Received, "second")], Durability::Batched).await.unwrap();
    let before = gate.change(|state| {
        state.is_closed = true;
        state.syncs
    });
    let mut callers = JoinSet::new();
    let mut call = || {
        let ledger = Arc::clone(&ledger);
        callers.spawn(async move { ledger.append(vec![entry(Event::Started, "first")], Durability::Strict).await });
    };
    call();
    yield_now().await;
    let under_way = gate.wait_until(|state| state.syncs > before);
    (0..50).for_each(|_| call());
    yield_now().await;
    ledger.append(vec![entry(Event::Decided, "second")], Durability::Batched).await.unwrap();
    let waiting = gate.change(|state| std::mem::replace(state, State { is_closed: false, ..*state }));
    assert_eq!(
        waiting,
        State { writes: under_way.writes + 1, ..under_way },
        "only who does not wait for the disk writes"
    );
    while let Some(called) = callers.join_next().await {
        called.unwrap().unwrap();
    }
    let all = gate.wait_until(|state| !state.is_closed);
    assert_eq!((all.writes, all.syncs), (waiting.writes + 1, waiting.syncs + 1));
    assert_eq!(check_chain(folder.path()).len(), 54);
}
