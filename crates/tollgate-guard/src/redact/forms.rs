//! Secrets that need no name because their form cannot be mistaken: the password in an address, a private key, a JSON
//! Web Token, `curl -u`, `Bearer …`.

use std::ops::Range;

use super::keys;
use super::placeholder::{is_empty, is_reference};
use super::text::{Look, Scan, Span, is_blank, is_quote};

/// The part of an address between scheme and path.
const AUTHORITY_BYTES_MAX: usize = 512;
/// `-----BEGIN … PRIVATE KEY-----`
const PEM_LABEL_BYTES_MAX: usize = 64;
/// What is no key but a line of code between its marks has shorter words.
const KEY_RUN_BYTES_MIN: usize = 10;
/// A command line.
const COMMAND_BYTES_MAX: usize = 512;
/// A shorter word after `Bearer` is a word.
const BEARER_BYTES_MIN: usize = 16;
/// A shorter part of a token is a word between dots.
const TOKEN_PART_BYTES_MIN: usize = 10;

/// `postgres://app:s3cret@host`: the password, where `start` is the start of the authority.
pub(super) fn user_information(scan: &Scan, start: usize) -> Look {
    let ends_text = |byte: u8| byte.is_ascii_whitespace() || is_quote(byte) || matches!(byte, b'<' | b'>' | b'\\');
    let is_authority = |byte| !ends_text(byte) && !matches!(byte, b'/' | b'?' | b'#');
    let mut end = scan.skip(start, AUTHORITY_BYTES_MAX, is_authority);
    let mut text = scan.slice(start..end);
    let is_password = |port: &str| port.bytes().any(|byte| !byte.is_ascii_digit());
    if !text.contains('@') && !text.starts_with('[') && after_user(text).is_some_and(is_password) {
        // No port looks so: a password with an unescaped slash.
        end = scan.skip(end, AUTHORITY_BYTES_MAX, |byte| !ends_text(byte));
        text = scan.slice(start..end);
    }
    let password = text.rsplit_once('@').and_then(|(user, _)| after_user(user)).unwrap_or_default();
    if password.is_empty() || is_reference(password) || names_itself(password) {
        return Look { span: None, next: start };
    }
    let end = start + text.rfind('@').unwrap_or(text.len());
    Look { next: end, span: Some(Span { start: end - password.len(), end, rule: "password" }) }
}

/// `scheme://user:PASSWORD@host` shows where one goes.
fn names_itself(password: &str) -> bool {
    let is_word = password.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    is_word && keys::rule(password).is_some()
}

/// What follows the first colon that is not part of a marker.
fn after_user(user_information: &str) -> Option<&str> {
    let (user, rest) = user_information.split_once(':')?;
    if user.ends_with("[redacted") { after_user(rest.split_once(']')?.1) } else { Some(rest) }
}

/// The body of a PEM or PGP private key; `begin` is where `-----BEGIN` stands.
pub(super) fn private_key(scan: &Scan, begin: Range<usize>) -> Look {
    let label_end = scan.skip(begin.end, PEM_LABEL_BYTES_MAX, |byte| byte != b'-');
    let label = scan.slice(begin.end..label_end);
    let start = label_end + 5;
    if !label.contains("PRIVATE KEY") || scan.slice(label_end..start) != "-----" {
        return Look { span: None, next: begin.end };
    }
    let rest = scan.slice(start..scan.bytes.len());
    let body = match rest.find("-----").and_then(|end| rest.split_at_checked(end)) {
        Some((body, footer)) if footer.starts_with("-----END") => body,
        // Cut off: whatever still looks like a key.
        _ => {
            let is_key =
                |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'\n' | b'\r' | b'\\');
            scan.slice(start..scan.skip(start, usize::MAX, is_key))
        }
    };
    let inner = body.trim();
    let start = start + body.len() - body.trim_start().len();
    let is_key = inner.split(|c: char| !c.is_ascii_alphanumeric()).any(|run| run.len() >= KEY_RUN_BYTES_MIN);
    let span = (is_key && !is_empty(inner, "private_key")).then_some(Span {
        start,
        end: start + inner.len(),
        rule: "private_key",
    });
    Look { next: start + inner.len(), span }
}

/// `eyJ….eyJ….…` (RFC 7519 §3)
pub(super) fn json_web_token(scan: &Scan, start: usize) -> Look {
    let end = scan.skip(start, usize::MAX, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'));
    let text = scan.slice(start..end).trim_end_matches('.');
    let mut parts = text.split('.');
    let is_long = |part: Option<&str>| part.is_some_and(|part| part.len() >= TOKEN_PART_BYTES_MIN);
    let is_token = text.starts_with("eyJ") && is_long(parts.next()) && is_long(parts.next()) && is_long(parts.next());
    Look { span: is_token.then_some(Span { start, end: start + text.len(), rule: "jwt" }), next: end }
}

/// `curl -u user:password`
pub(super) fn curl_user(scan: &Scan, curl: Range<usize>) -> Look {
    // Other secrets may stand between, so the next look begins here.
    let next = curl.end;
    let line_end = scan.text.floor_char_boundary(scan.skip(curl.end, COMMAND_BYTES_MAX, |byte| byte != b'\n'));
    let command = scan.slice(curl.end..line_end);
    if !command.contains("-u") {
        return Look { span: None, next };
    }
    let mut at = curl.end;
    let mut is_user = false;
    while at < line_end {
        let start = scan.skip(at, COMMAND_BYTES_MAX, is_blank);
        let end = scan.skip(start, COMMAND_BYTES_MAX, |byte| !byte.is_ascii_whitespace()).min(line_end);
        let word = scan.slice(start..end);
        let value = word.strip_prefix("--user=").or_else(|| is_user.then_some(word));
        if let Some(password) = value.and_then(after_user) {
            let password_start = start + word.len() - password.len();
            let password = password.trim_end_matches(['"', '\'']);
            let is_secret = !password.is_empty() && !is_reference(password);
            let span = Span { start: password_start, end: password_start + password.len(), rule: "password" };
            return Look { span: is_secret.then_some(span), next };
        }
        is_user = matches!(word, "-u" | "--user");
        at = end.max(at + 1);
    }
    Look { span: None, next }
}

/// `Bearer …` outside a header (RFC 6750 §2.1); `end` is the end of the word.
pub(super) fn bearer(scan: &Scan, end: usize) -> Look {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    let start = scan.skip(end, 4, is_blank);
    let token_end = scan.skip(start, usize::MAX, is_token);
    let token = scan.slice(start..token_end).trim_end_matches('.');
    let is_secret = start > end && token.len() >= BEARER_BYTES_MIN && token.bytes().any(|byte| byte.is_ascii_digit());
    let span = is_secret.then_some(Span { start, end: start + token.len(), rule: "token" });
    Look { next: if is_secret { token_end } else { end }, span }
}
