//! Soundness of a conversation.

use std::collections::HashSet;

use proptest::prelude::*;

use super::*;

pub(crate) fn asks(ids: &[&str]) -> Message {
    let calls = ids.iter().map(|id| ModelCall {
        id: (*id).to_owned(),
        name: "lookup".to_owned(),
        arguments: "{}".to_owned(),
        ..ModelCall::default()
    });
    assistant(String::new(), calls.collect())
}

pub(crate) fn assistant(text: String, calls: Vec<ModelCall>) -> Message {
    Message::assistant(&Turn { text, calls, ..Turn::default() })
}

fn says(call_id: &str, text: &str) -> Message {
    Message::tool(call_id, text, false)
}

fn shape(history: &History) -> Vec<String> {
    let line = |message: &Message| match message {
        Message::System(text) => format!("system {text}"),
        Message::User(content) => format!("user {}", content.text()),
        Message::Assistant { text, calls, .. } => {
            format!("assistant {text}{}", calls.iter().map(|call| call.id.as_str()).collect::<Vec<_>>().join(","))
        }
        Message::Tool { content, call_id, .. } if content.text().contains("outcome_unknown") => {
            format!("tool {call_id} unknown")
        }
        Message::Tool { content, call_id, .. } => format!("tool {call_id} {}", content.text()),
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
    let user = || Message::user("go");
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

pub(crate) fn message() -> impl Strategy<Value = Message> {
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
        any::<String>().prop_map(Message::user),
        (any::<String>(), prop::collection::vec(call, 0..4), any::<[Option<String>; 2]>()).prop_map(
            |(text, calls, thoughts)| {
                let thoughts =
                    ["reasoning_content", "reasoning"].into_iter().zip(thoughts).filter(|_| !calls.is_empty());
                let provider_meta = thoughts.filter_map(|(name, thought)| Some((name.to_owned(), thought?.into())));
                let provider_meta = provider_meta.collect();
                Message::assistant(&Turn { text, calls, provider_meta, ..Turn::default() })
            }
        ),
        ("[a-z0-9]{1,8}", any::<String>()).prop_map(|(call_id, text)| Message::tool(call_id, text, false)),
    ]
}

proptest! {
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
