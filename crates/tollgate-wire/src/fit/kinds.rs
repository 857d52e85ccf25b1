//! The types of JSON Schema, said or to be gathered from what a schema asks.

use serde_json::{Map, Value};

use super::at;

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

    /// The kind of this name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// The schema of all its values.
    pub(super) fn schema(self) -> Map<String, Value> {
        let mut schema = Map::with_capacity(4);
        schema.insert("type".to_owned(), self.as_str().into());
        schema
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

/// A set of types.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Kinds(u8);

impl Kinds {
    pub(super) fn only(kind: Kind) -> Self {
        Self(1 << kind as u8)
    }

    pub(super) fn has(self, kind: Kind) -> bool {
        self.0 & Self::only(kind).0 != 0
    }

    pub(super) fn without(self, kind: Kind) -> Self {
        Self(self.0 & !Self::only(kind).0)
    }

    pub(super) fn iter(self) -> impl Iterator<Item = Kind> {
        Kind::ALL.into_iter().filter(move |kind| self.has(*kind))
    }

    /// What both allow.
    pub(super) fn and(self, other: Self) -> Self {
        Self(self.whole().0 & other.whole().0).plain()
    }

    /// With integers, where numbers are allowed.
    fn whole(self) -> Self {
        if self.has(Kind::Number) { Self(self.0 | Self::only(Kind::Integer).0) } else { self }
    }

    /// Without integers, where numbers are allowed.
    fn plain(self) -> Self {
        if self.has(Kind::Number) { self.without(Kind::Integer) } else { self }
    }
}

impl FromIterator<Kind> for Kinds {
    fn from_iter<I: IntoIterator<Item = Kind>>(kinds: I) -> Self {
        Self(kinds.into_iter().fold(0, |all, kind| all | Self::only(kind).0))
    }
}

/// The types that a schema says, or those that its values or its rules are about; none where it says nothing.
pub(super) fn of(map: &Map<String, Value>) -> Option<Kinds> {
    let values = at(map, "enum").and_then(Value::as_array);
    let kinds = match (at(map, "type").map(said), values) {
        (Some(said), Some(values)) => said.iter().filter(|kind| values.iter().any(|value| kind.has(value))).collect(),
        (Some(said), None) => said,
        (None, Some(values)) => of_values(values),
        (None, None) => {
            let is_meant = |kind: &Kind| kind.keywords().iter().any(|keyword| map.contains_key(*keyword));
            Some(Kind::ALL.into_iter().filter(is_meant).collect()).filter(|meant| *meant != Kinds::default())?
        }
    };
    Some(kinds.plain())
}

/// The types that `type` names.
pub(super) fn said(kind: &Value) -> Kinds {
    match kind {
        Value::String(name) => Kind::named(name).into_iter().collect(),
        Value::Array(names) => names.iter().filter_map(Value::as_str).filter_map(Kind::named).collect(),
        _ => Kinds::default(),
    }
}

fn of_values(values: &[Value]) -> Kinds {
    let is_whole = values.iter().all(|value| !Kind::Number.has(value) || Kind::Integer.has(value));
    let other = if is_whole { Kind::Number } else { Kind::Integer };
    Kind::ALL.into_iter().filter(|kind| *kind != other && values.iter().any(|value| kind.has(value))).collect()
}

/// Whether a keyword asks something of values of one type.
pub(super) fn is_of_one(keyword: &str) -> bool {
    Kind::ALL.into_iter().any(|kind| kind.keywords().contains(&keyword))
}
