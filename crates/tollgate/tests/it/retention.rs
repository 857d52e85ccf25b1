//! What is older than the configuration says that it is kept goes, and what is not stays.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use serde_json::json;
use tollgate::config::Loaded;
use tollgate::ledger::{read, verify};
use tollgate::{Call, Caller, Clock, Surface, Timestamp, Tollgate};

/// A clock that somebody sets.
struct Set(AtomicI64);

impl Set {
    fn go(&self, days: i64) {
        self.0.fetch_add(days * 86_400, Ordering::Relaxed);
    }
}

impl Clock for Set {
    fn now(&self) -> Timestamp {
        Timestamp::from_second(self.0.load(Ordering::Relaxed)).unwrap()
    }

    fn monotonic(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::Relaxed).unsigned_abs())
    }
}

async fn house(folder: &Path, clock: &Arc<Set>) -> Tollgate {
    let path = folder.join("tollgate.toml");
    let config = "[audit]\nrotate_after = \"1d\"\n[audit.retention]\ncontents = \"4d\"\nkeep = \"8d\"\n";
    std::fs::write(&path, config).unwrap();
    let loaded = Loaded::read(&path, folder).unwrap();
    Tollgate::builder().config(loaded).clock(Arc::clone(clock) as _).build().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_old_goes_by_itself_and_once() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(Set(AtomicI64::new(1_796_000_000)));
    let house = house(folder.path(), &clock).await;
    let caller = Caller::new("alice", "developer", Surface::Library);
    for day in 0..10 {
        let call = Call::tool("calculate", json!({ "expression": format!("{day} + 1000") }));
        assert_eq!(house.call(&caller, call).await.model_text(), (day + 1000).to_string());
        clock.go(1);
    }
    let data_dir = house.data_dir();
    let first = house.retain().await.unwrap();
    assert!(first.ledger.records >= 32, "{first:?}");
    assert_eq!(house.retain().await.unwrap().ledger.records, 0, "once");
    assert!(verify(data_dir).unwrap().ok);
    let text: Vec<String> = read(data_dir).map(|record| record.unwrap().as_value().to_string()).collect();
    let text = text.concat();
    for day in 0..10 {
        assert_eq!(text.contains(&format!("{day} + 1000")), day >= 6, "day {day}");
    }
    assert_eq!(text.matches("\"event\":\"received\"").count(), 10, "that there were calls is known");
    assert_eq!(text.matches("\"level\":\"whole\"").count(), 8 + whole(&first));
    clock.go(1);
    assert!(house.retain().await.unwrap().ledger.records > 0, "the next day goes the next one");
    house.stop().await;
}

/// How many records say that something was erased as a whole.
fn whole(erasing: &tollgate::Erasing) -> usize {
    // Each day has a segment of its own: six lose contents, and of these two the rest.
    erasing.ledger.erasures.len() - 6
}
