//! What a rule reads, found in its syntax tree (Cedar's JSON form of a policy): so that only what can matter is
//! evaluated, and so that a listing asks of a rule what it can know without a call.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

/// What a rule reads of a call.
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
    /// What it reads of the caller.
    pub(crate) user: Attributes,
    /// What it reads of the tool.
    pub(crate) tool: Attributes,
}

/// The attributes of an entity that are read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    names: BTreeSet<String>,
    /// Which is not known.
    is_any: bool,
}

impl Attributes {
    /// Whether the outcome can depend on this one.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.is_any || self.names.contains(name)
    }

    fn add(&mut self, other: &Self) {
        self.names.extend(other.names.iter().cloned());
        self.is_any |= other.is_any;
    }

    fn read(&mut self, path: &[&str]) {
        match path {
            [name, ..] => drop(self.names.insert((*name).to_owned())),
            // An entity that is handed on may be looked into anywhere.
            [] => self.is_any = true,
        }
    }
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

    /// What an expression reads.
    pub(super) fn of_expression(expression: &Value) -> Self {
        let mut reads = Self::default();
        reads.visit(expression);
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

    /// Reads what the other reads, too.
    pub(crate) fn add(&mut self, other: &Self) {
        self.is_contextual |= other.is_contextual;
        self.has_whole |= other.has_whole;
        self.parts.extend(other.parts.iter().cloned());
        self.arguments.extend(other.arguments.iter().cloned());
        self.user.add(&other.user);
        self.tool.add(&other.tool);
    }

    fn visit(&mut self, expression: &Value) {
        match path(expression) {
            Some(("context", path)) => return self.read(&path),
            Some(("principal", path)) => return self.user.read(&path),
            Some(("resource", path)) => return self.tool.read(&path),
            Some(_) | None => {}
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

/// The variable and the attributes from it on, of an expression that is `context.a.b` or `context.a has b`.
fn path(expression: &Value) -> Option<(&str, Vec<&str>)> {
    let (operator, inner) = only(expression.as_object()?)?;
    match (operator, inner) {
        ("Var", Value::String(name)) => Some((name, Vec::new())),
        ("." | "has", Value::Object(parts)) => {
            let (name, mut path) = path(parts.get("left")?)?;
            match parts.get("attr")? {
                Value::String(name) => path.push(name),
                Value::Array(names) => path.extend(names.iter().filter_map(Value::as_str)),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => return None,
            }
            Some((name, path))
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
    let free = all_parts(policy).filter(|(_, part)| !Reads::of_expression(part).is_contextual);
    let kept = free.map(|(kind, part)| json!({ "kind": kind, "body": part })).collect();
    let mut policy = policy.clone();
    if let Some(object) = policy.as_object_mut() {
        object.insert("conditions".to_owned(), Value::Array(kept));
    }
    policy
}

/// Whether a human's yes settles the rule by itself: `unless { context.approved }` of a forbid, or `when` of a permit,
/// and nothing else of it reads whether there was one. Such a rule says nothing more in the other case.
pub(crate) fn asks(policy: &Value) -> bool {
    let wanted = if policy.get("effect").is_some_and(|effect| effect == "permit") { "when" } else { "unless" };
    let parts = all_parts(policy).filter(|(_, part)| Reads::of_expression(part).part("approved"));
    let is_alone = |(kind, part): (&str, &Value)| kind == wanted && is_approved(part);
    let answers: Vec<bool> = parts.map(is_alone).collect();
    !answers.is_empty() && answers.into_iter().all(|is_alone| is_alone)
}

/// Whether an expression is `context.approved`; `context has approved` is none.
fn is_approved(expression: &Value) -> bool {
    let is_value = expression.as_object().and_then(only).is_some_and(|(operator, _)| operator == ".");
    is_value && path(expression).is_some_and(|(name, path)| name == "context" && path == ["approved"])
}

/// The parts of all conditions.
pub(super) fn all_parts(policy: &Value) -> impl Iterator<Item = (&'static str, &Value)> {
    conditions(policy).flat_map(|condition| {
        let kind = condition.get("kind").and_then(Value::as_str).unwrap_or_default();
        parts(kind, condition.get("body").unwrap_or(&Value::Null))
    })
}

/// The parts of a condition, each with its `when` or `unless`: `when { a && !(b || c) }` is `when { a }`, `unless { b }`
/// and `unless { c }`.
fn parts<'a>(kind: &str, expression: &'a Value) -> Vec<(&'static str, &'a Value)> {
    let (kind, joint, other) = if kind == "unless" { ("unless", "||", "when") } else { ("when", "&&", "unless") };
    match expression.as_object().and_then(only) {
        Some((operator, sides)) if operator == joint => {
            let sides = ["left", "right"].into_iter().filter_map(|side| sides.get(side));
            sides.flat_map(|side| parts(kind, side)).collect()
        }
        Some(("!", inner)) => inner.get("arg").map_or_else(Vec::new, |inner| parts(other, inner)),
        _ => vec![(kind, expression)],
    }
}
