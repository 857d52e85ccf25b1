//! Redaction: a known secret never survives, whatever stands around it and however it is encoded, and doing it twice is doing
//! it once. That it is linear is seen by the fuzzer's own limit for one input.

use std::sync::OnceLock;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde_json::Value;
use tollgate_guard::redact::Redactor;
use tollgate_types::Secret;

const SECRET: &str = "zq-Planted/Secret+4711";

fn redactor() -> &'static Redactor {
    static REDACTOR: OnceLock<Redactor> = OnceLock::new();
    REDACTOR.get_or_init(|| Redactor::new(b"key of this installation", [Secret::new(SECRET)]))
}

/// The secret as it may come back.
fn encoded(how: u8) -> String {
    match how % 4 {
        0 => SECRET.to_owned(),
        1 => STANDARD_NO_PAD.encode(SECRET),
        2 => URL_SAFE_NO_PAD.encode(SECRET),
        _ => SECRET.bytes().map(|byte| format!("{byte:02x}")).collect(),
    }
}

/// The first byte says how the secret is encoded, the second where it is planted.
pub fn redact(data: &[u8]) {
    let [how, place, rest @ ..] = data else { return };
    let text = String::from_utf8_lossy(rest);
    let once = redactor().text(&text).into_owned();
    assert_eq!(redactor().text(&once), once, "twice is not once: {text:?}");
    let planted = encoded(*how);
    let at = text.char_indices().map(|(at, _)| at).nth(usize::from(*place)).unwrap_or(text.len());
    let (before, after) = text.split_at(at);
    // Next to what could be a part of it an encoded secret is another text.
    let with = format!("{before} {planted} {after}");
    let clean = redactor().text(&with);
    assert!(!clean.contains(&planted), "{with:?} became {clean:?}");
    let mut value = serde_json::from_str::<Value>(&with).unwrap_or_else(|_| Value::from(with.as_str()));
    redactor().value(&mut value);
    assert!(!value.to_string().contains(SECRET), "{value}");
}
