//! The secret values this process handed out, and every form in which one may come back: as it is, in JSON, in an
//! address or form, in hexadecimal, and inside base64 at any of the three alignments.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::Range;
use std::sync::OnceLock;

use aho_corasick::packed::Searcher;
use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::SECRET_BYTES_MIN;

/// A shorter piece of base64 would be found where no secret is.
const BASE64_CHARS_MIN: usize = 5;
/// What says that a text was cut.
const CUT: char = '…';
/// A shorter beginning of a secret gives nothing away.
const HALF_BYTES_MIN: usize = 6;
/// Up to here the fast automaton is worth its memory (some 500 bytes for each byte of pattern).
const FAST_PATTERN_BYTES_MAX: usize = 8 * 1024;
/// How many forms a quick search looks for at once, and how many of these together are quicker than the automaton.
const QUICK_FORMS_MAX: usize = 48;
const QUICK_SEARCHES_MAX: usize = 4;

/// What every percent-encoder leaves alone (RFC 3986 §2.3); what `encodeURIComponent`, path and form encoders do.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
const COMPONENT: &AsciiSet = &UNRESERVED.remove(b'!').remove(b'\'').remove(b'(').remove(b')').remove(b'*');
const PATH: &AsciiSet = &UNRESERVED.remove(b'/');
const FORM: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'*');

/// The known secrets.
#[derive(Default)]
pub(super) struct Secrets {
    known: Vec<Known>,
    search: OnceLock<Search>,
}

#[derive(Clone)]
struct Known {
    value: String,
    marker: String,
}

struct Search {
    /// Say whether there is anything to look for, many bytes at once. None where the forms are too many.
    quick: Vec<Searcher>,
    automaton: Option<AhoCorasick>,
    patterns: Vec<Pattern>,
    /// Every piece of so many bytes that a form has, sorted: the quick answer to whether a text ends in one.
    pieces: OnceLock<Vec<[u8; HALF_BYTES_MIN]>>,
}

struct Pattern {
    form: String,
    known: usize,
    edges: Edges,
}

/// Characters beside a match that carry some bits of the secret.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Edges {
    before: bool,
    after: bool,
}

const SHARP: Edges = Edges { before: false, after: false };

impl Secrets {
    /// These secrets and one more.
    pub(super) fn with(&self, value: &str, marker: String) -> Self {
        let mut known = self.known.clone();
        if known.iter().all(|known| known.value != value) {
            known.push(Known { value: value.to_owned(), marker });
        }
        Self { known, search: OnceLock::new() }
    }

    /// The length of the longest form of a secret.
    pub(super) fn longest(&self) -> usize {
        // JSON in JSON writes a control character in seven bytes.
        const BYTES_OF_ONE_MAX: usize = 7;
        self.known.iter().map(|known| known.value.len() * BYTES_OF_ONE_MAX).max().unwrap_or(0)
    }

    /// Where the secrets are, in order.
    pub(super) fn found(&self, text: &str) -> Vec<Range<usize>> {
        let search = self.search.get_or_init(|| Search::new(&self.known));
        let automaton = search.automaton.as_ref().filter(|_| !self.known.is_empty() && !search.finds_nothing(text));
        automaton.map_or_else(Vec::new, |automaton| automaton.find_iter(text).map(|hit| hit.range()).collect())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Puts each secret's marker in its place.
    pub(super) fn replace<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.known.is_empty() {
            return Cow::Borrowed(text);
        }
        let search = self.search.get_or_init(|| Search::new(&self.known));
        let Some(automaton) = &search.automaton else {
            // Nobody can say where the secrets are, so nothing leaves.
            return Cow::Borrowed("[redacted:secret]");
        };
        let mut clean = String::new();
        let mut from = 0;
        let hits = (!search.finds_nothing(text)).then(|| automaton.find_iter(text));
        for hit in hits.into_iter().flatten() {
            let Some(pattern) = search.patterns.get(hit.pattern().as_usize()) else { continue };
            let Some(known) = self.known.get(pattern.known) else { continue };
            let (start, end) = pattern.edges.widen(text, hit.start().max(from), hit.end());
            clean.push_str(text.get(from..start.max(from)).unwrap_or_default());
            clean.push_str(&known.marker);
            from = end;
        }
        if from == 0 {
            return self.without_halves(search, text).map_or(Cow::Borrowed(text), Cow::Owned);
        }
        clean.push_str(text.get(from..).unwrap_or_default());
        Cow::Owned(self.without_halves(search, &clean).unwrap_or(clean))
    }

    /// The text without what a cut left of a secret: its beginning, before `…`. None where there is none.
    fn without_halves(&self, search: &Search, text: &str) -> Option<String> {
        let mut clean = String::new();
        let mut from = 0;
        for (at, _) in text.match_indices(CUT) {
            let head = text.get(from..at).unwrap_or_default();
            if let Some((length, pattern)) = search.half_before(head)
                && let Some(known) = self.known.get(pattern.known)
            {
                clean.push_str(head.get(..head.len() - length).unwrap_or_default());
                clean.push_str(&known.marker);
                from = at;
            }
        }
        (from > 0).then(|| clean + text.get(from..).unwrap_or_default())
    }
}

impl Search {
    fn new(known: &[Known]) -> Self {
        let mut patterns = Vec::new();
        for (at, known) in known.iter().enumerate() {
            let encodings = encodings(&known.value).into_iter();
            patterns.extend(encodings.map(|(form, edges)| Pattern { form, known: at, edges }));
        }
        let bytes: usize = patterns.iter().map(|pattern| pattern.form.len()).sum();
        let kind = if bytes <= FAST_PATTERN_BYTES_MAX { AhoCorasickKind::DFA } else { AhoCorasickKind::ContiguousNFA };
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .kind(Some(kind))
            .prefilter(false)
            .build(patterns.iter().map(|pattern| &pattern.form))
            .ok();
        Self { quick: quick(&patterns).unwrap_or_default(), automaton, patterns, pieces: OnceLock::new() }
    }

    /// Whether no form stands in the text; false where only the automaton knows.
    fn finds_nothing(&self, text: &str) -> bool {
        !self.quick.is_empty() && self.quick.iter().all(|search| search.find(text).is_none())
    }

    /// The longest beginning of a form that the text ends in.
    fn half_before(&self, text: &str) -> Option<(usize, &Pattern)> {
        let tail = text.as_bytes().last_chunk::<HALF_BYTES_MIN>()?;
        let pieces = self.pieces.get_or_init(|| {
            let windows = self.patterns.iter().flat_map(|pattern| pattern.form.as_bytes().windows(HALF_BYTES_MIN));
            let mut pieces: Vec<_> = windows.filter_map(|piece| piece.try_into().ok()).collect();
            pieces.sort_unstable();
            pieces.dedup();
            pieces
        });
        pieces.binary_search(tail).ok()?;
        let longest = |pattern: &Pattern| {
            let is_half = |length: &usize| pattern.form.get(..*length).is_some_and(|half| text.ends_with(half));
            (HALF_BYTES_MIN..pattern.form.len()).rev().find(is_half)
        };
        let halves = self.patterns.iter().filter_map(|pattern| Some((longest(pattern)?, pattern)));
        halves.max_by_key(|(length, _)| *length)
    }
}

impl Edges {
    fn widen(self, text: &str, start: usize, end: usize) -> (usize, usize) {
        let bytes = text.as_bytes();
        let is_base64 = |at: Option<usize>| {
            let byte = at.and_then(|at| bytes.get(at));
            byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_'))
        };
        let start = if self.before && is_base64(start.checked_sub(1)) { start - 1 } else { start };
        let end = if self.after && is_base64(Some(end)) { end + 1 } else { end };
        (start, end)
    }
}

fn quick(patterns: &[Pattern]) -> Option<Vec<Searcher>> {
    let groups = patterns.chunks(QUICK_FORMS_MAX);
    if groups.len() > QUICK_SEARCHES_MAX {
        return None;
    }
    let search = |group: &[Pattern]| Searcher::new(group.iter().map(|pattern| &pattern.form));
    groups.map(search).collect()
}

/// The forms of a secret, each once.
fn encodings(value: &str) -> BTreeSet<(String, Edges)> {
    let mut forms = BTreeSet::from([(value.to_owned(), SHARP)]);
    let escaped = json_escaped(value);
    forms.extend([json_escaped(&escaped), json_ascii(&escaped), escaped].map(|form| (form, SHARP)));
    for set in [UNRESERVED, COMPONENT, PATH, FORM, NON_ALPHANUMERIC] {
        let upper = utf8_percent_encode(value, set).to_string();
        forms.insert((upper.replace("%20", "+"), SHARP));
        forms.insert((lower_percent(&upper), SHARP));
        forms.insert((upper, SHARP));
    }
    let hex = value.bytes().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    forms.insert((hex.to_uppercase(), SHARP));
    forms.insert((hex, SHARP));
    for before in 0..3 {
        forms.extend(base64_within(value, before));
    }
    forms.retain(|(form, _)| form.len() >= SECRET_BYTES_MIN);
    forms
}

/// The base64 characters that are the same whatever surrounds the secret, when `before` bytes precede it in its group.
fn base64_within(value: &str, before: usize) -> Vec<(String, Edges)> {
    let mut bytes = vec![0; before];
    bytes.extend_from_slice(value.as_bytes());
    let (bits_before, bits) = (before * 8, bytes.len() * 8);
    let (first, end) = (bits_before.div_ceil(6), bits / 6);
    let edges = Edges { before: bits_before % 6 != 0, after: bits % 6 != 0 };
    [STANDARD_NO_PAD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)]
        .iter()
        .filter_map(|encoded| encoded.get(first..end))
        .filter(|core| core.len() >= BASE64_CHARS_MIN)
        .map(|core| (core.to_owned(), edges))
        .collect()
}

fn json_escaped(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    quoted.get(1..quoted.len() - 1).unwrap_or(text).to_owned()
}

fn json_ascii(escaped: &str) -> String {
    let mut ascii = String::new();
    for c in escaped.chars() {
        if c.is_ascii() {
            ascii.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(ascii, "\\u{unit:04x}");
            }
        }
    }
    ascii
}

fn lower_percent(upper: &str) -> String {
    let mut since_percent = 3;
    let lower = upper.chars().map(|c| {
        since_percent = if c == '%' { 0 } else { since_percent + 1 };
        if since_percent <= 2 { c.to_ascii_lowercase() } else { c }
    });
    lower.collect()
}
