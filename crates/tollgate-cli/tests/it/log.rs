//! The log: its form, its level, and what of `[telemetry]` is refused.

use serde_json::Value;

use crate::shop::{Done, Shop};

fn call(config: &str, words: &[&str]) -> Done {
    let shop = Shop::with(config);
    shop.tollgate(&[words, &["--format", "json", "call", "calculate", r#"{"expression": "6 * 7"}"#]].concat())
}

fn lines(done: &Done) -> Vec<Value> {
    done.stderr.lines().map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
}

#[test]
fn each_call_is_a_line_of_json_with_its_attempt_when_that_is_wanted() {
    let done = call("[telemetry]\nlogs = \"json\"\nlevel = \"info\"\n", &[]);
    let (outcome, lines) = (done.json(), lines(&done));
    let ended = lines.iter().find(|line| line["message"] == "a call ended").unwrap_or_else(|| panic!("{lines:?}"));
    for (name, value) in [
        ("attempt", outcome["attempt"].as_str().unwrap()),
        ("level", "info"),
        ("tool", "calculate"),
        ("status", "done"),
        ("surface", "cli"),
        ("role", "developer"),
    ] {
        assert_eq!(ended[name], value, "{ended}");
    }
    assert!(ended["duration_ms"].is_u64() && ended["time"].as_str().unwrap().ends_with('Z'), "{ended}");
    assert!(!ended.as_object().unwrap().contains_key("code"), "{ended}");
}

#[test]
fn how_much_is_logged_is_said_by_the_file_and_the_command_line_counts_more() {
    for (config, words, is_told) in [
        ("", &[][..], false),
        ("", &["-v"], true),
        ("[telemetry]\nlevel = \"info\"\n", &[], true),
        ("[telemetry]\nlevel = \"info\"\n", &["-q"], false),
        ("[telemetry]\nlevel = \"error\"\n", &["-v"], true),
    ] {
        let done = call(config, words);
        let attempt = done.json()["attempt"].as_str().unwrap().to_owned();
        let told = done.stderr.lines().any(|line| line.contains("a call ended") && line.contains(&attempt));
        assert_eq!(told, is_told, "{config} {words:?}: {}", done.stderr);
        assert!(!done.stderr.contains('\u{1b}'), "no colours but on a terminal: {}", done.stderr);
    }
}

#[test]
fn what_cannot_be_is_refused_with_its_line() {
    for (line, parts) in [
        ("endpoint = \"collector:4318\"", &["telemetry.endpoint", "http://127.0.0.1:4318"][..]),
        ("headers = { A = \"b\" }", &["telemetry.headers", "`headers` go with an `endpoint`"]),
        ("sample_ratio = 1.5", &["telemetry.sample_ratio", "`1.5` is no share"]),
        ("sample_ratio = nan", &["telemetry.sample_ratio"]),
        ("timeout_ms = 0", &["telemetry.timeout_ms", "between 1 and 60000"]),
        ("level = \"loud\"", &["loud", "error", "debug"]),
        ("logs = \"xml\"", &["xml", "json"]),
        ("goal = \"http://a\"", &["goal"]),
    ] {
        let done = call(&format!("[telemetry]\n{line}\n"), &[]);
        assert_eq!((done.code, done.stdout.as_str()), (2, ""), "{line}");
        for part in parts.iter().chain(&["tollgate.toml:2"]) {
            assert!(done.stderr.contains(part), "{line}: {part} is not in {}", done.stderr);
        }
    }
}

#[test]
fn a_secret_that_is_not_there_costs_spans_and_no_call() {
    let config = "[telemetry]\nendpoint = \"http://127.0.0.1:9\"\nheaders = { A = { env = \"NOT_SET_HERE\" } }\n";
    let done = call(config, &[]);
    assert_eq!((done.code, &done.json()["status"]), (0, &Value::from("done")));
    assert!(done.stderr.contains("no spans are sent") && done.stderr.contains("NOT_SET_HERE"), "{}", done.stderr);
}
