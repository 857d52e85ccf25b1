//! What was probably meant: for a name that is not there, the few that are plausible.

use tollgate_types::{ErrorObject, Text, alternatives, limits};

/// Of a name that was asked for, what is compared.
const ASKED_CHARS_MAX: usize = 128;
/// A name shorter than this is no plausible beginning or end of another.
const PART_CHARS_MIN: usize = 3;

/// The plausible ones among `names`, best first, at most [`limits::SUGGESTIONS_MAX`].
///
/// Plausible is: the same but for case and separators, or behind a prefix that models add (`functions.read_file`); the
/// same words in another order; a beginning or end of the other; a few letters apart.
///
/// ```
/// use tollgate_catalog::nearest;
///
/// let names = ["read_file", "write_file", "calculate"];
/// assert_eq!(nearest("functions.read_flie", names), ["read_file"]);
/// assert!(nearest("send_email", names).is_empty());
/// ```
pub fn nearest<'a>(asked: &str, names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let asked: String = asked.chars().take(ASKED_CHARS_MAX).collect();
    let asked = asked.rsplit(['.', ':', '/']).next().unwrap_or_default();
    let (folded, words) = (fold(asked), words(asked));
    if folded.is_empty() {
        return Vec::new();
    }
    let mut found: Vec<(usize, &str)> =
        names.into_iter().filter_map(|name| Some((distance(&folded, &words, name)?, name))).collect();
    found.sort_unstable();
    found.into_iter().take(limits::SUGGESTIONS_MAX).map(|(_, name)| name.to_owned()).collect()
}

/// What is said of a name that is no tool of the asker's, with the nearest among `listed`: what the asker may see. It is
/// the only text for that, so that a tool which is kept from the asker is told from none.
///
/// ```
/// use tollgate_catalog::unknown_tool;
///
/// let error = unknown_tool("read_flie", ["read_file"]);
/// assert_eq!(error.message, "no tool is named `read_flie`");
/// assert_eq!(error.hint.as_deref(), Some("did you mean `read_file`?"));
/// ```
pub fn unknown_tool<'a>(asked: &str, listed: impl IntoIterator<Item = &'a str>) -> ErrorObject {
    let name: String = asked.chars().take(limits::TOOL_NAME_CHARS_MAX).collect();
    let near = alternatives(nearest(asked, listed));
    let text = if near.is_empty() { Text::UnknownTool } else { Text::UnknownToolNear };
    text.error(&[("name", &name.escape_debug()), ("near", &near)])
}

/// How far a name is from what was asked; none where it is not plausible.
fn distance(asked: &str, asked_words: &[String], name: &str) -> Option<usize> {
    let folded = fold(name);
    let (short, long) = if folded.len() < asked.len() { (folded.as_str(), asked) } else { (asked, folded.as_str()) };
    let is_part = short.chars().count() >= PART_CHARS_MIN && (long.starts_with(short) || long.ends_with(short));
    match strsim::osa_distance(asked, &folded) {
        0 => Some(0),
        _ if words(name) == asked_words => Some(1),
        edits if edits <= (asked.chars().count() / 4).max(1) && edits < folded.chars().count() => Some(1 + edits),
        edits if is_part => Some(1 + edits.min(ASKED_CHARS_MAX)),
        _ => None,
    }
}

/// A name without case and separators: what looks alike is alike.
pub(crate) fn fold(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase).collect()
}

/// The words of a name, sorted.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> =
        name.split(['_', '-']).filter(|word| !word.is_empty()).map(str::to_lowercase).collect();
    words.sort_unstable();
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 7] =
        ["read_file", "write_file", "read_result", "calculate", "mcp__docs__search", "list_files", "id"];

    #[test]
    fn plausible_names() {
        let cases: [(&str, &[&str]); 12] = [
            ("read_file", &["read_file"]),
            ("functions.read_file", &["read_file"]),
            ("default_api:Read-File", &["read_file"]),
            ("tools/readFile", &["read_file"]),
            ("raed_file", &["read_file"]),
            ("file_read", &["read_file"]),
            ("calc", &["calculate"]),
            ("search", &["mcp__docs__search"]),
            ("read", &["read_file", "read_result"]),
            ("send_email", &[]),
            ("", &[]),
            ("x", &[]),
        ];
        for (asked, expected) in cases {
            assert_eq!(nearest(asked, NAMES), expected, "{asked}");
        }
    }

    #[test]
    fn a_hostile_name_costs_little() {
        assert!(nearest(&"a".repeat(1_000_000), NAMES).is_empty());
        assert!(nearest("读取文件", NAMES).is_empty());
    }
}
