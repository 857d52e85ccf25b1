//! Small texts for models and people: cut with a mark, made visible, counted, and nearest names.

use std::borrow::Cow;
use std::fmt::Write as _;

use tollgate_types::limits;

/// How alike two names must be for one to be suggested for the other (Jaro-Winkler, 0 to 1).
const LIKENESS_MIN: f64 = 0.7;
/// How alike two words are that differ in one character or one swap.
const SLIP: f64 = 0.9;
/// How far after a cut the next line is looked for.
const LINE_CHARS_SKIPPED_MAX: usize = 200;

/// The first `chars_max` characters or a few less, with a mark where more was. It still has to be redacted: no word is
/// halved, and where there are no spaces, no token.
pub(crate) fn cut(text: &str, chars_max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars_max).and_then(|(end, _)| text.split_at_checked(whole_end(text, end))) {
        None => Cow::Borrowed(text),
        Some((head, rest)) => Cow::Owned(format!("{head}… [{} more characters]", rest.chars().count())),
    }
}

/// Where a text ends that may go to the byte `at`, when half of a secret must not be in it: between two words, or in
/// writing without spaces, such as minified code, between two tokens.
pub(crate) fn whole_end(text: &str, at: usize) -> usize {
    let word = run_start(text, at);
    if word > at / 2 {
        return word;
    }
    let is_token = |c: char| c.is_alphanumeric() || "_-+/=.~%".contains(c);
    let head = text.get(..at).unwrap_or(text);
    let goes_on = text.get(at..).is_some_and(|rest| rest.starts_with(is_token));
    let token = if goes_on { head.trim_end_matches(is_token).len() } else { head.len() };
    token.max(word)
}

/// About the first `chars_max` characters, for what still has to be redacted: half of a secret is not recognised, so a
/// run without a space is shown whole or not at all.
pub(crate) fn head(text: &str, chars_max: usize) -> Cow<'_, str> {
    let at = text.char_indices().nth(chars_max).map(|(at, _)| run_start(text, at));
    match at.and_then(|at| text.split_at_checked(at)) {
        None => Cow::Borrowed(text),
        Some((head, rest)) => Cow::Owned(format!("{}… [{} more characters]", head.trim_end(), rest.chars().count())),
    }
}

/// About the last `chars_max` characters, in whole runs as in [`head`], from a line's start where one is near.
pub(crate) fn tail(text: &str, chars_max: usize) -> Cow<'_, str> {
    let Some(last) = chars_max.checked_sub(1) else { return Cow::Borrowed("…") };
    match text.char_indices().nth_back(last) {
        None | Some((0, _)) => Cow::Borrowed(text),
        Some((at, _)) => Cow::Owned(format!("…{}", resumed(text, at))),
    }
}

/// A text whose beginning somebody cut off, from its first whole run on.
pub(crate) fn beheaded(text: &str) -> Cow<'_, str> {
    let first = text.chars().next().map_or(0, char::len_utf8);
    Cow::Owned(format!("…{}", resumed(text, first)))
}

/// What follows a cut at the byte `at`.
fn resumed(text: &str, at: usize) -> &str {
    let at = run_end(text, at);
    let (before, rest) = text.split_at_checked(at).unwrap_or((text, ""));
    if before.ends_with('\n') {
        return rest;
    }
    // A secret after its name is recognised by the name: both stand on one line.
    let line = rest.char_indices().take(LINE_CHARS_SKIPPED_MAX).find(|(_, c)| *c == '\n');
    line.and_then(|(end, _)| rest.get(end + 1..)).unwrap_or(rest).trim_start()
}

/// Where the run begins that a cut at the byte `at` would halve; `at` itself when it is between two.
pub(crate) fn run_start(text: &str, at: usize) -> usize {
    let (before, rest) = text.split_at_checked(at).unwrap_or((text, ""));
    let Some(mut next) = rest.chars().next() else { return before.len() };
    for (index, c) in before.char_indices().rev() {
        if is_between(c, next) {
            return index + c.len_utf8();
        }
        next = c;
    }
    0
}

/// Where the run ends that a cut at the byte `at` would halve; `at` itself when it is between two.
pub(crate) fn run_end(text: &str, at: usize) -> usize {
    let (before, rest) = text.split_at_checked(at).unwrap_or((text, ""));
    let Some(mut last) = before.chars().next_back() else { return 0 };
    for (index, c) in rest.char_indices() {
        if is_between(last, c) {
            return at + index;
        }
        last = c;
    }
    text.len()
}

/// Whether a text may be cut between the two: at a space, and in writing that has no spaces anywhere.
fn is_between(a: char, b: char) -> bool {
    let ends = |c: char| {
        c.is_whitespace()
            || matches!(c, '\u{2e80}'..='\u{9fff}' | '\u{f900}'..='\u{faff}' | '\u{ff00}'..='\u{ffef}')
            || matches!(c, '\u{20000}'..='\u{3ffff}')
    };
    ends(a) || ends(b)
}

/// The text with everything that a terminal would act on, or a reader would not see, written out.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_invisible) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_invisible(c) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

fn is_invisible(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
        || matches!(c, '\u{e0000}'..='\u{e007f}')
}

/// `1 row`, `2 rows`.
pub(crate) fn count(n: u64, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// A size for people.
pub(crate) fn bytes(n: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if n < 1000 {
        return count(n, "byte");
    }
    let (mut tenths, mut unit) = (n / 100, 0);
    while tenths >= 10_000 && unit + 1 < UNITS.len() {
        tenths /= 1000;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS.get(unit).copied().unwrap_or("TB"))
}

/// The names most like `wanted`, best first, for a hint.
pub(crate) fn nearest<I: IntoIterator<Item = String>>(wanted: &str, names: I) -> Vec<String> {
    let wanted = wanted.to_lowercase();
    let mut scored: Vec<(f64, String)> = names
        .into_iter()
        .map(|name| (likeness(&wanted, &name.to_lowercase()), name))
        .filter(|(score, _)| *score >= LIKENESS_MIN)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    scored.into_iter().take(limits::SUGGESTIONS_MAX).map(|(_, name)| name).collect()
}

/// Jaro-Winkler, which counts a swap in a short word as a wholly other word; one slip is a near miss in any word.
fn likeness(a: &str, b: &str) -> f64 {
    let is_slip = a.chars().count() > 2 && strsim::osa_distance(a, b) <= 1;
    strsim::jaro_winkler(a, b).max(if is_slip { SLIP } else { 0.0 })
}

/// Names in backticks with commas.
pub(crate) fn ticked<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    let mut text = String::new();
    for name in names {
        let comma = if text.is_empty() { "" } else { ", " };
        let _ = write!(text, "{comma}`{}`", name.as_ref());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_cut_inside_a_character() {
        assert_eq!(cut("无线键盘", 2), "无线… [2 more characters]");
        assert_eq!(cut("无线", 2), "无线");
        assert_eq!(tail("无线键盘", 2), "…键盘");
        assert_eq!(tail("键盘", 2), "键盘");
    }

    #[test]
    fn a_token_is_cut_off_whole() {
        for (text, chars, expected) in [
            ("one two three", 9, "one two … [5 more characters]"),
            ("f(a){return b.c}", 14, "f(a){return … [4 more characters]"),
            ("{\"a\":1,\"key\":\"hunter2-hunter2\"}", 20, "{\"a\":1,\"key\":\"… [17 more characters]"),
            ("hunter2-hunter2-hunter2", 10, "… [23 more characters]"),
        ] {
            assert_eq!(cut(text, chars), expected);
        }
    }

    #[test]
    fn a_run_is_shown_whole_or_not_at_all() {
        let secret = "hunter2".repeat(40);
        for at in 0..secret.len() {
            let padding = "x ".repeat(500);
            let text = format!("{padding}{secret} end\n{padding}");
            for shown in [head(&text, padding.len() + at), tail(&text, padding.len() + 5 + secret.len() - at)] {
                assert!(!shown.contains("hunter2") || shown.contains(&secret), "{at}: {shown}");
            }
        }
        for (text, chars, expected) in [
            ("one two three", 8, "one two… [5 more characters]"),
            ("one two three", 7, "one two… [6 more characters]"),
            ("onetwothree", 5, "… [11 more characters]"),
            ("密码是hunter2的", 6, "密码是… [8 more characters]"),
            ("one", 3, "one"),
        ] {
            assert_eq!(head(text, chars), expected);
        }
        for (text, chars, expected) in [
            ("one two three", 8, "…three"),
            ("one two three", 5, "…three"),
            ("onetwothree", 5, "…"),
            ("password: hunter2\nthe end", 20, "…the end"),
            ("one\ntwo\nthree", 9, "…two\nthree"),
            ("one", 3, "one"),
        ] {
            assert_eq!(tail(text, chars), expected, "{text}");
        }
        assert_eq!(beheaded("ter2 and more"), "…and more");
        assert_eq!(beheaded("ter2"), "…");
    }

    #[test]
    fn what_a_terminal_acts_on_is_written_out() {
        assert_eq!(visible("a\u{1b}[2J\u{202e}b"), "a\\u{1b}[2J\\u{202e}b");
        assert_eq!(visible("键盘\n\tx"), "键盘\n\tx");
    }

    #[test]
    fn sizes_and_names() {
        assert_eq!(
            [0, 1, 999, 1000, 999_999, 1_500_000].map(bytes),
            ["0 bytes", "1 byte", "999 bytes", "1.0 kB", "999.9 kB", "1.5 MB"]
        );
        assert_eq!(nearest("prodcts", ["orders", "products"].map(String::from)), ["products"]);
        assert_eq!(nearest("scr", ["docs", "src"].map(String::from)).first().map(String::as_str), Some("src"));
        assert_eq!(nearest("无线键盘", ["无线鼠标键盘", "椅子"].map(String::from)), ["无线鼠标键盘"]);
    }
}
