//! Programs as tools.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tollgate_tools::{ProgramTool, ProgramToolError, program_files};
use tollgate_types::{Code, Cx, HandedKey, SourceKind, Tool as _, ToolDefinition, ToolError, ToolOutput};

use crate::support::{call, cx, text};

fn definition() -> ToolDefinition {
    ToolDefinition {
        input_schema: json!({"type": "object", "properties": {"text": {"type": "string"}}}),
        ..ToolDefinition::new("echo_text", "Gives back a text.")
    }
}

fn tool(command: &[&str], folder: &std::path::Path) -> ProgramTool {
    let command = command.iter().map(|&word| word.to_owned()).collect();
    ProgramTool::new(definition(), command, folder.to_owned()).unwrap()
}

async fn shell(script: &str, change: impl FnOnce(&mut Cx)) -> Result<ToolOutput, ToolError> {
    let folder = TempDir::new().unwrap();
    let mut cx = cx(folder.path(), Vec::new());
    change(&mut cx);
    call(&tool(&["sh", "-c", script], folder.path()), json!({"text": "无线 键盘"}), &cx).await
}

#[tokio::test]
async fn what_is_printed_is_the_result() {
    for (script, expected, structured) in [
        ("cat", r#"{"text":"无线 键盘"}"#, Some(json!({"text": "无线 键盘"}))),
        ("echo '[1, 2]'", "[1, 2]", Some(json!([1, 2]))),
        ("echo 42", "42", None),
        ("echo '{broken'", "{broken", None),
        ("printf ' a\\n\\nb\\n\\n'", " a\n\nb", None),
        ("true", "(the program printed nothing)", None),
        ("echo said >&2", "(the program printed nothing)", None),
        ("echo '{\"ok\":false}'", r#"{"ok":false}"#, Some(json!({"ok": false}))),
        ("printf '\\357\\273\\277{\"a\":1}'", "\u{feff}{\"a\":1}", Some(json!({"a": 1}))),
    ] {
        let output = shell(script, |_| ()).await.unwrap();
        assert_eq!(text(&output), expected, "{script}");
        assert_eq!(output.structured, structured, "{script}");
    }
}

#[tokio::test]
async fn a_program_that_fails_says_so_in_its_own_words() {
    for (script, code, message) in [
        ("echo first >&2; echo 'no such SKU' >&2; exit 3", "EXIT_3", "first\nno such SKU"),
        ("echo 'on stdout'; exit 1", "EXIT_1", "on stdout"),
        ("exit 7", "EXIT_7", "the program said nothing (exit status 7)"),
        ("kill -9 $$", "SIGNAL_9", "the program said nothing (killed by signal 9)"),
        ("printf '\\033[2Jred' >&2; exit 1", "EXIT_1", "\\u{1b}[2Jred"),
    ] {
        let error = shell(script, |_| ()).await.unwrap_err();
        assert_eq!((error.tool_code.as_deref(), error.message.as_str()), (Some(code), message), "{script}");
        assert_eq!(error.code, Code::ToolError);
        assert!(error.hint.is_some() && !error.retryable);
    }
    let error = shell("printf 'ab\\377'", |_| ()).await.unwrap_err();
    assert_eq!(error.tool_code.as_deref(), Some("INVALID_UTF8"));
    assert!(error.message.ends_with("not UTF-8 at byte 2"), "{}", error.message);
}

#[tokio::test]
async fn a_program_has_limits() {
    let error = shell("yes", |_| ()).await.unwrap_err();
    assert_eq!(error.code, Code::ResultTooLarge);
    let error = shell("echo started >&2; sleep 600", |cx| cx.deadline = Duration::from_millis(300)).await.unwrap_err();
    assert_eq!((error.code, error.hint.as_deref()), (Code::Timeout, Some("its last words: started")));
    let error = shell("sleep 600", |cx| cx.cancellation.cancel()).await.unwrap_err();
    assert_eq!(error.code, Code::Cancelled);
}

#[tokio::test]
async fn a_program_gets_its_folder_and_its_environment_and_no_more() {
    let folder = TempDir::new().unwrap();
    let script = folder.path().join("tools/show");
    std::fs::create_dir(folder.path().join("tools")).unwrap();
    std::fs::write(&script, "#!/bin/sh\necho \"$(basename \"$PWD\")|$GREETING|$CARGO_MANIFEST_DIR\"\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut cx = cx(folder.path(), Vec::new());
    let mut env = (*cx.env).clone();
    env.insert("GREETING".into(), "你好".into());
    cx.env = Arc::new(env);
    let output = call(&tool(&["tools/show"], folder.path()), json!({}), &cx).await.unwrap();
    let name = folder.path().file_name().unwrap().to_str().unwrap();
    assert_eq!(text(&output), format!("{name}|你好|"));
    cx.handed_key = Some(HandedKey { name: "GREETING".into(), value: "0a-1b".into() });
    let output = call(&tool(&["tools/show"], folder.path()), json!({}), &cx).await.unwrap();
    assert_eq!(text(&output), format!("{name}|0a-1b|"), "an idempotency key is one more variable");
}

#[tokio::test]
async fn a_program_is_told_its_place_in_a_trace() {
    let folder = TempDir::new().unwrap();
    let show = tool(&["sh", "-c", "cat > /dev/null; echo \"$TRACEPARENT|$TRACESTATE\""], folder.path());
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0b5902b7-01";
    let mut cx = cx(folder.path(), Vec::new());
    assert_eq!(text(&call(&show, json!({}), &cx).await.unwrap()), "|");
    cx.trace = tollgate_types::TraceContext::read([parent], ["a=1"]);
    assert_eq!(text(&call(&show, json!({}), &cx).await.unwrap()), format!("{parent}|a=1"));
}

#[tokio::test]
async fn a_program_that_is_not_there_is_the_operators_business() {
    let folder = TempDir::new().unwrap();
    std::fs::write(folder.path().join("not_executable"), "x").unwrap();
    let cx = cx(folder.path(), Vec::new());
    for (program, code) in [
        ("no-such-program-here", "PROGRAM_NOT_FOUND"),
        ("./no-such-program", "PROGRAM_NOT_FOUND"),
        ("./not_executable", "PROGRAM_NOT_STARTED"),
    ] {
        let error = call(&tool(&[program], folder.path()), json!({}), &cx).await.unwrap_err();
        assert_eq!(error.tool_code.as_deref(), Some(code), "{program}");
    }
    let new = |command: Vec<String>| ProgramTool::new(definition(), command, folder.path().to_owned());
    assert_eq!(new(vec![]).unwrap_err(), ProgramToolError::NoProgram);
    assert_eq!(new(vec![" ".into()]).unwrap_err(), ProgramToolError::NoProgram);
    assert_eq!(new(vec!["a".into(), "b\0".into()]).unwrap_err(), ProgramToolError::Nul { index: 1 });
}

#[test]
fn a_program_is_previewed_as_it_would_be_typed() {
    let folder = std::path::Path::new("/srv/shop");
    let tool = tool(&["python3", "tools/a b.py", "--say=it's"], folder);
    assert_eq!(tool.definition().source.kind, SourceKind::Program);
    let arguments: Value = json!({"text": "键盘\u{1b}\u{202e}"});
    assert_eq!(
        tool.preview(&arguments, &cx(folder, Vec::new())).unwrap(),
        "python3 'tools/a b.py' '--say=it'\\''s'\nin /srv/shop\nstandard input: {\"text\":\"键盘\\u001b\\u{202e}\"}"
    );
}

#[tokio::test]
async fn a_cancelled_program_is_asked_to_stop_before_it_is_killed() {
    for (trap, left) in [("echo asked >&3; exit 0", "asked\n"), ("", "")] {
        let folder = TempDir::new().unwrap();
        let pipe = folder.path().join("ready");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let cx = cx(folder.path(), Vec::new());
        // Without a child: one that is just being made could miss the signal.
        let script = format!("exec 3>left; trap '{trap}' TERM; echo ready > ready; while :; do :; done");
        let tool = tool(&["sh", "-c", &script], folder.path());
        let cancelled = async {
            // Reading ends when the program has written, and so has set its trap.
            tokio::task::spawn_blocking(move || std::fs::read_to_string(pipe)).await.unwrap().unwrap();
            cx.cancellation.cancel();
        };
        let both = async { tokio::join!(call(&tool, json!({}), &cx), cancelled).0 };
        let error = tokio::time::timeout(Duration::from_secs(10), both).await.unwrap().unwrap_err();
        assert_eq!(error.code, Code::Cancelled);
        assert_eq!(std::fs::read_to_string(folder.path().join("left")).unwrap(), left);
    }
}

#[tokio::test]
async fn no_half_of_a_secret_stands_at_a_cut() {
    for padding in 0..12 {
        // Cut by the sandbox, by the message's own limit, and by the sandbox with nothing but white space after it.
        for (lines, spaces) in [(130, 0), (24, 0), (0, 8_170)] {
            let script = format!(
                "{{ printf '%0{}d' 0; i=0; echo 'key=sk-0123456789abcdef'; while [ $i -lt {lines} ]; do \
                 echo \"$i and another line of this text, about so long, key=sk-0123456789abcdef\"; i=$((i+1)); done; \
                 printf 'the end%{spaces}s' ''; }} >&2; exit 1",
                padding + 1
            );
            let message = shell(&script, |_| ()).await.unwrap_err().message;
            let rest = message.replace("sk-0123456789abcdef", "");
            assert!(!rest.contains("abcdef") && !rest.contains("789"), "{padding} {lines} {spaces}: {message}");
            assert!(message.ends_with("the end"), "{message}");
        }
    }
}

#[test]
fn the_files_that_a_command_runs_are_named() {
    let folder = TempDir::new().unwrap();
    let root = folder.path();
    std::fs::create_dir(root.join("tools")).unwrap();
    for file in ["tools/run.py", "tools/rules.json", "convert", "python3"] {
        std::fs::write(root.join(file), "x").unwrap();
    }
    std::os::unix::fs::symlink("run.py", root.join("tools/link.py")).unwrap();
    let absolute = root.join("tools/rules.json").to_string_lossy().into_owned();
    for (command, files) in [
        (vec!["sh", "tools/run.py"], vec!["tools/run.py"]),
        (vec!["sh", "./tools/run.py", "tools/run.py"], vec!["tools/run.py"]),
        (vec!["./convert", "--rules=tools/rules.json"], vec!["convert", "tools/rules.json"]),
        (vec!["./missing", "tools/missing.py"], vec!["missing"]),
        (vec!["sh", "tools/link.py", "tools", "", "--x", "-"], vec!["tools/link.py"]),
        (vec!["sh", &absolute], vec!["tools/rules.json"]),
        (vec![], vec![]),
    ] {
        let command: Vec<String> = command.into_iter().map(str::to_owned).collect();
        let files: Vec<_> = files.into_iter().map(|file| root.join(file)).collect();
        assert_eq!(program_files(&command, root), files, "{command:?}");
    }
}
