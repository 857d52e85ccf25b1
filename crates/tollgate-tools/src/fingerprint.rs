//! What runs, as part of what is pinned: a yes for one program must not fit another under the same name.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};
use tollgate_types::ToolDefinition;

/// Marks the definition with the SHA-256 of `parts`, beside the version that the operator gave it.
pub(crate) fn mark<'a>(definition: &mut ToolDefinition, parts: impl IntoIterator<Item = &'a [u8]>) {
    let mut hasher = Sha256::new();
    for part in parts {
        // INVARIANT: lengths go in first, so that no two lists of parts read the same.
        hasher.update(part.len().to_le_bytes());
        hasher.update(part);
    }
    let mut mark = String::from("sha256:");
    for byte in hasher.finalize() {
        // Writing to a string does not fail.
        let _ = write!(mark, "{byte:02x}");
    }
    definition.source.version = Some(match definition.source.version.take() {
        Some(version) => format!("{version}+{mark}"),
        None => mark,
    });
}
