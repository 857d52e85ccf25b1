//! Values that are nested too deeply to be walked by functions that call themselves: told, and taken apart, without one.

use serde_json::Value;

/// Whether a value is nested deeper than `levels`. A value without members has one level.
pub fn is_deeper(value: &Value, levels: usize) -> bool {
    let mut open = vec![(value, 1)];
    while let Some((value, level)) = open.pop() {
        if level > levels {
            return true;
        }
        match value {
            Value::Array(items) => open.extend(items.iter().filter(|item| nests(item)).map(|item| (item, level + 1))),
            Value::Object(map) => open.extend(map.values().filter(|item| nests(item)).map(|item| (item, level + 1))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    false
}

fn nests(value: &Value) -> bool {
    value.is_array() || value.is_object()
}

/// Drops a value level by level: dropping one that is nested deeply would overflow the stack.
pub fn dismantle(value: Value) {
    let mut open = vec![value];
    while let Some(value) = open.pop() {
        match value {
            Value::Array(items) => open.extend(items.into_iter().filter(nests)),
            Value::Object(map) => open.extend(map.into_iter().map(|(_, value)| value).filter(nests)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_told_and_undone_without_recursion() {
        let nested = |levels: usize| (0..levels).fold(Value::Null, |value, _| Value::Array(vec![value]));
        assert!(!is_deeper(&nested(5), 5));
        assert!(is_deeper(&nested(6), 5));
        let deep = nested(1_000_000);
        assert!(is_deeper(&deep, 128));
        dismantle(deep);
    }
}
