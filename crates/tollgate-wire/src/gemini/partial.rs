//! Arguments that come in pieces: each says by a JSONPath (RFC 9535, the names and indexes of it) where it belongs. The
//! server sends them only where `streamFunctionCallArguments` asked for them.

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use tollgate_types::limits;

use super::assemble::{Fields, fields_of};
use crate::chat::delta::{Unescape, scalar_text};

const NO_PLACE: &str = "a piece of its arguments has no place";
const NO_VALUE: &str = "a piece of its arguments has no value that JSON knows";
const TOO_LARGE: &str = "its arguments are larger than the limit";

/// Arguments so far.
#[derive(Debug)]
pub(super) struct Pieces {
    root: Value,
    /// The path whose string goes on.
    open: Option<String>,
    halves: Unescape,
    bytes: usize,
}

enum Step {
    Key(String),
    Index(usize),
}

impl Default for Pieces {
    fn default() -> Self {
        Self { root: Value::Object(Map::new()), open: None, halves: Unescape::default(), bytes: 0 }
    }
}

impl Pieces {
    /// Takes one `PartialArg`; says why it cannot.
    pub(super) fn take(&mut self, piece: &RawValue) -> Result<(), &'static str> {
        let piece = fields_of(piece).ok_or(NO_PLACE)?;
        let path = scalar_text(piece.get("jsonPath").copied()).into_owned();
        let goes_on = self.open.as_deref() == Some(path.as_str());
        let Some(value) = self.value(&piece)? else { return Ok(()) };
        self.bytes += value.as_str().map_or(path.len(), str::len);
        if self.bytes > limits::ARGUMENTS_BYTES_MAX {
            return Err(TOO_LARGE);
        }
        let place = place(&mut self.root, &steps(&path).ok_or(NO_PLACE)?).ok_or(NO_PLACE)?;
        match (place, value) {
            (Value::String(text), Value::String(more)) if goes_on => text.push_str(&more),
            (place, value) => *place = value,
        }
        self.open = piece.get("willContinue").is_some_and(|raw| raw.get() == "true").then_some(path);
        Ok(())
    }

    fn value(&mut self, piece: &Fields<'_>) -> Result<Option<Value>, &'static str> {
        if let Some(text) = piece.get("stringValue").filter(|raw| raw.get().starts_with('"')) {
            return Ok(Some(Value::String(self.halves.piece(text).into_owned())));
        }
        if piece.contains_key("nullValue") {
            return Ok(Some(Value::Null));
        }
        let Some(scalar) = piece.get("numberValue").or_else(|| piece.get("boolValue")) else { return Ok(None) };
        let value: Option<Value> = serde_json::from_str(scalar.get()).ok();
        value.filter(|value| value.is_number() || value.is_boolean()).map(Some).ok_or(NO_VALUE)
    }

    /// The arguments, or why they cannot be used.
    pub(super) fn into_text(self) -> Result<String, &'static str> {
        if self.halves.has_lost() { Err("it holds half of a surrogate pair") } else { Ok(self.root.to_string()) }
    }
}

/// The place of a path, made where it is not there yet. A list grows by one at a time, whatever an index says.
fn place<'a>(root: &'a mut Value, steps: &[Step]) -> Option<&'a mut Value> {
    let mut at = root;
    for step in steps {
        at = match step {
            Step::Key(key) => {
                if at.is_null() {
                    *at = Value::Object(Map::new());
                }
                at.as_object_mut()?.entry(key.as_str()).or_insert(Value::Null)
            }
            Step::Index(index) => {
                if at.is_null() {
                    *at = Value::Array(Vec::new());
                }
                let list = at.as_array_mut()?;
                if *index == list.len() {
                    list.push(Value::Null);
                }
                list.get_mut(*index)?
            }
        };
    }
    Some(at)
}

fn steps(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.strip_prefix('$')?;
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if steps.len() == limits::JSON_DEPTH_MAX {
            return None;
        }
        let (step, tail) = match rest.strip_prefix('.') {
            Some(tail) => {
                let end = tail.find(['.', '[']).unwrap_or(tail.len());
                let (name, tail) = tail.split_at_checked(end).filter(|(name, _)| !name.is_empty())?;
                (Step::Key(name.to_owned()), tail)
            }
            None => bracket(rest.strip_prefix('[')?)?,
        };
        steps.push(step);
        rest = tail;
    }
    Some(steps)
}

/// An index, or a name in quotes, up to its bracket.
fn bracket(inner: &str) -> Option<(Step, &str)> {
    let Some(quote) = inner.chars().next().filter(|quote| matches!(quote, '\'' | '"')) else {
        let (index, tail) = inner.split_once(']')?;
        return Some((Step::Index(index.parse().ok()?), tail));
    };
    let mut name = String::new();
    let mut chars = inner.char_indices().skip(1);
    while let Some((at, char)) = chars.next() {
        match char {
            '\\' => name.push(chars.next()?.1),
            _ if char == quote => return Some((Step::Key(name), inner.get(at + 1..)?.strip_prefix(']')?)),
            _ => name.push(char),
        }
    }
    None
}
