//! A language for looking into JSON: a part of jq's, without what can run for ever. There are no definitions, no loops
//! but over what is there, and every value that is looked at or made is counted.

mod eval;
mod functions;
mod lex;
mod parse;
mod values;

use serde_json::Value;
use tollgate_types::limits;

use eval::{Machine, Stop};
use parse::Term;

/// Why a filter does not work.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// It is not written as one is.
    #[error("{message} (at character {at})")]
    Syntax {
        /// What is wrong.
        message: String,
        /// Where, counted from 1.
        at: usize,
    },
    /// A value does not fit what is done with it.
    #[error("{0}")]
    Value(String),
    /// It looks at more than it may.
    #[error("it takes more than {} steps", limits::FILTER_STEPS_MAX)]
    Steps,
    /// Nobody waits any more.
    #[error("it was stopped")]
    Stopped,
}

/// A filter that was read.
///
/// ```
/// use serde_json::json;
/// use tollgate_shape::Filter;
///
/// let filter = Filter::read(".orders[] | select(.amount > 100) | {id, 客户: .customer.name}").unwrap();
/// let orders = json!({"orders": [{"id": 1, "amount": 99}, {"id": 2, "amount": 101, "customer": {"name": "王"}}]});
/// let mut found = Vec::new();
/// filter.run(&orders, &|| false, &mut |value| { found.push(value); true }).unwrap();
/// assert_eq!(found, [json!({"id": 2, "客户": "王"})]);
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Filter(Term);

impl Filter {
    /// Reads one.
    ///
    /// # Errors
    /// When it is not written as one is, names what there is not, or is too long.
    pub fn read(text: &str) -> Result<Self, FilterError> {
        if text.chars().count() > limits::FILTER_CHARS_MAX {
            let message = format!("a filter has at most {} characters", limits::FILTER_CHARS_MAX);
            return Err(FilterError::Syntax { message, at: limits::FILTER_CHARS_MAX });
        }
        parse::parse(text).map(Self)
    }

    /// Tells each value that comes out, until `tell` says false. `is_stopped` is asked now and then.
    ///
    /// # Errors
    /// When a value does not fit what is done with it, it takes too long, or it was stopped.
    pub fn run(
        &self,
        input: &Value,
        is_stopped: &dyn Fn() -> bool,
        tell: &mut dyn FnMut(Value) -> bool,
    ) -> Result<(), FilterError> {
        self.run_within(limits::FILTER_STEPS_MAX, input, is_stopped, tell)
    }

    fn run_within(
        &self,
        steps: u64,
        input: &Value,
        is_stopped: &dyn Fn() -> bool,
        tell: &mut dyn FnMut(Value) -> bool,
    ) -> Result<(), FilterError> {
        let machine = Machine::new(steps, is_stopped);
        let ended = machine.eval(&self.0, input, &mut |value| {
            let value = machine.owned(value)?;
            if tell(value) { Ok(()) } else { Err(Stop::Enough) }
        });
        match ended {
            Ok(()) | Err(Stop::Enough | Stop::Break(_)) => Ok(()),
            Err(Stop::Fault(message)) => Err(FilterError::Value(message)),
            Err(Stop::Steps) => Err(FilterError::Steps),
            Err(Stop::Stopped) => Err(FilterError::Stopped),
        }
    }
}

#[cfg(test)]
mod tests;
