//! What a client of the stateless era holds for us between two rounds of a request, sealed: it comes back from outside,
//! and counts only for the caller and the request that it was given to (MCP 2026-07-28, Multi round-trip requests:
//! security considerations). Nobody else can read it.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use sha2::Sha256;
use tollgate_types::{Caller, Clock, limits};

use crate::jsonrpc::RpcError;

const KEY_BYTES: usize = 32;
/// Names the form of what is sealed, so that a later one can be told apart.
const FORM: &str = "t2";
/// What goes along of one call; more than that stays here.
const ONWARD_BYTES_MAX: usize = 64 * 1024;
const STATE_CHARS_MAX: usize = 96 * 1024;

/// The keys under which states are sealed: by the first, and opened by each.
#[derive(Clone)]
pub struct StateKeys {
    keys: Vec<[u8; KEY_BYTES]>,
    /// What says when a state is too old; none where it ends with the process, and its calls with it.
    clock: Option<Arc<dyn Clock>>,
}

impl std::fmt::Debug for StateKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[secret]")
    }
}

/// To whom, and to which request, a state belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Binding(Vec<u8>);

impl Binding {
    /// `params` are those that a retry must repeat.
    pub(crate) fn new(caller: &Caller, method: &str, name: &str, arguments: &str) -> Self {
        let Caller { subject, role, tenant, surface, session: _ } = caller;
        // The same object may be written in another order.
        let arguments = serde_json::from_str::<Value>(arguments)
            .ok()
            .and_then(|value| serde_json_canonicalizer::to_vec(&value).ok())
            .map_or_else(|| arguments.to_owned(), |canonical| String::from_utf8_lossy(&canonical).into_owned());
        let bound = json!([subject, role, tenant, surface.as_str(), method, name, arguments]);
        Self(bound.to_string().into_bytes())
    }
}

/// What is sealed.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Sealed {
    /// Where the call waits.
    pub(super) ticket: String,
    /// In which process.
    pub(super) home: String,
    /// Until when what is below counts, in milliseconds of the epoch.
    until_ms: i64,
    /// How it goes on in another; none where it does not.
    onward: Option<Onward>,
}

/// How a call goes on where it does not wait.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Onward {
    /// What its tool goes on from; none where it begins anew.
    pub(super) with: Option<Box<RawValue>>,
    /// What its client answered already.
    pub(super) answers: HashMap<String, Box<RawValue>>,
}

impl Sealed {
    pub(super) fn goes_on(&self) -> bool {
        self.onward.is_some()
    }
}

impl Onward {
    fn bytes(&self) -> usize {
        let answers = self.answers.iter().map(|(key, answer)| key.len() + answer.get().len());
        self.with.as_ref().map_or(0, |with| with.get().len()) + answers.sum::<usize>()
    }
}

/// A key that follows from another, and says nothing of it.
fn derived(from: &[u8], what: &str) -> Option<[u8; KEY_BYTES]> {
    let mut mac = Hmac::<Sha256>::new_from_slice(from).ok()?;
    mac.update(what.as_bytes());
    Some(mac.finalize().into_bytes().into())
}

impl StateKeys {
    /// Keys from secrets that every process has which is to open these states. The first one seals.
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a [u8]>, clock: Arc<dyn Clock>) -> Self {
        let keys = secrets.into_iter().filter_map(|secret| derived(secret, "tollgate requestState")).collect();
        Self { keys, clock: Some(clock) }
    }

    /// The keys of one place: what is given at another is not taken there.
    #[must_use]
    pub fn at(&self, place: &str) -> Self {
        let keys = self.keys.iter().filter_map(|key| derived(key, place)).collect();
        Self { keys, clock: self.clock.clone() }
    }

    /// A key that nobody else knows.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub(crate) fn fresh() -> Result<Self, RpcError> {
        let mut key = [0_u8; KEY_BYTES];
        getrandom::fill(&mut key).map_err(|_| RpcError::internal("the system gives no random numbers"))?;
        Ok(Self { keys: vec![key], clock: None })
    }

    fn now_ms(&self) -> Option<i64> {
        self.clock.as_ref().map(|clock| clock.now().as_millisecond())
    }

    /// What there is to be sealed of a call. It goes on elsewhere only where somebody else can open the state.
    pub(super) fn of(&self, ticket: &str, home: &str, onward: Option<Onward>) -> Sealed {
        let wait_ms = i64::try_from(limits::CLIENT_ANSWER_TIMEOUT_MS).unwrap_or(i64::MAX);
        let until_ms = self.now_ms().map_or(0, |now| now.saturating_add(wait_ms));
        let onward = onward.filter(|onward| self.clock.is_some() && onward.bytes() <= ONWARD_BYTES_MAX);
        Sealed { ticket: ticket.to_owned(), home: home.to_owned(), until_ms, onward }
    }

    /// How a call goes on elsewhere, while it may.
    pub(super) fn onward(&self, sealed: Sealed) -> Option<Onward> {
        sealed.onward.filter(|_| self.now_ms().is_some_and(|now| now < sealed.until_ms))
    }

    /// The state.
    pub(super) fn close(&self, sealed: &Sealed, binding: &Binding) -> Option<String> {
        let mut text = serde_json::to_vec(sealed).ok()?;
        let mut nonce = [0_u8; NONCE_LEN];
        getrandom::fill(&mut nonce).ok()?;
        let key = cipher(self.keys.first()?)?;
        let (once, bound) = (Nonce::assume_unique_for_key(nonce), Aad::from(binding.0.as_slice()));
        key.seal_in_place_append_tag(once, bound, &mut text).ok()?;
        let whole = [nonce.as_slice(), &text].concat();
        Some(format!("{FORM}.{}", BASE64_URL_SAFE_NO_PAD.encode(whole)))
    }

    /// What a state holds, if we sealed it for this very request.
    pub(super) fn open(&self, state: &str, binding: &Binding) -> Option<Sealed> {
        if state.len() > STATE_CHARS_MAX {
            return None;
        }
        let whole = BASE64_URL_SAFE_NO_PAD.decode(state.strip_prefix(FORM)?.strip_prefix('.')?).ok()?;
        let (nonce, text) = whole.split_first_chunk::<NONCE_LEN>()?;
        self.keys.iter().find_map(|key| {
            let (once, bound) = (Nonce::assume_unique_for_key(*nonce), Aad::from(binding.0.as_slice()));
            let mut text = text.to_vec();
            let opened = cipher(key)?.open_in_place(once, bound, &mut text).ok()?;
            serde_json::from_slice(opened).ok()
        })
    }
}

fn cipher(key: &[u8; KEY_BYTES]) -> Option<LessSafeKey> {
    UnboundKey::new(&CHACHA20_POLY1305, key).ok().map(LessSafeKey::new)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tollgate_testkit::TestClock;
    use tollgate_types::Surface;

    use super::*;

    fn binding(subject: &str, name: &str, arguments: &str) -> Binding {
        Binding::new(&Caller::new(subject, "reader", Surface::McpHttp), "tools/call", name, arguments)
    }

    fn close(keys: &StateKeys, ticket: &str, binding: &Binding) -> String {
        keys.close(&keys.of(ticket, "home", None), binding).unwrap()
    }

    fn ticket(keys: &StateKeys, state: &str, binding: &Binding) -> Option<String> {
        keys.open(state, binding).map(|sealed| sealed.ticket)
    }

    #[test]
    fn a_state_is_for_one_caller_and_one_request() {
        let keys = StateKeys::fresh().unwrap();
        let own = binding("ann", "order", r#"{"a":1,"b":2}"#);
        let state = close(&keys, "0a", &own);
        let same = binding("ann", "order", r#"{ "b": 2, "a": 1 }"#);
        assert_eq!(ticket(&keys, &state, &own).as_deref(), Some("0a"));
        assert_eq!(ticket(&keys, &state, &same).as_deref(), Some("0a"), "the same object");
        for other in [
            binding("bob", "order", r#"{"a":1,"b":2}"#),
            binding("ann", "cancel", r#"{"a":1,"b":2}"#),
            binding("ann", "order", r#"{"a":1,"b":3}"#),
            Binding::new(&Caller::new("ann", "admin", Surface::McpHttp), "tools/call", "order", r#"{"a":1,"b":2}"#),
            Binding::new(&Caller::new("ann", "reader", Surface::McpHttp), "prompts/get", "order", r#"{"a":1,"b":2}"#),
        ] {
            assert_eq!(ticket(&keys, &state, &other), None, "{other:?}");
        }
        assert_eq!(ticket(&StateKeys::fresh().unwrap(), &state, &own), None, "another process");
    }

    #[test]
    fn a_state_is_opened_by_each_key_and_at_its_place() {
        let clock: Arc<TestClock> = Arc::default();
        let keys = |secrets: &[&'static str]| {
            StateKeys::new(secrets.iter().map(|secret| secret.as_bytes()), Arc::clone(&clock) as _)
        };
        let (own, old) = (binding("ann", "order", "{}"), keys(&["old"]));
        let state = close(&old, "0a", &own);
        assert_eq!(ticket(&keys(&["new", "old"]), &state, &own).as_deref(), Some("0a"));
        assert_eq!(ticket(&keys(&["new"]), &state, &own), None);
        assert_eq!(ticket(&old.at("research"), &state, &own), None);
    }

    #[test]
    fn what_goes_along_counts_for_so_long_and_is_not_to_be_read() {
        let clock: Arc<TestClock> = Arc::default();
        let keys = StateKeys::new([b"secret".as_slice()], Arc::clone(&clock) as _);
        let onward = |text: &str| {
            let with = serde_json::value::to_raw_value(text).ok();
            Some(Onward { with, answers: HashMap::new() })
        };
        let own = binding("ann", "order", "{}");
        let state = keys.close(&keys.of("0a", "home", onward("of the server alone")), &own).unwrap();
        let whole = BASE64_URL_SAFE_NO_PAD.decode(state.strip_prefix("t2.").unwrap()).unwrap();
        assert!(!String::from_utf8_lossy(&whole).contains("server"));
        let open = || keys.onward(keys.open(&state, &own).unwrap());
        assert!(open().is_some());
        clock.advance(std::time::Duration::from_millis(limits::CLIENT_ANSWER_TIMEOUT_MS));
        assert!(open().is_none());
        // Too much for a state: the call waits here, and goes on nowhere else.
        assert!(keys.of("0a", "home", onward(&"x".repeat(ONWARD_BYTES_MAX / 2))).goes_on());
        assert!(!keys.of("0a", "home", onward(&"x".repeat(ONWARD_BYTES_MAX))).goes_on());
    }

    proptest! {
        #[test]
        fn nothing_but_what_was_sealed_is_opened(text in ".{0,200}", at in 0_usize..200, with in any::<char>()) {
            let (keys, own) = (StateKeys::fresh().unwrap(), binding("ann", "order", "{}"));
            prop_assert_eq!(ticket(&keys, &text, &own), None);
            let state = close(&keys, "0123456789abcdef", &own);
            let changed: String =
                state.chars().enumerate().map(|(index, old)| if index == at { with } else { old }).collect();
            prop_assert_eq!(ticket(&keys, &changed, &own).is_some(), changed == state);
        }
    }
}
