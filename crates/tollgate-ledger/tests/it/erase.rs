//! Content goes, and the chain stays: what is left is what a record says that it is, whoever looks, and whenever a process
//! dies.

use jiff::tz::TimeZone;
use proptest::prelude::*;
use tollgate_ledger::{
    Durability, Entry, Erasable, EraseOrder, Erased, Event, ExportFormat, FaultKind, Filter, Index, LedgerError, Level,
    OutcomeRef, View, abridge, prove, read, tail, verifier_key, verify, would_erase,
};
use tollgate_types::{Caller, Status, Surface};

use super::*;
use crate::checkpoints::{copy, notes};
use crate::proof::{check, repository};
use crate::rotate::set_clock;

/// An attempt of three records, with a text of its own in its arguments and in its result.
fn attempt(number: usize, subject: &str) -> Vec<Entry> {
    let id = format!("attempt-{number}");
    let caller = Arc::new(Caller::new(subject, "clerk", Surface::Cli));
    let text = serde_json::json!({ "text": format!("{subject}的第{number}件事") });
    let mut entries = [Event::Received, Event::Started, Event::Finished].map(|event| entry(event, &id));
    for entry in &mut entries {
        entry.caller = Some(Arc::clone(&caller));
    }
    entries[0].arguments = Some(abridge(&text));
    entries[0].key = Some(format!("key-{number}"));
    entries[2].result = Some(abridge(&text));
    entries[2].outcome = Some(OutcomeRef { status: Status::Done, code: None, tool_code: None, retryable: None });
    entries.into()
}

pub(crate) const SUBJECTS: [&str; 3] = ["王小明", "alice", "bob"];

/// A ledger of a few segments, whose attempts belong to three callers by turns.
pub(crate) async fn written(data_dir: &Path, attempts: usize) -> Arc<Ledger> {
    let ledger = open_small(data_dir);
    for number in 0..attempts {
        ledger.append(attempt(number, SUBJECTS[number % 3]), Durability::Batched).await.unwrap();
    }
    ledger.checkpoint_now().await.unwrap();
    Arc::new(ledger)
}

pub(crate) fn of(words: &[(&str, &str)]) -> Erasable {
    let now = clock().now().to_zoned_datetime(TimeZone::UTC);
    let mut filter = Filter::default();
    words.iter().for_each(|(name, text)| filter.set(name, text, &now).unwrap());
    Erasable::Attempts(Box::new(filter))
}

fn order(what: Erasable, level: Level) -> EraseOrder {
    EraseOrder { what, chosen: "caller".into(), level, by: "carol".into(), reason: "she asked for it".into() }
}

pub(crate) fn erased(ledger: &Arc<Ledger>, what: Erasable, level: Level) -> Result<Erased, LedgerError> {
    let (ledger, order) = (Arc::clone(ledger), order(what, level));
    std::thread::spawn(move || ledger.erase(&order)).join().unwrap()
}

pub(crate) fn hashes(data_dir: &Path) -> Vec<Value> {
    read(data_dir).map(|record| record.unwrap().get("hash").unwrap().clone()).collect()
}

/// Files of the data folder, whatever they are, that hold this text.
pub(crate) fn holders(data_dir: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(data_dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(holders(&path, text)),
            false if fs::read(&path).unwrap().windows(text.len()).any(|it| it == text.as_bytes()) => found.push(path),
            false => {}
        }
    }
    found
}

/// What a verifier in Python comes to.
#[expect(clippy::disallowed_methods, reason = "the verifier is a program of its own")]
fn python(program: &str, arguments: &[&str]) -> (Option<i32>, Value) {
    let done =
        Command::new("python3").arg(repository().join("examples").join(program)).args(arguments).output().unwrap();
    (done.status.code(), serde_json::from_slice(&done.stdout).map_err(|error| format!("{error}: {done:?}")).unwrap())
}

pub(crate) fn both_verify(data_dir: &Path) {
    let report = verify(data_dir).unwrap();
    assert!(report.ok, "{report:?}");
    let folder = data_dir.to_str().unwrap();
    let (code, said) = python("verify_ledger.py", &[folder]);
    assert_eq!((code, &said["head"]), (Some(0), &Value::from(report.head)), "{said}");
    let (code, said) = python("verify_checkpoints.py", &[folder, &verifier_key(data_dir).unwrap().to_string()]);
    assert_eq!(code, Some(0), "{said}");
}

#[tokio::test]
async fn the_content_of_one_person_goes_and_the_chain_stays() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = written(folder.path(), 12).await;
    assert!(segments(folder.path()).len() > 3);
    let (before, signed) = (hashes(folder.path()), notes(folder.path()));
    let (key, proof) = (verifier_key(folder.path()).unwrap(), prove(folder.path(), 1, None).unwrap());
    drop(Index::open(folder.path(), &mut |_, _| {}).unwrap());

    let what = of(&[("caller", SUBJECTS[0])]);
    let would = would_erase(folder.path(), &what, Level::Contents).unwrap();
    assert_eq!((would.records, would.attempts.len(), hashes(folder.path())), (12, 4, before.clone()), "only a look");
    assert_eq!(holders(folder.path(), "的第0件事").len(), 1);
    let done = erased(&ledger, what, Level::Contents).unwrap();
    assert_eq!((done.records, done.attempts.len(), done.under_way), (12, 4, 0));

    let report = verify(folder.path()).unwrap();
    let left = report.erased.unwrap();
    assert_eq!((left.records, left.erasures, left.undone), (12, done.erasures.len() as u64, 0), "{report:?}");
    both_verify(folder.path());
    let after = hashes(folder.path());
    assert_eq!(after[..before.len()], before, "digests stay");
    assert_eq!(notes(folder.path())[..signed.len()], signed, "and so does what was signed over them");
    for number in [0, 3, 6, 9] {
        for text in [format!("的第{number}件事"), format!("key-{number}\"")] {
            assert_eq!(holders(folder.path(), &text), [] as [PathBuf; 0], "{text}");
        }
    }
    assert_eq!(holders(folder.path(), "的第1件事").len(), 1, "others' stays");

    let records: Vec<_> = read(folder.path()).map(Result::unwrap).collect();
    let said: Vec<&Value> = records.iter().filter_map(|record| record.get("erasure")).collect();
    assert_eq!(said.len(), done.erasures.len());
    assert_eq!((&said[0]["by"], &said[0]["reason"]), (&Value::from("carol"), &Value::from("she asked for it")));
    assert!(check(&key, &serde_json::to_value(&proof).unwrap()).0, "a proof that was handed out holds");
    let (holds, said) = check(&key, &serde_json::to_value(prove(folder.path(), 1, None).unwrap()).unwrap());
    assert!(holds && said.contains("\"erased\": true"), "{said}");
    drop(ledger);
    drop(open(folder.path()));
}

#[tokio::test]
async fn what_is_erased_is_found_shown_and_exported_as_that() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = written(folder.path(), 6).await;
    let mut old = Index::open(folder.path(), &mut |_, _| {}).unwrap();
    erased(&ledger, of(&[("caller", "alice")]), Level::Contents).unwrap();
    let alice = Filter::clone(match &of(&[("caller", "alice")]) {
        Erasable::Attempts(filter) => filter,
        Erasable::Before(_) => panic!(),
    });
    // One that has the index open finds out that records stand elsewhere.
    let found = old.find(&alice, View::Attempts, 10, None).unwrap().found;
    assert!(found.len() == 2 && found.iter().all(|found| found.attempt.erased && found.attempt.status == "done"));
    erased(&ledger, of(&[("caller", "alice")]), Level::Whole).unwrap();
    let mut index = Index::open(folder.path(), &mut |_, _| {}).unwrap();
    assert_eq!(index.find(&alice, View::Attempts, 10, None).unwrap().found.len(), 0, "nobody is named");
    assert_eq!(holders(folder.path(), "alice"), [] as [PathBuf; 0]);
    let one = index.attempt_by("attempt-1").unwrap().attempt;
    assert!(one.erased && one.status == "done" && one.caller.subject.is_empty(), "{one:?}");
    let summary = index.summary(&Filter::default(), &TimeZone::UTC).unwrap();
    assert_eq!((summary.attempts, summary.erased), (6, 2));
    assert!(summary.callers.iter().any(|count| count.name == "erased" && count.count == 2), "{summary:?}");
    for format in [ExportFormat::Csv, ExportFormat::Ocsf, ExportFormat::Jsonl, ExportFormat::Parquet] {
        let mut out = Vec::new();
        index.export(&Filter::default(), format, &mut out).unwrap();
        assert!(out.windows(6).any(|it| it == b"erased"), "{format:?}");
    }
    both_verify(folder.path());
}

#[tokio::test]
async fn the_rest_of_a_record_goes_later() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = written(folder.path(), 9).await;
    for (level, records) in [(Level::Contents, 27), (Level::Contents, 0), (Level::Whole, 27), (Level::Contents, 0)] {
        let end = Timestamp::from_second(2_000_000_000).unwrap();
        assert_eq!(erased(&ledger, Erasable::Before(end), level).unwrap().records, records, "{level}");
        both_verify(folder.path());
    }
    assert_eq!(holders(folder.path(), "clerk"), [] as [PathBuf; 0]);
    let said = read(folder.path()).filter(|record| record.as_ref().unwrap().get("erasure").is_some()).count();
    assert!(said > 2, "what the ledger says of itself stays");
}

#[tokio::test]
async fn content_that_goes_without_a_word_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = written(folder.path(), 6).await;
    let intact = lines(folder.path());
    erased(&ledger, of(&[("caller", "alice")]), Level::Contents).unwrap();
    let contents = lines(folder.path());
    erased(&ledger, of(&[("attempt", "attempt-1")]), Level::Whole).unwrap();
    drop(ledger);
    let original = lines(folder.path());
    // Record 4 is the first of alice's, 5 the second; 13 is of her other attempt.
    let id = |line: &str| line.split("\"by\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let blank = |line: &str, mark: &str| {
        let (opening, rest) = line.split_once(",\"boot\"").unwrap();
        format!("{opening},\"erased\":{mark},\"boot\"{rest}")
    };
    type Tamper<'a> = Box<dyn Fn(&mut Vec<String>) + 'a>;
    let mark = |by: &str| format!(r#"{{"by":"{by}","level":"contents"}}"#);
    let cases: Vec<(&str, Tamper<'_>, u64)> = vec![
        ("with a mark that nobody made", Box::new(|it| it[0] = blank(&intact[0], &mark("e"))), 1),
        ("with another's mark", Box::new(|it| it[0] = blank(&intact[0], &mark(&id(&original[12])))), 1),
        ("what was left is changed", Box::new(|it| it[12] = it[12].replace("alice", "carol")), 13),
        ("what was left is less", Box::new(|it| it[12] = it[12].replace("\"role\":\"clerk\",", "")), 13),
        ("an earlier mark is gone", Box::new(|it| it[3] = it[3].replace("\"before\":", "\"Before\":")), 4),
        ("what was left is back", Box::new(|it| it[3].clone_from(&contents[3])), 4),
        ("a mark that cannot be read", Box::new(|it| it[12] = it[12].replace("\"level\":\"contents\"", "\"l\":1")), 13),
    ];
    for (name, tamper, seq) in cases {
        let mut lines = original.clone();
        tamper(&mut lines);
        assert_ne!(lines, original, "{name}");
        let copied = tempfile::tempdir().unwrap();
        copy(folder.path(), copied.path());
        for (at, path) in segments(copied.path()).iter().enumerate() {
            let next = segments(copied.path()).get(at + 1).map_or(lines.len() + 1, |next| first_of(next) as usize);
            fs::remove_file(path).unwrap();
            fs::write(path, lines[first_of(path) as usize - 1..next - 1].join("\n") + "\n").unwrap();
        }
        let fault = verify(copied.path()).unwrap().fault.unwrap_or_else(|| panic!("{name}"));
        let is_told = matches!(fault.kind, FaultKind::Erased | FaultKind::Changed);
        assert!(is_told && fault.seq == seq, "{name}: {fault:?}");
        let (code, said) = python("verify_ledger.py", &[copied.path().to_str().unwrap()]);
        assert_eq!((code, &said["fault"]["seq"]), (Some(1), &Value::from(seq)), "{name}: {said}");
    }
}

#[tokio::test]
async fn whenever_a_process_dies_nothing_is_lost_and_the_next_one_finishes() {
    let (folder, before) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let ledger = written(folder.path(), 6).await;
    copy(folder.path(), before.path());
    let done = erased(&ledger, of(&[("caller", "alice")]), Level::Contents).unwrap();
    drop(ledger);
    let after = lines(folder.path());
    let aside = |first: u64, id: &str| format!("audit/segment-{first:012}-{id}.erasing");

    // Said, and nothing put in its place: each segment is as it was, its new form beside it.
    let said = tempfile::tempdir().unwrap();
    copy(folder.path(), said.path());
    let mut ids = done.erasures.iter();
    for path in segments(said.path()) {
        let old = before.path().join("audit").join(path.file_name().unwrap());
        let is_same = |old: &Path| fs::read(old).unwrap() == fs::read(&path).unwrap();
        if !old.exists() || is_same(&old) || fs::read_to_string(&path).unwrap().contains("\"erasure\"") {
            continue;
        }
        let Some(id) = ids.next() else { break };
        fs::rename(&path, said.path().join(aside(first_of(&path), id))).unwrap();
        fs::copy(old, &path).unwrap();
    }
    assert_eq!(ids.next(), None);
    // And one that nobody spoke of.
    fs::write(said.path().join(aside(1, "unsaid")), "half a li").unwrap();
    let report = verify(said.path()).unwrap();
    assert!(report.ok && report.erased.unwrap().undone == done.erasures.len() as u64, "{report:?}");
    assert_eq!(python("verify_ledger.py", &[said.path().to_str().unwrap()]).0, Some(0));
    let next = Arc::new(open(said.path()).0);
    std::thread::spawn(move || next.finish_erasing()).join().unwrap().unwrap();
    assert_eq!(lines(said.path())[..after.len()], after);
    assert_eq!(verify(said.path()).unwrap().erased.unwrap().undone, 0);
    both_verify(said.path());
    let names = fs::read_dir(said.path().join("audit")).unwrap().map(|it| it.unwrap().file_name());
    assert!(names.into_iter().all(|name| !name.to_str().unwrap().ends_with(".erasing")));
}

#[tokio::test]
async fn others_go_on_meanwhile_and_what_they_leave_is_still_recovered() {
    let folder = tempfile::tempdir().unwrap();
    let (first, _) = open(folder.path());
    first.append(attempt(0, "alice"), Durability::Batched).await.unwrap();
    // This one begins in the middle of a segment that gets shorter.
    let (second, _) = open(folder.path());
    second.append(vec![entry(Event::Received, "under-way")], Durability::Batched).await.unwrap();
    let (_, mut follower) = tail(folder.path(), 0).unwrap();
    first.append(attempt(1, "alice"), Durability::Batched).await.unwrap();
    assert_eq!(follower.poll_new().unwrap().len(), 3);
    let first = Arc::new(first);
    let what = Erasable::Before(Timestamp::from_second(2_000_000_000).unwrap());
    assert_eq!(erased(&first, what, Level::Contents).unwrap().records, 7);
    second.append(attempt(2, "bob"), Durability::Strict).await.unwrap();
    first.append(attempt(3, "bob"), Durability::Batched).await.unwrap();
    let events: Vec<_> = follower.poll_new().unwrap().iter().map(|record| record.event().unwrap()).collect();
    assert_eq!((events.len(), events[0]), (7, Event::Recovered), "{events:?}");

    // Both die.
    let dead = tempfile::tempdir().unwrap();
    copy(folder.path(), dead.path());
    let (ledger, recovery) = open(dead.path());
    assert_eq!(recovery.never_started.iter().map(ToString::to_string).collect::<Vec<_>>(), ["under-way"]);
    drop(ledger);
    both_verify(dead.path());
}

#[tokio::test]
async fn who_is_under_way_keeps_its_records_and_damage_is_not_covered_up() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = written(folder.path(), 3).await;
    let mut open = attempt(3, "alice");
    open.truncate(1);
    ledger.append(open, Durability::Batched).await.unwrap();
    let done = erased(&ledger, of(&[("caller", "alice")]), Level::Whole).unwrap();
    assert_eq!((done.records, done.under_way), (3, 1));
    assert_eq!(holders(folder.path(), "的第3件事").len(), 1);

    let path = &segments(folder.path())[0];
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains("的第0件事"));
    fs::remove_file(path).unwrap();
    fs::write(path, text.replace("的第0件事", "的第9件事")).unwrap();
    let refused = erased(&ledger, of(&[("caller", SUBJECTS[0])]), Level::Contents).unwrap_err();
    assert!(matches!(refused, LedgerError::Damaged { seq: 1, .. }), "{refused}");
    assert!(fs::read_to_string(path).unwrap().contains("的第9件事"));
}

#[tokio::test]
async fn what_is_old_goes_and_what_is_not_stays() {
    let folder = tempfile::tempdir().unwrap();
    let clock = set_clock();
    let ledger = Ledger::open_with(folder.path(), Arc::clone(&clock) as _, Options::default()).unwrap().0;
    for number in 0..10 {
        ledger.append(attempt(number, "alice"), Durability::Batched).await.unwrap();
        clock.go(86_400);
    }
    let ledger = Arc::new(ledger);
    // It is day 10; four days are kept of contents, eight of the rest.
    for _ in 0..2 {
        for (days, level) in [(4, Level::Contents), (8, Level::Whole)] {
            let end = clock.now() - Duration::from_secs(days * 86_400);
            erased(&ledger, Erasable::Before(end), level).unwrap();
        }
    }
    both_verify(folder.path());
    let report = verify(folder.path()).unwrap();
    assert_eq!((report.erased.unwrap().records, report.erased.unwrap().erasures), (18, 2), "nothing is said twice");
    let mut index = Index::open(folder.path(), &mut |_, _| {}).unwrap();
    let mut shown = |number: usize| {
        let found = index.attempt_by(&format!("attempt-{number}")).unwrap();
        (found.attempt.caller.subject, found.records[0].get("arguments").is_some())
    };
    assert_eq!([0, 1].map(&mut shown), [(String::new(), false), (String::new(), false)]);
    assert_eq!([2, 5].map(&mut shown), [("alice".to_owned(), false), ("alice".to_owned(), false)]);
    assert_eq!([6, 9].map(&mut shown), [("alice".to_owned(), true), ("alice".to_owned(), true)]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever is erased, in whatever order: the hashes stay, the check holds, and what is gone is gone.
    #[test]
    fn any_erasures_keep_the_chain(steps in proptest::collection::vec((0..8_usize, any::<bool>()), 1..6)) {
        let folder = tempfile::tempdir().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let ledger = runtime.block_on(written(folder.path(), 8));
        let before = hashes(folder.path());
        for (number, is_whole) in steps {
            let level = if is_whole { Level::Whole } else { Level::Contents };
            erased(&ledger, of(&[("attempt", &format!("attempt-{number}"))]), level).unwrap();
            prop_assert!(verify(folder.path()).unwrap().ok);
            prop_assert_eq!(&hashes(folder.path())[..before.len()], &before[..]);
            let left = holders(folder.path(), &format!("的第{number}件事"));
            prop_assert!(left.is_empty(), "{:?}", left);
        }
    }
}
