//! Small texts for models and people: cut with a mark, made visible, counted, and nearest names.

use std::borrow::Cow;
use std::fmt::Write as _;

use tollgate_types::limits;

/// How alike two names must be for one to be suggested for the other (Jaro-Winkler, 0 to 1).
const LIKENESS_MIN: f64 = 0.7;
/// How alike two words are that differ in one character or one swap.
const SLIP: f64 = 0.9;

/// The first `chars_max` characters, with a mark where more was.
pub(crate) fn cut(text: &str, chars_max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars_max).and_then(|(end, _)| text.split_at_checked(end)) {
        None => Cow::Borrowed(text),
        Some((head, rest)) => Cow::Owned(format!("{head}… [{} more characters]", rest.chars().count())),
    }
}

/// The last `chars_max` characters.
pub(crate) fn tail(text: &str, chars_max: usize) -> Cow<'_, str> {
    let count = text.chars().count();
    if count <= chars_max {
        return Cow::Borrowed(text);
    }
    let kept: String = text.chars().skip(count - chars_max).collect();
    Cow::Owned(format!("…{kept}"))
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
