//! What no path may do, for every tool that takes one.

use std::os::unix::net::UnixListener;

use serde_json::{Value, json};
use tollgate_types::Code;

use crate::support::House;

fn arguments(tool: &str, path: &str) -> Value {
    match tool {
        "write_file" => json!({"path": path, "content": "x", "overwrite": true}),
        "edit_file" => json!({"path": path, "old_text": "SECRET", "new_text": "x"}),
        "search_files" => json!({"path": path, "pattern": "SECRET"}),
        _ => json!({"path": path}),
    }
}

const TOOLS: [&str; 5] = ["read_file", "write_file", "edit_file", "list_files", "search_files"];

fn house() -> House {
    let house = House::new();
    house.put("docs/a.txt", "plain\n");
    house.link(house.outside.join("key.txt"), "out_file");
    house.link(&house.outside, "out_folder");
    house.link("../../outside/key.txt", "docs/out_relative");
    house.link("out_folder", "out_twice");
    house.link("/proc/self/root", "magic");
    house.link(".tollgate", "data");
    house.link("tollgate.toml", "docs/../config");
    std::fs::hard_link(house.root.join("tollgate.toml"), house.root.join("hard_config")).unwrap();
    std::fs::hard_link(house.root.join(".tollgate/audit/segment-1.jsonl"), house.root.join("docs/hard_record"))
        .unwrap();
    house
}

#[tokio::test]
async fn what_is_outside_or_protected_is_denied_before_anything_runs() {
    let house = house();
    let outside = house.outside.join("key.txt");
    let root = house.root.to_string_lossy().into_owned();
    let paths = [
        "..".to_owned(),
        "../outside/key.txt".to_owned(),
        "docs/../../outside/key.txt".to_owned(),
        "missing/../../outside/key.txt".to_owned(),
        "/etc/passwd".to_owned(),
        "/".to_owned(),
        outside.to_string_lossy().into_owned(),
        format!("{root}/../outside/key.txt"),
        format!("{root}2/key.txt"),
        "out_file".to_owned(),
        "out_folder".to_owned(),
        "out_folder/key.txt".to_owned(),
        "out_folder/new.txt".to_owned(),
        "out_twice/key.txt".to_owned(),
        "docs/out_relative".to_owned(),
        "magic/etc/passwd".to_owned(),
        "~/.ssh/id_rsa".to_owned(),
        "tollgate.toml".to_owned(),
        "./docs/.././tollgate.toml".to_owned(),
        ".tollgate".to_owned(),
        ".tollgate/audit/segment-1.jsonl".to_owned(),
        ".tollgate/new".to_owned(),
        "data/audit/segment-1.jsonl".to_owned(),
        "config".to_owned(),
        "hard_config".to_owned(),
        "docs/hard_record".to_owned(),
        format!("{root}/.tollgate/audit"),
    ];
    for tool in TOOLS {
        for path in &paths {
            let arguments = arguments(tool, path);
            let checked = house.check(tool, &arguments).unwrap_err();
            assert_eq!(checked.code, Code::Denied, "{tool} {path}: {checked:?}");
            assert!(checked.hint.is_some());
            // And once more without the check, as after a change between the two.
            let run = house.tool(tool).call(arguments, house.cx.clone()).await.unwrap_err();
            assert_eq!(run.code, Code::Denied, "{tool} {path}: {run:?}");
        }
    }
    assert_eq!(std::fs::read_to_string(outside).unwrap(), "SECRET key\n");
    assert_eq!(house.get("tollgate.toml"), "SECRET = true\n");
}

#[tokio::test]
async fn what_is_no_path_is_said() {
    let house = House::new();
    for tool in TOOLS {
        for path in ["", "a\0b", "C:\\Users\\x", "C:/Users/x", "docs\\a.txt", &"a/".repeat(3000)] {
            let error = house.check(tool, &arguments(tool, path)).unwrap_err();
            assert_eq!(error.code, Code::InvalidArguments, "{tool} {path:?}");
            assert_eq!(error.details[0].path, "/path");
        }
    }
}

#[tokio::test]
async fn what_is_protected_and_not_there_yet_can_not_be_made() {
    let mut house = House::new();
    std::fs::remove_file(house.root.join("tollgate.toml")).unwrap();
    house.cx.workspace = std::sync::Arc::new(tollgate_types::Workspace {
        root: house.root.clone(),
        protected: vec![house.root.join("tollgate.toml"), house.root.join("state/deep/data")],
        read_only: vec![],
    });
    for path in ["tollgate.toml", "Tollgate.TOML", "state/deep/data/x", "state"] {
        let error = house.call("write_file", json!({"path": path, "content": "x"})).await.unwrap_err();
        assert_eq!(error.code, Code::Denied, "{path}");
    }
    house.text("write_file", json!({"path": "other.toml", "content": "x"})).await;
}

#[tokio::test]
async fn pipes_and_sockets_are_refused_without_waiting() {
    let house = House::new();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        house.root.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    let _socket = UnixListener::bind(house.root.join("socket")).unwrap();
    for path in ["pipe", "socket"] {
        for tool in ["read_file", "write_file", "edit_file", "search_files"] {
            assert_eq!(house.code(tool, arguments(tool, path)).await, "NOT_A_FILE", "{tool} {path}");
        }
    }
    assert!(house.text("list_files", json!({})).await.contains("pipe (not a file)"));
}

#[tokio::test]
async fn links_and_absolute_paths_that_stay_inside_are_fine() {
    let house = house();
    house.link("a.txt", "docs/same");
    house.link(house.root.join("docs"), "absolute");
    house.link("../docs", "docs/up");
    house.link("loop_b", "loop_a");
    house.link("loop_a", "loop_b");
    let absolute = house.root.join("docs/a.txt");
    for path in ["docs/a.txt", "docs/same", "absolute/a.txt", "docs/up/a.txt", absolute.to_str().unwrap()] {
        let value = house.value("read_file", json!({"path": path})).await;
        assert_eq!(value["path"], "docs/a.txt", "{path}");
    }
    assert_eq!(house.code("read_file", json!({"path": "loop_a"})).await, "TOO_MANY_LINKS");
    assert_eq!(house.code("read_file", json!({"path": "docs/a.txt/b"})).await, "NOT_A_FOLDER");
}

#[tokio::test]
async fn what_is_protected_is_invisible() {
    let house = house();
    for arguments in [json!({"include_hidden": true, "depth": 9}), json!({"glob": "*", "include_hidden": true})] {
        let text = house.text("list_files", arguments).await;
        for hidden in ["tollgate.toml", ".tollgate", "hard_config", "docs/hard_record"] {
            assert!(!text.lines().any(|line| line.starts_with(hidden)), "{hidden} in {text}");
        }
        assert!(text.contains("docs/a.txt"), "{text}");
    }
    let found = house.value("search_files", json!({"pattern": "SECRET"})).await;
    assert_eq!(found["total"], 0, "{found}");
    let error = house.call("read_file", json!({"path": "tollgate.tom"})).await.unwrap_err();
    assert!(!error.hint.unwrap().contains("tollgate.toml"));
}
