//! The law of a gateway, as data: what a server answers, and what its client must get of it. Whoever tests a way through the
//! house asks for each [`Said`] of [`anything_said`], has the server give the answer, and compares [`members`].

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

/// What only a connection says of itself.
const OWN: [&str; 5] = ["resultType", "ttlMs", "cacheScope", "io.modelcontextprotocol/serverInfo", "tollgate/outside"];

/// What is asked, of a server that is configured as `my_x`, and what comes of it.
#[derive(Debug, Clone)]
pub struct Said {
    /// The method.
    pub method: &'static str,
    /// The parameters, in the house's names.
    pub params: Value,
    /// The result object as the server writes it.
    pub answer: String,
    /// The same as the client must get it: resources have the house's names.
    pub expected: String,
}

/// One of each kind of answer, with numbers of every size, texts of every script, and members and content that nobody knows.
pub fn anything_said() -> impl Strategy<Value = Vec<Said>> {
    let more = object("x[a-z]{1,6}", anything());
    let bytes = prop::sample::select(vec!["", "AA==", "iVBORw0KGgo=", "UklGRgAAAABXQVZF"]);
    (more, anything(), anything(), bytes).prop_map(|(more, value, other, bytes)| {
        let said = |method, params, answer: String| {
            let answer = joined(&answer, &more);
            let expected = answer.replace("\"demo://", "\"my.x+demo://");
            Said { method, params, answer, expected }
        };
        let tell = || json!({ "name": "mcp__my_x__tell" });
        let block = joined(r#"{"type":"hologram"}"#, &more);
        let text = format!(r#"{{"type":"text","text":"t","annotations":{other}}}"#);
        let [image, audio] = ["image", "audio"].map(|kind| {
            joined(&format!(r#"{{"type":"{kind}","data":"{bytes}","mimeType":"{kind}/x","_meta":{{"v":{value}}}}}"#), &more)
        });
        let link = joined(&format!(r#"{{"type":"resource_link","uri":"demo://7","name":"n","size":{BIG}}}"#), &more);
        let inner = joined(&format!(r#"{{"uri":"demo://8","blob":"{bytes}"}}"#), &more);
        let embedded = format!(r#"{{"type":"resource","resource":{inner},"annotations":{other}}}"#);
        let content = [&block, &text, &image, &audio, &link, &embedded].map(String::as_str).join(" , ");
        let completes = json!({ "ref": { "type": "ref/prompt", "name": "mcp__my_x__tell" }, "argument": { "name": "a", "value": "" } });
        vec![
            said("tools/call", tell(), format!(r#"{{"content":[{content}],"_meta":{{"a":{value}}}}}"#)),
            said("tools/call", tell(), format!(r#"{{"content":[{text}],"structuredContent":{{"n":{BIG},"v":{value}}}}}"#)),
            said("resources/read", json!({ "uri": "my.x+demo://1" }), format!(r#"{{"contents":[{{"text":"a","b":{value}}}]}}"#)),
            said("resources/read", json!({ "uri": "my.x+demo://2" }), format!(r#"{{"contents":[{inner}],"c":{other}}}"#)),
            said("prompts/get", tell(), format!(r#"{{"messages":[{{"role":"user","content":{block}}}],"description":{value}}}"#)),
            said("completion/complete", completes, format!(r#"{{"completion":{{"values":[],"d":{value}}}}}"#)),
        ]
    })
}

/// A number that no machine number holds.
const BIG: &str = "123456789012345678901234567890";

/// A JSON text.
fn anything() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,30})?(e[+-]?[0-9]{1,2})?",
        "[ -~读取文件é]{0,12}".prop_map(|text| Value::from(text).to_string()),
        Just(r#""\u0041\n\/""#.to_owned()),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(|items| format!("[{}]", items.join(" , "))),
            object("[a-z]{1,6}", inner),
        ]
    })
}

fn object(name: &'static str, value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    prop::collection::btree_map(name, value, 0..4).prop_map(|members| {
        let written: Vec<String> = members.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
        format!("{{{}}}", written.join(", "))
    })
}

/// The members of two objects as one, by their texts.
pub fn joined(first: &str, more: &str) -> String {
    match (first.strip_suffix('}'), more.trim().strip_prefix('{')) {
        (Some(first), Some(more)) if more != "}" => format!("{first}, {more}"),
        _ => first.to_owned(),
    }
}

/// JSON without the white space between its tokens: two texts of which these are the same have the same tokens.
pub fn tokens(text: &str) -> String {
    let (mut out, mut is_text, mut is_escaped) = (String::new(), false, false);
    for c in text.chars() {
        if is_text || !c.is_ascii_whitespace() {
            out.push(c);
        }
        is_text ^= c == '"' && !is_escaped;
        is_escaped = is_text && c == '\\' && !is_escaped;
    }
    out
}

/// The members of an object and the tokens of each, without those that a connection says of itself.
///
/// # Panics
/// When the text is no object.
#[expect(clippy::unwrap_used, reason = "a test whose answer is no object cannot go on")]
pub fn members(object: &str) -> Map<String, Value> {
    let all: BTreeMap<String, &RawValue> = serde_json::from_str(object).unwrap();
    let others = all.into_iter().filter(|(name, _)| !OWN.contains(&name.as_str()));
    others
        .map(|(name, raw)| {
            let said = if name == "_meta" { members(raw.get()).into() } else { tokens(raw.get()).into() };
            (name, said)
        })
        .filter(|(name, said): &(String, Value)| {
            name != "_meta" || said.as_object().is_some_and(|meta| !meta.is_empty())
        })
        .collect()
}
