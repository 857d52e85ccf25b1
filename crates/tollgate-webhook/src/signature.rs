//! Signatures after Standard Webhooks 1.0.0 (standardwebhooks.com), symmetric: HMAC-SHA256 over `id.timestamp.body`, in
//! base64 behind `v1,`. The public crate reads the system's clock itself and brings two libraries that are here in another
//! form, for less code than this.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tollgate_types::Secret;

const PREFIX: &str = "whsec_";
const VERSION: &str = "v1,";
/// The sizes that the specification allows.
const KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// Signatures of one message that are looked at.
const SIGNATURES_MAX: usize = 16;

/// The keys that sign and that count; the others are going out of use or coming into it.
#[derive(Clone)]
pub(crate) struct Keys(Vec<Hmac<Sha256>>);

impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[secret]")
    }
}

/// A secret is not of the form that the specification wants. Nothing of it is shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the secret is not `whsec_` and then 24 to 64 bytes in base64")]
pub struct SecretFault;

/// Whether a secret can sign.
///
/// # Errors
/// When it is not `whsec_` and then 24 to 64 bytes in base64.
pub fn check_secret(secret: &Secret) -> Result<(), SecretFault> {
    key(secret).map(drop)
}

fn key(secret: &Secret) -> Result<Hmac<Sha256>, SecretFault> {
    let bytes = secret.expose().strip_prefix(PREFIX).and_then(|rest| STANDARD.decode(rest).ok()).ok_or(SecretFault)?;
    if !KEY_BYTES.contains(&bytes.len()) {
        return Err(SecretFault);
    }
    Hmac::new_from_slice(&bytes).map_err(|_| SecretFault)
}

impl Keys {
    pub(crate) fn new(secrets: &[Secret]) -> Result<Self, SecretFault> {
        secrets.iter().map(key).collect::<Result<_, _>>().map(Self)
    }

    /// The value of `webhook-signature`: one signature for each key.
    pub(crate) fn sign(&self, id: &str, timestamp: i64, body: &[u8]) -> String {
        let timestamp = timestamp.to_string();
        let one = |key: &Hmac<Sha256>| {
            let signature = signed(key, id, &timestamp, body).finalize().into_bytes();
            format!("{VERSION}{}", STANDARD.encode(signature))
        };
        self.0.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    /// Whether one of the signatures is made by one of the keys, in a time that does not depend on how much of it is right.
    pub(crate) fn has_signed(&self, signatures: &str, id: &str, timestamp: &str, body: &[u8]) -> bool {
        let given: Vec<Vec<u8>> = signatures
            .split(' ')
            .take(SIGNATURES_MAX)
            .filter_map(|one| STANDARD.decode(one.strip_prefix(VERSION)?).ok())
            .collect();
        self.0.iter().any(|key| {
            let made = signed(key, id, timestamp, body);
            given.iter().any(|given| made.clone().verify_slice(given).is_ok())
        })
    }
}

fn signed(key: &Hmac<Sha256>, id: &str, timestamp: &str, body: &[u8]) -> Hmac<Sha256> {
    [id.as_bytes(), b".", timestamp.as_bytes(), b".", body]
        .into_iter()
        .fold(key.clone(), |mac, part| mac.chain_update(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const BODY: &[u8] = br#"{"test": 2432232314}"#;
    /// What the specification's own libraries test with.
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    fn keys(secrets: &[&str]) -> Keys {
        Keys::new(&secrets.iter().map(|secret| Secret::new(*secret)).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn the_known_message_has_the_known_signature() {
        assert_eq!(keys(&[SECRET]).sign(ID, 1_614_265_330, BODY), SIGNATURE);
        assert!(keys(&[SECRET]).has_signed(SIGNATURE, ID, "1614265330", BODY));
    }

    #[test]
    fn any_key_counts_and_nothing_else_does() {
        let other = format!("whsec_{}", STANDARD.encode([7; 32]));
        let both = keys(&[&other, SECRET]);
        assert!(both.has_signed(SIGNATURE, ID, "1614265330", BODY), "the one that goes out of use");
        assert_eq!(both.sign(ID, 1_614_265_330, BODY).split(' ').count(), 2);
        assert!(keys(&[SECRET]).has_signed(&both.sign(ID, 1_614_265_330, BODY), ID, "1614265330", BODY));
        let mixed = format!("v1a,AAAA junk {SIGNATURE}");
        assert!(both.has_signed(&mixed, ID, "1614265330", BODY));
        for (signature, id, timestamp, body) in [
            ("", ID, "1614265330", BODY),
            ("v1,", ID, "1614265330", BODY),
            ("v1,g0hM9SsE+OTPJTGt", ID, "1614265330", BODY),
            (SIGNATURE.trim_start_matches(VERSION), ID, "1614265330", BODY),
            (&SIGNATURE.replace("v1,", "v2,"), ID, "1614265330", BODY),
            (SIGNATURE, "msg_other", "1614265330", BODY),
            (SIGNATURE, ID, "1614265331", BODY),
            (SIGNATURE, ID, "1614265330", br#"{"test": 2432232315}"#),
        ] {
            assert!(!both.has_signed(signature, id, timestamp, body), "{signature} {id} {timestamp}");
        }
        assert!(!keys(&[&other]).has_signed(SIGNATURE, ID, "1614265330", BODY));
        let late = format!("{}{SIGNATURE}", "v1,AAAA ".repeat(SIGNATURES_MAX));
        assert!(!both.has_signed(&late, ID, "1614265330", BODY), "nobody makes us try for long");
    }

    #[test]
    fn a_secret_of_another_form_is_refused() {
        let of = |bytes: usize| format!("whsec_{}", STANDARD.encode(vec![7; bytes]));
        for good in [of(24), of(32), of(64)] {
            assert_eq!(check_secret(&Secret::new(good)), Ok(()));
        }
        for bad in [of(23), of(65), "whsec_".into(), "whsec_***".into(), STANDARD.encode([7; 32]), "plain text".into()]
        {
            assert_eq!(check_secret(&Secret::new(bad)), Err(SecretFault));
        }
    }
}
