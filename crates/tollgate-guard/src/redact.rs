//! Takes secrets out of what is about to be recorded, logged or shown, in three layers: the secret values this process
//! handed out, in every encoding they may come back in; whatever stands under a name that says it is a secret; and what
//! its own form gives away, by the rules of gitleaks, our own, a checksum, or the operator's.
//!
//! A secret becomes `[redacted:<rule>:<8 hex digits>]`; the digits are an HMAC under the key of the installation, so
//! that two places can be seen to hold the same secret. Values that could be guessed from it (`pin`, short ones) get
//! none. Text that only talks about secrets stays as it is.

mod custom;
mod forms;
mod keys;
mod numbers;
mod placeholder;
mod rules;
mod secrets;
mod stream;
mod text;
mod tree;
mod values;

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::Sha256;
use tollgate_types::Secret;

use numbers::Numbers;
use secrets::Secrets;

pub use custom::{CustomRule, Examples, RuleFault};
pub use numbers::Profile;
pub use stream::filter;

/// A shorter secret is not looked for: it would be found in half of all words. Configuration should refuse it.
pub const SECRET_BYTES_MIN: usize = 4;

/// A shorter line of a secret, such as `{` or `-----END PRIVATE KEY-----`'s neighbours, gives nothing away.
const LINE_BYTES_MIN: usize = 16;

/// A shorter value, or one with less entropy, could be found by trying, given its HMAC.
const HMAC_VALUE_BYTES_MIN: usize = 8;
const HMAC_VALUE_BITS_MIN: f64 = 30.0;
/// What these name has a plan or few digits: all of them can be tried.
const GUESSABLE_RULES: [&str; 8] = ["pin", "otp", "cvv", "card_number", "resident_id", "phone", "iban", "mail_address"];

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
    profile: Profile,
    results: bool,
    models: bool,
    custom: Vec<custom::Compiled>,
}

/// What a redactor hides, and where, beyond the known secrets, which it hides everywhere.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whether personal data are hidden.
    pub profile: Profile,
    /// The operator's own rules.
    pub rules: Vec<CustomRule>,
    /// Whether names and forms count in what tools bring, and say of themselves.
    pub results: bool,
    /// Whether they count in what models are asked.
    pub models: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self { profile: Profile::Default, rules: Vec::new(), results: true, models: true }
    }
}

impl Redactor {
    /// A redactor that knows these secrets.
    pub fn new(install_key: &[u8], secrets: impl IntoIterator<Item = Secret>) -> Self {
        // HMAC takes a key of any length; were it not so, markers would lack their digits and nothing would leak.
        let mac = Hmac::new_from_slice(install_key).ok();
        let Options { profile, results, models, .. } = Options::default();
        let shared = Shared { mac, secrets: RwLock::default(), profile, results, models, custom: Vec::new() };
        let redactor = Self { shared: Arc::new(shared) };
        for secret in secrets {
            redactor.add_secret(&secret);
        }
        redactor
    }

    /// A redactor as the operator wants it. It knows no secret yet.
    ///
    /// # Errors
    /// When a rule is wrong: which one, at which of its keys, and why.
    pub fn with_options(install_key: &[u8], options: &Options) -> Result<Self, RuleFault> {
        let custom = options.rules.iter().map(CustomRule::compile).collect::<Result<_, _>>()?;
        let mac = Hmac::new_from_slice(install_key).ok();
        let Options { profile, results, models, .. } = *options;
        Ok(Self { shared: Arc::new(Shared { mac, secrets: RwLock::default(), profile, results, models, custom }) })
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

    /// What a tool brings, or says of itself, as callers may see it.
    pub fn result<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.shared.results { self.text(text) } else { self.secrets_only(text) }
    }

    /// The same for a value.
    pub fn result_value(&self, value: &mut Value) {
        if self.shared.results { self.value(value) } else { self.secrets_only_value(value) }
    }

    /// What a model is asked, as it may see it.
    pub fn for_model<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if self.shared.models { self.text(text) } else { self.secrets_only(text) }
    }

    /// Whether what stands under this name is hidden.
    pub fn is_secret_name(&self, name: &str) -> bool {
        keys::rule(name).is_some()
    }

    fn numbers(&self, texts: usize) -> Numbers {
        Numbers { profile: self.shared.profile, is_alone: texts == 0 }
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
        let is_guessable = GUESSABLE_RULES.contains(&rule) || is_low_entropy(value);
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

/// Whether a value could be found by trying.
fn is_low_entropy(value: &str) -> bool {
    let length = f64::from(u32::try_from(value.len()).unwrap_or(u32::MAX));
    value.len() < HMAC_VALUE_BYTES_MIN || values::entropy_bits(value.as_bytes()) * length < HMAC_VALUE_BITS_MIN
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Redactor")
    }
}
