//! Whatever the path: nothing outside of the workspace is read or changed, and nothing protected.

use proptest::prelude::*;
use serde_json::json;

use crate::support::{House, text};

fn house() -> House {
    let house = House::new();
    house.put("a/b/c.txt", "plain\n");
    house.link("../../outside", "a/up");
    house.link("/", "a/root");
    house.link(&house.outside, "out");
    house.link("a/up", "chain");
    house.link("..", "a/b/parent");
    house.link(".tollgate/audit", "audit");
    house
}

fn path() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "..",
        ".",
        "",
        "a",
        "b",
        "c.txt",
        "up",
        "root",
        "out",
        "chain",
        "parent",
        "audit",
        "key.txt",
        "outside",
        "ws",
        ".tollgate",
        "tollgate.toml",
        "segment-1.jsonl",
        "etc",
        "proc",
        "self",
        "cwd",
        "键盘",
        "~",
        "%2e%2e",
    ]);
    prop_oneof![prop::collection::vec(part, 1..8).prop_map(|parts| parts.join("/")), "\\PC{0,12}", "[./a-z]{0,20}",]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_path_leads_out(paths in prop::collection::vec(path(), 16)) {
        let house = house();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for path in paths {
            for (tool, arguments) in [
                ("read_file", json!({"path": path})),
                ("search_files", json!({"path": path, "pattern": "SECRET"})),
                ("write_file", json!({"path": path, "content": "mine", "overwrite": true})),
            ] {
                if let Ok(output) = runtime.block_on(house.call(tool, arguments)) {
                    prop_assert!(!text(&output).contains("SECRET"), "{tool} {path:?}");
                }
            }
        }
        let read = |path: std::path::PathBuf| std::fs::read_to_string(path).unwrap();
        prop_assert_eq!(read(house.outside.join("key.txt")), "SECRET key\n");
        prop_assert_eq!(std::fs::read_dir(&house.outside).unwrap().count(), 1);
        prop_assert_eq!(house.get("tollgate.toml"), "SECRET = true\n");
        prop_assert_eq!(house.get(".tollgate/audit/segment-1.jsonl"), "SECRET record\n");
        prop_assert_eq!(std::fs::read_dir(house.root.join(".tollgate/audit")).unwrap().count(), 1);
    }
}
