//! Printing and reading are inverse, and what servers insist on.

use proptest::prelude::*;

use super::*;
use crate::history::tests::{asks, assistant, message};
use crate::request::Request;

fn read(json: &str) -> Vec<Message> {
    serde_json::from_str(json).unwrap()
}

fn print(messages: &[Message], empty_content: EmptyContent) -> Value {
    let names = Names::default();
    messages
        .iter()
        .map(|message| json!(Printed { message, names: &names, ids: &WireIds::default(), empty_content }))
        .collect()
}

#[test]
fn arguments_are_replayed_as_an_object() {
    let cases = [
        (r#"{"id":7512292042121000001}"#, r#"{"id":7512292042121000001}"#),
        ("{\"q\" :\t1 }", "{\"q\" :\t1 }"),
        ("", "{}"),
        ("{'q': True}", r#"{"q":true}"#),
        (r#"{"q": tea}"#, r#"{"_raw":"{\"q\": tea}"}"#),
        (r#"["tea"]"#, r#"{"_raw":"[\"tea\"]"}"#),
        (r#"{"t":"\ud83dA"}"#, r#"{"_raw":"{\"t\":\"\\ud83dA\"}"}"#),
    ];
    for (raw, replayed) in cases {
        let call = ModelCall { arguments: raw.to_owned(), ..ModelCall::default() };
        let message = assistant(String::new(), vec![call]);
        let printed = print(&[message], EmptyContent::Null);
        assert_eq!(printed[0]["tool_calls"][0]["function"]["arguments"], replayed, "{raw}");
    }
}

#[test]
fn empty_content_is_written_as_the_server_likes_it() {
    let message = [asks(&["c1"])];
    assert_eq!(print(&message, EmptyContent::Null)[0].get("content"), Some(&Value::Null));
    assert_eq!(print(&message, EmptyContent::Text)[0].get("content"), Some(&json!("")));
    assert_eq!(print(&message, EmptyContent::Omitted)[0].get("content"), None);
}

/// DeepSeek's models want back what they thought with each call, in later prompts too; other servers never send it.
#[test]
fn thoughts_go_back_with_their_calls() {
    let turn = r#"{"role":"assistant","content":null,"reasoning_content":"hm\u00e9","reasoning":"","tool_calls":[{"id":"ID","type":"function","function":{"name":"f","arguments":"{}"}}]}"#;
    let (old, new) = (turn.replace("ID", "a"), turn.replace("ID", "b"));
    let user = r#"{"role":"user","content":"go"}"#;
    let done = r#"{"role":"assistant","content":"done","reasoning_content":"not with a call"}"#;
    let tool = |id| format!(r#"{{"role":"tool","tool_call_id":"{id}","content":"1"}}"#);
    let history = read(&format!("[{user},{old},{},{done},{user},{new},{}]", tool("a"), tool("b")));
    let tools = crate::Lowered::default();
    let body = Request::new("m", &history, &tools).to_body(Dialect::Chat).unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap();
    let thoughts = |at: usize| (body["messages"][at].get("reasoning_content"), body["messages"][at].get("reasoning"));
    for at in [1, 5] {
        assert_eq!(thoughts(at), (Some(&json!("hmé")), Some(&json!(""))));
    }
    assert!([0, 2, 3, 4, 6].into_iter().all(|at| thoughts(at) == (None, None)), "{body}");
}

#[test]
fn messages_are_read_with_tolerance_but_nothing_is_lost() {
    let history = read(
        r#"[{"role":"developer","content":[{"type":"text","text":"be "},{"type":"text","text":"kind"}]},
            {"role":"assistant","content":null,"odd":1,"tool_calls":[{"id":"g","type":"function",
              "function":{"name":"f","arguments":{"n":12345678901234567890123}},
              "extra_content":{"google":{"thought_signature":"c2ln"}}}]}]"#,
    );
    assert_eq!(history[0], Message::System("be kind".to_owned()));
    let printed = print(&history, EmptyContent::Null);
    assert_eq!(printed[1]["tool_calls"][0]["extra_content"]["google"]["thought_signature"], "c2ln");
    let Message::Assistant { calls, .. } = &history[1] else { panic!("{history:?}") };
    assert_eq!(calls[0].arguments, r#"{"n":12345678901234567890123}"#);
    let sound = r#"{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"x"}}]}"#;
    assert!(serde_json::from_str::<Message>(sound).is_err());
}

#[test]
fn images_go_where_the_dialect_has_them() {
    let user = r#"[{"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}}]}]"#;
    let history = read(user);
    assert_eq!(print(&history, EmptyContent::Null), serde_json::from_str::<Value>(user).unwrap());
    let Message::User(content) = &history[0] else { panic!("{history:?}") };
    let printed = print(&[Message::tool("c", content.clone(), false)], EmptyContent::Null);
    assert_eq!(printed[0]["content"], "see[an image, which this model cannot be shown]");
}

proptest! {
    #[test]
    fn reading_what_was_printed_is_the_identity(messages in prop::collection::vec(message(), 0..8)) {
        let printed = print(&messages, EmptyContent::Null).to_string();
        prop_assert_eq!(serde_json::from_str::<Vec<Message>>(&printed).unwrap(), messages);
    }
}
