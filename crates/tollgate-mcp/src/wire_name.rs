//! The names under which what servers have stands in MCP's own messages: prompts as `mcp__x__NAME`, resources as `x+URI`.
//! Both are read back without a table, never collide, and stay the same from start to start. What is our own keeps its
//! plain name.

use std::borrow::Cow;
use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use tollgate_types::Raw;

const SERVER: &str = "mcp__";
const RESOURCES: &str = "resources/";
const PROMPTS: &str = "prompts/";
/// Before what can not begin a scheme (RFC 3986 §3.1). No name becomes so many dots.
const NO_LETTER: &str = "s....";

/// A resource's or a template's URI, of the entry of this name. None for what is no resource.
///
/// ```
/// use tollgate_mcp::wire_name::{resource_entry, resource_uri};
///
/// let uri = resource_uri("mcp__my_docs__resources/demo://note/1").unwrap();
/// assert_eq!(uri, "my.docs+demo://note/1");
/// assert_eq!(resource_entry(&uri), ("mcp__my_docs__resources/demo://note/1".to_owned(), "demo://note/1"));
/// assert_eq!(resource_uri("resources/file:///a").unwrap(), "file:///a");
/// ```
pub fn resource_uri(entry: &str) -> Option<String> {
    let (server, uri) = split(entry, RESOURCES)?;
    Some(server.map_or_else(|| uri.to_owned(), |server| uri_of(server, uri)))
}

/// The entry of a URI, and the URI as who has it names it.
pub fn resource_entry(uri: &str) -> (String, &str) {
    let scheme = uri.split_once(':').map_or("", |(scheme, _)| scheme);
    let of_server = scheme.split_once('+').and_then(|(server, _)| Some((server_name(server)?, server.len())));
    match of_server {
        Some((server, length)) => {
            let own = uri.get(length + 1..).unwrap_or_default();
            (format!("{SERVER}{server}__{RESOURCES}{own}"), own)
        }
        None => (format!("{RESOURCES}{uri}"), uri),
    }
}

/// A prompt's name, of the entry of this name. None for what is no prompt.
pub fn prompt_name(entry: &str) -> Option<String> {
    let (server, name) = split(entry, PROMPTS)?;
    Some(server.map_or_else(|| name.to_owned(), |server| format!("{SERVER}{server}__{name}")))
}

/// The entry of a prompt's name.
pub fn prompt_entry(name: &str) -> String {
    match name.strip_prefix(SERVER).and_then(|rest| rest.split_once("__")) {
        Some((server, own)) => format!("{SERVER}{server}__{PROMPTS}{own}"),
        None => format!("{PROMPTS}{name}"),
    }
}

/// The server and its own name, of an entry of this group.
fn split<'a>(entry: &'a str, group: &str) -> Option<(Option<&'a str>, &'a str)> {
    if let Some(own) = entry.strip_prefix(group) {
        return Some((None, own));
    }
    let (server, rest) = entry.strip_prefix(SERVER)?.split_once("__")?;
    Some((Some(server), rest.strip_prefix(group)?))
}

/// The URI of a server's resource.
pub fn uri_of(server: &str, uri: &str) -> String {
    let mut name = String::with_capacity(server.len() + uri.len() + 1);
    if !server.starts_with(|first: char| first.is_ascii_lowercase()) {
        name.push_str(NO_LETTER);
    }
    for c in server.chars() {
        match c {
            '_' => name.push('.'),
            // Schemes are the same in every case, and some clients write them in lower case.
            'A'..='Z' => name.extend(['.', '.', c.to_ascii_lowercase()]),
            _ => name.push(c),
        }
    }
    name.push('+');
    name.push_str(uri);
    name
}

/// The server that a scheme's beginning names.
fn server_name(written: &str) -> Option<String> {
    let written = written.to_ascii_lowercase();
    let mut rest = written.strip_prefix(NO_LETTER).unwrap_or(&written);
    let mut name = String::with_capacity(rest.len());
    while let Some(c) = rest.chars().next() {
        let after = rest.trim_start_matches('.');
        match rest.len() - after.len() {
            0 => {
                name.push(c);
                rest = rest.get(c.len_utf8()..)?;
            }
            dots @ 1..=3 => {
                if dots != 2 {
                    name.push('_');
                }
                rest = after;
                if dots > 1 {
                    let first = rest.chars().next()?;
                    name.push(first.to_ascii_uppercase());
                    rest = rest.get(first.len_utf8()..)?;
                }
            }
            _ => return None,
        }
    }
    (!name.is_empty()).then_some(name)
}

/// A result of a server, in which its resources have their names here: those that were read, those that it links to or
/// embeds. Everything else is as it was, to the last digit.
pub(crate) fn renamed(server: &str, result: &RawValue) -> Raw {
    let rename = |name: &str, value: &RawValue| match name {
        "contents" => each(value, &|item| with_uri(server, item)),
        "content" => blocks(server, value),
        "messages" => each(value, &|message| {
            members(message, &|name, value| match name {
                "content" => blocks(server, value),
                _ => None,
            })
        }),
        _ => None,
    };
    members(result, &rename).map_or_else(|| Raw::from(result), Raw::from)
}

/// One block of content, or several.
fn blocks(server: &str, content: &RawValue) -> Option<Box<RawValue>> {
    if content.get().starts_with('[') { each(content, &|one| block(server, one)) } else { block(server, content) }
}

fn block(server: &str, raw: &RawValue) -> Option<Box<RawValue>> {
    #[derive(Deserialize)]
    struct Block<'a> {
        #[serde(rename = "type", borrow)]
        kind: Cow<'a, str>,
    }
    let kind = serde_json::from_str::<Block<'_>>(raw.get()).ok()?.kind;
    match &*kind {
        "resource_link" => with_uri(server, raw),
        "resource" => members(raw, &|name, value| if name == "resource" { with_uri(server, value) } else { None }),
        _ => None,
    }
}

fn with_uri(server: &str, object: &RawValue) -> Option<Box<RawValue>> {
    members(object, &|name, value| {
        let uri: Cow<'_, str> = if name == "uri" { serde_json::from_str(value.get()).ok()? } else { return None };
        serde_json::value::to_raw_value(&uri_of(server, &uri)).ok()
    })
}

/// The array with what `change` makes of each; none where nothing changes.
fn each(array: &RawValue, change: &dyn Fn(&RawValue) -> Option<Box<RawValue>>) -> Option<Box<RawValue>> {
    let items: Vec<&RawValue> = serde_json::from_str(array.get()).ok()?;
    let changed: Vec<_> = items.iter().map(|item| change(item)).collect();
    if changed.iter().all(Option::is_none) {
        return None;
    }
    let items = items.iter().zip(&changed).map(|(item, changed)| changed.as_deref().unwrap_or(item).get());
    RawValue::from_string(format!("[{}]", items.collect::<Vec<_>>().join(","))).ok()
}

/// The object with what `change` makes of each member; none where nothing changes.
pub(crate) fn members(
    object: &RawValue,
    change: &dyn Fn(&str, &RawValue) -> Option<Box<RawValue>>,
) -> Option<Box<RawValue>> {
    let Members(members) = serde_json::from_str(object.get()).ok()?;
    let changed: Vec<_> = members.iter().map(|(name, value)| change(name, value)).collect();
    if changed.iter().all(Option::is_none) {
        return None;
    }
    let written = members.iter().zip(&changed).map(|((name, value), changed)| {
        let value = changed.as_deref().unwrap_or(value).get();
        Some(format!("{}:{value}", serde_json::to_string(name).ok()?))
    });
    RawValue::from_string(format!("{{{}}}", written.collect::<Option<Vec<_>>>()?.join(","))).ok()
}

/// The members of an object in their order, each still raw.
#[derive(Debug, Default)]
pub(crate) struct Members<'a>(pub(crate) Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                #[derive(Deserialize)]
                struct Name<'a>(#[serde(borrow)] Cow<'a, str>);
                let mut members = Vec::new();
                while let Some((Name(name), value)) = map.next_entry()? {
                    members.push((name, value));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Reader)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn names_are_read_back(server in "[a-zA-Z0-9-]([a-zA-Z0-9-]|_[a-zA-Z0-9-]){0,20}", own in "[ -~读]{1,40}") {
            let entry = format!("mcp__{server}__resources/{own}:x");
            let uri = resource_uri(&entry).unwrap();
            let (scheme, rest) = uri.split_once('+').unwrap();
            prop_assert!(scheme.starts_with(|c: char| c.is_ascii_lowercase()), "{uri}");
            let written = format!("{}+{rest}", scheme.to_ascii_uppercase());
            if !own.contains(':') {
                prop_assert_eq!(resource_entry(&written), (entry, &*format!("{own}:x")));
            }
            let entry = format!("mcp__{server}__prompts/{own}");
            prop_assert_eq!(prompt_entry(&prompt_name(&entry).unwrap()), entry);
        }

        #[test]
        fn any_uri_names_one_entry(uri in "[ -~]{0,60}") {
            let (entry, own) = resource_entry(&uri);
            prop_assert!(entry.ends_with(own));
        }
    }

    #[test]
    fn a_result_keeps_all_but_the_names_of_resources() {
        let text = r#"{"content":[{"type":"text","text":"a","n":123456789012345678901},{"type":"resource_link","uri":"a://1","x":1.50},
            {"type":"resource","resource":{"uri":"a://2","text":"t"},"annotations":{}}],"structuredContent":{"uri":"a://3"},
            "contents":[{"uri":"a://4"},7],"messages":[{"role":"user","content":{"type":"resource_link","uri":"a://5"}}]}"#;
        let raw: Box<RawValue> = serde_json::from_str(text).unwrap();
        let renamed = renamed("my_x", &raw);
        let expected = r#"{"content":[{"type":"text","text":"a","n":123456789012345678901},{"type":"resource_link","uri":"my.x+a://1","x":1.50},{"type":"resource","resource":{"uri":"my.x+a://2","text":"t"},"annotations":{}}],"structuredContent":{"uri":"a://3"},"contents":[{"uri":"my.x+a://4"},7],"messages":[{"role":"user","content":{"type":"resource_link","uri":"my.x+a://5"}}]}"#;
        assert_eq!(renamed.get(), expected);
        for plain in [r#"{"content": [ ] ,"a":1}"#, "[1]", r#"{"content":7,"contents":{}}"#] {
            let raw: Box<RawValue> = serde_json::from_str(plain).unwrap();
            assert_eq!(super::renamed("x", &raw).get(), plain);
        }
    }
}
