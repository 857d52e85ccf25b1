//! Whatever comes, nothing breaks and every request gets exactly one answer.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use tollgate_mcp::{Action, Session, serve_stdio};
use tollgate_types::{Caller, Surface};

use crate::door::Fixture;
use crate::peer::{bare, info, initialize, modern};

/// What a server says to all that is in `input`.
fn serve(input: &[u8]) -> Vec<Value> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (door, _events) = Fixture::new();
    door.release.add_permits(1000);
    let mut output = Vec::new();
    let caller = Caller::new("law", "reader", Surface::McpStdio);
    runtime.block_on(serve_stdio(door, caller, info(), input, &mut output)).unwrap();
    output
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect()
}

fn request() -> impl Strategy<Value = (&'static str, Value)> {
    let methods =
        vec!["initialize", "ping", "tools/list", "tools/call", "server/discover", "logging/setLevel", "no/such"];
    let tools = vec!["echo", "array", "refuse", "wait", "steps", "hold", "boom", "nope"];
    (prop::sample::select(methods), prop::sample::select(tools), any::<bool>()).prop_map(|(method, tool, has_token)| {
        let mut params = if method == "initialize" { initialize("2025-11-25") } else { json!({ "name": tool }) };
        if has_token {
            params["_meta"]["progressToken"] = json!("p");
        }
        (method, params)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_leave_a_session_whole(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut session = Session::new(info());
        for frame in bytes.split(|byte| *byte == b'\n') {
            let _ = session.receive(frame);
        }
        let reply = session.receive(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
        let Action::Reply(line) = reply else { panic!("no answer to a ping") };
        prop_assert_eq!(line, br#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    }

    #[test]
    fn each_request_gets_exactly_one_answer(
        requests in prop::collection::vec((request(), any::<bool>()), 0..30),
        rubbish in "[\\[\\]{}\",:a1\n]{0,40}",
    ) {
        let mut input = format!("{rubbish}\n");
        for (number, ((method, params), is_modern)) in requests.iter().enumerate() {
            let id = format!("r{number}");
            input.push_str(&if *is_modern { modern(id, method, params) } else { bare(id, method, params) });
            input.push('\n');
        }
        let mut answers = BTreeMap::<String, usize>::new();
        for message in serve(input.as_bytes()) {
            if let Some(id) = message["id"].as_str() {
                *answers.entry(id.to_owned()).or_default() += 1;
            }
        }
        let expected: BTreeMap<_, _> = (0..requests.len()).map(|number| (format!("r{number}"), 1)).collect();
        prop_assert_eq!(answers, expected);
    }
}
