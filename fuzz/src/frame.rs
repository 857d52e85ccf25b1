//! Messages of JSON-RPC: whatever comes, each is answered at most once, by one line of JSON that carries its id.

use std::collections::BTreeMap;

use serde_json::Value;
use serde_json::value::RawValue;
use tollgate_mcp::{Action, ServerInfo, Session};

type Frame = BTreeMap<String, Box<RawValue>>;

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
    // Raw, because an id may be a number that no machine number holds, and comes back as it was written.
    let answer: Frame = serde_json::from_slice(reply).unwrap();
    let said = String::from_utf8_lossy(reply);
    let text = |name: &str| answer.get(name).map(|value| value.get());
    assert_eq!(text("jsonrpc"), Some(r#""2.0""#), "{said}");
    assert!(answer.contains_key("result") != answer.contains_key("error"), "{said}");
    if let (Ok(asked), Some(id)) = (serde_json::from_slice::<Frame>(line), text("id")) {
        let is_its = asked.get("id").is_some_and(|asked| is_same(asked.get(), id));
        assert!(id == "null" || is_its, "{} is answered as {said}", String::from_utf8_lossy(line));
    }
}

/// Equal as written, or as a value: a string may come back with other escapes.
fn is_same(one: &str, other: &str) -> bool {
    let value = |text| serde_json::from_str::<Value>(text).ok();
    one == other || value(one).is_some_and(|one| Some(one) == value(other))
}
