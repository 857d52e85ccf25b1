//! Values as filters see them: what they are, in which order they stand, their parts, and what comes of two.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

use super::eval::Stop;
use super::parse::Operator;

/// What a function wants and does not get.
pub(super) fn fault<T>(function: &str, wanted: &str, found: &Value) -> Result<T, Stop> {
    Err(Stop::Fault(format!("`{function}` wants {wanted}, not {}", kind(found))))
}

/// What a value is, in words.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A whole number as one; what is none is null.
pub(super) fn from_f64(number: f64) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() <= EXACT {
        return format!("{number:.0}").parse::<i64>().map_or(Value::Null, Value::from);
    }
    Number::from_f64(number).map_or(Value::Null, Value::Number)
}

/// The order of jq: null, false, true, numbers, texts, lists, objects.
pub(super) fn order(one: &Value, other: &Value) -> Ordering {
    let rank = |value: &Value| match value {
        Value::Null => 0,
        Value::Bool(false) => 1,
        Value::Bool(true) => 2,
        Value::Number(_) => 3,
        Value::String(_) => 4,
        Value::Array(_) => 5,
        Value::Object(_) => 6,
    };
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => match (one.as_i64(), other.as_i64()) {
            (Some(one), Some(other)) => one.cmp(&other),
            _ => one.as_f64().unwrap_or_default().total_cmp(&other.as_f64().unwrap_or_default()),
        },
        (Value::String(one), Value::String(other)) => one.cmp(other),
        (Value::Array(one), Value::Array(other)) => {
            let pairs = one.iter().zip(other);
            pairs
                .map(|(one, other)| order(one, other))
                .find(|order| order.is_ne())
                .unwrap_or(one.len().cmp(&other.len()))
        }
        (Value::Object(one), Value::Object(other)) => {
            let sorted = |map: &Map<String, Value>| {
                let mut keys: Vec<String> = map.keys().cloned().collect();
                keys.sort_unstable();
                keys
            };
            let keys = sorted(one);
            keys.cmp(&sorted(other)).then_with(|| {
                let members = keys.iter().filter_map(|key| Some((one.get(key)?, other.get(key)?)));
                members.map(|(one, other)| order(one, other)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
            })
        }
        _ => rank(one).cmp(&rank(other)),
    }
}

/// Where a number points in a list, from its end when it is below 0.
pub(super) fn position(at: &Value, length: usize) -> Option<usize> {
    match at.as_i64() {
        Some(at) if at < 0 => length.checked_sub(usize::try_from(at.unsigned_abs()).ok()?),
        Some(at) => usize::try_from(at).ok(),
        None => at.as_f64().filter(|at| *at >= 0.0).and_then(|at| format!("{:.0}", at.floor()).parse().ok()),
    }
}

/// A part of a list or a text.
pub(super) fn slice(value: &Value, from: &Value, to: &Value) -> Result<Value, Stop> {
    let bounds = |length: usize| {
        let bound = |at: &Value, open: usize| match at {
            Value::Null => Ok(open),
            Value::Number(_) => Ok(position(at, length).unwrap_or(0).min(length)),
            other => fault("[from:to]", "numbers", other),
        };
        let (from, to) = (bound(from, 0)?, bound(to, length)?);
        Ok((from, to.max(from)))
    };
    match value {
        Value::Null => Ok(Value::Null),
        Value::Array(items) => {
            let (from, to) = bounds(items.len())?;
            Ok(items.get(from..to).unwrap_or_default().to_vec().into())
        }
        Value::String(text) => {
            let (from, to) = bounds(text.chars().count())?;
            Ok(text.chars().skip(from).take(to - from).collect::<String>().into())
        }
        other => fault("[from:to]", "a list or a text", other),
    }
}

/// What comes of two values.
pub(super) fn arithmetic(operator: Operator, one: &Value, other: &Value) -> Result<Value, Stop> {
    let fault = || {
        let message = format!("{} and {} cannot be brought together like that", kind(one), kind(other));
        Err(Stop::Fault(message))
    };
    match (operator, one, other) {
        (Operator::Plus, Value::Null, value) | (Operator::Plus, value, Value::Null) => Ok(value.clone()),
        (Operator::Plus, Value::String(one), Value::String(other)) => Ok(format!("{one}{other}").into()),
        (Operator::Plus, Value::Array(one), Value::Array(other)) => Ok(one.iter().chain(other).cloned().collect()),
        (Operator::Plus, Value::Object(one), Value::Object(other)) => {
            let mut sum = one.clone();
            sum.extend(other.iter().map(|(key, value)| (key.clone(), value.clone())));
            Ok(sum.into())
        }
        (_, Value::Number(one), Value::Number(other)) => {
            let whole = one.as_i64().zip(other.as_i64()).and_then(|(one, other)| match operator {
                Operator::Plus => one.checked_add(other),
                Operator::Minus => one.checked_sub(other),
                Operator::Times => one.checked_mul(other),
                Operator::Through => one.checked_rem(other).filter(|rest| *rest == 0).and(one.checked_div(other)),
                _ => one.checked_rem(other),
            });
            if let Some(whole) = whole {
                return Ok(whole.into());
            }
            let (one, other) = (one.as_f64().unwrap_or_default(), other.as_f64().unwrap_or_default());
            match operator {
                Operator::Through | Operator::Modulo if other == 0.0 => {
                    Err(Stop::Fault("a number cannot be divided by 0".into()))
                }
                Operator::Plus => Ok(from_f64(one + other)),
                Operator::Minus => Ok(from_f64(one - other)),
                Operator::Times => Ok(from_f64(one * other)),
                Operator::Through => Ok(from_f64(one / other)),
                _ => Ok(from_f64(one % other)),
            }
        }
        _ => fault(),
    }
}
