//! Histories that were cut, mixed or told twice: a line of `cases/soundness.jsonl` each, and the laws for any.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};
use tollgate_wire::{History, Message};

fn history(messages: &Value) -> History {
    History::from(serde_json::from_str::<Vec<Message>>(&messages.to_string()).unwrap())
}

/// A line for each message; `?` is a result that nobody knows.
fn shape(history: &History) -> Vec<String> {
    let line = |message: &Message| match message {
        Message::System(text) => format!("system {text}"),
        Message::User(content) => format!("user {}", content.text()),
        Message::Assistant { text, calls, .. } if calls.is_empty() => format!("says {text}"),
        Message::Assistant { text, calls, .. } => {
            let ids: Vec<&str> = calls.iter().map(|call| call.id.as_str()).collect();
            format!("asks {text}{}{}", if text.is_empty() { "" } else { " " }, ids.join(","))
        }
        Message::Tool { content, call_id, .. } if content.text().contains("outcome_unknown") => format!("{call_id} ?"),
        Message::Tool { content, call_id, .. } => format!("{call_id} {}", content.text()),
    };
    history.messages().iter().map(line).collect()
}

#[test]
fn what_is_unsound_is_repaired_in_both_directions() {
    for line in include_str!("../cases/soundness.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let mut history = history(&case["messages"]);
        let notes = history.repair();
        assert_eq!(json!(shape(&history)), case["becomes"], "{line}");
        assert_eq!(json!(notes), case["notes"], "{line}");
        assert!(history.repair().is_empty(), "once is enough: {line}");
    }
}

/// The results that say something, by their call: what an effect left in the conversation.
fn known(history: &History) -> BTreeMap<String, String> {
    let result = |message: &Message| match message {
        Message::Tool { call_id, content, .. } if !content.text().contains("outcome_unknown") => {
            Some((call_id.clone(), content.text().into_owned()))
        }
        Message::System(_) | Message::User(_) | Message::Assistant { .. } | Message::Tool { .. } => None,
    };
    history.messages().iter().filter_map(result).collect()
}

fn asked(history: &History) -> usize {
    let calls = |message: &Message| match message {
        Message::Assistant { calls, .. } => calls.len(),
        Message::System(_) | Message::User(_) | Message::Tool { .. } => 0,
    };
    history.messages().iter().map(calls).sum()
}

fn is_sound(history: &History) -> bool {
    let mut expected: Vec<&str> = Vec::new();
    let mut seen = BTreeSet::new();
    let is_right = history.messages().iter().all(|message| match message {
        Message::Tool { call_id, .. } => !expected.is_empty() && expected.remove(0) == call_id,
        Message::Assistant { calls, .. } => {
            let was_answered = expected.is_empty();
            expected = calls.iter().map(|call| call.id.as_str()).collect();
            was_answered && calls.iter().all(|call| !call.id.is_empty() && seen.insert(call.id.clone()))
        }
        Message::System(_) | Message::User(_) => expected.is_empty(),
    });
    is_right && expected.is_empty()
}

#[test]
fn trimming_cuts_whole_units() {
    let lines = include_str!("../cases/soundness.jsonl").lines();
    let case =
        lines.map(|line| serde_json::from_str::<Value>(line).unwrap()).find(|case| case["case"] == "sound").unwrap();
    let sound = history(&case["messages"]);
    assert_eq!(sound.units().map(<[Message]>::len).collect::<Vec<_>>(), [1, 3, 1]);
    let mut without_calls = sound.clone();
    assert_eq!(without_calls.trim(|unit| unit.len() == 1), 3);
    assert_eq!(shape(&without_calls), ["user go", "says done"]);
    let mut newest = sound.clone();
    let mut left = sound.units().count();
    newest.trim(|_| {
        left -= 1;
        left < 2
    });
    assert_eq!(shape(&newest), ["asks A,B", "A 1", "B 2", "says done"]);
    let mut told = history(&json!([{"role": "system", "content": "be kind"}, {"role": "user", "content": "go"}]));
    assert_eq!((told.trim(|_| false), shape(&told)), (1, vec!["system be kind".to_owned()]));
}

fn message() -> impl Strategy<Value = Value> {
    let id = || prop::sample::select(vec!["", "a", "b", "a_1", "call_1"]);
    let call = id().prop_map(|id| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}}));
    prop_oneof![
        1 => Just(json!({"role": "system", "content": "s"})),
        2 => Just(json!({"role": "user", "content": "u"})),
        3 => prop::collection::vec(call, 0..4).prop_map(|calls| json!({"role": "assistant", "content": "t", "tool_calls": calls})),
        4 => (id(), "[0-9]{1,3}").prop_map(|(id, text)| json!({"role": "tool", "tool_call_id": id, "content": text})),
    ]
}

fn messages() -> impl Strategy<Value = Value> {
    prop::collection::vec(message(), 0..16).prop_map(Value::from)
}

proptest! {
    #[test]
    fn any_conversation_becomes_sound_and_no_call_is_lost(messages in messages()) {
        let mut history = history(&messages);
        let calls = asked(&history);
        history.repair();
        prop_assert!(is_sound(&history), "{:?}", shape(&history));
        prop_assert_eq!(asked(&history), calls);
        let once = history.clone();
        prop_assert!(history.repair().is_empty());
        prop_assert_eq!(history, once);
    }

    /// Whatever is kept: pairs stay whole, and a result that is kept is the one that was there.
    #[test]
    fn any_trimming_leaves_whole_units(messages in messages(), fates in prop::collection::vec(any::<bool>(), 16)) {
        let mut history = history(&messages);
        history.repair();
        let (before, length) = (known(&history), history.messages().len());
        let mut fates = fates.into_iter();
        let gone = history.trim(|_| fates.next().unwrap_or(true));
        prop_assert!(is_sound(&history), "{:?}", shape(&history));
        prop_assert_eq!(history.messages().len() + gone, length);
        prop_assert!(known(&history).iter().all(|(id, text)| before.get(id) == Some(text)));
        prop_assert!(history.repair().is_empty(), "a trimmed conversation needs no repair");
    }

    /// A conversation that is cut anywhere, at either end, is repaired, and no result of a kept call is lost by it.
    #[test]
    fn any_cut_is_repaired(messages in messages(), from in 0..16usize, to in 0..16usize) {
        let mut whole = history(&messages);
        whole.repair();
        let kept = whole.messages().to_vec();
        let (from, to) = (from.min(kept.len()), to.min(kept.len()));
        let part = kept.get(from.min(to)..from.max(to)).unwrap().to_vec();
        let mut history = History::from(part.clone());
        history.repair();
        prop_assert!(is_sound(&history));
        let calls = asked(&History::from(part));
        prop_assert_eq!(asked(&history), calls);
        let told = known(&history);
        prop_assert!(told.iter().all(|(id, text)| known(&whole).get(id) == Some(text)));
    }
}
