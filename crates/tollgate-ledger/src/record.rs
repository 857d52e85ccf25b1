//! A record as it is read back.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Event;

/// One record: the JSON of its line, keys in their order, and the parts of it that readers ask for.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Record(Value);

impl Record {
    pub(crate) fn parse(line: &[u8]) -> Option<Self> {
        let value: Value = serde_json::from_slice(line).ok()?;
        value.get("seq").and_then(Value::as_u64)?;
        Some(Self(value))
    }

    /// Its place in the chain, from 1.
    pub fn seq(&self) -> u64 {
        self.0.get("seq").and_then(Value::as_u64).unwrap_or_default()
    }

    /// When it was written, RFC 3339 with microseconds, UTC.
    pub fn time(&self) -> &str {
        self.text("/time").unwrap_or_default()
    }

    /// What happened; none where a later version wrote an event that this one does not know.
    pub fn event(&self) -> Option<Event> {
        Event::deserialize(self.0.get("event")?).ok()
    }

    /// The attempt it belongs to.
    pub fn attempt(&self) -> Option<&str> {
        self.text("/attempt")
    }

    /// The asker's id for the call.
    pub fn call_id(&self) -> Option<&str> {
        self.text("/call_id")
    }

    /// The name of the tool.
    pub fn tool(&self) -> Option<&str> {
        self.text("/tool/name")
    }

    /// Who asked.
    pub fn subject(&self) -> Option<&str> {
        self.text("/caller/subject")
    }

    /// How it ended, in `finished`.
    pub fn status(&self) -> Option<&str> {
        self.text("/outcome/status")
    }

    /// Why it did not end as `done`.
    pub fn code(&self) -> Option<&str> {
        self.text("/outcome/code")
    }

    /// A member of the record.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// The whole.
    pub fn as_value(&self) -> &Value {
        &self.0
    }

    /// The whole.
    pub fn into_value(self) -> Value {
        self.0
    }

    fn text(&self, pointer: &str) -> Option<&str> {
        self.0.pointer(pointer)?.as_str()
    }
}
