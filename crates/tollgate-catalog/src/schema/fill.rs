//! Defaults for what is absent.

use serde_json::Value;

use super::Schema;
use super::plan::{NodeId, Plan};

/// Visits of subschemas for one value. What lies beyond stays without defaults, as a tool must expect anyway.
const STEPS_MAX: usize = 100_000;

pub(super) fn fill(schema: &Schema, value: &mut Value) {
    let fits_before = schema.plan.is_delicate && schema.validator.is_valid(value);
    let before = fits_before.then(|| value.clone());
    let mut filler = Filler { schema, steps_left: STEPS_MAX, is_changed: false };
    filler.visit(Plan::ROOT, value);
    if let Some(before) = before
        && filler.is_changed
        && !schema.validator.is_valid(value)
    {
        // A default of one property can exclude another; then nobody knows which was meant.
        *value = before;
    }
}

struct Filler<'a> {
    schema: &'a Schema,
    steps_left: usize,
    is_changed: bool,
}

impl Filler<'_> {
    fn visit(&mut self, id: NodeId, value: &mut Value) {
        if !matches!(value, Value::Object(_) | Value::Array(_)) {
            return;
        }
        let Some(left) = self.steps_left.checked_sub(1) else { return };
        self.steps_left = left;
        let schema = self.schema;
        let node = schema.plan.node(id);
        for also in &node.also {
            self.visit(*also, value);
        }
        for branches in &node.alternatives {
            let mut fitting = branches.iter().filter(|branch| schema.fits(**branch, value));
            if let (Some(only), None) = (fitting.next(), fitting.next()) {
                self.visit(*only, value);
            }
        }
        match value {
            Value::Object(object) => {
                for (name, child) in &node.properties {
                    if !object.contains_key(name)
                        && let Some(default) = default_of(schema, *child)
                    {
                        object.insert(name.clone(), default.clone());
                        self.is_changed = true;
                    }
                    if let Some(value) = object.get_mut(name) {
                        self.visit(*child, value);
                    }
                }
                let Some(additional) = node.additional else { return };
                for (name, value) in object {
                    if !node.properties.contains_key(name) {
                        self.visit(additional, value);
                    }
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    if let Some(child) = node.item(index) {
                        self.visit(child, item);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

/// The default of a property, its own or that of what it refers to, where it fits.
fn default_of(schema: &Schema, id: NodeId) -> Option<&Value> {
    let node = schema.plan.node(id);
    match &node.default {
        Some(default) => schema.fits(id, default).then_some(default),
        None => node.also.iter().find_map(|also| default_of(schema, *also)).filter(|default| schema.fits(id, default)),
    }
}
