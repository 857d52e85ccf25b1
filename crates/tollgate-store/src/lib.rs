//! The state of one data folder: approvals, idempotency keys, sessions, whole results, tasks, unsettled attempts, what it takes
//! to undo calls, what was spent of budgets, access keys, and the install key.
//!
//! SQLite in WAL mode with `synchronous = FULL`: what a method returned is on the disk. Several processes share it.
//! The ledger is the record; this is what the gate must look up. Nothing here decides.

mod access;
mod answer;
mod approval;
mod database;
mod delivery;
mod erase;
mod error;
mod grant;
mod idempotency;
mod key;
mod line;
mod result;
mod session;
mod spending;
mod task;
mod undo;
mod unsettled;

pub use access::{AccessKey, KeyKind};
pub use answer::{Answer, Message, Taken};
pub use approval::{Approval, ApprovalStatus, Binding, Claim, Intervention, NewApproval};
pub use database::Store;
pub use delivery::{Due, Undelivered};
pub use erase::{Copies, CopiesOf};
pub use error::StoreError;
pub use grant::Grant;
pub use idempotency::{NewReservation, Reservation, ReservationKey};
pub use key::InstallKey;
pub use result::{Keeping, KeptResult, ResultMeta};
pub use session::{NewCall, SessionLock, SessionMeta, SessionSummary, Step, StepKind, StoredCall};
pub use spending::{Charge, Count, Spending, Spent};
pub use task::{NewTask, StoredTask, TaskEnd};
pub use undo::{StandIn, UndoPlan};
pub use unsettled::Unsettled;
