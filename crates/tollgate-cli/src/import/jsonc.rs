//! JSON as editors let people write it: comments, commas too many, a byte order mark. What is no JSON becomes blanks, so
//! that the line and the column of an error are those of the file. Reads the text; knows nothing of servers.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::list::ListFault;

/// Reads a file's text.
pub(super) fn parse(text: &str) -> Result<Value, ListFault> {
    let plain = blanked(text);
    let read = serde_json::from_str(&plain).map(|Once(value)| value);
    read.map_err(|error| {
        let said = error.to_string();
        let message = said.split(" at line ").next().unwrap_or(&said).to_owned();
        ListFault::at(text, error.line(), error.column(), message)
    })
}

/// A value in which no object has a name twice: of two servers with one name one would be lost without a word.
struct Once(Value);

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Values;
        impl<'de> Visitor<'de> for Values {
            type Value = Once;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_unit<E: Error>(self) -> Result<Once, E> {
                Ok(Once(Value::Null))
            }

            fn visit_bool<E: Error>(self, is: bool) -> Result<Once, E> {
                Ok(Once(is.into()))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Once, E> {
                Ok(Once(number.into()))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Once, E> {
                Ok(Once(number.into()))
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<Once, E> {
                Ok(Once(number.into()))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Once, E> {
                Ok(Once(text.into()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Once, A::Error> {
                let mut list = Vec::new();
                while let Some(Once(item)) = items.next_element()? {
                    list.push(item);
                }
                Ok(Once(Value::Array(list)))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Once, A::Error> {
                let mut map = Map::new();
                while let Some((name, Once(value))) = members.next_entry::<String, Once>()? {
                    if map.contains_key(&name) {
                        return Err(A::Error::custom(format!("`{name}` is there twice")));
                    }
                    map.insert(name, value);
                }
                Ok(Once(Value::Object(map)))
            }
        }
        deserializer.deserialize_any(Values)
    }
}

/// Where one is in the text.
#[derive(Clone, Copy, PartialEq)]
enum In {
    Value,
    Text { is_escaped: bool },
    Line,
    Block,
}

/// The text with blanks for comments and for commas before a closing bracket.
fn blanked(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let mut place = In::Value;
    // A comma that nothing followed yet, and what stood before the place where one is.
    let (mut comma, mut last): (Option<usize>, u8) = (None, b'[');
    let mut at = 0;
    while let Some(&byte) = text.as_bytes().get(at) {
        let next = text.as_bytes().get(at + 1).copied();
        let mut width = 1;
        match place {
            In::Value => match (byte, next) {
                (b'"', _) => (place, comma, last) = (In::Text { is_escaped: false }, None, byte),
                (b'/', Some(b'/')) => (place, width) = (In::Line, 2),
                (b'/', Some(b'*')) => (place, width) = (In::Block, 2),
                (b',', _) => {
                    comma = (!b"[{,:".contains(&last)).then_some(at);
                    last = byte;
                }
                (b']' | b'}', _) => {
                    blank(&mut bytes, comma.take(), 1);
                    last = byte;
                }
                _ if byte.is_ascii_whitespace() => {}
                _ => (comma, last) = (None, byte),
            },
            In::Text { is_escaped: false } if byte == b'"' => place = In::Value,
            In::Text { is_escaped } => place = In::Text { is_escaped: byte == b'\\' && !is_escaped },
            In::Line if byte == b'\n' => place = In::Value,
            In::Block if (byte, next) == (b'*', Some(b'/')) => {
                blank(&mut bytes, Some(at), 2);
                (place, width) = (In::Value, 2);
            }
            In::Line | In::Block => {}
        }
        // What opens a comment is one itself.
        if matches!(place, In::Line | In::Block) {
            blank(&mut bytes, Some(at), width);
        }
        at += width;
    }
    // INVARIANT: whole comments became ASCII; everything else is as it was.
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

fn blank(bytes: &mut [u8], at: Option<usize>, width: usize) {
    let Some(at) = at else { return };
    for byte in bytes.iter_mut().skip(at).take(width).filter(|byte| **byte != b'\n') {
        *byte = b' ';
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_commas_are_no_part_of_the_value() {
        let cases = [
            ("{\"a\": 1,}", r#"{"a":1}"#),
            ("// 北京\n{\"a\": [1, 2, /* , */ ],\n}", r#"{"a":[1,2]}"#),
            (r#"{"url": "https://x/*y*/,]"}"#, r#"{"url":"https://x/*y*/,]"}"#),
            (r#"{"a": "\"//", /* "b": 1 */ "c": "\\"} // end"#, r#"{"a":"\"//","c":"\\"}"#),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text).unwrap().to_string(), expected, "{text}");
        }
    }

    #[test]
    fn an_error_has_the_place_of_the_file() {
        let fault = parse("{ /* 一二\n三 */ \"a\" 1 }").unwrap_err();
        assert_eq!((fault.line, fault.column), (Some(2), Some(10)));
        assert_eq!(fault.message, "expected `:`");
        for text in ["", "{", "{,}", "{\"a\": 1, \"a\": 1}", "[1 2]", "{\"a\": 1,,}", "/* open"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
