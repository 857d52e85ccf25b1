//! What is new in each run, so that it tells nothing about whether two runs brought the same: handles of results and
//! tags of frames, ids of questions, times.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// A group a kind: a handle, a UUID (RFC 9562 §4), a time (RFC 3339 §5.6). No word boundaries: in JSON an `\n` may stand
/// before.
const FRESH: &str = r"(res_[0-9a-f]{8,}|(?:from outside|end of data) [0-9a-f]{8})|([0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12})|[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})";

static PATTERN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(FRESH).ok());

/// Whether two texts are the same but for what is new in each run.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    one == other || masked(one) == masked(other)
}

fn masked(text: &str) -> Cow<'_, str> {
    let placeholder = |found: &Captures<'_>| match (found.get(1), found.get(2)) {
        (Some(_), _) => "<handle>",
        (None, Some(_)) => "<id>",
        (None, None) => "<time>",
    };
    match &*PATTERN {
        Some(pattern) => pattern.replace_all(text, placeholder),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_new_in_each_run_is_masked() {
        let id = "0197c0de-0000-7000-8000-000000000001";
        let cases = [
            ("shown 1 of 9: res_0197c0de000070008000000000000001".to_owned(), "shown 1 of 9: <handle>"),
            (r#"{"text":"a\nres_0123abcd"}"#.to_owned(), r#"{"text":"a\n<handle>"}"#),
            (
                format!(r#"{{"approval":"{id}","expires":"2027-01-01T00:00:00Z"}}"#),
                r#"{"approval":"<id>","expires":"<time>"}"#,
            ),
            (id.to_uppercase(), "<id>"),
            ("2027-01-01T00:00:00.123456+08:00/2027-01-01 00:00:00z".to_owned(), "<time>/<time>"),
            ("res_none res_0123 12345678-1234 2027-01-01 2027-01-01T00:00 7512292042121000001".to_owned(), ""),
        ];
        for (text, expected) in cases {
            assert_eq!(masked(&text), if expected.is_empty() { text.as_str() } else { expected });
        }
        assert!(!is_same(id, "2027-01-01T00:00:00Z"), "another kind is a difference");
    }
}
