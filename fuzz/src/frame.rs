//! Messages of JSON-RPC: whatever comes, each is answered at most once, by one line of JSON that carries its id.

use serde_json::Value;
use tollgate_mcp::{Action, ServerInfo, Session};

/// Lines of one conversation.
pub fn frame(data: &[u8]) {
    let info = ServerInfo { name: "t".into(), version: "1".into(), instructions: None };
    let mut session = Session::new(info);
    for line in data.split(|byte| *byte == b'\n') {
        if let Action::Reply(reply) = session.receive(line) {
            check(line, &reply);
        }
        check(line, &session.refuse_too_long(line));
    }
}

fn check(line: &[u8], reply: &[u8]) {
    let reply = reply.strip_suffix(b"\n").unwrap_or(reply);
    assert!(!reply.contains(&b'\n'), "more than one line: {}", String::from_utf8_lossy(reply));
    let answer: Value = serde_json::from_slice(reply).unwrap();
    assert_eq!(answer["jsonrpc"], "2.0");
    assert!(answer.get("result").is_some() != answer.get("error").is_some(), "{answer}");
    if let (Ok(asked), Some(id)) = (serde_json::from_slice::<Value>(line), answer.get("id")) {
        assert!(id.is_null() || asked.get("id") == Some(id), "{asked} is answered as {answer}");
    }
}
