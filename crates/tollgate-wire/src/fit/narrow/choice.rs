//! Choices: `anyOf` and `oneOf`.

use serde_json::{Map, Value, json};

use super::{Narrower, any_of};
use crate::fit::Refusal;
use crate::fit::kinds::{self, Kind, Kinds};

/// Branches of which it is asked whether they exclude each other.
const BRANCHES_COMPARED_MAX: usize = 64;

impl Narrower<'_> {
    /// A choice between what each branch asks together with what is asked beside them.
    pub(super) fn choice(
        &mut self,
        keyword: &str,
        branches: &[Value],
        beside: Map<String, Value>,
    ) -> Result<Option<Map<String, Value>>, Refusal> {
        if keyword == "oneOf" && !self.are_exclusive(branches) {
            self.lose("`oneOf` became `anyOf`");
        }
        let mut fitted: Vec<Map<String, Value>> = Vec::new();
        for branch in branches {
            let whole = if beside.is_empty() { None } else { Some(json!({ "allOf": [beside, branch] })) };
            let Some(mut map) = self.node(whole.as_ref().unwrap_or(branch))? else { continue };
            // A choice within a choice is one.
            match map.remove("anyOf") {
                Some(Value::Array(inner)) if map.is_empty() => {
                    fitted.extend(inner.into_iter().filter_map(|value| match value {
                        Value::Object(map) => Some(map),
                        _ => None,
                    }));
                }
                inner => {
                    map.extend(inner.map(|inner| ("anyOf".to_owned(), inner)));
                    fitted.push(map);
                }
            }
        }
        let mut different: Vec<Map<String, Value>> = Vec::new();
        for map in fitted {
            if !different.contains(&map) {
                different.push(map);
            }
        }
        Ok(if different.len() > 1 { Some(any_of(different)) } else { different.pop() })
    }

    /// Whether no value can fit two of the branches, so that any is one.
    fn are_exclusive(&self, branches: &[Value]) -> bool {
        if branches.len() > BRANCHES_COMPARED_MAX {
            return false;
        }
        let maps: Option<Vec<_>> = branches.iter().map(|branch| self.look(branch).as_object()).collect();
        let Some(maps) = maps else { return false };
        let later = |index: usize| maps.iter().skip(index + 1);
        maps.iter().enumerate().all(|(index, one)| later(index).all(|other| are_apart(one, other)))
    }
}

/// Whether no value fits both: their types differ, or what a property that both require must be.
fn are_apart(one: &Map<String, Value>, other: &Map<String, Value>) -> bool {
    let said = |map: &Map<String, Value>| map.get("type").map(kinds::said);
    let kinds = (said(one), said(other));
    if let (Some(one), Some(other)) = kinds
        && one.and(other) == Kinds::default()
    {
        return true;
    }
    if let (Some(one), Some(other)) = (values(one), values(other)) {
        return !one.iter().any(|value| other.contains(value));
    }
    // A property says nothing of what is no object.
    let objects = Some(Kinds::only(Kind::Object));
    let are_objects = kinds == (objects, objects);
    let (Some(mine), Some(theirs)) = (properties(one), properties(other)) else { return false };
    let requires = |map: &Map<String, Value>, name: &str| {
        map.get("required").and_then(Value::as_array).is_some_and(|all| all.iter().any(|one| one == name))
    };
    are_objects
        && mine.iter().any(|(name, property)| {
            let values = |property: &Value| property.as_object().and_then(values);
            let (Some(mine), Some(theirs)) = (values(property), theirs.get(name).and_then(values)) else {
                return false;
            };
            requires(one, name) && requires(other, name) && !mine.iter().any(|value| theirs.contains(value))
        })
}

fn properties(map: &Map<String, Value>) -> Option<&Map<String, Value>> {
    map.get("properties").and_then(Value::as_object)
}

/// The values that a schema lists.
fn values(map: &Map<String, Value>) -> Option<Vec<Value>> {
    match (map.get("const"), map.get("enum")) {
        (Some(value), _) => Some(vec![value.clone()]),
        (None, Some(Value::Array(values))) => Some(values.clone()),
        _ => None,
    }
}
