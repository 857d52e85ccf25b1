//! What a client of the stateless era holds for us between two rounds of a request, sealed: it comes back from outside,
//! and counts only for the caller and the request that it was given to (MCP 2026-07-28, Multi round-trip requests:
//! security considerations).

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use tollgate_types::Caller;

use crate::jsonrpc::RpcError;

const KEY_BYTES: usize = 32;
/// Names the form of what is sealed, so that a later one can be told apart.
const FORM: &str = "t1";
const STATE_CHARS_MAX: usize = 1_024;

/// The key under which states are sealed: of this process alone, as what they name is.
#[derive(Clone)]
pub(crate) struct Seal([u8; KEY_BYTES]);

impl std::fmt::Debug for Seal {
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

impl Seal {
    /// A key that nobody else knows.
    ///
    /// # Errors
    /// When the system gives no random numbers.
    pub(crate) fn fresh() -> Result<Self, RpcError> {
        let mut key = [0_u8; KEY_BYTES];
        getrandom::fill(&mut key).map_err(|_| RpcError::internal("the system gives no random numbers"))?;
        Ok(Self(key))
    }

    fn mac(&self, ticket: &str, binding: &Binding) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        for part in [FORM.as_bytes(), ticket.as_bytes(), &binding.0] {
            mac.update(&u64::try_from(part.len()).ok()?.to_be_bytes());
            mac.update(part);
        }
        Some(mac)
    }

    /// The state for a ticket.
    pub(crate) fn close(&self, ticket: &str, binding: &Binding) -> Option<String> {
        let seal = BASE64_URL_SAFE_NO_PAD.encode(self.mac(ticket, binding)?.finalize().into_bytes());
        Some(format!("{FORM}.{ticket}.{seal}"))
    }

    /// The ticket that a state names, if we sealed it for this very request.
    pub(crate) fn open<'a>(&self, state: &'a str, binding: &Binding) -> Option<&'a str> {
        if state.len() > STATE_CHARS_MAX {
            return None;
        }
        let (ticket, seal) = state.strip_prefix(FORM)?.strip_prefix('.')?.split_once('.')?;
        let seal = BASE64_URL_SAFE_NO_PAD.decode(seal).ok()?;
        self.mac(ticket, binding)?.verify_slice(&seal).ok().map(|()| ticket)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tollgate_types::Surface;

    use super::*;

    fn binding(subject: &str, name: &str, arguments: &str) -> Binding {
        Binding::new(&Caller::new(subject, "reader", Surface::McpHttp), "tools/call", name, arguments)
    }

    #[test]
    fn a_state_is_for_one_caller_and_one_request() {
        let seal = Seal::fresh().unwrap();
        let own = binding("ann", "order", r#"{"a":1,"b":2}"#);
        let state = seal.close("0a", &own).unwrap();
        assert_eq!(seal.open(&state, &own), Some("0a"));
        assert_eq!(seal.open(&state, &binding("ann", "order", r#"{ "b": 2, "a": 1 }"#)), Some("0a"), "the same object");
        for other in [
            binding("bob", "order", r#"{"a":1,"b":2}"#),
            binding("ann", "cancel", r#"{"a":1,"b":2}"#),
            binding("ann", "order", r#"{"a":1,"b":3}"#),
            Binding::new(&Caller::new("ann", "admin", Surface::McpHttp), "tools/call", "order", r#"{"a":1,"b":2}"#),
            Binding::new(&Caller::new("ann", "reader", Surface::McpHttp), "prompts/get", "order", r#"{"a":1,"b":2}"#),
        ] {
            assert_eq!(seal.open(&state, &other), None, "{other:?}");
        }
        assert_eq!(Seal::fresh().unwrap().open(&state, &own), None, "another process");
    }

    proptest! {
        #[test]
        fn nothing_but_what_was_sealed_is_opened(text in ".{0,200}", at in 0_usize..80, with in any::<char>()) {
            let (seal, own) = (Seal::fresh().unwrap(), binding("ann", "order", "{}"));
            prop_assert_eq!(seal.open(&text, &own), None);
            let state = seal.close("0123456789abcdef", &own).unwrap();
            let changed: String =
                state.chars().enumerate().map(|(index, old)| if index == at { with } else { old }).collect();
            prop_assert_eq!(seal.open(&changed, &own).is_some(), changed == state);
        }
    }
}
