//! Replacing exact text in a text: finding it, saying why it is not found or found too often, and showing the change.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;

use tollgate_types::ToolError;

use crate::text::cut;

const REPLACEMENTS_MAX: usize = 100_000;
const CONTEXT_LINES: usize = 3;
const HUNKS_SHOWN_MAX: usize = 3;
const HUNK_LINES_MAX: usize = 60;
const SHOWN_LINE_CHARS_MAX: usize = 300;
const LINES_NAMED_MAX: usize = 20;
const NEAR_MAX: usize = 3;
/// Lines compared for the most similar one.
const NEAR_LINES_MAX: usize = 20_000;
/// What of a line is compared.
const NEAR_LINE_CHARS_MAX: usize = 200;
/// How alike a line must be to be named (Sørensen-Dice, 0 to 1).
const NEAR_MIN: f64 = 0.5;

/// A replacement worked out, not yet written.
#[derive(Debug)]
pub(crate) struct Change {
    /// The whole new text.
    pub(crate) text: String,
    /// How many places change.
    pub(crate) replacements: usize,
    /// The line of the first, from 1.
    pub(crate) first_line: usize,
    /// The places as a diff with some lines around.
    pub(crate) diff: String,
}

/// Replaces `old` by `new`: once, or with `all` everywhere. Line ends of both follow the text's own.
pub(crate) fn replace(text: &str, old: &str, new: &str, all: bool) -> Result<Change, ToolError> {
    let ends = LineEnds::of(text);
    let (fitted, new) = (ends.fit(old), ends.fit(new));
    let mut found = find(text, &fitted);
    let mut width = fitted.len();
    if found.is_empty() && fitted != old {
        found = find(text, old);
        width = old.len();
    }
    match found.as_slice() {
        [] => return Err(no_match(text, old)),
        [_, _, ..] if !all => return Err(ambiguous(text, &found)),
        found if found.len() > REPLACEMENTS_MAX => {
            return Err(ToolError::new(format!("`old_text` occurs more than {REPLACEMENTS_MAX} times"))
                .with_tool_code("TOO_MANY")
                .with_hint("replace a longer text"));
        }
        _ => {}
    }
    let first_line = found.first().map_or(0, |&at| line_of(text, at));
    Ok(Change {
        text: replaced(text, 0..text.len(), &found, width, &new),
        replacements: found.len(),
        first_line,
        diff: diff(text, &found, width, &new),
    })
}

/// Whether there is anything to replace.
pub(crate) fn occurs(text: &str, old: &str) -> bool {
    text.contains(old) || text.contains(&*LineEnds::of(text).fit(old))
}

fn find(text: &str, old: &str) -> Vec<usize> {
    text.match_indices(old).map(|(at, _)| at).take(REPLACEMENTS_MAX + 1).collect()
}

/// How the lines of a text end, where they do.
#[derive(Clone, Copy)]
enum LineEnds {
    Lf,
    CrLf,
    None,
}

impl LineEnds {
    fn of(text: &str) -> Self {
        let all = text.bytes().filter(|&byte| byte == b'\n').count();
        let crlf = text.matches("\r\n").count();
        match all {
            0 => Self::None,
            all if crlf * 2 > all => Self::CrLf,
            _ => Self::Lf,
        }
    }

    fn fit(self, text: &str) -> Cow<'_, str> {
        match self {
            Self::Lf if text.contains("\r\n") => text.replace("\r\n", "\n").into(),
            Self::CrLf if text.contains('\n') => text.replace("\r\n", "\n").replace('\n', "\r\n").into(),
            Self::Lf | Self::CrLf | Self::None => text.into(),
        }
    }
}

/// `text[range]` with each place in `found` replaced.
fn replaced(text: &str, range: Range<usize>, found: &[usize], width: usize, new: &str) -> String {
    let mut result = String::with_capacity(range.len() + new.len());
    let mut from = range.start;
    for &at in found {
        result.push_str(text.get(from..at).unwrap_or_default());
        result.push_str(new);
        from = at + width;
    }
    result.push_str(text.get(from..range.end).unwrap_or_default());
    result
}

fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|&byte| byte == b'\n').count() + 1
}

fn diff(text: &str, found: &[usize], width: usize, new: &str) -> String {
    let mut shown = String::new();
    let mut rest = found;
    for _ in 0..HUNKS_SHOWN_MAX {
        let Some((&first, _)) = rest.split_first() else { return shown };
        let start = text.get(..first).and_then(|head| head.rfind('\n')).map_or(0, |end| end + 1);
        let (mut end, mut taken) = (start, 0);
        // What changes on the same lines is one hunk.
        while let Some(&at) = rest.get(taken).filter(|&&at| taken == 0 || at < end) {
            end = line_end(text, (at + width).saturating_sub(1).max(at));
            taken += 1;
        }
        let (here, later) = rest.split_at(taken);
        let _ = writeln!(shown, "@@ line {} @@", line_of(text, start));
        let before = text.get(..start).unwrap_or_default().lines().rev().take(CONTEXT_LINES).collect::<Vec<_>>();
        push_lines(&mut shown, ' ', before.into_iter().rev());
        push_lines(&mut shown, '-', text.get(start..end).unwrap_or_default().lines());
        push_lines(&mut shown, '+', replaced(text, start..end, here, width, new).lines());
        push_lines(&mut shown, ' ', text.get(end..).unwrap_or_default().lines().take(CONTEXT_LINES));
        rest = later;
    }
    if !rest.is_empty() {
        let _ = writeln!(shown, "… and {} more", rest.len());
    }
    shown
}

fn line_end(text: &str, at: usize) -> usize {
    let rest = text.as_bytes().get(at..).unwrap_or_default();
    rest.iter().position(|&byte| byte == b'\n').map_or(text.len(), |end| at + end + 1)
}

fn push_lines<'a>(shown: &mut String, mark: char, mut lines: impl Iterator<Item = &'a str>) {
    for line in lines.by_ref().take(HUNK_LINES_MAX) {
        let _ = writeln!(shown, "{mark}{}", cut(line, SHOWN_LINE_CHARS_MAX));
    }
    let more = lines.count();
    if more > 0 {
        let _ = writeln!(shown, "{mark}… [{more} more lines]");
    }
}

fn ambiguous(text: &str, found: &[usize]) -> ToolError {
    let mut numbers: Vec<String> =
        found.iter().take(LINES_NAMED_MAX).map(|&at| line_of(text, at).to_string()).collect();
    if found.len() > LINES_NAMED_MAX {
        numbers.push("…".into());
    }
    ToolError::new(format!("`old_text` occurs {} times, on the lines {}", found.len(), numbers.join(", ")))
        .with_tool_code("AMBIGUOUS")
        .with_hint("take more of the lines around into old_text until it is unique, or set replace_all=true")
}

fn no_match(text: &str, old: &str) -> ToolError {
    let error = ToolError::new("`old_text` does not occur in the file").with_tool_code("NO_MATCH");
    let wanted: Vec<String> = old.lines().map(squash).filter(|line| !line.is_empty()).collect();
    let lines: Vec<(usize, &str, String)> = text
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line, squash(line)))
        .filter(|(.., squashed)| !squashed.is_empty())
        .collect();
    let same: Vec<String> = lines
        .windows(wanted.len().max(1))
        .filter(|window| match wanted.as_slice() {
            [] => false,
            [only] => window.iter().all(|(.., line)| line.contains(only.as_str())),
            many => window.iter().zip(many).all(|((.., line), wanted)| line == wanted),
        })
        .filter_map(|window| window.first().map(|(number, ..)| number.to_string()))
        .take(NEAR_MAX)
        .collect();
    if !same.is_empty() {
        let at = same.join(", ");
        return error.with_hint(format!(
            "the same text with other white space begins on line {at}: read it with read_file and copy it exactly"
        ));
    }
    let longest = wanted.iter().max_by_key(|line| line.len());
    let nearest = longest.and_then(|wanted| {
        let wanted = start(wanted);
        let scored =
            lines.iter().take(NEAR_LINES_MAX).map(|line| (strsim::sorensen_dice(wanted, start(&line.2)), line));
        scored.filter(|(score, _)| *score >= NEAR_MIN).max_by(|a, b| a.0.total_cmp(&b.0))
    });
    match nearest {
        Some((_, (number, line, _))) => error.with_hint(format!(
            "the nearest is line {number}: `{}`; read the file with read_file and copy the text exactly",
            cut(line.trim(), SHOWN_LINE_CHARS_MAX)
        )),
        None => error.with_hint("nothing like it is in the file; read it with read_file first"),
    }
}

fn start(line: &str) -> &str {
    line.char_indices().nth(NEAR_LINE_CHARS_MAX).and_then(|(end, _)| line.get(..end)).unwrap_or(line)
}

fn squash(line: &str) -> String {
    line.chars().filter(|c| !c.is_whitespace()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_follow_the_file() {
        for (text, old, new, expected) in [
            ("a\r\nb\r\n", "a\nb", "x\ny", "x\r\ny\r\n"),
            ("a\r\nb\r\n", "a\r\nb", "x\ny", "x\r\ny\r\n"),
            ("a\nb\n", "a\r\nb", "x\r\ny", "x\ny\n"),
            ("a\r\nb\r\n", "b", "b\nc", "a\r\nb\r\nc\r\n"),
            ("\u{feff}a\tb\n", "a\tb", "键\t盘", "\u{feff}键\t盘\n"),
            ("one line", "one", "a", "a line"),
            ("a\r\nb\nc\n", "a\r\nb", "x", "x\nc\n"),
        ] {
            assert_eq!(replace(text, old, new, false).unwrap().text, expected, "{text:?}");
        }
    }

    #[test]
    fn the_change_is_shown_with_lines_around() {
        let text = "1\n2\n3\n4\n5 x x\n6\n7\n8\n9\n";
        let change = replace(text, "x", "键盘", true).unwrap();
        assert_eq!(change.diff, "@@ line 5 @@\n 2\n 3\n 4\n-5 x x\n+5 键盘 键盘\n 6\n 7\n 8\n");
        assert_eq!((change.replacements, change.first_line), (2, 5));
        let change = replace("a\nb\nc\n", "b\n", "", false).unwrap();
        assert_eq!(change.diff, "@@ line 2 @@\n a\n-b\n c\n");
    }

    #[test]
    fn what_is_not_found_or_not_unique_says_where_to_look() {
        let near = replace("fn a() {\n    b();\n}\n", "fn a() {\n  b();\n}", "", false).unwrap_err();
        assert_eq!(near.tool_code.as_deref(), Some("NO_MATCH"));
        assert!(near.hint.unwrap().contains("line 1"));
        let near = replace("let total = price * count;\n", "let total = price * counts;", "", false).unwrap_err();
        assert!(near.hint.unwrap().contains("nearest is line 1"));
        let many = replace("a\nb\na\n", "a", "c", false).unwrap_err();
        assert_eq!(many.tool_code.as_deref(), Some("AMBIGUOUS"));
        assert!(many.message.contains("lines 1, 3"));
    }
}
