//! What is refused before and beside the parser. The WHATWG parser mends much in silence: it drops tabs and newlines,
//! turns backslashes, adds slashes, decodes percent signs in hosts. A text that needs mending is one that two readers
//! read in two ways, so it is refused whatever it would lead to.

use super::Refusal;

/// An address.
const URL_BYTES_MAX: usize = 16 * 1024;
/// A name and one label of it (RFC 1035 §2.3.4).
const NAME_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

const MACHINE: &str = "it means this machine";
const NETWORK: &str = "it belongs to a local network";
const CLOUD: &str = "it is where clouds keep their metadata";

/// Names that are never public, with all names below them: RFC 6761, 6762, 8375, ICANN's reservations, what operating
/// systems and Kubernetes use, and the metadata services that have a name outside `internal`.
const NAMES_REFUSED: [(&str, &str); 21] = [
    ("localhost", MACHINE),
    ("localdomain", MACHINE),
    ("localhost6", MACHINE),
    ("localdomain6", MACHINE),
    ("internal", NETWORK),
    ("local", NETWORK),
    ("lan", NETWORK),
    ("home.arpa", NETWORK),
    ("home", NETWORK),
    ("corp", NETWORK),
    ("intranet", NETWORK),
    ("private", NETWORK),
    ("localnet", NETWORK),
    ("svc", NETWORK),
    ("consul", NETWORK),
    ("metadata.google.internal", CLOUD),
    ("metadata.goog", CLOUD),
    ("metadata.tencentyun.com", CLOUD),
    ("metadata.packet.net", CLOUD),
    ("metadata.platformequinix.com", CLOUD),
    ("metadata.oraclecloud.com", CLOUD),
];

/// The authority of an `http` or `https` address whose text needs no mending.
pub(super) fn authority(url: &str) -> Result<&str, Refusal> {
    judge_characters(url)?;
    if url.chars().any(char::is_whitespace) {
        return Err(Refusal::unreadable("it contains white space"));
    }
    let Some((scheme, rest)) = url.split_once(':') else {
        return Err(Refusal::unreadable("it does not begin with `http://` or `https://`"));
    };
    if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
        let is_scheme = scheme.starts_with(|c: char| c.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-'));
        return Err(match is_scheme {
            true => Refusal::Scheme { scheme: scheme.to_ascii_lowercase() },
            false => Refusal::unreadable("it does not begin with `http://` or `https://`"),
        });
    }
    let authority = rest.strip_prefix("//").and_then(|rest| rest.split(['/', '?', '#']).next()).unwrap_or_default();
    if authority.is_empty() {
        return Err(Refusal::unreadable("no host follows `http://` or `https://`"));
    }
    if authority.contains('@') {
        return Err(Refusal::unreadable("it carries a user name or password"));
    }
    if authority.contains('%') {
        return Err(Refusal::unreadable("its host contains a percent sign"));
    }
    Ok(authority)
}

/// Refuses what no part of an address or of a redirect may contain.
pub(super) fn judge_characters(text: &str) -> Result<(), Refusal> {
    if text.len() > URL_BYTES_MAX {
        return Err(Refusal::unreadable(format!("it is longer than {URL_BYTES_MAX} bytes")));
    }
    if text.chars().any(char::is_control) {
        return Err(Refusal::unreadable("it contains control characters"));
    }
    if text.contains('\\') {
        return Err(Refusal::unreadable("it contains a backslash"));
    }
    Ok(())
}

/// Refuses an IPv4 address in digits that are no ASCII, or with a leading zero, which is octal to one reader and decimal
/// to the next: `010.0.0.1` is `8.0.0.1` here and private elsewhere.
pub(super) fn judge_numbers(authority: &str) -> Result<(), Refusal> {
    let host = authority.split(':').next().unwrap_or_default();
    let has_leading_zero =
        |part: &str| part.strip_prefix('0').is_some_and(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit()));
    if !host.is_ascii() || host.split('.').any(has_leading_zero) {
        return Err(Refusal::unreadable("its host is a number in a spelling that is read in more than one way"));
    }
    Ok(())
}

/// The name without its final dot, if it may be a public one.
pub(super) fn judge_name(name: &str) -> Result<String, Refusal> {
    let name = without_final_dot(name);
    let is_label = |label: &str| {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_');
        (1..=LABEL_BYTES_MAX).contains(&label.len()) && label.bytes().all(allowed)
    };
    // No top-level domain begins with a digit, but `1.1.1.0x1g` or `127.0.0.1-x` may be a number to a careless reader.
    let ends_in_number = name.rsplit('.').next().is_some_and(|last| last.starts_with(|c: char| c.is_ascii_digit()));
    if name.len() > NAME_BYTES_MAX || !name.split('.').all(is_label) || ends_in_number {
        return Err(Refusal::unreadable("its host is not a name"));
    }
    let is_below = |parent: &str| name.strip_suffix(parent).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    let refused = NAMES_REFUSED.iter().rev().find(|(parent, _)| is_below(parent)).map(|(_, why)| *why);
    match refused.or_else(|| (!name.contains('.')).then_some(NETWORK)) {
        Some(why) => Err(Refusal::Name { host: name.to_owned(), why }),
        None => Ok(name.to_owned()),
    }
}

pub(super) fn without_final_dot(name: &str) -> &str {
    name.strip_suffix('.').unwrap_or(name)
}
