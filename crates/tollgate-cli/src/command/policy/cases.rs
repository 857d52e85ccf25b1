//! The cases beside a file of rules: calls, and what is expected of them.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tollgate::limits;
use tollgate::policy::{Effect, Example, Policy, ToolFacts};

use crate::failure::Failure;

/// A file of cases.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases {
    /// What the tools of the cases are, by name.
    #[serde(default)]
    tools: BTreeMap<String, ToolFacts>,
    /// The cases.
    case: Vec<Map<String, Value>>,
}

/// What came of all cases.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) cases: usize,
    pub(crate) failed: Vec<Failed>,
}

/// A case that is not as expected.
#[derive(Serialize)]
pub(crate) struct Failed {
    /// Its name, or its number.
    case: String,
    /// What was expected.
    expected: String,
    /// What is.
    found: String,
    /// The rule that decided.
    rule: String,
    /// Why.
    reason: String,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { case, expected, found, rule, reason } = self;
        write!(f, "{case}: expected {expected}, and it is {found} by {rule}: {reason}")
    }
}

/// What is expected of a case.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    /// `allow`, `ask` or `deny`.
    expect: String,
    /// The rule that decides.
    rule: Option<String>,
    /// Whether the tool is listed.
    listed: Option<bool>,
}

const EXPECTED: [&str; 3] = ["expect", "rule", "listed"];

/// The cases that are meant: the named file, else the one beside the rules, if there is one.
pub(crate) fn find(named: Option<PathBuf>, rules: Option<&Path>) -> Result<Option<PathBuf>, Failure> {
    if let Some(named) = named {
        return Ok(Some(named));
    }
    let beside = |extension: &str| rules.map(|rules| rules.with_extension(extension)).filter(|path| path.is_file());
    Ok(beside("cases.toml").or_else(|| beside("cases.json")))
}

/// Tries every case.
pub(crate) fn run(path: &Path, policy: &Policy) -> Result<Report, Failure> {
    let shown = path.display();
    let fault =
        |why: String| Failure::usage(format!("{shown}: {why}")).hint("docs/policy.md says how cases are written");
    let size = std::fs::metadata(path).map_err(|error| fault(format!("cannot be read: {error}")))?.len();
    if size > limits::CONFIG_BYTES_MAX as u64 {
        return Err(fault(format!("has {size} bytes, more than {}", limits::CONFIG_BYTES_MAX)));
    }
    let text = std::fs::read_to_string(path).map_err(|error| fault(format!("cannot be read: {error}")))?;
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    let cases: Cases = if is_json {
        serde_json::from_str(&text).map_err(|error| fault(error.to_string()))?
    } else {
        toml::from_str(&text).map_err(|error| fault(error.to_string().trim_end().to_owned()))?
    };
    let mut report = Report { cases: cases.case.len(), ..Report::default() };
    for (number, case) in cases.case.iter().enumerate() {
        let name =
            case.get("name").and_then(Value::as_str).map_or_else(|| format!("case {}", number + 1), str::to_owned);
        let failed = one(&name, case.clone(), &cases.tools, policy);
        report.failed.extend(failed.map_err(|why| fault(format!("{name}: {why}")))?);
    }
    Ok(report)
}

fn one(
    name: &str,
    mut case: Map<String, Value>,
    tools: &BTreeMap<String, ToolFacts>,
    policy: &Policy,
) -> Result<Vec<Failed>, String> {
    case.remove("name");
    let expected: Map<String, Value> =
        EXPECTED.iter().filter_map(|key| Some(((*key).to_owned(), case.remove(*key)?))).collect();
    let Expected { expect, rule, listed, .. } =
        serde_json::from_value(expected.into()).map_err(|error| error.to_string())?;
    if !["allow", "ask", "deny"].contains(&expect.as_str()) {
        return Err(format!("`expect` is allow, ask or deny, not `{expect}`"));
    }
    if case.contains_key("approved") {
        return Err("a case is not approved: `expect = \"ask\"` says that a human's yes would do".to_owned());
    }
    let example: Example = serde_json::from_value(case.into()).map_err(|error| error.to_string())?;
    if !policy.has_role(&example.role) {
        return Err(format!("no role is named `{}`; there is {}", example.role, policy.role_names().join(", ")));
    }
    let mut facts =
        tools.get(&example.tool.name).filter(|_| example.tool == named(&example)).unwrap_or(&example.tool).clone();
    facts.name.clone_from(&example.tool.name);
    let (caller, tool, circumstances) = (example.caller(), facts.definition(), example.circumstances());
    let call = policy.decide(&caller, &tool, Some(&example.args), &circumstances);
    let list = policy.decide(&caller, &tool, None, &circumstances);
    let failed = |expected: &str, found: &str, by: &tollgate::policy::Decision| Failed {
        case: name.to_owned(),
        expected: expected.to_owned(),
        found: found.to_owned(),
        rule: by.rule.clone(),
        reason: by.reason.clone(),
    };
    let mut wrong = Vec::new();
    if call.effect.as_str() != expect {
        wrong.push(failed(&expect, call.effect.as_str(), &call));
    }
    if let Some(rule) = rule.filter(|rule| *rule != call.rule) {
        wrong.push(failed(&rule, &call.rule, &call));
    }
    let is_listed = list.effect != Effect::Deny;
    if listed.is_some_and(|wanted| wanted != is_listed) {
        let words = |is_listed| if is_listed { "listed" } else { "not listed" };
        wrong.push(failed(words(!is_listed), words(is_listed), &list));
    }
    Ok(wrong)
}

/// A tool of which the case says nothing but its name.
fn named(example: &Example) -> ToolFacts {
    ToolFacts { name: example.tool.name.clone(), ..ToolFacts::default() }
}
