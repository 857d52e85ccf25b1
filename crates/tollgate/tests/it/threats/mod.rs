//! The catalogue of threats, `tests/cases/threats.jsonl`: each entry is run here as data, or names the test that tries it,
//! or says whose part it is. None is left unsaid; `cargo test -p tollgate threats -- --nocapture` prints the coverage.

mod attack;
mod policy;
mod world;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

/// Where an entry is tried.
enum Cover {
    /// Here, with the entry's own input.
    Run(fn(&Value)),
    /// By a test of this name, in this file below `crates/`.
    Test(&'static str, &'static str),
    /// Not yet: the part that it belongs to.
    Later(&'static str),
}

use Cover::{Later, Run, Test};

/// Requests, names, arguments, policy, approvals, keys and limits.
const GATE: &[(&str, Cover)] = &[
    ("T006", Run(policy::a_poisoned_result_taints)),
    ("T008", Run(attack::invisible_characters)),
    ("T009", Run(attack::a_bare_name_is_nobodys)),
    ("T010", Run(attack::look_alike_names)),
    ("T013", Run(attack::annotations_are_not_believed)),
    ("T015", Run(attack::duplicate_keys)),
    ("T016", Run(attack::deep_nesting)),
    ("T018", Run(attack::numbers_and_surrogates)),
    ("T026", Test("tollgate-server/tests/it/threats.rs", "a_browser_reaches_no_command")),
    ("T028", Test("tollgate-server/tests/it/threats.rs", "a_simple_request_is_no_call")),
    ("T029", Test("tollgate-cli/tests/it/approvals.rs", "a_swapped_command_asks_anew")),
    ("T057", Test("tollgate-server/tests/it/mcp.rs", "a_session_is_its_openers_until_it_is_closed")),
    ("T059", Run(attack::references_are_plain_text)),
    ("T062", Run(policy::one_yes_and_many_at_once)),
    ("T066", Run(policy::what_fails_denies)),
    ("T068", Run(policy::hidden_is_unknown)),
    ("T069", Run(policy::a_half_written_policy_never_counts)),
    ("T070", Run(attack::a_retry_after_a_timeout)),
    ("T071", Run(attack::one_key_for_two_calls)),
    ("T072", Test("tollgate-cli/tests/it/audit.rs", "a_killed_call_is_reported_and_settled")),
    ("T074", Run(policy::a_burst_at_the_edge)),
    ("T082", Run(policy::the_clock_is_set_back)),
];

/// The ledger, servers, schemas and files: tried in their own crates.
const NEIGHBOURS: &[(&str, Cover)] = &[
    ("T017", Test("tollgate-mcp/tests/it/upstream/hostile.rs", "an_answer_that_is_too_large_costs_its_call_alone")),
    ("T019", Test("tollgate-mcp/tests/it/upstream/hostile.rs", "a_call_survives_wrong_ids_and_a_death_costs_one_call")),
    ("T024", Test("tollgate-mcp/tests/it/upstream/life.rs", "nothing_is_left_after_a_stop_or_a_drop")),
    ("T034", Test("tollgate-tools/tests/it/postgres.rs", "what_does_not_only_read_is_refused_and_does_nothing")),
    (
        "T038",
        Test("tollgate-tools/tests/it/confinement.rs", "what_is_outside_or_protected_is_denied_before_anything_runs"),
    ),
    (
        "T039",
        Test("tollgate-tools/tests/it/confinement.rs", "what_is_outside_or_protected_is_denied_before_anything_runs"),
    ),
    ("T041", Test("tollgate-tools/tests/it/confinement.rs", "what_is_no_path_is_said")),
    ("T042", Test("tollgate-tools/tests/it/confinement.rs", "pipes_and_sockets_are_refused_without_waiting")),
    ("T048", Run(attack::schemas_that_reach_outside)),
    ("T077", Test("tollgate-ledger/tests/it/disk.rs", "a_full_disk_refuses_and_works_again_without_a_restart")),
    (
        "T078",
        Test(
            "tollgate-ledger/tests/it/checkpoints.rs",
            "what_was_kept_elsewhere_finds_a_cut_a_rollback_and_another_key",
        ),
    ),
    ("T080", Test("tollgate-guard/tests/it/redact.rs", "trees_lose_what_stands_under_a_name")),
    (
        "T081",
        Test(
            "tollgate-ledger/tests/it/crash.rs",
            "killed_processes_lose_nothing_that_was_acknowledged_and_every_open_attempt_is_reported",
        ),
    ),
];

const LOGINS: &str = "tollgate-mcp/tests/it/upstream/logins/mod.rs";

const LATER: &[(&str, Cover)] = &[
    ("T003", Later("pins of servers' definitions")),
    ("T011", Later("names of servers and their tools: the MCP client")),
    ("T020", Later("floods from a server: the MCP client")),
    ("T023", Later("what a server prints beside the protocol: the MCP client")),
    ("T031", Later("arguments of programs on their command line: the sandbox")),
    ("T032", Later("arguments of programs on their command line: the sandbox")),
    ("T036", Later("what stands in a template of an HTTP tool")),
    ("T040", Later("files that are swapped while they are read: the sandbox")),
    ("T043", Later("archives: no tool reads them yet")),
    ("T044", Later("downloads: no tool writes them yet")),
    ("T045", Later("compressed answers: the HTTP clients")),
    ("T047", Test(LOGINS, "what_a_server_says_falsely_ends_the_login_before_a_token_is_asked_for")),
    ("T049", Later("schemas that explode: the catalog's lint")),
    ("T050", Later("patterns that explode: the catalog's lint")),
    ("T053", Later("OAuth of MCP servers")),
    ("T055", Later("OAuth of MCP servers")),
    ("T056", Test("tollgate-mcp/src/oauth/request.rs", "who_answers_is_compared_to_the_byte_before_anything_else")),
    ("T058", Test(LOGINS, "more_rights_are_asked_of_a_human_with_those_that_were_given")),
    ("T060", Later("what a program sees of others: the sandbox")),
    ("T073", Run(attack::a_fallback_with_a_weaker_policy)),
    ("T075", Later("limits of programs: the sandbox")),
    ("T076", Later("WebAssembly: the sandbox")),
    ("T083", Later("pins of servers' programs")),
    ("T084", Later("levels of isolation: the sandbox")),
];

fn entries() -> Vec<Value> {
    include_str!("../../cases/threats.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Whether the test that is named is there.
fn exists(file: &str, name: &str) -> bool {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    std::fs::read_to_string(path).is_ok_and(|text| text.contains(&format!("fn {name}")))
}

#[test]
fn every_threat_is_tried_or_somebodys() {
    let table: BTreeMap<&str, &Cover> =
        [GATE, NEIGHBOURS, LATER].into_iter().flatten().map(|(id, it)| (*id, it)).collect();
    let entries = entries();
    assert_eq!(table.len(), entries.len(), "an entry stands in the table once, and the table has no others");
    let (mut run, mut named, mut later) = (0, 0, 0);
    for entry in &entries {
        let id = entry["id"].as_str().unwrap();
        let attack = entry["attack"].as_str().unwrap();
        match table.get(id) {
            Some(Run(attempt)) => {
                attempt(entry);
                run += 1;
                println!("{id} run    {attack}");
            }
            Some(Test(file, name)) => {
                assert!(exists(file, name), "{id}: no `{name}` in {file}");
                named += 1;
                println!("{id} test   {attack}: {file} {name}");
            }
            Some(Later(whose)) => {
                later += 1;
                println!("{id} later  {attack}: {whose}");
            }
            None => panic!("{id} ({attack}) is nobody's: say in the table who tries it"),
        }
    }
    println!(
        "{run} run here as data, {named} by tests of other crates, {later} with parts to come, of {}",
        entries.len()
    );
}
