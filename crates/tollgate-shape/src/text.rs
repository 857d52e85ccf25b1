//! Texts cut behind a line or a sentence, never inside a character.

use tollgate_types::CutAt;

use crate::items::Listing;
use crate::measure::{Limits, count};

/// A text of which only its ends are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextCut<'a> {
    /// The beginning.
    pub head: &'a str,
    /// The end; empty unless it was asked for.
    pub tail: &'a str,
    /// How many whole lines or sentences that is.
    pub shown: usize,
    /// How many there are.
    pub total: usize,
    /// What was counted: `lines` or `sentences`.
    pub unit: &'static str,
}

/// Shows what fits of a text within `listing`. None when that is all of it. A line or a sentence that alone is too long
/// is cut inside, and not counted.
///
/// ```
/// use tollgate_shape::{Limits, Listing, cut_text};
/// use tollgate_types::CutAt;
///
/// let cut = cut_text("今天有雨。明天晴。后天阴。", &Limits::chars(10), Listing::default(), CutAt::Sentence).unwrap();
/// assert_eq!((cut.head, cut.shown, cut.total), ("今天有雨。明天晴。", 2, 3));
/// ```
pub fn cut_text<'a>(text: &'a str, limits: &Limits, listing: Listing, at: CutAt) -> Option<TextCut<'a>> {
    let fits = limits.hold_text(text);
    if fits && listing.is_open() {
        return None;
    }
    let (unit, total) = match at {
        CutAt::Line | CutAt::Item => ("lines", lines_in(text)),
        CutAt::Sentence => ("sentences", units(text, at).count()),
    };
    let (head_most, tail_most) = listing.ends(total);
    if fits && head_most + tail_most >= total {
        return None;
    }
    let (tail_from, tail_shown) = last_lines(text, tail_most, &limits.half());
    let (before, tail) = text.split_at_checked(tail_from).unwrap_or((text, ""));
    let room = limits.minus(limits.usage(tail));
    let (mut end, mut shown, mut left) = (0, 0, room);
    for piece in units(before, at).take(head_most) {
        if !left.hold_text(piece) {
            break;
        }
        left = left.minus(left.usage(piece));
        (end, shown) = (end + piece.len(), shown + 1);
    }
    if shown == 0 && head_most > 0 {
        end = room.end_in(before);
    }
    let head = before.get(..end).unwrap_or_default();
    Some(TextCut { head, tail, shown: shown + tail_shown, total, unit })
}

/// As `str::lines` counts them.
fn lines_in(text: &str) -> usize {
    count(text.as_bytes(), |byte| byte == b'\n') + usize::from(!text.is_empty() && !text.ends_with('\n'))
}

/// Where the last lines begin that fit, and how many they are.
fn last_lines(text: &str, most: usize, room: &Limits) -> (usize, usize) {
    let (mut from, mut shown, mut left) = (text.len(), 0, *room);
    while shown < most && from > 0 {
        let before = text.get(..from).unwrap_or_default();
        let inner = before.strip_suffix('\n').unwrap_or(before);
        let start = inner.rfind('\n').map_or(0, |at| at + 1);
        let line = before.get(start..).unwrap_or_default();
        if !left.hold_text(line) {
            break;
        }
        left = left.minus(left.usage(line));
        (from, shown) = (start, shown + 1);
    }
    (from, shown)
}

/// A text in its lines or sentences, each with all that stands up to the next.
fn units(text: &str, at: CutAt) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let end = match at {
            CutAt::Line | CutAt::Item => rest.find('\n').map_or(rest.len(), |at| at + 1),
            CutAt::Sentence => sentence_end(rest),
        };
        let (piece, after) = rest.split_at_checked(end).filter(|(piece, _)| !piece.is_empty())?;
        rest = after;
        Some(piece)
    })
}

/// Behind a line, a Chinese mark of an end, or a Latin one before a blank, and the quotes and brackets that close there.
fn sentence_end(text: &str) -> usize {
    // The first bytes of what may end one.
    let may_end = |byte: &u8| matches!(byte, b'\n' | b'.' | b'!' | b'?' | 0xE2 | 0xE3 | 0xEF);
    let mut from = 0;
    while let Some(found) = text.as_bytes().get(from..).and_then(|rest| rest.iter().position(may_end)) {
        let at = from + found;
        let mut chars = text.get(at..).unwrap_or_default().char_indices().map(|(next, c)| (at + next, c)).peekable();
        let Some((_, c)) = chars.next() else { break };
        let mut end = at + c.len_utf8();
        from = end;
        match c {
            '\n' => return end,
            '。' | '！' | '？' | '；' | '…' | '.' | '!' | '?' => {}
            _ => continue,
        }
        while let Some((next, closing)) = chars.next_if(|(_, c)| is_closing(*c)) {
            end = next + closing.len_utf8();
        }
        from = end;
        let next = chars.peek().map(|(_, c)| *c);
        let is_latin = matches!(c, '.' | '!' | '?');
        if next.is_none_or(|next| !is_latin || next.is_whitespace()) {
            while let Some((next, blank)) = chars.next_if(|(_, c)| matches!(c, ' ' | '\u{3000}' | '\n')) {
                end = next + blank.len_utf8();
                if blank == '\n' {
                    break;
                }
            }
            return end;
        }
    }
    text.len()
}

fn is_closing(c: char) -> bool {
    matches!(
        c,
        '”' | '’' | '」' | '』' | '）' | '》' | ')' | ']' | '"' | '\'' | '。' | '！' | '？' | '…' | '.' | '!' | '?'
    )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cut(text: &str, chars: usize, at: CutAt) -> Option<(&str, usize, usize)> {
        cut_text(text, &Limits::chars(chars), Listing::default(), at).map(|cut| (cut.head, cut.shown, cut.total))
    }

    #[test]
    fn a_text_is_cut_behind_a_line() {
        assert_eq!(cut("one\ntwo\nthree", 8, CutAt::Line), Some(("one\ntwo\n", 2, 3)));
        assert_eq!(cut("北京上海广州", 2, CutAt::Line), Some(("北京", 0, 1)));
        assert_eq!(cut("a\n\n\nb", 3, CutAt::Line), Some(("a\n\n", 2, 4)));
        assert_eq!(cut("one\ntwo\n", 8, CutAt::Line), None);
        assert_eq!(cut("", 1, CutAt::Line), None);
    }

    #[test]
    fn a_text_is_cut_behind_a_sentence() {
        let pieces = |text| units(text, CutAt::Sentence).collect::<Vec<_>>();
        assert_eq!(
            pieces("Rain. Then sun! 3.5 °C? \"Yes.\" End"),
            ["Rain. ", "Then sun! ", "3.5 °C? ", "\"Yes.\" ", "End"]
        );
        assert_eq!(pieces("他说：“好。”然后走了……完？！是"), ["他说：“好。”", "然后走了……", "完？！", "是"]);
        assert_eq!(pieces("标题\n第一句；第二句"), ["标题\n", "第一句；", "第二句"]);
        assert_eq!(cut("One. Two. Three.", 10, CutAt::Sentence), Some(("One. Two. ", 2, 3)));
    }

    #[test]
    fn both_ends_are_shown() {
        let text: String = (1..=9).map(|n| format!("{n}\n")).collect();
        let of = |head, tail, chars| {
            let listing = Listing { head, tail, most: None };
            cut_text(&text, &Limits::chars(chars), listing, CutAt::Line).map(|cut| (cut.head, cut.tail, cut.shown))
        };
        assert_eq!(of(Some(2), Some(3), 100), Some(("1\n2\n", "7\n8\n9\n", 5)));
        assert_eq!(of(None, Some(2), 100), Some(("", "8\n9\n", 2)));
        assert_eq!(of(Some(2), None, 100), Some(("1\n2\n", "", 2)));
        assert_eq!(of(Some(5), Some(5), 100), None);
        assert_eq!(of(Some(5), Some(5), 8), Some(("1\n2\n", "8\n9\n", 4)), "the end has half of the room");
    }

    #[test]
    fn a_line_without_end_is_not_read_to_its_end() {
        let text = "x".repeat(1 << 24);
        assert_eq!(cut(&text, 10, CutAt::Line), Some(("xxxxxxxxxx", 0, 1)));
    }

    proptest! {
        /// The beginning and the end are those of the text, fit, and are whole where a count says so.
        #[test]
        fn what_is_shown_is_of_the_text_and_fits(
            text in "[a北。.\n !👍e\u{301}]{0,60}", chars in 1_usize..40, tokens in prop::option::of(1_usize..20),
            head in prop::option::of(0_usize..6), tail in prop::option::of(0_usize..6), is_sentence in any::<bool>(),
        ) {
            let limits = Limits { chars, bytes: usize::MAX, tokens };
            let at = if is_sentence { CutAt::Sentence } else { CutAt::Line };
            let listing = Listing { head, tail, most: None };
            match cut_text(&text, &limits, listing, at) {
                None => prop_assert!(limits.hold_text(&text)),
                Some(cut) => {
                    prop_assert!(text.starts_with(cut.head) && text.ends_with(cut.tail));
                    prop_assert!(cut.head.len() + cut.tail.len() <= text.len());
                    prop_assert!(cut.head.chars().count() + cut.tail.chars().count() <= chars);
                    prop_assert!(cut.shown <= cut.total || is_sentence);
                    prop_assert_eq!(units(&text, at).collect::<String>(), text);
                }
            }
        }
    }
}
