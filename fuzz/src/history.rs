//! Conversations: however they are cut and mixed, each call has exactly one result afterwards and none is lost; and whatever is
//! trimmed, pairs stay whole.

use std::collections::HashSet;

use tollgate_wire::{History, Message, ModelCall, Turn};

/// Each byte is a message: its lowest bits say of what kind, the others which ids it has. The first byte says what is trimmed.
pub fn history(data: &[u8]) {
    let Some((fates, rest)) = data.split_first() else { return };
    let mut history = History::from(rest.iter().map(|byte| message(*byte)).collect::<Vec<_>>());
    let asked = calls(&history);
    history.repair();
    check(&history);
    assert_eq!(calls(&history), asked, "a call is lost, or made up");
    let once = history.clone();
    assert!(history.repair().is_empty() && history == once, "once is not enough");
    let mut unit = 0;
    let gone = history.trim(|_| {
        unit += 1;
        fates >> (unit % 8) & 1 == 0
    });
    check(&history);
    assert_eq!(history.messages().len() + gone, once.messages().len());
    assert!(history.messages().iter().all(|message| once.messages().contains(message)), "what is kept is changed");
}

fn message(byte: u8) -> Message {
    const IDS: [&str; 4] = ["", "a", "b", "a_1"];
    let id = |at: u8| IDS[usize::from(at % 4)].to_owned();
    match byte % 8 {
        0 => Message::System("s".to_owned()),
        1 => Message::user("u"),
        2..=4 => {
            let ask = |at| ModelCall { id: id(byte >> (3 + at)), name: "f".to_owned(), ..ModelCall::default() };
            let calls = (0..byte % 8 - 2).map(ask).collect();
            let text = if byte > 127 { "t" } else { "" }.to_owned();
            Message::assistant(&Turn { text, calls, ..Turn::default() })
        }
        5 => Message::tool(id(byte >> 3), r#"{"ok":false,"error":"outcome_unknown"}"#, true),
        _ => Message::tool(id(byte >> 3), format!("{byte}"), false),
    }
}

fn calls(history: &History) -> usize {
    let of = |message: &Message| match message {
        Message::Assistant { calls, .. } => calls.len(),
        Message::System(_) | Message::User(_) | Message::Tool { .. } => 0,
    };
    history.messages().iter().map(of).sum()
}

/// One result for each call, right behind it and in order, under an id that is its own.
fn check(history: &History) {
    let (mut open, mut seen) = (Vec::new(), HashSet::new());
    for message in history.messages() {
        match message {
            Message::Tool { call_id, .. } => {
                assert!(!open.is_empty() && open.remove(0) == call_id, "{call_id} answers nothing: {history:?}");
            }
            Message::Assistant { calls, .. } => {
                assert!(open.is_empty(), "{open:?} have no result");
                open = calls.iter().map(|call| &call.id).collect();
                assert!(calls.iter().all(|call| !call.id.is_empty() && seen.insert(call.id.clone())), "{history:?}");
            }
            Message::System(_) | Message::User(_) => assert!(open.is_empty(), "{open:?} have no result"),
        }
    }
    assert!(open.is_empty(), "{open:?} have no result");
}
