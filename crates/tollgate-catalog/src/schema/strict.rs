//! JSON text within arguments, read strictly: a doubled key or a number that would be rounded makes it no JSON.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Beyond this, integers are not exact in a float.
pub(super) const EXACT_FLOAT_MAX: f64 = 9_007_199_254_740_992.0;

/// The value of a JSON text; none where reading it could lose something.
pub(super) fn parse(text: &str) -> Option<Value> {
    serde_json::from_str::<Strict>(text).ok().map(|strict| strict.0).filter(|_| keeps_its_floats(text))
}

/// Whether each float of a JSON text is the nearest one to what is written, and none that is written becomes nothing.
/// `serde_json` is off by the last bit at times.
fn keeps_its_floats(text: &str) -> bool {
    let mut rest = text;
    while let Some(at) = rest.find(|c: char| c == '"' || c == '-' || c.is_ascii_digit()) {
        let (_, from) = rest.split_at(at);
        if from.starts_with('"') {
            rest = from.get(string_length(from.as_bytes())..).unwrap_or_default();
            continue;
        }
        let is_part = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
        let (number, tail) = from.split_at(from.find(|c| !is_part(c)).unwrap_or(from.len()));
        if number.contains(['.', 'e', 'E']) && !is_kept(number) {
            return false;
        }
        rest = tail;
    }
    true
}

fn string_length(text: &[u8]) -> usize {
    let mut is_escaped = false;
    let end = text.iter().skip(1).position(|byte| {
        let ends = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        ends
    });
    end.map_or(text.len(), |end| end + 2)
}

fn is_kept(number: &str) -> bool {
    let Ok(nearest) = number.parse::<f64>() else { return false };
    let mut mantissa = number.bytes().take_while(|byte| !matches!(byte, b'e' | b'E'));
    let is_zero = !mantissa.any(|byte| matches!(byte, b'1'..=b'9'));
    (nearest != 0.0 || is_zero) && serde_json::from_str::<f64>(number).is_ok_and(|read| read == nearest)
}

struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Strict)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        // An integer too large for 64 bits comes here too, rounded.
        if value.abs() < EXACT_FLOAT_MAX { Ok(value.into()) } else { Err(E::custom("a number would be rounded")) }
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut out = Vec::new();
        while let Some(Strict(item)) = items.next_element()? {
            out.push(item);
        }
        Ok(Value::Array(out))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut out = Map::new();
        while let Some((key, Strict(value))) = entries.next_entry::<String, Strict>()? {
            if out.insert(key, value).is_some() {
                return Err(A::Error::custom("a key stands twice"));
            }
        }
        Ok(Value::Object(out))
    }
}
