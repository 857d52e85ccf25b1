//! What a token is to permit: sets of words (RFC 6749 §3.3), asked for in the order of MCP's scope selection strategy.

use super::challenge::Challenge;

/// More of them are not asked for.
const SCOPES_MAX: usize = 200;
const SCOPE_BYTES_MAX: usize = 256;
/// What makes an authorization server give refresh tokens.
const OFFLINE: &str = "offline_access";

/// The words of a list; what is none is left out.
pub(super) fn read(list: &str) -> Vec<String> {
    of(list.split(' '))
}

/// The same of words that stand alone.
pub(super) fn of<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut scopes: Vec<String> = Vec::new();
    for word in words.into_iter().filter(|word| is_scope(word)).take(SCOPES_MAX) {
        add(&mut scopes, word);
    }
    scopes
}

fn is_scope(word: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
    (1..=SCOPE_BYTES_MAX).contains(&word.len()) && word.bytes().all(is_allowed)
}

/// Adds one, if it is not among them.
pub(super) fn add(scopes: &mut Vec<String>, scope: &str) {
    if scopes.len() < SCOPES_MAX && !scopes.iter().any(|known| known == scope) {
        scopes.push(scope.to_owned());
    }
}

/// What a login may ask for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wishes<'a> {
    /// What the MCP server challenges for.
    pub(super) challenge: &'a Challenge,
    /// What it says it has.
    pub(super) supported: &'a [String],
    /// What the operator allows; empty: what the server wants.
    pub(super) allowed: &'a [String],
    /// What was asked for before.
    pub(super) before: &'a [String],
    /// What the authorization server has.
    pub(super) offered: &'a [String],
}

/// What is asked for: what the operator allows, else what the server challenges for, else what it says it has, with what was
/// asked for before, so that nothing is lost that was given.
pub(super) fn select(wishes: Wishes<'_>) -> Vec<String> {
    let Wishes { challenge, supported, allowed, before, offered } = wishes;
    let named = challenge.scopes.as_deref().unwrap_or(supported);
    let mut scopes = match allowed.is_empty() {
        true => of(named.iter().chain(before).map(String::as_str)),
        false => of(allowed.iter().map(String::as_str)),
    };
    if offered.iter().any(|scope| scope == OFFLINE) {
        add(&mut scopes, OFFLINE);
    } else {
        scopes.retain(|scope| scope != OFFLINE || allowed.contains(scope));
    }
    scopes
}

/// Whether a challenge wants what was asked for already: asking again would change nothing.
pub(super) fn is_within(challenge: &Challenge, before: &[String]) -> bool {
    challenge.scopes.as_ref().is_none_or(|scopes| scopes.iter().all(|scope| before.contains(scope)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(list: &str) -> Vec<String> {
        read(list)
    }

    #[test]
    fn scopes_are_chosen_in_the_order_of_the_specification() {
        let none: Vec<String> = Vec::new();
        let challenged = |list: &str| Challenge { scopes: Some(words(list)), ..Challenge::default() };
        let unsaid = Challenge::default();
        for (challenge, supported, allowed, before, offered, expected) in [
            (&unsaid, "", "", "", "", ""),
            (&unsaid, "a b", "", "", "", "a b"),
            (&unsaid, "a b", "c", "", "", "c"),
            (&challenged("x"), "a b", "", "", "", "x"),
            (&challenged("x"), "a b", "c", "d", "", "c"),
            (&challenged("x"), "a b", "c", "d", "offline_access", "c offline_access"),
            (&challenged("x x"), "", "", "x y", "a offline_access", "x y offline_access"),
            (&challenged("x offline_access"), "", "", "", "a", "x"),
            (&challenged(""), "a", "", "b", "", "b"),
        ] {
            let (supported, allowed, before) = (&words(supported), &words(allowed), &words(before));
            let selected = select(Wishes { challenge, supported, allowed, before, offered: &words(offered) });
            assert_eq!(selected.join(" "), expected, "{challenge:?} {supported:?} {allowed:?} {before:?}");
        }
        assert!(is_within(&challenged("a"), &words("a b")) && !is_within(&challenged("c"), &words("a b")));
        assert!(is_within(&unsaid, &none));
    }

    #[test]
    fn what_is_no_scope_is_left_out() {
        assert_eq!(read("a  b\u{e9} c\"d e\\f g"), ["a", "g"]);
        assert!(read(&"a".repeat(SCOPE_BYTES_MAX + 1)).is_empty());
        let many: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
        assert_eq!(of(many.iter().map(String::as_str)).len(), SCOPES_MAX);
    }
}
