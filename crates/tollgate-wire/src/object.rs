//! A JSON object whose values stay the text that they are, so that what is not understood can be kept.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::fault::WireFault;

/// The fields of an object, in their order. `null` counts as nothing.
#[derive(Debug, Default)]
pub(crate) struct Object<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Object<'a> {
    /// Takes a field out. Of several of one name, the last counts.
    pub(crate) fn take(&mut self, name: &str) -> Option<&'a RawValue> {
        let mut found = None;
        self.0.retain(|(known, value)| {
            let is_other = known != name;
            if !is_other {
                found = Some(*value);
            }
            is_other
        });
        found.filter(|value| value.get() != "null")
    }

    /// Takes a field of a request out, which must be of this kind.
    pub(crate) fn read<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, WireFault> {
        let Some(raw) = self.take(name) else { return Ok(None) };
        serde_json::from_str(raw.get()).map(Some).map_err(|e| WireFault::request(format!("`{name}`: {e}")))
    }

    /// The string that a field holds.
    pub(crate) fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        let (_, raw) = self.0.iter().rfind(|(known, _)| known == name)?;
        Some(serde_json::from_str::<Text<'a>>(raw.get()).ok()?.0)
    }

    /// Takes a field of a request out, which must be a list.
    pub(crate) fn list(&mut self, name: &str) -> Result<Option<Vec<&'a RawValue>>, WireFault> {
        let Some(raw) = self.take(name) else { return Ok(None) };
        serde_json::from_str(raw.get()).map(Some).map_err(|e| WireFault::request(format!("`{name}`: {e}")))
    }

    /// What is left, as values.
    pub(crate) fn into_values(self) -> impl Iterator<Item = (String, Value)> {
        self.0.into_iter().filter_map(|(name, raw)| Some((name.into_owned(), serde_json::from_str(raw.get()).ok()?)))
    }

    /// What is left, as a map.
    pub(crate) fn into_map(self) -> Map<String, Value> {
        self.into_values().collect()
    }
}

#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some((Text(name), value)) = map.next_entry()? {
                    fields.push((name, value));
                }
                Ok(Object(fields))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}
