//! Reading, writing and editing real files, and every way out of the workspace.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt};

use serde_json::json;

use crate::support::House;

#[tokio::test]
async fn lines_are_read_as_they_are() {
    let house = House::new();
    house.put("键盘.md", "一\n二\r\n\tthree  \n四");
    let output = house.call("read_file", json!({"path": "键盘.md"})).await.unwrap();
    assert_eq!(crate::support::text(&output), "一\n二\n\tthree  \n四");
    assert_eq!(
        output.structured.unwrap(),
        json!({"path": "键盘.md", "bytes": 21, "first_line": 1, "last_line": 4, "lines_total": 4, "truncated": false})
    );
    let text = house.text("read_file", json!({"path": "键盘.md", "offset": 2, "limit": 2})).await;
    assert_eq!(text, "二\n\tthree  \n[lines 2 to 3 of 4; read on with offset 4]");
    let text = house.text("read_file", json!({"path": "键盘.md", "offset": 4})).await;
    assert_eq!(text, "四\n[lines 4 to 4 of 4]");
}

#[tokio::test]
async fn encodings_are_told_by_their_marks() {
    let house = House::new();
    let utf16 = |text: &str, unit: fn(u16) -> [u8; 2]| -> Vec<u8> {
        std::iter::once(0xfeff).chain(text.encode_utf16()).flat_map(unit).collect()
    };
    house.put("bom", "\u{feff}键盘\n");
    house.put("le", utf16("键盘\n😀", u16::to_le_bytes));
    house.put("be", utf16("键盘\n😀", u16::to_be_bytes));
    house.put("odd", [0xff, 0xfe, b'a']);
    house.put("gbk", [0xbc, 0xfc, 0xc5, 0xcc]);
    house.put("binary", b"\x7fELF\0\0\x01");
    house.put("empty", "");
    for (path, text) in [("bom", "键盘"), ("le", "键盘\n😀"), ("be", "键盘\n😀"), ("empty", "(the file is empty)")]
    {
        assert_eq!(house.text("read_file", json!({"path": path})).await, text, "{path}");
    }
    for (path, code) in [("odd", "NOT_UTF8"), ("gbk", "NOT_UTF8"), ("binary", "BINARY_FILE")] {
        assert_eq!(house.code("read_file", json!({"path": path})).await, code, "{path}");
    }
}

#[tokio::test]
async fn long_lines_and_large_files_cost_no_more_than_is_shown() {
    let house = House::new();
    house.put("long", format!("{}\nshort\n", "键".repeat(3_000)));
    let text = house.text("read_file", json!({"path": "long"})).await;
    let first = text.lines().next().unwrap();
    assert!(first.ends_with("… [line cut: 2000 of 3000 characters]") && first.starts_with(&"键".repeat(2_000)));
    assert!(text.ends_with("\nshort"));
    house.put("large", "0123456789abcdef\n".repeat(1_100_000));
    let value = house.value("read_file", json!({"path": "large", "offset": 1_000_000, "limit": 3})).await;
    assert_eq!((&value["last_line"], &value["lines_total"]), (&json!(1_000_002), &json!(null)));
    assert_eq!(house.code("read_file", json!({"path": "large", "offset": 2_000_000})).await, "OUT_OF_RANGE");
    house.put("one_line", "x".repeat(20_000_000));
    let text = house.text("read_file", json!({"path": "one_line"})).await;
    assert!(text.ends_with("… [line cut: 0 of 20000000 characters]"), "half of a secret is shown by none");
    house.put("minified", format!("{}hunter2-hunter2{}", "f(a,b);".repeat(285), "f(a,b);".repeat(90)));
    let text = house.text("read_file", json!({"path": "minified"})).await;
    assert!(text.ends_with(";… [line cut: 1995 of 2640 characters]") && !text.contains("hunter"), "{text}");
}

#[tokio::test]
async fn what_is_missing_names_what_is_near() {
    let house = House::new();
    house.put("src/main.rs", "");
    house.put("src/无线键盘.md", "");
    for (path, near) in
        [("src/mian.rs", "`src/main.rs`"), ("src/无线键.md", "`src/无线键盘.md`"), ("scr/main.rs", "`src`")]
    {
        let error = house.call("read_file", json!({"path": path})).await.unwrap_err();
        assert_eq!(error.tool_code.as_deref(), Some("NOT_FOUND"));
        assert!(error.hint.as_deref().unwrap().contains(near), "{error:?}");
    }
    assert_eq!(house.code("read_file", json!({"path": "src"})).await, "IS_FOLDER");
    assert_eq!(house.code("read_file", json!({"path": "src/main.rs", "offset": 2})).await, "OUT_OF_RANGE");
}

#[tokio::test]
async fn a_file_is_written_whole_and_replaced_only_when_asked() {
    let house = House::new();
    let new = json!({"path": "a/b/笔记.md", "content": "一\n"});
    let output = house.call("write_file", new.clone()).await.unwrap();
    assert_eq!(output.structured.unwrap(), json!({"path": "a/b/笔记.md", "bytes": 4, "created": true}));
    assert_eq!(house.code("write_file", new).await, "EXISTS");
    assert_eq!(house.get("a/b/笔记.md"), "一\n");
    let path = house.root.join("a/b/笔记.md");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
    let value = house.value("write_file", json!({"path": "a/b/笔记.md", "content": "二\n", "overwrite": true})).await;
    assert_eq!(value["created"], false);
    assert_eq!(house.get("a/b/笔记.md"), "二\n");
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
    let left: Vec<_> =
        std::fs::read_dir(path.parent().unwrap()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["笔记.md"]);
}

#[tokio::test]
async fn a_write_follows_links_inside_and_spares_other_names() {
    let house = House::new();
    house.link("target.txt", "dangling");
    house.text("write_file", json!({"path": "dangling", "content": "x"})).await;
    assert_eq!(house.get("target.txt"), "x");
    assert!(house.root.join("dangling").is_symlink());
    house.put("one", "old");
    std::fs::hard_link(house.root.join("one"), house.root.join("two")).unwrap();
    house.text("write_file", json!({"path": "one", "content": "new", "overwrite": true})).await;
    assert_eq!((house.get("one"), house.get("two")), ("new".to_owned(), "old".to_owned()));
}

#[tokio::test]
async fn a_write_that_can_not_be_says_so_and_leaves_nothing() {
    let house = House::new();
    house.put("folder/file", "x");
    house.put("locked", "x");
    std::fs::set_permissions(house.root.join("locked"), PermissionsExt::from_mode(0o444)).unwrap();
    for (path, code) in [
        ("folder", "IS_FOLDER"),
        ("folder/", "invalid_arguments"),
        (".", "IS_FOLDER"),
        ("folder/file/x", "NOT_A_FOLDER"),
        ("locked", "READ_ONLY"),
    ] {
        let arguments = json!({"path": path, "content": "y", "overwrite": true});
        assert_eq!(house.code("write_file", arguments).await, code, "{path}");
    }
    let long = "x".repeat(300);
    assert_eq!(house.code("write_file", json!({"path": long, "content": ""})).await, "IO");
    assert_eq!(house.get("locked"), "x");
}

#[tokio::test]
async fn an_edit_changes_one_place_and_shows_it() {
    let house = House::new();
    house.put("a.txt", "\u{feff}一\r\n\t二\r\n三\r\n");
    std::fs::set_permissions(house.root.join("a.txt"), PermissionsExt::from_mode(0o750)).unwrap();
    let arguments = json!({"path": "a.txt", "old_text": "\t二\n三", "new_text": "\t2\n3"});
    let preview = house.tool("edit_file").preview(&arguments, &house.cx).unwrap();
    assert!(preview.starts_with("edit a.txt:\n@@ line 2 @@\n"), "{preview}");
    let text = house.text("edit_file", arguments).await;
    assert_eq!(text, "edited `a.txt` (1 replacement)\n@@ line 2 @@\n \u{feff}一\n-\t二\n-三\n+\t2\n+3");
    assert_eq!(house.get("a.txt"), "\u{feff}一\r\n\t2\r\n3\r\n");
    assert_eq!(std::fs::metadata(house.root.join("a.txt")).unwrap().mode() & 0o777, 0o750);
}

#[tokio::test]
async fn an_edit_that_is_not_clear_changes_nothing() {
    let house = House::new();
    house.put("a.txt", "x = 1\ny = 1\n");
    house.put("binary", "a\0x");
    let edit = |path: &str, old: &str, new: &str| json!({"path": path, "old_text": old, "new_text": new});
    for (arguments, code) in [
        (edit("a.txt", "1", "2"), "AMBIGUOUS"),
        (edit("a.txt", "z", "2"), "NO_MATCH"),
        (edit("a.txt", "1", "1"), "invalid_arguments"),
        (edit("a.txt", "", "1"), "invalid_arguments"),
        (edit("b.txt", "1", "2"), "NOT_FOUND"),
        (edit("binary", "x", "y"), "BINARY_FILE"),
        (edit(".", "x", "y"), "IS_FOLDER"),
    ] {
        assert_eq!(house.code("edit_file", arguments.clone()).await, code, "{arguments}");
    }
    assert_eq!(house.get("a.txt"), "x = 1\ny = 1\n");
    let mut all = edit("a.txt", "1", "2");
    all["replace_all"] = json!(true);
    assert_eq!(house.value("edit_file", all).await["replacements"], 2);
    assert_eq!(house.get("a.txt"), "x = 2\ny = 2\n");
}

#[tokio::test]
async fn a_write_is_previewed_as_it_would_happen() {
    let house = House::new();
    house.put("old.txt", "x");
    let preview = |path: &str, content: &str| {
        house.tool("write_file").preview(&json!({"path": path, "content": content}), &house.cx)
    };
    assert_eq!(preview("new.txt", "一\u{1b}[2J").unwrap(), "create new.txt (7 bytes):\n一\\u{1b}[2J");
    assert_eq!(preview("old.txt", "y").unwrap(), "replace old.txt (1 byte):\ny");
}
