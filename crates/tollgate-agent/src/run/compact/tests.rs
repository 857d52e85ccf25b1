//! What is left out of a conversation, and what never is.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// A message of a story, from which soundness is made.
#[derive(Debug, Clone)]
enum Told {
    Prompt(usize),
    Answer(usize),
    /// Calls with the lengths of their results; an error where the flag says so.
    Calls(Vec<(bool, bool, usize)>),
}

fn history(system: bool, told: &[Told]) -> History {
    let mut messages = Vec::new();
    if system {
        messages.push(Message::System("be brief".into()));
    }
    messages.push(Message::user("begin"));
    for (at, told) in told.iter().enumerate() {
        match told {
            Told::Prompt(length) => messages.push(Message::user(format!("p{at} {}", "问".repeat(*length)))),
            Told::Answer(length) => {
                let text = format!("a{at} {}", "答".repeat(*length));
                messages.push(Message::assistant(&Turn { text, ..Turn::default() }));
            }
            Told::Calls(results) => {
                let call = |(position, (writes, _, _)): (usize, &(bool, bool, usize))| ModelCall {
                    id: format!("c{at}_{position}"),
                    name: if *writes { "write_file" } else { "read_file" }.into(),
                    arguments: format!(r#"{{"path":"{at}.txt"}}"#),
                    ..ModelCall::default()
                };
                let calls: Vec<ModelCall> = results.iter().enumerate().map(call).collect();
                messages.push(Message::assistant(&Turn { calls: calls.clone(), ..Turn::default() }));
                for (call, (_, is_error, length)) in calls.iter().zip(results) {
                    let text = match is_error {
                        true => r#"{"ok":false,"error":"tool_error"}"#.to_owned(),
                        false => "x ".repeat(*length),
                    };
                    messages.push(Message::tool(call.id.as_str(), text, *is_error));
                }
            }
        }
    }
    History::from(messages)
}

fn chars(message: &Message) -> u64 {
    let length = |text: &str| u64::try_from(text.chars().count()).unwrap();
    4 + match message {
        Message::System(text) => length(text),
        Message::User(content) => length(&content.text()),
        Message::Tool { content, .. } => length(&content.text()),
        Message::Assistant { text, calls, .. } => {
            length(text) + calls.iter().map(|call| length(&call.arguments)).sum::<u64>()
        }
    }
}

fn fitted(history: &History, tokens_max: u64, compaction: Compaction) -> (Vec<Message>, Option<Compacted>) {
    let rule = Rule {
        fixed: 10,
        context: Context { tokens_max, compaction },
        measure: &chars,
        source: TokenSource::Estimated,
        reads: &|tool| tool == "read_file",
    };
    let fitted = fit(history, &rule);
    (fitted.messages.into_owned(), fitted.compacted)
}

fn total(messages: &[Message]) -> u64 {
    10 + messages.iter().map(chars).sum::<u64>()
}

fn assert_sound(messages: &[Message]) {
    let mut repaired = History::from(messages.to_vec());
    assert_eq!(repaired.repair(), Vec::<&str>::new(), "{messages:?}");
    assert_eq!(repaired.messages(), messages, "each call has its one result behind it");
    for pair in messages.windows(2) {
        assert!(!matches!(pair, [Message::User(_), Message::User(_)]), "{messages:?}");
    }
}

fn ids(messages: &[Message], of_errors: bool) -> BTreeSet<String> {
    let id = |message: &Message| match message {
        Message::Tool { call_id, is_error, .. } if *is_error || !of_errors => Some(call_id.clone()),
        _ => None,
    };
    messages.iter().filter_map(id).collect()
}

#[test]
fn old_results_are_shortened_first_and_say_how_to_get_them_back() {
    let mut messages = history(true, &[Told::Calls(vec![(false, false, 400)]), Told::Calls(vec![(true, false, 400)])]);
    messages.push(Message::assistant(&Turn {
        calls: vec![ModelCall { id: "last".into(), name: "read_file".into(), ..ModelCall::default() }],
        ..Turn::default()
    }));
    messages.push(Message::tool("last", "y ".repeat(100), false));
    let handle = "res_0197c0de000070008000000000000001";
    let mut whole = messages.messages().to_vec();
    whole[3] =
        Message::tool("c0_0", format!("{} the rest: read_result with handle \"{handle}\"", "x ".repeat(400)), false);
    let whole = History::from(whole);
    let (sent, said) = fitted(&whole, 1_700, Compaction::Turns);
    assert_sound(&sent);
    let said = said.unwrap();
    assert_eq!((said.results, said.turns, said.why.as_deref()), (1, 0, None));
    assert!(said.tokens <= 1_700 && said.tokens == total(&sent) && said.tokens_before == total(whole.messages()));
    let Message::Tool { content, .. } = &sent[3] else { panic!("{sent:?}") };
    let expected = format!(
        "[the result of read_file, 873 characters, was left out to save room; the whole: read_result with handle \
         \"{handle}\"]"
    );
    assert_eq!(content.text(), expected);
    assert_eq!(sent[5..], whole.messages()[5..], "what is newer stays as it is");
}

#[test]
fn then_turns_go_and_what_they_changed_is_said() {
    let told: Vec<Told> = (0..12).map(|at| Told::Calls(vec![(at % 4 == 3, at == 2, 200)])).collect();
    let whole = history(true, &told);
    let (sent, said) = fitted(&whole, 1_600, Compaction::Turns);
    assert_sound(&sent);
    let said = said.unwrap();
    assert!(said.results > 0 && said.turns > 0 && said.why.is_none(), "{said:?}");
    let Message::User(first) = &sent[1] else { panic!("{sent:?}") };
    let text = first.text();
    assert!(text.starts_with("begin\n\n["), "{text}");
    assert!(text.contains(&format!("{} earlier turns were left out", said.turns)), "{text}");
    assert!(text.contains("read_file ×"), "{text}");
    assert!(ids(&sent, true).contains("c2_0"), "an error stays: {sent:?}");
    assert_eq!(sent[sent.len() - 2..], whole.messages()[whole.messages().len() - 2..], "the newest turn stays");
    // Those that changed something go last, and are named.
    let (tight, _) = fitted(&whole, 800, Compaction::Turns);
    let Message::User(first) = &tight[1] else { panic!("{tight:?}") };
    assert!(first.text().contains(r#"These were done already: write_file {"path":"3.txt"}"#), "{}", first.text());
}

#[test]
fn the_beginning_stays_the_same_for_some_rounds() {
    let mut told: Vec<Told> = (0..30).map(|_| Told::Calls(vec![(false, false, 100)])).collect();
    let mut beginnings = BTreeSet::new();
    for _ in 0..12 {
        told.push(Told::Calls(vec![(false, false, 10)]));
        let (sent, said) = fitted(&history(true, &told), 4_000, Compaction::Turns);
        assert!(said.unwrap().tokens <= 4_000);
        beginnings.insert(format!("{:?}", &sent[..10]));
    }
    assert!(beginnings.len() <= 3, "{}", beginnings.len());
}

#[test]
fn what_may_not_go_stays_and_is_said() {
    let whole = history(true, &[Told::Calls(vec![(false, false, 400)]), Told::Answer(10)]);
    let (sent, said) = fitted(&whole, 50, Compaction::Off);
    assert_eq!((sent.as_slice(), said), (whole.messages(), None));
    let (sent, said) = fitted(&whole, 50, Compaction::Results);
    assert_eq!(sent.len(), whole.messages().len());
    assert!(said.unwrap().why.unwrap().contains("only results are shortened"));
    let (_, said) = fitted(&whole, 30, Compaction::Turns);
    assert!(said.unwrap().why.unwrap().contains("the newest turn"));
}

fn stories() -> impl Strategy<Value = Vec<Told>> {
    let call = (any::<bool>(), prop::bool::weighted(0.15), 0_usize..120);
    let told = prop_oneof![
        1 => (0_usize..40).prop_map(Told::Prompt),
        1 => (0_usize..40).prop_map(Told::Answer),
        3 => prop::collection::vec(call, 1..4).prop_map(Told::Calls),
    ];
    // Two prompts side by side are no conversation.
    prop::collection::vec(told, 0..25).prop_map(|told| {
        let mut was_prompt = true;
        told.into_iter()
            .filter(|one| !(std::mem::replace(&mut was_prompt, matches!(one, Told::Prompt(_))) && was_prompt))
            .collect()
    })
}

proptest! {
    /// Whatever was said and however little may be sent: what is sent is sound, the same each time, and within the limit or
    /// says why not; and nothing that must stay goes.
    #[test]
    fn what_is_sent_is_sound_and_fits_or_says_why(told in stories(), system: bool, max in 20_u64..2_500) {
        let whole = history(system, &told);
        for compaction in [Compaction::Results, Compaction::Turns] {
            let (sent, said) = fitted(&whole, max, compaction);
            prop_assert_eq!((&sent, &said), (&fitted(&whole, max, compaction).0, &said));
            assert_sound(&sent);
            let Some(said) = said else {
                prop_assert!(sent == whole.messages() && total(&sent) <= max);
                continue;
            };
            prop_assert_eq!(said.tokens, total(&sent));
            prop_assert!(said.tokens <= max || said.why.is_some(), "{:?}", said);
            prop_assert!(ids(&sent, false).is_subset(&ids(whole.messages(), false)));
            prop_assert_eq!(ids(&sent, true), ids(whole.messages(), true), "errors stay");
            if compaction == Compaction::Results {
                prop_assert_eq!(sent.len(), whole.messages().len());
            }
            if let Some(newest) = whole.messages().iter().rposition(|one| matches!(one, Message::Assistant { .. })) {
                let stays = &whole.messages()[newest..];
                prop_assert_eq!(&sent[sent.len() - stays.len()..], stays, "the newest turn stays");
            }
            if said.why.is_some() && compaction == Compaction::Turns {
                let sent = History::from(sent);
                let units: Vec<&[Message]> = sent.units().filter(|unit| matches!(unit, [Message::Assistant { .. }, ..])).collect();
                let may_go = |unit: &&[Message]| !unit.iter().any(is_error) && !matches!(unit, [Message::Assistant { text, .. }] if text == "[left out]");
                let left = units[..units.len().saturating_sub(1)].iter().filter(|unit| may_go(unit)).count();
                prop_assert_eq!(left, 0, "nothing that may go is left");
            }
        }
    }
}
