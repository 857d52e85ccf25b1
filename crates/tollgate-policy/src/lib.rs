//! Who may do what: roles, levels and one decision function.
//!
//! A [`Policy`] is built once from [`Role`]s, and from the operator's rules in Cedar where there are some, and then
//! answers [`Policy::decide`], for a listing and for a call alike. Roles are decided natively.
//! It only judges: it does not wait, does no I/O and keeps nothing about a call.
//!
//! ```
//! use tollgate_policy::{Circumstances, Effect, Policy, Role};
//! use tollgate_types::{Caller, Permission, Risk, Surface, ToolDefinition};
//!
//! let policy = Policy::new([Role::new("clerk").allow("read_*").exclude("read_secret")])?;
//! let caller = Caller::new("ada", "clerk", Surface::Cli);
//! let mut tool = ToolDefinition::new("read_order", "Reads an order.");
//! (tool.risk, tool.permission) = (Risk::Read, Permission::Read);
//! assert_eq!(policy.decide(&caller, &tool, None, &Circumstances::default()).effect, Effect::Allow);
//! tool.name = "read_secret".into();
//! assert_eq!(policy.decide(&caller, &tool, None, &Circumstances::default()).rule, "role:clerk:tools");
//! # Ok::<(), tollgate_policy::PolicyError>(())
//! ```

mod decide;
mod error;
mod explain;
mod grant;
mod guard;
mod provenance;
mod role;
mod rule;

pub use decide::{Decision, Effect, Policy};
pub use error::PolicyError;
pub use explain::{Applied, ArgumentReport, Assumed, ConditionReport, Explanation, RuleReport, RuleSummary, Verdict};
pub use provenance::{Heard, Origin, Origins, Provenance};
pub use role::{Ask, Role};
pub use rule::example::{Example, ToolFacts};
pub use rule::request::Circumstances;
pub use rule::source::{Argument, ArgumentType, RuleFault, RuleSource, RulesError};
