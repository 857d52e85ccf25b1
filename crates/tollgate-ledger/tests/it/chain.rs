//! What is written, and where.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use serde_json::json;
use tollgate_ledger::{DecisionRef, Durability, Event, Options, OutcomeRef, ToolRef, abridge, verify};
use tollgate_types::{
    ApprovalId, AttemptId, CallKind, Caller, Code, Digest, Permission, Pin, Repair, Risk, Status, Surface,
};

use super::*;

#[tokio::test]
async fn a_record_has_every_key_in_the_order_of_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let (ledger, _) = open(folder.path());
    let mut full = entry(Event::Received, "a");
    full.parent = Some(AttemptId::new("p"));
    full.caller = Some(Arc::new(Caller::new("s", "r", Surface::Cli).with_tenant("t").with_session("x")));
    full.tool = Some(ToolRef { name: "calculate".into(), pin: Some(Pin::new("f")), source: Some("builtin") });
    full.kind = Some(CallKind::Tool);
    full.risk = Some(Risk::Read);
    full.permission = Some(Permission::Network);
    full.policy = Some("h".into());
    full.decision = Some(DecisionRef { effect: "ask", rule: "default".into(), reason: "why".into() });
    full.approval = Some(ApprovalId::new("q"));
    full.key = Some("k".into());
    full.arguments = Some(abridge(&json!({"expression": "1 + 1", "城市": "北京"})));
    full.repairs = vec![Repair::new("/n", "string_to_integer")];
    full.args_hmac = Some(Digest::new("d"));
    let (status, code) = (Status::Failed, Some(Code::ToolError));
    full.outcome = Some(OutcomeRef { status, code, tool_code: Some("NOPE".into()), retryable: Some(false) });
    full.result = Some(abridge(&json!("r")));
    full.duration_ms = Some(3);
    full.retries = Some(1);
    full.sandbox = Some("none");
    full.note = Some("n".into());
    let seq = ledger.append(vec![full, entry(Event::Waiting, "a")], Durability::Strict).await.unwrap();
    assert_eq!(seq.get(), 2);

    let lines = lines(folder.path());
    let (body, _) = lines[0].rsplit_once(",\"hash\"").unwrap();
    let boot = ledger.boot();
    let zeros = "0".repeat(64);
    let expected = format!(
        r#"{{"v":1,"seq":1,"prev":"{zeros}","time":"2026-01-02T03:04:05.000001Z","boot":"{boot}","attempt":"a","call_id":"call-a","parent":"p","event":"received","caller":{{"subject":"s","role":"r","tenant":"t","surface":"cli","session":"x"}},"tool":{{"name":"calculate","pin":"f","source":"builtin"}},"kind":"tool","risk":"read","permission":"network","policy":"h","decision":{{"effect":"ask","rule":"default","reason":"why"}},"approval":"q","key":"k","arguments":{{"expression":"1 + 1","城市":"北京"}},"repairs":[{{"path":"/n","rule":"string_to_integer"}}],"args_hmac":"d","outcome":{{"status":"failed","code":"tool_error","tool_code":"NOPE","retryable":false}},"result":"r","duration_ms":3,"retries":1,"sandbox":"none","note":"n""#
    );
    assert_eq!(body, expected);
    let keys: Vec<_> = check_chain(folder.path())[1].as_object().unwrap().keys().cloned().collect();
    assert_eq!(keys, ["v", "seq", "prev", "time", "boot", "attempt", "call_id", "event", "hash"]);
}

#[tokio::test]
async fn only_the_owner_may_look() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let (ledger, _) = open(&data_dir);
    fill(&ledger, 1).await;
    let boot = format!("boot/{}.lock", ledger.boot());
    for (path, mode) in [
        ("", 0o700),
        ("audit", 0o700),
        ("boot", 0o700),
        ("audit/lock", 0o600),
        ("audit/segment-000000000001.jsonl", 0o600),
        (boot.as_str(), 0o600),
    ] {
        let found = fs::metadata(data_dir.join(path)).unwrap().permissions().mode() & 0o777;
        assert_eq!(found, mode, "{path}: {found:o}");
    }
    ledger.close().unwrap();
    assert!(!data_dir.join(boot).exists(), "a process that closed leaves no mark");
}

#[tokio::test]
async fn full_segments_are_sealed_and_followed_by_every_writer() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (open_small(folder.path()), open_small(folder.path()));
    // It goes by the seal: its own limit is never reached.
    let (large, _) = open(folder.path());
    for _ in 0..10 {
        for ledger in [&first, &second, &large] {
            fill(ledger, 3).await;
            ledger.append(vec![entry(Event::Observed, "s")], Durability::Strict).await.unwrap();
        }
    }
    assert_eq!(check_chain(folder.path()).len(), 120);
    let segments = segments(folder.path());
    assert!(segments.len() > 5);
    let (_, full) = segments.split_last().unwrap();
    for segment in full {
        let metadata = fs::metadata(segment).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, 0o400, "{}", segment.display());
        assert!(metadata.len() >= 2_000);
    }
    let report = verify(folder.path()).unwrap();
    assert!(report.ok, "{report:?}");
    assert_eq!((report.records, report.segments), (120, segments.len()));

    // A process that ended between sealing a segment and beginning the next one.
    drop((first, second, large));
    let last = segments.last().unwrap();
    fs::set_permissions(last, fs::Permissions::from_mode(0o400)).unwrap();
    fill(&open(folder.path()).0, 1).await;
    assert_eq!(check_chain(folder.path()).len(), 121);
    assert_eq!(super::segments(folder.path()).len(), segments.len() + 1);
}

#[tokio::test]
async fn many_tasks_share_one_ledger() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = Arc::new(open_small(folder.path()));
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..32 {
        let ledger = Arc::clone(&ledger);
        tasks.spawn(async move {
            for number in 0..10 {
                let durability = if number % 2 == 0 { Durability::Strict } else { Durability::Batched };
                let name = format!("{task}-{number}");
                let pair = vec![entry(Event::Received, &name), entry(Event::Finished, &name)];
                ledger.append(pair, durability).await.unwrap();
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    let records = check_chain(folder.path());
    assert_eq!(records.len(), 640);
    for pair in records.chunks(2) {
        assert_eq!(pair[0]["attempt"], pair[1]["attempt"], "the records of one append stand together");
    }
}

#[tokio::test]
async fn a_turn_that_never_comes_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let options = Options { lock_wait_ms: 20, ..Options::default() };
    let (ledger, _) = Ledger::open_with(folder.path(), clock(), options).unwrap();
    let lock = fs::File::open(folder.path().join("audit/lock")).unwrap();
    lock.lock().unwrap();
    let refused = ledger.append(vec![entry(Event::Received, "a")], Durability::Batched).await.unwrap_err();
    assert_eq!(refused.to_string(), "the ledger was busy for 20 ms");
    lock.unlock().unwrap();
    fill(&ledger, 1).await;
    assert_eq!(check_chain(folder.path()).len(), 1);
}
