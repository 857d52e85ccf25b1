//! The token endpoint (OAuth 2.1 §3.2): a code, a refresh token or nothing but the client itself for an access token.
//! What comes back is looked at before it is used.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use tollgate_types::Secret;
use url::form_urlencoded;

use super::client::{Client, ClientProof, Method};
use super::error::AuthError;
use super::outbound::{Answer, Outbound, Post};

const FORM: &str = "application/x-www-form-urlencoded";
const TOKEN_BYTES_MAX: usize = 16 * 1024;
/// A token that says it lives longer is not believed to.
const LIFETIME_SECONDS_MAX: i64 = 10 * 365 * 24 * 3600;

/// Whom a token is asked of, and by whom.
pub(super) struct Endpoint<'a> {
    pub(super) issuer: &'a str,
    pub(super) url: &'a str,
    pub(super) client: &'a Client,
    pub(super) now: Timestamp,
}

/// By what right a token is asked for.
pub(super) enum Right<'a> {
    /// A human agreed.
    Code { code: &'a Secret, verifier: &'a Secret, redirect_uri: &'a str },
    /// It was given before.
    Refresh { token: &'a Secret },
    /// The client speaks for itself.
    Client { scopes: &'a str },
}

impl Right<'_> {
    fn form(&self) -> Vec<(&'static str, &str)> {
        match self {
            Self::Code { code, verifier, redirect_uri } => vec![
                ("grant_type", "authorization_code"),
                ("code", code.expose()),
                ("code_verifier", verifier.expose()),
                ("redirect_uri", redirect_uri),
            ],
            Self::Refresh { token } => vec![("grant_type", "refresh_token"), ("refresh_token", token.expose())],
            Self::Client { scopes: "" } => vec![("grant_type", "client_credentials")],
            Self::Client { scopes } => vec![("grant_type", "client_credentials"), ("scope", scopes)],
        }
    }
}

/// What was given.
#[derive(Debug, Clone)]
pub(super) struct Tokens {
    pub(super) access: Secret,
    pub(super) refresh: Option<Secret>,
    pub(super) expires_at: Option<Timestamp>,
}

#[derive(Deserialize)]
struct Given {
    access_token: String,
    token_type: String,
    expires_in: Option<Value>,
    refresh_token: Option<String>,
}

#[derive(Deserialize)]
struct Said {
    error: String,
    error_description: Option<String>,
}

/// What an authorization server says in place of an answer.
pub(super) fn refusal(by: &str, answer: &Answer) -> AuthError {
    match answer.json::<Said>() {
        Some(said) => AuthError::refused(by, &said.error, said.error_description.as_deref().unwrap_or_default()),
        None => AuthError::Unreachable(format!("`{by}` answered HTTP {}", answer.status)),
    }
}

/// Asks for a token that is for `resource` alone (RFC 8707).
pub(super) async fn ask(
    outbound: &Outbound,
    endpoint: &Endpoint<'_>,
    resource: &str,
    right: Right<'_>,
) -> Result<Tokens, AuthError> {
    let mut form = right.form();
    form.push(("resource", resource));
    let answer = post(outbound, endpoint, &form).await?;
    if answer.status != 200 {
        return Err(refusal(endpoint.issuer, &answer));
    }
    let bad = |why: &str| AuthError::BadToken { by: endpoint.issuer.to_owned(), why: why.to_owned() };
    let given = answer.json::<Given>().ok_or_else(|| bad("the answer is none"))?;
    read(given, endpoint.now).map_err(bad)
}

/// Tells an authorization server that tokens are not needed any more (RFC 7009). With the one that renews go all that came
/// of it.
pub(super) async fn revoke(outbound: &Outbound, endpoint: &Endpoint<'_>, tokens: &Tokens) -> Result<(), AuthError> {
    let form = match &tokens.refresh {
        Some(refresh) => [("token", refresh.expose()), ("token_type_hint", "refresh_token")],
        None => [("token", tokens.access.expose()), ("token_type_hint", "access_token")],
    };
    let answer = post(outbound, endpoint, &form).await?;
    if answer.status == 200 { Ok(()) } else { Err(refusal(endpoint.issuer, &answer)) }
}

async fn post(outbound: &Outbound, endpoint: &Endpoint<'_>, form: &[(&str, &str)]) -> Result<Answer, AuthError> {
    outbound.post(request(endpoint, form)?).await
}

fn request<'a>(endpoint: &Endpoint<'a>, form: &[(&str, &str)]) -> Result<Post<'a>, AuthError> {
    let mut body = form_urlencoded::Serializer::new(String::new());
    body.extend_pairs(form);
    let authorization = identify(endpoint, &mut body)?;
    Ok(Post { url: endpoint.url, content_type: FORM, authorization, body: body.finish() })
}

/// Shows who asks.
fn identify(
    endpoint: &Endpoint<'_>,
    body: &mut form_urlencoded::Serializer<'_, String>,
) -> Result<Option<Secret>, AuthError> {
    let Client { id, method, proof, .. } = endpoint.client;
    match (method, proof) {
        (Method::ClientSecretBasic, ClientProof::Secret(secret)) => {
            let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
            let pair = format!("{}:{}", encoded(id), encoded(secret.expose()));
            return Ok(Some(Secret::new(format!("Basic {}", STANDARD.encode(pair)))));
        }
        (Method::ClientSecretPost, ClientProof::Secret(secret)) => {
            body.append_pair("client_id", id).append_pair("client_secret", secret.expose());
        }
        (Method::PrivateKeyJwt, ClientProof::Key(key)) => {
            let made = key.assertion(id, endpoint.issuer, endpoint.now);
            let made = made.ok_or_else(|| AuthError::File("the private key signs nothing".to_owned()))?;
            body.append_pair("client_id", id)
                .append_pair("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
                .append_pair("client_assertion", made.expose());
        }
        _ => {
            body.append_pair("client_id", id);
        }
    }
    Ok(None)
}

fn read(given: Given, now: Timestamp) -> Result<Tokens, &'static str> {
    let is_fit = |text: &str| (1..=TOKEN_BYTES_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic());
    if !given.token_type.eq_ignore_ascii_case("bearer") {
        return Err("it is of a kind that is not known here");
    }
    if !is_fit(&given.access_token) || !given.refresh_token.as_deref().is_none_or(is_fit) {
        return Err("it has characters that a header cannot hold, or is too long");
    }
    // Some write the number as a text.
    let seconds = given.expires_in.and_then(|it| it.as_i64().or_else(|| it.as_str()?.parse().ok()));
    let seconds = seconds.filter(|seconds: &i64| *seconds >= 0);
    let lifetime = seconds.map(|seconds| jiff::SignedDuration::from_secs(seconds.min(LIFETIME_SECONDS_MAX)));
    Ok(Tokens {
        access: Secret::new(given.access_token),
        refresh: given.refresh_token.map(Secret::new),
        expires_at: lifetime.and_then(|lifetime| now.checked_add(lifetime).ok()),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_client_shows_itself_in_the_one_way_that_was_agreed_on() {
        let secret = || ClientProof::Secret(Secret::new("s:e c+r/et"));
        for (method, proof, header, form) in [
            (Method::None, ClientProof::Nothing, None, "client_id=an+id"),
            (Method::None, secret(), None, "client_id=an+id"),
            (Method::ClientSecretBasic, secret(), Some("Basic YW4raWQ6cyUzQWUrYyUyQnIlMkZldA=="), ""),
            (Method::ClientSecretPost, secret(), None, "client_id=an+id&client_secret=s%3Ae+c%2Br%2Fet"),
        ] {
            let client = Client { id: "an id".into(), method, proof, redirect_uri: None };
            let endpoint =
                Endpoint { issuer: "https://a.example", url: "", client: &client, now: Timestamp::UNIX_EPOCH };
            let mut body = form_urlencoded::Serializer::new(String::new());
            let authorization = identify(&endpoint, &mut body).unwrap();
            assert_eq!(authorization.as_ref().map(Secret::expose), header, "{method:?}");
            assert_eq!(body.finish(), form, "{method:?}");
        }
    }

    #[test]
    fn what_is_given_is_looked_at() {
        let given = |value: Value| {
            let given: Option<Given> = serde_json::from_value(value).ok();
            given.ok_or("none").and_then(|given| read(given, Timestamp::UNIX_EPOCH))
        };
        let tokens = given(json!({
            "access_token": "a.b-c_~+/=", "token_type": "bearer", "expires_in": "3600", "refresh_token": "r", "scope": "x y",
        }));
        let tokens = tokens.unwrap();
        assert_eq!(tokens.expires_at.unwrap().as_second(), 3600);
        let plain = given(json!({"access_token": "a", "token_type": "Bearer"})).unwrap();
        assert!(plain.refresh.is_none() && plain.expires_at.is_none());
        for (broken, why) in [
            (json!({"access_token": "a", "token_type": "DPoP"}), "kind"),
            (json!({"access_token": "a\r\nX: y", "token_type": "Bearer"}), "characters"),
            (json!({"access_token": "", "token_type": "Bearer"}), "characters"),
            (json!({"access_token": "a".repeat(TOKEN_BYTES_MAX + 1), "token_type": "Bearer"}), "too long"),
            (json!({"access_token": "a", "token_type": "Bearer", "refresh_token": "\u{e9}"}), "characters"),
            (json!({"token_type": "Bearer"}), "none"),
        ] {
            assert!(given(broken.clone()).unwrap_err().contains(why), "{broken}");
        }
        let far = given(json!({"access_token": "a", "token_type": "Bearer", "expires_in": i64::MAX})).unwrap();
        assert_eq!(far.expires_at.unwrap().as_second(), LIFETIME_SECONDS_MAX);
        let past = given(json!({"access_token": "a", "token_type": "Bearer", "expires_in": -1})).unwrap();
        assert!(past.expires_at.is_none());
    }
}
