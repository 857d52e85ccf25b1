//! The revisions of the protocol that are spoken, and what differs between them.

/// A revision of the protocol, named by its date. Later ones are greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Revision {
    /// The first one.
    V2024_11_05,
    /// Brought tool annotations.
    V2025_03_26,
    /// Brought structured results.
    V2025_06_18,
    /// The last one with a handshake.
    V2025_11_25,
    /// The stateless one: every request says which revision it speaks.
    V2026_07_28,
}

impl Revision {
    /// What `initialize` can negotiate.
    pub const HANDSHAKE: [Self; 4] = [Self::V2024_11_05, Self::V2025_03_26, Self::V2025_06_18, Self::V2025_11_25];
    /// What a request can ask for in its `_meta`.
    pub const STATELESS: [Self; 1] = [Self::V2026_07_28];

    /// The name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V2024_11_05 => "2024-11-05",
            Self::V2025_03_26 => "2025-03-26",
            Self::V2025_06_18 => "2025-06-18",
            Self::V2025_11_25 => "2025-11-25",
            Self::V2026_07_28 => "2026-07-28",
        }
    }

    /// The answer to a handshake: what was asked for, else the latest that a handshake can choose.
    pub fn negotiate(asked: &str) -> Self {
        Self::HANDSHAKE.into_iter().find(|revision| revision.as_str() == asked).unwrap_or(Self::V2025_11_25)
    }

    /// Whether each request stands for itself.
    pub fn is_stateless(self) -> bool {
        self >= Self::V2026_07_28
    }

    /// Whether results have `structuredContent` (2025-06-18, changelog).
    pub(super) fn has_structured_results(self) -> bool {
        self >= Self::V2025_06_18
    }
}
