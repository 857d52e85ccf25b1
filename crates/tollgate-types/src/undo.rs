//! How the effect of a call is taken back: what a definition says of it, and the port where a tool leaves what stood there
//! before.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::AttemptId;

/// The tool that puts a file back. It is in no list and no [`Door`](crate::Door) calls it: only an undo does.
pub const RESTORE_FILE: &str = "restore_file";

/// How an effect is taken back.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "Form", into = "Form")]
#[schemars(with = "Form")]
pub enum Undo {
    /// It is not.
    #[default]
    None,
    /// The state before is kept and put back.
    BeforeImage,
    /// Another tool takes it back.
    Tool(Compensation),
}

/// The call that takes another one back.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Compensation {
    /// The tool's name.
    pub tool: String,
    /// Its arguments by name: `{ pointer = "/id" }` for what stands there in the arguments of the call that is taken back,
    /// `{ result = "/id" }` for what stands there in its result, `{ value = … }` or a plain value for itself. Unsaid: the
    /// arguments of that call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map_args: Option<BTreeMap<String, Value>>,
}

/// How [`Undo`] is written.
#[derive(Clone, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "expected \"none\", \"before-image\" or { tool = \"NAME\", map_args = { … } }")]
#[schemars(rename = "Undo")]
enum Form {
    Word(Word),
    Tool(Compensation),
}

#[derive(Clone, Copy, Serialize, Deserialize, JsonSchema)]
enum Word {
    /// It is not taken back.
    #[serde(rename = "none")]
    None,
    /// The state before is kept and put back.
    #[serde(rename = "before-image", alias = "before_image")]
    BeforeImage,
}

impl From<Form> for Undo {
    fn from(form: Form) -> Self {
        match form {
            Form::Word(Word::None) => Self::None,
            Form::Word(Word::BeforeImage) => Self::BeforeImage,
            Form::Tool(compensation) => Self::Tool(compensation),
        }
    }
}

impl From<Undo> for Form {
    fn from(undo: Undo) -> Self {
        match undo {
            Undo::None => Self::Word(Word::None),
            Undo::BeforeImage => Self::Word(Word::BeforeImage),
            Undo::Tool(compensation) => Self::Tool(compensation),
        }
    }
}

impl Compensation {
    /// What can never be made an argument of.
    pub fn fault(&self) -> Option<String> {
        self.map_args.iter().flatten().find_map(|(name, value)| Source::of(value).is_none().then_some(name)).map(|name| {
            format!("`map_args.{name}` must be {{ pointer = \"/…\" }}, {{ result = \"/…\" }}, {{ value = … }} or a plain value")
        })
    }

    /// The arguments of the call that takes back a call with these arguments and this result.
    ///
    /// ```
    /// use serde_json::json;
    /// use tollgate_types::Compensation;
    ///
    /// let cancel: Compensation = serde_json::from_value(json!({
    ///     "tool": "cancel_order", "map_args": {"id": {"result": "/order/id"}, "sku": {"pointer": "/sku"}, "why": "undone"}
    /// })).unwrap();
    /// let arguments = cancel.arguments(&json!({"sku": "A103"}), &json!({"order": {"id": 17}}));
    /// assert_eq!(arguments, Ok(json!({"id": 17, "sku": "A103", "why": "undone"})));
    /// ```
    ///
    /// # Errors
    /// Where the first call has nothing at a pointer: which one.
    pub fn arguments(&self, arguments: &Value, result: &Value) -> Result<Value, String> {
        let Some(map) = &self.map_args else { return Ok(arguments.clone()) };
        let value = |value| match Source::of(value) {
            Some(Source::Arguments(pointer)) => arguments.pointer(pointer).ok_or(("arguments have", pointer)),
            Some(Source::Result(pointer)) => result.pointer(pointer).ok_or(("result has", pointer)),
            Some(Source::Value(value)) => Ok(value),
            None => Err(("definition says", "")),
        };
        let member = |(name, source): (&String, _)| match value(source) {
            Ok(value) => Ok((name.clone(), value.clone())),
            Err((what, pointer)) => Err(format!("its {what} nothing at `{pointer}`, which `{name}` comes from")),
        };
        map.iter().map(member).collect::<Result<Map<_, _>, _>>().map(Value::Object)
    }
}

/// Where an argument comes from.
enum Source<'a> {
    Arguments(&'a str),
    Result(&'a str),
    Value(&'a Value),
}

impl<'a> Source<'a> {
    /// None where it cannot be told.
    fn of(value: &'a Value) -> Option<Self> {
        let Value::Object(form) = value else { return Some(Self::Value(value)) };
        let mut members = form.iter();
        let (Some((key, value)), None) = (members.next(), members.next()) else { return None };
        let pointer = || value.as_str().filter(|text| text.is_empty() || text.starts_with('/'));
        match key.as_str() {
            "pointer" => pointer().map(Self::Arguments),
            "result" => pointer().map(Self::Result),
            "value" => Some(Self::Value(value)),
            _ => None,
        }
    }
}

/// A file as it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileImage {
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its mode, as Unix knows it.
    pub mode: u32,
}

/// What a call found where it writes, and what it leaves there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BeforeImage {
    /// The place, relative to the workspace.
    pub path: String,
    /// The file; none where there was nothing.
    pub before: Option<FileImage>,
    /// The SHA-256 of what the call leaves, in lower-case hex; none where it leaves nothing.
    pub after: Option<String>,
}

/// Where tools leave what stood there before they change it, so that an undo can put it back. Both methods block.
pub trait BeforeImages: Send + Sync {
    /// Keeps an image under the attempt that is about to change what it shows. It is on the disk when this returns.
    ///
    /// # Errors
    /// That it cannot be kept. Nothing may be changed then.
    fn keep(&self, attempt: &AttemptId, image: BeforeImage, now: Timestamp) -> Result<(), String>;

    /// What was kept under an attempt; none when nothing was, or it grew too old.
    ///
    /// # Errors
    /// That it cannot be read.
    fn image(&self, attempt: &AttemptId) -> Result<Option<BeforeImage>, String>;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> Result<Undo, serde_json::Error> {
        serde_json::from_value(value)
    }

    #[test]
    fn it_is_written_as_a_word_or_a_tool() {
        for (written, shown) in [
            (json!("none"), json!("none")),
            (json!("before-image"), json!("before-image")),
            (json!("before_image"), json!("before-image")),
            (json!({"tool": "cancel"}), json!({"tool": "cancel"})),
            (json!({"tool": "cancel", "map_args": {"id": 1}}), json!({"tool": "cancel", "map_args": {"id": 1}})),
        ] {
            assert_eq!(serde_json::to_value(read(written).unwrap()).unwrap(), shown);
        }
        for wrong in [json!("later"), json!({"tol": "x"}), json!({"tool": "x", "map": {}}), json!(1)] {
            let error = read(wrong).unwrap_err().to_string();
            assert!(error.contains("before-image"), "{error}");
        }
    }

    #[test]
    fn arguments_come_from_the_first_call() {
        let of = |map: Value| Compensation { tool: "cancel".into(), map_args: serde_json::from_value(map).unwrap() };
        let (arguments, result) = (json!({"a/b": [1, 2], "text": "北京"}), json!({"id": 7}));
        let missing = "its result has nothing at `/ID`, which `id` comes from";
        for (map, expected) in [
            (json!(null), Ok(arguments.clone())),
            (json!({}), Ok(json!({}))),
            (json!({"id": {"result": "/id"}, "n": {"pointer": "/a~1b/1"}}), Ok(json!({"id": 7, "n": 2}))),
            (json!({"all": {"pointer": ""}, "list": ["/x", 3]}), Ok(json!({"all": arguments, "list": ["/x", 3]}))),
            (json!({"like": {"value": {"result": "/id"}}}), Ok(json!({"like": {"result": "/id"}}))),
            (json!({"id": {"result": "/ID"}}), Err(missing.to_owned())),
        ] {
            assert_eq!(of(map.clone()).arguments(&arguments, &result), expected, "{map}");
        }
        for wrong in [json!({"id": {"results": "/id"}}), json!({"id": {"result": "id"}}), json!({"id": {}})] {
            assert!(of(wrong).fault().unwrap().contains("`map_args.id`"));
        }
        assert_eq!(of(json!({"id": {"result": "/id"}, "b": true, "c": "plain"})).fault(), None);
    }
}
