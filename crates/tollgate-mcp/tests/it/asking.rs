//! A call that asks its client while it runs: by requests in the handshake era, by results in the stateless one.

use serde_json::{Value, json};

use crate::door::{Event, Fixture};
use crate::peer::{CAPABILITIES, Peer, bare, initialize, modern};

fn call(name: &str) -> Value {
    json!({ "name": name, "arguments": { "a": 1 } })
}

fn all() -> Value {
    json!({ "elicitation": {}, "sampling": {}, "roots": {} })
}

/// A client of the handshake era that offers this.
async fn offering(capabilities: Value) -> Peer {
    let mut peer = Peer::start(Fixture::new().0);
    let mut hello = initialize("2025-11-25");
    hello["capabilities"] = capabilities;
    peer.ask(&bare("hello", "initialize", &hello)).await;
    peer
}

/// A request of the stateless era from a client that offers this.
fn round(id: u32, name: &str, offers: Value, more: &Value) -> String {
    let mut params = call(name);
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    params["_meta"] = json!({});
    let mut line: Value = serde_json::from_str(&modern(id, "tools/call", &params)).unwrap();
    line["params"]["_meta"][CAPABILITIES] = offers;
    line.to_string()
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap()
}

fn accepted(n: u32) -> Value {
    json!({ "action": "accept", "content": { "n": n } })
}

#[tokio::test]
async fn an_old_client_is_asked_on_its_connection() {
    let mut peer = offering(all()).await;
    peer.send(&bare(1, "tools/call", &call("ask_all"))).await;
    let mut answers = Vec::new();
    for _ in 0..3 {
        let asked = peer.receive().await;
        let result = match asked["method"].as_str().unwrap() {
            "elicitation/create" => accepted(7),
            "sampling/createMessage" => {
                json!({ "role": "assistant", "content": { "type": "text", "text": "Hello" }, "model": "m" })
            }
            _ => json!({ "roots": [{ "uri": "file:///a" }] }),
        };
        answers.push(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": result }));
    }
    // Answers come in any order, twice, and to nothing.
    for answer in answers.iter().rev().chain(&answers) {
        peer.send(&answer.to_string()).await;
    }
    peer.send(r#"{"jsonrpc":"2.0","id":"tollgate-99","result":{}}"#).await;
    peer.send(r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"a"}}"#).await;
    let answer = peer.receive().await;
    let told = text(&answer);
    assert!(told.contains("\\\"n\\\":7") && told.contains("Hello") && told.contains("file:///a"), "{told}");
}

#[tokio::test]
async fn an_old_client_is_asked_only_what_it_offers_and_may_refuse() {
    let mut peer = offering(json!({ "elicitation": { "url": {} } })).await;
    let answer = peer.ask(&bare(1, "tools/call", &call("ask"))).await;
    assert!(text(&answer).contains("does not offer elicitation"), "{answer}");

    let mut peer = offering(all()).await;
    for (reply, told) in [
        (json!({ "error": { "code": -1, "message": "User rejected" } }), "the client refused: User rejected"),
        (json!({ "error": "rubbish" }), "the client refused"),
        (json!({ "result": { "action": "perhaps" } }), "its answer is none"),
        (json!({ "result": 7 }), "its answer is none"),
    ] {
        peer.send(&bare(2, "tools/call", &call("ask"))).await;
        let mut reply = reply;
        (reply["jsonrpc"], reply["id"]) = (json!("2.0"), peer.receive().await["id"].clone());
        let answer = peer.ask(&reply.to_string()).await;
        assert!(text(&answer).contains(told), "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_that_nobody_answers_ends_and_is_taken_back() {
    let mut peer = offering(all()).await;
    peer.send(&bare(1, "tools/call", &call("ask"))).await;
    let asked = peer.receive().await;
    let taken_back = peer.receive().await;
    assert_eq!(
        (&taken_back["method"], &taken_back["params"]["requestId"]),
        (&json!("notifications/cancelled"), &asked["id"])
    );
    assert!(text(&peer.receive().await).contains("nobody answered"));
}

#[tokio::test]
async fn a_cancelled_call_takes_its_question_back() {
    let mut peer = offering(all()).await;
    peer.send(&bare(1, "tools/call", &call("ask"))).await;
    let asked = peer.receive().await;
    peer.send(r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#).await;
    assert_eq!(peer.receive().await["params"]["requestId"], asked["id"]);
    assert_eq!(peer.ask(&bare(2, "ping", &json!({}))).await["id"], 2);
}

#[tokio::test]
async fn a_new_client_is_asked_by_the_result_and_the_call_goes_on() {
    let mut peer = Peer::start(Fixture::new().0);
    let first = peer.ask(&round(1, "ask", all(), &json!({}))).await;
    let asked = &first["result"]["inputRequests"]["user_name"];
    assert_eq!(asked["method"], "elicitation/create");
    let maximum = &asked["params"]["requestedSchema"]["properties"]["n"]["maximum"];
    assert_eq!(maximum.as_f64(), Some(12_345_678_901_234_567_890_123.0), "it is no number of 64 bits");
    let state = &first["result"]["requestState"];
    let retry = json!({ "requestState": state, "inputResponses": { "user_name": accepted(7), "unasked": {} } });
    assert!(text(&peer.ask(&round(2, "ask", all(), &retry)).await).contains("\"n\":7"));
    // The call is over; its state counts once.
    let again = peer.ask(&round(3, "ask", all(), &retry)).await;
    assert_eq!(again["error"]["code"], -32602, "{again}");
}

#[tokio::test]
async fn questions_that_come_together_are_asked_together_and_may_be_answered_one_by_one() {
    let mut peer = Peer::start(Fixture::new().0);
    let first = peer.ask(&round(1, "ask_all", all(), &json!({}))).await;
    let names: Vec<_> = first["result"]["inputRequests"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(names, ["client_roots", "greeting", "user_name"]);
    let retry = json!({
        "requestState": first["result"]["requestState"],
        "inputResponses": { "user_name": accepted(1), "client_roots": { "roots": [] } },
    });
    let second = peer.ask(&round(2, "ask_all", all(), &retry)).await;
    let left: Vec<_> = second["result"]["inputRequests"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(left, ["greeting"]);
    let greeting = json!({ "role": "assistant", "content": { "type": "text", "text": "Hello" }, "model": "m" });
    let retry = json!({ "requestState": second["result"]["requestState"], "inputResponses": { "greeting": greeting } });
    assert!(text(&peer.ask(&round(3, "ask_all", all(), &retry)).await).contains("Hello"));
    // What a client does not offer is not asked of it.
    let sampling = peer.ask(&round(4, "ask_all", json!({ "sampling": {} }), &json!({}))).await;
    let names: Vec<_> = sampling["result"]["inputRequests"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(names, ["greeting"]);
    let nothing = peer.ask(&round(5, "ask_all", json!({}), &json!({}))).await;
    assert!(text(&nothing).contains("does not offer") || text(&nothing).contains("nobody to ask"), "{nothing}");
}

#[tokio::test]
async fn each_round_is_told_of_progress_and_has_a_state_of_its_own() {
    let mut peer = Peer::start(Fixture::new().0);
    let first = peer.ask(&round(1, "ask_twice", all(), &json!({}))).await;
    let mut retry = json!({
        "requestState": first["result"]["requestState"],
        "inputResponses": { "step1": accepted(1) },
    });
    let mut line: Value = serde_json::from_str(&round(2, "ask_twice", all(), &retry)).unwrap();
    line["params"]["_meta"]["progressToken"] = json!("second");
    peer.send(&line.to_string()).await;
    assert_eq!(peer.receive().await["params"]["progressToken"], "second");
    let second = peer.receive().await;
    assert!(second["result"]["inputRequests"].get("step2").is_some(), "{second}");
    assert_ne!(second["result"]["requestState"], first["result"]["requestState"]);
    retry = json!({ "requestState": second["result"]["requestState"], "inputResponses": { "step2": accepted(2) } });
    let last = peer.ask(&round(3, "ask_twice", all(), &retry)).await;
    assert!(text(&last).contains("\\\"n\\\":1") && text(&last).contains("\\\"n\\\":2"), "{last}");
}

#[tokio::test]
async fn answers_that_are_none_are_refused_and_the_call_still_waits() {
    let mut peer = Peer::start(Fixture::new().0);
    let first = peer.ask(&round(1, "ask", all(), &json!({}))).await;
    let state = first["result"]["requestState"].as_str().unwrap();
    for retry in [
        json!({ "requestState": state, "inputResponses": { "user_name": 12345 } }),
        json!({ "requestState": state, "inputResponses": { "user_name": { "action": "perhaps" } } }),
        json!({ "requestState": state, "inputResponses": 7 }),
        json!({ "requestState": 7, "inputResponses": { "user_name": accepted(1) } }),
        json!({ "requestState": format!("{state}-TAMPERED"), "inputResponses": { "user_name": accepted(1) } }),
        json!({ "requestState": "", "inputResponses": { "user_name": accepted(1) } }),
        json!({ "requestState": state, "arguments": { "a": 2 }, "inputResponses": { "user_name": accepted(1) } }),
        json!({ "requestState": state, "name": "ask_twice", "inputResponses": { "user_name": accepted(1) } }),
    ] {
        let answer = peer.ask(&round(2, "ask", all(), &retry)).await;
        assert_eq!(answer["error"]["code"], -32602, "{retry}: {answer}");
    }
    let retry = json!({ "requestState": state, "inputResponses": { "user_name": accepted(3) } });
    assert!(text(&peer.ask(&round(3, "ask", all(), &retry)).await).contains("\"n\":3"));
}

#[tokio::test]
async fn answers_without_a_state_are_for_the_questions_of_their_names() {
    let mut peer = Peer::start(Fixture::new().0);
    let given = json!({ "inputResponses": { "user_name": accepted(5), "unasked": { "action": "accept" } } });
    assert!(text(&peer.ask(&round(1, "ask", all(), &given)).await).contains("\"n\":5"));
    for useless in [
        json!({ "inputResponses": { "wrong": accepted(5) } }),
        json!({ "inputResponses": { "user_name": { "action": "perhaps" } } }),
        json!({ "inputResponses": null }),
    ] {
        let answer = peer.ask(&round(2, "ask", all(), &useless)).await;
        assert_eq!(answer["result"]["resultType"], "input_required", "{useless}: {answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_client_never_comes_back_is_dropped() {
    let (door, mut events) = Fixture::new();
    let mut peer = Peer::start(door.clone());
    let first = peer.ask(&round(1, "ask_and_hold", all(), &json!({}))).await;
    let state = &first["result"]["requestState"];
    assert_eq!(events.recv().await, Some(Event::Held("1".into())));
    assert_eq!(events.recv().await, Some(Event::Dropped("1".into())));
    let retry = json!({ "requestState": state, "inputResponses": { "user_name": accepted(3) } });
    let late = peer.ask(&round(2, "ask_and_hold", all(), &retry)).await;
    assert!(late["error"]["message"].as_str().unwrap().contains("nothing waits"), "{late}");
}

#[tokio::test]
async fn a_caller_can_not_let_calls_wait_without_end() {
    let mut peer = Peer::start(Fixture::new().0);
    for id in 0..64 {
        assert_eq!(peer.ask(&round(id, "ask", all(), &json!({}))).await["result"]["resultType"], "input_required");
    }
    assert_eq!(peer.ask(&round(64, "ask", all(), &json!({}))).await["error"]["code"], -32000);
}

#[tokio::test]
async fn an_old_client_hears_what_it_wants_to_hear_of() {
    let mut peer = offering(json!({})).await;
    for (level, heard) in [(None, vec!["b", "c"]), (Some("debug"), vec!["a", "b", "c"]), (Some("error"), vec!["c"])] {
        if let Some(level) = level {
            peer.ask(&bare("level", "logging/setLevel", &json!({ "level": level }))).await;
        }
        peer.send(&bare(1, "tools/call", &call("chat"))).await;
        for said in heard {
            assert_eq!(peer.receive().await["params"]["data"]["said"], said);
        }
        assert_eq!(text(&peer.receive().await), "chatted");
    }
}

#[tokio::test]
async fn a_new_client_hears_nothing_unless_its_request_says_so() {
    let mut peer = Peer::start(Fixture::new().0);
    assert_eq!(text(&peer.ask(&round(1, "chat", all(), &json!({}))).await), "chatted");
    for offers in [all(), json!({})] {
        let mut line: Value = serde_json::from_str(&round(2, "chat", offers, &json!({}))).unwrap();
        line["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = json!("error");
        assert_eq!(peer.ask(&line.to_string()).await["params"]["data"]["said"], "c");
        assert_eq!(text(&peer.receive().await), "chatted");
        line["params"]["_meta"]["io.modelcontextprotocol/logLevel"] = json!("loud");
        assert_eq!(peer.ask(&line.to_string()).await["error"]["code"], -32602);
    }
}
