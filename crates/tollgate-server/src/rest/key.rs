//! The idempotency key of a request: in its body, or in the header `Idempotency-Key`.

use axum::http::{HeaderMap, HeaderValue};

use crate::problem::Problem;

const HEADER: &str = "idempotency-key";

/// The key that the request gives, if it does.
pub(super) fn given(headers: &HeaderMap, body: Option<String>) -> Result<Option<String>, Problem> {
    let mut values = headers.get_all(HEADER).iter();
    let header = match (values.next(), values.next()) {
        (None, _) => return Ok(body),
        (Some(value), None) => read(value).ok_or_else(|| {
            Problem::bad_request("`Idempotency-Key` is not a key").with_hint("send `Idempotency-Key: \"order-4711\"`")
        })?,
        (Some(_), Some(_)) => return Err(Problem::bad_request("`Idempotency-Key` is there twice")),
    };
    if body.as_ref().is_some_and(|body| *body != header) {
        return Err(Problem::bad_request("`Idempotency-Key` and `idempotency_key` are two keys: send one of them"));
    }
    Ok(Some(header))
}

/// A string of structured fields (draft-ietf-httpapi-idempotency-key-header-07 §2.1, RFC 9651 §3.3.3), or the bare key that
/// clients send who do not know of those.
fn read(value: &HeaderValue) -> Option<String> {
    let text = value.to_str().ok()?.trim_matches(' ');
    let Some(quoted) = text.strip_prefix('"') else {
        let is_bare = !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic() && !"\"\\,;".contains(c));
        return is_bare.then(|| text.to_owned());
    };
    let (mut key, mut characters) = (String::new(), quoted.chars());
    loop {
        match characters.next()? {
            '"' => return (characters.as_str().is_empty() && !key.is_empty()).then_some(key),
            '\\' => key.push(characters.next().filter(|c| matches!(c, '"' | '\\'))?),
            c @ ' '..='~' => key.push(c),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(header: &[u8]) -> Option<String> {
        read(&HeaderValue::from_bytes(header).unwrap())
    }

    #[test]
    fn strings_and_bare_keys_are_read_and_nothing_else() {
        for (header, expected) in [
            (r#""8e03978e-40d5-43e8-bc93-6894a57f9324""#, Some("8e03978e-40d5-43e8-bc93-6894a57f9324")),
            ("8e03978e-40d5-43e8-bc93-6894a57f9324", Some("8e03978e-40d5-43e8-bc93-6894a57f9324")),
            (r#""a \"b\" \\ c""#, Some(r#"a "b" \ c"#)),
            (r#"  "a"  "#, Some("a")),
            (r#""a"#, None),
            (r#""a\n""#, None),
            (r#""a";v=1"#, None),
            (r#""""#, None),
            ("a, b", None),
            ("a b", None),
            ("", None),
            ("\"a\tb\"", None),
        ] {
            assert_eq!(key(header.as_bytes()).as_deref(), expected, "{header}");
        }
        assert_eq!(key("\"订单\"".as_bytes()), None, "only ASCII goes into a header");
    }
}
