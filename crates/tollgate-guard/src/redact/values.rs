//! Secrets that their form gives away, where a word called for a rule: the token behind its prefix, the key behind its
//! vendor's name.

use std::ops::Range;

use super::placeholder::is_reference;
use super::rules::{How, Rule};
use super::text::{Scan, Span};

/// What is looked at of a secret.
const SECRET_BYTES_MAX: usize = 4096;
/// What is looked at before and after a word that a secret stands near to.
const BEFORE_BYTES: usize = 100;
const AFTER_BYTES: usize = 260;
/// Between a vendor's name and the separator, as gitleaks has it: the rest of the name, then quotes and blanks.
const NAME_BYTES_MAX: usize = 20;
const QUOTES_MAX: usize = 3;
const OPENING_MAX: usize = 5;

/// The secret of `rule` at a word, if there is one.
pub(super) fn span(scan: &Scan, word: Range<usize>, rule: &Rule) -> Option<Span> {
    let from = match rule.how {
        How::Assigned => assigned(scan, word.end)?,
        How::Word if is_joined(scan, word.start) => return None,
        How::Word | How::Begins if !scan.byte(word.end).is_ascii_graphic() => return None,
        How::Word | How::Begins => word.start,
        How::Near => scan.text.floor_char_boundary(word.start.saturating_sub(BEFORE_BYTES)),
    };
    let reach = if rule.how == How::Near { word.end + AFTER_BYTES } else { from + SECRET_BYTES_MAX };
    let bytes = scan.bytes.get(from..reach.min(scan.bytes.len()))?;
    let regex = rule.regex()?;
    // Most words call in vain, and groups cost memory.
    let groups = regex.is_match(bytes).then(|| regex.captures(bytes))??;
    let found = groups.get(1).or_else(|| groups.get(0))?;
    let (start, mut end) = (from + found.start(), from + found.end());
    let goes_on = scan.skip(end, usize::MAX, is_token_byte);
    if goes_on > end {
        if rule.is_exact {
            return None;
        }
        end = goes_on;
    }
    let secret = scan.text.get(start..end)?;
    let has_digit = secret.bytes().any(|byte| byte.is_ascii_digit());
    let is_word = rule.needs_digit && !has_digit && !(rule.how == How::Assigned && is_mixed(secret));
    let is_plain = rule.entropy_min > 0.0 && entropy_bits(secret.as_bytes()) <= rule.entropy_min;
    let is_none = is_word || is_plain || is_reference(secret) || is_example(secret) || in_marker(scan, start);
    (!is_none).then_some(Span { start, end, rule: rule.name })
}

/// Where the value begins whose name ends at `end`, if a separator follows it and the name is of a secret.
fn assigned(scan: &Scan, end: usize) -> Option<usize> {
    let name_end = scan.skip(end, NAME_BYTES_MAX, |b| b.is_ascii_alphanumeric() || b" \t_.-".contains(&b));
    let separator = scan.skip(name_end, QUOTES_MAX, |byte| byte.is_ascii_whitespace() || b"'\"\\".contains(&byte));
    let rest = scan.bytes.get(separator..)?;
    let length = match rest {
        [b'=', b'>', ..] | [b'|', b'|', ..] | [b'?', b'=', ..] | [b':', b'=', ..] => 2,
        [b'=' | b'>' | b':' | b',', ..] => 1,
        [0xef, 0xbc, 0x9a, ..] => 3,
        _ => return None,
    };
    if names_another(scan.slice(end..name_end)) {
        return None;
    }
    Some(scan.skip(separator + length, OPENING_MAX, |b| b.is_ascii_whitespace() || b"`'\"=\\".contains(&b)))
}

/// `datadog-agent commit: …`: not the vendor's key but something else of theirs.
fn names_another(name: &str) -> bool {
    const OTHERS: [&str; 18] = [
        "commit",
        "sha",
        "sha1",
        "sha256",
        "hash",
        "digest",
        "checksum",
        "integrity",
        "revision",
        "rev",
        "etag",
        "version",
        "uuid",
        "guid",
        "build",
        "image",
        "id",
        "ids",
    ];
    let is_other = |word: &str| OTHERS.iter().any(|other| word.eq_ignore_ascii_case(other));
    name.split(|c: char| !c.is_ascii_alphanumeric()).any(is_other)
}

/// Whether capitals stand between small letters, as in no word.
fn is_mixed(text: &str) -> bool {
    text.bytes().skip(1).any(|byte| byte.is_ascii_uppercase()) && text.bytes().any(|byte| byte.is_ascii_lowercase())
}

/// The key of AWS's own documentation.
fn is_example(text: &str) -> bool {
    text.len() > 16 && text.ends_with("EXAMPLE")
}

/// Whether what begins at `start` goes on what stands before it.
fn is_joined(scan: &Scan, start: usize) -> bool {
    start.checked_sub(1).is_some_and(|before| {
        let byte = scan.byte(before);
        // After `\n` in an escaped text stands a letter.
        let is_escape = before.checked_sub(1).is_some_and(|at| scan.byte(at) == b'\\') && b"nrt".contains(&byte);
        (byte.is_ascii_alphanumeric() || byte == b'_') && !is_escape
    })
}

pub(super) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

/// Whether the place is inside of a marker.
pub(super) fn in_marker(scan: &Scan, at: usize) -> bool {
    const MARKER_BYTES_MAX: usize = 96;
    let before = scan.bytes.get(at.saturating_sub(MARKER_BYTES_MAX)..at).unwrap_or_default();
    let open = before.iter().rposition(|byte| *byte == b'[');
    open.is_some_and(|open| {
        let inside = before.get(open..).unwrap_or_default();
        inside.starts_with(b"[redacted") && !inside.contains(&b']')
    })
}

/// Shannon's entropy of the bytes, in bits a byte.
pub(super) fn entropy_bits(bytes: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in bytes {
        if let Some(count) = counts.get_mut(usize::from(*byte)) {
            *count += 1;
        }
    }
    let total = f64::from(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    let share = |count: &u32| f64::from(*count) / total;
    counts.iter().filter(|count| **count > 0).map(share).map(|share| -share * share.log2()).sum()
}
