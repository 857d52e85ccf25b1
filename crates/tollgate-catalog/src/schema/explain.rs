//! What is wrong with a value, in words that a model can act on.

use std::fmt::Display;

use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind as Kind};
use serde_json::{Map, Value, json};
use tollgate_types::{Flaw, Violation, limits, meant};

use super::Schema;
use super::plan::{Node, NodeId, Plan, escape};
use crate::nearest;

/// Visits of subschemas that a value may need before single errors are no longer looked for.
const VISITS_MAX: usize = 200_000;
/// Of a value, what is quoted.
const QUOTE_CHARS_MAX: usize = 60;
/// Of a message by the validator, what is kept.
const MESSAGE_CHARS_MAX: usize = 200;
/// Of an enumeration or of alternatives, what is shown.
const OPTIONS_MAX: usize = 20;
/// Of the properties that a schema knows, what is listed.
const ACCEPTED_MAX: usize = 100;
/// Keywords that make up what was expected.
const SKETCH: [&str; 9] = ["type", "enum", "const", "format", "pattern", "minimum", "maximum", "required", "items"];

pub(super) fn violations(schema: &Schema, value: &Value) -> Vec<Violation> {
    let mut visits_left = VISITS_MAX;
    if !is_affordable(&schema.plan, Plan::ROOT, value, &mut visits_left) {
        return vec![coarse(schema, value)];
    }
    let mut found: Vec<Violation> = Vec::new();
    for error in schema.validator.iter_errors(value) {
        let violation = describe(schema, &error);
        if !found.contains(&violation) {
            found.push(violation);
        }
        if found.len() == limits::VIOLATIONS_MAX {
            break;
        }
    }
    if found.is_empty() {
        // INVARIANT: a value that does not fit is never without a violation.
        found.push(Flaw::Misfit.at("", &[]));
    }
    found
}

/// Counts what looking for every error would visit. Branches multiply where a schema contains itself.
fn is_affordable(plan: &Plan, id: NodeId, value: &Value, left: &mut usize) -> bool {
    if *left == 0 {
        return false;
    }
    *left -= 1;
    let node = plan.node(id);
    node.in_place().all(|part| is_affordable(plan, part, value, left))
        && match value {
            Value::Object(object) => object.iter().all(|(name, value)| {
                node.properties
                    .get(name)
                    .copied()
                    .or(node.additional)
                    .is_none_or(|child| is_affordable(plan, child, value, left))
            }),
            Value::Array(items) => items
                .iter()
                .enumerate()
                .all(|(index, item)| node.item(index).is_none_or(|child| is_affordable(plan, child, item, left))),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        }
}

/// The first property that does not fit, without looking into it.
fn coarse(schema: &Schema, value: &Value) -> Violation {
    let root = schema.plan.node(Plan::ROOT);
    let wrong =
        root.properties.iter().find(|(name, id)| value.get(name).is_some_and(|value| !schema.fits(**id, value)));
    match wrong {
        Some((name, id)) => {
            let mut violation = Flaw::Misfit.at(format!("/{}", escape(name)), &[]);
            violation.expected = sketch_of(schema, *id);
            violation
        }
        None => Flaw::Misfit.at("", &[]),
    }
}

fn describe(schema: &Schema, error: &ValidationError<'_>) -> Violation {
    let path = error.instance_path().as_str();
    match error.kind() {
        Kind::Required { property } => missing(schema, error, property.as_str().unwrap_or_default()),
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            unknown(schema, error, unexpected)
        }
        Kind::AnyOf { context } | Kind::OneOfNotValid { context } => {
            let violation = no_alternative(error, context);
            Violation { expected: alternatives(schema, error), ..violation }
        }
        Kind::OneOfMultipleValid { context } => {
            let violation = Flaw::ManyAlternatives.at(path, &[("count", &context.len())]);
            Violation { expected: alternatives(schema, error), ..violation }
        }
        Kind::PropertyNames { error: inner } => {
            let Violation { message, expected, .. } = describe(schema, inner);
            let violation = Flaw::Name.at(path, &[("name", &quote(inner.instance())), ("what", &message)]);
            Violation { expected, ..violation }
        }
        _ => of_value(error),
    }
}

/// What is wrong with a value by itself.
fn of_value(error: &ValidationError<'_>) -> Violation {
    let (value, path) = (error.instance(), error.instance_path().as_str());
    let got = quote(value);
    let of = |flaw: Flaw, limit: &dyn Display, expected: Value| {
        let violation = flaw.at(path, &[("got", &got), ("limit", limit)]);
        Violation { expected: Some(expected), ..violation }
    };
    match error.kind() {
        Kind::Type { kind } => of_type(path, &got, kind),
        Kind::Enum { options } => of_options(path, value, options),
        Kind::Constant { expected_value } => of(Flaw::NotTheOne, &"", json!({ "const": expected_value.as_ref() })),
        Kind::Minimum { limit } => of(Flaw::Less, limit, json!({ "minimum": limit })),
        Kind::Maximum { limit } => of(Flaw::More, limit, json!({ "maximum": limit })),
        Kind::ExclusiveMinimum { limit } => of(Flaw::NotMore, limit, json!({ "exclusiveMinimum": limit })),
        Kind::ExclusiveMaximum { limit } => of(Flaw::NotLess, limit, json!({ "exclusiveMaximum": limit })),
        Kind::MultipleOf { multiple_of } => of(Flaw::NotMultiple, multiple_of, json!({ "multipleOf": multiple_of })),
        Kind::MinLength { limit } => of(Flaw::Shorter, limit, json!({ "minLength": limit })),
        Kind::MaxLength { limit } => of(Flaw::Longer, limit, json!({ "maxLength": limit })),
        Kind::Pattern { pattern } => of(Flaw::Pattern, &"", json!({ "pattern": pattern })),
        Kind::Format { format } => Violation {
            expected: Some(json!({ "format": format })),
            ..Flaw::Format.at(path, &[("got", &got), ("format", format)])
        },
        Kind::MinItems { limit } => of(Flaw::FewItems, limit, json!({ "minItems": limit })),
        Kind::MaxItems { limit } => of(Flaw::ManyItems, limit, json!({ "maxItems": limit })),
        Kind::AdditionalItems { limit } => of(Flaw::ManyItems, limit, json!({ "maxItems": limit })),
        Kind::UniqueItems => of(Flaw::Twice, &"", json!({ "uniqueItems": true })),
        Kind::MinProperties { limit } => of(Flaw::FewProperties, limit, json!({ "minProperties": limit })),
        Kind::MaxProperties { limit } => of(Flaw::ManyProperties, limit, json!({ "maxProperties": limit })),
        Kind::FalseSchema => Flaw::NotHere.at(path, &[]),
        Kind::Not { .. } => Flaw::Excluded.at(path, &[("got", &got)]),
        Kind::Contains => Flaw::NoneOfKind.at(path, &[]),
        Kind::UnevaluatedItems { .. } => Flaw::UnknownItems.at(path, &[]),
        _ => Flaw::Keyword.at(path, &[("keyword", &error.kind().keyword())]),
    }
}

fn of_type(path: &str, got: &str, kind: &TypeKind) -> Violation {
    let names: Vec<&str> = match kind {
        TypeKind::Single(name) => vec![name.as_str()],
        TypeKind::Multiple(names) => names.into_iter().map(jsonschema::JsonType::as_str).collect(),
    };
    let expected = if let [name] = names.as_slice() { json!(name) } else { json!(names) };
    let violation = Flaw::Type.at(path, &[("types", &names.join(" or ")), ("got", &got)]);
    Violation { expected: Some(json!({ "type": expected })), ..violation }
}

/// Not one of the enumeration; the nearest is named where one is plausible.
fn of_options(path: &str, value: &Value, options: &Value) -> Violation {
    let shown: Vec<&Value> = options.as_array().into_iter().flatten().take(OPTIONS_MAX).collect();
    let near = nearest(value.as_str().unwrap_or_default(), shown.iter().filter_map(|option| option.as_str()));
    let (got, near) = (quote(value), tollgate_types::alternatives(near));
    let flaw = if near.is_empty() { Flaw::NotOneOf } else { Flaw::NotOneOfNear };
    Violation { expected: Some(json!({ "enum": shown })), ..flaw.at(path, &[("got", &got), ("near", &near)]) }
}

fn missing(schema: &Schema, error: &ValidationError<'_>, name: &str) -> Violation {
    let path = format!("{}/{}", error.instance_path().as_str(), escape(name));
    let mut violation = Flaw::Missing.at(path, &[("name", &cut(name, QUOTE_CHARS_MAX))]);
    let node = schema.plan.find(parent(error.schema_path().as_str()));
    violation.expected = node.and_then(|node| node.properties.get(name)).and_then(|id| sketch_of(schema, *id));
    violation
}

fn unknown(schema: &Schema, error: &ValidationError<'_>, unexpected: &[String]) -> Violation {
    let mut accepted = Vec::new();
    if let Some(node) = schema.plan.find(parent(error.schema_path().as_str())) {
        gather_properties(schema, node, &mut accepted);
    }
    let names: Vec<String> = unexpected
        .iter()
        .take(OPTIONS_MAX)
        .map(|name| {
            let near = nearest(name, accepted.iter().map(String::as_str)).into_iter().next();
            let name = cut(name, QUOTE_CHARS_MAX);
            near.map_or_else(|| format!("`{name}`"), |near| meant(&name, &near))
        })
        .collect();
    let flaw = if unexpected.len() == 1 { Flaw::Unknown } else { Flaw::UnknownMany };
    let mut violation = flaw.at(error.instance_path().as_str(), &[("names", &names.join(", "))]);
    violation.unknown = unexpected.iter().take(OPTIONS_MAX).cloned().collect();
    accepted.truncate(ACCEPTED_MAX);
    violation.accepted = accepted;
    violation
}

/// The properties that a node and its in-place parts name, in the order of the document.
fn gather_properties(schema: &Schema, node: &Node, names: &mut Vec<String>) {
    let properties = schema.document.pointer(&node.pointer).and_then(|node| node.get("properties")?.as_object());
    for (name, _) in properties.into_iter().flatten() {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    for part in node.in_place() {
        gather_properties(schema, schema.plan.node(part), names);
    }
}

fn sketch_of(schema: &Schema, id: NodeId) -> Option<Value> {
    sketch(&schema.document, schema.document.pointer(&schema.plan.node(id).pointer))
}

/// One message for all branches; where one branch is clearly meant, also what that one misses.
fn no_alternative(error: &ValidationError<'_>, context: &[Vec<ValidationError<'_>>]) -> Violation {
    let path = error.instance_path().as_str();
    let is_other_kind = |error: &ValidationError<'_>| match error.kind() {
        Kind::Type { .. } => error.instance_path().as_str() == path,
        Kind::Constant { .. } => true,
        _ => false,
    };
    let mut meant = context.iter().filter(|errors| !errors.iter().any(is_other_kind));
    let nearest = match (meant.next(), meant.next()) {
        (Some(only), None) => only.first(),
        _ => None,
    };
    let (got, count) = (quote(error.instance()), context.len());
    let Some(nearest) = nearest else { return Flaw::NoAlternative.at(path, &[("got", &got), ("count", &count)]) };
    let what = match nearest.kind() {
        Kind::Required { property } => {
            format!("`{}` is required", cut(property.as_str().unwrap_or_default(), QUOTE_CHARS_MAX))
        }
        Kind::AdditionalProperties { unexpected } => {
            format!("unknown property `{}`", cut(unexpected.first().map_or("", String::as_str), QUOTE_CHARS_MAX))
        }
        _ => of_value(nearest).message,
    };
    let at = nearest.instance_path().as_str();
    Flaw::NoAlternativeNear.at(path, &[("got", &got), ("count", &count), ("at", &at), ("what", &what)])
}

fn alternatives(schema: &Schema, error: &ValidationError<'_>) -> Option<Value> {
    let path = error.schema_path().as_str();
    let keyword = if path.ends_with("/oneOf") { "oneOf" } else { "anyOf" };
    let branches = schema.document.pointer(path)?.as_array()?;
    let sketches: Vec<Value> =
        branches.iter().take(OPTIONS_MAX).filter_map(|branch| sketch(&schema.document, Some(branch))).collect();
    (!sketches.is_empty()).then(|| json!({ keyword: sketches }))
}

/// The part of a schema that says in short what it wants.
fn sketch(document: &Value, schema: Option<&Value>) -> Option<Value> {
    let schema = schema?.as_object()?;
    let target = schema.get("$ref").and_then(Value::as_str).and_then(|reference| reference.strip_prefix('#'));
    let target = target.and_then(|pointer| document.pointer(pointer)).and_then(Value::as_object);
    let schema = target.unwrap_or(schema);
    let mut out = Map::new();
    for keyword in SKETCH {
        match (keyword, schema.get(keyword)) {
            (_, None) => {}
            ("items", Some(items)) => {
                if let Some(name) = items.get("type") {
                    out.insert("items".into(), json!({ "type": name }));
                }
            }
            (_, Some(Value::Array(options))) => {
                out.insert(keyword.into(), options.iter().take(OPTIONS_MAX).cloned().collect());
            }
            (_, Some(value)) => {
                out.insert(keyword.into(), value.clone());
            }
        }
    }
    let constants: Map<String, Value> = schema
        .get("properties")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
        .filter_map(|(name, property)| Some((name.clone(), json!({ "const": property.get("const")? }))))
        .take(OPTIONS_MAX)
        .collect();
    if !constants.is_empty() {
        out.insert("properties".into(), Value::Object(constants));
    }
    (!out.is_empty()).then_some(Value::Object(out))
}

/// A value as it stands in a message. What is long is cut, what is nested is only named.
fn quote(value: &Value) -> String {
    match value {
        Value::Object(_) => "an object".into(),
        Value::Array(_) => "an array".into(),
        Value::String(text) => {
            format!("`{}`", cut(&Value::from(cut(text, QUOTE_CHARS_MAX)).to_string(), QUOTE_CHARS_MAX))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => format!("`{value}`"),
    }
}

/// A message of the validator as a fragment of ours.
pub(super) fn shorten(message: &str) -> String {
    cut(message.lines().next().unwrap_or_default(), MESSAGE_CHARS_MAX)
}

fn cut(text: &str, chars_max: usize) -> String {
    match text.char_indices().nth(chars_max) {
        Some(_) => text.chars().take(chars_max - 1).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

/// A JSON Pointer without its last segment.
fn parent(pointer: &str) -> &str {
    pointer.rsplit_once('/').map_or("", |(parent, _)| parent)
}
