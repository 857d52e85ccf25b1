//! `[prompts.NAME]` as entries of the gate: each is listed, asked for and recorded like a tool. Templates have fuel and an
//! end, and reach nothing but the arguments.

use minijinja::{Environment, UndefinedBehavior};
use serde_json::{Map, Value, json};
use tollgate_types::{
    Annotations, BoxFuture, CallKind, Cx, Permission, Risk, Source, SourceKind, Tool, ToolDefinition, ToolError,
    ToolOutput, limits,
};

use crate::config::{Prompt, PromptArgument, PromptMessage};

/// A message as it is filled in.
const MESSAGE_BYTES_MAX: usize = 1024 * 1024;
/// What one completion may offer (MCP, Completion: data types).
const VALUES_MAX: usize = 100;

/// One prompt.
pub(crate) struct PromptEntry {
    definition: ToolDefinition,
    arguments: Vec<PromptArgument>,
    messages: Vec<PromptMessage>,
}

impl PromptEntry {
    /// A prompt whose templates were filled in once, with all that it takes and with what it must have.
    ///
    /// # Errors
    /// Why one cannot be.
    pub(crate) fn new(name: &str, prompt: &Prompt, messages: Vec<PromptMessage>) -> Result<Self, String> {
        let mut definition =
            ToolDefinition::new(format!("prompts/{name}"), prompt.description.clone()).of_kind(CallKind::Prompt);
        definition.title.clone_from(&prompt.title);
        (definition.risk, definition.permission) = (Risk::Read, Permission::Read);
        definition.source = Source::of(SourceKind::Builtin);
        definition.annotations =
            Annotations { read_only: Some(true), open_world: Some(false), ..Annotations::default() };
        definition.input_schema = schema(&prompt.arguments);
        let entry = Self { definition, arguments: prompt.arguments.clone(), messages };
        for only_required in [true, false] {
            let given = entry.arguments.iter().filter(|argument| argument.required || !only_required);
            entry.filled(&Value::Object(given.map(|argument| (argument.name.clone(), json!("…"))).collect()))?;
        }
        Ok(entry)
    }

    /// The messages (MCP, Prompts: getting a prompt).
    fn filled(&self, arguments: &Value) -> Result<Value, String> {
        let given = |name: &str| arguments.get(name).cloned().unwrap_or_else(|| json!(""));
        let given: Map<String, Value> =
            self.arguments.iter().map(|argument| (argument.name.clone(), given(&argument.name))).collect();
        let environment = environment();
        let mut messages = Vec::with_capacity(self.messages.len());
        for message in &self.messages {
            let template = environment.template_from_str(&message.text).map_err(|error| told(&error))?;
            let text = template.render(&given).map_err(|error| told(&error))?;
            if text.len() > MESSAGE_BYTES_MAX {
                return Err(format!("a message would have more than {MESSAGE_BYTES_MAX} bytes"));
            }
            messages.push(json!({ "role": message.role, "content": { "type": "text", "text": text } }));
        }
        Ok(json!({ "description": self.definition.description, "messages": messages }))
    }

    /// What may be meant by the beginning of an argument (MCP, Completion).
    fn completed(&self, asked: &Value) -> Value {
        let part = |pointer: &str| asked.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (name, begun) = (part("/argument/name"), part("/argument/value").to_lowercase());
        let argument = self.arguments.iter().find(|argument| argument.name == name);
        let values = argument.map(|argument| argument.values.as_slice()).unwrap_or_default();
        let fitting: Vec<&String> = values.iter().filter(|value| value.to_lowercase().starts_with(&begun)).collect();
        let shown: Vec<_> = fitting.iter().take(VALUES_MAX).collect();
        json!({ "completion": { "values": shown, "total": fitting.len(), "hasMore": fitting.len() > VALUES_MAX } })
    }
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::empty();
    environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    environment.set_fuel(Some(limits::TEMPLATE_FUEL_MAX));
    environment.set_recursion_limit(16);
    environment
}

/// What is wrong and where, without the text itself.
fn told(error: &minijinja::Error) -> String {
    let place = error.line().map(|line| format!(" in line {line}")).unwrap_or_default();
    let detail = error.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
    format!("{}{detail}{place}", error.kind())
}

/// Arguments of a prompt are texts (MCP, Prompts: data types).
fn schema(arguments: &[PromptArgument]) -> Value {
    let property = |argument: &PromptArgument| match &argument.description {
        Some(description) => json!({ "type": "string", "description": description }),
        None => json!({ "type": "string" }),
    };
    let properties: Map<String, Value> =
        arguments.iter().map(|argument| (argument.name.clone(), property(argument))).collect();
    let required: Vec<&String> =
        arguments.iter().filter(|argument| argument.required).map(|argument| &argument.name).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

impl Tool for PromptEntry {
    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    fn call(&self, arguments: Value, cx: Cx) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        let said = match cx.kind {
            CallKind::Completion => Ok(self.completed(&arguments)),
            _ => self.filled(&arguments).map_err(|why| ToolError::invalid("", why)),
        };
        let output = said.map(|said| ToolOutput { structured: Some(said), ..ToolOutput::default() });
        Box::pin(std::future::ready(output))
    }
}
