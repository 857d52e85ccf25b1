//! Properties that are there under a changed name: `Path` for `path`, `dryRun` for `dry_run`. Where a schema does not say
//! whether it takes others, such a one would pass it and be nothing to the tool: a flag that is misspelt is a flag that is
//! not set. It is refused, and never renamed: whether it was meant is the asker's to say.

use serde_json::{Map, Value};
use tollgate_types::{Flaw, Violation, limits, meant};

use super::Schema;
use super::plan::{Node, NodeId, Plan, escape};
use crate::nearest::fold;

/// Visits of subschemas for one value. What lies beyond is left to the tool.
const STEPS_MAX: usize = 100_000;

/// The properties that have a changed name, each at its object.
pub(super) fn misnamed(schema: &Schema, value: &Value) -> Vec<Violation> {
    let mut finder = Finder { schema, path: String::new(), found: Vec::new(), steps_left: STEPS_MAX };
    finder.visit(Plan::ROOT, value);
    finder.found
}

struct Finder<'a> {
    schema: &'a Schema,
    path: String,
    found: Vec<Violation>,
    steps_left: usize,
}

impl Finder<'_> {
    fn visit(&mut self, id: NodeId, value: &Value) {
        if !matches!(value, Value::Object(_) | Value::Array(_)) || self.found.len() >= limits::VIOLATIONS_MAX {
            return;
        }
        let Some(left) = self.steps_left.checked_sub(1) else { return };
        self.steps_left = left;
        let node = self.schema.plan.node(id);
        if let Value::Object(object) = value {
            self.compare(node, object);
        }
        self.visit_below(node, value);
    }

    /// Looks into what a node says of the values within a value, and what its parts say of them.
    fn visit_below(&mut self, node: &Node, value: &Value) {
        match value {
            Value::Object(object) => {
                for (name, child) in &node.properties {
                    if let Some(value) = object.get(name) {
                        self.below(name, *child, value);
                    }
                }
            }
            Value::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    if let Some(child) = node.item(index) {
                        self.below(&index.to_string(), child, item);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        let schema = self.schema;
        let fitting = |branches: &Vec<NodeId>| branches.iter().copied().find(|branch| schema.fits(*branch, value));
        for part in node.also.iter().copied().chain(node.alternatives.iter().filter_map(fitting)) {
            self.visit_below(schema.plan.node(part), value);
        }
    }

    fn below(&mut self, segment: &str, child: NodeId, value: &Value) {
        let length = self.path.len();
        self.path.push('/');
        self.path.push_str(&escape(segment));
        self.visit(child, value);
        self.path.truncate(length);
    }

    /// Looks for names that differ from a declared and absent one by nothing but case and separators.
    fn compare(&mut self, node: &Node, object: &Map<String, Value>) {
        if object.keys().all(|name| node.properties.contains_key(name)) {
            return;
        }
        let Some(declared) = declared(&self.schema.plan, node) else { return };
        let unknown = object.keys().filter(|name| !declared.contains(&name.as_str()));
        let absent: Vec<&str> = declared.iter().copied().filter(|name| !object.contains_key(*name)).collect();
        for name in unknown {
            let folded = fold(name);
            let Some(near) = absent.iter().find(|near| fold(near) == folded) else { continue };
            let mut violation = Flaw::Unknown.at(self.path.as_str(), &[("names", &meant(name, near))]);
            violation.unknown = vec![name.clone()];
            violation.accepted = absent.iter().map(|name| (*name).to_owned()).collect();
            self.found.push(violation);
        }
    }
}

/// Every property that a node and its parts name; none where a part says what becomes of others.
fn declared<'a>(plan: &'a Plan, node: &'a Node) -> Option<Vec<&'a str>> {
    if node.takes_others {
        return None;
    }
    let mut names: Vec<&str> = node.properties.keys().map(String::as_str).collect();
    for part in node.in_place() {
        names.extend(declared(plan, plan.node(part))?);
    }
    Some(names)
}
