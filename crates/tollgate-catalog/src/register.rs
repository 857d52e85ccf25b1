//! What a definition must be before it is registered.

use std::fmt::Write as _;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use thiserror::Error;
use tollgate_types::limits::{IDEMPOTENCY_TTL_MS_MAX, IDEMPOTENCY_TTL_MS_MIN};
use tollgate_types::{CallKind, Pin, SourceKind, SurfaceLimits, ToolDefinition, Undo, limits};

use crate::schema::{Schema, SchemaError};
use crate::template::UriTemplate;
use crate::{idempotency, text_input};

/// A definition's canonical JSON.
const DEFINITION_BYTES_MAX: usize = 1024 * 1024;
/// How often a failed run may be tried again.
const RETRIES_MAX: u32 = 100;

/// Why a definition was not registered.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The name can not stand on every wire.
    #[error("`{name}` can not be the name of a {}: {problem}", .kind.as_str())]
    InvalidName {
        /// What it should be the name of.
        kind: CallKind,
        /// The name, its odd characters escaped.
        name: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The name is taken.
    #[error("a tool named `{name}` is registered already")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// The name differs from another only in case, `-` and `_`.
    #[error("`{name}` looks like the registered tool `{existing}`")]
    LookAlike {
        /// The name.
        name: String,
        /// The one it looks like.
        existing: String,
    },
    /// A schema is wrong.
    #[error("`{name}` has an {schema} schema that can not be used: {message} (at `{pointer}`)")]
    BadSchema {
        /// The tool.
        name: String,
        /// Which one: `input` or `output`.
        schema: &'static str,
        /// Where in it: a JSON Pointer.
        pointer: String,
        /// What is wrong there.
        message: String,
    },
    /// The definition, or a schema of it, is too large.
    #[error("`{name}` is too large: {message}")]
    TooLarge {
        /// The tool.
        name: String,
        /// What is too large, and how large it may be.
        message: String,
    },
    /// A number of the definition is out of its range.
    #[error("`{name}` has `{key} = {value}`, which must be between {min} and {max}")]
    Limits {
        /// The tool.
        name: String,
        /// The key, such as `execution.timeout_ms`.
        key: &'static str,
        /// What it says.
        value: u64,
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// What it says of its idempotency does not hold.
    #[error("`{name}` says of its idempotency what does not hold: {problem}")]
    Idempotency {
        /// The tool.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// What it says of its undo does not hold.
    #[error("`{name}` says of its undo what does not hold: {problem}")]
    Undo {
        /// The tool.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// What its calls work on can not be found in their arguments.
    #[error("`{name}` has `execution.resources = [\"{pointer}\"]`, which is no JSON Pointer into its arguments")]
    Resource {
        /// The tool.
        name: String,
        /// What stands there.
        pointer: String,
    },
    /// What it says of its free text does not hold.
    #[error("`{name}` has a `text_input` that does not hold: {problem}")]
    TextInput {
        /// The tool.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl RegisterError {
    /// A stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InvalidName { .. } => "invalid_name",
            Self::Duplicate { .. } => "duplicate_name",
            Self::LookAlike { .. } => "look_alike_name",
            Self::BadSchema { .. } => "bad_schema",
            Self::TooLarge { .. } => "schema_too_large",
            Self::Limits { .. } => "out_of_range",
            Self::Idempotency { .. } => "bad_idempotency",
            Self::Undo { .. } => "bad_undo",
            Self::Resource { .. } => "bad_resource",
            Self::TextInput { .. } => "bad_text_input",
        }
    }

    /// What to do next.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::InvalidName { kind, .. } if !kind.is_tool() => {
                "name it `prompts/NAME` or `resources/URI`, without white space and control characters"
            }
            Self::InvalidName { .. } => "use 1 to 64 of the characters a-z, A-Z, 0-9, `_` and `-`",
            Self::Duplicate { .. } | Self::LookAlike { .. } => "rename one of the two, or leave one out",
            Self::BadSchema { .. } => {
                "use JSON Schema 2020-12 with an object at the root and `$ref` only within itself"
            }
            Self::TooLarge { .. } => "make the schema smaller: fewer alternatives, fewer `$ref` to one place",
            Self::Limits { .. } => "leave the key out for the default",
            Self::Idempotency { .. } => "docs/idempotency.md says what `idempotency` can be",
            Self::Undo { .. } => "docs/undo.md says what `undo` can be",
            Self::Resource { .. } => "begin it with `/`, as in `/path`",
            Self::TextInput { .. } => "name the schema's only property, a required string, or leave `text_input` out",
        }
    }

    fn schema(name: &str, schema: &'static str, error: SchemaError) -> Self {
        let name = name.to_owned();
        match error {
            SchemaError::Invalid { pointer, message } => Self::BadSchema { name, schema, pointer, message },
            SchemaError::TooLarge { message } => Self::TooLarge { name, message },
        }
    }
}

/// A definition that passed, with what was made of it.
pub(crate) struct Sound {
    pub(crate) definition: ToolDefinition,
    pub(crate) pin: Pin,
    pub(crate) input: Schema,
    pub(crate) output: Option<Schema>,
    pub(crate) template: Option<UriTemplate>,
}

/// Checks all of a definition but for its neighbours.
pub(crate) fn check(mut definition: ToolDefinition) -> Result<Sound, RegisterError> {
    let template = check_name(&definition)?;
    check_limits(&definition)?;
    let name = definition.name.clone();
    idempotency::check(&definition).map_err(|problem| RegisterError::Idempotency { name: name.clone(), problem })?;
    check_undo(&definition).map_err(|problem| RegisterError::Undo { name: name.clone(), problem })?;
    if let Some(pointer) = definition.execution.resources.iter().find(|pointer| !pointer.starts_with('/')) {
        return Err(RegisterError::Resource { name, pointer: pointer.clone() });
    }
    text_input::check(&definition).map_err(|problem| RegisterError::TextInput { name: name.clone(), problem })?;
    let bad = |message: &str| SchemaError::invalid("", message);
    require_object(&mut definition.input_schema)
        .map_err(|problem| RegisterError::schema(&name, "input", bad(problem)))?;
    let input =
        Schema::compile(&definition.input_schema).map_err(|error| RegisterError::schema(&name, "input", error))?;
    let output = definition.output_schema.as_ref().map(Schema::compile).transpose();
    let output = output.map_err(|error| RegisterError::schema(&name, "output", error))?;
    let canonical = canonical(&definition);
    if canonical.len() > DEFINITION_BYTES_MAX {
        let message = format!("the definition has more than {DEFINITION_BYTES_MAX} bytes");
        return Err(RegisterError::TooLarge { name, message });
    }
    Ok(Sound { pin: digest(&canonical), definition, input, output, template })
}

/// What exactly a definition is: the SHA-256 of its canonical JSON (RFC 8785).
pub fn pin(definition: &ToolDefinition) -> Pin {
    digest(&canonical(definition))
}

fn canonical(definition: &ToolDefinition) -> Vec<u8> {
    // A definition always has a canonical form; were it not so, its debug text tells two of them apart as well.
    serde_json_canonicalizer::to_vec(definition).unwrap_or_else(|_| format!("{definition:?}").into_bytes())
}

fn digest(bytes: &[u8]) -> Pin {
    let mut hex = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        // Writing to a string does not fail.
        let _ = write!(hex, "{byte:02x}");
    }
    Pin::new(hex)
}

/// A template's name is read on the way.
fn check_name(definition: &ToolDefinition) -> Result<Option<UriTemplate>, RegisterError> {
    let ToolDefinition { name, kind, .. } = definition;
    let checked = match kind {
        CallKind::Tool => tool_name(name).map(|()| None),
        CallKind::Template => entry_name(name).and_then(|uri| UriTemplate::read(uri).map(Some)),
        _ => entry_name(name).map(|_| None),
    };
    checked.map_err(|problem| {
        let name = name.chars().take(limits::TOOL_NAME_CHARS_MAX).flat_map(char::escape_default).collect();
        RegisterError::InvalidName { kind: *kind, name, problem }
    })
}

fn tool_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        Err("it is empty")
    } else if name.chars().count() > limits::TOOL_NAME_CHARS_MAX {
        Err("it has more than 64 characters")
    } else if !name.is_ascii() {
        Err("it has characters that are not ASCII, which may look like others")
    } else if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-') {
        Err("it has characters other than letters, digits, `_` and `-`")
    } else {
        Ok(())
    }
}

/// What follows the `/`, which keeps it apart from every tool.
pub(crate) fn entry_name(name: &str) -> Result<&str, &'static str> {
    let own = name.split_once('/').map_or("", |(_, own)| own);
    if own.is_empty() {
        Err("nothing follows a `/`")
    } else if name.len() > limits::ENTRY_NAME_BYTES_MAX {
        Err("it has more than 4096 bytes")
    } else if name.chars().any(|c| c.is_control() || c.is_whitespace() && c != ' ') {
        Err("it has control characters or line breaks")
    } else {
        Ok(own)
    }
}

/// Only a tool that knows of it keeps what stood there before.
fn check_undo(definition: &ToolDefinition) -> Result<(), String> {
    match (&definition.undo, definition.source.kind) {
        (Undo::BeforeImage, SourceKind::Program | SourceKind::Http | SourceKind::Mcp | SourceKind::Provider) => {
            Err("nobody keeps a before-image for it: name a tool that takes it back".into())
        }
        (Undo::Tool(compensation), _) => compensation.fault().map_or(Ok(()), Err),
        (Undo::None | Undo::BeforeImage, _) => Ok(()),
    }
}

fn check_limits(definition: &ToolDefinition) -> Result<(), RegisterError> {
    let (execution, output) = (&definition.execution, &definition.output);
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let ranges = [
        ("execution.timeout_ms", execution.timeout_ms, 1, limits::TOOL_TIMEOUT_MS_MAX),
        ("execution.idle_timeout_ms", execution.idle_timeout_ms.unwrap_or(1), 1, limits::TOOL_TIMEOUT_MS_MAX),
        ("execution.queue_timeout_ms", execution.queue_timeout_ms.unwrap_or(1), 1, limits::TOOL_TIMEOUT_MS_MAX),
        ("execution.total_timeout_ms", execution.total_timeout_ms.unwrap_or(1), 1, limits::TOOL_TIMEOUT_MS_MAX),
        ("execution.max_retries", u64::from(execution.max_retries), 0, u64::from(RETRIES_MAX)),
        ("execution.max_concurrent", count(execution.max_concurrent), 1, u64::from(u16::MAX)),
        ("idempotency.ttl_ms", definition.idempotency.ttl_ms, IDEMPOTENCY_TTL_MS_MIN, IDEMPOTENCY_TTL_MS_MAX),
        ("output.max_length", count(output.max_length), 1, count(limits::RESULT_BYTES_MAX)),
    ];
    // Nothing may be shown of a result by no limit at all.
    let surfaces = output.surfaces.values().flat_map(|limits| {
        let SurfaceLimits { max_length, max_tokens, max_bytes } = *limits;
        [
            ("output.surfaces.*.max_length", max_length),
            ("output.surfaces.*.max_tokens", max_tokens),
            ("output.surfaces.*.max_bytes", max_bytes),
        ]
    });
    let own = [
        ("output.max_tokens", output.max_tokens),
        ("output.max_bytes", output.max_bytes),
        ("output.max_items", output.max_items),
    ];
    let said = own.into_iter().chain(surfaces).filter_map(|(key, limit)| Some((key, count(limit?), 1, u64::MAX)));
    match ranges.into_iter().chain(said).find(|(_, value, min, max)| value < min || value > max) {
        Some((key, value, min, max)) => {
            Err(RegisterError::Limits { name: definition.name.clone(), key, value, min, max })
        }
        None => Ok(()),
    }
}

/// Makes sure that only objects fit.
fn require_object(schema: &mut Value) -> Result<(), &'static str> {
    let Value::Object(object) = schema else { return Err("the schema of arguments must be an object") };
    match object.get("type") {
        Some(Value::String(name)) if name == "object" => Ok(()),
        Some(Value::Array(names)) if names.as_slice() == [json!("object")] => {
            object.insert("type".into(), "object".into());
            Ok(())
        }
        None => {
            object.insert("type".into(), "object".into());
            Ok(())
        }
        Some(_) => Err("arguments are an object: the root needs `type = \"object\"`"),
    }
}
