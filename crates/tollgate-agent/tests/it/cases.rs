//! What models and servers really sent, through the HTTP client: it must come out as the wire reads it, whose tests say what
//! that is.

use std::sync::Arc;

use serde_json::{Value, json};
use tollgate_agent::{Model, ModelClient, ModelConfig, ModelRequest};
use tollgate_types::ToolDefinition;
use tollgate_wire::{Dialect, Lowered, Message, Stream, Target, ToolChoice, Turn, lower, read_reply};

use crate::server::{Reply, Server, head, http};

const CASES: [&str; 5] = [
    include_str!("../../../tollgate-wire/tests/cases/chat.jsonl"),
    include_str!("../../../tollgate-wire/tests/cases/chat_stream.jsonl"),
    include_str!("../../../tollgate-wire/tests/cases/responses.jsonl"),
    include_str!("../../../tollgate-wire/tests/cases/anthropic.jsonl"),
    include_str!("../../../tollgate-wire/tests/cases/gemini.jsonl"),
];

/// What a server sends: one object, or events.
enum Sent {
    Whole(String),
    Events(String),
}

/// The dialect of a case and what its server sends; nothing where it is about what goes out.
fn sent(input: &Value) -> Option<(Dialect, Sent)> {
    let wire = input["wire"].as_str()?;
    let dialect =
        Dialect::ALL.into_iter().find(|dialect| wire.strip_suffix("_stream").unwrap_or(wire) == dialect.as_str())?;
    let events = input.get("chunks").or_else(|| input.get("events"));
    if let Some(events) = events.and_then(Value::as_array) {
        let data = events.iter().map(|event| event.as_str().map_or_else(|| event.to_string(), str::to_owned));
        return Some((dialect, Sent::Events(data.map(|data| format!("data: {data}\n\n")).collect())));
    }
    if let Some(output) = input.get("output") {
        let reply = json!({"id": "r1", "object": "response", "status": "completed", "output": output});
        return Some((dialect, Sent::Whole(reply.to_string())));
    }
    Some((dialect, Sent::Whole(input.get("response")?.to_string())))
}

fn tools(input: &Value, dialect: Dialect) -> Lowered {
    let tools = input["tools"].as_array().into_iter().flatten().map(|tool| {
        let mut definition = ToolDefinition::new(tool["name"].as_str().unwrap(), "Does it.");
        definition.input_schema = tool["input_schema"].clone();
        Arc::new(definition)
    });
    lower(&tools.collect::<Vec<_>>(), &Target::of(dialect)).unwrap()
}

fn read(dialect: Dialect, sent: &Sent, tools: &Lowered) -> Option<Turn> {
    match sent {
        Sent::Whole(body) => read_reply(dialect, body.as_bytes(), tools.names()).ok(),
        Sent::Events(events) => {
            let mut stream = Stream::new(dialect);
            stream.push(events.as_bytes(), &mut |_| {}).ok()?;
            stream.finish(tools.names()).ok()
        }
    }
}

#[tokio::test]
async fn what_servers_sent_comes_through_the_client_as_the_wire_reads_it() {
    let mut by_dialect = [0; 4];
    for line in CASES.iter().flat_map(|cases| cases.lines()) {
        let case: Value = serde_json::from_str(line).unwrap();
        let Some((dialect, sent)) = sent(&case["input"]) else { continue };
        let tools = tools(&case["input"], dialect);
        let reply = match &sent {
            Sent::Whole(body) => http("200 OK", "content-type: application/json\r\n", body),
            Sent::Events(events) => Reply::Bytes(head("200 OK", "content-type: text/event-stream\r\n") + events),
        };
        let server = Server::start(vec![reply]);
        let config = ModelConfig { max_retries: 0, target: Target::of(dialect), ..server.config() };
        let (model, messages) = (ModelClient::new(config).unwrap(), [Message::user("go")]);
        let request = ModelRequest {
            messages: &messages,
            is_shortened: false,
            tools: &tools,
            hosted: &[],
            tool_choice: &ToolChoice::Auto,
        };
        let turn = model.turn(request, &mut |_| {}).await;
        assert_eq!(turn.as_ref().ok(), read(dialect, &sent, &tools).as_ref(), "{}: {turn:?}", case["id"]);
        by_dialect[Dialect::ALL.iter().position(|one| *one == dialect).unwrap()] += 1;
    }
    assert_eq!(by_dialect, [32, 4, 4, 2], "cases by dialect");
}
