//! Takes secrets out of what is about to be recorded, logged or shown, in two layers: the secret values this process
//! handed out, in every encoding they may come back in, and whatever stands under a name that says it is a secret.
//!
//! A secret becomes `[redacted:<rule>:<8 hex digits>]`; the digits are an HMAC under the key of the installation, so
//! that two places can be seen to hold the same secret. Values that could be guessed from it (`pin`, short ones) get
//! none. Text that only talks about secrets stays as it is. Recognising secrets by their own form is not done here, but
//! for the few forms that cannot be mistaken.

mod forms;
mod keys;
mod placeholder;
mod secrets;
mod text;
mod tree;

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::Sha256;
use tollgate_types::Secret;

use secrets::Secrets;

/// A shorter secret is not looked for: it would be found in half of all words. Configuration should refuse it.
pub const SECRET_BYTES_MIN: usize = 4;

/// A shorter line of a secret, such as `{` or `-----END PRIVATE KEY-----`'s neighbours, gives nothing away.
const LINE_BYTES_MIN: usize = 16;

/// A shorter value could be found by trying, given its HMAC.
const HMAC_VALUE_BYTES_MIN: usize = 8;

/// Takes secrets out of texts and values. A clone is cheap and shares what was learned.
///
/// ```
/// use tollgate_guard::redact::Redactor;
/// use tollgate_types::Secret;
///
/// let redactor = Redactor::new(b"key of this installation", [Secret::new("zq-injected-secret")]);
/// assert_eq!(redactor.text("the password policy requires rotation"), "the password policy requires rotation");
/// assert_eq!(redactor.text("password=hunter2&user=bob"), "password=[redacted:password]&user=bob");
/// assert!(redactor.text("echo enEtaW5qZWN0ZWQtc2VjcmV0").starts_with("echo [redacted:secret:"));
/// ```
#[derive(Clone)]
pub struct Redactor {
    shared: Arc<Shared>,
}

struct Shared {
    mac: Option<Hmac<Sha256>>,
    secrets: RwLock<Arc<Secrets>>,
}

impl Redactor {
    /// A redactor that knows these secrets.
    pub fn new(install_key: &[u8], secrets: impl IntoIterator<Item = Secret>) -> Self {
        // HMAC takes a key of any length; were it not so, markers would lack their digits and nothing would leak.
        let mac = Hmac::new_from_slice(install_key).ok();
        let redactor = Self { shared: Arc::new(Shared { mac, secrets: RwLock::default() }) };
        for secret in secrets {
            redactor.add_secret(&secret);
        }
        redactor
    }

    /// Learns another secret; every later redaction sees it. White space around it does not count, and a secret below
    /// [`SECRET_BYTES_MIN`] is not looked for. Of a secret of several lines each longer line is one too: what prints it
    /// may print it line by line.
    pub fn add_secret(&self, secret: &Secret) {
        let value = secret.expose().trim();
        self.learn(value, SECRET_BYTES_MIN);
        if value.contains('\n') {
            value.lines().for_each(|line| self.learn(line.trim(), LINE_BYTES_MIN));
        }
    }

    fn learn(&self, value: &str, bytes_min: usize) {
        if value.len() >= bytes_min {
            let marker = self.marker("secret", value);
            let mut secrets = self.shared.secrets.write().unwrap_or_else(PoisonError::into_inner);
            *secrets = Arc::new(secrets.with(value, marker));
        }
    }

    /// Takes out known secrets, and what a name in the text gives away: `password=…`, `Authorization: …`,
    /// `--token …`, `"apiKey": "…"`, form bodies, query strings, passwords in addresses, JSON of any shape.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let clean = self.secrets_only(text);
        match self.named_in_text(&clean, 0) {
            Some(named) => Cow::Owned(named),
            None => clean,
        }
    }

    /// Takes out known secrets and nothing else: for what goes to a model or a client.
    pub fn secrets_only<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.secrets().replace(text)
    }

    /// Takes out known secrets, and everything below a name that says it is a secret: a key, the name of a
    /// `{name, value}` pair, of a header pair, of a flag in a list of arguments. Strings are treated as in
    /// [`text`](Self::text).
    pub fn value(&self, value: &mut Value) {
        self.secrets_only_value(value);
        self.named_in_value(value, 0);
    }

    /// Takes out known secrets and nothing else, from keys, strings and numbers.
    pub fn secrets_only_value(&self, value: &mut Value) {
        let secrets = self.secrets();
        if !secrets.is_empty() {
            tree::replace_secrets(&secrets, value);
        }
    }

    fn secrets(&self) -> Arc<Secrets> {
        Arc::clone(&self.shared.secrets.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What stands in the place of `value`.
    fn marker(&self, rule: &str, value: &str) -> String {
        let is_guessable = value.len() < HMAC_VALUE_BYTES_MIN || matches!(rule, "pin" | "otp" | "cvv" | "card_number");
        match self.shared.mac.as_ref().filter(|_| !is_guessable) {
            Some(mac) => {
                let digest = mac.clone().chain_update(value).finalize().into_bytes();
                let tag = digest.iter().take(4).fold(0_u32, |tag, byte| tag << 8 | u32::from(*byte));
                format!("[redacted:{rule}:{tag:08x}]")
            }
            None => format!("[redacted:{rule}]"),
        }
    }
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redactor")
    }
}
