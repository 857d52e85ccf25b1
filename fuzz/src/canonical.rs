//! The digest of arguments: equal values have equal digests, however they were written, and no others.

use std::sync::OnceLock;

use serde_json::{Map, Value};
use tollgate_store::InstallKey;
use tollgate_wire::repair;

fn key() -> &'static InstallKey {
    static KEY: OnceLock<InstallKey> = OnceLock::new();
    KEY.get_or_init(|| InstallKey::load(crate::folder().path()).unwrap())
}

/// The same value with the members of each object in the other order.
fn turned(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(turned).collect(),
        Value::Object(members) => {
            Value::Object(members.iter().rev().map(|(name, one)| (name.clone(), turned(one))).collect::<Map<_, _>>())
        }
        other => other.clone(),
    }
}

/// A text that is read exactly as JSON, or not at all.
pub fn canonical(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(value) = repair::strict(text) else { return };
    let digest = |value: &Value| key().digest(value).unwrap();
    let (printed, pretty) = (value.to_string(), serde_json::to_string_pretty(&value).unwrap());
    for written in [&printed, &pretty] {
        let again =
            repair::strict(written).unwrap_or_else(|fault| panic!("what was read does not read again: {fault}"));
        assert_eq!(digest(&again), digest(&value), "{written}");
    }
    assert_eq!(digest(&turned(&value)), digest(&value), "the order of members counts: {printed}");
    let wrapped = Value::Array(vec![value.clone()]);
    assert_ne!(digest(&wrapped), digest(&value), "two values with one digest: {printed}");
}
