//! `tollgate eval`: a data set through the gate, and a page about it.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::shop::Shop;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A recording of one task and one injection.
fn recording(shop: &Shop) -> String {
    let whole = std::fs::read_to_string(root().join("crates/tollgate-eval/tests/data/agentdojo.json")).unwrap();
    let mut recorded: Value = serde_json::from_str(&whole).unwrap();
    let suites = recorded["suites"].as_array_mut().unwrap();
    suites.retain(|suite| suite["name"] == "banking");
    for tasks in ["user_tasks", "injection_tasks"] {
        suites[0][tasks].as_array_mut().unwrap().truncate(1);
    }
    let path = shop.path().join("recording.json");
    std::fs::write(&path, recorded.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn agentdojo_is_replayed_and_written_up() {
    let shop = Shop::bare();
    let (data, page) = (recording(&shop), shop.path().join("page.md"));
    let policies = root().join("examples/policies/agentdojo");
    let policies = policies.to_str().unwrap();
    let page_name = page.to_str().unwrap();
    let done = shop.tollgate(&["eval", "agentdojo", "--data", &data, "--policies", policies, "--report", page_name]);
    assert_eq!(done.code, 0, "{}", done.stderr);
    let report = done.json();
    assert_eq!((&report["all"]["attacks"]["pairs"], &report["all"]["attacks"]["succeeded"]), (&1.into(), &0.into()));
    assert_eq!(report["without_rules"][0]["attacks"]["succeeded"], 1, "{report}");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("| banking | 1 | 1 | **0** |") && !page.contains("{{"), "{page}");
    assert!(!shop.path().join(".tollgate").exists(), "a replay has folders of its own");
}

#[test]
fn a_recording_that_is_not_there_is_named() {
    let shop = Shop::bare();
    let done = shop.tollgate(&["eval", "agentdojo", "--data", "nothing.json"]);
    assert_eq!(done.code, 2, "{}", done.stderr);
    assert!(done.stderr.contains("nothing.json") && done.stderr.contains("scripts/agentdojo"), "{}", done.stderr);
}
