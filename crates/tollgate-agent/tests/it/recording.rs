//! Recording a run, replaying it, and what a recording can be instead.

use std::fs;
use std::sync::Arc;

use serde_json::{Value, json};
use tollgate_agent::{Agent, Answer, Difference, Event, ModelError, Options, Recorder, Replay, ReplayError, RunError};
use tollgate_types::CancellationToken;

use crate::door::{Shelf, caller};
use crate::server::{Server, asks, says};

async fn replay(path: &std::path::Path, door: &Arc<Shelf>) -> (Result<Answer, RunError>, Vec<Difference>) {
    let model = Arc::new(Replay::open(path).unwrap());
    let prompt = model.prompts()[0].clone();
    let mut agent = Agent::new(door.clone(), caller(), model, Options::default());
    let mut told = Vec::new();
    let mut on_event = |event: &Event| {
        if let Event::Difference(difference) = event {
            told.push(difference.clone());
        }
    };
    (agent.ask(&prompt, &CancellationToken::new(), &mut on_event).await, told)
}

#[tokio::test]
async fn a_recorded_run_is_replayed_and_differences_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let server = Server::start(vec![
        asks(&[("", "echo", r#"{"n":7512292042121000001}"#), ("b", "nope", "{q")]),
        says("键盘还有货"),
    ]);
    let mut agent = Agent::new(Shelf::new(), caller(), server.model(), Options::default())
        .with_recorder(Recorder::create(&path).unwrap());
    agent.ask("有货吗?", &CancellationToken::new(), &mut |_| {}).await.unwrap();

    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let kinds: Vec<_> = lines.iter().map(|line| line["event"].as_str().unwrap_or("header")).collect();
    assert_eq!(kinds, ["header", "run", "turn", "result", "result", "turn", "answer"]);
    assert!(lines[0]["tollgate_recording"] == 1 && text.contains("键盘还有货") && text.contains("7512292042121000001"));

    let same = Shelf::new();
    let (answer, told) = replay(&path, &same).await;
    let answer = answer.unwrap();
    assert_eq!((answer.text.as_str(), answer.rounds, &told), ("键盘还有货", 2, &vec![]));
    assert_eq!(same.called(), [r#"call_1 echo {"n":7512292042121000001}"#, "b nope {q"]);

    let (answer, told) = replay(&path, &Shelf::answering("changed ")).await;
    assert_eq!(answer.unwrap().differences, told);
    assert_eq!((told.len(), told[0].call_id.as_str(), told[0].tool.as_str()), (1, "call_1", "echo"));
    assert!(told[0].actual.text.starts_with("changed ") && !told[0].recorded.text.starts_with("changed "));
}

#[tokio::test]
async fn ids_and_times_of_a_run_are_no_difference() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let server = Server::start(vec![asks(&[("a", "cut", "{}"), ("b", "ask", "{}")]), says("done")]);
    let mut agent = Agent::new(Shelf::new(), caller(), server.model(), Options::default())
        .with_recorder(Recorder::create(&path).unwrap());
    agent.ask("go", &CancellationToken::new(), &mut |_| {}).await.unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(
        text.contains("res_0197c0de") && text.contains("0197c0de-0000-7000") && text.contains("2027-01-01T"),
        "{text}"
    );

    assert_eq!(replay(&path, &Shelf::new()).await.1, vec![]);
    let told = replay(&path, &Shelf::answering("changed ")).await.1;
    assert_eq!((told.len(), told[0].tool.as_str()), (1, "cut"));
    assert!(told[0].recorded.text.contains("res_0197c0de") && told[0].actual.text.contains("res_0197c0de"), "{told:?}");
}

#[tokio::test]
async fn results_of_a_turn_that_is_stopped_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let server = Server::start(vec![asks(&[("a", "stall", "{}"), ("b", "echo", "kept")])]);
    let mut agent = Agent::new(Shelf::new(), caller(), server.model(), Options::default())
        .with_recorder(Recorder::create(&path).unwrap());
    let cancellation = CancellationToken::new();
    let mut stop = |event: &Event| {
        if matches!(event, Event::CallFinished { .. }) {
            cancellation.cancel();
        }
    };
    assert!(matches!(agent.ask("go", &cancellation, &mut stop).await, Err(RunError::Cancelled)));
    let text = fs::read_to_string(&path).unwrap();
    let results: Vec<Value> = text.lines().skip(3).map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(results.len(), 1, "{text}");
    assert_eq!((&results[0]["call_id"], &results[0]["text"]), (&json!("b"), &json!("kept")));
    Replay::open(&path).unwrap();
}

#[cfg(unix)]
#[test]
fn a_new_recording_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    Recorder::create(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_recording_never_overwrites() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    fs::write(&path, "").unwrap();
    Recorder::create(&path).unwrap();
    let before = fs::read_to_string(&path).unwrap();
    let error = Recorder::create(&path).unwrap_err();
    assert!(error.to_string().ends_with("run.jsonl` exists and is not empty"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), before);
    assert!(
        Recorder::create(&folder.path().join("no/such/folder")).unwrap_err().to_string().starts_with("cannot write")
    );
}

#[tokio::test]
async fn broken_recordings_are_named_by_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.jsonl");
    let header = r#"{"tollgate_recording":1}"#;
    let result = r#"{"event":"result","call_id":"a","tool":"echo","status":"done","code":null,"text":""}"#;
    let cases = [
        (String::new(), ":1: "),
        (r#"{"tollgate_recording":99}"#.to_owned(), ":1: a recording of version 99; this program reads 1"),
        (format!("{header}\n\n{{\"event\":\"turn\""), ":3: EOF"),
        (format!("{header}\n{{\"event\":\"song\"}}"), ":2: unknown variant `song`"),
        (format!("{header}\n{result}\n{result}"), ":3: a second result for the call `a`"),
    ];
    for (text, message) in cases {
        fs::write(&path, &text).unwrap();
        let error = Replay::open(&path).unwrap_err();
        assert!(error.to_string().contains(&format!("run.jsonl{message}")), "{error}");
    }
    assert!(matches!(Replay::open(folder.path()), Err(ReplayError::Unreadable { .. })));

    let turn = r#"{"event":"turn","round":1,"text":"","calls":[{"id":"a","name":"echo","arguments":"{}"}],"finish":"tool_calls","usage":null}"#;
    fs::write(
        &path,
        format!("{header}\n{{\"event\":\"run\",\"prompt\":\"go\",\"model\":\"m\",\"tools\":[]}}\n{turn}\n{result}\n"),
    )
    .unwrap();
    let (answer, told) = replay(&path, &Shelf::new()).await;
    let error = answer.unwrap_err();
    assert!(
        matches!(&error, RunError::Model(ModelError::Replay(ReplayError::RanOut { line: 4, turns: 1, .. }))),
        "{error:?}"
    );
    assert_eq!(told.len(), 1, "the recorded text was empty");
}

#[tokio::test]
async fn the_recording_of_the_example_is_readable() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/inventory/recorded-run.jsonl");
    let (answer, told) = replay(&path, &Shelf::new()).await;
    assert_eq!((answer.unwrap().rounds, told.len()), (2, 1), "this door has no such tool");
}
