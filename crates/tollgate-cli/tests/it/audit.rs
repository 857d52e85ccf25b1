//! The ledger from outside: tampering is named, dead processes are reported, ten processes keep one chain.

use serde_json::{Value, json};

use crate::shop::Shop;

fn calls(shop: &Shop, count: usize) {
    for n in 0..count {
        assert_eq!(shop.tollgate(&["call", "calculate", &json!({"expression": format!("{n}+1")}).to_string()]).code, 0);
    }
}

#[test]
fn a_changed_removed_or_swapped_line_is_found_and_named() {
    let shop = Shop::bare();
    calls(&shop, 4);
    let whole = shop.ledger();
    assert_eq!(shop.tollgate(&["audit", "verify"]).code, 0);
    type Tamper = fn(&mut Vec<String>);
    let cases: [(&str, u64, Tamper); 4] = [
        ("changed", 6, |lines| lines[5] = lines[5].replace("calculate", "calculatf")),
        ("removed", 7, |lines| drop(lines.remove(6))),
        ("swapped", 4, |lines| lines.swap(3, 4)),
        ("inserted", 2, |lines| lines.insert(2, lines[1].clone())),
    ];
    for (kind, seq, tamper) in cases {
        let mut lines = whole.clone();
        tamper(&mut lines);
        shop.write_ledger(&lines);
        let done = shop.tollgate(&["audit", "verify"]);
        let report = done.json();
        assert_eq!((done.code, &report["ok"]), (1, &json!(false)), "{kind}");
        assert_eq!((&report["fault"]["kind"], &report["fault"]["seq"]), (&json!(kind), &json!(seq)), "{report}");
        let text = shop.tollgate(&["--format", "text", "audit", "verify"]).stdout;
        assert!(text.contains(&format!("record {seq} ")), "{text}");
    }
    shop.write_ledger(&whole);
    assert_eq!(shop.tollgate(&["audit", "verify"]).code, 0);
}

#[test]
fn no_ledger_is_unreadable() {
    let done = Shop::bare().tollgate(&["audit", "verify"]);
    assert_eq!(done.code, 6);
    assert!(done.stderr.contains("there is no ledger"), "{}", done.stderr);
}

#[test]
fn looking_makes_no_data_folder() {
    let shop = Shop::bare();
    for args in [["audit", "tail"].as_slice(), &["audit", "verify"], &["audit", "show", "0123456789"]] {
        shop.tollgate(args);
    }
    assert!(!shop.path().join(".tollgate").exists());
}

#[test]
fn tail_and_show_tell_the_story() {
    let shop = Shop::bare();
    calls(&shop, 3);
    let tail = shop.tollgate(&["audit", "tail", "-n", "2"]);
    let records: Vec<Value> = tail.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records.iter().map(|record| record["seq"].clone()).collect::<Vec<_>>(), [json!(11), json!(12)]);
    let attempt = records[1]["attempt"].as_str().unwrap();
    let story = shop.tollgate(&["audit", "show", attempt]).json();
    let events: Vec<&str> = story.as_array().unwrap().iter().map(|record| record["event"].as_str().unwrap()).collect();
    assert_eq!(events, ["received", "decided", "started", "finished"]);
    let text = shop.tollgate(&["--format", "text", "audit", "show", attempt]).stdout;
    assert!(text.contains("finished") && text.contains("done"), "{text}");
    assert_eq!(shop.tollgate(&["audit", "show", "ffffffff"]).code, 2);
}

#[test]
fn a_killed_call_is_reported_and_settled() {
    let shop = Shop::with(
        "[roles.operator]\ntools = [\"*\"]\nrisk = \"dangerous\"\npermission = \"system\"\nask = \"never\"\n\
         [[tool]]\nname = \"pay\"\ndescription = \"d\"\ncommand = [\"sh\", \"-c\", \"touch began; sleep 60\"]\n",
    );
    let mut child = shop.start(&["--role", "operator", "call", "pay", r#"{"to":"a"}"#, "--idempotency-key", "k"]);
    while !shop.path().join("began").exists() {
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();

    let next = shop.tollgate(&["call", "calculate", r#"{"expression":"1"}"#]);
    assert_eq!(next.code, 0);
    assert!(next.stderr.contains("started and never finished"), "{}", next.stderr);
    let unsettled = shop.tollgate(&["audit", "settle"]).json();
    assert_eq!((unsettled.as_array().unwrap().len(), &unsettled[0]["tool"]), (1, &json!("pay")));
    let attempt = unsettled[0]["attempt"].as_str().unwrap().to_owned();
    let ended = shop.tollgate(&["audit", "show", &attempt]).json();
    assert_eq!(ended.as_array().unwrap().last().unwrap()["outcome"]["code"], "outcome_unknown");

    let again = shop.tollgate(&["--role", "operator", "call", "pay", r#"{"to":"a"}"#, "--idempotency-key", "k"]);
    assert_eq!((again.code, again.json()["error"]["error"].clone()), (5, json!("outcome_unknown")), "never run twice");
    assert_eq!(shop.tollgate(&["audit", "settle", &attempt]).code, 2, "it must be said how it ended");
    assert_eq!(shop.tollgate(&["audit", "settle", &attempt, "--as", "done", "--note", "the bank says so"]).code, 0);
    assert_eq!(shop.tollgate(&["audit", "settle"]).json(), json!([]));
    let replayed = shop.tollgate(&["--role", "operator", "call", "pay", r#"{"to":"a"}"#, "--idempotency-key", "k"]);
    assert_eq!((replayed.code, replayed.json()["replayed"].clone()), (0, json!(true)));
    assert_eq!(shop.tollgate(&["audit", "verify"]).code, 0);
}

#[test]
fn forty_processes_keep_one_chain() {
    let shop = Shop::bare();
    let children: Vec<_> = (0..40)
        .map(|n| shop.start(&["call", "calculate", &json!({"expression": format!("{n}*{n}")}).to_string()]))
        .collect();
    for (n, child) in children.into_iter().enumerate() {
        let done = crate::shop::Done::from(child.wait_with_output().unwrap());
        assert_eq!(done.json()["result"]["content"][0]["text"], (n * n).to_string(), "{}", done.stderr);
    }
    let report = shop.tollgate(&["audit", "verify"]).json();
    assert_eq!((&report["ok"], &report["records"]), (&json!(true), &json!(160)));
}
