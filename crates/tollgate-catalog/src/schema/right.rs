//! Whether a value has a right type already. Of several branches of a schema one may want text where another wants a
//! number: which was meant is nobody's guess, so that what has one of their types keeps it.

use serde_json::Value;

use super::Schema;
use super::plan::{Node, NodeId};

/// Whether one of the branches says that what stands at a place within the value (a JSON Pointer) has a right type. A
/// branch in which something else is not the constant that it should be is not meant. True where it costs too much to tell.
pub(super) fn is_right(
    schema: &Schema,
    branches: &[NodeId],
    value: &Value,
    place: &str,
    steps_left: &mut usize,
) -> bool {
    let Some(found) = value.pointer(place) else { return false };
    let segments: Vec<String> = place.split('/').skip(1).map(unescape).collect();
    let first = segments.first().map(String::as_str);
    branches.iter().any(|branch| {
        !is_ruled_out(schema, *branch, value, first) && says(schema, *branch, &segments, found, steps_left)
    })
}

/// Whether a part of the schema says in so many words that the type of the value below it is right.
fn says(schema: &Schema, id: NodeId, segments: &[String], value: &Value, steps_left: &mut usize) -> bool {
    let Some(left) = steps_left.checked_sub(1) else { return true };
    *steps_left = left;
    let node = schema.plan.node(id);
    let is_said = match segments.split_first() {
        None => !node.types.is_unsaid() && node.types.accept(value),
        Some((segment, rest)) => child(node, segment).is_some_and(|child| says(schema, child, rest, value, steps_left)),
    };
    let parts = node.also.iter().chain(node.alternatives.iter().flatten());
    is_said || parts.copied().any(|part| says(schema, part, segments, value, steps_left))
}

fn child(node: &Node, segment: &str) -> Option<NodeId> {
    let named = node.properties.get(segment).copied().or(node.additional);
    named.or_else(|| segment.parse().ok().and_then(|index| node.item(index)))
}

/// Whether a property other than `except` is not the constant, or none of the few values, that the branch wants there.
fn is_ruled_out(schema: &Schema, id: NodeId, value: &Value, except: Option<&str>) -> bool {
    let node = schema.plan.node(id);
    let is_constant = |id: NodeId| {
        let part = schema.document.pointer(&schema.plan.node(id).pointer);
        part.is_some_and(|part| part.get("const").is_some() || part.get("enum").is_some())
    };
    node.properties.iter().any(|(name, child)| {
        let other = value.get(name).filter(|_| except != Some(name.as_str()));
        other.is_some_and(|other| is_constant(*child) && !schema.fits(*child, other))
    }) || node.also.iter().any(|part| is_ruled_out(schema, *part, value, except))
}

fn unescape(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}
