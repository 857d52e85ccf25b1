//! What is signed is what is there; whatever was done to it since is found, also by those who were not there.

use proptest::prelude::*;
use tollgate_ledger::{
    Checkpointing, Covered, Durability, Event, FaultKind, LedgerError, OnDamage, Report, Trust, VerifierKey,
    verifier_key, verify, verify_with,
};

use super::*;

fn checkpoints_file(data_dir: &Path) -> PathBuf {
    data_dir.join("audit/checkpoints")
}

pub(crate) fn checkpoint_lines(data_dir: &Path) -> Vec<String> {
    fs::read_to_string(checkpoints_file(data_dir)).unwrap().lines().map(str::to_owned).collect()
}

pub(crate) fn notes(data_dir: &Path) -> Vec<String> {
    let note = |line: &String| serde_json::from_str::<Value>(line).unwrap()["note"].as_str().unwrap().to_owned();
    checkpoint_lines(data_dir).iter().map(note).collect()
}

/// How many records a note covers.
fn size(note: &str) -> u64 {
    note.lines().nth(1).unwrap().parse().unwrap()
}

/// A ledger whose checkpoints cover 10, 20, …, `tens` times ten records.
pub(crate) async fn signed(data_dir: &Path, tens: usize) {
    let (ledger, _) = open(data_dir);
    for _ in 0..tens {
        fill(&ledger, 10).await;
        ledger.checkpoint_now().await.unwrap();
    }
}

pub(crate) fn covered(report: &Report) -> &Covered {
    report.checkpoints.as_ref().unwrap()
}

pub(crate) fn fault_of(report: Report) -> (FaultKind, u64) {
    let fault = report.fault.unwrap();
    (fault.kind, fault.seq)
}

/// Everything but locks: as a backup has it, or a dead machine's disk.
pub(crate) fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            fs::create_dir_all(&target).unwrap();
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

fn hash_of(parts: &[&[u8]]) -> Vec<u8> {
    Sha256::digest(parts.concat()).to_vec()
}

/// The root of RFC 6962 §2.1 over the records' hashes, by other means than the crate's own.
fn root(hashes: &[Vec<u8>]) -> Vec<u8> {
    match hashes {
        [] => hash_of(&[]),
        [one] => hash_of(&[&[0], one]),
        many => {
            let half = many.len().next_power_of_two() / 2;
            hash_of(&[&[1], &root(&many[..half]), &root(&many[half..])])
        }
    }
}

fn bytes_of(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

/// Each checkpoint says the tree that its records make. Gives the sizes.
pub(crate) fn check_checkpoints(data_dir: &Path) -> Vec<u64> {
    let hashes: Vec<Vec<u8>> =
        check_chain(data_dir).iter().map(|record| bytes_of(record["hash"].as_str().unwrap())).collect();
    let mut sizes = Vec::new();
    for note in notes(data_dir) {
        let root = root(&hashes[..size(&note) as usize]);
        let encoded = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, root);
        assert_eq!(note.lines().nth(2).unwrap(), encoded, "{note}");
        sizes.push(size(&note));
    }
    assert!(sizes.is_sorted());
    sizes
}

#[tokio::test]
async fn checkpoints_are_signed_over_the_tree_of_the_records() {
    let folder = tempfile::tempdir().unwrap();
    signed(folder.path(), 5).await;
    assert_eq!(check_checkpoints(folder.path()), [0, 10, 20, 30, 40, 50]);
    let report = verify(folder.path()).unwrap();
    assert!(report.ok, "{report:?}");
    assert_eq!((covered(&report).count, covered(&report).size, covered(&report).unproven), (6, 50, 0));
    let key = verifier_key(folder.path()).unwrap();
    assert_eq!(covered(&report).key, key.to_string());
    assert!(notes(folder.path())[5].starts_with(&format!("{}\n50\n", key.name())));
    let mode = std::os::unix::fs::PermissionsExt::mode(
        &fs::metadata(folder.path().join("keys/ledger.key")).unwrap().permissions(),
    );
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn the_end_of_a_process_signs_what_it_wrote_and_a_look_signs_nothing() {
    let folder = tempfile::tempdir().unwrap();
    fill(&open(folder.path()).0, 3).await;
    assert_eq!(check_checkpoints(folder.path()), [0, 3]);
    drop(open(folder.path()));
    assert_eq!(check_checkpoints(folder.path()), [0, 3]);
    fill(&open(folder.path()).0, 1).await;
    assert_eq!(check_checkpoints(folder.path()), [0, 3, 4]);
}

#[tokio::test]
async fn a_thousand_records_are_signed_without_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open(folder.path());
    let mut told = ledger.checkpoints();
    let entries = (0..1_000).map(|n| entry(Event::Observed, &n.to_string())).collect();
    ledger.append(entries, Durability::Batched).await.unwrap();
    told.changed().await.unwrap();
    assert_eq!(size(told.borrow().as_deref().unwrap()), 1_000, "the clock of this test stands still");
}

#[tokio::test]
async fn records_are_signed_in_time_and_idleness_too_without_a_growing_file() {
    let folder = tempfile::tempdir().unwrap();
    let checkpointing = Checkpointing { every_ms: 1, idle_ms: 1, ..Checkpointing::default() };
    let options = Options { checkpointing, ..Options::default() };
    let ledger = Ledger::open_with(folder.path(), running_clock(), options).unwrap().0;
    let mut told = ledger.checkpoints();
    fill(&ledger, 1).await;
    let time = |note: &str| note.lines().nth(4).unwrap().to_owned();
    let mut times = std::collections::BTreeSet::new();
    while times.len() < 6 {
        told.changed().await.unwrap();
        times.insert(time(told.borrow_and_update().as_deref().unwrap()));
    }
    drop(ledger);
    let sizes = check_checkpoints(folder.path());
    assert!(sizes.len() <= 4 && sizes.iter().filter(|size| **size == 1).count() == 2, "first and last: {sizes:?}");
    assert!(verify(folder.path()).unwrap().ok);
}

#[tokio::test]
async fn a_ledger_from_before_there_were_checkpoints_is_covered_by_the_first() {
    let folder = tempfile::tempdir().unwrap();
    signed(folder.path(), 3).await;
    fs::remove_dir_all(folder.path().join("keys")).unwrap();
    for name in ["checkpoints", "checkpoints.lock"] {
        fs::remove_file(folder.path().join("audit").join(name)).unwrap();
    }
    let report = verify(folder.path()).unwrap();
    assert!(report.ok && report.checkpoints.is_none(), "{report:?}");
    drop(open(folder.path()));
    assert_eq!(check_checkpoints(folder.path()), [0, 30]);
}

#[tokio::test]
async fn a_key_without_checkpoints_and_checkpoints_without_a_key_are_damage() {
    for gone in ["audit/checkpoints", "keys/ledger.key"] {
        let folder = tempfile::tempdir().unwrap();
        signed(folder.path(), 1).await;
        fs::remove_file(folder.path().join(gone)).unwrap();
        match verify(folder.path()) {
            Ok(report) => assert_eq!(fault_of(report), (FaultKind::Checkpoint, 1)),
            Err(error) => assert!(matches!(error, LedgerError::NoKey), "{error}"),
        }
        let refused = Ledger::open(folder.path(), clock()).map(drop).unwrap_err();
        assert!(matches!(refused, LedgerError::Damaged { .. }), "{gone}: {refused}");
    }
}

#[tokio::test]
async fn a_later_release_is_named() {
    let folder = tempfile::tempdir().unwrap();
    signed(folder.path(), 1).await;
    fs::write(checkpoints_file(folder.path()), "{\"v\":2,\"note\":\"\",\"more\":[]}\n").unwrap();
    for error in
        [verify(folder.path()).map(drop).unwrap_err(), Ledger::open(folder.path(), clock()).map(drop).unwrap_err()]
    {
        assert!(matches!(error, LedgerError::Later { version: 2, .. }), "{error}");
    }
}

#[tokio::test]
async fn what_is_done_to_checkpoints_is_found() {
    type Tamper = fn(&mut Vec<String>);
    let cases: [(&str, Tamper, u64); 6] = [
        ("removed", |it| drop(it.remove(2)), 11),
        ("the first removed", |it| drop(it.remove(0)), 1),
        ("swapped", |it| it.swap(2, 3), 11),
        ("twice", |it| it.insert(3, it[2].clone()), 21),
        ("a foreign line", |it| it.insert(3, "{}".into()), 21),
        ("another frontier", |it| it[3] = it[3].replace("\"frontier\":[\"", "\"frontier\":[\"A"), 21),
    ];
    let folder = tempfile::tempdir().unwrap();
    signed(folder.path(), 5).await;
    let original = checkpoint_lines(folder.path());
    for (name, tamper, seq) in cases {
        let mut lines = original.clone();
        tamper(&mut lines);
        fs::write(checkpoints_file(folder.path()), lines.join("\n") + "\n").unwrap();
        assert_eq!(fault_of(verify(folder.path()).unwrap()), (FaultKind::Checkpoint, seq), "{name}");
    }
}

#[test]
fn any_changed_byte_of_the_checkpoints_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(signed(folder.path(), 4));
    let original = fs::read(checkpoints_file(folder.path())).unwrap();
    let config = ProptestConfig::with_cases(256);
    proptest!(config, |(offset in 0..original.len(), change in 1..=255_u8)| {
        let mut changed = original.clone();
        changed[offset] ^= change;
        fs::write(checkpoints_file(folder.path()), &changed).unwrap();
        // A version of its own is an error that says so; everything else is a fault.
        if let Ok(report) = verify(folder.path()) {
            prop_assert!(!report.ok, "{offset} {change}");
        }
        fs::write(checkpoints_file(folder.path()), &original[..offset]).unwrap();
        let report = verify(folder.path()).unwrap();
        let is_cut_between = offset > 0 && original[offset - 1] == b'\n';
        prop_assert_eq!(report.ok, is_cut_between, "cut at {}: {:?}", offset, report);
        prop_assert!(!report.ok || covered(&report).unproven > 0, "and even that is seen");
    });
}

/// The ledger written anew from record `from` on by somebody who knows the format and has no key.
pub(crate) fn forge(data_dir: &Path, from: usize) {
    let mut prev = "0".repeat(64);
    let mut text = String::new();
    for (at, line) in lines(data_dir).iter().enumerate() {
        let (body, _) = line.rsplit_once(",\"hash\"").unwrap();
        let (start, rest) = body.split_once("\"prev\":\"").unwrap();
        let mut body = format!("{start}\"prev\":\"{prev}{}", rest.get(64..).unwrap());
        if at + 1 == from {
            body = body.replace("observed", "halted");
        }
        prev = sha256(&body);
        text += &format!("{body},\"hash\":\"{prev}\"}}\n");
    }
    fs::write(&segments(data_dir)[0], text).unwrap();
}

#[tokio::test]
async fn a_whole_chain_that_is_not_the_signed_one_is_found() {
    let folder = tempfile::tempdir().unwrap();
    signed(folder.path(), 5).await;
    for (from, seq) in [(1, 1), (10, 1), (11, 11), (37, 31), (50, 41)] {
        let forged = tempfile::tempdir().unwrap();
        copy(folder.path(), forged.path());
        forge(forged.path(), from);
        check_chain(forged.path());
        assert_eq!(fault_of(verify(forged.path()).unwrap()), (FaultKind::Rewritten, seq), "from {from}");
        let refused = Ledger::open(forged.path(), clock()).map(drop).unwrap_err();
        assert!(matches!(refused, LedgerError::Damaged { .. }), "{refused}");
    }
}

#[tokio::test]
async fn what_was_kept_elsewhere_finds_a_cut_a_rollback_and_another_key() {
    let folder = tempfile::tempdir().unwrap();
    signed(folder.path(), 3).await;
    let backup = tempfile::tempdir().unwrap();
    copy(folder.path(), backup.path());
    signed(folder.path(), 2).await;
    let (key, anchor) = (verifier_key(folder.path()).unwrap(), notes(folder.path()).concat());
    let trust = |key: Option<&VerifierKey>, anchor: Option<&str>| Trust {
        key: key.cloned(),
        anchor: anchor.map(str::to_owned),
    };
    let report = verify_with(folder.path(), &trust(Some(&key), Some(&anchor))).unwrap();
    assert!(report.ok && covered(&report).anchored == Some(6), "{report:?}");

    // An older state is whole in itself.
    assert!(verify(backup.path()).unwrap().ok);
    let rolled_back = verify_with(backup.path(), &trust(None, Some(&anchor))).unwrap();
    assert_eq!(fault_of(rolled_back), (FaultKind::Truncated, 31));

    // Cut at the end, with the checkpoints that say so.
    let cut = tempfile::tempdir().unwrap();
    copy(folder.path(), cut.path());
    fs::write(&segments(cut.path())[0], lines(cut.path())[..45].join("\n") + "\n").unwrap();
    assert_eq!(fault_of(verify(cut.path()).unwrap()), (FaultKind::Truncated, 46));
    fs::write(checkpoints_file(cut.path()), checkpoint_lines(cut.path())[..5].join("\n") + "\n").unwrap();
    let report = verify(cut.path()).unwrap();
    assert!(report.ok && covered(&report).unproven == 5, "{report:?}");
    assert_eq!(fault_of(verify_with(cut.path(), &trust(None, Some(&anchor))).unwrap()), (FaultKind::Truncated, 46));

    // Written anew as a whole, with a key of its own.
    let anew = tempfile::tempdir().unwrap();
    signed(anew.path(), 5).await;
    assert!(verify(anew.path()).unwrap().ok);
    assert_eq!(fault_of(verify_with(anew.path(), &trust(Some(&key), None)).unwrap()), (FaultKind::Checkpoint, 1));
    assert_eq!(fault_of(verify_with(anew.path(), &trust(None, Some(&anchor))).unwrap()), (FaultKind::Rewritten, 1));
    // And with the stolen key: whole in itself, and not what was said before.
    let stolen = tempfile::tempdir().unwrap();
    fs::create_dir(stolen.path().join("keys")).unwrap();
    fs::copy(folder.path().join("keys/ledger.key"), stolen.path().join("keys/ledger.key.new")).unwrap();
    let (ledger, _) = open(stolen.path());
    ledger.append((0..60).map(|n| entry(Event::Halted, &n.to_string())).collect(), Durability::Strict).await.unwrap();
    drop(ledger);
    assert!(verify_with(stolen.path(), &trust(Some(&key), None)).unwrap().ok);
    assert_eq!(
        fault_of(verify_with(stolen.path(), &trust(Some(&key), Some(&anchor))).unwrap()),
        (FaultKind::Rewritten, 1)
    );
}

/// As a machine leaves it that lost its power: nobody lives, and the last checkpoint covers 10 of 15 records.
async fn crashed() -> tempfile::TempDir {
    let (folder, copied) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (ledger, _) = open(folder.path());
    fill(&ledger, 10).await;
    ledger.checkpoint_now().await.unwrap();
    fill(&ledger, 5).await;
    copy(folder.path(), copied.path());
    copied
}

#[tokio::test]
async fn behind_the_last_checkpoint_a_bad_record_and_what_follows_is_moved_away_and_recorded() {
    type Tamper = fn(&mut Vec<String>);
    let cases: [(&str, Tamper, usize); 4] = [
        ("changed", |it| it[11] = it[11].replace("attempt-1", "attempt-2"), 11),
        ("removed", |it| drop(it.remove(12)), 12),
        ("a lost page", |it| it[10] = "\0".repeat(100), 10),
        ("a foreign last line", |it| it.push("{}".into()), 15),
    ];
    for (name, tamper, good) in cases {
        let folder = crashed().await;
        let mut lines = lines(folder.path());
        tamper(&mut lines);
        fs::write(&segments(folder.path())[0], lines.join("\n") + "\n").unwrap();
        let (ledger, recovery) = open(folder.path());
        drop(ledger);
        assert!(recovery.torn_bytes > 0, "{name}");
        let records = check_chain(folder.path());
        assert_eq!(records[good]["event"], "recovered", "{name}");
        let file = records[good]["note"].as_str().unwrap().split('`').nth(1).unwrap().to_owned();
        let torn = fs::read_to_string(folder.path().join("audit").join(file)).unwrap();
        assert_eq!(torn, lines[good..].join("\n") + "\n", "{name}: nothing is lost");
        let report = verify(folder.path()).unwrap();
        assert!(report.ok && report.torn_files == 1 && covered(&report).unproven == 0, "{name}: {report:?}");
    }
}

#[tokio::test]
async fn what_others_wrote_is_never_moved_away_while_they_live() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open(folder.path());
    fill(&ledger, 10).await;
    ledger.checkpoint_now().await.unwrap();
    fill(&ledger, 5).await;
    let mut lines = lines(folder.path());
    lines[12] = lines[12].replace("attempt-2", "attempt-3");
    fs::write(&segments(folder.path())[0], lines.join("\n") + "\n").unwrap();
    let refused = Ledger::open(folder.path(), clock()).map(drop).unwrap_err();
    assert!(matches!(refused, LedgerError::Damaged { seq: 13, .. }), "{refused}");
    let options = Options { on_damage: OnDamage::Accept, ..Options::default() };
    let refused = Ledger::open_with(folder.path(), clock(), options).map(drop).unwrap_err();
    assert!(matches!(refused, LedgerError::InUse), "{refused}");
}

#[tokio::test]
async fn damage_to_what_is_covered_refuses_to_open_until_somebody_says_so() {
    type Tamper = fn(&mut Vec<String>);
    let cases: [(&str, Tamper, usize); 3] = [
        ("changed", |it| it[9] = it[9].replace("attempt-9", "attempt-8"), 9),
        ("cut", |it| it.truncate(7), 7),
        ("all gone", |it| it.clear(), 0),
    ];
    for (name, tamper, good) in cases {
        let folder = crashed().await;
        let key = verifier_key(folder.path()).unwrap();
        let mut lines = lines(folder.path());
        tamper(&mut lines);
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(&segments(folder.path())[0], &text).unwrap();
        let refused = Ledger::open(folder.path(), clock()).map(drop).unwrap_err();
        assert!(matches!(refused, LedgerError::Damaged { .. }), "{name}: {refused}");
        assert_eq!(fs::read_to_string(&segments(folder.path())[0]).unwrap(), text, "{name}");

        let options = Options { on_damage: OnDamage::Accept, ..Options::default() };
        drop(Ledger::open_with(folder.path(), clock(), options).unwrap());
        let records = check_chain(folder.path());
        let said: Vec<_> =
            records[good..].iter().filter(|it| it["event"] == "recovered").map(|it| it["note"].to_string()).collect();
        assert!(said.iter().any(|note| note.contains("the operator accepted damage")), "{name}: {said:?}");
        let report = verify(folder.path()).unwrap();
        assert!(report.ok && covered(&report).unproven == 0, "{name}: {report:?}");
        assert_ne!(verifier_key(folder.path()).unwrap(), key, "nobody signs two histories with one key");
        for kept in ["audit/checkpoints-1.old", "keys/ledger-1.key.old"] {
            assert!(folder.path().join(kept).exists(), "{name}: {kept}");
        }
        drop(open(folder.path()));
    }
}

#[tokio::test]
async fn while_no_checkpoint_can_be_written_records_are_taken_only_for_so_long() {
    for (lag_ms, is_taken) in [(60_000, true), (0, false)] {
        let folder = tempfile::tempdir().unwrap();
        let checkpointing = Checkpointing { lag_ms, ..Checkpointing::default() };
        let options = Options { checkpointing, ..Options::default() };
        let ledger = Ledger::open_with(folder.path(), clock(), options).unwrap().0;
        let (file, aside) = (checkpoints_file(folder.path()), folder.path().join("aside"));
        fs::rename(&file, &aside).unwrap();
        fs::create_dir(&file).unwrap();
        fill(&ledger, 1).await;
        assert!(ledger.checkpoint_now().await.is_err() && ledger.checkpoint_failure().is_some());
        let taken = ledger.append(vec![entry(Event::Observed, "x")], Durability::Strict).await;
        match taken {
            Ok(_) => assert!(is_taken),
            Err(error) => assert!(!is_taken && matches!(error, LedgerError::NoCheckpoint { .. }), "{error}"),
        }
        fs::remove_dir(&file).unwrap();
        fs::rename(&aside, &file).unwrap();
        ledger.checkpoint_now().await.unwrap();
        fill(&ledger, 1).await;
        assert!(ledger.checkpoint_failure().is_none());
        drop(ledger);
        assert_eq!(covered(&verify(folder.path()).unwrap()).unproven, 0);
    }
}
