//! A client that signs what it says of itself (`private_key_jwt`: RFC 7523, OpenID Connect Core §9): a short JSON Web Token
//! for one authorization server, with a key of the operator's.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::{SignedDuration, Timestamp};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use serde_json::json;
use tollgate_types::Secret;

use super::request::random;

/// What it says holds for so long.
const LIFETIME: SignedDuration = SignedDuration::from_secs(60);
const BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const END: &str = "-----END PRIVATE KEY-----";

/// A private key: P-256 (`ES256`) or RSA (`RS256`).
pub struct SigningKey(Kind);

enum Kind {
    P256(EcdsaKeyPair),
    Rsa(RsaKeyPair),
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SigningKey")
    }
}

impl SigningKey {
    /// Reads a key in PKCS #8, as PEM.
    ///
    /// # Errors
    /// What is wrong with it; no part of it is named.
    pub fn from_pem(pem: &Secret) -> Result<Self, &'static str> {
        const HINT: &str = "it is no PKCS #8 key as PEM: openssl pkcs8 -topk8 -nocrypt -in KEY.pem makes one";
        let inner = pem.expose().split_once(BEGIN).and_then(|(_, rest)| rest.split_once(END)).ok_or(HINT)?.0;
        let text: String = inner.chars().filter(|c| !c.is_whitespace()).collect();
        let der = STANDARD.decode(text).map_err(|_| HINT)?;
        if let Ok(key) = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &der, &SystemRandom::new()) {
            return Ok(Self(Kind::P256(key)));
        }
        let key = RsaKeyPair::from_pkcs8(&der);
        key.map(|key| Self(Kind::Rsa(key)))
            .map_err(|_| "it is neither an RSA key of 2048 to 4096 bits nor one of P-256")
    }

    /// What `client` says of itself to `audience`.
    pub(super) fn assertion(&self, client: &str, audience: &str, now: Timestamp) -> Option<Secret> {
        let algorithm = match self.0 {
            Kind::P256(_) => "ES256",
            Kind::Rsa(_) => "RS256",
        };
        let claims = json!({
            "iss": client,
            "sub": client,
            "aud": audience,
            "jti": random()?,
            "iat": now.as_second(),
            "exp": now.checked_add(LIFETIME).ok()?.as_second(),
        });
        let part = |value: serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(json!({"alg": algorithm, "typ": "JWT"})), part(claims));
        let signature = self.sign(signed.as_bytes())?;
        Some(Secret::new(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature))))
    }

    fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        match &self.0 {
            Kind::P256(key) => key.sign(&random, message).ok().map(|signature| signature.as_ref().to_vec()),
            Kind::Rsa(key) => {
                let mut signature = vec![0; key.public().modulus_len()];
                key.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).ok()?;
                Some(signature)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ring::signature::{ECDSA_P256_SHA256_FIXED, KeyPair, UnparsedPublicKey};
    use serde_json::Value;

    use super::*;

    #[test]
    fn an_assertion_is_signed_short_and_for_one_server() {
        let der = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new()).unwrap();
        let pem = Secret::new(format!("{BEGIN}\n{}\n{END}\n", STANDARD.encode(der.as_ref())));
        let key = SigningKey::from_pem(&pem).unwrap();
        let now = Timestamp::from_second(1_000).unwrap();
        let assertion = key.assertion("client", "https://a.example", now).unwrap();
        let parts: Vec<&str> = assertion.expose().split('.').collect();
        let claims: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(parts[1]).unwrap()).unwrap();
        assert_eq!(
            (&claims["iss"], &claims["sub"], &claims["aud"]),
            (&json!("client"), &json!("client"), &json!("https://a.example"))
        );
        assert_eq!((&claims["iat"], &claims["exp"]), (&json!(1_000), &json!(1_060)));
        let Kind::P256(pair) = &key.0 else { panic!("another kind of key") };
        let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, pair.public_key().as_ref());
        let signed = format!("{}.{}", parts[0], parts[1]);
        public.verify(signed.as_bytes(), &URL_SAFE_NO_PAD.decode(parts[2]).unwrap()).unwrap();
        let again = key.assertion("client", "https://a.example", now).unwrap();
        assert!(again != assertion, "no assertion is made twice");
        for broken in
            ["", "-----BEGIN EC PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"]
        {
            let why = SigningKey::from_pem(&Secret::new(broken)).unwrap_err();
            assert!(why.contains("PKCS #8") || why.contains("neither"), "{why}");
        }
    }
}
