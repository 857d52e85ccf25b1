//! How large a strict schema may be.

use serde_json::{Map, Value};

use super::Refusal;

/// OpenAI's limits of a strict schema.
const PROPERTIES_MAX: usize = 5_000;
const LEVELS_MAX: usize = 10;
const NAME_CHARS_MAX: usize = 120_000;
const VALUES_MAX: usize = 1_000;
/// Values of one enumeration beyond which their text counts.
const LONG_ENUM_VALUES_MIN: usize = 250;
const LONG_ENUM_CHARS_MAX: usize = 15_000;

/// What is counted over all strict schemas of a request.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) optional: usize,
    pub(crate) unions: usize,
}

/// Counts what Anthropic limits.
pub(super) fn counts(schema: &Map<String, Value>) -> Counts {
    let mut counts = Counts::default();
    each(schema, 0, &mut |map, _| {
        let named = map.get("properties").and_then(Value::as_object).map_or(0, Map::len);
        let required = map.get("required").and_then(Value::as_array).map_or(0, Vec::len);
        counts.optional += named.saturating_sub(required);
        counts.unions += usize::from(map.contains_key("anyOf") || map.get("type").is_some_and(Value::is_array));
    });
    counts
}

/// Whether OpenAI takes a schema of this size.
pub(super) fn check_openai(schema: &Map<String, Value>) -> Result<(), Refusal> {
    let mut size = Size::default();
    each(schema, 0, &mut |map, level| size.add(map, level));
    let limits = [
        (size.properties, PROPERTIES_MAX, "properties"),
        (size.levels, LEVELS_MAX, "levels of nesting"),
        (size.chars, NAME_CHARS_MAX, "characters of names and values"),
        (size.values, VALUES_MAX, "values in enumerations"),
        (size.long_chars, LONG_ENUM_CHARS_MAX, "characters in one long enumeration"),
    ];
    match limits.into_iter().find(|(count, max, _)| count > max) {
        Some((_, max, what)) => Err(Refusal::new("", format!("the schema has more than {max} {what}"))),
        None => Ok(()),
    }
}

#[derive(Default)]
struct Size {
    properties: usize,
    levels: usize,
    chars: usize,
    values: usize,
    long_chars: usize,
}

impl Size {
    fn add(&mut self, map: &Map<String, Value>, level: usize) {
        self.levels = self.levels.max(level);
        for (keyword, value) in map {
            match (keyword.as_str(), value) {
                ("properties" | "$defs", Value::Object(all)) => {
                    self.chars += all.keys().map(|name| name.chars().count()).sum::<usize>();
                    self.properties += if keyword == "properties" { all.len() } else { 0 };
                }
                ("enum", Value::Array(values)) => self.add_values(values),
                _ => {}
            }
        }
    }

    fn add_values(&mut self, values: &[Value]) {
        let chars: usize = values.iter().map(|value| value.as_str().map_or(0, |text| text.chars().count())).sum();
        self.values += values.len();
        self.chars += chars;
        if values.len() > LONG_ENUM_VALUES_MIN {
            self.long_chars = self.long_chars.max(chars);
        }
    }
}

/// Visits a narrow schema and all below it, with the number of objects and lists around and at it.
fn each(map: &Map<String, Value>, around: usize, visit: &mut dyn FnMut(&Map<String, Value>, usize)) {
    let level = around + usize::from(map.keys().any(|keyword| matches!(keyword.as_str(), "properties" | "items")));
    visit(map, level);
    for (keyword, value) in map {
        match (keyword.as_str(), value) {
            ("properties", Value::Object(all)) => {
                all.values().filter_map(Value::as_object).for_each(|map| each(map, level, visit));
            }
            ("$defs", Value::Object(all)) => {
                all.values().filter_map(Value::as_object).for_each(|map| each(map, 0, visit))
            }
            ("anyOf", Value::Array(all)) => {
                all.iter().filter_map(Value::as_object).for_each(|map| each(map, level, visit));
            }
            ("items", Value::Object(map)) => each(map, level, visit),
            _ => {}
        }
    }
}
