//! What a human is asked to agree to, and the answer that comes back through the browser: PKCE (RFC 7636), `state`,
//! resource indicators (RFC 8707), and the check of who answers (RFC 9207). Nothing here is sent.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use tollgate_types::Secret;
use url::Url;

use super::discovery::Discovered;
use super::error::AuthError;

/// An answer that is longer is none.
const ANSWER_BYTES_MAX: usize = 16 * 1024;
const RANDOM_BYTES: usize = 32;

/// A question that stands open: it has one answer, which comes to one address.
#[derive(Debug, Clone)]
pub struct Asked {
    url: String,
    state: Secret,
    pub(super) verifier: Secret,
    pub(super) redirect_uri: String,
    /// Who must answer, to the byte.
    issuer: String,
    /// Whether who answers says so always.
    names_itself: bool,
}

/// 256 bits that nobody can guess, as text; none where the system has none.
pub(super) fn random() -> Option<String> {
    let mut bytes = [0_u8; RANDOM_BYTES];
    getrandom::fill(&mut bytes).ok()?;
    Some(URL_SAFE_NO_PAD.encode(bytes))
}

impl Asked {
    pub(super) fn new(
        found: &Discovered,
        client_id: &str,
        redirect_uri: &str,
        scopes: &[String],
    ) -> Result<Self, AuthError> {
        let at = &found.at;
        at.check_pkce()?;
        let no_endpoint = || AuthError::Metadata(format!("`{}` has no `authorization_endpoint`", at.issuer));
        let endpoint = at.authorization_endpoint.as_ref().ok_or_else(no_endpoint)?;
        let mut url = Url::parse(endpoint).map_err(|_| no_endpoint())?;
        let no_random = || AuthError::Human("the system gives no random numbers".to_owned());
        let (state, verifier) = (random().ok_or_else(no_random)?, random().ok_or_else(no_random)?);
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&verifier));
        {
            let mut query = url.query_pairs_mut();
            query.append_pair("response_type", "code");
            query.append_pair("client_id", client_id);
            query.append_pair("redirect_uri", redirect_uri);
            query.append_pair("state", &state);
            query.append_pair("code_challenge", &challenge);
            query.append_pair("code_challenge_method", "S256");
            query.append_pair("resource", &found.resource);
            if !scopes.is_empty() {
                query.append_pair("scope", &scopes.join(" "));
            }
            // OpenID Connect Core §11: some give refresh tokens only where they asked the human.
            if scopes.iter().any(|scope| scope == "offline_access") {
                query.append_pair("prompt", "consent");
            }
        }
        Ok(Self {
            url: url.into(),
            state: Secret::new(state),
            verifier: Secret::new(verifier),
            redirect_uri: redirect_uri.to_owned(),
            issuer: at.issuer.clone(),
            names_itself: at.names_itself,
        })
    }

    /// Where the human says yes or no. It holds nothing that is secret, and is good for this login alone.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Who asks the human, by its own name.
    pub fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Whether an address that somebody was sent to, whole or from its path on, is the answer to this question. Whatever else
    /// comes to the port is not.
    pub fn is_answer(&self, address: &str) -> bool {
        self.answer(address).is_some()
    }

    /// The parts of the answer.
    fn answer(&self, address: &str) -> Option<Vec<(String, String)>> {
        if address.len() > ANSWER_BYTES_MAX {
            return None;
        }
        let expected = Url::parse(&self.redirect_uri).ok()?;
        let answer = expected.join(address.trim()).ok()?;
        let is_there = answer.origin() == expected.origin() && answer.path() == expected.path();
        let parts: Vec<(String, String)> = answer.query_pairs().into_owned().collect();
        let states: Vec<&String> = parts.iter().filter(|(name, _)| name == "state").map(|(_, value)| value).collect();
        (is_there && matches!(states.as_slice(), [state] if state.as_str() == self.state.expose())).then_some(parts)
    }

    /// The code of the answer. Who answers is looked at before anything else of it, so that what another says is neither
    /// used nor shown (RFC 9207 §2.4; MCP 2026-07-28, Authorization Response Validation).
    pub(super) fn code(&self, address: &str) -> Result<Secret, AuthError> {
        let parts = self.answer(address).ok_or(AuthError::NoAnswer("the address is not the answer to this login"))?;
        let one = |name: &str| {
            let mut values = parts.iter().filter(|(it, _)| it == name).map(|(_, value)| value.as_str());
            let first = values.next();
            match values.next() {
                None => Ok(first),
                Some(_) => Err(AuthError::NoAnswer("the answer says the same twice")),
            }
        };
        match one("iss")? {
            Some(issuer) if issuer == self.issuer => {}
            Some(_) => return Err(AuthError::NoAnswer("another authorization server answers than was asked (`iss`)")),
            None if self.names_itself => {
                return Err(AuthError::NoAnswer(
                    "the answer does not say who answers (`iss`), as its authorization server does",
                ));
            }
            None => {}
        }
        if let Some(error) = one("error")? {
            return Err(AuthError::refused(&self.issuer, error, one("error_description")?.unwrap_or_default()));
        }
        match one("code")? {
            Some(code) if !code.is_empty() => Ok(Secret::new(code)),
            _ => Err(AuthError::NoAnswer("the answer has no code")),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const REDIRECT: &str = "http://127.0.0.1:4711/callback";

    fn asked(issuer: &str, names_itself: bool) -> Asked {
        let at = serde_json::from_value(json!({
            "issuer": issuer,
            "authorization_endpoint": "https://as.example/authorize?tenant=1",
            "token_endpoint": "https://as.example/token",
            "code_challenge_methods_supported": ["plain", "S256"],
            "authorization_response_iss_parameter_supported": names_itself,
        }));
        let found = Discovered { resource: "https://a.example/mcp".into(), scopes: Vec::new(), at: at.unwrap() };
        Asked::new(&found, "client & co", REDIRECT, &["a".into(), "offline_access".into()]).unwrap()
    }

    fn answer(asked: &Asked, rest: &str) -> String {
        format!("{REDIRECT}?state={}{rest}", asked.state.expose())
    }

    #[test]
    fn a_question_says_everything_that_it_must_and_no_secret() {
        let asked = asked("https://as.example", true);
        let url = Url::parse(asked.url()).unwrap();
        let parts: std::collections::BTreeMap<_, _> = url.query_pairs().into_owned().collect();
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(asked.verifier.expose()));
        for (name, value) in [
            ("tenant", "1"),
            ("response_type", "code"),
            ("client_id", "client & co"),
            ("redirect_uri", REDIRECT),
            ("code_challenge", &challenge),
            ("code_challenge_method", "S256"),
            ("resource", "https://a.example/mcp"),
            ("scope", "a offline_access"),
        ] {
            assert_eq!(parts[name], value);
        }
        assert!((43..=128).contains(&asked.verifier.expose().len()), "RFC 7636 §4.1");
        assert!(
            !asked.url().contains(asked.verifier.expose()) && !format!("{asked:?}").contains(asked.verifier.expose())
        );
        assert!(self::asked("https://as.example", true).state != asked.state);
    }

    #[test]
    fn no_question_is_put_without_pkce() {
        for methods in [json!(null), json!([]), json!(["plain"])] {
            let mut metadata = json!({
                "issuer": "https://as.example",
                "authorization_endpoint": "https://as.example/authorize",
                "token_endpoint": "https://as.example/token",
            });
            if !methods.is_null() {
                metadata["code_challenge_methods_supported"] = methods;
            }
            let at = serde_json::from_value(metadata).unwrap();
            let found = Discovered { resource: "https://a.example".into(), scopes: Vec::new(), at };
            let error = Asked::new(&found, "client", REDIRECT, &[]).unwrap_err();
            assert!(matches!(error, AuthError::NoPkce { .. }), "{error}");
        }
    }

    #[test]
    fn who_answers_is_compared_to_the_byte_before_anything_else() {
        let issuer = "https://as.example/Tenant";
        let encoded = "https%3A%2F%2Fas.example%2FTenant";
        let wrong = [
            "https://as.example/Tenant/",
            "https://as.example/tenant",
            "https://AS.example/Tenant",
            "https://as.example:443/Tenant",
            "https://evil.example",
            "",
        ];
        for names_itself in [true, false] {
            let asked = asked(issuer, names_itself);
            let code = |rest: &str| asked.code(&answer(&asked, rest));
            assert_eq!(code(&format!("&code=c1&iss={encoded}")).unwrap().expose(), "c1");
            for iss in wrong {
                let error =
                    code(&format!("&code=c1&iss={iss}&error=access_denied&error_description=shown")).unwrap_err();
                assert!(error.to_string().contains("another authorization server"), "{iss}: {error}");
            }
            assert_eq!(code("&code=c1").is_ok(), !names_itself);
            let error = code(&format!("&error=access_denied&error_description=no%0A%1B%5Bthank+you&iss={encoded}"));
            assert_eq!(
                error.unwrap_err().to_string(),
                format!("`{issuer}` says `access_denied`: no \\u{{1b}}[thank you")
            );
            for broken in ["&code=c1&code=c2", "", "&code=", "&iss=a&iss=b&code=c1"] {
                assert!(code(&format!("{broken}&iss={encoded}")).is_err(), "{broken}");
            }
        }
    }

    #[test]
    fn what_else_comes_to_the_port_is_no_answer() {
        let asked = asked("https://as.example", false);
        let state = asked.state.expose();
        assert!(
            asked.is_answer(&answer(&asked, "&code=c")) && asked.is_answer(&format!("/callback?state={state}&code=c"))
        );
        for address in [
            "/favicon.ico".to_owned(),
            format!("/other?state={state}&code=c"),
            "/callback?state=other&code=c".to_owned(),
            format!("/callback?state={state}&state={state}&code=c"),
            "/callback?code=c".to_owned(),
            format!("http://127.0.0.1:4712/callback?state={state}&code=c"),
            format!("http://evil.example/callback?state={state}&code=c"),
            format!("/callback?state={state}&code={}", "c".repeat(ANSWER_BYTES_MAX)),
        ] {
            assert!(!asked.is_answer(&address) && asked.code(&address).is_err(), "{address}");
        }
    }
}
