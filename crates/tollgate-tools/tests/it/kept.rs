//! What may be read and not changed, and checks and previews that must not hold anybody up.

use std::path::PathBuf;
use std::sync::Arc;

use serde_json::{Value, json};
use tollgate_types::{Code, Workspace};

use crate::support::House;

fn changes(path: &str) -> [(&'static str, Value); 3] {
    [
        ("write_file", json!({"path": path, "content": "mine"})),
        ("write_file", json!({"path": path, "content": "mine", "overwrite": true})),
        ("edit_file", json!({"path": path, "old_text": "theirs", "new_text": "mine"})),
    ]
}

async fn all_denied(house: &House, paths: &[&str]) {
    for path in paths {
        for (tool, arguments) in changes(path) {
            let checked = house.check(tool, &arguments).unwrap_err();
            assert_eq!(checked.code, Code::Denied, "{tool} {path}: {checked:?}");
            assert!(checked.hint.is_some_and(|hint| hint.contains("the operator must")), "{tool} {path}");
            // And once more without the check, as after a change between the two.
            let run = house.tool(tool).call(arguments, house.cx.clone()).await.unwrap_err();
            assert_eq!(run.code, Code::Denied, "{tool} {path}: {run:?}");
        }
    }
}

fn keep(house: &mut House, paths: &[&str]) {
    let read_only: Vec<PathBuf> = paths.iter().map(|path| house.root.join(path)).collect();
    house.cx.workspace = Arc::new(Workspace { read_only, ..(*house.cx.workspace).clone() });
}

#[tokio::test]
async fn what_is_kept_is_read_and_not_changed_under_any_name() {
    let mut house = House::new();
    house.put("tools/run.py", "theirs\n");
    house.put("tools/other.py", "theirs\n");
    house.put("lib/all/deep.py", "theirs\n");
    house.link("run.py", "tools/link");
    house.link("tools", "same");
    std::fs::hard_link(house.root.join("tools/run.py"), house.root.join("hard")).unwrap();
    keep(&mut house, &["tools/run.py", "tools/Later.py", "unborn/deep/x.py", "lib"]);
    let kept = ["tools/run.py", "./tools/../tools/run.py", "same/run.py", "tools/link", "hard", "lib/all/deep.py"];
    all_denied(&house, &kept).await;
    for path in kept {
        assert_eq!(house.text("read_file", json!({"path": path})).await, "theirs", "{path}");
    }
    // What is not there yet can not be made: neither itself nor a folder on its way.
    for path in ["tools/Later.py", "tools/later.PY", "same/later.py", "unborn/deep/x.py", "unborn", "lib/new"] {
        for (tool, arguments) in changes(path).into_iter().take(2) {
            assert_eq!(house.code(tool, arguments).await, "denied", "{path}");
        }
    }
    assert!(!house.root.join("unborn").exists());
    let found = house.value("search_files", json!({"pattern": "theirs", "path": "tools"})).await;
    assert_eq!(found["total"], 2);
    let [_, write, edit] = changes("tools/other.py");
    house.text(edit.0, edit.1).await;
    house.text(write.0, write.1).await;
    assert_eq!((house.get("tools/run.py"), house.get("tools/other.py")), ("theirs\n".to_owned(), "mine".to_owned()));
}

#[tokio::test]
async fn no_tool_makes_or_changes_a_configuration_anywhere() {
    let mut house = House::new();
    std::fs::remove_file(house.root.join("tollgate.toml")).unwrap();
    house.cx.workspace = Arc::new(Workspace { protected: Vec::new(), ..(*house.cx.workspace).clone() });
    house.put("shop/tollgate.toml", "theirs\n");
    house.put("shop/real.toml", "theirs\n");
    house.link("real.toml", "shop/Tollgate.Toml");
    let paths = [
        "tollgate.toml",
        "TOLLGATE.toml",
        "shop/tollgate.toml",
        "shop/Tollgate.Toml",
        "shop/../shop/tollgate.toml",
        "new/folder/tollgate.TOML",
        "tollgate.toml/x",
    ];
    all_denied(&house, &paths).await;
    assert_eq!(house.text("read_file", json!({"path": "shop/tollgate.toml"})).await, "theirs");
    assert_eq!((house.get("shop/real.toml"), house.root.join("new").exists()), ("theirs\n".to_owned(), false));
    for path in ["tollgate.toml.md", "my-tollgate.toml", "tollgate"] {
        house.text("write_file", json!({"path": path, "content": "x"})).await;
    }
}

#[tokio::test]
async fn a_file_with_several_names_is_refused_where_too_much_would_be_compared() {
    let house = House::new();
    house.put("one", "theirs");
    std::fs::hard_link(house.root.join("one"), house.root.join("two")).unwrap();
    assert_eq!(house.text("read_file", json!({"path": "two"})).await, "theirs");
    for file in 0..5_000 {
        std::fs::write(house.root.join(format!(".tollgate/{file}")), "").unwrap();
    }
    for (tool, arguments) in changes("two") {
        assert_eq!(house.check(tool, &arguments).unwrap_err().code, Code::Denied);
    }
    let error = house.check("read_file", &json!({"path": "two"})).unwrap_err();
    assert!(error.hint.unwrap().contains("hard links"));
    house.put("alone", "x");
    house.text("read_file", json!({"path": "alone"})).await;
}

#[tokio::test]
async fn a_large_file_is_edited_without_a_look_at_the_place_before() {
    let house = House::new();
    let edit = json!({"path": "a.txt", "old_text": "theirs", "new_text": "mine"});
    let preview = |house: &House| house.tool("edit_file").preview(&edit, &house.cx);
    let filler = |bytes: usize| "0123456789abcde\n".repeat(bytes / 16);
    house.put("a.txt", format!("theirs\n{}", filler((1 << 20) - 16)));
    assert!(preview(&house).unwrap().contains("-theirs\n+mine"));
    house.put("a.txt", format!("theirs\n{}", filler(1 << 20)));
    assert_eq!(preview(&house).unwrap(), "edit a.txt, which is too large to preview: replace \ntheirs\nby\nmine");
    house.text("edit_file", edit.clone()).await;
    assert!(house.get("a.txt").starts_with("mine\n"));
    house.put("a.txt", "nothing of it");
    assert_eq!(preview(&house), None);
    // One line of megabytes against many lines: what is compared is bounded.
    house.put("a.txt", filler(1 << 19));
    let long = json!({"path": "a.txt", "old_text": "0123456789abcd".repeat(200_000), "new_text": ""});
    assert_eq!(house.code("edit_file", long).await, "NO_MATCH");
}
