//! What filters can do with values.

use std::borrow::Cow;

use regex::RegexBuilder;
use serde_json::{Map, Number, Value, json};

use super::eval::{Machine, Stop, Tell, Told, is_true};
use super::parse::{Operator, Term};
use super::values::{arithmetic, fault, from_f64, kind, order};

/// What the pattern of `test` may take when it is compiled.
const PATTERN_BYTES_MAX: usize = 1024 * 1024;

macro_rules! functions {
    ($($variant:ident $name:literal $given:literal,)*) => {
        /// The functions, as in jq.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Function { $($variant,)* }

        impl Function {
            /// The function of this name that takes so much.
            pub(super) fn find(name: &str, given: usize) -> Option<Self> {
                match (name, given) {
                    $(($name, $given) => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

functions! {
    Add "add" 0, All "all" 0, AllOf "all" 1, Any "any" 0, AnyOf "any" 1, Contains "contains" 1, Downcase "ascii_downcase" 0,
    Empty "empty" 0, EndsWith "endswith" 1, First "first" 0, FirstOf "first" 1, Flatten "flatten" 0, Floor "floor" 0,
    FromEntries "from_entries" 0, GroupBy "group_by" 1, Has "has" 1, Join "join" 1, Keys "keys" 0, Last "last" 0,
    Length "length" 0, Limit "limit" 2, Map "map" 1, Max "max" 0, MaxBy "max_by" 1, Min "min" 0, MinBy "min_by" 1,
    Not "not" 0, Reverse "reverse" 0, Round "round" 0, Select "select" 1, Sort "sort" 0, SortBy "sort_by" 1,
    Split "split" 1, StartsWith "startswith" 1, Test "test" 1, ToEntries "to_entries" 0, ToNumber "tonumber" 0,
    ToString "tostring" 0, Type "type" 0, Unique "unique" 0, UniqueBy "unique_by" 1, Upcase "ascii_upcase" 0,
    WithEntries "with_entries" 1,
}

pub(super) fn call<'v>(
    machine: &Machine<'_>,
    function: Function,
    given: &[Term],
    input: &'v Value,
    tell: Tell<'_, 'v>,
) -> Told {
    let Some(first) = given.first() else { return simple(machine, function, input, tell) };
    match function {
        Function::Select => machine.eval(first, input, &mut |value| {
            if is_true(&value) { tell(Cow::Borrowed(input)) } else { Ok(()) }
        }),
        Function::FirstOf => machine.until(first, input, tell, &mut || true),
        Function::Limit => limit(machine, first, given.get(1).unwrap_or(first), input, tell),
        Function::Map => {
            let mut mapped = Vec::new();
            for item in items("map", input)? {
                mapped.append(&mut machine.collect(first, item)?);
            }
            tell(Cow::Owned(mapped.into()))
        }
        Function::AllOf | Function::AnyOf => {
            let wanted = function == Function::AnyOf;
            let mut found = false;
            for item in items("any", input)? {
                machine.eval(first, item, &mut |value| {
                    found |= is_true(&value) == wanted;
                    Ok(())
                })?;
            }
            tell(Cow::Owned((found == wanted).into()))
        }
        Function::SortBy | Function::GroupBy | Function::UniqueBy | Function::MinBy | Function::MaxBy => {
            let found = by_key(machine, function, first, input)?;
            tell(Cow::Owned(found))
        }
        Function::WithEntries => {
            let mut entries = Vec::new();
            for entry in entries_of(input)? {
                entries.append(&mut machine.collect(first, &entry)?);
            }
            tell(Cow::Owned(from_entries(&entries)?))
        }
        _ => machine.eval(first, input, &mut |value| tell(Cow::Owned(with_value(machine, function, input, &value)?))),
    }
}

fn limit<'v>(machine: &Machine<'_>, count: &Term, term: &Term, input: &'v Value, tell: Tell<'_, 'v>) -> Told {
    machine.eval(count, input, &mut |count| {
        let Some(mut left) = count.as_u64() else { return fault("limit", "a number that is not below 0", &count) };
        if left == 0 {
            return Ok(());
        }
        machine.until(term, input, tell, &mut || {
            left -= 1;
            left == 0
        })
    })
}

/// What takes nothing but its input.
fn simple<'v>(machine: &Machine<'_>, function: Function, input: &'v Value, tell: Tell<'_, 'v>) -> Told {
    let made: Value = match function {
        Function::Empty => return Ok(()),
        Function::First => return tell(Cow::Borrowed(items("first", input)?.first().unwrap_or(&Value::Null))),
        Function::Last => return tell(Cow::Borrowed(items("last", input)?.last().unwrap_or(&Value::Null))),
        Function::Min | Function::Max => {
            let items = items("min", input)?.iter();
            let found = if function == Function::Min {
                items.min_by(|a, b| order(a, b))
            } else {
                items.max_by(|a, b| order(a, b))
            };
            return tell(Cow::Borrowed(found.unwrap_or(&Value::Null)));
        }
        Function::Not => (!is_true(input)).into(),
        Function::Type => kind(input).rsplit(' ').next().map(jq_name).into(),
        Function::Length => length(input)?,
        Function::Keys => keys(input)?,
        Function::Any => items("any", input)?.iter().any(is_true).into(),
        Function::All => items("all", input)?.iter().all(is_true).into(),
        Function::Add => sum(machine, items("add", input)?)?,
        Function::Floor | Function::Round => {
            let number = number("floor", input)?;
            from_f64(if function == Function::Floor { number.floor() } else { number.round() })
        }
        Function::Downcase => text("ascii_downcase", input)?.to_ascii_lowercase().into(),
        Function::Upcase => text("ascii_upcase", input)?.to_ascii_uppercase().into(),
        Function::ToString => match input {
            Value::String(text) => text.as_str().into(),
            other => other.to_string().into(),
        },
        Function::ToNumber => match input {
            Value::Number(_) => input.clone(),
            Value::String(text) => match text.trim().parse::<Number>() {
                Ok(number) => Value::Number(number),
                Err(_) => return fault("tonumber", "a text that is a number", input),
            },
            other => return fault("tonumber", "a text", other),
        },
        Function::ToEntries => entries_of(input)?.into(),
        Function::FromEntries => from_entries(items("from_entries", input)?)?,
        Function::Flatten => {
            let mut flat = Vec::new();
            flatten(machine, items("flatten", input)?, &mut flat)?;
            flat.into()
        }
        Function::Reverse | Function::Sort | Function::Unique => {
            let mut list = items("sort", &machine.owned(Cow::Borrowed(input))?)?.to_vec();
            match function {
                Function::Reverse => list.reverse(),
                _ => list.sort_by(order),
            }
            if function == Function::Unique {
                list.dedup_by(|one, other| order(one, other).is_eq());
            }
            list.into()
        }
        _ => Value::Null,
    };
    tell(Cow::Owned(made))
}

fn sum(machine: &Machine<'_>, items: &[Value]) -> Result<Value, Stop> {
    let mut sum = Value::Null;
    for item in items {
        machine.step(1)?;
        sum = arithmetic(Operator::Plus, &sum, item)?;
        // A growing text or list is copied each time.
        machine.step(text_of(&sum).len() / 64 + sum.as_array().map_or(0, Vec::len))?;
    }
    Ok(sum)
}

/// What takes one value beside its input.
fn with_value(machine: &Machine<'_>, function: Function, input: &Value, value: &Value) -> Result<Value, Stop> {
    machine.step(1 + (text_of(input).len() + text_of(value).len()) / 64)?;
    Ok(match function {
        Function::Has => match (input, value) {
            (Value::Object(map), Value::String(key)) => map.contains_key(key).into(),
            (Value::Array(items), Value::Number(at)) => {
                at.as_u64().is_some_and(|at| usize::try_from(at).is_ok_and(|at| at < items.len())).into()
            }
            _ => return fault("has", "an object and a name, or a list and a number", input),
        },
        Function::Contains => contains(machine, input, value)?.into(),
        Function::StartsWith => text("startswith", input)?.starts_with(text("startswith", value)?).into(),
        Function::EndsWith => text("endswith", input)?.ends_with(text("endswith", value)?).into(),
        Function::Split => text("split", input)?.split(text("split", value)?).collect::<Vec<_>>().into(),
        Function::Join => {
            let mut parts = Vec::new();
            for item in items("join", input)? {
                machine.step(1)?;
                parts.push(match item {
                    Value::String(text) => text.clone(),
                    Value::Null => String::new(),
                    Value::Number(_) | Value::Bool(_) => item.to_string(),
                    Value::Array(_) | Value::Object(_) => return fault("join", "texts and numbers", item),
                });
            }
            parts.join(text("join", value)?).into()
        }
        Function::Test => test(machine, text("test", input)?, text("test", value)?)?.into(),
        _ => Value::Null,
    })
}

fn test(machine: &Machine<'_>, text: &str, pattern: &str) -> Result<bool, Stop> {
    let mut known = machine.pattern.borrow_mut();
    if known.as_ref().is_none_or(|(known, _)| known != pattern) {
        let built = RegexBuilder::new(pattern).size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX).build();
        let regex = built.map_err(|error| Stop::Fault(format!("`test` has a pattern that cannot be used: {error}")))?;
        // Compiling is what costs.
        machine.step(10_000)?;
        *known = Some((pattern.to_owned(), regex));
    }
    Ok(known.as_ref().is_some_and(|(_, regex)| regex.is_match(text)))
}

fn by_key(machine: &Machine<'_>, function: Function, key: &Term, input: &Value) -> Result<Value, Stop> {
    let mut keyed = Vec::new();
    for item in items("sort_by", input)? {
        keyed.push((Value::Array(machine.collect(key, item)?), machine.owned(Cow::Borrowed(item))?));
    }
    keyed.sort_by(|(one, _), (other, _)| order(one, other));
    Ok(match function {
        Function::MinBy => keyed.into_iter().next().map_or(Value::Null, |(_, item)| item),
        Function::MaxBy => keyed.into_iter().next_back().map_or(Value::Null, |(_, item)| item),
        Function::UniqueBy => {
            keyed.dedup_by(|(one, _), (other, _)| order(one, other).is_eq());
            keyed.into_iter().map(|(_, item)| item).collect()
        }
        Function::GroupBy => {
            let mut groups: Vec<(Value, Vec<Value>)> = Vec::new();
            for (key, item) in keyed {
                match groups.last_mut() {
                    Some((known, group)) if order(known, &key).is_eq() => group.push(item),
                    _ => groups.push((key, vec![item])),
                }
            }
            groups.into_iter().map(|(_, group)| Value::from(group)).collect()
        }
        _ => keyed.into_iter().map(|(_, item)| item).collect(),
    })
}

fn jq_name(word: &str) -> &str {
    match word {
        "text" => "string",
        "list" => "array",
        other => other,
    }
}

fn length(value: &Value) -> Result<Value, Stop> {
    Ok(match value {
        Value::Null => 0.into(),
        Value::Bool(_) => return fault("length", "a text, a list, an object or a number", value),
        Value::Number(number) => from_f64(number.as_f64().unwrap_or_default().abs()),
        Value::String(text) => text.chars().count().into(),
        Value::Array(items) => items.len().into(),
        Value::Object(map) => map.len().into(),
    })
}

fn keys(value: &Value) -> Result<Value, Stop> {
    Ok(match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort_unstable();
            keys.into_iter().map(|key| Value::from(key.as_str())).collect()
        }
        Value::Array(items) => (0..items.len()).map(Value::from).collect(),
        other => return fault("keys", "an object or a list", other),
    })
}

fn flatten(machine: &Machine<'_>, items: &[Value], flat: &mut Vec<Value>) -> Told {
    for item in items {
        match item {
            Value::Array(inner) => flatten(machine, inner, flat)?,
            other => flat.push(machine.owned(Cow::Borrowed(other))?),
        }
    }
    Ok(())
}

fn contains(machine: &Machine<'_>, whole: &Value, part: &Value) -> Result<bool, Stop> {
    machine.step(1)?;
    Ok(match (whole, part) {
        (Value::String(whole), Value::String(part)) => whole.contains(part.as_str()),
        (Value::Array(whole), Value::Array(parts)) => {
            for part in parts {
                let mut has_it = false;
                for item in whole {
                    has_it = kind(item) == kind(part) && contains(machine, item, part)?;
                    if has_it {
                        break;
                    }
                }
                if !has_it {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Object(whole), Value::Object(parts)) => {
            for (key, part) in parts {
                let Some(member) = whole.get(key).filter(|member| kind(member) == kind(part)) else { return Ok(false) };
                if !contains(machine, member, part)? {
                    return Ok(false);
                }
            }
            true
        }
        (one, other) if kind(one) == kind(other) => order(one, other).is_eq(),
        (one, _) => return fault("contains", "two values of one kind", one),
    })
}

fn entries_of(value: &Value) -> Result<Vec<Value>, Stop> {
    match value {
        Value::Object(map) => Ok(map.iter().map(|(key, value)| json!({ "key": key, "value": value })).collect()),
        other => fault("to_entries", "an object", other),
    }
}

fn from_entries(entries: &[Value]) -> Result<Value, Stop> {
    let mut map = Map::new();
    for entry in entries {
        let member = |names: [&str; 3]| names.into_iter().find_map(|name| entry.get(name));
        let key = match member(["key", "name", "k"]) {
            Some(Value::String(key)) => key.clone(),
            Some(key @ (Value::Number(_) | Value::Bool(_))) => key.to_string(),
            _ => return fault("from_entries", "objects with `key` and `value`", entry),
        };
        map.insert(key, member(["value", "v", "Value"]).cloned().unwrap_or_default());
    }
    Ok(map.into())
}

fn items<'v>(function: &str, value: &'v Value) -> Result<&'v [Value], Stop> {
    match value {
        Value::Array(items) => Ok(items),
        other => fault(function, "a list", other),
    }
}

fn text<'v>(function: &str, value: &'v Value) -> Result<&'v str, Stop> {
    value.as_str().map_or_else(|| fault(function, "a text", value), Ok)
}

fn text_of(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn number(function: &str, value: &Value) -> Result<f64, Stop> {
    value.as_f64().map_or_else(|| fault(function, "a number", value), Ok)
}
