//! Identifiers as newtypes, so that an attempt can never be handed where a call is meant.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps text that came from outside (a wire, a record, a command line).
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// The text itself.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

id!(
    /// The asker's name for one call. Unique within its surface; may be given by a model or a client.
    CallId
);
id!(
    /// One trip of a call through the gate. Made by the gate, a UUID v7.
    AttemptId
);
id!(
    /// One run of one process on a data folder, a UUID v7.
    BootId
);
id!(
    /// A durable question to a human, a UUID v7.
    ApprovalId
);
id!(
    /// Lower-case hex SHA-256 of a definition's canonical JSON (RFC 8785): what exactly was approved or called.
    Pin
);
id!(
    /// Lower-case hex HMAC-SHA256, under the per-install key, of arguments in canonical JSON (RFC 8785).
    Digest
);

/// A fresh UUID v7 (RFC 9562) whose time part is `now`, in its usual text form.
pub fn uuid_v7(now: Timestamp) -> String {
    let seconds = u64::try_from(now.as_second()).unwrap_or(0);
    let nanos = u32::try_from(now.subsec_nanosecond()).unwrap_or(0);
    let context = uuid::timestamp::context::ContextV7::new();
    uuid::Uuid::new_v7(uuid::Timestamp::from_unix(&context, seconds, nanos)).to_string()
}
