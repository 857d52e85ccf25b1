//! Secrets that a name in a text gives away. One pass looks for the stems of such names; at each the name is read, then
//! what follows it. Every look has a bounded reach, so that the time is linear in the text whatever it holds.

mod held;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;

use serde_json::Value;

use super::rules::{Finder, Hit, Searched, Word};
use super::{Redactor, forms, keys, numbers, values};

/// Texts within texts (JSON in a string in JSON) that are still read as JSON.
const TEXTS_DEPTH_MAX: usize = 4;
/// A longer text is read as text also when it is JSON: as values it would take many times its size.
const JSON_TEXT_BYTES_MAX: usize = 1024 * 1024;
/// How often a text is gone through in which something was hidden.
const PASSES_MAX: usize = 4;
/// A longer run of name characters is no name.
const NAME_BYTES_MAX: usize = 64;
/// A longer word is no part of a name of two words.
const WORD_BYTES_MAX: usize = 16;
/// Blanks between name, separator and value.
const BLANKS_MAX: usize = 16;
/// Where a `pass` looks for its user, and a `code` for the fields of its request.
const NEIGHBOURHOOD_BYTES: usize = 128;

/// Where to look closer. The first four are forms, the others parts of names.
const STEMS: [&str; 30] = [
    "://",
    "-----begin",
    "eyj",
    "curl",
    "pass",
    "pwd",
    "secret",
    "token",
    "key",
    "auth",
    "cookie",
    "cred",
    "otp",
    "pin",
    "cvv",
    "cvc",
    "sess",
    "sid",
    "code",
    "sig",
    "conn",
    "card",
    "jwt",
    "bearer",
    "phrase",
    "mnemonic",
    "密码",
    "口令",
    "令牌",
    "密钥",
];

/// A part of a text that must not be seen.
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) rule: &'static str,
}

/// What one look found, and where the next may begin.
pub(super) struct Look {
    pub(super) span: Option<Span>,
    pub(super) next: usize,
}

/// Whether brackets under a quoted name are hidden; not when the text was read as JSON and nothing in it was.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trees {
    Hide,
    Skip,
}

impl Redactor {
    /// The text without what names and forms give away, or `None` if there is nothing. `texts`: how many texts it is
    /// inside of.
    pub(super) fn named_in_text(&self, text: &str, texts: usize) -> Option<String> {
        let mut clean = None;
        // What stood beside a secret may be told now that a marker stands there.
        for _ in 0..PASSES_MAX {
            match self.built_in(clean.as_deref().unwrap_or(text), texts) {
                None => break,
                next => clean = next,
            }
        }
        let custom = match self.custom(clean.as_deref().unwrap_or(text)) {
            Cow::Owned(custom) => Some(custom),
            Cow::Borrowed(_) => None,
        };
        custom.or(clean)
    }

    fn built_in(&self, text: &str, texts: usize) -> Option<String> {
        let Some(finder) = finder() else {
            // Nobody can say where the secrets are, so nothing leaves.
            return Some("[redacted:secret]".into());
        };
        let hits = finder.hits(text);
        let mut trees = Trees::Hide;
        if is_json_shaped(text) && may_name_secrets(text, &hits) {
            let value = (texts < TEXTS_DEPTH_MAX).then(|| serde_json::from_str::<Value>(text));
            if let Some(Ok(mut value)) = value {
                if self.named_in_value(&mut value, texts + 1) {
                    return Some(if text.contains('\n') { format!("{value:#}") } else { value.to_string() });
                }
                // Of a key that stands twice, only the last was seen.
                trees = Trees::Skip;
            }
        }
        let mut spans = spans(text, finder, &hits, trees);
        numbers::spans(&Scan { text, bytes: text.as_bytes() }, self.numbers(texts), &mut spans);
        if spans.is_empty() {
            return None;
        }
        spans.sort_by_key(|span| span.start);
        let mut clean = String::with_capacity(text.len());
        let mut from = 0;
        for span in spans {
            if span.start >= from {
                clean.push_str(text.get(from..span.start).unwrap_or_default());
                clean.push_str(&self.marker(span.rule, text.get(span.start..span.end).unwrap_or_default()));
            }
            from = from.max(span.end);
        }
        clean.push_str(text.get(from..).unwrap_or_default());
        Some(clean)
    }
}

impl Redactor {
    /// Where secrets are in a text that is not read as JSON, for those who must not cut through one.
    pub(super) fn covered(&self, text: &str) -> Vec<Range<usize>> {
        let Some(finder) = finder() else { return std::iter::once(0..text.len()).collect() };
        let mut spans = spans(text, finder, &finder.hits(text), Trees::Hide);
        numbers::spans(&Scan { text, bytes: text.as_bytes() }, self.numbers(0), &mut spans);
        let mut covered = self.secrets().found(text);
        covered.extend(spans.into_iter().map(|span| span.start..span.end));
        covered
    }

    /// Whether a secret of several lines may go on behind the text.
    pub(super) fn is_open(&self, text: &str) -> bool {
        let end = text.trim_end().len();
        let goes_on = |range: Range<usize>| {
            range.end >= text.len() || (range.end >= end && text.get(range).is_some_and(|secret| secret.contains('\n')))
        };
        end > 0 && self.covered(text).into_iter().any(goes_on)
    }
}

/// The one search for all that calls for a closer look. Made with the first text.
fn finder() -> Option<&'static Finder> {
    static FINDER: OnceLock<Option<Finder>> = OnceLock::new();
    FINDER.get_or_init(|| Finder::new(&STEMS)).as_ref()
}

fn is_json_shaped(text: &str) -> bool {
    let trimmed = text.trim_ascii();
    let ends = (trimmed.as_bytes().first(), trimmed.as_bytes().last());
    matches!(ends, (Some(b'{'), Some(b'}')) | (Some(b'['), Some(b']'))) && text.len() <= JSON_TEXT_BYTES_MAX
}

/// Keys in JSON may be escaped or written in look-alike letters, where no stem is found.
fn may_name_secrets(text: &str, hits: &[Hit]) -> bool {
    hits.iter().any(|hit| matches!(hit.word, Word::Stem(_))) || !text.is_ascii() || text.contains("\\u")
}

fn spans(text: &str, finder: &Finder, hits: &[Hit], trees: Trees) -> Vec<Span> {
    let scan = Scan { text, bytes: text.as_bytes() };
    let mut spans: Vec<Span> = Vec::new();
    let (mut next, mut hidden) = (0, 0);
    let mut searched = Searched::new();
    for hit in hits {
        let start = hit.range.start;
        match hit.word {
            Word::Stem(stem) if start >= next => {
                let look = match stem {
                    0 => forms::user_information(&scan, hit.range.end),
                    1 => forms::private_key(&scan, hit.range.clone()),
                    2 => forms::json_web_token(&scan, start),
                    3 => forms::curl_user(&scan, hit.range.clone()),
                    _ => named(&scan, hit.range.clone(), trees),
                };
                next = look.next;
                spans.extend(look.span);
            }
            // A name without a value says nothing of what stands in it.
            Word::Rules(word) if start >= hidden => {
                for rule in finder.called(word) {
                    if !rule.is_due(&hit.range, &mut searched) {
                        continue;
                    }
                    if let Some(span) = values::span(&scan, hit.range.clone(), rule) {
                        searched.remove(rule.name);
                        spans.push(span);
                        break;
                    }
                }
            }
            Word::Stem(_) | Word::Rules(_) => {}
        }
        hidden = spans.last().map_or(0, |span| span.end).max(hidden);
    }
    spans
}

/// What separates a name from its value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Separator {
    Colon,
    Equals,
    /// `=>`
    Arrow,
    /// `>` after `<name`
    Tag,
}

/// A separator, and where the value behind it begins.
#[derive(Clone, Copy)]
struct Follow {
    separator: Separator,
    value: usize,
    name_is_quoted: bool,
}

fn named(scan: &Scan, stem: Range<usize>, trees: Trees) -> Look {
    let is_trim = |byte| matches!(byte, b'-' | b'.');
    let run_start = scan.skip_back(stem.start, NAME_BYTES_MAX, is_name_byte);
    let run_end = scan.skip(stem.end, NAME_BYTES_MAX, is_name_byte);
    let start = scan.skip(run_start, NAME_BYTES_MAX, is_trim).min(stem.start);
    let end = scan.skip_back(run_end, NAME_BYTES_MAX, is_trim).max(stem.end);
    let nothing = Look { span: None, next: end };
    // `$token:tt` names a part of a macro.
    let is_fragment = scan.slice(0..start).ends_with('$') && scan.byte(end) == b':';
    if end - start > NAME_BYTES_MAX || scan.slice(0..start).ends_with("[redacted:") || is_fragment {
        return nothing;
    }
    let name = scan.slice(start..end);
    let found = match scan.follow(start, end) {
        Some(follow) => rule_before(scan, name, start..end, follow).map(|rule| (rule, follow)),
        None => {
            if let Some(span) = flag(scan, name, start..end) {
                return Look { next: span.end, span: Some(span) };
            }
            if name.eq_ignore_ascii_case("bearer") {
                return forms::bearer(scan, end);
            }
            two_words(scan, name, end)
        }
    };
    let Some((rule, follow)) = found else { return nothing };
    match held::span(scan, start, follow, rule, trees) {
        Some(span) => Look { next: span.end, span: Some(span) },
        None => nothing,
    }
}

/// The rule for a name that a separator follows.
fn rule_before(scan: &Scan, name: &str, at: Range<usize>, follow: Follow) -> Option<&'static str> {
    let previous = scan.word_before(at.start);
    if let Some(rule) = keys::path_rule(name) {
        // `page token: …` is about pages.
        return previous.map_or(Some(rule), |previous| keys::path_rule(&format!("{previous} {name}")));
    }
    if let Some(rule) = previous.and_then(|previous| keys::pair_rule(previous, name)) {
        return Some(rule);
    }
    if keys::is_bare_pass(name) {
        let around = scan.around(&at).to_ascii_lowercase();
        return ["user", "login", "uid"].iter().any(|who| around.contains(who)).then_some("password");
    }
    let is_field = follow.separator == Separator::Equals && follow.value == at.end + 1;
    let before = at.start.checked_sub(1).map_or(b'&', |before| scan.byte(before));
    if !is_field || name.len() > WORD_BYTES_MAX {
        return None;
    }
    let lower = name.to_ascii_lowercase();
    if (lower == "sig" || lower.ends_with("signature")) && matches!(before, b'?' | b'&') {
        return Some("signature");
    }
    if lower == "code" && (matches!(before, b'?' | b'&') || before.is_ascii_whitespace()) {
        return is_authorization_code(scan, &at).then_some("authorization_code");
    }
    None
}

/// Whether the request around a `code=` is one that carries an authorization code (RFC 6749 §4.1).
fn is_authorization_code(scan: &Scan, at: &Range<usize>) -> bool {
    /// Postcodes and error codes are shorter.
    const CODE_BYTES_MIN: usize = 8;
    let around = scan.around(at);
    let is_value = |byte: u8| !byte.is_ascii_whitespace() && !matches!(byte, b'&' | b'"');
    let is_long =
        |text: &str| text.bytes().take(CODE_BYTES_MIN).filter(|byte| is_value(*byte)).count() == CODE_BYTES_MIN;
    ["grant_type=", "code_verifier=", "redirect_uri="].iter().any(|field| around.contains(field))
        || (is_long(scan.slice(at.end + 1..scan.bytes.len()))
            && around.split_once("state=").is_some_and(|(_, state)| is_long(state)))
}

/// `--password hunter2`
fn flag(scan: &Scan, name: &str, at: Range<usize>) -> Option<Span> {
    let is_flag = at.start.checked_sub(1).is_some_and(|before| scan.byte(before) == b'-') && scan.byte(at.end) == b' ';
    let value = scan.skip(at.end, BLANKS_MAX, is_blank);
    if !is_flag || scan.byte(value) == b'-' {
        return None;
    }
    let rule = keys::rule(name).or_else(|| keys::is_bare_pass(name).then_some("password"))?;
    held::span(scan, at.start, Follow { separator: Separator::Equals, value, name_is_quoted: false }, rule, Trees::Skip)
}

/// `session id: …`, `password is: …`
fn two_words(scan: &Scan, name: &str, end: usize) -> Option<(&'static str, Follow)> {
    if scan.byte(end) != b' ' {
        return None;
    }
    let second = end + 1..scan.skip(end + 1, WORD_BYTES_MAX, |byte| byte.is_ascii_alphabetic());
    let follow = scan.follow(end + 1, second.end)?;
    Some((keys::pair_rule(name, scan.slice(second))?, follow))
}

/// A text and its bytes. No position is out of reach: beyond the end there are only zeros.
pub(super) struct Scan<'t> {
    pub(super) text: &'t str,
    pub(super) bytes: &'t [u8],
}

impl<'t> Scan<'t> {
    pub(super) fn byte(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(0)
    }

    /// The text there, or nothing if the range splits a character.
    pub(super) fn slice(&self, range: Range<usize>) -> &'t str {
        self.text.get(range).unwrap_or_default()
    }

    /// The end of the run of such bytes that begins at `from`.
    pub(super) fn skip(&self, from: usize, bytes_max: usize, is_such: impl Fn(u8) -> bool) -> usize {
        let run = self.bytes.get(from..).unwrap_or_default().iter().take(bytes_max);
        from + run.take_while(|byte| is_such(**byte)).count()
    }

    /// The start of the run of such bytes that ends at `to`.
    pub(super) fn skip_back(&self, to: usize, bytes_max: usize, is_such: impl Fn(u8) -> bool) -> usize {
        let run = self.bytes.get(..to).unwrap_or_default().iter().rev().take(bytes_max);
        to - run.take_while(|byte| is_such(**byte)).count()
    }

    fn word_before(&self, start: usize) -> Option<&'t str> {
        let end = start.checked_sub(1).filter(|space| self.byte(*space) == b' ')?;
        let word = self.slice(self.skip_back(end, WORD_BYTES_MAX, |byte| byte.is_ascii_alphabetic())..end);
        (!word.is_empty()).then_some(word)
    }

    fn around(&self, at: &Range<usize>) -> &'t str {
        let start = self.text.floor_char_boundary(at.start.saturating_sub(NEIGHBOURHOOD_BYTES));
        let end = self.text.floor_char_boundary(at.end + NEIGHBOURHOOD_BYTES);
        self.slice(start..end)
    }

    /// The separator after a name, past its closing quote, bracket or markdown stars.
    fn follow(&self, start: usize, end: usize) -> Option<Follow> {
        let rest = |at: usize| self.bytes.get(at..).unwrap_or_default();
        let past_escapes = self.skip(end, held::ESCAPES_MAX, |byte| byte == b'\\');
        let name_is_quoted = is_quote(self.byte(past_escapes));
        let mut at = if name_is_quoted { past_escapes + 1 } else { end };
        if rest(at).starts_with(b"**") {
            at += 2;
        }
        if self.byte(at) == b']' {
            at += 1;
        }
        at = self.skip(at, BLANKS_MAX, is_blank);
        let (separator, bytes) = match rest(at) {
            [b':', b':', ..] | [b':', b'/', b'/', ..] => return None,
            [b'=', b'>', ..] => (Separator::Arrow, 2),
            [b':', b'=', ..] | [b'=', b'=', ..] => (Separator::Equals, 2),
            [b'=', ..] => (Separator::Equals, 1),
            [b':', ..] => (Separator::Colon, 1),
            // `：`, as Chinese text writes it
            [0xef, 0xbc, 0x9a, ..] => (Separator::Colon, 3),
            // `是` and `为`, where what follows is no Chinese word
            [0xe6, 0x98, 0xaf, next, ..] | [0xe4, 0xb8, 0xba, next, ..] if is_spoken(*next) => (Separator::Colon, 3),
            [b'>', ..] if start.checked_sub(1).is_some_and(|before| self.byte(before) == b'<') => (Separator::Tag, 1),
            _ => return None,
        };
        let mut value = self.skip(at + bytes, BLANKS_MAX, is_blank);
        if separator == Separator::Colon && rest(value).starts_with(b"**") {
            value = self.skip(value + 2, BLANKS_MAX, is_blank);
        }
        Some(Follow { separator, value, name_is_quoted })
    }
}

/// Whether a value may follow `密码是`.
fn is_spoken(byte: u8) -> bool {
    is_blank(byte) || byte.is_ascii_graphic()
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

pub(super) fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

pub(super) fn is_quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'' | b'`')
}
