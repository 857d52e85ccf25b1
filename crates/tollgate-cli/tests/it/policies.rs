//! The policies of `examples/policies`: each does what its cases say, and each of its rules is needed for that.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::shop::Shop;

fn root() -> PathBuf {
    std::fs::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap()
}

fn folders(of: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = std::fs::read_dir(of).unwrap().map(|folder| folder.unwrap().path()).collect();
    folders.sort();
    folders
}

/// The scenarios, without the suites of AgentDojo.
fn scenarios() -> Vec<PathBuf> {
    let all = folders(&root().join("examples/policies"));
    all.into_iter().filter(|folder| !folder.ends_with("agentdojo")).collect()
}

fn test(shop: &Shop, folder: &Path, more: &[&str]) -> (i32, Value, String) {
    let config = folder.join("tollgate.toml");
    let done = shop.tollgate(&[&["--config", config.to_str().unwrap(), "policy", "test"], more].concat());
    let report = serde_json::from_str(&done.stdout).unwrap_or_default();
    (done.code, report, done.stderr)
}

/// A scenario by its name.
pub(crate) fn scenario(name: &str) -> Shop {
    copy(&root().join("examples/policies").join(name))
}

/// A copy of a scenario, to be changed.
fn copy(folder: &Path) -> Shop {
    let shop = Shop::bare();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        // Whoever tried the scenario left a data folder there.
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), shop.path().join(entry.file_name())).unwrap();
        }
    }
    shop
}

fn change(shop: &Shop, file: &str, text: &str) {
    std::fs::write(shop.path().join(file), text).unwrap();
}

fn read(folder: &Path, file: &str) -> String {
    std::fs::read_to_string(folder.join(file)).unwrap()
}

#[test]
fn each_does_what_its_cases_say() {
    let suites = folders(&root().join("examples/policies/agentdojo"));
    assert_eq!(scenarios().len(), 10);
    for folder in scenarios().iter().chain(&suites) {
        let shop = Shop::bare();
        let (code, report, said) = test(&shop, folder, &[]);
        assert_eq!(code, 0, "{}: {report} {said}", folder.display());
        assert!(report["cases"].as_u64().unwrap() >= 6 && report["examples"].as_u64().unwrap() >= 6, "{report}");
        assert!(!shop.path().join(".tollgate").exists(), "to test makes no data folder");
    }
}

#[test]
fn each_has_cases_of_every_kind() {
    for folder in scenarios() {
        let json = folder.join("rules.cases.json");
        let cases: Value = match std::fs::read_to_string(&json) {
            Ok(text) => serde_json::from_str(&text).unwrap(),
            Err(_) => toml::from_str(&read(&folder, "rules.cases.toml")).unwrap(),
        };
        let cases = cases["case"].as_array().unwrap().clone();
        let name = folder.display();
        for effect in ["allow", "ask", "deny"] {
            let count = cases.iter().filter(|case| case["expect"] == effect).count();
            assert!(count >= 2, "{name}: {effect} {count}");
        }
        // A near miss: a call of the same tool that ends otherwise.
        for case in cases.iter().filter(|case| case["rule"].as_str().is_some_and(|rule| rule.starts_with("cedar:"))) {
            let is_near = |other: &Value| other["tool"] == case["tool"] && other["rule"] != case["rule"];
            // What is about all calls of a tool has its near miss in another tool.
            let is_about_tools = ["cedar:deleting", "cedar:unknown-servers"].iter().any(|rule| case["rule"] == *rule);
            assert!(is_about_tools || cases.iter().any(is_near), "{name}: no near miss of {case}");
        }
    }
}

/// The rules of a text, each from its `@id` to the next.
fn rules(text: &str) -> Vec<&str> {
    let mut starts: Vec<usize> = text.match_indices("@id(").map(|(at, _)| at).collect();
    starts.push(text.len());
    starts.windows(2).map(|pair| text.get(pair[0]..pair[1]).unwrap()).collect()
}

#[test]
fn no_rule_can_go_unnoticed() {
    for folder in scenarios() {
        let shop = copy(&folder);
        let text = read(&folder, "rules.cedar");
        let rules = rules(&text);
        assert!(rules.len() >= 4, "{}", folder.display());
        for rule in rules {
            change(&shop, "rules.cedar", &text.replacen(rule, "", 1));
            let (code, report, said) = test(&shop, shop.path(), &[]);
            assert_eq!(code, 1, "{}: without {rule}\n{report} {said}", folder.display());
        }
    }
}

#[test]
fn nothing_that_a_tool_says_of_itself_can_go_unnoticed() {
    const KEYS: [&str; 7] = [
        "allowed_paths",
        "blocked_patterns",
        "requires_confirmation",
        "typed_confirmation",
        "approvers",
        "tenants",
        "environments",
    ];
    let mut seen = std::collections::BTreeSet::new();
    for folder in scenarios() {
        let shop = copy(&folder);
        let text = read(&folder, "tollgate.toml");
        for (number, line) in text.lines().enumerate() {
            let Some(key) = KEYS.iter().find(|key| line.starts_with(&format!("{key} = "))) else { continue };
            let without: Vec<&str> =
                text.lines().enumerate().filter(|(other, _)| *other != number).map(|(_, line)| line).collect();
            change(&shop, "tollgate.toml", &without.join("\n"));
            let (code, report, said) = test(&shop, shop.path(), &[]);
            assert_eq!(code, 1, "{}: without `{line}`: {report} {said}", folder.display());
            seen.insert(*key);
        }
    }
    assert_eq!(seen.len(), KEYS.len(), "{seen:?}");
}

#[test]
fn each_configuration_opens_a_gate() {
    for folder in scenarios() {
        let shop = copy(&folder);
        let done = shop.tollgate(&["tools", "list"]);
        assert_eq!(done.code, 0, "{}: {}", folder.display(), done.stderr);
        assert!(!done.stdout.trim().is_empty(), "{}", folder.display());
    }
}

#[test]
fn the_page_is_what_the_rules_decide() {
    let shop = Shop::bare();
    let done = shop.command(&["docs", shop.path().to_str().unwrap()]).current_dir(root()).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let (found, checked_in) = (read(shop.path(), "policies.md"), read(&root().join("docs"), "policies.md"));
    assert_eq!(found, checked_in, "docs/policies.md is not what the rules decide: run `tollgate docs docs`");
}
