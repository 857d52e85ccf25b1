//! Scheme, host and port: what the operator allows, and what a request is held against.

use std::borrow::Cow;
use std::fmt;

use url::{Host, ParseError, Url};

use super::ClientError;

/// Scheme, host and port of an address, in normal form.
///
/// ```
/// use tollgate_guard::client::Origin;
///
/// # fn main() -> Result<(), tollgate_guard::client::ClientError> {
/// let origin = Origin::of("HTTP://LocalHost:8000/v1/chat?x=1")?;
/// assert_eq!(origin.to_string(), "http://localhost:8000");
/// assert_eq!(Origin::of("https://api.example.com")?, Origin::of("https://api.example.com:443/v1")?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Origin {
    url: String,
}

impl Origin {
    /// The origin of an absolute `http` or `https` address.
    ///
    /// # Errors
    /// [`ClientError::BadUrl`], which names what is wrong.
    pub fn of(url: &str) -> Result<Self, ClientError> {
        Ok(Self { url: parse(url)?.origin().ascii_serialization() })
    }

    /// Whether what is sent there goes to another machine in plain text.
    pub fn is_plain_to_afar(&self) -> bool {
        self.url.starts_with("http:") && !self.is_loopback()
    }

    /// Whether it is on this machine.
    pub fn is_loopback(&self) -> bool {
        Url::parse(&self.url).is_ok_and(|url| match url.host() {
            Some(Host::Ipv4(ip)) => ip.is_loopback(),
            Some(Host::Ipv6(ip)) => ip.is_loopback(),
            Some(Host::Domain(name)) => name == "localhost",
            None => false,
        })
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

/// The `http` or `https` address at which a WebSocket's `ws` or `wss` address is asked. Others stay as they are.
///
/// ```
/// assert_eq!(tollgate_guard::client::socket_address("wss://a.example/mcp"), "https://a.example/mcp");
/// ```
pub fn socket_address(url: &str) -> Cow<'_, str> {
    match url.split_once("://") {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("ws") => format!("http://{rest}").into(),
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("wss") => format!("https://{rest}").into(),
        Some(_) | None => url.into(),
    }
}

/// The address that a server names, from where it was asked. It may lead to no other origin.
///
/// # Errors
/// [`ClientError::BadUrl`], which says what is wrong.
pub fn join(asked: &str, named: &str) -> Result<String, ClientError> {
    let bad = |reason: &str| ClientError::BadUrl { url: shown(named), reason: reason.to_owned() };
    let asked = parse(asked)?;
    let joined = asked.join(named).map_err(|_| bad("it is no address"))?;
    // What was joined is read as any other address is.
    let joined = parse(joined.as_str())?;
    if joined.origin() != asked.origin() {
        return Err(bad("it leads to another origin than the server's"));
    }
    Ok(joined.into())
}

/// Reads an address that this client can ask.
pub(super) fn parse(text: &str) -> Result<Url, ClientError> {
    let bad = |reason: &str| ClientError::BadUrl { url: shown(text), reason: reason.to_owned() };
    // The WHATWG parser repairs these silently, and two readers of one address then see two hosts.
    if text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '\\') {
        return Err(bad("white space, control characters and backslashes do not belong in an address"));
    }
    let url = Url::parse(text).map_err(|error| match error {
        ParseError::RelativeUrlWithoutBase => bad("it does not begin with `http://` or `https://`"),
        other => bad(&other.to_string().to_lowercase()),
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(bad("it does not begin with `http://` or `https://`"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad("it carries a user name or password, which belong in a secret header"));
    }
    match url.host() {
        None | Some(Host::Domain("")) => Err(bad("it names no host")),
        Some(_) => Ok(url),
    }
}

/// As much of an address as may be shown.
pub(crate) fn shown(text: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 200;
    // In a broken address nobody can say where the user information ends, so all of it goes.
    let visible = if text.contains('@') {
        let scheme = text.split_once("://").map_or("", |(scheme, _)| scheme);
        let scheme = if scheme.chars().all(|c| c.is_ascii_alphanumeric()) { scheme } else { "" };
        return format!("{scheme}://[not shown]");
    } else {
        text.split(['?', '#']).next().unwrap_or_default()
    };
    visible.chars().take(SHOWN_CHARS_MAX).flat_map(char::escape_debug).collect()
}
