//! What a rule reads, found in its syntax tree (Cedar's JSON form of a policy): so that only what can matter is
//! evaluated, and so that a listing asks of a rule what it can know without a call.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// What a rule reads of the context of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reads {
    /// Anything at all.
    pub(crate) is_contextual: bool,
    /// Parts of the context by name, such as `approved`.
    pub(crate) parts: BTreeSet<String>,
    /// Arguments by name.
    pub(crate) arguments: BTreeSet<String>,
    /// The context or the arguments as a whole.
    pub(crate) has_whole: bool,
}

impl Reads {
    /// What a policy reads.
    pub(crate) fn of(policy: &Value) -> Self {
        let mut reads = Self::default();
        for condition in conditions(policy) {
            reads.visit(condition.get("body").unwrap_or(&Value::Null));
        }
        reads
    }

    /// Whether the outcome can depend on this part of the context.
    pub(crate) fn part(&self, name: &str) -> bool {
        self.has_whole || self.parts.contains(name)
    }

    /// Whether the outcome can depend on this argument.
    pub(crate) fn argument(&self, name: &str) -> bool {
        self.has_whole || self.arguments.contains(name)
    }

    fn visit(&mut self, expression: &Value) {
        if let Some(path) = context_path(expression) {
            return self.read(&path);
        }
        match expression {
            Value::Object(object) => {
                for (_, inner) in object.iter().filter(|(operator, _)| operator.as_str() != "Value") {
                    self.visit(inner);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.visit(item)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn read(&mut self, path: &[&str]) {
        self.is_contextual = true;
        match path {
            [] | ["args" | "from"] => self.has_whole = true,
            ["args", name, ..] => drop(self.arguments.insert((*name).to_owned())),
            // Where a value comes from is not known of one that is not of its type.
            ["from", name, ..] => {
                self.arguments.insert((*name).to_owned());
                self.parts.insert("from".to_owned());
            }
            [part, ..] => drop(self.parts.insert((*part).to_owned())),
        }
    }
}

fn conditions(policy: &Value) -> impl Iterator<Item = &Value> {
    policy.get("conditions").and_then(Value::as_array).into_iter().flatten()
}

/// The attributes from `context` on, of an expression that is `context.a.b` or `context.a has b`.
fn context_path(expression: &Value) -> Option<Vec<&str>> {
    let (operator, inner) = only(expression.as_object()?)?;
    match (operator, inner) {
        ("Var", Value::String(name)) if name == "context" => Some(Vec::new()),
        ("." | "has", Value::Object(parts)) => {
            let mut path = context_path(parts.get("left")?)?;
            match parts.get("attr")? {
                Value::String(name) => path.push(name),
                Value::Array(names) => path.extend(names.iter().filter_map(Value::as_str)),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => return None,
            }
            Some(path)
        }
        _ => None,
    }
}

fn only(object: &Map<String, Value>) -> Option<(&str, &Value)> {
    let mut entries = object.iter();
    let (key, value) = entries.next()?;
    entries.next().is_none().then_some((key.as_str(), value))
}

/// The policy as a listing asks it: of its conditions those that read nothing of the context. It applies wherever the
/// whole policy can apply to some call, so that a permit which depends on a call does not hide its tool.
pub(crate) fn without_context(policy: &Value) -> Value {
    let mut kept = Vec::new();
    for condition in conditions(policy) {
        let (Some(kind), Some(body)) = (condition.get("kind").and_then(Value::as_str), condition.get("body")) else {
            continue;
        };
        // `when a && b` is `when a when b`, and `unless a || b` is `unless a unless b`.
        let joint = if kind == "unless" { "||" } else { "&&" };
        let mut parts = Vec::new();
        split(body, joint, &mut parts);
        let free = parts.into_iter().filter(|part| {
            let mut reads = Reads::default();
            reads.visit(part);
            !reads.is_contextual
        });
        kept.extend(free.map(|part| json!({ "kind": kind, "body": part })));
    }
    let mut policy = policy.clone();
    if let Some(object) = policy.as_object_mut() {
        object.insert("conditions".to_owned(), Value::Array(kept));
    }
    policy
}

fn split<'a>(expression: &'a Value, joint: &str, parts: &mut Vec<&'a Value>) {
    let sides = expression.as_object().and_then(only).filter(|(operator, _)| *operator == joint);
    match sides.and_then(|(_, sides)| Some((sides.get("left")?, sides.get("right")?))) {
        Some((left, right)) => {
            split(left, joint, parts);
            split(right, joint, parts);
        }
        None => parts.push(expression),
    }
}
