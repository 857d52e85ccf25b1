//! `list_files` and `search_files` in real folders.

use serde_json::json;

use crate::support::House;

fn house() -> House {
    let house = House::new();
    house.put("README.md", "# Stock\n库存: 42\nstock again\n");
    house.put("src/main.rs", "fn main() {\n    // TODO stock\n}\n");
    house.put("src/lib/deep.rs", "pub fn stock() {}\n");
    house.put("target/out.rs", "stock\n");
    house.put(".gitignore", "target/\n*.log\n!keep.log\n");
    house.put("noise.log", "stock\n");
    house.put("keep.log", "stock\n");
    house.put("src/.hidden", "stock\n");
    house.put("image.png", b"\x89PNG\0stock\n");
    house.link("src", "src_link");
    house.link("README.md", "readme_link");
    house
}

#[tokio::test]
async fn a_folder_is_listed_in_order_without_what_is_ignored() {
    let house = house();
    let text = house.text("list_files", json!({})).await;
    assert_eq!(
        text,
        "README.md (31 bytes)\nimage.png (11 bytes)\nkeep.log (6 bytes)\nreadme_link -> README.md\nsrc/\nsrc_link -> \
         src\n[6 in all; 3 hidden or ignored]"
    );
    let text = house.text("list_files", json!({"glob": "*.rs"})).await;
    assert_eq!(text, "src/lib/deep.rs (18 bytes)\nsrc/main.rs (32 bytes)\n[2 in all; 4 hidden or ignored]");
    let text = house.text("list_files", json!({"path": "src", "glob": "lib/*.rs"})).await;
    assert!(text.starts_with("src/lib/deep.rs"), "{text}");
    let text = house.text("list_files", json!({"path": "target"})).await;
    assert!(text.starts_with("target/out.rs"), "{text}");
    let value = house.value("list_files", json!({"depth": 3, "limit": 2})).await;
    assert_eq!((&value["shown"], &value["total"], &value["total_is_exact"]), (&json!(2), &json!(9), &json!(true)));
    assert_eq!(house.text("list_files", json!({"glob": "*.zig"})).await, "[nothing to show; 4 hidden or ignored]");
    assert_eq!(house.code("list_files", json!({"path": "README.md"})).await, "NOT_A_FOLDER");
    assert_eq!(house.code("list_files", json!({"path": "scr"})).await, "NOT_FOUND");
}

#[tokio::test]
async fn matches_name_their_line() {
    let house = house();
    let text = house.text("search_files", json!({"pattern": "stock"})).await;
    assert_eq!(
        text,
        "README.md:3: stock again\nkeep.log:1: stock\nsrc/lib/deep.rs:1: pub fn stock() {}\nsrc/main.rs:2:     // TODO \
         stock\n[4 lines matched in 5 files; 1 binary skipped; 4 hidden or ignored skipped]"
    );
    let value = house.value("search_files", json!({"pattern": "STOCK", "ignore_case": true, "limit": 1})).await;
    assert_eq!(value["matches"], json!([{"path": "README.md", "line": 1, "text": "# Stock"}]));
    assert_eq!((&value["shown"], &value["total"]), (&json!(1), &json!(5)));
    let text = house.text("search_files", json!({"pattern": "库存", "context": 1})).await;
    assert!(text.starts_with("README.md-1- # Stock\nREADME.md:2: 库存: 42\nREADME.md-3- stock again\n"), "{text}");
    let value = house.value("search_files", json!({"pattern": "main() {", "literal": true, "glob": "*.rs"})).await;
    assert_eq!(value["total"], 1);
    let value = house.value("search_files", json!({"pattern": "^stock$", "path": "target/out.rs"})).await;
    assert_eq!((&value["total"], &value["files"]), (&json!(1), &json!(1)));
    let value = house.value("search_files", json!({"pattern": "^库存: \\d+$"})).await;
    assert_eq!(value["matches"], json!([{"path": "README.md", "line": 2, "text": "库存: 42"}]));
    let text = house.text("search_files", json!({"pattern": "nothing"})).await;
    assert!(text.starts_with("[no match in 5 files; upper and lower case differ"), "{text}");
}

#[tokio::test]
async fn a_search_has_limits() {
    let house = House::new();
    house.put("many.txt", "line\n".repeat(20_000));
    house.put("crlf.txt", "end\r\n");
    house.put("wide.txt", format!("{}needle{}", "无".repeat(5_000), "线".repeat(5_000)));
    let value = house.value("search_files", json!({"pattern": "line"})).await;
    assert_eq!(
        (&value["shown"], &value["total"], &value["total_is_exact"]),
        (&json!(100), &json!(10_000), &json!(false))
    );
    let value = house.value("search_files", json!({"pattern": "needle"})).await;
    let text = value["matches"][0]["text"].as_str().unwrap();
    assert!(text.contains("needle") && text.chars().count() == 252);
    assert_eq!(house.value("search_files", json!({"pattern": "end$"})).await["total"], 1);
}

#[tokio::test]
async fn a_pattern_that_is_none_is_refused_before_anything_runs() {
    let house = House::new();
    for (tool, arguments, path) in [
        ("search_files", json!({"pattern": "a("}), "/pattern"),
        ("search_files", json!({"pattern": "(?=x)"}), "/pattern"),
        ("search_files", json!({"pattern": "a\nb"}), "/pattern"),
        ("search_files", json!({"pattern": "(((a{1000}){1000}){1000})"}), "/pattern"),
        ("search_files", json!({"pattern": "a", "glob": "{a"}), "/glob"),
        ("list_files", json!({"glob": "[a"}), "/glob"),
    ] {
        let error = house.check(tool, &arguments).unwrap_err();
        assert_eq!(error.code, tollgate_types::Code::InvalidArguments);
        assert_eq!(error.details[0].path, path);
        assert!(error.hint.is_some() && !error.message.contains('\n'), "{error:?}");
    }
    house.put("a.txt", "a(\n");
    assert_eq!(house.value("search_files", json!({"pattern": "a(", "literal": true})).await["total"], 1);
}

#[tokio::test]
async fn time_ends_a_walk_and_a_search() {
    let mut house = House::new();
    for n in 0..200 {
        house.put(&format!("f{n}.txt"), "text\n");
    }
    house.cx.clock = std::sync::Arc::new(crate::support::Ticking::default());
    house.cx.deadline = std::time::Duration::from_millis(50);
    for (tool, arguments) in [("list_files", json!({})), ("search_files", json!({"pattern": "x"}))] {
        let error = house.call(tool, arguments).await.unwrap_err();
        assert_eq!(error.code, tollgate_types::Code::Timeout, "{tool}");
    }
}
