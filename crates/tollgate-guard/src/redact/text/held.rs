//! What a name in a text holds: where the value behind it begins and ends, and whether it is one.

use super::super::placeholder::{
    PLACEHOLDER_BYTES_MAX, is_code, is_empty, is_identifier, is_reference, is_stop_word, is_template, is_type,
};
use super::{BLANKS_MAX, Follow, Scan, Separator, Span, Trees, is_blank, is_quote};

/// Backslashes before a quote: JSON in JSON in JSON.
pub(super) const ESCAPES_MAX: usize = 7;
/// A field's name after a comma.
const FIELD_BYTES_MAX: usize = 32;

/// The value behind a name that starts at `name`, if there is one to hide.
pub(super) fn span(scan: &Scan, name: usize, follow: Follow, rule: &'static str, trees: Trees) -> Option<Span> {
    let start = follow.value;
    let escapes = scan.skip(start, ESCAPES_MAX, |byte| byte == b'\\') - start;
    if is_quote(scan.byte(start + escapes)) && follow.separator != Separator::Tag {
        return quoted(scan, start + escapes + 1, escapes, follow, rule);
    }
    let opens_tree = matches!(scan.byte(start), b'{' | b'[');
    match follow.separator {
        Separator::Arrow => None,
        Separator::Tag => {
            let end = scan.skip(start, usize::MAX, |byte| !matches!(byte, b'<' | b'\n'));
            let is_element = scan.byte(end) == b'<' && scan.byte(end + 1) == b'/';
            (is_element && !is_empty(scan.slice(start..end), rule)).then_some(Span { start, end, rule })
        }
        Separator::Colon | Separator::Equals if follow.name_is_quoted && opens_tree => {
            // `"node_modules/cookie": {` names a package.
            let is_path = name.checked_sub(1).is_some_and(|before| scan.byte(before) == b'/');
            let end = if trees == Trees::Hide && !is_path { tree_end(scan, start) } else { start };
            let is_hidden = end > start + 2 && !is_reference(scan.slice(start..end));
            is_hidden.then_some(Span { start, end, rule })
        }
        Separator::Colon | Separator::Equals if opens_tree && !is_value_byte(scan.byte(start + 1)) => None,
        Separator::Colon | Separator::Equals if !follow.name_is_quoted && rule == "authorization" => {
            authorization(scan, name, follow)
        }
        Separator::Colon | Separator::Equals if !follow.name_is_quoted && rule == "cookie" => {
            cookie(scan, name, follow)
        }
        Separator::Colon | Separator::Equals => bare(scan, start, follow, rule),
    }
}

/// A quoted value, from behind the quote that opens it.
fn quoted(scan: &Scan, open: usize, escapes: usize, follow: Follow, rule: &'static str) -> Option<Span> {
    // `prompt("Password: ")`: that quote ends a text in which a name stands.
    let closes_text = !follow.name_is_quoted && follow.separator == Separator::Colon && escapes == 0;
    if closes_text && matches!(scan.byte(open), 0 | b' ' | b'\n' | b')' | b']' | b'}' | b',' | b';') {
        return None;
    }
    let end = quoted_end(scan, open, escapes);
    let text = scan.slice(open..end);
    // The scheme of a credential may be seen, and in code often stands alone or before a placeholder.
    let schemes = ["Bearer ", "Basic ", "Token "];
    let scheme = schemes.iter().find(|scheme| text.len() >= scheme.len() && text.starts_with(**scheme));
    let start = open + scheme.map_or(0, |scheme| scheme.len());
    let text = scan.slice(start..end);
    let is_prose = scan.byte(open - 1) == b'`' && follow.separator == Separator::Colon && is_prose(scan, text, end + 1);
    (!is_empty(text, rule) && !is_stop_word(text) && !is_template(text) && !is_prose).then_some(Span {
        start,
        end,
        rule,
    })
}

/// The position of the quote (or its escapes) that closes what `open` begins; the end of the line if none does.
fn quoted_end(scan: &Scan, open: usize, escapes: usize) -> usize {
    let quote = scan.byte(open - 1);
    let mut backslashes = 0;
    for (at, byte) in scan.bytes.iter().enumerate().skip(open) {
        if *byte == b'\\' {
            backslashes += 1;
            continue;
        }
        let closes = if escapes == 0 { backslashes % 2 == 0 } else { backslashes <= escapes };
        if *byte == quote && closes {
            return at - if escapes == 0 { 0 } else { backslashes };
        }
        backslashes = 0;
    }
    scan.skip(open, usize::MAX, |byte| byte != b'\n')
}

/// Past the bracket that closes the one at `start`; the end of the text if none does.
fn tree_end(scan: &Scan, start: usize) -> usize {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for (at, byte) in scan.bytes.iter().enumerate().skip(start) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = in_string,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => depth += 1,
            b'}' | b']' if !in_string => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    scan.bytes.len()
}

/// An unquoted value: up to white space or what separates fields.
fn bare(scan: &Scan, start: usize, follow: Follow, rule: &'static str) -> Option<Span> {
    let end = bare_end(scan, start);
    let text = scan.slice(start..end);
    let is_colon = follow.separator == Separator::Colon && !follow.name_is_quoted;
    let is_nothing = text.len() < 2
        || text.len() <= PLACEHOLDER_BYTES_MAX
            && (is_empty(scan.slice(start..placeholder_end(scan, start, end)), rule)
                || (lacks_digit(text, rule)
                    || is_stop_word(text)
                    || (is_spaced(scan, start) && is_identifier(text, rule))
                    || is_code(text.trim_start_matches('('))
                    || is_syntax(scan, text, end))
                || (is_colon && (is_type(text) || is_prose(scan, text, end))));
    (!is_nothing).then_some(Span { start, end, rule })
}

/// Whether blanks stand between a separator and its value, as in code and not in forms and flags.
fn is_spaced(scan: &Scan, start: usize) -> bool {
    let separator = scan.skip_back(start, BLANKS_MAX, is_blank);
    separator < start && separator.checked_sub(1).is_some_and(|at| matches!(scan.byte(at), b'=' | b':'))
}

/// A card number or one-time code without a digit is a word.
fn lacks_digit(text: &str, rule: &str) -> bool {
    matches!(rule, "pin" | "otp" | "cvv" | "card_number") && !text.bytes().any(|byte| byte.is_ascii_digit())
}

/// `= ucred {`, `: Send + Sync`, `: FromRef<S>`: a word in a line of code.
fn is_syntax(scan: &Scan, text: &str, end: usize) -> bool {
    let next = scan.skip(end, BLANKS_MAX, is_blank);
    let is_word = text.bytes().all(|byte| byte.is_ascii_alphabetic());
    let goes_on = matches!(scan.byte(next), b'{' | b'&' | b'+' | b'(' | b'|') && next > end;
    is_word && (goes_on || (scan.byte(end) == b'<' && scan.byte(end + 1) != b'/'))
}

/// Placeholders may hold white space: `<your token>`, `${API KEY}`.
fn placeholder_end(scan: &Scan, start: usize, end: usize) -> usize {
    let close = match (scan.byte(start), scan.byte(start + 1)) {
        (b'<', _) => b'>',
        (b'$', b'{') | (b'{', _) => b'}',
        _ => return end,
    };
    let inside = scan.skip(start, PLACEHOLDER_BYTES_MAX, |byte| byte != close && byte != b'\n');
    scan.skip(inside, 2, |byte| byte == close).max(end)
}

fn is_value_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && !is_quote(byte) && !matches!(byte, b'&' | b';' | b'<' | b'>' | b'|' | b'{' | b'[')
}

fn bare_end(scan: &Scan, start: usize) -> usize {
    let mut end = start;
    for (offset, c) in scan.text.get(start..).unwrap_or_default().char_indices() {
        let at = start + offset;
        let stops = match c {
            '&' | ';' | '"' | '\'' | '`' | '<' | '>' | '|' => true,
            '\\' => matches!(scan.byte(at + 1), b'n' | b'r' | b't' | b'"' | b'\''),
            ',' => comma_ends(scan, at + 1),
            // A word in another script, or its punctuation, goes on after the value.
            _ if !c.is_ascii() => at > start && (c >= '\u{2e80}' || !c.is_alphanumeric()),
            _ => c.is_whitespace(),
        };
        if stops {
            break;
        }
        end = at + c.len_utf8();
    }
    trimmed_end(scan, start, end)
}

fn comma_ends(scan: &Scan, at: usize) -> bool {
    let next = scan.byte(at);
    if next == 0 || next.is_ascii_whitespace() || is_quote(next) {
        return true;
    }
    let field = scan.skip(at, FIELD_BYTES_MAX, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    field > at && matches!(scan.byte(field), b'=' | b':')
}

/// Without the full stop of the sentence and the brackets the value stands in.
fn trimmed_end(scan: &Scan, start: usize, mut end: usize) -> usize {
    if end - start > PLACEHOLDER_BYTES_MAX {
        return end;
    }
    while end > start {
        let value = scan.bytes.get(start..end).unwrap_or_default();
        let count = |bracket: u8| value.iter().filter(|byte| **byte == bracket).count();
        let is_inside = match scan.byte(end - 1) {
            b'.' | b',' | b':' => false,
            b')' => count(b')') <= count(b'('),
            b']' => count(b']') <= count(b'['),
            b'}' => count(b'}') <= count(b'{'),
            _ => true,
        };
        if is_inside {
            break;
        }
        end -= 1;
    }
    end
}

/// `password: at least eight characters` explains; `password: swordfish` and `password: swordfish user: bob` tell.
fn is_prose(scan: &Scan, text: &str, end: usize) -> bool {
    let is_word = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'-' | b'\''));
    let next = scan.skip(end, usize::MAX, |byte| is_blank(byte) || byte == b',');
    let next_end = scan.skip(next, FIELD_BYTES_MAX, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'));
    let is_marker = scan.bytes.get(next..).unwrap_or_default().starts_with(b"[redacted:");
    let is_plain = next_end > next && !matches!(scan.byte(next_end), b':' | b'=');
    let sentence_goes_on = next > end && (is_plain || is_marker);
    is_word(text) && sentence_goes_on && scan.byte(next) != b'-'
}

/// `Authorization: Bearer …`: the scheme may be seen.
fn authorization(scan: &Scan, name: usize, follow: Follow) -> Option<Span> {
    let (start, rule) = (follow.value, "authorization");
    let scheme_end = scan.skip(start, FIELD_BYTES_MAX, |byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let credential = scan.skip(scheme_end, FIELD_BYTES_MAX, is_blank);
    if credential == scheme_end {
        return bare(scan, start, follow, rule);
    }
    match scan.slice(start..scheme_end).to_ascii_lowercase().as_str() {
        "digest" | "oauth" | "hawk" | "mac" | "signature" | "hmac" | "aws4-hmac-sha256" => {
            let text = scan.slice(credential..line_end(scan, name, credential)).trim_end();
            (!is_reference(text)).then_some(Span { start: credential, end: credential + text.len(), rule })
        }
        "bearer" | "basic" | "token" | "negotiate" | "ntlm" | "apikey" | "key" | "dpop" | "privatetoken" => {
            bare(scan, credential, follow, rule)
        }
        _ => bare(scan, start, follow, rule),
    }
}

/// `Cookie: a=1; b=2`: all of the line.
fn cookie(scan: &Scan, name: usize, follow: Follow) -> Option<Span> {
    let (start, rule) = (follow.value, "cookie");
    let is_name = |byte: u8| !byte.is_ascii_whitespace() && !is_quote(byte) && byte != b'=';
    let equals = scan.skip(start, PLACEHOLDER_BYTES_MAX, is_name);
    if scan.byte(equals) != b'=' {
        return bare(scan, start, follow, rule);
    }
    let end = line_end(scan, name, start);
    if end < equals {
        return bare(scan, start, follow, rule);
    }
    let text = scan.slice(start..end).trim_end();
    Some(Span { start, end: start + text.len(), rule })
}

/// The end of a header: of its line, also in an escaped text, or of the quotes around name and value.
fn line_end(scan: &Scan, name: usize, from: usize) -> usize {
    let around = name.checked_sub(1).map_or(0, |before| scan.byte(before));
    let mut at = from;
    loop {
        at = scan.skip(at, usize::MAX, |byte| !matches!(byte, b'\n' | b'\r' | b'\\') && !is_quote(byte));
        let ends = match scan.byte(at) {
            b'\\' => matches!(scan.byte(at + 1), b'n' | b'r') || (is_quote(around) && scan.byte(at + 1) == around),
            byte if is_quote(byte) => byte == around,
            _ => true,
        };
        if ends {
            return at.min(scan.bytes.len());
        }
        at += 1;
    }
}
