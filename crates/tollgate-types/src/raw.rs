//! JSON as it came, every digit and every unknown member of it.

use std::sync::Arc;

use serde_json::value::RawValue;

/// JSON text that is known to be JSON. Cheap to clone; equal where the texts are.
#[derive(Debug, Clone)]
pub struct Raw(Arc<RawValue>);

impl Raw {
    /// The text.
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// The same for serde.
    pub fn value(&self) -> &RawValue {
        &self.0
    }
}

impl PartialEq for Raw {
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for Raw {}

impl From<Box<RawValue>> for Raw {
    fn from(raw: Box<RawValue>) -> Self {
        Self(raw.into())
    }
}

impl From<&RawValue> for Raw {
    fn from(raw: &RawValue) -> Self {
        Self(raw.to_owned().into())
    }
}
