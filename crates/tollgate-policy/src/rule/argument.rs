//! Arguments as rules see them: declared projections of one type each, and never the JSON itself.

use std::collections::{BTreeMap, BTreeSet};

use cedar_policy::{Context, RestrictedExpression};
use globset::{Candidate, Glob, GlobSet, GlobSetBuilder};
use jiff::Timestamp;
use serde_json::{Number, Value};
use tollgate_types::ToolDefinition;

use crate::provenance::{Origin, Provenance};

use super::analyse::Reads;
use super::nullable::may_be_null;
use super::source::{Argument, ArgumentType, RulesError};

/// Declarations of arguments.
const ARGUMENTS_MAX: usize = 1_000;
/// A name in rules.
const NAME_CHARS_MAX: usize = 64;
/// The largest whole number up to which every float stands for itself alone.
const EXACT_FLOAT_MAX: f64 = 9_007_199_254_740_992.0;

/// One declared argument, compiled.
pub(crate) struct Projection {
    name: String,
    tools: GlobSet,
    pub(crate) pointer: String,
    pub(crate) kind: ArgumentType,
}

/// What of a call's arguments rules may read.
#[derive(Default)]
pub(crate) struct Projected {
    /// The values by name.
    pub(crate) values: Vec<(String, RestrictedExpression)>,
    /// Where they come from, by name: a set of origins.
    pub(crate) origins: Vec<(String, RestrictedExpression)>,
    /// Those that are there and are not of their type, and why.
    pub(crate) misfits: BTreeMap<String, String>,
}

/// Compiles the declarations, and the type of each name.
pub(crate) fn compile(arguments: &[Argument]) -> Result<(Vec<Projection>, BTreeMap<String, ArgumentType>), RulesError> {
    let mut types = BTreeMap::new();
    let mut projections = Vec::with_capacity(arguments.len());
    for argument in arguments {
        let Argument { name, tools, pointer, kind } = argument;
        let bad = |problem: String| RulesError::Argument { name: name.clone(), problem };
        if arguments.len() > ARGUMENTS_MAX {
            return Err(bad(format!("more than {ARGUMENTS_MAX} arguments are declared")));
        }
        if !is_name(name) {
            let problem = format!("a name has 1 to {NAME_CHARS_MAX} letters, digits or `_`, and begins with no digit");
            return Err(bad(problem));
        }
        if !pointer.starts_with('/') {
            return Err(bad(format!("`{pointer}` is no JSON Pointer: write `/{}`", pointer.replace('.', "/"))));
        }
        if *types.entry(name.clone()).or_insert(*kind) != *kind {
            return Err(bad("it has two types: give each its own name".to_owned()));
        }
        let tools = globs(tools).map_err(&bad)?;
        projections.push(Projection { name: name.clone(), tools, pointer: pointer.clone(), kind: *kind });
    }
    Ok((projections, types))
}

pub(crate) fn is_name(name: &str) -> bool {
    name.len() <= NAME_CHARS_MAX
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit())
}

/// Globs of tool names.
pub(crate) fn globs(globs: &[String]) -> Result<GlobSet, String> {
    if globs.is_empty() || globs.iter().any(String::is_empty) {
        return Err("it names no tools: write globs such as `pay_*`".to_owned());
    }
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        set.add(Glob::new(glob).map_err(|error| format!("`{glob}` can not be read: {}", error.kind()))?);
    }
    set.build().map_err(|error| error.kind().to_string())
}

/// The declarations that speak of a tool, one for each name.
pub(crate) fn of_tool<'a>(projections: &'a [Projection], tool: &str) -> BTreeMap<&'a str, &'a Projection> {
    let tool = Candidate::new(tool);
    let mut named = BTreeMap::new();
    for projection in projections.iter().filter(|projection| projection.tools.is_match_candidate(&tool)) {
        named.entry(projection.name.as_str()).or_insert(projection);
    }
    named
}

/// Projects what rules read of the arguments of a call of `tool`. What is not there is not there for rules either; `null`
/// is there, unless the tool's own schema lets the argument be null: then it stands for one that was left out.
/// Where values come from is only asked for if `provenance` is given.
pub(crate) fn project(
    projections: &[Projection],
    tool: &ToolDefinition,
    arguments: &Value,
    reads: &Reads,
    provenance: Option<Provenance<'_>>,
) -> Projected {
    let mut projected = Projected::default();
    let read = of_tool(projections, &tool.name).into_iter().filter(|(name, _)| reads.argument(name));
    for (name, projection) in read {
        let Some(value) = arguments.pointer(&projection.pointer) else { continue };
        if is_left_out(tool, &projection.pointer, value) {
            continue;
        }
        match convert(projection.kind, value) {
            Some(converted) => {
                projected.values.push((name.to_owned(), converted));
                if let Some(provenance) = provenance {
                    projected.origins.push((name.to_owned(), origins(provenance.of(name, value))));
                }
            }
            None => {
                let why = format!("`{}` is not of the type {}", projection.pointer, projection.kind.in_cedar());
                projected.misfits.insert(name.to_owned(), why);
            }
        }
    }
    projected
}

/// Whether a value is a null that stands for an argument that was left out.
pub(crate) fn is_left_out(tool: &ToolDefinition, pointer: &str, value: &Value) -> bool {
    value.is_null() && may_be_null(&tool.input_schema, pointer)
}

fn origins(origins: BTreeSet<Origin>) -> RestrictedExpression {
    let names = origins.into_iter().map(|origin| RestrictedExpression::new_string(origin.as_str().to_owned()));
    RestrictedExpression::new_set(names)
}

fn convert(kind: ArgumentType, value: &Value) -> Option<RestrictedExpression> {
    match (kind, value) {
        (ArgumentType::String, Value::String(text)) => Some(RestrictedExpression::new_string(text.clone())),
        (ArgumentType::Bool, Value::Bool(is_true)) => Some(RestrictedExpression::new_bool(*is_true)),
        (ArgumentType::Long, Value::Number(number)) => long(number).map(RestrictedExpression::new_long),
        (ArgumentType::Strings, Value::Array(items)) => {
            let texts: Option<Vec<_>> = items
                .iter()
                .map(|item| item.as_str().map(|text| RestrictedExpression::new_string(text.to_owned())))
                .collect();
            Some(RestrictedExpression::new_set(texts?))
        }
        (ArgumentType::Decimal, Value::Number(number)) => decimal(&number.to_string()),
        (ArgumentType::Decimal, Value::String(text)) => decimal(text),
        (ArgumentType::Datetime, Value::String(text)) => datetime(text),
        (ArgumentType::Ip, Value::String(text)) => checked(RestrictedExpression::new_ip(text)),
        _ => None,
    }
}

fn long(number: &Number) -> Option<i64> {
    if let Some(whole) = number.as_i64() {
        return Some(whole);
    }
    // 1e3 is a whole number too; what a float can not say exactly is none.
    let float = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() <= EXACT_FLOAT_MAX)?;
    format!("{float:.0}").parse().ok()
}

fn decimal(text: &str) -> Option<RestrictedExpression> {
    let text = if text.contains('.') { text.to_owned() } else { format!("{text}.0") };
    checked(RestrictedExpression::new_decimal(text))
}

fn datetime(text: &str) -> Option<RestrictedExpression> {
    let moment = match text.parse::<Timestamp>() {
        Ok(moment) => moment,
        Err(_) if text.len() == "2026-11-30".len() => format!("{text}T00:00:00Z").parse().ok()?,
        Err(_) => return None,
    };
    moment_in_cedar(moment).and_then(checked)
}

/// A moment as Cedar reads it, in whole milliseconds.
pub(crate) fn moment_in_cedar(moment: Timestamp) -> Option<RestrictedExpression> {
    let text = moment.strftime("%Y-%m-%dT%H:%M:%S.%3fZ").to_string();
    // Years before 0 or after 9999 have another form, which Cedar does not read.
    text.starts_with(|first: char| first.is_ascii_digit()).then(|| RestrictedExpression::new_datetime(text))
}

/// A value whose constructor takes it.
fn checked(value: RestrictedExpression) -> Option<RestrictedExpression> {
    Context::from_pairs([("value".to_owned(), value.clone())]).ok().map(|_| value)
}
