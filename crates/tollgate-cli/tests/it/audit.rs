//! The ledger from outside: tampering is named, dead processes are reported, ten processes keep one chain.

use serde_json::{Value, json};

use crate::shop::Shop;

pub(crate) fn calls(shop: &Shop, count: usize) {
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
    for args in [
        ["audit", "tail"].as_slice(),
        &["audit", "verify"],
        &["audit", "show", "0123456789"],
        &["audit", "query"],
        &["audit", "report"],
        &["audit", "export", "--format", "csv"],
    ] {
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
    assert!(text.contains("calculate: done") && text.contains("bob asked for it"), "{text}");
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

fn rows(done: &crate::shop::Done) -> Vec<Value> {
    done.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The end of an attempt's id, as tables show it.
fn end(attempt: &str) -> &str {
    attempt.rsplit('-').next().unwrap()
}

/// Calls that end in many ways, one of them with a name that a terminal and a browser would obey.
fn a_day(shop: &Shop) {
    calls(shop, 2);
    let hostile = "\u{1b}[2J<script>alert(1)</script>\u{202e}工具";
    shop.tollgate(&["call", hostile, r#"{"x":"</title><img src=x onerror=alert(1)>"}"#]);
    shop.tollgate(&["call", "calculate", r#"{"expresion":"1"}"#]);
    shop.tollgate(&["--role", "reader", "call", "write_file", r#"{"path":"a","text":"b"}"#]);
}

#[test]
fn attempts_are_found_by_what_they_are() {
    let shop = Shop::bare();
    a_day(&shop);
    let query = |args: &[&str]| shop.tollgate(&[&["audit", "query"], args].concat());
    let all = rows(&query(&[]));
    assert_eq!(all.len(), 5);
    assert_eq!(all[0]["tool"], "write_file", "the newest first");
    assert_eq!(rows(&query(&["--status", "refused", "--tool", "calc*"])).len(), 1);
    assert_eq!(rows(&query(&["--role", "reader"]))[0]["code"], "forbidden");
    assert_eq!(rows(&query(&["--since", "1h", "--caller", "bob", "--risk", "read"])).len(), 3);
    assert_eq!(rows(&query(&["--until", "2020-01-01"])).len(), 0);
    let attempt = all[4]["attempt"].as_str().unwrap();
    assert_eq!(rows(&query(&["--attempt", end(attempt)]))[0]["attempt"], attempt);
    let records = rows(&query(&["--status", "done", "--records", "--event", "started,finished"]));
    assert_eq!(records.iter().map(|it| it["seq"].clone()).collect::<Vec<_>>(), [7, 8, 3, 4].map(Value::from));
    let first = rows(&query(&["--limit", "2"]));
    let rest = rows(&query(&["--cursor", first[1]["cursor"].as_str().unwrap()]));
    assert_eq!([first, rest].concat(), all);

    std::fs::remove_file(shop.path().join(".tollgate/audit/index.sqlite")).unwrap();
    assert_eq!(rows(&query(&[])), all, "it is made again");
    let text = shop.tollgate(&["--format", "text", "audit", "query"]).stdout;
    assert!(text.contains("invalid_arguments") && text.contains("time (") && !text.contains('\u{1b}'), "{text}");
    for (args, says) in [
        (&["--status", "finished"][..], "open"),
        (&["--since", "soon"], "2h"),
        (&["--code", "x"], "denied"),
        (&["--cursor", "x"], "cursor"),
        (&["--attempt", "ffffffff"], "no attempt"),
    ] {
        let done = query(args);
        assert_eq!(done.code, 2, "{args:?}");
        assert!(done.stderr.contains(says), "{}", done.stderr);
    }
}

#[test]
fn an_attempt_is_told_as_a_story() {
    let shop =
        Shop::with("[roles.clerk]\ntools = [\"*\"]\nrisk = \"dangerous\"\npermission = \"system\"\nask = \"always\"\n");
    let call = ["--role", "clerk", "call", "calculate", r#"{"expression":"6*7"}"#];
    let waits = shop.tollgate(&call).json();
    let id = waits["waiting"]["id"].as_str().unwrap();
    assert_eq!(shop.tollgate(&["approvals", "approve", id, "--reason", "fine"]).code, 0);
    let ran = shop.tollgate(&call).json();
    let tell =
        |attempt: &Value| shop.tollgate(&["--format", "text", "audit", "show", end(attempt.as_str().unwrap())]).stdout;
    let first = tell(&waits["attempt"]);
    for says in ["bob asked for it, as clerk, through cli", "said ask", "waits for a human", "a human said yes", "fine"]
    {
        assert!(first.contains(says), "{says} is not in\n{first}");
    }
    let second = tell(&ran["attempt"]);
    for says in ["calculate: done", "6*7", "the tool began", "it ended as done after", "under the same approval"] {
        assert!(second.contains(says), "{says} is not in\n{second}");
    }
    assert!(second.contains(waits["attempt"].as_str().unwrap()), "{second}");
    a_day(&shop);
    let hostile = rows(&shop.tollgate(&["audit", "query", "--code", "unknown_tool"]));
    let text = tell(&hostile[0]["attempt"]);
    assert!(text.contains("\\u{1b}[2J<script>") && !text.contains('\u{1b}') && !text.contains('\u{202e}'), "{text}");
}

#[test]
fn tail_takes_the_same_filters() {
    let shop = Shop::bare();
    a_day(&shop);
    let found = rows(&shop.tollgate(&["audit", "tail", "--code", "invalid_arguments,forbidden"]));
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|record| record["event"] == "finished"), "{found:?}");
    assert_eq!(rows(&shop.tollgate(&["audit", "tail", "-n", "1", "--event", "received"])).len(), 1);
}

#[test]
fn tail_goes_on_with_what_comes_and_fits() {
    use std::io::{BufRead, BufReader};
    let shop = Shop::bare();
    a_day(&shop);
    let mut child = shop.start(&["audit", "tail", "-f", "-n", "0", "--status", "refused"]);
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // It may not look yet when the first of these comes; it looks before the last.
    let mut calls = 0;
    let (told, heard) = std::sync::mpsc::sync_channel(1);
    let listener = std::thread::spawn(move || told.send(lines.next().unwrap().unwrap()));
    let line = loop {
        calls += 1;
        shop.tollgate(&["call", "calculate", r#"{"expression":"1"}"#]);
        shop.tollgate(&["call", &format!("made_up_{calls}"), "{}"]);
        if let Ok(line) = heard.try_recv() {
            break line;
        }
    };
    child.kill().unwrap();
    child.wait().unwrap();
    listener.join().unwrap().unwrap();
    let record: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&record["event"], &record["outcome"]["code"]), (&json!("finished"), &json!("unknown_tool")));
}

#[test]
fn the_report_counts_and_its_page_obeys_nothing() {
    let shop = Shop::bare();
    a_day(&shop);
    let report = shop.tollgate(&["audit", "report"]).json();
    assert_eq!(report["attempts"], 5);
    assert_eq!(report["statuses"][0], json!({ "name": "refused", "count": 3 }));
    let tools: Vec<&str> = report["tools"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(tools[0], "calculate");
    let text = shop.tollgate(&["--format", "text", "audit", "report", "--since", "1d"]).stdout;
    assert!(text.contains("What was refused") && text.contains("unknown_tool") && !text.contains('\u{1b}'), "{text}");

    let done = shop.tollgate(&["audit", "report", "--html", "report.html", "--caller", "bob"]);
    assert_eq!((done.code, done.stdout.as_str()), (0, ""), "{}", done.stderr);
    let page = std::fs::read_to_string(shop.path().join("report.html")).unwrap();
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;\\u{202e}工具"), "made visible, then escaped");
    for obeyed in [
        "<script",
        "<img",
        "onerror=alert(1)>",
        "\u{1b}",
        "\u{202e}",
        "http://",
        "https://",
        " style=",
        "@import",
        "url(",
    ] {
        assert!(!page.contains(obeyed), "{obeyed:?} is in the page");
    }
    assert!(page.contains("default-src 'none'"));
    std::fs::create_dir(shop.path().join("folder")).unwrap();
    assert_eq!(shop.tollgate(&["audit", "report", "--html", "folder"]).code, 2);
}

#[test]
fn records_are_taken_out_whole() {
    let shop = Shop::bare();
    a_day(&shop);
    let export = |args: &[&str]| shop.tollgate(&[&["audit", "export", "--format"], args].concat());
    assert_eq!(export(&["jsonl"]).stdout.lines().collect::<Vec<_>>(), shop.ledger());
    assert_eq!(export(&["csv", "--status", "refused"]).stdout.matches("\r\n").count(), 4);
    assert_eq!(export(&["ocsf"]).stdout.lines().count(), 5);
    let done = export(&["parquet", "--out", "a.parquet"]);
    assert_eq!((done.code, done.stdout.as_str()), (0, ""), "{}", done.stderr);
    let parquet = std::fs::read(shop.path().join("a.parquet")).unwrap();
    assert!(parquet.starts_with(b"PAR1") && parquet.ends_with(b"PAR1"));
    assert_eq!(export(&["csv", "--out", "nowhere/a.csv"]).code, 2);
    for format in ["jsonl", "parquet"] {
        // Whoever hangs up has had enough.
        let mut command = shop.command(&["audit", "export", "--format", format]);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        assert!(command.stdout(writer).status().unwrap().success(), "{format}");
    }
    assert_eq!(export(&["xml"]).code, 2);
    let names: Vec<_> = std::fs::read_dir(shop.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "nothing half-written stays: {names:?}");
}
