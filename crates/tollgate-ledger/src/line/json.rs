//! Whether a line is JSON that can be read back, found out without keeping any of it.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Whether [`serde_json::Value`] would take it: numbers in range, whole surrogate pairs, and no deeper than that goes.
pub(super) fn is_readable(line: &[u8]) -> bool {
    serde_json::from_slice::<Anything>(line).is_ok()
}

struct Anything;

impl<'de> Deserialize<'de> for Anything {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Anything {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self, A::Error> {
        while items.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self, A::Error> {
        while members.next_entry::<Self, Self>()?.is_some() {}
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_cannot_be_read_is_told_apart() {
        for (text, is_right) in [
            (r#"{"a":[1,-2,3.5,true,null,"\u00e9\ud83d\ude00"]}"#, true),
            (r#"{"a":1e400}"#, false),
            (r#"{"a":"\ud83d"}"#, false),
            (r#"{"a":1"#, false),
            ("{\"a\":\"\u{7}\"}", false),
        ] {
            assert_eq!(is_readable(text.as_bytes()), is_right, "{text}");
        }
        assert!(!is_readable(b"{\"a\":\"\xa3\"}"));
        assert!(!is_readable("[".repeat(200).as_bytes()));
    }

    proptest! {
        #[test]
        fn as_a_value_is_read(text in r#"[\[\]{}:,"\\ud83e0-9.a-f -]{0,24}"#) {
            prop_assert_eq!(is_readable(text.as_bytes()), serde_json::from_str::<serde_json::Value>(&text).is_ok());
        }
    }
}
