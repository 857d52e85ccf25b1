//! The types of JSON Schema, said or to be gathered from what a schema asks.

use serde_json::{Map, Value};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Null,
    Boolean,
    Integer,
    Number,
    String,
    Array,
    Object,
}

impl Kind {
    const ALL: [Self; 7] =
        [Self::Null, Self::Boolean, Self::Integer, Self::Number, Self::String, Self::Array, Self::Object];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "boolean",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::String => "string",
            Self::Array => "array",
            Self::Object => "object",
        }
    }

    /// The schema of all its values.
    pub(super) fn schema(self) -> Map<String, Value> {
        Map::from_iter([("type".to_owned(), self.as_str().into())])
    }

    /// Whether a value is of it.
    pub(super) fn has(self, value: &Value) -> bool {
        match (self, value) {
            (Self::Integer, Value::Number(number)) => number.as_f64().is_some_and(|number| number.fract() == 0.0),
            (Self::Null, Value::Null)
            | (Self::Boolean, Value::Bool(_))
            | (Self::Number, Value::Number(_))
            | (Self::String, Value::String(_))
            | (Self::Array, Value::Array(_))
            | (Self::Object, Value::Object(_)) => true,
            _ => false,
        }
    }

    /// Whether a value can be of both.
    pub(super) fn overlaps(self, other: Self) -> bool {
        self == other || matches!((self, other), (Self::Integer, Self::Number) | (Self::Number, Self::Integer))
    }

    /// Keywords that ask something of its values alone.
    fn keywords(self) -> &'static [&'static str] {
        match self {
            Self::Null | Self::Boolean | Self::Integer => &[],
            Self::Number => &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"],
            Self::String => &["pattern", "minLength", "maxLength", "format"],
            Self::Array => &["items", "prefixItems", "minItems", "maxItems", "uniqueItems"],
            Self::Object => &[
                "properties",
                "required",
                "additionalProperties",
                "patternProperties",
                "unevaluatedProperties",
                "minProperties",
                "maxProperties",
            ],
        }
    }
}

/// The types that a schema says, or those that its values or its rules are about; none where it says nothing.
pub(super) fn of(map: &Map<String, Value>) -> Option<Vec<Kind>> {
    let said = said(map);
    let values = map.get("enum").and_then(Value::as_array);
    let mut kinds = match (said, values) {
        (Some(said), Some(values)) => said.into_iter().filter(|kind| values.iter().any(|v| kind.has(v))).collect(),
        (Some(said), None) => said,
        (None, Some(values)) => of_values(values),
        (None, None) => {
            let is_meant = |kind: &Kind| kind.keywords().iter().any(|keyword| map.contains_key(*keyword));
            let meant: Vec<_> = Kind::ALL.into_iter().filter(is_meant).collect();
            (!meant.is_empty()).then_some(meant)?
        }
    };
    if kinds.contains(&Kind::Number) {
        kinds.retain(|kind| *kind != Kind::Integer);
    }
    Some(kinds)
}

/// The types that a schema says.
pub(super) fn said(map: &Map<String, Value>) -> Option<Vec<Kind>> {
    let names: Vec<&str> = match map.get("type")? {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    Some(Kind::ALL.into_iter().filter(|kind| names.contains(&kind.as_str())).collect())
}

fn of_values(values: &[Value]) -> Vec<Kind> {
    let is_whole = values.iter().all(|value| !Kind::Number.has(value) || Kind::Integer.has(value));
    let other = if is_whole { Kind::Number } else { Kind::Integer };
    Kind::ALL.into_iter().filter(|kind| *kind != other && values.iter().any(|value| kind.has(value))).collect()
}

/// The types that both lists allow.
pub(super) fn common(one: &[Kind], other: &[Kind]) -> Vec<Kind> {
    let has = |all: &[Kind], kind| all.contains(&kind) || kind == Kind::Integer && all.contains(&Kind::Number);
    let mut common: Vec<_> = Kind::ALL.into_iter().filter(|kind| has(one, *kind) && has(other, *kind)).collect();
    if common.contains(&Kind::Number) {
        common.retain(|kind| *kind != Kind::Integer);
    }
    common
}

/// Whether a keyword asks something of values of one type.
pub(super) fn is_of_one(keyword: &str) -> bool {
    Kind::ALL.into_iter().any(|kind| kind.keywords().contains(&keyword))
}
