//! The gate through its door, on a real ledger and a real store.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test may stop at the first surprise"
)]

mod approval;
mod batches;
mod bounds;
mod budgets;
mod circles;
mod clients;
mod ends;
mod failure;
mod faults;
mod idempotency;
mod intervention;
mod kinds;
mod quotas;
mod record;
mod repair;
mod replaced;
mod results;
mod rules;
mod shaping;
mod simulation;
mod stages;
mod texts;
mod undo;
mod watched;
mod world;
