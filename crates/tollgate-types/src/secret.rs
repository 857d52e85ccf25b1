//! A text that must not be seen.

use std::fmt;

/// A secret. It has no `Display` and no `Serialize`, and its `Debug` says nothing.
///
/// ```
/// use tollgate_types::Secret;
///
/// let key = Secret::new("hunter2");
/// assert_eq!(format!("{key:?}"), "[secret]");
/// assert_eq!(key.expose(), "hunter2");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps the text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself. Each use is a place to review.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}
