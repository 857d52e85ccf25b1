//! Requests of Anthropic Messages, read.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::assemble::Assembler;
use crate::fault::WireFault;
use crate::history::{Content, Image, Message, Piece};
use crate::lower::Names;
use crate::object::Object;
use crate::received::{Offered, Received};
use crate::request::ToolChoice;
use crate::stream::Assemble;

pub(crate) fn read_request(mut body: Object<'_>) -> Result<Received, WireFault> {
    let mut messages: Vec<Message> = Vec::new();
    if let Some(system) = body.read::<Value>("system")? {
        let content = content(&system).ok_or_else(|| WireFault::request("`system` is no text"))?;
        messages
            .extend(content.pieces().iter().filter_map(Piece::as_text).map(|text| Message::System(text.to_owned())));
    }
    let said = body.list("messages")?.ok_or_else(|| WireFault::request("`messages` is missing"))?;
    for (at, message) in said.into_iter().enumerate() {
        let fault = |what: String| WireFault::request(format!("`messages[{at}]`: {what}"));
        let message: Said<'_> = serde_json::from_str(message.get()).map_err(|e| fault(e.to_string()))?;
        message.read(&mut messages).map_err(|what| fault(what.to_string()))?;
    }
    let mut received = Received {
        model: body.read("model")?.unwrap_or_default(),
        messages,
        max_tokens: body.read("max_tokens")?,
        temperature: body.read("temperature")?,
        stream: body.read("stream")?.unwrap_or_default(),
        ..Received::default()
    };
    for tool in body.list("tools")?.unwrap_or_default() {
        match offered(tool) {
            Some(tool) => received.tools.push(tool),
            None => received.hosted.push(tool.to_owned()),
        }
    }
    let choice: Value = body.read("tool_choice")?.unwrap_or_default();
    received.rest = body.into_map();
    received.parallel = choice.get("disable_parallel_tool_use").and_then(Value::as_bool).map(|disabled| !disabled);
    match tool_choice(&choice) {
        Some(choice) => received.tool_choice = choice,
        None => drop(received.rest.insert("tool_choice".to_owned(), choice)),
    }
    Ok(received)
}

#[derive(Deserialize)]
struct Said<'a> {
    role: String,
    #[serde(borrow)]
    content: &'a RawValue,
}

impl Said<'_> {
    fn read(&self, messages: &mut Vec<Message>) -> Result<(), Box<dyn std::error::Error>> {
        match self.role.as_str() {
            "system" => {
                let content = content(&serde_json::from_str(self.content.get())?).ok_or("it is no text")?;
                messages.push(Message::System(content.text().into_owned()));
            }
            "user" => self.read_user(messages)?,
            "assistant" => {
                let mut assembler = Box::<Assembler>::default();
                assembler.take_content(Some(self.content))?;
                messages.push(Message::assistant(&assembler.finish(&Names::default())?));
            }
            role => return Err(format!("`{role}` is no role of a message").into()),
        }
        Ok(())
    }

    /// Results are messages of their own with us.
    fn read_user(&self, messages: &mut Vec<Message>) -> Result<(), Box<dyn std::error::Error>> {
        let value: Value = serde_json::from_str(self.content.get())?;
        let Value::Array(blocks) = &value else {
            messages.push(Message::User(content(&value).ok_or("its content is neither text nor blocks")?));
            return Ok(());
        };
        let mut pieces = Vec::new();
        for block in blocks {
            if block.get("type").and_then(Value::as_str) != Some("tool_result") {
                pieces.push(piece(block).ok_or("a block is neither text, image nor result")?);
                continue;
            }
            let id = block.get("tool_use_id").and_then(Value::as_str).unwrap_or_default();
            let told = content(block.get("content").unwrap_or(&Value::Null));
            let told = told.ok_or("a result is neither text nor image")?;
            let is_error = block.get("is_error").and_then(Value::as_bool).unwrap_or_default();
            messages.push(Message::tool(id, told, is_error));
        }
        if !pieces.is_empty() {
            messages.push(Message::User(pieces.into()));
        }
        Ok(())
    }
}

/// A text, a list of texts and images, or nothing. A block that is neither cannot be kept, so it is refused.
fn content(value: &Value) -> Option<Content> {
    match value {
        Value::Null => Some(Content::default()),
        Value::String(text) => Some(text.as_str().into()),
        Value::Array(blocks) => blocks.iter().map(piece).collect::<Option<Vec<_>>>().map(Content::from),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

fn piece(block: &Value) -> Option<Piece> {
    let text = |pointer: &str| block.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    match (text("/type")?.as_str(), text("/source/type").as_deref()) {
        ("text", _) => Some(Piece::Text(text("/text")?)),
        ("image", Some("base64")) => {
            let (mime_type, base64) = (text("/source/media_type")?, text("/source/data")?);
            Some(Piece::Image(Image::Data { mime_type, base64 }))
        }
        ("image", Some("url")) => Some(Piece::Image(Image::Url(text("/source/url")?))),
        _ => None,
    }
}

/// A tool of whoever asks; the provider's own have a type with a date.
fn offered(tool: &RawValue) -> Option<Offered> {
    let tool: Value = serde_json::from_str(tool.get()).ok()?;
    let text = |name| tool.get(name).and_then(Value::as_str).map(str::to_owned);
    if text("type").is_some_and(|kind| kind != "custom") {
        return None;
    }
    Some(Offered {
        name: text("name")?,
        description: text("description"),
        input_schema: tool.get("input_schema")?.clone(),
        strict: tool.get("strict").and_then(Value::as_bool),
        custom: None,
    })
}

fn tool_choice(choice: &Value) -> Option<ToolChoice> {
    match choice.get("type").and_then(Value::as_str) {
        None if choice.is_null() => Some(ToolChoice::Auto),
        Some("auto") => Some(ToolChoice::Auto),
        Some("any") => Some(ToolChoice::Required),
        Some("none") => Some(ToolChoice::None),
        Some("tool") => Some(ToolChoice::Named(choice.get("name")?.as_str()?.to_owned())),
        _ => None,
    }
}
