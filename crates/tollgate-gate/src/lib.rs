//! The one gate that every call passes: find, admit, validate, judge, approve, run, shape, and a record of all of it.
//!
//! ```text
//! open ─▶ find ─▶ admit ─▶ validate ─▶ judge ─▶ approve ─▶ run ─▶ shape ─▶ close
//! ```
//!
//! A stage takes what the stage before made, and only that stage can make it, so that skipping one does not compile.
//! The executors sit in a private map: nothing else in the house can run one.

mod attempt;
mod batch;
mod budget;
mod builder;
mod circles;
mod client;
mod clock;
mod current;
mod door;
mod erasing;
mod executors;
mod following;
mod gate;
mod hosted;
mod links;
mod memory;
mod meta;
mod nested;
mod operator;
mod quota;
mod recorded;
mod resilience;
mod seat;
mod stage;
mod standing;
mod stored;
mod takeover;
mod turnstile;
mod undo;
mod watch;

pub use budget::{Budget, BudgetReport};
pub use builder::{BuildError, GateBuilder, RegisterError};
pub use clock::SystemClock;
pub use current::current_attempt;
pub use erasing::{Erasing, Retention};
pub use gate::{Gate, WeakGate};
pub use operator::{Operator, OperatorError, Verdict};
pub use quota::{CallLimit, Per, ProcessQuotas, Quotas};
pub use resilience::{
    Breaker, Entered, FailureReport, Health, RuleError, RungReport, SourceReport, check as check_resilience,
};
pub use takeover::take_over;
