//! Whole results: kept once, read in parts, within a quota, and nothing left behind.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::time::Duration;

use jiff::SignedDuration;
use proptest::prelude::*;
use tollgate_store::{Keeping, ResultMeta, Store, StoreError};
use tollgate_types::AttemptId;

use crate::{caller, folder, now};

pub(crate) fn meta(subject: &str, attempt: &str) -> ResultMeta {
    ResultMeta { caller: caller(subject), tool: "read_file".into(), attempt: AttemptId::new(attempt), part: 0 }
}

async fn text(store: &Store, subject: &str, handle: &str) -> Option<String> {
    store.with_result(&caller(subject), handle, now(), |mut kept| kept.text().unwrap()).await.unwrap()
}

fn files(store: &tempfile::TempDir) -> usize {
    fs::read_dir(store.path().join("results")).unwrap().count()
}

#[tokio::test]
async fn the_same_content_is_kept_once_until_nobody_refers_to_it() {
    let (folder, store) = folder();
    let later = now() + SignedDuration::from_hours(24 * 4);
    let one = store.keep_result(meta("bob", "a1"), "same".into(), now()).await.unwrap();
    let two = store.keep_result(meta("carol", "a2"), "same".into(), later).await.unwrap();
    assert_eq!(files(&folder), 1);
    assert!(text(&store, "bob", &two).await.is_none());
    let expired = now() + SignedDuration::from_hours(24 * 8);
    store.keep_result(meta("bob", "a3"), "other".into(), expired).await.unwrap();
    assert!(text(&store, "bob", &one).await.is_none());
    assert_eq!(text(&store, "carol", &two).await.as_deref(), Some("same"));
    let parts = ResultMeta { part: 1, ..meta("bob", "a4") };
    let other = store.keep_result(parts, "a part".into(), now()).await.unwrap();
    let whole = store.keep_result(meta("bob", "a4"), "the whole".into(), now()).await.unwrap();
    assert_ne!(other, whole);
    assert_eq!(text(&store, "bob", &other).await.as_deref(), Some("a part"));
    #[cfg(unix)]
    for file in fs::read_dir(folder.path().join("results")).unwrap() {
        let mode = std::os::unix::fs::PermissionsExt::mode(&file.unwrap().metadata().unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600);
    }
}

#[tokio::test]
async fn beyond_a_quota_the_oldest_go_the_callers_own_first() {
    let (folder, store) = folder();
    let store = store.keeping(Keeping { bytes_max: 50, caller_bytes_max: 30, ..Keeping::default() });
    let mut at = now();
    let mut keep = async |subject: &str, attempt: &str, text: &str| {
        at += SignedDuration::from_secs(1);
        store.keep_result(meta(subject, attempt), text.repeat(10), at).await
    };
    let carols = keep("carol", "a0", "c").await.unwrap();
    let mut bobs = Vec::new();
    for (attempt, text) in [("a1", "1"), ("a2", "2"), ("a3", "3"), ("a4", "4")] {
        bobs.push(keep("bob", attempt, text).await.unwrap());
    }
    assert!(text(&store, "bob", &bobs[0]).await.is_none(), "bob's own oldest");
    assert!(text(&store, "bob", &bobs[1]).await.is_some() && text(&store, "carol", &carols).await.is_some());
    keep("bob", "a5", "4").await.unwrap();
    assert!(text(&store, "bob", &bobs[1]).await.is_some(), "the same content takes no more room");
    keep("dora", "a6", "5").await.unwrap();
    keep("dora", "a7", "6").await.unwrap();
    assert!(text(&store, "carol", &carols).await.is_none(), "the oldest of all");
    let refused = keep("dora", "a8", "1234").await;
    assert!(matches!(refused, Err(StoreError::Limit(_))), "{refused:?}");
    assert_eq!(files(&folder), 5);
}

/// A gigabyte is offered; what is more than may be kept is not written, and nothing is left of it.
#[tokio::test]
async fn what_is_too_much_or_no_text_leaves_nothing() {
    let (folder, store) = folder();
    let store = store.keeping(Keeping { caller_bytes_max: 1 << 20, ..Keeping::default() });
    let endless = io::repeat(b'x').take(1 << 30);
    let refused = store.keep_result_from(meta("bob", "a1"), endless, now()).await;
    assert!(matches!(refused, Err(StoreError::Limit(_))), "{refused:?}");
    let broken = store.keep_result_from(meta("bob", "a1"), &b"caf\xe9"[..], now()).await;
    assert!(broken.unwrap_err().to_string().contains("not UTF-8"));
    assert_eq!(files(&folder), 0);
}

#[tokio::test]
async fn what_a_dead_process_left_is_swept_and_what_one_writes_now_is_not() {
    let (folder, store) = folder();
    store.keep_result(meta("bob", "a1"), "kept".into(), now()).await.unwrap();
    let results = folder.path().join("results");
    for (name, age_s) in [("old-orphan", 7_200_u64), (".half", 7_200), ("new-orphan", 10)] {
        let at = std::time::UNIX_EPOCH + Duration::from_secs(u64::try_from(now().as_second()).unwrap() - age_s);
        File::create(results.join(name)).unwrap().set_modified(at).unwrap();
    }
    let another = Store::new(folder.path());
    another.keep_result(meta("bob", "a2"), "more".into(), now()).await.unwrap();
    let mut left: Vec<_> = fs::read_dir(&results).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left.len(), 3);
    assert!(left.iter().any(|name| name == "new-orphan"), "{left:?}");
}

/// What an older program kept is read as well, and a block that was changed is noticed when it is read.
#[tokio::test]
async fn parts_are_read_and_checked_alone() {
    let (folder, store) = folder();
    let whole: String = (0..40_000).map(|n| format!("第{n}行\n")).collect();
    let handle = store.keep_result(meta("bob", "a1"), whole.clone(), now()).await.unwrap();
    let database = rusqlite::Connection::open(folder.path().join("store.db")).unwrap();
    database.execute("delete from contents", []).unwrap();
    let (end, chars) = (whole.chars().count() as u64 - 7, whole.chars().count() as u64);
    let bob = caller("bob");
    let page = |offset: u64| {
        store.with_result(&bob, &handle, now(), move |mut kept| {
            assert_eq!(kept.chars(), chars);
            kept.page(offset, 7)
        })
    };
    assert_eq!(page(end).await.unwrap().unwrap().unwrap(), "39999行\n");
    assert_eq!(page(chars + 5).await.unwrap().unwrap().unwrap(), "");
    let file = fs::read_dir(folder.path().join("results")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&file).unwrap();
    bytes[70_000] ^= 1;
    fs::write(&file, bytes).unwrap();
    assert!(page(0).await.unwrap().unwrap().is_ok(), "another block");
    assert!(matches!(page(50_000).await.unwrap().unwrap(), Err(StoreError::Corrupt(_))));
    let read =
        store.with_result(&bob, &handle, now(), |kept| BufReader::new(kept).lines().map_while(Result::ok).count());
    assert!(read.await.unwrap().unwrap() < 40_000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// However it is paged, the pages are the whole.
    #[test]
    fn pages_join_to_the_whole(piece in "[a北👍\n]{1,9}", times in 1_usize..20_000, size in 1_000_usize..90_000) {
        let whole = piece.repeat(times);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (_folder, store) = folder();
        let joined = runtime.block_on(async {
            let handle = store.keep_result(meta("bob", "a1"), whole.clone(), now()).await.unwrap();
            let join = move |mut kept: tollgate_store::KeptResult| {
                let mut joined = String::new();
                while (joined.chars().count() as u64) < kept.chars() {
                    joined.push_str(&kept.page(joined.chars().count() as u64, size).unwrap());
                }
                joined
            };
            store.with_result(&caller("bob"), &handle, now(), join).await.unwrap().unwrap()
        });
        prop_assert_eq!(joined, whole);
    }
}
