//! Never twice: `kill -9` at any moment, two processes with one key, and keys that a configuration declares.

use std::time::Duration;

use serde_json::json;

use crate::shop::{Done, Shop};

/// How often a process is killed; `TOLLGATE_KILL_ROUNDS` says otherwise.
const ROUNDS: u64 = 50;

/// A program whose effect is a line in a file.
fn shop(idempotency: &str) -> Shop {
    Shop::with(&format!(
        "role = \"clerk\"\n[roles.clerk]\ntools = [\"*\"]\nrisk = \"dangerous\"\npermission = \"system\"\nask = \"never\"\n\
         [[tool]]\nname = \"append\"\ndescription = \"d\"\n\
         command = [\"sh\", \"-c\", \"read -r line; echo \\\"$line\\\" >> effects; echo \\\"$ORDER_KEY\\\"\"]\n\
         input_schema = {{ type = \"object\", properties = {{ n = {{ type = \"integer\" }}, note = {{ type = \"string\" }} }}, \
         required = [\"n\"] }}\n{idempotency}\n"
    ))
}

fn effects(shop: &Shop) -> Vec<String> {
    let text = std::fs::read_to_string(shop.path().join("effects")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn arguments(n: u64) -> String {
    json!({ "n": n }).to_string()
}

#[test]
fn a_killed_process_and_those_after_it_do_it_once() {
    let rounds = std::env::var("TOLLGATE_KILL_ROUNDS").ok().map_or(ROUNDS, |text| text.parse().unwrap());
    let shop = shop("");
    // How long a call takes here, so that the kills fall into it.
    let began = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap();
    assert_eq!(shop.tollgate(&["call", "append", r#"{"n":0}"#]).code, 0);
    let took_us = u64::try_from((std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap() - began).as_micros()).unwrap();
    let (mut done, mut unknown) = (0_u64, 0_usize);
    for n in 1..=rounds {
        let (arguments, key) = (arguments(n), format!("round-{n}"));
        let call = ["call", "append", &arguments, "--idempotency-key", &key];
        let mut child = shop.start(&call);
        // Where in its life it is killed goes through the whole of it.
        std::thread::sleep(Duration::from_micros(took_us * n / rounds));
        child.kill().unwrap();
        child.wait().unwrap();
        for _ in 0..2 {
            let next = shop.tollgate(&call);
            let outcome = next.json();
            match outcome["status"].as_str().unwrap() {
                "done" => done += 1,
                "unknown" => {
                    unknown += 1;
                    assert_eq!(outcome["error"]["error"], "outcome_unknown", "{outcome}");
                    assert!(next.stderr.contains("audit settle ATTEMPT --as done"), "{}", next.stderr);
                }
                other => panic!("{other}: {outcome}"),
            }
        }
    }
    assert_eq!(done + u64::try_from(unknown).unwrap(), 2 * rounds);
    let effects = effects(&shop);
    for n in 1..=rounds {
        let times = effects.iter().filter(|line| **line == arguments(n)).count();
        assert!(times <= 1, "round {n}: {times} times");
    }
    assert_eq!(shop.tollgate(&["audit", "verify"]).code, 0);
    let open = shop.tollgate(&["audit", "settle"]).json();
    // One that died between its stored answer and its last record is told its answer, and is open all the same.
    assert!(open.as_array().unwrap().len() * 2 >= unknown, "{open} {unknown}");
}

#[test]
fn of_processes_that_race_with_one_key_one_does_it() {
    let shop = shop("");
    for n in 0..5 {
        let (arguments, key) = (arguments(n), format!("race-{n}"));
        let call = ["call", "append", &arguments, "--idempotency-key", &key];
        let children: Vec<_> = (0..4).map(|_| shop.start(&call)).collect();
        let done: Vec<Done> = children.into_iter().map(|child| child.wait_with_output().unwrap().into()).collect();
        let replayed = done.iter().filter(|done| done.json()["replayed"] == true).count();
        assert_eq!((replayed, done.iter().filter(|done| done.code == 0).count()), (3, 4), "{}", done[0].stdout);
        assert_eq!(effects(&shop).iter().filter(|line| **line == arguments).count(), 1);
    }
}

#[test]
fn a_configuration_declares_keys_and_hands_them_on() {
    let shop = shop("idempotency = { argument = \"/n\", hand_on = \"ORDER_KEY\" }");
    let call = |arguments: &str| shop.tollgate(&["call", "append", arguments]).json();
    let first = call(r#"{"n":1}"#);
    let text = first["result"]["content"][0]["text"].as_str().unwrap();
    assert_eq!((text.len(), text.matches('-').count()), (36, 4), "{text}");
    assert_eq!(call(r#"{"n":1}"#)["replayed"], true);
    let conflict = call(r#"{"n":1,"note":"express"}"#);
    assert_eq!(conflict["error"]["error"], "conflict", "{conflict}");
    assert_eq!(call(r#"{"n":2}"#)["replayed"], false);
    assert_eq!(effects(&shop).len(), 2);
}

#[test]
fn an_overlay_lets_equal_calls_count_as_one() {
    let shop = shop("[tools.append]\nidempotency = { derive = true, ttl_ms = 600000 }");
    let call = |arguments: &str| shop.tollgate(&["call", "append", arguments]).json()["replayed"].clone();
    assert_eq!(
        [call(r#"{"n":1}"#), call(r#"{ "n": 1 }"#), call(r#"{"n":2}"#)],
        [json!(false), json!(true), json!(false)]
    );
    assert_eq!(effects(&shop).len(), 2);
}

#[test]
fn what_cannot_hold_is_refused_at_the_start() {
    for (idempotency, expected) in [
        ("{ argument = \"/order\" }", "has no property `order`"),
        ("{ argument = \"/note\" }", "must have `note` in `required`"),
        ("{ argument = \"n\" }", "is no JSON Pointer"),
        ("{ argument = \"/n\", derive = true }", "are two keys"),
        ("{ ttl_ms = 10 }", "must be between 1000 and 604800000"),
        ("{ hand_on = \"A=B\" }", "is no name of a header or a variable"),
        ("{ derived = true }", "unknown field `derived`"),
    ] {
        let done = shop(&format!("idempotency = {idempotency}")).tollgate(&["tools", "list"]);
        assert!(done.code == 2 && done.stderr.contains(expected), "{idempotency}: {} {}", done.code, done.stderr);
    }
}
