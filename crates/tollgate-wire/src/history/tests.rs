//! Soundness of a conversation, and that printing and reading are inverse.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

fn read(json: &str) -> History {
    History::from(serde_json::from_str::<Vec<Message>>(json).unwrap())
}

fn print(messages: &[Message], empty_content: EmptyContent) -> Value {
    let names = Names::default();
    messages.iter().map(|message| json!(Printed { message, names: &names, empty_content })).collect()
}

fn asks(ids: &[&str]) -> Message {
    let calls = ids.iter().map(|id| ModelCall {
        id: (*id).to_owned(),
        name: "lookup".to_owned(),
        arguments: "{}".to_owned(),
        ..ModelCall::default()
    });
    assistant(String::new(), calls.collect())
}

fn assistant(text: String, calls: Vec<ModelCall>) -> Message {
    Message::Assistant { text, calls, provider_meta: Map::new() }
}

fn says(call_id: &str, text: &str) -> Message {
    Message::Tool { call_id: call_id.to_owned(), text: text.to_owned() }
}

fn shape(history: &History) -> Vec<String> {
    let line = |message: &Message| match message {
        Message::System(text) => format!("system {text}"),
        Message::User(text) => format!("user {text}"),
        Message::Assistant { text, calls, .. } => {
            format!("assistant {text}{}", calls.iter().map(|call| call.id.as_str()).collect::<Vec<_>>().join(","))
        }
        Message::Tool { text, call_id } if text.contains("outcome_unknown") => format!("tool {call_id} unknown"),
        Message::Tool { text, call_id } => format!("tool {call_id} {text}"),
    };
    history.messages().iter().map(line).collect()
}

#[test]
fn every_call_gets_exactly_one_result() {
    for (name, messages, expected, notes) in unsound() {
        let mut history = History::from(messages);
        assert_eq!(history.repair(), notes, "{name}");
        assert_eq!(shape(&history), expected, "{name}");
        assert!(history.repair().is_empty(), "{name}: once is enough");
    }
}

type Case = (&'static str, Vec<Message>, Vec<&'static str>, Vec<&'static str>);

#[rustfmt::skip]
fn unsound() -> Vec<Case> {
    let user = || Message::User("go".to_owned());
    let done = || assistant("done".to_owned(), Vec::new());
    vec![
        (
            "sound",
            vec![user(), asks(&["A", "B"]), says("A", "1"), says("B", "2"), done()],
            vec!["user go", "assistant A,B", "tool A 1", "tool B 2", "assistant done"],
            vec![],
        ),
        (
            "call order",
            vec![asks(&["A", "B"]), says("B", "2"), says("A", "1")],
            vec!["assistant A,B", "tool A 1", "tool B 2"],
            vec![],
        ),
        (
            "cut before the results",
            vec![user(), asks(&["A", "B"])],
            vec!["user go", "assistant A,B", "tool A unknown", "tool B unknown"],
            vec!["missing_result_filled"],
        ),
        (
            "cut between the results",
            vec![asks(&["A", "B"]), says("B", "2")],
            vec!["assistant A,B", "tool A unknown", "tool B 2"],
            vec!["missing_result_filled"],
        ),
        ("head trimmed away", vec![says("B", "2"), done()], vec!["assistant done"], vec!["orphan_result_dropped"]),
        (
            "answered twice",
            vec![asks(&["A"]), says("A", "1"), says("A", "1")],
            vec!["assistant A", "tool A 1"],
            vec!["duplicate_result_dropped"],
        ),
        ("late result", vec![asks(&["A"]), user(), says("A", "1")], vec!["assistant A", "tool A 1", "user go"], vec![]),
        (
            "id of an earlier turn",
            vec![asks(&["b"]), says("b", "1"), asks(&["b"])],
            vec!["assistant b", "tool b 1", "assistant b_1", "tool b_1 unknown"],
            vec!["id_replaced", "missing_result_filled"],
        ),
        (
            "ids shared in one turn",
            vec![asks(&["x", "x"]), says("x", "1"), says("x", "2")],
            vec!["assistant x,x_1", "tool x 1", "tool x_1 2"],
            vec!["id_replaced"],
        ),
        (
            "empty ids",
            vec![asks(&["", ""]), says("", "1"), says("", "2")],
            vec!["assistant call_1,call_2", "tool call_1 1", "tool call_2 2"],
            vec!["id_replaced"],
        ),
    ]
}

#[test]
fn a_turn_gets_ids_that_no_earlier_turn_has() {
    let mut history = History::default();
    for expected in ["c1", "c1_1", "c1_2"] {
        let call = ModelCall { id: "c1".to_owned(), ..ModelCall::default() };
        let mut turn = Turn { calls: vec![call], ..Turn::default() };
        history.push_turn(&mut turn);
        assert_eq!(turn.calls[0].id, expected);
    }
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
    let body = crate::ChatRequest {
        model: "m",
        messages: history.messages(),
        tools: &tools,
        tool_choice: &crate::ToolChoice::Auto,
        max_tokens: None,
        temperature: None,
        stream: false,
        empty_content: EmptyContent::Null,
    }
    .to_body()
    .unwrap();
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
    assert_eq!(history.messages()[0], Message::System("be kind".to_owned()));
    let printed = print(history.messages(), EmptyContent::Null);
    assert_eq!(printed[1]["tool_calls"][0]["extra_content"]["google"]["thought_signature"], "c2ln");
    let Message::Assistant { calls, .. } = &history.messages()[1] else { panic!("{history:?}") };
    assert_eq!(calls[0].arguments, r#"{"n":12345678901234567890123}"#);
    let image = r#"{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}"#;
    assert!(serde_json::from_str::<Message>(image).is_err());
}

fn message() -> impl Strategy<Value = Message> {
    let call =
        ("[a-z0-9]{1,8}", "[a-zA-Z0-9_-]{1,64}", any::<i64>(), any::<String>()).prop_map(|(id, name, n, text)| {
            ModelCall {
                wire_id: id.clone(),
                id,
                name,
                arguments: json!({ "n": n, "text": text }).to_string(),
                ..ModelCall::default()
            }
        });
    prop_oneof![
        any::<String>().prop_map(Message::System),
        any::<String>().prop_map(Message::User),
        (any::<String>(), prop::collection::vec(call, 0..4), any::<[Option<String>; 2]>()).prop_map(
            |(text, calls, thoughts)| {
                let thoughts = REASONING.into_iter().zip(thoughts).filter(|_| !calls.is_empty());
                let provider_meta = thoughts.filter_map(|(name, thought)| Some((name.to_owned(), thought?.into())));
                let provider_meta = provider_meta.collect();
                Message::Assistant { text, calls, provider_meta }
            }
        ),
        ("[a-z0-9]{1,8}", any::<String>()).prop_map(|(call_id, text)| Message::Tool { call_id, text }),
    ]
}

proptest! {
    #[test]
    fn reading_what_was_printed_is_the_identity(messages in prop::collection::vec(message(), 0..8)) {
        let printed = print(&messages, EmptyContent::Null).to_string();
        prop_assert_eq!(serde_json::from_str::<Vec<Message>>(&printed).unwrap(), messages);
    }

    #[test]
    fn any_cut_of_any_conversation_becomes_sound(messages in prop::collection::vec(message(), 0..12)) {
        let mut history = History::from(messages);
        history.repair();
        let mut expected: Vec<&str> = Vec::new();
        let mut seen = HashSet::new();
        for message in history.messages() {
            match message {
                Message::Tool { call_id, .. } => {
                    prop_assert_eq!(Some(call_id.as_str()), (!expected.is_empty()).then(|| expected.remove(0)));
                }
                Message::Assistant { calls, .. } => {
                    prop_assert!(expected.is_empty());
                    expected = calls.iter().map(|call| call.id.as_str()).collect();
                    prop_assert!(calls.iter().all(|call| seen.insert(call.id.clone())));
                }
                Message::System(_) | Message::User(_) => prop_assert!(expected.is_empty()),
            }
        }
        prop_assert!(expected.is_empty());
    }
}
