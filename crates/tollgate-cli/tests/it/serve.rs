//! `tollgate serve --stdio`: a real process, line by line.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout};

use serde_json::{Value, json};

use crate::shop::Shop;

struct Session {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Session {
    fn new(shop: &Shop, args: &[&str]) -> Self {
        let mut child = shop.start(args);
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.send(&json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}));
        self.receive()
    }

    /// Closes the input; the exit status.
    fn end(mut self) -> i32 {
        drop(self.input.take());
        self.child.wait().unwrap().code().unwrap_or(-1)
    }
}

fn modern(mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    params
}

#[test]
fn both_eras_on_one_pipe() {
    let shop = Shop::bare();
    let mut session = Session::new(&shop, &["serve", "--stdio", "--role", "developer"]);
    session.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    let discovered = session.ask("server/discover", modern(json!({})));
    assert!(discovered["result"]["supportedVersions"].as_array().unwrap().contains(&json!("2026-07-28")));
    let hello =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    assert_eq!(session.ask("initialize", hello)["result"]["protocolVersion"], "2025-11-25");
    let listed = session.ask("tools/list", json!({}));
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 11);
    assert!(listed["result"].get("resultType").is_none());
    let call = json!({"name": "calculate", "arguments": {"expression": "1/3*3"}});
    let old = session.ask("tools/call", call.clone());
    assert_eq!((&old["result"]["content"][0]["text"], &old["result"]["isError"]), (&json!("1"), &json!(false)));
    let new = session.ask("tools/call", modern(call));
    assert_eq!(
        (&new["result"]["resultType"], &new["result"]["structuredContent"]["result"]),
        (&json!("complete"), &json!("1"))
    );
    assert_eq!(session.end(), 0);
}

/// What is under way when the process is told to end is answered.
#[cfg(unix)]
#[test]
fn who_waits_at_the_end_is_answered() {
    use rustix::process::{Pid, Signal, kill_process};
    let shop = Shop::with(
        "[[tool]]\nname = \"slow\"\ndescription = \"Takes a second.\"\nrisk = \"read\"\npermission = \"read\"\n\
         command = [\"sh\", \"-c\", \"touch began; sleep 1; echo done\"]\n",
    );
    let mut session = Session::new(&shop, &["serve", "--stdio", "--role", "developer"]);
    let params = modern(json!({"name": "slow", "arguments": {}}));
    session.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}));
    let has_begun = || {
        std::thread::sleep(std::time::Duration::from_millis(10));
        shop.path().join("began").exists()
    };
    assert!((0..3_000).any(|_| has_begun()), "the tool never began");
    kill_process(Pid::from_child(&session.child), Signal::TERM).unwrap();
    let answer = session.receive();
    assert_eq!(answer["result"]["content"][0]["text"], "done", "{answer}");
    assert_eq!(session.child.wait().unwrap().code(), Some(0));
}

#[test]
fn a_client_without_a_role_reads_only() {
    let shop = Shop::bare();
    let mut session = Session::new(&shop, &["serve", "--stdio"]);
    let listed = session.ask("tools/list", modern(json!({})));
    let names: Vec<&str> =
        listed["result"]["tools"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"read_file") && !names.contains(&"write_file"), "{names:?}");
    let refused =
        session.ask("tools/call", modern(json!({"name": "write_file", "arguments": {"path": "x", "content": "y"}})));
    assert_eq!(refused["result"]["structuredContent"]["error"], "unknown_tool");
    assert_eq!(session.end(), 0);
    let last: Value = serde_json::from_str(shop.ledger().last().unwrap()).unwrap();
    assert_eq!(last["outcome"]["code"], "forbidden");
    assert_eq!(last["caller"]["surface"], "mcp_stdio");
}

#[test]
fn a_subset_is_all_there_is() {
    let shop = Shop::bare();
    let mut session = Session::new(&shop, &["serve", "--stdio", "--tools", "calc*,read_*"]);
    let listed = session.ask("tools/list", modern(json!({})));
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 3);
    let refused = session.ask("tools/call", modern(json!({"name": "list_files", "arguments": {}})));
    assert_eq!(refused["result"]["structuredContent"]["error"], "unknown_tool");
    assert_eq!(session.end(), 0);
}

#[test]
fn a_set_is_served_and_one_that_is_not_there_is_named() {
    let shop = Shop::with(
        "[sets.sums]\ntools = [\"calc*\"]\nbind = { calculate = { expression = \"6*7\" } }\n[sets.files]\ntools = [\"*_file*\"]\n",
    );
    let mut session = Session::new(&shop, &["serve", "--stdio", "--set", "sums"]);
    let listed = session.ask("tools/list", modern(json!({})));
    let tools = listed["result"]["tools"].as_array().unwrap();
    assert_eq!((tools.len(), &tools[0]["inputSchema"]["properties"]), (2, &json!({})));
    let told = session.ask("tools/call", modern(json!({"name": "calculate", "arguments": {}})));
    assert_eq!(told["result"]["content"][0]["text"], "42");
    let refused = session.ask("tools/call", modern(json!({"name": "list_files", "arguments": {}})));
    assert_eq!(refused["result"]["structuredContent"]["error"], "unknown_tool");
    assert_eq!(session.end(), 0);
    let absent = shop.tollgate(&["serve", "--stdio", "--set", "summs"]);
    assert_eq!(absent.code, 2);
    assert!(
        absent.stderr.contains("no set is named `summs`") && absent.stderr.contains("there is files, sums"),
        "{}",
        absent.stderr
    );
    let bare = shop.tollgate(&["serve", "--set", "sums"]);
    assert!(bare.code == 2 && bare.stderr.contains("--stdio"), "{}", bare.stderr);
}

#[test]
fn the_start_says_that_nothing_is_isolated() {
    let shop = Shop::bare();
    let child = shop.start(&["serve", "--stdio"]);
    let done = crate::shop::Done::from(child.wait_with_output().unwrap());
    assert_eq!((done.code, done.stdout.as_str()), (0, ""));
    assert!(done.stderr.contains("sandbox none") && done.stderr.contains("role reader"), "{}", done.stderr);
}
