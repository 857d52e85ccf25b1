//! Logins: an authorization server with every vice, two processes that share a folder, and what nobody may be told.

mod double;

use tollgate_guard::client::{Client, Credentials, Origin, Request};
use tollgate_guard::redact::Redactor;
use tollgate_mcp::oauth::{
    Asked, AuthError, ClientIdentity, ClientProof, Grant, LoggedIn, LoginFile, Oauth, OauthConfig, UserAgent,
};
use tollgate_mcp::upstream::{Trouble, UpstreamState};
use tollgate_testkit::TestClock;
use tollgate_types::{BoxFuture, Code, Secret};

use super::*;
use double::{Double, Vice};

const REDIRECT: &str = "http://127.0.0.1:4711/callback";

/// A human who agrees at once.
struct Willing;

impl UserAgent for Willing {
    fn redirect_uri(&self) -> String {
        REDIRECT.to_owned()
    }

    fn visit<'a>(&'a self, asked: &'a Asked) -> BoxFuture<'a, Result<String, AuthError>> {
        Box::pin(async {
            let url = asked.url().to_owned();
            let client = Client::new([Origin::of(&url)?]);
            let (method, headers, secret_headers) = ("GET".to_owned(), Vec::new(), Vec::new());
            let request = Request { method, url, headers, secret_headers, body: None, timeout: NEVER };
            let response = client.send(request).await?;
            Ok(response.header("location").unwrap().to_owned())
        })
    }
}

/// What shares a folder: each [`process`](Self::process) is one.
struct Shop {
    folder: TempDir,
    clock: Arc<TestClock>,
    redactor: Redactor,
    config: OauthConfig,
}

impl Shop {
    fn at(double: &Double) -> Self {
        let config = OauthConfig {
            url: double.url(),
            identity: ClientIdentity::Unknown,
            issuer: None,
            scopes: Vec::new(),
            grant: Grant::Code,
        };
        let (folder, redactor) = (TempDir::new().unwrap(), Redactor::new(b"a key of this installation", []));
        Self { folder, clock: Arc::new(TestClock::default()), redactor, config }
    }

    fn process(&self) -> Arc<Oauth> {
        let file = LoginFile::new(&self.folder.path().join("logins"), "x");
        let (redactor, clock) = (self.redactor.clone(), Arc::clone(&self.clock) as Arc<dyn Clock>);
        Arc::new(Oauth::new(self.config.clone(), file, Credentials::default(), redactor, clock).unwrap())
    }

    async fn log_in(&self) -> Result<LoggedIn, AuthError> {
        self.process().log_in(&Willing, &[]).await
    }

    /// The server as one process uses it.
    async fn house(&self) -> House {
        let kind = UpstreamKind::Http { url: self.config.url.clone(), headers: self.process().credentials() };
        let house = House::of(|_| vec![UpstreamConfig::new("x", kind)], limits());
        house.upstreams.settle(NEVER).await;
        house
    }
}

#[tokio::test]
async fn a_login_is_made_once_and_is_everybodys_until_it_is_taken_back() {
    let double = Double::serve(Vice::None).await;
    let shop = Shop::at(&double);
    let login = shop.log_in().await.unwrap();
    assert_eq!((login.issuer.as_str(), login.resource.as_str()), (double.origin.as_str(), double.url().as_str()));
    assert_eq!((login.scopes, login.is_renewed), (vec!["read".to_owned(), "offline_access".to_owned()], true));
    for _ in 0..2 {
        let house = shop.house().await;
        assert_eq!(house.status().state, UpstreamState::Ready, "{:?}", house.status());
        assert_eq!(text(&house.call("mcp__x__read", json!({"a": 1})).await.unwrap()), r#"{"a":1}"#);
        house.upstreams.stop().await;
    }
    // Registered once, and the same client again.
    shop.log_in().await.unwrap();
    assert_eq!(double.look(|it| (it.registered.len(), it.authorized.len())), (1, 2));
    let shown =
        format!("{:?} {}", shop.process(), shop.redactor.text("access-token-1 refresh-token-2 client-secret-1"));
    assert!(!["access-token", "refresh-token", "client-secret"].iter().any(|secret| shown.contains(secret)), "{shown}");

    assert!(shop.process().log_out().await.unwrap());
    assert_eq!(double.seen().revoked[0]["token"], "refresh-token-2");
    assert!(shop.process().seen().unwrap().is_none() && !shop.process().log_out().await.unwrap());
    assert_eq!(shop.house().await.status().trouble, Some(Trouble::NeedsLogin));
}

#[tokio::test]
async fn who_is_not_logged_in_is_told_how_and_a_login_elsewhere_is_found() {
    let double = Double::serve(Vice::None).await;
    let shop = Shop::at(&double);
    let house = shop.house().await;
    let status = house.status();
    assert_eq!((status.state, status.trouble), (UpstreamState::Down, Some(Trouble::NeedsLogin)));
    assert_eq!(status.last_error.as_deref(), Some("the server answered HTTP 401: nobody is logged in"));
    shop.log_in().await.unwrap();
    // A server that is down may be started again after a pause.
    until("it is up", || house.status().retry_in_ms.is_none_or(|ms| ms == 0)).await;
    house.upstreams.settle(NEVER).await;
    assert_eq!(house.status().state, UpstreamState::Ready, "{:?}", house.status());
    assert_eq!(double.look(|it| (it.authorized.len(), it.tokens.len())), (1, 1));

    double.take_back();
    let error = house.call("mcp__x__read", json!({})).await.unwrap_err();
    assert_eq!(error.code, Code::UpstreamError);
    assert!(error.message.contains("the login has ended") && error.nothing_happened && !error.retryable, "{error:?}");
    assert_eq!(error.hint.as_deref(), Some("the operator must log in: tollgate mcp login x"));
    let asked = double.seen().tokens.len();
    house.call("mcp__x__read", json!({})).await.unwrap_err();
    assert_eq!(double.seen().tokens.len(), asked, "what was taken back is not tried again");
}

#[tokio::test]
async fn a_token_that_is_refused_is_renewed_once_by_all_processes_together() {
    let double = Double::serve(Vice::None).await;
    let shop = Shop::at(&double);
    shop.log_in().await.unwrap();
    let houses = [shop.house().await, shop.house().await, shop.house().await];
    for _ in 0..3 {
        double.end_tokens();
        let before = double.look(|it| (it.tokens.len(), it.calls));
        let calls = houses.iter().flat_map(|house| (0..8).map(move |n| house.call("mcp__x__read", json!({"n": n}))));
        for answered in futures_util::future::join_all(calls).await {
            answered.unwrap();
        }
        let after = double.look(|it| (it.tokens.len(), it.calls));
        assert_eq!((after.0 - before.0, after.1 - before.1), (1, 24), "one renewal, and each call once");
    }
}

#[tokio::test]
async fn a_token_is_renewed_before_it_ends_and_not_lost_when_that_fails() {
    let double = Double::serve(Vice::None).await;
    let shop = Shop::at(&double);
    shop.log_in().await.unwrap();
    let house = shop.house().await;
    shop.clock.advance(Duration::from_secs(3530));
    house.call("mcp__x__read", json!({})).await.unwrap();
    assert_eq!(double.look(|it| (it.tokens.len(), it.refused)), (1, 1), "not yet: the one refusal is the probe's");
    shop.clock.advance(Duration::from_secs(20));
    double.seen().is_down = true;
    for _ in 0..3 {
        house.call("mcp__x__read", json!({})).await.unwrap();
    }
    assert_eq!(double.seen().tokens.len(), 2, "what fails is not tried again at once");
    double.seen().is_down = false;
    shop.clock.advance(Duration::from_secs(31));
    house.call("mcp__x__read", json!({})).await.unwrap();
    assert_eq!(double.look(|it| (it.tokens.len(), it.refused)), (3, 1));
    double.seen().is_down = true;
    double.end_tokens();
    let error = house.call("mcp__x__read", json!({})).await.unwrap_err();
    assert!(error.message.contains("HTTP 502") && error.hint.unwrap().contains("could not be read anew"));
    double.seen().is_down = false;
    house.call("mcp__x__read", json!({})).await.unwrap();
}

#[tokio::test]
async fn more_rights_are_asked_of_a_human_with_those_that_were_given() {
    let double = Double::serve(Vice::None).await;
    let shop = Shop::at(&double);
    shop.log_in().await.unwrap();
    let house = shop.house().await;
    let error = house.call("mcp__x__write", json!({})).await.unwrap_err();
    assert!(error.message.contains("to permit more: write") && error.hint.unwrap().contains("tollgate mcp login x"));
    assert_eq!(double.seen().authorized.len(), 1);
    house.call("mcp__x__read", json!({})).await.unwrap();
    let login = shop.log_in().await.unwrap();
    assert_eq!(login.scopes, ["read", "offline_access", "write"]);
    house.call("mcp__x__write", json!({})).await.unwrap();
    assert_eq!(double.seen().calls, 2);

    // What the operator does not allow is asked of nobody.
    let mut shop = Shop::at(&double);
    shop.config.scopes = vec!["read".into()];
    assert_eq!(shop.log_in().await.unwrap().scopes, ["read", "offline_access"]);
    let error = shop.house().await.call("mcp__x__write", json!({})).await.unwrap_err();
    assert!(error.message.contains("`scopes` does not allow it"), "{error:?}");
    assert_eq!(shop.log_in().await.unwrap().scopes, ["read", "offline_access"]);
    let more = shop.process().log_in(&Willing, &["write".into()]).await.unwrap();
    assert_eq!(more.scopes, ["read", "offline_access", "write"]);
}

#[tokio::test]
async fn what_a_server_says_falsely_ends_the_login_before_a_token_is_asked_for() {
    for (vice, part) in [
        (Vice::OtherIssuer, "says that it is `https://evil.example`"),
        (Vice::OtherResource, "says that it is `https://evil.example/mcp`"),
        (Vice::NoPkce, "does not say that it checks PKCE"),
        (Vice::PrivateToken, "`http://10.0.0.1` is not asked"),
        (Vice::PrivateMetadata, "`http://169.254.169.254` is not asked"),
        (Vice::PrivateRedirect, "has no metadata"),
        (Vice::EndlessRedirects, "has no metadata"),
        (Vice::HugeMetadata, "larger than"),
        (Vice::MixedUp, "another authorization server answers"),
        (Vice::NoIss, "does not say who answers"),
        (Vice::NoRegistration, "registers nobody by itself"),
        (Vice::RefusesRegistration, "`invalid_redirect_uri`: the double says so"),
        (Vice::Denied, "`access_denied`"),
    ] {
        let double = Double::serve(vice).await;
        let error = Shop::at(&double).log_in().await.unwrap_err().to_string();
        assert!(error.contains(part), "{vice:?}: {error}");
        assert!(!error.contains("the-code"), "{vice:?}: {error}");
        assert!(double.seen().tokens.is_empty(), "{vice:?}");
    }
    for (vice, part) in [(Vice::OddToken, "of a kind"), (Vice::Rubbish, "the answer is none")] {
        let double = Double::serve(vice).await;
        let shop = Shop::at(&double);
        let error = shop.log_in().await.unwrap_err().to_string();
        assert!(error.contains(part), "{vice:?}: {error}");
        assert!(shop.process().seen().unwrap().is_none(), "{vice:?}");
    }
}

#[tokio::test]
async fn a_login_is_for_one_address_one_client_and_one_authorization_server() {
    let (double, other) = (Double::serve(Vice::None).await, Double::serve(Vice::None).await);
    let mut shop = Shop::at(&double);
    shop.log_in().await.unwrap();
    shop.config.url = other.url();
    assert_eq!(shop.house().await.status().trouble, Some(Trouble::NeedsLogin));
    assert!(other.seen().asked.iter().all(|asked| asked == "server/discover"), "no token was tried");

    let mut shop = Shop::at(&double);
    shop.log_in().await.unwrap();
    let proof = ClientProof::Secret(Secret::new("client-secret-1"));
    shop.config.identity = ClientIdentity::Registered { id: "by hand".into(), proof };
    assert!(shop.process().seen().unwrap().is_none(), "the login is another client's");
    shop.config.issuer = Some("https://login.example".into());
    let error = shop.log_in().await.unwrap_err();
    assert!(matches!(error, AuthError::OtherIssuer { .. }), "{error}");
    shop.config.issuer = Some(double.origin.clone());
    shop.log_in().await.unwrap();
    assert_eq!(double.seen().tokens.last().unwrap()["client_id"], "by hand");
    let kept = fs::read_to_string(shop.folder.path().join("logins/x.json")).unwrap();
    assert!(!kept.contains("client-secret-1"), "the operator has it");
}

#[tokio::test]
async fn a_login_that_cannot_be_renewed_ends() {
    let double = Double::serve(Vice::NoRefresh).await;
    let shop = Shop::at(&double);
    assert!(!shop.log_in().await.unwrap().is_renewed);
    let house = shop.house().await;
    shop.clock.advance(Duration::from_secs(4000));
    house.call("mcp__x__read", json!({})).await.unwrap();
    double.end_tokens();
    let error = house.call("mcp__x__read", json!({})).await.unwrap_err();
    assert!(error.message.contains("the login has ended"), "{error:?}");
    assert_eq!(double.seen().tokens.len(), 1);
}
