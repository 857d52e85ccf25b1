//! One server's login: made with a human who agrees, or without one where the client speaks for itself; kept, renewed by one
//! process at a time, and given to the requests of that server alone.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use tollgate_guard::client::{
    CannotRead, Client as HttpClient, CredentialSource, Credentials, Origin, Refusal, Request,
};
use tollgate_guard::public::PublicClient;
use tollgate_guard::redact::Redactor;
use tollgate_types::{BoxFuture, Clock, Secret};

use super::challenge::Challenge;
use super::client::{self, Client, ClientIdentity, ClientProof};
use super::discovery::{self, Discovered, Named};
use super::error::AuthError;
use super::file::{LoggedIn, Login, LoginFile};
use super::outbound::Outbound;
use super::request::Asked;
use super::scope::{self, Wishes};
use super::token::{self, Endpoint, Right, Tokens};

/// A token is renewed so long before it ends, or after three quarters of a short life.
const EARLY: SignedDuration = SignedDuration::from_secs(60);
/// What could not be renewed is not tried again before.
const PAUSE: SignedDuration = SignedDuration::from_secs(30);
/// For the question that shows what a server wants.
const PROBE_WAIT: std::time::Duration = std::time::Duration::from_secs(15);
const PROBE: &[u8] = br#"{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#;

/// What the operator says of the login to a server.
#[derive(Debug, Clone)]
pub struct OauthConfig {
    /// The server's address.
    pub url: String,
    /// Who Tollgate is there.
    pub identity: ClientIdentity,
    /// The authorization server; unsaid: whom the server names.
    pub issuer: Option<String>,
    /// What the token may permit at most; unsaid: what the server wants.
    pub scopes: Vec<String>,
    /// By what right it is asked for.
    pub grant: Grant,
}

/// By what right a token is asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Grant {
    /// A human agrees.
    #[default]
    Code,
    /// Tollgate speaks for itself.
    ClientCredentials,
}

/// Sends a human where they agree, and learns where they were sent from there.
pub trait UserAgent: Send + Sync {
    /// Where humans are sent with the answer: an address of this machine's.
    fn redirect_uri(&self) -> String;

    /// Shows the question, and waits for its answer: the address that the human was sent to, for which
    /// [`Asked::is_answer`] holds.
    ///
    /// # Errors
    /// When nobody answers in time, or nobody can be asked.
    fn visit<'a>(&'a self, asked: &'a Asked) -> BoxFuture<'a, Result<String, AuthError>>;
}

/// The login to one server.
pub struct Oauth {
    config: OauthConfig,
    outbound: Outbound,
    file: LoginFile,
    others: Credentials,
    redactor: Redactor,
    clock: Arc<dyn Clock>,
    /// Who asks humans while a server is used; without one they log in beforehand.
    agent: Option<Arc<dyn UserAgent>>,
    shown: Mutex<Shown>,
}

/// What requests are given now.
#[derive(Default)]
struct Shown {
    token: Option<Secret>,
    due_at: Option<Timestamp>,
}

impl fmt::Debug for Oauth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Oauth").field("url", &self.config.url).finish_non_exhaustive()
    }
}

impl Oauth {
    /// The login to a server, kept in `file`. `others` are the headers that go with every request besides.
    ///
    /// # Errors
    /// When an address is none.
    pub fn new(
        config: OauthConfig,
        file: LoginFile,
        others: Credentials,
        redactor: Redactor,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, AuthError> {
        let outbound = Outbound::new(&config.url, config.issuer.as_deref(), PublicClient::new())?;
        let (agent, shown) = (None, Mutex::default());
        Ok(Self { config, outbound, file, others, redactor, clock, agent, shown })
    }

    /// The same, asking a human at once where one is needed.
    #[must_use]
    pub fn asking(mut self, agent: Arc<dyn UserAgent>) -> Self {
        self.agent = Some(agent);
        self
    }

    /// The same, asking the open web by another client.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn over(mut self, public: PublicClient) -> Result<Self, AuthError> {
        self.outbound = Outbound::new(&self.config.url, self.config.issuer.as_deref(), public)?;
        Ok(self)
    }

    /// The credentials that come of it, beginning with the login that is kept.
    pub fn credentials(self: Arc<Self>) -> Credentials {
        let kept = self.kept().unwrap_or_else(|error| {
            tracing::warn!(%error, "a login is not used");
            None
        });
        let headers = match kept.and_then(|login| login.tokens) {
            Some(tokens) => self.show(&tokens),
            None => self.others.current().headers().to_vec(),
        };
        Credentials::renewable(headers, self)
    }

    /// The login that is kept, as people may see it.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn seen(&self) -> Result<Option<LoggedIn>, AuthError> {
        Ok(self.kept()?.filter(|login| login.tokens.is_some()).map(|login| login.seen()))
    }

    /// The address of this machine's that Tollgate registered itself with, if it did.
    pub fn redirect_uri(&self) -> Option<String> {
        self.kept().ok().flatten().and_then(|login| login.client.redirect_uri)
    }

    /// Has a human agree, who is shown the question by `agent`, and keeps what comes of it. `more` is asked for besides what
    /// the server wants and the operator allows.
    ///
    /// # Errors
    /// Why there is no login; the one that was there stays.
    pub async fn log_in(&self, agent: &dyn UserAgent, more: &[String]) -> Result<LoggedIn, AuthError> {
        let challenge = self.probe().await?;
        let login = match self.config.grant {
            Grant::Code => self.agreed(&challenge, agent, more).await?,
            Grant::ClientCredentials => self.by_itself(&challenge).await?,
        };
        let _turn = self.file.turn().await?;
        self.file.save(&login).await?;
        Ok(login.seen())
    }

    /// Forgets the login, and tells the authorization server, where it wants to know. Whether there was one.
    ///
    /// # Errors
    /// When it cannot be forgotten here. That the authorization server was not told is no error: it is logged.
    pub async fn log_out(&self) -> Result<bool, AuthError> {
        let _turn = self.file.turn().await?;
        let kept = self.kept().unwrap_or_default();
        self.file.remove()?;
        let Some(login) = kept else { return Ok(false) };
        if let (Some(url), Some(tokens)) = (&login.revocation_endpoint, &login.tokens) {
            let told = token::revoke(&self.outbound, &self.endpoint(&login, url), tokens).await;
            if let Err(error) = told {
                tracing::warn!(%error, "the authorization server was not told of the logout");
            }
        }
        Ok(login.tokens.is_some())
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The login that is kept, if it is one for this server and this client; hidden from now on.
    fn kept(&self) -> Result<Option<Login>, AuthError> {
        let Some(mut login) = self.file.load()?.filter(|login| login.url == self.config.url) else { return Ok(None) };
        if let ClientProof::Secret(secret) = &login.client.proof {
            self.redactor.add_secret(secret);
        }
        login.tokens.iter().for_each(|tokens| self.hide(tokens));
        let is_current = match &self.config.identity {
            ClientIdentity::Registered { id, proof } => {
                login.client.proof = proof.clone();
                *id == login.client.id
            }
            ClientIdentity::Document(url) => login.client.redirect_uri.is_some() || *url == login.client.id,
            ClientIdentity::Unknown => login.client.redirect_uri.is_some(),
        };
        let is_there = self.config.issuer.as_ref().is_none_or(|issuer| *issuer == login.issuer);
        Ok(Some(login).filter(|_| is_current && is_there))
    }

    fn hide(&self, tokens: &Tokens) {
        [Some(&tokens.access), tokens.refresh.as_ref()]
            .into_iter()
            .flatten()
            .for_each(|secret| self.redactor.add_secret(secret));
    }

    /// What the server wants of who asks without a token.
    async fn probe(&self) -> Result<Challenge, AuthError> {
        let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let request = Request {
            method: "POST".to_owned(),
            url: self.config.url.clone(),
            headers: vec![
                header("Accept", "application/json, text/event-stream"),
                header("Content-Type", "application/json"),
                header("MCP-Protocol-Version", "2026-07-28"),
                header("Mcp-Method", "server/discover"),
            ],
            secret_headers: self.others.fresh().await.headers().to_vec(),
            body: Some(PROBE.to_vec()),
            timeout: PROBE_WAIT,
        };
        let response = HttpClient::new([Origin::of(&self.config.url)?]).send(request).await?;
        Ok(match response.status {
            401 => Challenge::read(&response.headers("www-authenticate")),
            _ => Challenge::default(),
        })
    }

    /// Who gives the tokens, and what was agreed on there before.
    async fn found(&self, challenge: &Challenge) -> Result<(Discovered, Option<Login>), AuthError> {
        let kept = self.kept().unwrap_or_default();
        let named = match (&self.config.issuer, &kept) {
            (Some(issuer), _) => Named::Wanted(issuer),
            (None, Some(login)) => Named::Known(&login.issuer),
            (None, None) => Named::Nobody,
        };
        let found = discovery::discover(&self.outbound, &self.config.url, challenge, named).await?;
        // INVARIANT: nothing that one authorization server gave or knows is used at another.
        let (same, other) = match kept {
            Some(login) if login.issuer == found.at.issuer => (Some(login), None),
            other => (None, other),
        };
        match other {
            Some(login) if matches!(self.config.identity, ClientIdentity::Registered { .. }) => {
                Err(AuthError::OtherIssuer { found: found.at.issuer, expected: login.issuer })
            }
            _ => Ok((found, same)),
        }
    }

    fn scopes(&self, challenge: &Challenge, found: &Discovered, before: Option<&Login>) -> Vec<String> {
        let before: Vec<String> =
            before.into_iter().flat_map(|login| login.scopes.iter().chain(&login.wanted)).cloned().collect();
        scope::select(Wishes {
            challenge,
            supported: &found.scopes,
            allowed: &self.config.scopes,
            before: &before,
            offered: &found.at.scopes,
        })
    }

    /// A login that a human agrees to.
    async fn agreed(&self, challenge: &Challenge, agent: &dyn UserAgent, more: &[String]) -> Result<Login, AuthError> {
        let (found, before) = self.found(challenge).await?;
        found.at.check_pkce()?;
        let mut scopes = self.scopes(challenge, &found, before.as_ref());
        scope::of(more.iter().map(String::as_str)).iter().for_each(|more| scope::add(&mut scopes, more));
        let redirect_uri = agent.redirect_uri();
        let client = match client::given(&self.config.identity, &found.at)? {
            Some(client) => client,
            None => {
                let known = before.map(|login| login.client);
                match known.filter(|client| client.redirect_uri.as_ref() == Some(&redirect_uri)) {
                    Some(client) => client,
                    None => client::register(&self.outbound, &found.at, &redirect_uri).await?,
                }
            }
        };
        if let ClientProof::Secret(secret) = &client.proof {
            self.redactor.add_secret(secret);
        }
        let asked = Asked::new(&found, &client.id, &redirect_uri, &scopes)?;
        let code = asked.code(&agent.visit(&asked).await?)?;
        self.redactor.add_secret(&code);
        let right = Right::Code { code: &code, verifier: &asked.verifier, redirect_uri: &asked.redirect_uri };
        self.given(found, client, scopes, right).await
    }

    /// A login of the client's own (MCP extension: OAuth client credentials).
    async fn by_itself(&self, challenge: &Challenge) -> Result<Login, AuthError> {
        let (found, before) = self.found(challenge).await?;
        let scopes = self.scopes(challenge, &found, before.as_ref());
        let scopes: Vec<String> = scopes.into_iter().filter(|scope| scope != "offline_access").collect();
        let client = client::given(&self.config.identity, &found.at)?;
        let client = client.ok_or_else(|| AuthError::NoClient { issuer: found.at.issuer.clone() })?;
        let list = scopes.join(" ");
        self.given(found, client, scopes, Right::Client { scopes: &list }).await
    }

    async fn given(
        &self,
        found: Discovered,
        client: Client,
        scopes: Vec<String>,
        right: Right<'_>,
    ) -> Result<Login, AuthError> {
        let mut login = Login {
            url: self.config.url.clone(),
            issuer: found.at.issuer,
            resource: found.resource,
            token_endpoint: found.at.token_endpoint,
            revocation_endpoint: found.at.revocation_endpoint,
            client,
            tokens: None,
            scopes,
            wanted: Vec::new(),
        };
        login.tokens = Some(self.tokens(&login, right).await?);
        Ok(login)
    }

    async fn tokens(&self, login: &Login, right: Right<'_>) -> Result<Tokens, AuthError> {
        let endpoint = self.endpoint(login, &login.token_endpoint);
        let tokens = token::ask(&self.outbound, &endpoint, &login.resource, right).await?;
        self.hide(&tokens);
        Ok(tokens)
    }

    fn endpoint<'a>(&self, login: &'a Login, url: &'a str) -> Endpoint<'a> {
        Endpoint { issuer: &login.issuer, url, client: &login.client, now: self.clock.now() }
    }

    /// Gives tokens to the requests from now on.
    fn show(&self, tokens: &Tokens) -> Vec<(String, Secret)> {
        let now = self.clock.now();
        let early = |end: Timestamp| (end.duration_since(now) / 4).min(EARLY).max(SignedDuration::ZERO);
        let due_at = tokens.expires_at.and_then(|end| end.checked_sub(early(end)).ok());
        let is_renewed = tokens.refresh.is_some() || self.config.grant == Grant::ClientCredentials;
        *self.shown() = Shown { token: Some(tokens.access.clone()), due_at: due_at.filter(|_| is_renewed) };
        let mut headers = self.others.current().headers().to_vec();
        headers.push(("Authorization".to_owned(), Secret::new(format!("Bearer {}", tokens.access.expose()))));
        headers
    }

    /// Tokens in place of those that were refused or end soon. One process at a time comes here: who waited may find that
    /// another was quicker.
    async fn renewed(&self, refusal: &Refusal) -> Result<Vec<(String, Secret)>, CannotRead> {
        let unread = |error: AuthError| CannotRead::Failed(error.to_string());
        let _turn = self.file.turn().await.map_err(unread)?;
        let kept = self.kept().map_err(unread)?;
        let shown = self.shown().token.clone();
        if let Some(tokens) = kept.as_ref().and_then(|login| login.tokens.as_ref())
            && Some(&tokens.access) != shown.as_ref()
        {
            return Ok(self.show(tokens));
        }
        let challenge = Challenge::read(&refusal.challenge);
        let login = match kept {
            Some(login) if refusal.status == 403 => self.stepped_up(login, &challenge).await,
            Some(login) => self.refreshed(login, &challenge).await,
            None => self.anew(&challenge, "nobody is logged in").await,
        };
        let login = login.map_err(|halt| match halt {
            Halt::Human(why) => CannotRead::LoggedOut(why),
            Halt::Fault(error) => unread(error),
        })?;
        self.file.save(&login).await.map_err(unread)?;
        Ok(login.tokens.map(|tokens| self.show(&tokens)).unwrap_or_default())
    }

    /// New tokens for old ones that are not taken or end soon.
    async fn refreshed(&self, mut login: Login, challenge: &Challenge) -> Result<Login, Halt> {
        let Some(Tokens { refresh: Some(refresh), .. }) = login.tokens.clone() else {
            return self.anew(challenge, "the login has ended").await;
        };
        match self.tokens(&login, Right::Refresh { token: &refresh }).await {
            Ok(mut tokens) => {
                // One that is not replaced stays good (RFC 6749 §6).
                tokens.refresh = tokens.refresh.or(Some(refresh));
                login.tokens = Some(tokens);
                Ok(login)
            }
            Err(error) if error.is_final() => {
                login.tokens = None;
                self.file.save(&login).await?;
                self.anew(challenge, &format!("the login has ended: {error}")).await
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Tokens that permit more. What was asked for before is not asked for again: it would be refused again.
    async fn stepped_up(&self, mut login: Login, challenge: &Challenge) -> Result<Login, Halt> {
        if scope::is_within(challenge, &login.scopes) {
            return Err(Halt::Human("the server wants what the login was asked for already".to_owned()));
        }
        let more = challenge.scopes.clone().unwrap_or_default();
        let mut why = format!("the server wants the login to permit more: {}", more.join(" "));
        if !self.config.scopes.is_empty() {
            why.push_str("; `scopes` does not allow it");
            return Err(Halt::Human(why));
        }
        login.wanted = scope::of(login.wanted.iter().chain(&more).map(String::as_str));
        self.file.save(&login).await?;
        self.anew(challenge, &why).await
    }

    /// A whole new login, if there is somebody to ask or nobody needs to be asked.
    async fn anew(&self, challenge: &Challenge, why: &str) -> Result<Login, Halt> {
        match (self.config.grant, &self.agent) {
            (Grant::ClientCredentials, _) => Ok(self.by_itself(challenge).await?),
            (Grant::Code, Some(agent)) => Ok(self.agreed(challenge, agent.as_ref(), &[]).await?),
            (Grant::Code, None) => Err(Halt::Human(why.to_owned())),
        }
    }
}

/// Why there are no tokens.
enum Halt {
    /// A human must log in.
    Human(String),
    Fault(AuthError),
}

impl From<AuthError> for Halt {
    fn from(error: AuthError) -> Self {
        Self::Fault(error)
    }
}

impl CredentialSource for Oauth {
    fn read(&self) -> BoxFuture<'_, Result<Vec<(String, Secret)>, CannotRead>> {
        Box::pin(async move { self.renewed(&Refusal::default()).await })
    }

    fn read_after<'a>(&'a self, refusal: &'a Refusal) -> BoxFuture<'a, Result<Vec<(String, Secret)>, CannotRead>> {
        Box::pin(async move {
            let renewed = self.renewed(refusal).await;
            if let Err(error) = &renewed {
                tracing::warn!(?error, url = self.config.url, "a login is not renewed");
                let later = self.clock.now().checked_add(PAUSE).ok();
                let mut shown = self.shown();
                shown.due_at = shown.due_at.and(later);
            }
            renewed
        })
    }

    fn is_due(&self) -> bool {
        self.shown().due_at.is_some_and(|due| self.clock.now() >= due)
    }
}
