//! One value of a row: how much of a text is shown, and how it stands in a Markdown table.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::text::run_start;

/// What is shown of one text.
pub(crate) const SHOWN_CHARS_MAX: usize = 2_000;
/// What an engine should hand over of one text, so that its end can be chosen.
pub(crate) const HELD_CHARS_MAX: usize = 4_000;

/// A text as a cell shows it, when it has `chars_total` characters and `held` is its beginning. It still has to be
/// redacted, and half of a secret is not recognised: so it ends between two words, or in JSON without spaces between two
/// members, and otherwise nothing of it is shown.
pub(crate) fn shown(held: &str, chars_total: usize) -> String {
    if chars_total <= SHOWN_CHARS_MAX {
        return held.to_owned();
    }
    let at = held.char_indices().nth(SHOWN_CHARS_MAX).map_or(held.len(), |(at, _)| at);
    let word = run_start(held, at);
    let end = if word > at / 2 { word } else { member_start(held, at).unwrap_or(word) };
    let head = held.get(..end).unwrap_or_default().trim_end();
    format!("{head}… [{} more characters]", chars_total.saturating_sub(head.chars().count()))
}

/// Where the last member of JSON begins before the byte `at`.
fn member_start(text: &str, at: usize) -> Option<usize> {
    let head = text.get(..at)?;
    if !head.starts_with(['{', '[']) {
        return None;
    }
    [",\"", ",{", ",["].iter().filter_map(|mark| head.rfind(mark)).max().map(|comma| comma + 1)
}

/// Bytes as a cell shows them.
pub(crate) fn blob(bytes: u64) -> Value {
    json!({ "blob_bytes": bytes })
}

/// Rows as a Markdown table: what models have read most of.
pub(crate) fn table<'a>(columns: &[impl AsRef<str>], rows: impl Iterator<Item = &'a [Value]>) -> String {
    let mut text = String::new();
    let mut push_row = |cells: &mut dyn Iterator<Item = Cow<'_, str>>| {
        for cell in cells {
            let _ = write!(text, "| {cell} ");
        }
        text.push_str("|\n");
    };
    push_row(&mut columns.iter().map(|name| escape(name.as_ref())));
    push_row(&mut columns.iter().map(|_| Cow::Borrowed("---")));
    for row in rows {
        push_row(&mut row.iter().map(cell));
    }
    text
}

fn cell(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => "NULL".into(),
        Value::String(text) => escape(text),
        Value::Object(blob) => {
            format!("({} bytes)", blob.get("blob_bytes").and_then(Value::as_u64).unwrap_or(0)).into()
        }
        other => other.to_string().into(),
    }
}

/// A text that stays in its cell.
pub(crate) fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['|', '\n', '\r']) {
        return text.into();
    }
    text.replace('|', "\\|").replace("\r\n", "<br>").replace(['\n', '\r'], "<br>").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_ends_where_no_secret_can_be_halved() {
        let words = "word ".repeat(1000);
        let cut = shown(&words, 5000);
        assert!(cut.starts_with("word word") && cut.ends_with("word… [3001 more characters]"), "{cut}");
        assert_eq!(shown(&"x".repeat(4000), 9000), "… [9000 more characters]");
        let json = format!("{{{}}}", "\"key\":\"value,x\",".repeat(300));
        let cut = shown(&json, json.len());
        assert!(cut.contains("\"value,x\",… ["), "{cut}");
        assert!(shown(&"键盘".repeat(2000), 4000).ends_with("键盘… [2000 more characters]"));
        assert_eq!(shown("short", 5), "short");
    }
}
