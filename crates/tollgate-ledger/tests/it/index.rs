//! The index finds what reading the whole ledger finds, whatever became of its file.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::process::Stdio;
use std::sync::atomic::AtomicBool;

use jiff::tz::TimeZone;
use proptest::prelude::*;
use tollgate_ledger::{
    Attempt, DecisionRef, Durability, Entry, Event, Filter, Found, Index, LedgerError, OutcomeRef, ToolRef, View, read,
};
use tollgate_types::{ApprovalId, AttemptId, Caller, Code, Pin, Risk, Status, Surface, uuid_v7};

use super::*;

fn index(data_dir: &Path) -> Index {
    Index::open(data_dir, &mut |_, _| {}).unwrap()
}

fn index_file(data_dir: &Path) -> PathBuf {
    data_dir.join("audit/index.sqlite")
}

fn filter(words: &[(&str, &str)]) -> Filter {
    let now = clock().now().to_zoned_datetime(TimeZone::UTC);
    let mut filter = Filter::default();
    words.iter().for_each(|(name, text)| filter.set(name, text, &now).unwrap());
    filter
}

/// All pages of a query.
fn all(index: &mut Index, filter: &Filter, view: View, limit: usize) -> Vec<Found> {
    let mut found = Vec::new();
    let mut after = None;
    loop {
        let page = index.find(filter, view, limit, after).unwrap();
        found.extend(page.found);
        match page.next {
            Some(next) => after = Some(next),
            None => return found,
        }
    }
}

fn ids(found: &[Found]) -> Vec<String> {
    found.iter().map(|found| found.attempt.attempt.clone()).collect()
}

fn from_start(data_dir: &Path) -> Vec<String> {
    ids(&all(&mut index(data_dir), &Filter::default(), View::Records, 1_000))
}

/// What an attempt is found by, computed from its records as they stand in the segments.
#[derive(Default)]
struct Plain {
    first: Value,
    caller: Value,
    tool: Value,
    risk: Value,
    status: Value,
    code: Value,
    events: Vec<Value>,
}

/// Every attempt and every record without one, the newest first.
fn plainly(data_dir: &Path) -> Vec<Plain> {
    let mut order: Vec<String> = Vec::new();
    let mut plain: BTreeMap<String, Plain> = BTreeMap::new();
    for line in lines(data_dir) {
        let record: Value = serde_json::from_str(&line).unwrap();
        let key = record["attempt"].as_str().map_or_else(|| format!("#{}", record["seq"]), str::to_owned);
        let one = plain.entry(key.clone()).or_insert_with(|| {
            order.push(key.clone());
            let status = if record["attempt"].is_null() { Value::Null } else { "open".into() };
            Plain { first: record.clone(), status, ..Plain::default() }
        });
        one.events.push(record["event"].clone());
        if one.caller.is_null() {
            one.caller = record["caller"].clone();
        }
        if one.tool.is_null()
            || !record["tool"]["pin"].is_null()
            || one.tool["pin"].is_null() && !record["tool"].is_null()
        {
            one.tool = record["tool"].clone();
        }
        if !record["risk"].is_null() {
            one.risk = record["risk"].clone();
        }
        if record["event"] == "waiting" {
            one.status = "waiting".into();
        }
        if ["finished", "settled"].contains(&record["event"].as_str().unwrap()) && !record["outcome"].is_null() {
            one.status = record["outcome"]["status"].clone();
            one.code = record["outcome"]["code"].clone();
        }
    }
    order.iter().rev().map(|key| plain.remove(key).unwrap()).collect()
}

impl Plain {
    fn is(&self, name: &str, text: &str) -> bool {
        let one_of = |value: &Value| text.split(',').any(|word| value == word);
        match name {
            "caller" => one_of(&self.caller["subject"]),
            "role" => one_of(&self.caller["role"]),
            "tenant" => one_of(&self.caller["tenant"]),
            "session" => self.caller["session"] == text,
            "tool" => match text.strip_suffix('*') {
                Some(beginning) => self.tool["name"].as_str().is_some_and(|name| name.starts_with(beginning)),
                None => self.tool["name"] == text,
            },
            "code" => one_of(&self.code),
            "status" => one_of(&self.status),
            "risk" => one_of(&self.risk),
            "event" => self.events.iter().any(one_of),
            "since" => self.first["time"].as_str().unwrap() >= text,
            "until" => self.first["time"].as_str().unwrap() < text,
            _ => unreachable!("{name}"),
        }
    }
}

fn pick(words: &'static [&'static str]) -> impl Strategy<Value = &'static str> {
    proptest::sample::select(words)
}

prop_compose! {
    fn entries()(
        attempt in 0..12_u8,
        event in proptest::sample::select(Event::ALL),
        caller in pick(&["alice", "bob", "<script>", "张三"]),
        role in pick(&["developer", "reader"]),
        tenant in proptest::option::of(pick(&["acme", "initech"])),
        session in proptest::option::of(pick(&["s-1", "s-2"])),
        tool in pick(&["read_file", "read_page", "write_file", "\u{1b}[2J"]),
        has_pin in any::<bool>(),
        has_caller in any::<bool>(),
        risk in proptest::option::of(proptest::sample::select(&[Risk::Read, Risk::Write, Risk::Dangerous][..])),
        outcome in proptest::option::of(pick(&["done", "refused", "failed"])),
    ) -> Entry {
        let of_ledger = matches!(event, Event::Recovered | Event::Halted);
        // Some ids are UUIDs, some are not.
        let id = if attempt % 3 == 0 { format!("a-{attempt}") } else { format!("01934567-89ab-7000-8000-0000000000{attempt:02x}") };
        let mut entry = if of_ledger { Entry::of_ledger(event, "n") } else { entry(event, &id) };
        if has_caller && !of_ledger {
            let mut caller = Caller::new(caller, role, Surface::Rest);
            caller.tenant = tenant.map(str::to_owned);
            caller.session = session.map(str::to_owned);
            entry.caller = Some(Arc::new(caller));
        }
        if !of_ledger {
            entry.tool = Some(ToolRef { name: tool.into(), pin: has_pin.then(|| Pin::new("p")), source: None });
            entry.risk = risk;
        }
        if matches!(event, Event::Finished | Event::Settled) {
            entry.outcome = outcome.map(|status| match status {
                "done" => OutcomeRef { status: Status::Done, code: None, tool_code: None, retryable: None },
                "refused" => OutcomeRef { status: Status::Refused, code: Some(Code::Denied), tool_code: None, retryable: None },
                _ => OutcomeRef { status: Status::Failed, code: Some(Code::Timeout), tool_code: None, retryable: None },
            });
        }
        entry
    }
}

fn words() -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
    let one = |name: &'static str, words: &'static [&'static str]| {
        proptest::option::of(pick(words).prop_map(move |it| (name, it)))
    };
    // The clock of these tests goes on by a microsecond a record.
    let times = &["2026-01-02T03:04:05.000003Z", "2026-01-02T03:04:05.000020Z"][..];
    let late = &["2026-01-02T03:04:05.000030Z", "2026-01-02T03:04:05.000090Z"][..];
    let kinds = (
        one("caller", &["alice", "bob,张三", "<script>", "nobody"]),
        one("role", &["developer", "reader", "developer,reader"]),
        one("tenant", &["acme", "initech"]),
        one("tool", &["read_*", "write_file", "*", "\u{1b}[[]2J"]),
        one("code", &["denied", "timeout,denied"]),
        one("status", &["open", "done", "waiting,refused", "failed"]),
        one("risk", &["read", "write,dangerous"]),
        one("event", &["started", "approved,rejected", "received"]),
        one("session", &["s-1", "s-3"]),
    );
    (kinds, one("since", times), one("until", late), any::<[u8; 2]>()).prop_map(|(kinds, since, until, keep)| {
        let (a, b, c, d, e, f, g, h, i) = kinds;
        let all = [a, b, c, d, e, f, g, h, i];
        // Of many filters at once nothing fits; most cases have one or two.
        let few = all.into_iter().enumerate().filter(|(n, _)| keep.iter().any(|keep| usize::from(keep % 9) == *n));
        few.filter_map(|(_, word)| word).chain(since).chain(until).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_index_finds_what_a_reading_of_all_finds(
        parts in proptest::collection::vec(proptest::collection::vec(entries(), 1..30), 1..4),
        asked in proptest::collection::vec(words(), 1..6),
        limit in 1..7_usize,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let ledger = open_small(folder.path());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        for part in parts {
            for entry in part {
                runtime.block_on(ledger.append(vec![entry], Durability::Batched)).unwrap();
            }
            // Caught up in between, so that attempts go on over several batches.
            index(folder.path());
        }
        let plain = plainly(folder.path());
        let mut index = index(folder.path());
        for words in asked {
            let words: Vec<_> = words.into_iter().map(|(name, text)| (name, if text.contains("[[]") { "\u{1b}*" } else { text })).collect();
            let filter = filter(&words);
            let expected: Vec<&Plain> = plain.iter().filter(|one| words.iter().all(|(name, text)| one.is(name, text))).collect();
            let found = all(&mut index, &filter, View::Records, limit);
            let first = |found: &[Found]| found.iter().map(|found| found.records[0].as_value().clone()).collect::<Vec<_>>();
            prop_assert_eq!(first(&found), expected.iter().map(|one| one.first.clone()).collect::<Vec<_>>(), "{:?}", words);
            let attempts: Vec<_> = expected.iter().filter(|one| !one.first["attempt"].is_null()).map(|one| one.first.clone()).collect();
            prop_assert_eq!(&first(&all(&mut index, &filter, View::Attempts, limit)), &attempts);
            let mut forwards = Vec::new();
            index.each(&filter, View::Attempts, |found| { forwards.push(found); Ok::<_, LedgerError>(()) }).unwrap();
            forwards.reverse();
            prop_assert_eq!(&first(&forwards), &attempts);
            for (found, one) in found.iter().zip(expected) {
                let attempt = serde_json::to_value(&found.attempt).unwrap();
                let said = |value: &Value| if value.is_null() { Value::from("") } else { value.clone() };
                prop_assert_eq!(said(&attempt["status"]), said(&one.status));
                prop_assert_eq!(said(&attempt["tool"]), said(&one.tool["name"]));
                prop_assert!(filter.takes(&found.attempt));
            }
            let summary = index.summary(&filter, &TimeZone::UTC).unwrap();
            prop_assert_eq!(summary.attempts, attempts.len() as u64);
            let steps: u64 = summary.bins.iter().map(|bin| bin.done + bin.refused + bin.failed + bin.open).sum();
            prop_assert_eq!(steps, summary.attempts);
        }
    }
}

#[tokio::test]
async fn an_index_that_is_gone_broken_or_of_another_ledger_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    fill(&open_small(folder.path()), 40).await;
    let whole = from_start(folder.path());
    assert_eq!(whole.len(), 40);
    let file = index_file(folder.path());
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&file).unwrap().permissions()) & 0o777, 0o600);

    type Harm = fn(&Path);
    let harms: [(&str, Harm); 6] = [
        ("gone", |file| fs::remove_file(file).unwrap()),
        ("no database", |file| fs::write(file, "no database at all").unwrap()),
        ("cut", |file| fs::OpenOptions::new().write(true).open(file).unwrap().set_len(5000).unwrap()),
        ("zeros inside", |file| {
            let file = fs::OpenOptions::new().write(true).open(file).unwrap();
            file.write_all_at(&[0; 12_000], 4096).unwrap();
        }),
        ("another format", |file| {
            rusqlite::Connection::open(file).unwrap().pragma_update(None, "user_version", 99).unwrap();
        }),
        ("no table", |file| rusqlite::Connection::open(file).unwrap().execute_batch("drop table kind").unwrap()),
    ];
    for (what, harm) in harms {
        harm(&file);
        assert_eq!(from_start(folder.path()), whole, "{what}");
        let signed = fs::read(folder.path().join("audit/checkpoints")).unwrap();
        let late = vec![entry(Event::Observed, "late")];
        open_small(folder.path()).append(late, Durability::Batched).await.unwrap();
        assert_eq!(from_start(folder.path()).len(), 41, "{what}");
        // As before, by taking the last record away, and what was signed of it.
        fs::write(folder.path().join("audit/checkpoints"), signed).unwrap();
        let last = segments(folder.path()).pop().unwrap();
        let text = fs::read_to_string(&last).unwrap();
        let cut = text.trim_end().rfind('\n').map_or(0, |end| end + 1);
        fs::remove_file(&last).unwrap();
        if cut > 0 {
            fs::write(&last, &text.as_bytes()[..cut]).unwrap();
        }
        assert_eq!(from_start(folder.path()), whole, "{what}: the ledger was cut");
    }

    let other = tempfile::tempdir().unwrap();
    let (second, _) = open(other.path());
    fill(&second, 60).await;
    drop(second);
    fs::copy(&file, index_file(other.path())).unwrap();
    assert_eq!(from_start(other.path()).len(), 60, "an index of another ledger");
}

#[tokio::test]
async fn where_no_file_can_be_the_index_is_a_temporary_one() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open(folder.path());
    fill(&ledger, 10).await;
    fs::create_dir(index_file(folder.path())).unwrap();
    assert_eq!(from_start(folder.path()).len(), 10);
    fs::remove_dir(index_file(folder.path())).unwrap();
    let precious = folder.path().join("precious");
    fs::write(&precious, "mine").unwrap();
    std::os::unix::fs::symlink(&precious, index_file(folder.path())).unwrap();
    assert_eq!(from_start(folder.path()).len(), 10);
    assert_eq!(fs::read(&precious).unwrap(), b"mine", "nothing is written through a link");
}

#[tokio::test]
async fn a_damaged_line_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open(folder.path());
    fill(&ledger, 3).await;
    drop(ledger);
    let segment = segments(folder.path()).remove(0);
    let text = fs::read_to_string(&segment).unwrap();
    fs::write(&segment, text.replacen("{\"v\"", "x\"v\"", 2)).unwrap();
    let error = Index::open(folder.path(), &mut |_, _| {}).err().unwrap();
    assert!(matches!(error, LedgerError::Damaged { seq: 1, line: 1, .. }), "{error}");
    fs::write(&segment, &text).unwrap();
    assert_eq!(from_start(folder.path()).len(), 3);
    // What the index remembers no longer stands there.
    fs::write(&segment, text.replacen("attempt-0", "attempt-9", 1)).unwrap();
    let mut index = index(folder.path());
    assert!(matches!(index.attempt_by("attempt-0"), Err(LedgerError::UnknownAttempt { .. })), "and is read anew");
    assert_eq!(index.attempt_by("attempt-9").unwrap().records[0].seq(), 1);
}

#[tokio::test]
async fn an_attempt_is_named_by_a_beginning_or_end_that_only_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open(folder.path());
    let ids = ["01934567-89ab-7000-8000-000000000001", "01934567-89ab-7000-8000-0000000000f1", "a-1"];
    for id in ids {
        ledger.append(vec![entry(Event::Received, id)], Durability::Batched).await.unwrap();
    }
    let mut index = index(folder.path());
    for (part, expected) in [
        (ids[0], Ok(ids[0])),
        ("0f1", Ok(ids[1])),
        ("0000000000f1", Ok(ids[1])),
        ("-0000000000f1", Ok(ids[1])),
        ("8000-000000000001", Ok(ids[0])),
        ("01934567-89ab-7000-8000-00000000000", Ok(ids[0])),
        ("a-", Ok(ids[2])),
        ("-1", Ok(ids[2])),
        ("1", Err("more than one")),
        ("0193", Err("more than one")),
        ("019345678", Err("no attempt's id")),
        ("0193456789ab", Err("no attempt's id")),
        ("g", Err("no attempt's id")),
        ("", Err("no attempt's id")),
        ("%", Err("no attempt's id")),
    ] {
        match (index.attempt_by(part), expected) {
            (Ok(found), Ok(id)) => assert_eq!(found.attempt.attempt, id, "{part}"),
            (Err(error), Err(says)) => assert!(error.to_string().contains(says), "{part}: {error}"),
            (found, _) => unreachable!("{part}: {found:?}"),
        }
    }
}

#[tokio::test]
async fn what_an_attempt_is_linked_to_is_found_and_questions_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open(folder.path());
    let approval = ApprovalId::new("01934567-89ab-7000-8000-00000000aaaa");
    let mut asked = entry(Event::Waiting, "asks");
    asked.approval = Some(approval.clone());
    let mut yes = entry(Event::Approved, "asks");
    yes.approval = Some(approval.clone());
    let mut runs = entry(Event::Started, "runs");
    runs.approval = Some(approval.clone());
    let mut child = entry(Event::Received, "child");
    child.parent = Some(AttemptId::new("runs"));
    let mut denied = entry(Event::Decided, "denied");
    denied.decision = Some(DecisionRef { effect: "deny", rule: "cedar:night".into(), reason: "r".into() });
    let mut end = entry(Event::Finished, "denied");
    end.outcome =
        Some(OutcomeRef { status: Status::Refused, code: Some(Code::Denied), tool_code: None, retryable: None });
    let mut unknown = entry(Event::Finished, "lost");
    unknown.outcome = Some(OutcomeRef {
        status: Status::Unknown,
        code: Some(Code::OutcomeUnknown),
        tool_code: None,
        retryable: None,
    });
    let all = vec![entry(Event::Received, "asks"), asked, yes, runs, child, denied, end, unknown];
    ledger.append(all, Durability::Batched).await.unwrap();
    let mut index = index(folder.path());
    assert_eq!(ids(&index.linked("runs").unwrap()), ["child"]);
    assert_eq!(ids(&index.linked(approval.as_str()).unwrap()), ["asks", "runs"]);
    let summary = serde_json::to_value(index.summary(&Filter::default(), &TimeZone::UTC).unwrap()).unwrap();
    assert_eq!((&summary["approvals"]["asked"], &summary["approvals"]["approved"]), (&1.into(), &1.into()));
    assert_eq!(summary["refusals"], serde_json::json!([{ "code": "denied", "rule": "cedar:night", "count": 1 }]));
    assert_eq!((&summary["unknown"], &summary["unknown_attempts"]), (&1.into(), &serde_json::json!(["lost"])));
    let asks: Attempt = index.attempt_by("asks").unwrap().attempt;
    assert_eq!((asks.status.as_str(), asks.answer_ms), ("waiting", Some(0)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_readers_catch_up_while_others_write() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open(folder.path());
    fill(&ledger, 200).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> = (0..6)
        .map(|_| {
            let (data_dir, is_over) = (folder.path().to_owned(), Arc::clone(&is_over));
            std::thread::spawn(move || {
                let mut before = 0;
                while !is_over.load(Ordering::Acquire) {
                    let now = from_start(&data_dir).len();
                    assert!(now >= before, "nothing is forgotten");
                    before = now;
                }
            })
        })
        .collect();
    for _ in 0..40 {
        fill(&ledger, 10).await;
        tokio::task::yield_now().await;
    }
    is_over.store(true, Ordering::Release);
    readers.into_iter().for_each(|reader| reader.join().unwrap());
    assert_eq!(from_start(folder.path()).len(), plainly(folder.path()).len());
}

#[test]
fn child_indexes_until_it_is_killed() {
    let Some(data_dir) = child_data_dir() else { return };
    Index::open(&data_dir, &mut |read, _| say(&format!("read {read}"))).unwrap();
    say("whole");
}

#[tokio::test]
async fn a_killed_indexer_loses_nothing_and_doubles_nothing() {
    const RECORDS: usize = 70_000;
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open(folder.path());
    for _ in 0..RECORDS / 1_000 {
        let trips = (0..250).flat_map(|_| {
            let attempt = uuid_v7(clock().now());
            [Event::Received, Event::Decided, Event::Started, Event::Finished].map(|event| entry(event, &attempt))
        });
        ledger.append(trips.collect(), Durability::Batched).await.unwrap();
    }
    let mut killed = 0;
    for round in 0..8 {
        let child = child("index::child_indexes_until_it_is_killed", folder.path()).stdout(Stdio::piped()).spawn();
        let mut child = child.unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        // At the first word of its progress, or a while later: at some point of a transaction.
        for _ in 0..=round % 3 {
            line.clear();
            out.read_line(&mut line).unwrap();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let rest = said(out);
        killed += usize::from(!rest.iter().any(|word| word == "whole"));
        if round % 4 == 3 {
            // Some begin from nothing again.
            fs::remove_file(index_file(folder.path())).unwrap();
        }
    }
    assert!(killed > 0, "the kills hit something");
    let mut index = index(folder.path());
    let summary = index.summary(&Filter::default(), &TimeZone::UTC).unwrap();
    assert_eq!(summary.attempts, RECORDS as u64 / 4);
    let mut count = 0;
    index
        .each(&Filter::default(), View::Records, |found| {
            assert_eq!(found.records.len(), 4, "{:?}", found.attempt);
            count += 1;
            Ok::<_, LedgerError>(())
        })
        .unwrap();
    assert_eq!(count, RECORDS / 4);
    assert_eq!(read(folder.path()).count(), RECORDS);
}
