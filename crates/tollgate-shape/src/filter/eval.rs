//! Filters at work. A term takes a value and tells each value that comes out; what is only looked at is not copied, and
//! what is copied is counted.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;

use regex::Regex;
use serde_json::{Map, Value};

use super::functions;
use super::parse::{Operator, Term};
use super::values;

/// Why no further value comes.
pub(super) enum Stop {
    /// There were enough for the filter's caller.
    Enough,
    /// There were enough for the function with this number.
    Break(u64),
    /// A value does not fit what is done with it.
    Fault(String),
    /// There were too many steps.
    Steps,
    /// Nobody waits any more.
    Stopped,
}

pub(super) type Told = Result<(), Stop>;
pub(super) type Tell<'t, 'v> = &'t mut dyn FnMut(Cow<'v, Value>) -> Told;

/// Between two questions whether to stop.
const STEPS_UNASKED: u64 = 4096;
/// What a step copies of a text.
const STEP_BYTES: usize = 64;

pub(super) struct Machine<'s> {
    left: Cell<u64>,
    breaks: Cell<u64>,
    is_stopped: &'s dyn Fn() -> bool,
    /// The pattern that was used last.
    pub(super) pattern: RefCell<Option<(String, Regex)>>,
}

impl<'s> Machine<'s> {
    pub(super) fn new(steps: u64, is_stopped: &'s dyn Fn() -> bool) -> Self {
        Self { left: Cell::new(steps), breaks: Cell::new(0), is_stopped, pattern: RefCell::default() }
    }

    /// Counts steps.
    pub(super) fn step(&self, steps: usize) -> Told {
        let steps = u64::try_from(steps).unwrap_or(u64::MAX);
        let before = self.left.get();
        let left = before.checked_sub(steps).ok_or(Stop::Steps)?;
        self.left.set(left);
        if before / STEPS_UNASKED != left / STEPS_UNASKED && (self.is_stopped)() {
            return Err(Stop::Stopped);
        }
        Ok(())
    }

    /// The value itself. A copy is counted.
    pub(super) fn owned(&self, value: Cow<'_, Value>) -> Result<Value, Stop> {
        match value {
            Cow::Owned(value) => Ok(value),
            Cow::Borrowed(value) => {
                self.weigh(value)?;
                Ok(value.clone())
            }
        }
    }

    /// Counts what a copy of a value costs.
    fn weigh(&self, value: &Value) -> Told {
        match value {
            Value::String(text) => self.step(1 + text.len() / STEP_BYTES),
            Value::Array(items) => {
                self.step(1)?;
                items.iter().try_for_each(|item| self.weigh(item))
            }
            Value::Object(map) => {
                self.step(1 + map.len())?;
                map.values().try_for_each(|value| self.weigh(value))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => self.step(1),
        }
    }

    pub(super) fn eval<'v>(&self, term: &Term, input: &'v Value, tell: Tell<'_, 'v>) -> Told {
        self.step(1)?;
        match term {
            Term::Input => tell(Cow::Borrowed(input)),
            Term::All => self.all(input, tell),
            Term::Literal(value) => tell(Cow::Owned(value.clone())),
            Term::Pipe(left, right) => self.eval(left, input, &mut |value| self.pass_on(right, value, tell)),
            Term::Both(left, right) => {
                self.eval(left, input, tell)?;
                self.eval(right, input, tell)
            }
            Term::Binary(operator, left, right) => self.binary(*operator, left, right, input, tell),
            Term::Minus(term) => self.eval(term, input, &mut |value| {
                tell(Cow::Owned(values::arithmetic(Operator::Minus, &Value::from(0), &value)?))
            }),
            Term::At(term, key) => {
                self.eval(key, input, &mut |key| self.eval(term, input, &mut |value| tell(at(value, &key)?)))
            }
            Term::Slice(term, from, to) => self.slice(term, from.as_deref(), to.as_deref(), input, tell),
            Term::Each(term) => self.eval(term, input, &mut |value| self.each(value, tell)),
            Term::Try(term) => self.attempt(term, input, tell),
            Term::List(term) => {
                let items = term.as_ref().map_or(Ok(Vec::new()), |term| self.collect(term, input))?;
                tell(Cow::Owned(Value::Array(items)))
            }
            Term::Object(members) => self.object(members, input, Map::new(), tell),
            Term::If(condition, then, otherwise) => {
                self.eval(condition, input, &mut |value| match (is_true(&value), otherwise) {
                    (true, _) => self.eval(then, input, tell),
                    (false, Some(otherwise)) => self.eval(otherwise, input, tell),
                    (false, None) => tell(Cow::Borrowed(input)),
                })
            }
            Term::Call(function, given) => functions::call(self, *function, given, input, tell),
        }
    }

    /// Gives a value to a term. What the term finds in a value of its own outlives it as a copy.
    pub(super) fn pass_on<'v>(&self, term: &Term, value: Cow<'v, Value>, tell: Tell<'_, 'v>) -> Told {
        match value {
            Cow::Borrowed(value) => self.eval(term, value, tell),
            Cow::Owned(value) => self.eval(term, &value, &mut |found| tell(Cow::Owned(self.owned(found)?))),
        }
    }

    /// Every value that comes out.
    pub(super) fn collect(&self, term: &Term, input: &Value) -> Result<Vec<Value>, Stop> {
        let mut values = Vec::new();
        self.eval(term, input, &mut |value| {
            values.push(self.owned(value)?);
            Ok(())
        })?;
        Ok(values)
    }

    fn all<'v>(&self, input: &'v Value, tell: Tell<'_, 'v>) -> Told {
        self.step(1)?;
        tell(Cow::Borrowed(input))?;
        match input {
            Value::Array(items) => items.iter().try_for_each(|item| self.all(item, tell)),
            Value::Object(map) => map.values().try_for_each(|item| self.all(item, tell)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }

    pub(super) fn each<'v>(&self, value: Cow<'v, Value>, tell: Tell<'_, 'v>) -> Told {
        let mut one = |value| {
            self.step(1)?;
            tell(value)
        };
        match value {
            Cow::Borrowed(Value::Array(items)) => items.iter().try_for_each(|item| one(Cow::Borrowed(item))),
            Cow::Borrowed(Value::Object(map)) => map.values().try_for_each(|item| one(Cow::Borrowed(item))),
            Cow::Owned(Value::Array(items)) => items.into_iter().try_for_each(|item| one(Cow::Owned(item))),
            Cow::Owned(Value::Object(map)) => map.into_iter().try_for_each(|(_, item)| one(Cow::Owned(item))),
            other => Err(Stop::Fault(format!("`[]` goes through a list or an object, not {}", values::kind(&other)))),
        }
    }

    /// Runs a term; what is wrong within it, and not behind it, is passed over.
    fn attempt<'v>(&self, term: &Term, input: &'v Value, tell: Tell<'_, 'v>) -> Told {
        let mut behind = None;
        let ended = self.eval(term, input, &mut |value| {
            tell(value).map_err(|stop| {
                behind = Some(stop);
                Stop::Enough
            })
        });
        match (behind, ended) {
            (Some(stop), _) => Err(stop),
            (None, Err(Stop::Fault(_))) => Ok(()),
            (None, ended) => ended,
        }
    }

    /// Runs a term until `is_last` says that a value was the last one.
    pub(super) fn until<'v>(
        &self,
        term: &Term,
        input: &'v Value,
        tell: Tell<'_, 'v>,
        is_last: &mut dyn FnMut() -> bool,
    ) -> Told {
        let number = self.breaks.get() + 1;
        self.breaks.set(number);
        let ended = self.eval(term, input, &mut |value| {
            tell(value)?;
            if is_last() { Err(Stop::Break(number)) } else { Ok(()) }
        });
        match ended {
            Err(Stop::Break(broken)) if broken == number => Ok(()),
            ended => ended,
        }
    }

    fn binary<'v>(&self, operator: Operator, left: &Term, right: &Term, input: &'v Value, tell: Tell<'_, 'v>) -> Told {
        let mut say = |truth: bool| tell(Cow::Owned(Value::Bool(truth)));
        match operator {
            Operator::Or | Operator::And => self.eval(left, input, &mut |one| {
                if is_true(&one) == (operator == Operator::Or) {
                    return say(is_true(&one));
                }
                self.eval(right, input, &mut |other| say(is_true(&other)))
            }),
            Operator::Else => {
                let mut has_one = false;
                let mut pick = |value: Cow<'v, Value>| {
                    if !is_true(&value) {
                        return Ok(());
                    }
                    has_one = true;
                    tell(value)
                };
                self.attempt(left, input, &mut pick)?;
                if has_one { Ok(()) } else { self.eval(right, input, tell) }
            }
            Operator::Equal
            | Operator::Unequal
            | Operator::Less
            | Operator::LessOrEqual
            | Operator::More
            | Operator::MoreOrEqual => self.eval(right, input, &mut |other| {
                self.eval(left, input, &mut |one| say(holds(operator, values::order(&one, &other))))
            }),
            Operator::Plus | Operator::Minus | Operator::Times | Operator::Through | Operator::Modulo => {
                self.eval(right, input, &mut |other| {
                    self.eval(left, input, &mut |one| {
                        self.weigh(&one)?;
                        self.weigh(&other)?;
                        tell(Cow::Owned(values::arithmetic(operator, &one, &other)?))
                    })
                })
            }
        }
    }

    fn slice<'v>(
        &self,
        term: &Term,
        from: Option<&Term>,
        to: Option<&Term>,
        input: &'v Value,
        tell: Tell<'_, 'v>,
    ) -> Told {
        let open = Term::Literal(Value::Null);
        self.eval(to.unwrap_or(&open), input, &mut |to| {
            self.eval(from.unwrap_or(&open), input, &mut |from| {
                self.eval(term, input, &mut |value| {
                    let part = values::slice(&value, &from, &to)?;
                    self.weigh(&part)?;
                    tell(Cow::Owned(part))
                })
            })
        })
    }

    fn object<'v>(
        &self,
        members: &[(Term, Term)],
        input: &'v Value,
        so_far: Map<String, Value>,
        tell: Tell<'_, 'v>,
    ) -> Told {
        let Some(((key, value), rest)) = members.split_first() else { return tell(Cow::Owned(Value::Object(so_far))) };
        self.eval(key, input, &mut |key| {
            let Value::String(key) = key.as_ref() else {
                return Err(Stop::Fault(format!("a member's name is a text, not {}", values::kind(&key))));
            };
            self.eval(value, input, &mut |value| {
                self.step(1 + so_far.len())?;
                let mut more = so_far.clone();
                more.insert(key.clone(), self.owned(value)?);
                self.object(rest, input, more, tell)
            })
        })
    }
}

pub(super) fn is_true(value: &Value) -> bool {
    !matches!(value, Value::Null | Value::Bool(false))
}

fn holds(operator: Operator, order: Ordering) -> bool {
    match operator {
        Operator::Equal => order.is_eq(),
        Operator::Unequal => order.is_ne(),
        Operator::Less => order.is_lt(),
        Operator::LessOrEqual => order.is_le(),
        Operator::More => order.is_gt(),
        _ => order.is_ge(),
    }
}

/// The member or item; null where there is none.
fn at<'v>(value: Cow<'v, Value>, key: &Value) -> Result<Cow<'v, Value>, Stop> {
    let fault = |value: &Value| {
        let (kind, key) = (values::kind(value), values::kind(key));
        Err(Stop::Fault(format!("nothing in {kind} can be looked up by {key}")))
    };
    let found = match (value.as_ref(), key) {
        (Value::Null, Value::String(_) | Value::Number(_) | Value::Null) => return Ok(Cow::Owned(Value::Null)),
        (Value::Object(_), Value::String(_)) | (Value::Array(_), Value::Number(_)) => true,
        _ => false,
    };
    if !found {
        return fault(&value);
    }
    let taken = match value {
        Cow::Borrowed(Value::Object(map)) => key.as_str().and_then(|key| map.get(key)).map(Cow::Borrowed),
        Cow::Borrowed(Value::Array(items)) => {
            values::position(key, items.len()).and_then(|at| items.get(at)).map(Cow::Borrowed)
        }
        Cow::Owned(Value::Object(mut map)) => key.as_str().and_then(|key| map.swap_remove(key)).map(Cow::Owned),
        Cow::Owned(Value::Array(mut items)) => values::position(key, items.len())
            .filter(|at| *at < items.len())
            .map(|at| Cow::Owned(items.swap_remove(at))),
        Cow::Borrowed(_) | Cow::Owned(_) => None,
    };
    Ok(taken.unwrap_or(Cow::Owned(Value::Null)))
}
