//! Texts, numbers and booleans.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::Narrower;
use crate::fit::kinds::Kind;
use crate::fit::{Subset, at, drafts, words};

/// Formats of texts that OpenAI and Anthropic hold a model to; Anthropic knows `uri` beside them.
const FORMATS: &[&str] = &["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"];

const TEXT_LIMITS: &[&str] = &["pattern", "minLength", "maxLength"];
const NUMBER_LIMITS: &[&str] = &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"];

impl Narrower<'_> {
    /// Whether a schema is of one plain type and says nothing that the subset has not, as most do: it stays as it is.
    pub(super) fn is_ready(&self, map: &Map<String, Value>) -> bool {
        let said = at(map, "type").and_then(Value::as_str).and_then(Kind::named);
        let (limits, kind) = match said {
            Some(Kind::String) => (TEXT_LIMITS, Kind::String),
            Some(kind @ (Kind::Integer | Kind::Number)) => (NUMBER_LIMITS, kind),
            Some(Kind::Boolean) => (&[][..], Kind::Boolean),
            Some(Kind::Null | Kind::Array | Kind::Object) | None => return false,
        };
        !drafts::is_old(map)
            && map.iter().all(|(keyword, value)| match (keyword.as_str(), value) {
                ("type", _) => true,
                ("title" | "description", Value::String(text)) => !text.is_empty(),
                ("format", Value::String(format)) => kind == Kind::String && self.has_format(format),
                ("enum", Value::Array(values)) => {
                    kind == Kind::String && !values.is_empty() && values.iter().all(Value::is_string)
                }
                (keyword, value) => limits.contains(&keyword) && has_limit(self.subset, keyword, value),
            })
    }

    pub(super) fn scalar(
        &mut self,
        kind: Kind,
        values: Option<Vec<Value>>,
        map: &Map<String, Value>,
        told: &mut Vec<String>,
    ) -> Map<String, Value> {
        let mut out = kind.schema();
        if let Some(values) = values {
            // Gemini's enumerations are of texts.
            if kind == Kind::String || self.subset != Subset::GeminiOpenApi {
                out.insert("enum".to_owned(), Value::Array(values));
            } else {
                told.push(words::limit("enum", &Value::Array(values)));
                self.lose("`enum` is for texts alone");
            }
        }
        match kind {
            Kind::String => {
                self.keep(TEXT_LIMITS, map, &mut out, told);
                self.format(map, &mut out, told);
            }
            Kind::Integer | Kind::Number => self.number(kind, map, &mut out, told),
            Kind::Null | Kind::Boolean | Kind::Array | Kind::Object => {}
        }
        out
    }

    fn number(&mut self, kind: Kind, map: &Map<String, Value>, out: &mut Map<String, Value>, told: &mut Vec<String>) {
        let mut map = Cow::Borrowed(map);
        if self.subset == Subset::GeminiOpenApi && kind == Kind::Integer {
            include(&mut map, "exclusiveMinimum", "minimum", |n| n.checked_add(1), i64::max);
            include(&mut map, "exclusiveMaximum", "maximum", |n| n.checked_sub(1), i64::min);
        }
        self.keep(NUMBER_LIMITS, &map, out, told);
    }

    fn format(&mut self, map: &Map<String, Value>, out: &mut Map<String, Value>, told: &mut Vec<String>) {
        let Some(Value::String(format)) = at(map, "format") else { return };
        if self.has_format(format) {
            out.insert("format".to_owned(), format.clone().into());
        } else {
            told.push(words::limit("format", &format.clone().into()));
            self.lose(format!("the format `{format}` is not known there"));
        }
    }

    fn has_format(&self, format: &str) -> bool {
        match self.subset {
            Subset::OpenAiStrict | Subset::Plain => FORMATS.contains(&format),
            Subset::AnthropicStrict => FORMATS.contains(&format) || format == "uri",
            Subset::GeminiOpenApi => format == "date-time",
        }
    }

    /// Keeps the limits that the subset has, and tells the others.
    pub(super) fn keep(
        &mut self,
        keywords: &[&str],
        map: &Map<String, Value>,
        out: &mut Map<String, Value>,
        told: &mut Vec<String>,
    ) {
        for (keyword, value) in map.iter().filter(|(keyword, _)| keywords.contains(&keyword.as_str())) {
            if has_limit(self.subset, keyword, value) {
                out.insert(keyword.clone(), value.clone());
            } else if *value != Value::Bool(false) {
                told.push(words::limit(keyword, value));
                self.lose(format!("`{keyword}` is not known there"));
            }
        }
    }
}

/// Whether a subset has a limit.
fn has_limit(subset: Subset, keyword: &str, value: &Value) -> bool {
    match subset {
        Subset::OpenAiStrict => matches!(
            keyword,
            "pattern"
                | "minimum"
                | "maximum"
                | "exclusiveMinimum"
                | "exclusiveMaximum"
                | "multipleOf"
                | "minItems"
                | "maxItems"
        ),
        Subset::AnthropicStrict => keyword == "minItems" && value.as_u64().is_some_and(|count| count <= 1),
        Subset::GeminiOpenApi => matches!(
            keyword,
            "pattern"
                | "minLength"
                | "maxLength"
                | "minimum"
                | "maximum"
                | "minItems"
                | "maxItems"
                | "minProperties"
                | "maxProperties"
        ),
        Subset::Plain => true,
    }
}

/// Says the limit of an integer as one that is included.
fn include(
    map: &mut Cow<'_, Map<String, Value>>,
    exclusive: &str,
    inclusive: &str,
    next: fn(i64) -> Option<i64>,
    stricter: fn(i64, i64) -> i64,
) {
    let Some(limit) = map.get(exclusive).and_then(Value::as_i64).and_then(next) else { return };
    let limit = match map.get(inclusive) {
        None => limit,
        Some(other) => match other.as_i64() {
            Some(other) => stricter(limit, other),
            None => return,
        },
    };
    map.to_mut().remove(exclusive);
    map.to_mut().insert(inclusive.to_owned(), limit.into());
}
