//! What is taken out is what the records say, in forms that others read.

use std::collections::BTreeSet;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use tollgate_ledger::{
    DecisionRef, Durability, Event, ExportFormat, Filter, Index, LedgerError, OutcomeRef, ToolRef, abridge,
};
use tollgate_types::{Caller, Code, Risk, Status, Surface};

use super::*;

const HOSTILE: &str = "=HYPERLINK(\"http://evil\")\r\n\u{1b}[2J\u{202e}<script>,张三";

async fn ledger(data_dir: &Path) {
    let (ledger, _) = open(data_dir);
    let outcomes = [
        Some((Status::Done, None)),
        Some((Status::Refused, Some(Code::Denied))),
        Some((Status::Failed, Some(Code::ToolError))),
        Some((Status::Unknown, Some(Code::OutcomeUnknown))),
        None,
    ];
    for (number, outcome) in outcomes.into_iter().enumerate() {
        let attempt = format!("01934567-89ab-7000-8000-00000000000{number}");
        let mut received = entry(Event::Received, &attempt);
        received.caller =
            Some(Arc::new(Caller::new(HOSTILE, "reader", Surface::Rest).with_session("s").with_tenant("acme")));
        received.tool = Some(ToolRef { name: HOSTILE.into(), pin: None, source: None });
        received.arguments = Some(abridge(&serde_json::json!({ "text": HOSTILE })));
        received.risk = [Risk::Read, Risk::Write, Risk::Dangerous].get(number).copied();
        let mut decided = entry(Event::Decided, &attempt);
        decided.decision = Some(DecisionRef { effect: "allow", rule: "r".into(), reason: HOSTILE.into() });
        let mut entries = vec![received, decided];
        if let Some((status, code)) = outcome {
            let mut finished = entry(Event::Finished, &attempt);
            finished.outcome = Some(OutcomeRef { status, code, tool_code: None, retryable: None });
            finished.result = Some(abridge(&Value::from(HOSTILE)));
            finished.duration_ms = Some(7);
            entries.push(finished);
        }
        ledger.append(entries, Durability::Batched).await.unwrap();
    }
    ledger.append(vec![Entry::of_ledger(Event::Recovered, "n")], Durability::Batched).await.unwrap();
}

fn export(data_dir: &Path, format: ExportFormat) -> (u64, Vec<u8>) {
    let mut out = Vec::new();
    let mut index = Index::open(data_dir, &mut |_, _| {}).unwrap();
    let count = index.export(&Filter::default(), format, &mut out).unwrap();
    (count, out)
}

#[tokio::test]
async fn lines_are_those_of_the_ledger() {
    let folder = tempfile::tempdir().unwrap();
    ledger(folder.path()).await;
    let (count, out) = export(folder.path(), ExportFormat::Jsonl);
    let text = String::from_utf8(out).unwrap();
    assert_eq!((count, text.lines().map(str::to_owned).collect::<Vec<_>>()), (6, lines(folder.path())));
}

#[tokio::test]
async fn a_cell_is_no_formula_and_a_row_one_attempt() {
    let folder = tempfile::tempdir().unwrap();
    ledger(folder.path()).await;
    let (count, out) = export(folder.path(), ExportFormat::Csv);
    let text = String::from_utf8(out).unwrap();
    assert_eq!(count, 5);
    assert!(text.starts_with("time,ended,seq,attempt,"));
    let quoted = format!("\"'{}\"", HOSTILE.replace('"', "\"\""));
    assert_eq!(text.matches(&quoted).count(), 15, "the asker, the tool and the reason of each\n{text}");
}

fn json_of(row: &Row) -> Value {
    let value = |field: &Field| match field {
        Field::Null => Value::Null,
        Field::Str(text) => text.as_str().into(),
        Field::Long(number) | Field::TimestampMicros(number) => (*number).into(),
        other => unreachable!("{other:?} is in no column"),
    };
    row.get_column_iter().map(|(name, field)| (name.clone(), value(field))).collect::<serde_json::Map<_, _>>().into()
}

#[tokio::test]
async fn parquet_reads_back() {
    let folder = tempfile::tempdir().unwrap();
    ledger(folder.path()).await;
    let (count, out) = export(folder.path(), ExportFormat::Parquet);
    let reader = SerializedFileReader::new(bytes::Bytes::from(out)).unwrap();
    let rows: Vec<Value> = reader.get_row_iter(None).unwrap().map(|row| json_of(&row.unwrap())).collect();
    assert_eq!((count, rows.len()), (5, 5));
    assert_eq!(rows[0]["subject"], HOSTILE);
    assert_eq!(
        (&rows[1]["status"], &rows[1]["code"], &rows[1]["duration_ms"]),
        (&"refused".into(), &"denied".into(), &7.into())
    );
    assert_eq!((&rows[4]["status"], &rows[4]["ended"]), (&"open".into(), &Value::Null));
    let statuses: BTreeSet<String> = rows.iter().map(|row| row["status"].to_string()).collect();
    assert_eq!(statuses.len(), 5);
}

#[tokio::test]
async fn events_are_what_the_framework_says() {
    let folder = tempfile::tempdir().unwrap();
    ledger(folder.path()).await;
    let schema: Value = serde_json::from_str(include_str!("ocsf-1.8.0.json")).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let (count, out) = export(folder.path(), ExportFormat::Ocsf);
    let events: Vec<Value> =
        String::from_utf8(out).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((count, events.len()), (5, 5));
    for event in &events {
        let errors: Vec<String> =
            schema.iter_errors(event).map(|error| format!("{error} at {}", error.instance_path())).collect();
        assert!(errors.is_empty(), "{errors:?}\n{event:#}");
    }
    let of = |key: &str| events.iter().map(|event| event[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("status_id"), [1, 2, 2, 0, 99]);
    assert_eq!(of("activity_id"), [2, 3, 99, 0, 0]);
    assert_eq!(of("type_uid"), [600_302, 600_303, 600_399, 600_300, 600_300]);
}

#[tokio::test]
async fn a_full_disk_is_said() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::Error::from(std::io::ErrorKind::StorageFull))
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let folder = tempfile::tempdir().unwrap();
    ledger(folder.path()).await;
    for format in [ExportFormat::Jsonl, ExportFormat::Csv, ExportFormat::Parquet, ExportFormat::Ocsf] {
        let mut index = Index::open(folder.path(), &mut |_, _| {}).unwrap();
        let error = index.export(&Filter::default(), format, Full).unwrap_err();
        assert!(matches!(error, LedgerError::Unavailable { .. }), "{format:?}: {error}");
    }
}
