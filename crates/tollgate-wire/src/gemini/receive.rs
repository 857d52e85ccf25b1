//! Requests of Gemini, read. Each name may come as in JSON or as in the protocol's own files: `inlineData`, `inline_data`.

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use super::assemble::{kept, said};
use crate::fault::WireFault;
use crate::history::{Image, Message, Piece};
use crate::object::Object;
use crate::received::{Offered, Received};
use crate::request::ToolChoice;
use crate::turn::ModelCall;

/// Reads the body; the address says the model, and whether it streams.
pub(crate) fn read_request(mut body: Object<'_>) -> Result<Received, WireFault> {
    let mut received = Received { messages: messages(&mut body)?, ..Received::default() };
    for tool in body.list("tools")?.unwrap_or_default() {
        take_tool(tool, &mut received)?;
    }
    let mut generation: Map<String, Value> = value(&mut body, "generationConfig")?.unwrap_or_default();
    let tokens = remove(&mut generation, "maxOutputTokens").and_then(|count| count.as_u64());
    received.max_tokens = tokens.and_then(|count| u32::try_from(count).ok());
    received.temperature = remove(&mut generation, "temperature").and_then(|degree| degree.as_f64());
    let mut config: Map<String, Value> = value(&mut body, "toolConfig")?.unwrap_or_default();
    received.tool_choice = take_choice(&mut config);
    received.rest = body.into_map();
    for (name, left) in [("generationConfig", generation), ("toolConfig", config)] {
        if !left.is_empty() {
            received.rest.insert(name.to_owned(), Value::Object(left));
        }
    }
    Ok(received)
}

/// A name as the protocol's own files write it.
fn snake(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 4);
    for char in name.chars() {
        if char.is_ascii_uppercase() {
            out.push('_');
        }
        out.push(char.to_ascii_lowercase());
    }
    out
}

fn take<'a>(object: &mut Object<'a>, name: &str) -> Option<&'a RawValue> {
    object.take(name).or(object.take(&snake(name)))
}

fn value<T: serde::de::DeserializeOwned>(object: &mut Object<'_>, name: &str) -> Result<Option<T>, WireFault> {
    let Some(raw) = take(object, name) else { return Ok(None) };
    serde_json::from_str(raw.get()).map(Some).map_err(|e| WireFault::request(format!("`{name}`: {e}")))
}

fn remove(map: &mut Map<String, Value>, name: &str) -> Option<Value> {
    map.remove(name).or(map.remove(&snake(name)))
}

fn object<'a>(raw: &'a RawValue, place: &str) -> Result<Object<'a>, WireFault> {
    serde_json::from_str(raw.get()).map_err(|e| WireFault::request(format!("`{place}`: {e}")))
}

fn messages(body: &mut Object<'_>) -> Result<Vec<Message>, WireFault> {
    let mut reader = Reader::default();
    if let Some(system) = take(body, "systemInstruction") {
        for part in object(system, "systemInstruction")?.list("parts")?.unwrap_or_default() {
            let text: Option<String> = object(part, "systemInstruction.parts")?.read("text")?;
            reader.messages.extend(text.map(Message::System));
        }
    }
    let contents = body.list("contents")?.ok_or_else(|| WireFault::request("`contents` is missing"))?;
    for (at, content) in contents.into_iter().enumerate() {
        let place = format!("contents[{at}]");
        let mut content = object(content, &place)?;
        let role: Option<String> = content.read("role")?;
        let parts = content.list("parts")?.unwrap_or_default();
        match role.as_deref() {
            Some("model") => reader.model(&parts),
            // Results had a role of their own once.
            None | Some("user" | "function") => reader.user(&parts, &place)?,
            Some(other) => {
                return Err(WireFault::request(format!("`{place}.role`: `{other}` is no role of a content")));
            }
        }
    }
    Ok(reader.messages)
}

/// A conversation as far as it was read.
#[derive(Default)]
struct Reader {
    messages: Vec<Message>,
    /// The calls of the last turn that have no result yet: id and name.
    open: Vec<(String, String)>,
    calls: usize,
}

impl Reader {
    fn model(&mut self, parts: &[&RawValue]) {
        let (text, drafts, parts) = said(parts);
        let mut calls = Vec::with_capacity(drafts.len());
        for draft in drafts {
            self.calls += 1;
            let id = if draft.wire_id.is_empty() { format!("call_{}", self.calls) } else { draft.wire_id.clone() };
            calls.push(ModelCall {
                id,
                wire_id: draft.wire_id,
                name: draft.name,
                arguments: draft.arguments,
                provider_meta: draft.provider_meta,
                ..ModelCall::default()
            });
        }
        self.open = calls.iter().map(|call| (call.id.clone(), call.name.clone())).collect();
        let kept = kept(None, parts, &calls);
        self.messages.push(Message::Assistant { text, calls, provider_meta: Map::new(), kept });
    }

    /// Results, and what a person says beside them.
    fn user(&mut self, parts: &[&RawValue], place: &str) -> Result<(), WireFault> {
        let mut pieces = Vec::new();
        for (at, part) in parts.iter().enumerate() {
            let place = format!("{place}.parts[{at}]");
            let mut part = object(part, &place)?;
            match take(&mut part, "functionResponse") {
                Some(response) => self.result(object(response, &place)?, &place)?,
                None => pieces.push(piece(&mut part, &place)?),
            }
        }
        if !pieces.is_empty() {
            self.messages.push(Message::User(pieces.into()));
        }
        Ok(())
    }

    fn result(&mut self, mut response: Object<'_>, place: &str) -> Result<(), WireFault> {
        let (id, name): (Option<String>, Option<String>) = (response.read("id")?, response.read("name")?);
        let (text, is_error) = response.take("response").map(outcome).unwrap_or_default();
        let mut pieces: Vec<Piece> = (!text.is_empty()).then_some(Piece::Text(text)).into_iter().collect();
        for part in response.list("parts")?.unwrap_or_default() {
            pieces.push(piece(&mut object(part, place)?, place)?);
        }
        let call_id = self.answered(id.unwrap_or_default(), &name.unwrap_or_default());
        self.messages.push(Message::tool(call_id, pieces, is_error));
        Ok(())
    }

    /// The call that a result is of: by its id, else the first of its name, else the first.
    fn answered(&mut self, id: String, name: &str) -> String {
        let by_id = self.open.iter().position(|(open, _)| *open == id);
        let by_name = || self.open.iter().position(|(_, open)| id.is_empty() && open == name);
        let first = || (id.is_empty() && !self.open.is_empty()).then_some(0);
        match by_id.or_else(by_name).or_else(first) {
            Some(at) => self.open.remove(at).0,
            None => id,
        }
    }
}

/// The text of a result, and whether it is an error. Without either word the whole of it is the output.
fn outcome(response: &RawValue) -> (String, bool) {
    let text = |raw: &RawValue| serde_json::from_str::<String>(raw.get()).unwrap_or_else(|_| raw.get().to_owned());
    let one = |name: &str| {
        let mut fields: Object<'_> = serde_json::from_str(response.get()).ok()?;
        let found = fields.take(name)?;
        fields.into_map().is_empty().then(|| text(found))
    };
    let output = one("output").map(|text| (text, false));
    output.or_else(|| Some((one("error")?, true))).unwrap_or_else(|| (response.get().to_owned(), false))
}

fn piece(part: &mut Object<'_>, place: &str) -> Result<Piece, WireFault> {
    if let Some(text) = part.read("text")? {
        return Ok(Piece::Text(text));
    }
    let text = |blob: &mut Object<'_>, name: &str| value::<String>(blob, name).map(Option::unwrap_or_default);
    let image = if let Some(blob) = take(part, "inlineData") {
        let mut blob = object(blob, place)?;
        let (mime_type, base64) = (text(&mut blob, "mimeType")?, text(&mut blob, "data")?);
        mime_type.starts_with("image/").then_some(Image::Data { mime_type, base64 })
    } else if let Some(file) = take(part, "fileData") {
        let mut file = object(file, place)?;
        let (mime_type, url) = (text(&mut file, "mimeType")?, text(&mut file, "fileUri")?);
        (mime_type.is_empty() || mime_type.starts_with("image/")).then_some(Image::Url(url))
    } else {
        None
    };
    image
        .map(Piece::Image)
        .ok_or_else(|| WireFault::request(format!("`{place}` is neither text nor an image nor a result")))
}

/// The declarations of a tool are offered; what else it has is for the provider to run.
fn take_tool(tool: &RawValue, received: &mut Received) -> Result<(), WireFault> {
    let mut fields = object(tool, "tools")?;
    let Some(declarations) = take(&mut fields, "functionDeclarations") else {
        received.hosted.push(tool.to_owned());
        return Ok(());
    };
    let wrong = |e| WireFault::request(format!("`tools.functionDeclarations`: {e}"));
    for declaration in serde_json::from_str::<Vec<&RawValue>>(declarations.get()).map_err(wrong)? {
        let mut declaration = object(declaration, "tools.functionDeclarations")?;
        let openapi: Option<Value> = declaration.read("parameters")?;
        let schema = value(&mut declaration, "parametersJsonSchema")?.or(openapi.map(json_schema));
        received.tools.push(Offered {
            name: declaration.read("name")?.unwrap_or_default(),
            description: declaration.read("description")?,
            input_schema: schema.unwrap_or_else(|| json!({ "type": "object", "properties": {} })),
            ..Offered::default()
        });
    }
    let rest = fields.into_map();
    if !rest.is_empty() {
        received.hosted.push(to_raw_value(&rest).map_err(WireFault::request)?);
    }
    Ok(())
}

/// JSON Schema of what OpenAPI says, with its types in capitals and its word for null.
fn json_schema(schema: Value) -> Value {
    let Value::Object(map) = schema else { return schema };
    let inside = |(key, value): (String, Value)| {
        let value = match (key.as_str(), value) {
            ("properties" | "defs" | "$defs", Value::Object(schemas)) => {
                schemas.into_iter().map(|(name, schema)| (name, json_schema(schema))).collect()
            }
            ("anyOf" | "prefixItems", Value::Array(schemas)) => schemas.into_iter().map(json_schema).collect(),
            ("items" | "additionalProperties", schema) => json_schema(schema),
            (_, value) => value,
        };
        (key, value)
    };
    let mut map: Map<String, Value> = map.into_iter().map(inside).collect();
    if let Some(Value::String(kind)) = map.get_mut("type") {
        kind.make_ascii_lowercase();
    }
    if let (Some(Value::String(kind)), Some(Value::Bool(is_nullable))) = (map.get("type"), map.get("nullable")) {
        let kind = if *is_nullable { json!([kind, "null"]) } else { json!(kind) };
        map.remove("nullable");
        map.insert("type".to_owned(), kind);
    }
    Value::Object(map)
}

/// The choice; what it cannot say stays.
fn take_choice(config: &mut Map<String, Value>) -> ToolChoice {
    let Some(Value::Object(mut calling)) = remove(config, "functionCallingConfig") else { return ToolChoice::Auto };
    let names = remove(&mut calling, "allowedFunctionNames");
    let names = names.iter().filter_map(Value::as_array).flatten().filter_map(Value::as_str);
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    let mode = calling.remove("mode");
    let choice = match (mode.as_ref().and_then(Value::as_str), names.len()) {
        (Some("NONE"), _) => ToolChoice::None,
        (Some("ANY"), 0) => ToolChoice::Required,
        (Some("ANY"), 1) => ToolChoice::Named(names.remove(0)),
        (Some("ANY"), _) => ToolChoice::Allowed { required: true, tools: names },
        (Some("VALIDATED"), 1..) => ToolChoice::Allowed { required: false, tools: names },
        (Some("AUTO") | None, _) => ToolChoice::Auto,
        (Some(_), _) => {
            calling.extend(mode.map(|mode| ("mode".to_owned(), mode)));
            ToolChoice::Auto
        }
    };
    if !calling.is_empty() {
        config.insert("functionCallingConfig".to_owned(), Value::Object(calling));
    }
    choice
}

#[cfg(test)]
mod tests;
