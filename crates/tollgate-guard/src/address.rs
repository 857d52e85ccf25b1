//! Which addresses of the web may be asked, whoever names them: a model, a page, a redirect, a server's metadata.
//! Pure verdicts: an address is read once, its name is judged by [`judge_url`], what the name resolves to by
//! [`judge_answers`]; nothing here resolves or connects. Addresses that the operator configured do not pass through
//! here, they are asked by [`client`](crate::client).

mod range;
mod refusal;
mod text;

use std::net::IpAddr;

use url::Url;

pub use refusal::Refusal;

/// What is allowed beyond the tables. The default is what a tool on the open web needs: ports 80 and 443.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// The ports that may be asked.
    pub ports: Vec<u16>,
    /// Single addresses that count as public although they stand in a blocked range, such as a page inside the house.
    /// Names that are refused stay refused.
    pub exempt: Vec<IpAddr>,
}

impl Default for Policy {
    fn default() -> Self {
        Self { ports: vec![80, 443], exempt: Vec::new() }
    }
}

/// Whom an address names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Host {
    /// A name in ASCII and lower case, without a dot at the end. Its addresses are still to be judged.
    Name(String),
    /// A literal, judged.
    Address(IpAddr),
}

/// An address whose text, scheme, port and host were judged. There is no other way to make one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    url: Url,
    host: Host,
}

impl Target {
    /// The address in normal form. Whoever asks uses this and never the text it came from.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Whom it names.
    pub fn host(&self) -> &Host {
        &self.host
    }
}

/// A target, and where it may be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reachable {
    /// What is asked.
    pub target: Target,
    /// The only addresses that may be connected to; never empty.
    pub addresses: Vec<IpAddr>,
}

/// Where an address leads, or why it is refused.
pub type Verdict = Result<Reachable, Refusal>;

/// Judges an address, and what its name resolves to. `resolver` is asked at most once, and not for a literal.
///
/// ```
/// use tollgate_guard::address::{Policy, judge};
///
/// let resolver = |_: &str| vec!["93.184.216.34".parse().unwrap()];
/// assert!(judge("https://example.com/page", &resolver, &Policy::default()).is_ok());
/// let refusal = judge("http://0x7f.1/", &resolver, &Policy::default()).unwrap_err();
/// assert_eq!(refusal.to_string(), "`127.0.0.1` is no public address: loopback, this machine");
/// ```
///
/// # Errors
/// Why the address is refused. A name without an address is refused too.
pub fn judge(url: &str, resolver: &dyn Fn(&str) -> Vec<IpAddr>, policy: &Policy) -> Verdict {
    let target = judge_url(url, policy)?;
    let addresses = match &target.host {
        Host::Address(address) => vec![*address],
        Host::Name(name) => {
            let answers = resolver(name);
            judge_answers(name, &answers, policy)?;
            answers
        }
    };
    Ok(Reachable { target, addresses })
}

/// Judges all of an address but what its name resolves to.
///
/// # Errors
/// Why the address is refused.
pub fn judge_url(url: &str, policy: &Policy) -> Result<Target, Refusal> {
    let authority = text::authority(url)?;
    let url = Url::parse(url).map_err(|error| Refusal::unreadable(error.to_string().to_lowercase()))?;
    let port = url.port_or_known_default().unwrap_or(0);
    let host = match url.host() {
        None => return Err(Refusal::unreadable("it names no host")),
        Some(url::Host::Domain(name)) => Host::Name(text::judge_name(name)?),
        Some(url::Host::Ipv4(address)) => {
            judge_ip(address.into(), policy)?;
            text::judge_numbers(authority)?;
            Host::Address(address.into())
        }
        Some(url::Host::Ipv6(address)) => {
            judge_ip(address.into(), policy)?;
            Host::Address(address.into())
        }
    };
    if !policy.ports.contains(&port) {
        return Err(Refusal::Port { port });
    }
    Ok(Target { url, host })
}

/// Judges where a redirect leads: anything that may be asked at all, but never from `https` to `http`.
///
/// # Errors
/// Why the redirect is not followed.
pub fn judge_hop(from: &Target, location: &str, policy: &Policy) -> Result<Target, Refusal> {
    text::judge_characters(location)?;
    let next = from.url.join(location).map_err(|error| Refusal::unreadable(error.to_string().to_lowercase()))?;
    let next = judge_url(next.as_str(), policy)?;
    if from.url.scheme() == "https" && next.url.scheme() != "https" {
        return Err(Refusal::Downgrade);
    }
    Ok(next)
}

/// Judges what a name resolved to: one address that is not public spoils them all, because nobody can say which one
/// is asked in the end.
///
/// # Errors
/// [`Refusal::Unresolved`] without any answer, otherwise the first address that is refused.
pub fn judge_answers(name: &str, answers: &[IpAddr], policy: &Policy) -> Result<(), Refusal> {
    if answers.is_empty() {
        return Err(Refusal::Unresolved { host: name.to_owned(), reason: "it has no address".to_owned() });
    }
    for &address in answers {
        if let Some(range) = blocked(address, policy) {
            return Err(Refusal::Answer { host: name.to_owned(), address, range });
        }
    }
    Ok(())
}

/// Judges one address.
///
/// # Errors
/// [`Refusal::Address`], which names the range.
pub fn judge_ip(address: IpAddr, policy: &Policy) -> Result<(), Refusal> {
    blocked(address, policy).map_or(Ok(()), |range| Err(Refusal::Address { address, range }))
}

/// The name as the judges know it: ASCII, lower case, without a dot at the end.
pub(crate) fn normal_name(name: &str) -> String {
    let ascii = match url::Host::parse(name) {
        Ok(url::Host::Domain(ascii)) => ascii,
        Ok(url::Host::Ipv4(_) | url::Host::Ipv6(_)) | Err(_) => name.to_ascii_lowercase(),
    };
    text::without_final_dot(&ascii).to_owned()
}

fn blocked(address: IpAddr, policy: &Policy) -> Option<&'static str> {
    range::blocked(address).filter(|_| !policy.exempt.contains(&address))
}
