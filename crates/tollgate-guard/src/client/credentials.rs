//! What a server knows us by: headers that hold secrets. Where the server refuses them they are read anew from where they
//! come from, once for all who were refused.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tollgate_types::{BoxFuture, Secret};

/// Headers and their values.
type Headers = Vec<(String, Secret)>;

/// Where headers come from.
pub trait CredentialSource: Send + Sync {
    /// Reads them anew: all of them, in the same order.
    ///
    /// # Errors
    /// That they cannot be read now. Why is the operator's to know, and stands in the log.
    fn read(&self) -> BoxFuture<'_, Result<Headers, CannotRead>>;

    /// The same after a server said what it does not like about them. What is read from a file is the same file whatever
    /// right is missing: only who is not known is asked for anew.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    fn read_after<'a>(&'a self, refusal: &'a Refusal) -> BoxFuture<'a, Result<Headers, CannotRead>> {
        match refusal.status {
            403 => Box::pin(std::future::ready(Err(CannotRead::Unread))),
            _ => self.read(),
        }
    }

    /// Whether they end soon, so that they are better read anew before the next request.
    fn is_due(&self) -> bool {
        false
    }
}

/// A server's word against credentials.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refusal {
    /// 401, or 403; 0 where they were refused by nobody and only end soon.
    pub status: u16,
    /// What it wants instead: its `WWW-Authenticate`.
    pub challenge: String,
}

/// Credentials cannot be read now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CannotRead {
    /// Why stands in the log.
    Unread,
    /// Why, as models and operators may read it.
    Failed(String),
    /// A human must log in. Why, as models and operators may read it.
    LoggedOut(String),
}

/// The headers that go with every request to one server. A clone shares what was read anew.
#[derive(Clone)]
pub struct Credentials {
    shared: Arc<Shared>,
}

struct Shared {
    current: Mutex<Current>,
    source: Option<Arc<dyn CredentialSource>>,
    /// Held while they are read.
    reading: tokio::sync::Mutex<()>,
}

/// The headers as they were at one moment.
#[derive(Clone)]
pub struct Current {
    headers: Arc<Headers>,
    /// How often they were read anew, and what came of it the last time.
    reads: u64,
    last: Renewal,
    /// Why they could not be read, where that may be said.
    why: Option<Arc<str>>,
}

/// What reading credentials anew came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Renewal {
    /// They are others: the request can be made again.
    Renewed,
    /// They are the ones that were refused.
    Same,
    /// They could not be read.
    Unread,
    /// A human must log in.
    LoggedOut,
    /// They are fixed for as long as the process lives.
    Fixed,
}

impl Renewal {
    /// What must be done about a server that refuses them all the same, as a model may tell its user.
    pub fn advice(self) -> &'static str {
        match self {
            Self::Renewed => {
                "they were read anew, and are refused too: the operator must renew them where they come from"
            }
            Self::Same => "read anew they are the same: the operator must renew them where they come from",
            Self::Unread => "they could not be read anew: the operator must look into the log",
            Self::LoggedOut => "the operator must log in",
            Self::Fixed => {
                "the operator must renew them and restart; from a `file` or a `command` they are read anew by themselves"
            }
        }
    }
}

/// What must be done about a server that knows who asks, and refuses (HTTP 403).
pub const NOT_ALLOWED_ADVICE: &str =
    "the server knows these credentials and does not allow them this: the operator must give them the right, or others";

impl Credentials {
    /// Headers that are what they are.
    pub fn fixed(headers: Headers) -> Self {
        Self::new(headers, None)
    }

    /// Headers that can be read anew.
    pub fn renewable(headers: Headers, source: Arc<dyn CredentialSource>) -> Self {
        Self::new(headers, Some(source))
    }

    fn new(headers: Headers, source: Option<Arc<dyn CredentialSource>>) -> Self {
        let current = Mutex::new(Current { headers: Arc::new(headers), reads: 0, last: Renewal::Fixed, why: None });
        Self { shared: Arc::new(Shared { current, source, reading: tokio::sync::Mutex::new(()) }) }
    }

    /// The headers as they are now.
    pub fn current(&self) -> Current {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.shared.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The headers as they are now, read anew first where they end soon.
    pub async fn fresh(&self) -> Current {
        let current = self.current();
        if !self.shared.source.as_ref().is_some_and(|source| source.is_due()) {
            return current;
        }
        self.renew_after(&current, &Refusal::default()).await;
        self.current()
    }

    /// Reads the headers anew after the server refused `used`. Those who were refused meanwhile are answered together.
    pub async fn renew(&self, used: &Current) -> Renewal {
        self.renew_after(used, &Refusal { status: 401, challenge: String::new() }).await
    }

    /// The same where the server said what it wants instead.
    pub async fn renew_after(&self, used: &Current, refusal: &Refusal) -> Renewal {
        let Some(source) = &self.shared.source else { return Renewal::Fixed };
        let _turn = self.shared.reading.lock().await;
        let now = self.current();
        if now.reads != used.reads {
            return now.last;
        }
        let read = source.read_after(refusal).await;
        let mut current = self.lock();
        current.reads += 1;
        current.why = None;
        current.last = match read {
            Err(CannotRead::Unread) => Renewal::Unread,
            Err(CannotRead::Failed(why)) => {
                current.why = Some(why.into());
                Renewal::Unread
            }
            Err(CannotRead::LoggedOut(why)) => {
                current.why = Some(why.into());
                Renewal::LoggedOut
            }
            Ok(headers) if headers == *current.headers => Renewal::Same,
            Ok(headers) => {
                current.headers = Arc::new(headers);
                Renewal::Renewed
            }
        };
        current.last
    }
}

impl Current {
    /// The headers.
    pub fn headers(&self) -> &[(String, Secret)] {
        &self.headers
    }

    /// Why they could not be read anew, where that may be said.
    pub fn why(&self) -> Option<&str> {
        self.why.as_deref()
    }
}

impl Default for Credentials {
    fn default() -> Self {
        Self::fixed(Vec::new())
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

impl fmt::Debug for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Current").finish_non_exhaustive()
    }
}
