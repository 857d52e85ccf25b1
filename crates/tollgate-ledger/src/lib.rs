//! The append-only, hash-chained, redacted record of every attempt.
//!
//! [`Ledger`] writes: one chain of records in `data_dir/audit`, continued by every process that shares the folder.
//! [`verify`], [`prove`], [`read`], [`tail`] and [`attempt_records`] read it without a `Ledger`, also while others write.
//! [`Index`] finds attempts by who asked for what and how it ended; it is made from the ledger and can be thrown away. What a
//! record says is decided by the gate; this crate knows how it is kept, and that what cannot be kept is an error.
//!
//! # The format
//! A record is one line of compact JSON in `segment-<first seq>.jsonl`. Its last key is `hash`: the lower-case hex
//! SHA-256 of the line's bytes before `,"hash"`. Its `prev` is the hash of the record before, 64 zeros for the first.
//! A segment that is full loses its write permission, which tells every other process to go on to the next one.
//!
//! The hashes are the leaves of an RFC 6962 tree, whose root is signed every second, every 1,000 records and while nothing
//! happens: a checkpoint. With one that was kept elsewhere, [`verify_with`] finds a ledger that was cut or written anew.
//! [`prove`] shows one record to somebody who has nothing but the verifier key.
//!
//! [`Ledger::erase`] takes the content of records away and keeps their hashes, so that chain, tree and proofs hold; that
//! it may be missing is said by a record.
//!
//! ```
//! use std::sync::Arc;
//! use tollgate_ledger::{Durability, Entry, Event, Ledger, LedgerError};
//! use tollgate_types::{AttemptId, CallId, Clock};
//!
//! async fn record(data_dir: &std::path::Path, clock: Arc<dyn Clock>) -> Result<(), LedgerError> {
//!     let (ledger, recovery) = Ledger::open(data_dir, clock)?;
//!     for attempt in &recovery.unknown {
//!         tracing::warn!("attempt {} was started, and nobody knows how it ended", attempt.attempt);
//!     }
//!     let entry = Entry::new(Event::Received, &AttemptId::new("a-1"), &CallId::new("c-1"));
//!     ledger.append(vec![entry], Durability::Strict).await?;
//!     assert!(tollgate_ledger::verify(data_dir)?.ok);
//!     Ok(())
//! }
//! ```

mod ahead;
mod appender;
mod attempt;
mod boot;
mod checkpoints;
mod claims;
mod disk;
mod entry;
mod erase;
mod error;
mod export;
mod filter;
mod index;
mod key;
mod ledger;
mod line;
mod lines;
mod notary;
mod note;
mod opening;
mod prove;
mod read;
mod record;
mod recover;
mod reserve;
mod rewriting;
mod schedule;
mod segment;
mod signing;
mod stub;
mod summary;
mod sync;
mod synced;
mod tail;
mod tree;
mod turn;
mod verify;
mod waiting;
mod writer;

pub use attempt::{Asker, Attempt, Events, OPEN, Ruling};
pub use disk::{Access, Disk, DiskFile, FileState, Sealing, SystemDisk};
pub use entry::{Abridged, DecisionRef, Entry, Event, OutcomeRef, ToolRef, abridge, abridge_json};
pub use erase::{ERASED_ATTEMPTS_MAX, Erasable, EraseOrder, Erased, would_erase};
pub use error::LedgerError;
pub use export::ExportFormat;
pub use filter::{Filter, FilterError};
pub use index::{Cursor, FOUND_MAX, Found, Index, Page, View};
pub use key::verifier_key;
pub use ledger::{Durability, Ledger, Options, Seq};
pub use note::VerifierKey;
pub use opening::OnDamage;
pub use prove::{Proof, Since, prove};
pub use read::{Follower, Records, TAIL_RECORDS_MAX, attempt_records, read, tail, tail_of};
pub use record::Record;
pub use recover::{OpenAttempt, Recovery};
pub use schedule::Checkpointing;
pub use stub::{Erasure, Level};
pub use summary::{Approvals, Bin, Count, Refusal, Summary, ToolTimes};
pub use verify::{Covered, ErasedRecords, Fault, FaultKind, Report, Trust, verify, verify_with};
