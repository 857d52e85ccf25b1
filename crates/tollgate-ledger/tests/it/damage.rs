//! What was done to the record is found and named; what a dying writer left is mended.

use std::fs::OpenOptions;

use tollgate_ledger::{Durability, Event, FaultKind, LedgerError, verify};

use super::*;

/// A ledger of 40 records in one segment, as its lines.
async fn written(data_dir: &Path) -> Vec<String> {
    let (ledger, _) = open(data_dir);
    fill(&ledger, 40).await;
    drop(ledger);
    lines(data_dir)
}

fn write(data_dir: &Path, lines: &[String]) {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(&segments(data_dir)[0], text).unwrap();
}

/// Seals a changed line anew, as somebody would who knows the format.
fn reseal(line: &str) -> String {
    let (body, _) = line.rsplit_once(",\"hash\"").unwrap();
    format!("{body},\"hash\":\"{}\"}}", sha256(body))
}

#[tokio::test]
async fn tampering_is_found_and_named() {
    type Tamper = fn(&mut Vec<String>);
    let cases: [(&str, Tamper, FaultKind, u64, u64); 15] = [
        ("a changed byte", |it| it[9] = it[9].replace("attempt-9", "attempt-8"), FaultKind::Changed, 10, 10),
        (
            "changed and sealed anew",
            |it| it[9] = reseal(&it[9].replace("attempt-9", "attempt-8")),
            FaultKind::Changed,
            10,
            10,
        ),
        (
            "the first, sealed anew",
            |it| it[0] = reseal(&it[0].replace("attempt-0", "attempt-1")),
            FaultKind::Changed,
            1,
            1,
        ),
        ("the last", |it| it[39] = it[39].replace("attempt-39", "attempt-38"), FaultKind::Changed, 40, 40),
        ("removed", |it| drop(it.remove(9)), FaultKind::Removed, 10, 10),
        ("several removed", |it| drop(it.drain(9..20)), FaultKind::Removed, 10, 10),
        ("the first removed", |it| drop(it.remove(0)), FaultKind::Removed, 1, 1),
        ("neighbours swapped", |it| it.swap(9, 10), FaultKind::Swapped, 10, 10),
        ("far ones swapped", |it| it.swap(9, 30), FaultKind::Swapped, 10, 10),
        (
            "moved to the end",
            |it| {
                let line = it.remove(9);
                it.push(line);
            },
            FaultKind::Swapped,
            10,
            10,
        ),
        ("an early one again", |it| it.insert(20, it[4].clone()), FaultKind::Inserted, 5, 21),
        ("the same one again", |it| it.insert(10, it[9].clone()), FaultKind::Inserted, 10, 11),
        ("a late one early", |it| it.insert(9, it[30].clone()), FaultKind::Inserted, 10, 10),
        ("a foreign line", |it| it.insert(9, "{}".into()), FaultKind::Inserted, 10, 10),
        (
            "a forged one",
            |it| it.insert(9, reseal(&it[9].replace("attempt-9", "attempt-x"))),
            FaultKind::Inserted,
            10,
            10,
        ),
    ];
    let folder = tempfile::tempdir().unwrap();
    let original = written(folder.path()).await;
    for (name, tamper, kind, seq, line) in cases {
        let mut lines = original.clone();
        tamper(&mut lines);
        write(folder.path(), &lines);
        let fault = verify(folder.path()).unwrap().fault.unwrap();
        assert_eq!((fault.kind, fault.seq, fault.line), (kind, seq, line), "{name}: {fault:?}");
        assert_eq!(fault.segment, "segment-000000000001.jsonl");
    }
    write(folder.path(), &original);
    let report = verify(folder.path()).unwrap();
    assert!(report.ok && report.records == 40, "{report:?}");
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["head"], serde_json::from_str::<Value>(&original[39]).unwrap()["hash"]);
}

#[tokio::test]
async fn a_segment_that_is_gone_or_misnamed_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = open_small(folder.path());
    fill(&ledger, 40).await;
    drop(ledger);
    let segments = segments(folder.path());
    let hidden = folder.path().join("hidden");
    for segment in &segments[..segments.len() - 1] {
        fs::rename(segment, &hidden).unwrap();
        let fault = verify(folder.path()).unwrap().fault.unwrap();
        assert_eq!((fault.kind, fault.seq), (FaultKind::Removed, first_of(segment)), "{fault:?}");
        fs::rename(&hidden, segment).unwrap();
    }
    // The last one emptied: its name still says that there were records before it.
    let (last, before) = (&segments[segments.len() - 1], &segments[segments.len() - 2]);
    fs::rename(before, &hidden).unwrap();
    let kept = fs::read(last).unwrap();
    fs::write(last, "").unwrap();
    let fault = verify(folder.path()).unwrap().fault.unwrap();
    assert_eq!((fault.kind, fault.seq), (FaultKind::Removed, first_of(before)), "{fault:?}");
    assert!(matches!(Ledger::open(folder.path(), clock()), Err(LedgerError::Damaged { .. })), "nothing to continue");
    fs::write(last, kept).unwrap();
    fs::rename(&hidden, before).unwrap();
    assert!(verify(folder.path()).unwrap().ok);

    let misnamed = last.with_file_name(format!("segment-{:012}.jsonl", first_of(last) + 1));
    fs::rename(last, misnamed).unwrap();
    let fault = verify(folder.path()).unwrap().fault.unwrap();
    assert_eq!((fault.kind, fault.seq), (FaultKind::Changed, first_of(last)), "{fault:?}");
}

#[tokio::test]
async fn damage_near_the_end_refuses_to_open_and_is_not_touched() {
    type Tamper = fn(&mut Vec<String>);
    let cases: [(&str, Tamper, u64); 4] = [
        ("changed", |it| it[30] = it[30].replace("attempt-30", "attempt-3x"), 31),
        ("the last one changed", |it| it[39] = it[39].replace("attempt-39", "attempt-38"), 40),
        ("removed", |it| drop(it.remove(30)), 31),
        ("zeros, and a record behind them", |it| it[38] = "\0".repeat(9), 39),
    ];
    let folder = tempfile::tempdir().unwrap();
    let original = written(folder.path()).await;
    for (name, tamper, seq) in cases {
        let mut lines = original.clone();
        tamper(&mut lines);
        write(folder.path(), &lines);
        let error = Ledger::open(folder.path(), clock()).unwrap_err();
        let LedgerError::Damaged { seq: found, line, .. } = &error else { panic!("{name}: {error}") };
        assert_eq!((*found, *line), (seq, seq), "{name}: {error}");
        assert!(error.hint().unwrap().contains("`tollgate audit recover`"), "{name}");
        assert_eq!(super::lines(folder.path()), lines, "{name}");
    }
}

#[tokio::test]
async fn opening_reads_only_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open(folder.path());
    fill(&ledger, 400).await;
    drop(ledger);
    let mut lines = lines(folder.path());
    lines[3] = lines[3].replace("attempt-3", "attempt-4");
    write(folder.path(), &lines);
    fill(&open(folder.path()).0, 1).await;
    assert_eq!(verify(folder.path()).unwrap().fault.unwrap().seq, 4);
}

#[tokio::test]
async fn an_unfinished_end_is_moved_away_and_recorded() {
    let cases: [(&str, &[u8]); 4] = [
        ("half a record", br#"{"v":1,"seq":41,"prev":"00"#),
        ("one byte", b"{"),
        ("a page that never reached the disk", &[0; 4096]),
        ("zeros within a line", b"{\"v\":1,\0\0\0\n\0\0\0"),
    ];
    for (name, torn) in cases {
        let folder = tempfile::tempdir().unwrap();
        written(folder.path()).await;
        let segment = &segments(folder.path())[0];
        OpenOptions::new().append(true).open(segment).unwrap().write_all(torn).unwrap();
        let fault = verify(folder.path()).unwrap().fault.unwrap();
        assert_eq!(fault.seq, 41, "{name}: {fault:?}");

        let (ledger, recovery) = open(folder.path());
        assert_eq!(recovery.torn_bytes, torn.len() as u64, "{name}");
        fill(&ledger, 1).await;
        let records = check_chain(folder.path());
        assert_eq!((records.len(), &records[40]["event"]), (42, &Value::from("recovered")), "{name}");
        let note = records[40]["note"].as_str().unwrap();
        let file = note.split('`').nth(1).unwrap();
        assert_eq!(fs::read(folder.path().join("audit").join(file)).unwrap(), torn, "{note}");
        let report = verify(folder.path()).unwrap();
        assert!(report.ok && report.torn_files == 1, "{name}: {report:?}");
    }
}

#[tokio::test]
async fn a_writer_mends_what_another_left_while_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open(folder.path());
    fill(&ledger, 3).await;
    let segment = &segments(folder.path())[0];
    OpenOptions::new().append(true).open(segment).unwrap().write_all(b"{\"v\":1,").unwrap();
    fill(&ledger, 1).await;
    let records = check_chain(folder.path());
    assert_eq!((records.len(), &records[3]["event"]), (5, &Value::from("recovered")));
}

#[tokio::test]
async fn what_happens_to_the_file_of_a_running_writer_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open(folder.path());
    fill(&ledger, 3).await;
    let segment = &segments(folder.path())[0];
    let append = async || ledger.append(vec![entry(Event::Observed, "x")], Durability::Batched).await;
    let original = fs::read(segment).unwrap();
    for tamper in [&original[..original.len() - 1], b"", &[original.as_slice(), b"{}\n"].concat()] {
        fs::write(segment, tamper).unwrap();
        assert!(matches!(append().await, Err(LedgerError::Damaged { .. })));
    }
    fs::write(segment, &original).unwrap();
    assert_eq!(append().await.unwrap().get(), 4);
    fs::remove_file(segment).unwrap();
    assert!(append().await.is_err(), "records must not go into a file that nobody can read");
}

/// What stands in the place of a file is refused at once: no reader and no writer waits for the other end of a pipe.
#[tokio::test]
async fn what_is_no_file_is_refused_and_never_waited_for() {
    use rustix::fs::{CWD, FileType, Mode};

    type Replace = fn(&Path);
    let kinds: [(&str, Replace); 3] = [
        ("a pipe", |path| rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RWXU, 0).unwrap()),
        ("a socket", |path| drop(std::os::unix::net::UnixListener::bind(path).unwrap())),
        ("a folder", |path| fs::create_dir(path).unwrap()),
    ];
    for (name, replace) in kinds {
        for file in ["segment-000000000001.jsonl", "lock", "boot"] {
            let folder = tempfile::tempdir().unwrap();
            written(folder.path()).await;
            let path = match file {
                "boot" => folder.path().join("boot/someone.lock"),
                file => folder.path().join("audit").join(file),
            };
            let _ = fs::remove_file(&path);
            replace(&path);
            let opened = Ledger::open(folder.path(), clock()).map(drop).unwrap_err();
            assert!(matches!(opened, LedgerError::Unavailable { .. }), "{name} as {file}: {opened}");
            if file == "boot" {
                assert!(verify(folder.path()).unwrap().ok, "{name}: a reader does not need the marks of processes");
                continue;
            }
            let error = verify(folder.path()).unwrap_err();
            assert!(matches!(error, LedgerError::Unavailable { .. }), "{name} as {file}: {error}");
            if file != "lock" {
                let error = tollgate_ledger::tail(folder.path(), 3).map(drop).unwrap_err();
                assert!(matches!(error, LedgerError::Unavailable { .. }), "{name}: {error}");
                let error = tollgate_ledger::read(folder.path()).next().unwrap().map(drop).unwrap_err();
                assert!(matches!(error, LedgerError::Unavailable { .. }), "{name}: {error}");
            }
        }
    }
}
