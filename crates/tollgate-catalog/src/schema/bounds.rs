//! What a schema may cost: its size, its depth, and its size once each `$ref` is followed.

use serde_json::Value;
use tollgate_types::limits;

use super::SchemaError;
use super::plan::{Node, NodeId, Plan};

/// Subschemas that apply to one value inside each other (`anyOf` in `$ref` in `allOf` …).
const IN_PLACE_DEPTH_MAX: usize = 16;

/// Bounds on the text, before anything walks it.
pub(super) fn check_document(schema: &Value) -> Result<(), SchemaError> {
    if is_deeper_than(schema, limits::JSON_DEPTH_MAX) {
        return Err(SchemaError::too_large(format!("the schema is deeper than {} levels", limits::JSON_DEPTH_MAX)));
    }
    let bytes = serde_json::to_vec(schema).map_or(usize::MAX, |text| text.len());
    if bytes > limits::SCHEMA_BYTES_MAX {
        return Err(SchemaError::too_large(format!("the schema has more than {} bytes", limits::SCHEMA_BYTES_MAX)));
    }
    Ok(())
}

pub(super) fn is_deeper_than(value: &Value, depth: usize) -> bool {
    match value {
        Value::Array(items) => depth == 0 || items.iter().any(|item| is_deeper_than(item, depth - 1)),
        Value::Object(object) => depth == 0 || object.values().any(|item| is_deeper_than(item, depth - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// Bounds on the graph of subschemas. A schema may contain itself below (a tree does), but not in place: it would
/// never come to an end; and not so often that following its `$ref` multiplies it.
pub(super) fn check_plan(plan: &Plan) -> Result<(), SchemaError> {
    let (heights, circle) = fold(plan, &|node| node.in_place().collect(), |height, below| height.max(below + 1));
    if let Some(id) = circle {
        return Err(SchemaError::invalid(&plan.node(id).pointer, "the schema contains itself without end"));
    }
    if heights > IN_PLACE_DEPTH_MAX {
        let message = format!("more than {IN_PLACE_DEPTH_MAX} subschemas apply to one value inside each other");
        return Err(SchemaError::too_large(message));
    }
    let all = |node: &Node| node.in_place().chain(node.below()).collect();
    let (size, _) = fold(plan, &all, usize::saturating_add);
    if size > limits::SCHEMA_NODES_MAX {
        let message =
            format!("the schema has more than {} parts once each `$ref` is followed", limits::SCHEMA_NODES_MAX);
        return Err(SchemaError::too_large(message));
    }
    Ok(())
}

/// The largest value over the graph, where a node is worth one joined with its children, and a node that contains
/// itself. Without recursion on the stack: a chain of `$ref` may be long.
fn fold(
    plan: &Plan,
    children: &dyn Fn(&Node) -> Vec<NodeId>,
    join: fn(usize, usize) -> usize,
) -> (usize, Option<NodeId>) {
    let mut worth = vec![Worth::Unknown; plan.len()];
    let (mut largest, mut circle) = (0, None);
    for start in plan.ids() {
        let mut stack = vec![(start, children(plan.node(start)), 1)];
        if !matches!(worth.get(start.0), Some(Worth::Unknown)) {
            continue;
        }
        while let Some((id, rest, value)) = stack.last_mut() {
            if let Some(slot) = worth.get_mut(id.0) {
                *slot = Worth::Open;
            }
            if let Some(child) = rest.pop() {
                match worth.get(child.0) {
                    Some(Worth::Known(known)) => *value = join(*value, *known),
                    Some(Worth::Open) => circle = Some(child),
                    Some(Worth::Unknown) | None => stack.push((child, children(plan.node(child)), 1)),
                }
                continue;
            }
            let (id, value) = (*id, *value);
            largest = largest.max(value);
            if let Some(slot) = worth.get_mut(id.0) {
                *slot = Worth::Known(value);
            }
            stack.pop();
            if let Some((_, _, parent)) = stack.last_mut() {
                *parent = join(*parent, value);
            }
        }
    }
    (largest, circle)
}

#[derive(Clone, Copy)]
enum Worth {
    Unknown,
    Open,
    Known(usize),
}
