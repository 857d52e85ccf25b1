//! The loop: order, limits, and a history in which every call has exactly one result.

use std::sync::Arc;

use serde_json::{Value, json};
use tollgate_agent::{Agent, Event, Options, RunError};
use tollgate_types::{CancellationToken, Code};
use tollgate_wire::{Message, ToolChoice};

use crate::door::{Shelf, caller};
use crate::server::{Reply, Server, asks, calls_message, head, json_reply, says};

fn agent(door: &Arc<Shelf>, server: &Server, options: Options) -> Agent {
    Agent::new(door.clone(), caller(), server.model(), options)
}

async fn ask(agent: &mut Agent, prompt: &str) -> (Result<String, RunError>, Vec<Event>) {
    let mut events = Vec::new();
    let result = agent.ask(prompt, &CancellationToken::new(), &mut |event| events.push(event.clone())).await;
    assert_sound(agent.history());
    (result.map(|answer| answer.text), events)
}

fn assert_sound(history: &[Message]) {
    let mut open: Vec<&str> = Vec::new();
    for message in history {
        match message {
            Message::Assistant { calls, .. } => {
                assert!(open.is_empty());
                open = calls.iter().map(|call| call.id.as_str()).collect();
            }
            Message::Tool { call_id, .. } => assert_eq!(open.remove(0), call_id),
            Message::System(_) | Message::User(_) => assert!(open.is_empty()),
        }
    }
    assert!(open.is_empty(), "{history:?}");
}

/// The tool messages of the last request: `id text`.
fn results(server: &Server) -> Vec<String> {
    let (_, body) = server.asked().pop().unwrap();
    let messages = body["messages"].as_array().unwrap().clone();
    let is_tool = |message: &&Value| message["role"] == "tool";
    let line = |m: &Value| format!("{} {}", m["tool_call_id"].as_str().unwrap(), m["content"].as_str().unwrap());
    messages.iter().filter(is_tool).map(line).collect()
}

#[tokio::test]
async fn parallel_calls_run_side_by_side_and_answer_in_call_order() {
    let calls = [
        ("a", "meet", r#"{"who":"first"}"#),
        ("b", "meet", r#"{"who":"second"}"#),
        ("c", "nope", "{}"),
        ("d", "ask", ""),
    ];
    let server = Server::start(vec![asks(&calls), says("done")]);
    let door = Shelf::new();
    let mut agent = agent(&door, &server, Options { system: Some("be brief".to_owned()), ..Options::default() });
    let (answer, events) = ask(&mut agent, "go").await;
    assert_eq!(answer.unwrap(), "done");
    let results = results(&server);
    assert_eq!(results[..2], [r#"a met {"who":"first"}"#, r#"b met {"who":"second"}"#]);
    assert!(results[2].starts_with(r#"c {"ok":false,"error":"unknown_tool""#), "{results:?}");
    assert!(results[3].starts_with(r#"d {"ok":false,"error":"approval_required""#), "{results:?}");
    let roles: Vec<_> = server.asked()[1].1["messages"].as_array().unwrap().iter().map(|m| m["role"].clone()).collect();
    assert_eq!(json!(roles), json!(["system", "user", "assistant", "tool", "tool", "tool", "tool"]));
    let kinds: Vec<Value> = events.iter().map(|event| json!(event)["type"].clone()).collect();
    assert_eq!((&kinds[0], &kinds[1], kinds.last()), (&json!("run_started"), &json!("turn"), Some(&json!("answer"))));
    let finished: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            Event::CallFinished { outcome } => Some(outcome.call_id.as_str()),
            _ => None,
        })
        .collect();
    assert!(finished.iter().position(|id| *id == "b") < finished.iter().position(|id| *id == "a"), "told as they end");
}

#[tokio::test]
async fn no_more_calls_run_at_once_than_may() {
    let ids: Vec<String> = (0..8).map(|number| number.to_string()).collect();
    let calls: Vec<_> = ids.iter().map(|id| (id.as_str(), "echo", "{}")).collect();
    let server = Server::start(vec![asks(&calls), says("done")]);
    let (_, events) = ask(&mut agent(&Shelf::new(), &server, Options::default()), "go").await;
    let (mut running, mut most) = (0, 0);
    for event in events {
        match event {
            Event::CallStarted { .. } => running += 1,
            Event::CallFinished { .. } => running -= 1,
            _ => {}
        }
        most = most.max(running);
    }
    assert_eq!((running, most), (0, 5));
}

#[tokio::test]
async fn a_conversation_goes_on_and_ids_stay_unique() {
    let server = Server::start(vec![
        asks(&[("x", "echo", "1")]),
        says("one"),
        asks(&[("x", "echo", "2"), ("", "echo", "3")]),
        says("two"),
    ]);
    let door = Shelf::new();
    let mut agent = agent(&door, &server, Options::default());
    assert_eq!(ask(&mut agent, "first").await.0.unwrap(), "one");
    assert_eq!(ask(&mut agent, "second").await.0.unwrap(), "two");
    assert_eq!(door.called(), ["x echo 1", "x_1 echo 2", "call_2 echo 3"]);
    assert_eq!(results(&server), ["x 1", "x_1 2", "call_2 3"]);
}

#[tokio::test]
async fn calls_carry_what_people_wrote_and_nothing_else() {
    let server =
        Server::start(vec![asks(&[("x", "echo", "1")]), says("one"), asks(&[("y", "echo", "2")]), says("two")]);
    let door = Shelf::new();
    let options = Options { system: Some("you work for us".into()), ..Options::default() };
    let mut agent = agent(&door, &server, options);
    ask(&mut agent, "first").await.0.unwrap();
    ask(&mut agent, "second").await.0.unwrap();
    let said = door.said();
    let users: Vec<&[String]> = said.iter().map(|said| said.user.as_slice()).collect();
    assert_eq!(users, [&["first".to_owned()][..], &["first".to_owned(), "second".to_owned()]]);
    assert!(said.iter().all(|said| said.operator == ["you work for us"]));
}

#[tokio::test]
async fn a_forced_choice_holds_for_one_round() {
    for (choice, sent) in [
        (ToolChoice::Required, json!("required")),
        (ToolChoice::Named("echo".to_owned()), json!({"type": "function", "function": {"name": "echo"}})),
    ] {
        let server = Server::start(vec![asks(&[("a", "echo", "{}")]), says("done")]);
        let mut agent = agent(&Shelf::new(), &server, Options { tool_choice: choice, ..Options::default() });
        ask(&mut agent, "go").await.0.unwrap();
        let choices: Vec<Value> = server.asked().iter().map(|(_, body)| body["tool_choice"].clone()).collect();
        assert_eq!(choices, [sent, json!("auto")]);
    }
}

/// A set that must be called from holds for one round, a set that may be called from for the whole run.
#[tokio::test]
async fn only_allowed_tools_are_called() {
    let server = Server::start(vec![asks(&[("a", "echo", "{}"), ("b", "meet", "{}")]), says("done")]);
    let door = Shelf::new();
    let tool_choice = ToolChoice::from("required:echo");
    let mut agent = agent(&door, &server, Options { tool_choice, ..Options::default() });
    assert_eq!(ask(&mut agent, "go").await.0.unwrap(), "done");
    assert_eq!(door.called(), ["a echo {}"]);
    let set = |mode: &str| {
        let echo = json!({"type": "function", "function": {"name": "echo"}});
        json!({"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": [echo]}})
    };
    let choices: Vec<Value> = server.asked().iter().map(|(_, body)| body["tool_choice"].clone()).collect();
    assert_eq!(choices, [set("required"), set("auto")]);
}

#[tokio::test]
async fn a_server_that_calls_in_spite_of_none_gets_nothing_run() {
    let server = Server::start(vec![asks(&[("a", "echo", "{}")]), says("done")]);
    let door = Shelf::new();
    let mut agent = agent(&door, &server, Options { tool_choice: ToolChoice::None, ..Options::default() });
    assert_eq!(ask(&mut agent, "go").await.0.unwrap(), "done");
    assert!(door.called().is_empty() && results(&server)[0].contains("denied"));
    assert_eq!(server.asked()[1].1["tool_choice"], "none");
}

#[tokio::test]
async fn circles_and_endless_runs_end() {
    let same = || asks(&[("a", "echo", r#"{"q":1}"#)]);
    let other = || asks(&[("b", "echo", r#"{"q":2}"#)]);
    let server = Server::start(vec![same(), other(), same(), other(), same(), says("never")]);
    let mut stuck = agent(&Shelf::new(), &server, Options::default());
    let (result, events) = ask(&mut stuck, "go").await;
    assert_eq!(result.unwrap_err().code(), Code::NoProgress);
    assert_eq!(server.asked().len(), 5);
    assert!(matches!(events.last(), Some(Event::Error { error }) if error.error == Code::NoProgress));

    let server = Server::start(vec![same(), other(), says("late")]);
    let mut short = agent(&Shelf::new(), &server, Options { rounds_max: 2, ..Options::default() });
    let error = ask(&mut short, "go").await.0.unwrap_err();
    assert!(error.code() == Code::BudgetExceeded && error.to_string().contains("max_turns"), "{error}");
    assert_eq!(short.history().len(), 5, "prompt, two turns, two results");
    assert_eq!(ask(&mut short, "and now?").await.0.unwrap(), "late");
}

#[tokio::test]
async fn what_did_not_arrive_whole_does_not_run() {
    let cut = json_reply(calls_message(&[("a", "echo", r#"{"path":"x"}"#)]), "length");
    let server = Server::start(vec![cut, says("sorry")]);
    let door = Shelf::new();
    let mut agent = agent(&door, &server, Options::default());
    assert_eq!(ask(&mut agent, "go").await.0.unwrap(), "sorry");
    assert!(door.called().is_empty());
    assert!(results(&server)[0].contains("possibly truncated"));
}

#[tokio::test]
async fn calls_beyond_the_limit_of_a_turn_are_refused() {
    let ids: Vec<String> = (0..130).map(|n| format!("c{n}")).collect();
    let calls: Vec<_> = ids.iter().map(|id| (id.as_str(), "echo", id.as_str())).collect();
    let server = Server::start(vec![asks(&calls), says("done")]);
    let door = Shelf::new();
    let mut agent = agent(&door, &server, Options::default());
    ask(&mut agent, "go").await.0.unwrap();
    assert_eq!(door.called().len(), 128);
    let results = results(&server);
    assert_eq!(results[127], "c127 c127");
    assert!(results[128..].iter().all(|result| result.contains("budget_exceeded")) && results.len() == 130);
}

#[tokio::test]
async fn tools_left_out_are_neither_offered_nor_run() {
    let server = Server::start(vec![asks(&[("a", "ask", "{}"), ("b", "echo", "{}")]), says("done")]);
    let door = Shelf::new();
    let only = |name: &str| Options { tools: Some(vec![name.to_owned()]), ..Options::default() };
    let mut some = agent(&door, &server, only("echo"));
    ask(&mut some, "go").await.0.unwrap();
    assert_eq!(door.called(), ["b echo {}"]);
    assert_eq!(server.asked()[0].1["tools"].as_array().unwrap().len(), 1);
    assert!(results(&server)[0].contains("unknown_tool"));

    let nobody = Server::start(vec![]);
    let error = ask(&mut agent(&door, &nobody, only("ehco")), "go").await.0.unwrap_err();
    assert_eq!(error.to_string(), "no tool is named `ehco`");
}

#[tokio::test]
async fn cancelling_keeps_what_is_done() {
    let server = Server::start(vec![asks(&[("a", "stall", "{}"), ("b", "echo", "kept")]), says("back")]);
    let door = Shelf::new();
    let mut agent = agent(&door, &server, Options::default());
    let cancellation = CancellationToken::new();
    let mut events = Vec::new();
    let mut stop_at_b = |event: &Event| {
        if matches!(event, Event::CallFinished { .. }) {
            cancellation.cancel();
        }
        events.push(event.clone());
    };
    let result = agent.ask("go", &cancellation, &mut stop_at_b).await;
    assert!(matches!(result, Err(RunError::Cancelled)));
    assert!(matches!(events.last(), Some(Event::Error { error }) if error.error == Code::Cancelled));
    assert_sound(agent.history());
    assert_eq!(ask(&mut agent, "and?").await.0.unwrap(), "back");
    let results = results(&server);
    assert!(results[0].contains("outcome_unknown") && results[1] == "b kept", "{results:?}");
}

/// Whatever ended a prompt, the next request is one that every server takes.
#[tokio::test]
async fn after_any_end_the_next_prompt_is_well_formed() {
    let call = || asks(&[("a", "echo", "1"), ("b", "stall", "{}"), ("c", "cut", "{}")]);
    let echo = || asks(&[("a", "echo", "1")]);
    let events = |events: &str| head("200 OK", "content-type: text/event-stream\r\n") + events;
    let begun = || events("data: {\"choices\":[{\"delta\":{\"content\":\"he\"}}]}\n\n");
    let refusal = || Reply::Bytes(head("400 Bad", "content-length: 0\r\n"));
    let nothing = vec!["user"];
    let three = vec!["user", "assistant", "tool", "tool", "tool", "user"];
    let one = vec!["user", "assistant", "tool", "user"];
    // The replies to the prompt, the event at which it is stopped, and what the next request holds.
    let cases: Vec<(Vec<Reply>, &str, Vec<&str>)> = vec![
        (vec![refusal()], "", nothing.clone()),
        (vec![Reply::Bytes(begun())], "", nothing.clone()),
        (vec![json_reply(json!({"content": ""}), "stop")], "", nothing.clone()),
        (vec![echo(), refusal()], "", one.clone()),
        (vec![echo(), Reply::Bytes(begun())], "", one.clone()),
        (vec![echo(), json_reply(json!({"content": ""}), "stop")], "", one.clone()),
        (vec![Reply::Hang(begun())], "text_delta", nothing.clone()),
        (vec![echo(), Reply::Hang(begun())], "text_delta", one.clone()),
        (vec![call()], "turn", three.clone()),
        (vec![call()], "call_started", three.clone()),
        (vec![call()], "call_finished", three.clone()),
    ];
    for (replies, stop_at, expected) in cases {
        for is_dropped in [false, true] {
            let replies = replies.iter().map(Reply::again).chain([says("back")]).collect();
            let server = Server::start(replies);
            let door = Shelf::new();
            let mut agent = agent(&door, &server, Options::default());
            let (cancellation, stop) = (CancellationToken::new(), CancellationToken::new());
            let mut stop_at_event = |event: &Event| {
                if json!(event)["type"] == stop_at {
                    if is_dropped { stop.cancel() } else { cancellation.cancel() }
                }
            };
            tokio::select! {
                result = agent.ask("go", &cancellation, &mut stop_at_event) => assert!(result.is_err(), "{stop_at}"),
                () = stop.cancelled() => {}
            }
            assert_eq!(ask(&mut agent, "and?").await.0.unwrap(), "back", "{stop_at}");
            let (_, body) = server.asked().pop().unwrap();
            let messages = body["messages"].as_array().unwrap();
            let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
            assert_eq!(roles, expected, "{stop_at} {is_dropped}");
            let called = messages.iter().flat_map(|m| m["tool_calls"].as_array().cloned().unwrap_or_default());
            let called: Vec<Value> = called.map(|call| call["id"].clone()).collect();
            let answered = messages.iter().filter(|m| m["role"] == "tool").map(|m| m["tool_call_id"].clone());
            assert_eq!(called, answered.collect::<Vec<_>>(), "{stop_at} {is_dropped}");
        }
    }
}

#[tokio::test]
async fn thoughts_go_back_with_their_calls() {
    let thinks = |id: &str| {
        let mut message = calls_message(&[(id, "echo", id)]);
        message["reasoning_content"] = json!(format!("so {id}"));
        json_reply(message, "tool_calls")
    };
    let answers = |text: &str| json_reply(json!({"content": text, "reasoning_content": "that is it"}), "stop");
    let server = Server::start(vec![thinks("1"), thinks("2"), answers("one"), thinks("3"), answers("two")]);
    let mut agent = agent(&Shelf::new(), &server, Options::default());
    let (answer, events) = ask(&mut agent, "go").await;
    assert_eq!(answer.unwrap(), "one");
    let shown = |event: &Event| matches!(event, Event::TextDelta { text } if text != "one");
    assert!(!events.iter().any(shown), "{events:?}");
    assert_eq!(ask(&mut agent, "and?").await.0.unwrap(), "two");
    let asked = server.asked();
    let thoughts = |at: usize| -> Vec<Value> {
        let messages = asked[at].1["messages"].as_array().unwrap();
        messages.iter().filter_map(|message| message.get("reasoning_content").cloned()).collect()
    };
    assert_eq!(
        (0..5).map(thoughts).collect::<Vec<_>>(),
        [&[][..], &["so 1"], &["so 1", "so 2"], &["so 1", "so 2"], &["so 1", "so 2", "so 3"]]
    );
}

#[tokio::test]
async fn a_prompt_without_any_reply_is_taken_back() {
    let server = Server::start(vec![
        Reply::Bytes(String::from("HTTP/1.1 400 Bad\r\ncontent-length: 0\r\n\r\n")),
        json_reply(json!({"content": " "}), "odd"),
        says("hi"),
    ]);
    let mut agent = agent(&Shelf::new(), &server, Options::default());
    assert!(matches!(ask(&mut agent, "hello").await.0, Err(RunError::Model(_))));
    let empty = ask(&mut agent, "hello").await.0.unwrap_err();
    assert!(empty.to_string().contains("neither text nor a call (`odd`)"), "{empty}");
    assert_eq!(ask(&mut agent, "hello").await.0.unwrap(), "hi");
    assert_eq!(agent.history().len(), 2);
}
