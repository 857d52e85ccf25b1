//! A disk that takes no more, for real: the kernel's own limit on a file's size stops writes in the middle of a record.

use std::process::{Command, Stdio};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tollgate_ledger::{Durability, Event, LedgerError, verify};

use super::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_fills_the_disk_and_frees_it() {
    let Some(data_dir) = child_data_dir() else { return };
    let (ledger, _) = open(&data_dir);
    let free = getrlimit(Resource::Fsize);
    for round in 1..=5_u64 {
        setrlimit(Resource::Fsize, Rlimit { current: Some(round * 5_000), maximum: free.maximum }).unwrap();
        let mut written = 0;
        let refused = loop {
            match ledger.append(vec![entry(Event::Observed, "x"); 3], Durability::Strict).await {
                Ok(_) => written += 1,
                Err(error) => break error,
            }
        };
        assert!(written > 0 && matches!(refused, LedgerError::Unavailable { .. }), "{refused}");
        for _ in 0..3 {
            let three = vec![entry(Event::Observed, "x"); 3];
            assert!(ledger.append(three, Durability::Batched).await.is_err(), "as long as it is full");
        }
        assert_eq!(check_chain(&data_dir).len() % 3, 0, "nothing is left of what was refused");
        // Another process finds a whole ledger, and a full disk.
        assert!(verify(&data_dir).unwrap().ok);
        setrlimit(Resource::Fsize, free).unwrap();
        ledger.append(vec![entry(Event::Observed, "x"); 3], Durability::Strict).await.unwrap();
    }
    say(&format!("{}", check_chain(&data_dir).len()));
}

#[test]
fn a_full_disk_refuses_and_works_again_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let inner = child("disk::child_fills_the_disk_and_frees_it", folder.path());
    // The shell makes the kernel answer with an error instead of a signal.
    let mut command = ignoring_the_size_signal();
    command.arg(inner.get_program()).args(inner.get_args()).env("TOLLGATE_TEST_CHILD", folder.path());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let said = said(child.stdout.take().unwrap());
    assert!(child.wait().unwrap().success());
    assert_eq!(check_chain(folder.path()).len().to_string(), said[0]);
}

#[expect(clippy::disallowed_methods, reason = "a test of processes starts processes")]
fn ignoring_the_size_signal() -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"]);
    command
}

#[test]
fn a_folder_that_cannot_be_written_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    for data_dir in [&file, Path::new("/proc/self"), &folder.path().join("no/such")] {
        let error = Ledger::open(data_dir, clock()).unwrap_err();
        assert!(matches!(error, LedgerError::Unavailable { .. }), "{}: {error}", data_dir.display());
    }
}

#[test]
fn a_symlink_in_the_place_of_a_segment_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let elsewhere = folder.path().join("elsewhere");
    fs::write(&elsewhere, "").unwrap();
    fs::create_dir(folder.path().join("audit")).unwrap();
    std::os::unix::fs::symlink(&elsewhere, folder.path().join("audit/segment-000000000001.jsonl")).unwrap();
    assert!(matches!(Ledger::open(folder.path(), clock()), Err(LedgerError::Unavailable { .. })));
}
