//! Requests of Responses, read.

use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::item::{Call, Item, kind};
use crate::chat::delta::scalar_text;
use crate::dialect::Dialect;
use crate::fault::WireFault;
use crate::history::{Content, Image, Message, Piece};
use crate::object::Object;
use crate::received::{Offered, Received, TEXT_PROPERTY};
use crate::request::ToolChoice;
use crate::turn::{Kept, ModelCall, Part};

pub(crate) fn read_request(mut body: Object<'_>) -> Result<Received, WireFault> {
    let mut received = Received {
        model: body.read("model")?.unwrap_or_default(),
        messages: body.read("instructions")?.into_iter().map(Message::System).collect(),
        parallel: body.read("parallel_tool_calls")?,
        max_tokens: body.read("max_output_tokens")?,
        temperature: body.read("temperature")?,
        stream: body.read("stream")?.unwrap_or_default(),
        store: body.read("store")?,
        previous: body.read("previous_response_id")?,
        ..Received::default()
    };
    read_input(&mut body, &mut received.messages)?;
    for tool in body.list("tools")?.unwrap_or_default() {
        match offered(tool) {
            Some(tool) => received.tools.push(tool),
            None => received.hosted.push(tool.to_owned()),
        }
    }
    let choice: Value = body.read("tool_choice")?.unwrap_or_default();
    received.rest = body.into_map();
    match tool_choice(&choice) {
        Some(choice) => received.tool_choice = choice,
        None => drop(received.rest.insert("tool_choice".to_owned(), choice)),
    }
    Ok(received)
}

/// A text alone, or items. What a model said between two results is one message.
fn read_input(body: &mut Object<'_>, messages: &mut Vec<Message>) -> Result<(), WireFault> {
    let Some(input) = body.take("input") else {
        return Ok(());
    };
    if input.get().starts_with('"') {
        let text: String =
            serde_json::from_str(input.get()).map_err(|e| WireFault::request(format!("`input`: {e}")))?;
        messages.push(Message::user(text));
        return Ok(());
    }
    let items: Vec<&RawValue> =
        serde_json::from_str(input.get()).map_err(|e| WireFault::request(format!("`input`: {e}")))?;
    let mut said = Said::default();
    for (at, raw) in items.into_iter().enumerate() {
        let fault = |reason: String| WireFault::request(format!("`input[{at}]`: {reason}"));
        match read_item(raw).map_err(fault)? {
            Some(message) => {
                messages.extend(std::mem::take(&mut said).into_message());
                messages.push(message);
            }
            None => said.take(raw).map_err(|e| fault(e.to_string()))?,
        }
    }
    messages.extend(said.into_message());
    Ok(())
}

/// A message of somebody else than the model, or nothing.
fn read_item(raw: &RawValue) -> Result<Option<Message>, String> {
    let mut fields: Object<'_> = serde_json::from_str(raw.get()).map_err(|e| e.to_string())?;
    match &*kind(&fields) {
        "message" => {
            let role = scalar_text(fields.take("role"));
            if role == "assistant" {
                return Ok(None);
            }
            let content = content(fields.take("content"))?;
            match &*role {
                "user" => Ok(Some(Message::User(content))),
                "system" | "developer" => Ok(Some(Message::System(content.text().into_owned()))),
                role => Err(format!("`{role}` is no role of a message")),
            }
        }
        "function_call_output" | "custom_tool_call_output" => {
            let call_id = scalar_text(fields.take("call_id")).into_owned();
            Ok(Some(Message::tool(call_id, content(fields.take("output"))?, false)))
        }
        _ => Ok(None),
    }
}

/// A text, a list of texts and images, or nothing. A part that is neither cannot be kept, so it is refused.
fn content(content: Option<&RawValue>) -> Result<Content, String> {
    let Some(content) = content else { return Ok(Content::default()) };
    let piece = |part: &Value| {
        let text = part.get("text").or_else(|| part.get("refusal")).and_then(Value::as_str);
        let url = || part.get("image_url").and_then(Value::as_str);
        text.map(|text| Piece::Text(text.to_owned())).or_else(|| Some(Piece::Image(Image::from_url(url()?))))
    };
    let fault = "the content is text, or a list of texts and images with an `image_url`";
    match serde_json::from_str(content.get()) {
        Ok(Value::String(text)) => Ok(text.into()),
        Ok(Value::Array(parts)) => {
            let pieces: Option<Vec<Piece>> = parts.iter().map(piece).collect();
            pieces.map(Content::from).ok_or_else(|| fault.to_owned())
        }
        _ => Err(fault.to_owned()),
    }
}

/// What a model said, item by item.
#[derive(Default)]
struct Said {
    text: String,
    calls: Vec<ModelCall>,
    parts: Vec<Part>,
}

impl Said {
    fn take(&mut self, raw: &RawValue) -> Result<(), serde_json::Error> {
        let part = match Item::of(raw)? {
            Item::Text(text) => {
                self.text.push_str(&text);
                Part::Text(text)
            }
            Item::Message { text, .. } => {
                self.text.push_str(&text);
                Part::Raw(raw.get().to_owned())
            }
            Item::Call(call) => {
                self.calls.push(model_call(call));
                Part::Call(self.calls.len() - 1)
            }
            Item::Hosted(_) | Item::Other => Part::Raw(raw.get().to_owned()),
        };
        self.parts.push(part);
        Ok(())
    }

    /// The message. Its parts are kept where text and calls do not say all of it.
    fn into_message(self) -> Option<Message> {
        let Self { text, calls, parts } = self;
        if parts.is_empty() {
            return None;
        }
        let calls_of = |parts: &[Part]| parts.iter().all(|part| matches!(part, Part::Call(_)));
        let is_plain = match parts.as_slice() {
            [Part::Text(_), rest @ ..] => calls_of(rest),
            parts => calls_of(parts),
        };
        let kept = Kept { dialect: Dialect::Responses, response_id: None, parts };
        let kept = (!is_plain).then(|| Box::new(kept));
        Some(Message::Assistant { text, calls, provider_meta: serde_json::Map::new(), kept })
    }
}

fn model_call(call: Call) -> ModelCall {
    let Call { wire_id, name, input, is_text, more, .. } = call;
    ModelCall {
        id: wire_id.clone(),
        wire_id,
        name,
        arguments: if is_text { json!({ TEXT_PROPERTY: input }).to_string() } else { input },
        provider_meta: (!more.is_empty()).then_some(Value::Object(more)),
        ..ModelCall::default()
    }
}

fn offered(tool: &RawValue) -> Option<Offered> {
    let tool: Value = serde_json::from_str(tool.get()).ok()?;
    let text = |name| tool.get(name).and_then(Value::as_str).map(str::to_owned);
    let (name, description) = (text("name"), text("description"));
    match text("type")?.as_str() {
        "function" => Some(Offered {
            name: name?,
            description,
            input_schema: match tool.get("parameters") {
                Some(schema @ Value::Object(_)) => schema.clone(),
                _ => json!({ "type": "object", "properties": {} }),
            },
            strict: tool.get("strict").and_then(Value::as_bool),
            custom: None,
        }),
        "custom" => Some(Offered {
            name: name?,
            description,
            input_schema: Offered::text_schema(),
            strict: None,
            custom: Some(tool.get("format").cloned().unwrap_or_else(|| json!({ "type": "text" }))),
        }),
        _ => None,
    }
}

fn tool_choice(choice: &Value) -> Option<ToolChoice> {
    let text = |of: &Value, name: &str| of.get(name).and_then(Value::as_str).map(str::to_owned);
    match choice {
        Value::Null => Some(ToolChoice::Auto),
        Value::String(word) => matches!(word.as_str(), "auto" | "none" | "required").then(|| word.as_str().into()),
        _ => match text(choice, "type")?.as_str() {
            "function" | "custom" => text(choice, "name").map(ToolChoice::Named),
            "allowed_tools" => Some(ToolChoice::Allowed {
                required: text(choice, "mode").as_deref() == Some("required"),
                tools: choice.get("tools")?.as_array()?.iter().filter_map(|tool| text(tool, "name")).collect(),
            }),
            _ => None,
        },
    }
}
