//! JSON text within arguments, read strictly: a doubled key or a number that would be rounded makes it no JSON.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Beyond this, integers are not exact in a float.
pub(super) const EXACT_FLOAT_MAX: f64 = 9_007_199_254_740_992.0;

/// The value of a JSON text; none where reading it could lose something.
pub(super) fn parse(text: &str) -> Option<Value> {
    serde_json::from_str::<Strict>(text).ok().map(|strict| strict.0)
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
