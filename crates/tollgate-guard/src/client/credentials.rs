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
}

/// Credentials cannot be read now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CannotRead;

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
        let current = Mutex::new(Current { headers: Arc::new(headers), reads: 0, last: Renewal::Fixed });
        Self { shared: Arc::new(Shared { current, source, reading: tokio::sync::Mutex::new(()) }) }
    }

    /// The headers as they are now.
    pub fn current(&self) -> Current {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.shared.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the headers anew after the server refused `used`. Those who were refused meanwhile are answered together.
    pub async fn renew(&self, used: &Current) -> Renewal {
        let Some(source) = &self.shared.source else { return Renewal::Fixed };
        let _turn = self.shared.reading.lock().await;
        let now = self.current();
        if now.reads != used.reads {
            return now.last;
        }
        let read = source.read().await;
        let mut current = self.lock();
        current.reads += 1;
        current.last = match read {
            Err(CannotRead) => Renewal::Unread,
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
