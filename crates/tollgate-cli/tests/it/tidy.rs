//! The house keeps its own rules: floors, sizes, and where things may be done. The exceptions may only shrink.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// The floor of each crate; an edge only goes down.
const FLOORS: &[(&str, u8)] = &[
    ("tollgate-types", 0),
    ("tollgate-catalog", 1),
    ("tollgate-policy", 1),
    ("tollgate-wire", 1),
    ("tollgate-sandbox", 1),
    ("tollgate-guard", 1),
    ("tollgate-shape", 1),
    ("tollgate-ledger", 2),
    ("tollgate-store", 2),
    ("tollgate-mcp", 2),
    ("tollgate-tools", 2),
    ("tollgate-telemetry", 2),
    ("tollgate-gate", 3),
    ("tollgate-webhook", 3),
    ("tollgate-agent", 4),
    ("tollgate-eval", 5),
    ("tollgate", 6),
    ("tollgate-server", 7),
    ("tollgate-cli", 8),
];

/// What stands beside the house: tests and measurements.
const BESIDE: &[&str] = &["tollgate-bench", "tollgate-fuzz", "tollgate-testkit"];

/// What a crate must not know although it stands lower.
const FORBIDDEN: &[(&str, &[&str])] = &[
    ("tollgate-gate", &["tollgate-sandbox", "tollgate-mcp", "tollgate-tools"]),
    ("tollgate-mcp", &["tollgate-policy"]),
];

/// Foreign crates that belong to one room.
const ROOMS: &[(&str, &[&str])] = &[
    ("cedar-policy", &["tollgate-policy"]),
    ("clap", &["tollgate-cli"]),
    ("miette", &["tollgate-cli"]),
    ("process-wrap", &["tollgate-sandbox"]),
    ("reqwest", &["tollgate-guard"]),
    ("rusqlite", &["tollgate-ledger", "tollgate-store", "tollgate-tools"]),
    ("tokio-postgres", &["tollgate-tools"]),
    ("axum", &["tollgate-server"]),
    ("opentelemetry", &["tollgate-telemetry"]),
];

#[expect(clippy::disallowed_methods, reason = "cargo itself is asked, and no tool runs")]
fn metadata() -> Value {
    let output = std::process::Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Every edge but dev edges, by crate.
fn edges() -> BTreeMap<String, Vec<String>> {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap();
    let edges = packages.iter().map(|package| {
        let names = package["dependencies"].as_array().unwrap().iter();
        let names = names.filter(|edge| edge["kind"] != "dev").map(|edge| edge["name"].as_str().unwrap().to_owned());
        (package["name"].as_str().unwrap().to_owned(), names.collect())
    });
    edges.collect()
}

#[test]
fn edges_only_go_down() {
    let floors: BTreeMap<&str, u8> = FLOORS.iter().copied().collect();
    for (name, targets) in edges().iter().filter(|(name, _)| !BESIDE.contains(&name.as_str())) {
        let floor = floors.get(name.as_str()).unwrap_or_else(|| panic!("{name} stands on no floor: add it to FLOORS"));
        for target in targets.iter().filter(|target| target.starts_with("tollgate")) {
            let below =
                floors.get(target.as_str()).unwrap_or_else(|| panic!("{name} needs {target}, which is for tests"));
            assert!(below < floor, "{name} (floor {floor}) must not know {target} (floor {below})");
        }
    }
}

#[test]
fn each_thing_is_in_its_room() {
    let edges = edges();
    for (name, forbidden) in FORBIDDEN {
        for target in *forbidden {
            assert!(!edges[*name].iter().any(|edge| edge == target), "{name} must not know {target}");
        }
    }
    for (foreign, rooms) in ROOMS {
        for (name, targets) in edges.iter().filter(|(name, _)| !BESIDE.contains(&name.as_str())) {
            let has = targets.iter().any(|target| target == foreign);
            assert!(!has || rooms.contains(&name.as_str()), "{name} must not use {foreign}: it belongs to {rooms:?}");
        }
    }
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn no_file_is_longer_than_800_lines() {
    let mut found = Vec::new();
    sources(&root().join("crates"), &mut found);
    assert!(found.len() > 50, "the sources are not where they are looked for");
    for path in found {
        let lines = std::fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines <= 800, "{} has {lines} lines: look for the second idea in it", path.display());
    }
}

#[test]
fn every_file_says_what_it_is_for() {
    let mut found = Vec::new();
    sources(&root().join("crates"), &mut found);
    for path in found {
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("//!"), "{} has no `//!` paragraph on top", path.display());
    }
}
