//! The older form of Chat Completions, which some servers still speak alone: `functions` and `function_call`. A message asks
//! for one call without an id, and its result names the function.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::message::Function;
use crate::history::Message;
use crate::request::{Fields, Request, ToolChoice};
use crate::turn::ModelCall;

/// Writes `functions` and `function_call`.
pub(super) fn put_tools(fields: &mut Fields, request: &Request<'_>) -> Result<(), serde_json::Error> {
    #[derive(Deserialize)]
    struct Tool<'a> {
        #[serde(borrow)]
        function: Option<&'a RawValue>,
    }
    if request.tools.is_empty() {
        return Ok(());
    }
    let tools: Vec<Tool<'_>> = serde_json::from_str(request.tools.tools().get())?;
    let functions: Vec<&RawValue> = tools.into_iter().filter_map(|tool| tool.function).collect();
    fields.put("functions", &functions)?;
    fields.put("function_call", &choice(request, functions.len()))
}

/// There is no word for «it must call» unless it is clear what.
fn choice(request: &Request<'_>, functions: usize) -> Value {
    let names = request.tools.names();
    match request.tool_choice {
        ToolChoice::None => json!("none"),
        ToolChoice::Named(name) => json!({ "name": names.on_wire(name) }),
        ToolChoice::Allowed { required: true, tools } => match tools.as_slice() {
            [name] => json!({ "name": names.on_wire(name) }),
            _ => json!("auto"),
        },
        ToolChoice::Required if functions == 1 => match names.wire_names().next() {
            Some(name) => json!({ "name": name }),
            None => json!("auto"),
        },
        ToolChoice::Auto | ToolChoice::Required | ToolChoice::Allowed { required: false, .. } => json!("auto"),
    }
}

/// The messages, each call apart from its siblings and right before its result.
pub(super) fn messages<'a>(
    request: &Request<'a>,
    printed: impl Fn(&'a Message) -> Result<Value, serde_json::Error>,
) -> Result<Vec<Value>, serde_json::Error> {
    let names = request.tools.names();
    let mut messages = Vec::new();
    let mut open: VecDeque<&ModelCall> = VecDeque::new();
    for message in request.messages {
        match message {
            Message::Assistant { text, calls, .. } if !calls.is_empty() => {
                if !text.is_empty() {
                    messages.push(json!({ "role": "assistant", "content": text }));
                }
                open.extend(calls);
            }
            Message::Tool { call_id, content, .. } => {
                let Some(at) = open.iter().position(|call| call.id == *call_id) else { continue };
                let Some(call) = open.remove(at) else { continue };
                let function = Function::with(call, names, |function| json!(function));
                messages.push(json!({ "role": "assistant", "content": null, "function_call": function }));
                let name = names.on_wire(&call.name);
                messages.push(json!({ "role": "function", "name": name, "content": content.text_without_images() }));
            }
            Message::System(_) | Message::User(_) | Message::Assistant { .. } => messages.push(printed(message)?),
        }
    }
    Ok(messages)
}

/// Gives calls that came without an id one of their own, and their results the same.
pub(super) fn name_calls(messages: &mut [Message]) {
    let mut open = VecDeque::new();
    let mut count = 0;
    for message in messages {
        match message {
            Message::Assistant { calls, .. } => {
                for call in calls.iter_mut().filter(|call| call.id.is_empty()) {
                    count += 1;
                    call.id = format!("call_{count}");
                    open.push_back(call.id.clone());
                }
            }
            Message::Tool { call_id, .. } if call_id.is_empty() => *call_id = open.pop_front().unwrap_or_default(),
            Message::System(_) | Message::User(_) | Message::Tool { .. } => {}
        }
    }
}
