//! What must hold of any bytes. Each function is a fuzz target (`scripts/prove`) and is told its corpus by an ordinary test; it
//! panics where something does not hold. Nothing here belongs in the product.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a fuzz target says by a panic what it found"
)]

mod canonical;
mod events;
mod frame;
mod headers;
mod history;
mod ledger;
mod proof;
mod redact;
mod repair;
mod state;
mod wire;

pub use canonical::canonical;
pub use events::events;
pub use frame::frame;
pub use headers::headers;
pub use history::history;
pub use ledger::ledger;
pub use proof::{fixture, proof};
pub use redact::redact;
pub use repair::repair;
pub use state::state;
pub use wire::wire;

/// A target.
pub type Target = fn(&[u8]);

/// Every target, by the name of its corpus.
pub const TARGETS: [(&str, Target); 11] = [
    ("canonical", canonical),
    ("events", events),
    ("frame", frame),
    ("headers", headers),
    ("history", history),
    ("ledger", ledger),
    ("proof", proof),
    ("redact", redact),
    ("repair", repair),
    ("state", state),
    ("wire", wire),
];

/// A folder, in memory where there is a file system for it.
fn folder() -> tempfile::TempDir {
    let memory = std::path::Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}
