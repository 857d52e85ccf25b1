//! The address of an HTTP tool with places for arguments. The origin is fixed text; what fills a place stays one
//! segment of the path, or one value of the query, whatever it contains.

use std::fmt::Write as _;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value};
use tollgate_types::{Code, ToolError};
use url::Url;

/// Everything but the unreserved characters of RFC 3986 §2.3.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// An address with places.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    pieces: Vec<Piece>,
    /// The segments of the path as they were written.
    segments: Vec<String>,
    origin: url::Origin,
}

#[derive(Debug, Clone)]
enum Piece {
    Text(String),
    Place(String),
}

impl Template {
    /// Reads an address such as `https://example.com/weather/{city}`; the error says what is wrong with it.
    pub(crate) fn new(address: &str) -> Result<Self, String> {
        let after_scheme = address.find("://").map_or(0, |at| at + 3);
        let path_at = address
            .get(after_scheme..)
            .and_then(|rest| rest.find(['/', '?', '#']))
            .map_or(address.len(), |at| after_scheme + at);
        let (origin, rest) = address.split_at_checked(path_at).unwrap_or((address, ""));
        if origin.contains(['{', '}']) {
            return Err("a placeholder may stand only after the host, so that no argument chooses the server".into());
        }
        let parsed = Url::parse(origin).map_err(|error| format!("it is no absolute address: {error}"))?;
        if !matches!(parsed.scheme(), "http" | "https") {
            return Err("it must begin with `http://` or `https://`".into());
        }
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err("credentials belong into `headers`, as `{ env = \"NAME\" }`".into());
        }
        if rest.contains('#') {
            return Err("a fragment (`#`) is never sent to a server".into());
        }
        let path = rest.split('?').next().unwrap_or_default();
        let mut template = Self {
            pieces: pieces(rest)?,
            segments: path.split('/').map(str::to_owned).collect(),
            origin: parsed.origin(),
        };
        template.pieces.insert(0, Piece::Text(origin.to_owned()));
        Ok(template)
    }

    /// The names of the places.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Place(name) => Some(name.as_str()),
            Piece::Text(_) => None,
        })
    }

    /// The address for these arguments.
    ///
    /// # Errors
    /// `invalid_arguments` for a value that can not stand in its place.
    pub(crate) fn fill(&self, arguments: &Map<String, Value>) -> Result<String, ToolError> {
        let mut address = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => address.push_str(text),
                Piece::Place(name) => {
                    let value = arguments.get(name).and_then(scalar).ok_or_else(|| {
                        ToolError::invalid(format!("/{name}"), "is part of the address: a text or a number is needed")
                    })?;
                    let _ = write!(address, "{}", utf8_percent_encode(&value, ENCODED));
                }
            }
        }
        self.refuse_dots(&address)?;
        // INVARIANT: the origin is the operator's, whatever the arguments are.
        match Url::parse(&address) {
            Ok(url) if url.origin() == self.origin => Ok(address),
            Ok(_) | Err(_) => Err(ToolError::with_code(Code::Internal, "the address left its origin")),
        }
    }

    /// A whole segment of dots, or an empty one, would make another path.
    fn refuse_dots(&self, address: &str) -> Result<(), ToolError> {
        let path_len = self.pieces.first().map_or(0, |piece| match piece {
            Piece::Text(origin) | Piece::Place(origin) => origin.len(),
        });
        let path = address.get(path_len..).unwrap_or_default().split('?').next().unwrap_or_default();
        for (written, filled) in self.segments.iter().zip(path.split('/')) {
            if written.contains('{') && matches!(filled, "" | "." | "..") {
                let name = written.split(['{', '}']).nth(1).unwrap_or_default();
                return Err(ToolError::invalid(format!("/{name}"), "can not be empty, `.` or `..` in an address"));
            }
        }
        Ok(())
    }
}

/// The address with more query parameters; an array gives one each.
pub(crate) fn with_query(mut address: String, parameters: &Map<String, Value>) -> String {
    for (name, value) in parameters {
        let values = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        for value in values.iter().filter(|value| !value.is_null()) {
            let sign = if address.contains('?') { '&' } else { '?' };
            let value = scalar(value).unwrap_or_else(|| value.to_string());
            let (name, value) = (utf8_percent_encode(name, ENCODED), utf8_percent_encode(&value, ENCODED));
            let _ = write!(address, "{sign}{name}={value}");
        }
    }
    address
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn pieces(text: &str) -> Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').ok_or("a `{` without its `}`")?;
        let is_name = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
        if before.contains('}') || !is_name {
            return Err(format!("`{{{name}}}` is no placeholder; write `{{name}}`"));
        }
        pieces.push(Piece::Text(before.to_owned()));
        pieces.push(Piece::Place(name.to_owned()));
        rest = after;
    }
    if rest.contains('}') {
        return Err("a `}` without its `{`".into());
    }
    pieces.push(Piece::Text(rest.to_owned()));
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fill(template: &str, arguments: Value) -> Result<String, ToolError> {
        Template::new(template).unwrap().fill(arguments.as_object().unwrap())
    }

    #[test]
    fn a_value_stays_one_segment() {
        let template = "https://api.test/v1/{city}/now?lang={lang}";
        for (city, filled) in [
            ("北京", "%E5%8C%97%E4%BA%AC"),
            ("a/b", "a%2Fb"),
            ("../admin", "..%2Fadmin"),
            ("@evil.test", "%40evil.test"),
            ("x?y#z", "x%3Fy%23z"),
            ("%2e%2e", "%252e%252e"),
            ("a\r\nHost: b", "a%0D%0AHost%3A%20b"),
            ("\\\\evil", "%5C%5Cevil"),
        ] {
            let url = fill(template, json!({"city": city, "lang": "a&b=c"})).unwrap();
            assert_eq!(url, format!("https://api.test/v1/{filled}/now?lang=a%26b%3Dc"));
        }
        for city in [json!(".."), json!("."), json!(""), json!(null), json!(["a"]), json!({})] {
            let error = fill(template, json!({"city": city, "lang": 1})).unwrap_err();
            assert_eq!(error.details[0].path, "/city");
        }
        assert!(fill("http://h/{a}{b}", json!({"a": ".", "b": "."})).is_err());
    }

    #[test]
    fn an_address_that_arguments_could_bend_is_refused() {
        for address in [
            "https://{host}/x",
            "{scheme}://host/x",
            "https://user:key@host/x",
            "ftp://host/x",
            "host/x",
            "https://host/{a",
            "https://host/a}",
            "https://host/{}",
            "https://host/{a b}",
            "https://host/x#{a}",
            "https://host:{port}/",
            "",
        ] {
            assert!(Template::new(address).is_err(), "{address}");
        }
    }

    #[test]
    fn the_rest_becomes_the_query() {
        let rest = json!({"q": "a b", "n": 2, "skip": null, "tag": ["x", "y"]});
        let url = with_query("http://h/x?k=1".into(), rest.as_object().unwrap());
        assert_eq!(url, "http://h/x?k=1&q=a%20b&n=2&tag=x&tag=y");
    }
}
