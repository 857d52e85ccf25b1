//! What a server wants instead of the credentials that it refused: the `Bearer` challenge in `WWW-Authenticate`
//! (RFC 9110 §11.6.1, RFC 6750 §3, RFC 9728 §5.1). Text in, parts out; what makes no sense is left out.

use super::scope;

/// A longer header is not read.
const HEADER_BYTES_MAX: usize = 16 * 1024;

/// A challenge.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Challenge {
    /// Where the server says more of itself.
    pub(super) resource_metadata: Option<String>,
    /// What the token must permit; none where the server does not say.
    pub(super) scopes: Option<Vec<String>>,
    /// What is wrong with the token.
    pub(super) error: Option<String>,
}

impl Challenge {
    /// The first `Bearer` challenge of a header that may hold several.
    pub(super) fn read(header: &str) -> Self {
        let mut challenge = Self::default();
        if header.len() > HEADER_BYTES_MAX {
            return challenge;
        }
        let mut is_bearer = false;
        let mut is_over = false;
        for part in Parts(header) {
            match part {
                Part::Scheme(scheme) => {
                    is_over |= is_bearer;
                    is_bearer = scheme.eq_ignore_ascii_case("bearer");
                }
                Part::Parameter(name, value) if is_bearer && !is_over => challenge.take(name, value),
                Part::Parameter(..) => {}
            }
        }
        challenge
    }

    fn take(&mut self, name: &str, value: String) {
        // The first of its name counts.
        match name.to_ascii_lowercase().as_str() {
            "resource_metadata" if self.resource_metadata.is_none() => self.resource_metadata = Some(value),
            "scope" if self.scopes.is_none() => self.scopes = Some(scope::read(&value)),
            "error" if self.error.is_none() => self.error = Some(value),
            _ => {}
        }
    }
}

enum Part<'a> {
    Scheme(&'a str),
    Parameter(&'a str, String),
}

/// A header, part by part.
struct Parts<'a>(&'a str);

impl<'a> Iterator for Parts<'a> {
    type Item = Part<'a>;

    fn next(&mut self) -> Option<Part<'a>> {
        loop {
            let rest = self.0.trim_start_matches([' ', '\t', ',']);
            let end = rest.find(|c: char| !is_token(c)).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            if word.is_empty() {
                // No word begins so: what cannot be read ends here.
                self.0 = "";
                return None;
            }
            let spaced = after.trim_start_matches([' ', '\t']);
            match spaced.strip_prefix('=') {
                // Padding of a `token68`, such as `Negotiate abc==`.
                Some(value) if value.is_empty() || value.starts_with([',', '=']) => {
                    self.0 = value.trim_start_matches('=');
                }
                Some(value) => {
                    let (value, after) = value_of(value.trim_start_matches([' ', '\t']));
                    self.0 = after;
                    return Some(Part::Parameter(word, value));
                }
                None => {
                    self.0 = spaced;
                    return Some(Part::Scheme(word));
                }
            }
        }
    }
}

/// A token, or a quoted text, and what follows.
fn value_of(text: &str) -> (String, &str) {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(|c: char| c == ',' || c.is_whitespace()).unwrap_or(text.len());
        let (value, after) = text.split_at(end);
        return (value.to_owned(), after);
    };
    let (mut value, mut characters) = (String::new(), quoted.chars());
    while let Some(character) = characters.next() {
        match character {
            '"' => return (value, characters.as_str()),
            '\\' => value.extend(characters.next()),
            other => value.push(other),
        }
    }
    (value, "")
}

fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~/".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read_whoever_stands_beside_them() {
        let whole = |metadata: Option<&str>, scopes: Option<&[&str]>, error: Option<&str>| Challenge {
            resource_metadata: metadata.map(ToOwned::to_owned),
            scopes: scopes.map(|scopes| scopes.iter().map(|scope| (*scope).to_owned()).collect()),
            error: error.map(ToOwned::to_owned),
        };
        let url = "https://a.example/.well-known/oauth-protected-resource/mcp";
        for (header, expected) in [
            ("", whole(None, None, None)),
            ("Bearer", whole(None, None, None)),
            (&format!("Bearer resource_metadata=\"{url}\""), whole(Some(url), None, None)),
            (
                &format!("Bearer error=\"insufficient_scope\", scope=\"a b:c\", resource_metadata=\"{url}\""),
                whole(Some(url), Some(&["a", "b:c"]), Some("insufficient_scope")),
            ),
            ("bearer SCOPE = a , error=invalid_token", whole(None, Some(&["a"]), Some("invalid_token"))),
            ("Basic realm=\"x, Bearer scope=y\", Bearer scope=\"z\"", whole(None, Some(&["z"]), None)),
            ("Negotiate YWJjZA==, Bearer scope=\"z\"", whole(None, Some(&["z"]), None)),
            ("Bearer scope=\"z\", Basic realm=\"x\", scope=\"w\"", whole(None, Some(&["z"]), None)),
            ("Bearer scope=\"one\", Bearer scope=\"two\"", whole(None, Some(&["one"]), None)),
            (r#"Bearer error="a\"b", scope="unended"#, whole(None, Some(&["unended"]), Some("a\"b"))),
            ("Bearer scope=\"\"", whole(None, Some(&[]), None)),
            ("Bearer \u{1}", whole(None, None, None)),
        ] {
            assert_eq!(Challenge::read(header), expected, "{header}");
        }
        assert_eq!(Challenge::read(&format!("Bearer scope=\"{}\"", "a".repeat(20_000))), Challenge::default());
    }
}
