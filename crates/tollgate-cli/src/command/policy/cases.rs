//! The cases beside a file of rules: calls, and what is expected of them.

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tollgate::config::{Loaded, Runs};
use tollgate::policy::{Decision, Effect, Example, Policy, ToolFacts};
use tollgate::{Catalog, SourceKind, ToolDefinition, limits};

use crate::failure::Failure;

/// A file of cases.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Cases {
    /// What the tools of the cases are, by name; of a `[[tool]]` of the configuration its definition says it.
    #[serde(default)]
    tools: BTreeMap<String, ToolFacts>,
    /// The cases.
    case: Vec<Map<String, Value>>,
}

/// What came of all cases.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) failed: Vec<Failed>,
}

/// What came of one case.
pub(crate) struct Outcome {
    pub(crate) name: String,
    pub(crate) example: Example,
    /// `allow`, `ask`, `deny`, or `invalid`.
    pub(crate) found: String,
    /// The rule that decided.
    pub(crate) rule: String,
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
    /// `allow`, `ask` or `deny`; or `invalid`, where the tool's schema refuses the call before policy is asked.
    expect: String,
    /// The rule that decides.
    rule: Option<String>,
    /// Whether the tool is listed.
    listed: Option<bool>,
    /// How many persons must say yes.
    approvers: Option<u32>,
    /// What an approver must type.
    typed: Option<String>,
}

const EXPECTED: [&str; 5] = ["expect", "rule", "listed", "approvers", "typed"];
const EFFECTS: [&str; 4] = ["allow", "ask", "deny", "invalid"];

/// The rule of a call that does not come so far as to be judged.
const SCHEMA: &str = "schema";

/// What cases are tried on: a policy, and the tools that the configuration defines.
pub(crate) struct Subject {
    policy: Policy,
    catalog: Catalog,
    environment: Option<String>,
}

impl Subject {
    /// Takes the tools of the configuration, as the gate would.
    pub(crate) fn new(policy: Policy, loaded: &Loaded) -> Result<Self, Failure> {
        let catalog = Catalog::new();
        for tool in loaded.tools()? {
            let mut definition = tool.definition;
            definition.source.kind = match tool.runs {
                Runs::Command(_) => SourceKind::Program,
                Runs::Http(_) => SourceKind::Http,
            };
            let name = definition.name.clone();
            let bad = |why: String| Failure::usage(format!("the tool `{name}`: {why}"));
            policy.compile(&definition).map_err(|error| bad(error.to_string()).hint(error.hint()))?;
            catalog.register(definition).map_err(|error| bad(error.to_string()))?;
        }
        Ok(Self { policy, catalog, environment: loaded.config.environment.clone() })
    }
}

/// The cases that are meant: the named file, else the one beside the rules, if there is one.
pub(crate) fn find(named: Option<PathBuf>, rules: Option<&Path>) -> Result<Option<PathBuf>, Failure> {
    if let Some(named) = named {
        return Ok(Some(named));
    }
    let beside = |extension: &str| rules.map(|rules| rules.with_extension(extension)).filter(|path| path.is_file());
    Ok(beside("cases.toml").or_else(|| beside("cases.json")))
}

/// Tries every case.
pub(crate) fn run(path: &Path, subject: &Subject) -> Result<Report, Failure> {
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
    let mut report = Report::default();
    for (number, case) in cases.case.into_iter().enumerate() {
        let name =
            case.get("name").and_then(Value::as_str).map_or_else(|| format!("case {}", number + 1), str::to_owned);
        let (expected, example) = read(case).map_err(|why| fault(format!("{name}: {why}")))?;
        let (outcome, failed) =
            subject.one(&name, &expected, example, &cases.tools).map_err(|why| fault(format!("{name}: {why}")))?;
        report.outcomes.push(outcome);
        report.failed.extend(failed);
    }
    Ok(report)
}

fn read(mut case: Map<String, Value>) -> Result<(Expected, Example), String> {
    case.remove("name");
    let expected: Map<String, Value> =
        EXPECTED.iter().filter_map(|key| Some(((*key).to_owned(), case.remove(*key)?))).collect();
    let expected: Expected = serde_json::from_value(expected.into()).map_err(|error| error.to_string())?;
    if !EFFECTS.contains(&expected.expect.as_str()) {
        return Err(format!("`expect` is {}, not `{}`", EFFECTS.join(", "), expected.expect));
    }
    if case.contains_key("approved") {
        return Err("a case is not approved: `expect = \"ask\"` says that a human's yes would do".to_owned());
    }
    let example = serde_json::from_value(case.into()).map_err(|error| error.to_string())?;
    Ok((expected, example))
}

impl Subject {
    fn one(
        &self,
        name: &str,
        expected: &Expected,
        mut example: Example,
        tools: &BTreeMap<String, ToolFacts>,
    ) -> Result<(Outcome, Vec<Failed>), String> {
        let policy = &self.policy;
        if !policy.has_role(&example.role) {
            return Err(format!("no role is named `{}`; there is {}", example.role, policy.role_names().join(", ")));
        }
        if example.environment.is_none() {
            example.environment.clone_from(&self.environment);
        }
        let (tool, invalid) = self.tool(&mut example, tools);
        let (caller, circumstances) = (example.caller(), example.circumstances());
        let mut call = policy.decide(&caller, &tool, Some(&example.args), &circumstances);
        let list = policy.decide(&caller, &tool, None, &circumstances);
        let mut found = call.effect.as_str();
        if let Some(why) = invalid {
            (found, call.rule, call.reason) = ("invalid", SCHEMA.to_owned(), why);
        }
        let failed = |expected: &str, found: &str, by: &Decision| Failed {
            case: name.to_owned(),
            expected: expected.to_owned(),
            found: found.to_owned(),
            rule: by.rule.clone(),
            reason: by.reason.clone(),
        };
        let mut wrong = Vec::new();
        let mut compare = |expected: &str, found: &str, by: &Decision| {
            if expected != found {
                wrong.push(failed(expected, found, by));
            }
        };
        compare(&expected.expect, found, &call);
        if let Some(rule) = &expected.rule {
            compare(rule, &call.rule, &call);
        }
        if let Some(wanted) = expected.listed {
            let words = |is_listed| if is_listed { "listed" } else { "not listed" };
            compare(words(wanted), words(list.effect != Effect::Deny), &list);
        }
        if let Some(count) = expected.approvers {
            let found = tool.security.approvers.map_or(1, NonZeroU32::get);
            compare(&format!("{count} approvers"), &format!("{found} approvers"), &call);
        }
        if let Some(typed) = &expected.typed {
            let found = typed_by(&tool, &example.args).unwrap_or_else(|| "nothing to type".to_owned());
            compare(typed, &found, &call);
        }
        let outcome = Outcome { name: name.to_owned(), found: found.to_owned(), rule: call.rule, example };
        Ok((outcome, wrong))
    }

    /// The tool that a case means, and why its schema refuses the arguments; they are made what the gate makes of them.
    fn tool(&self, example: &mut Example, tools: &BTreeMap<String, ToolFacts>) -> (ToolDefinition, Option<String>) {
        let name = example.tool.name.clone();
        let is_bare = example.tool == ToolFacts { name: name.clone(), ..ToolFacts::default() };
        let described = tools.get(&name).filter(|_| is_bare);
        if let Some(entry) = self.catalog.get(&name).filter(|_| is_bare && described.is_none()) {
            entry.input.coerce(&mut example.args);
            entry.input.fill_defaults(&mut example.args);
            let violations = entry.input.validate(&example.args);
            let why = violations.first().map(|violation| format!("{}: {}", violation.path, violation.message));
            return (entry.definition.as_ref().clone(), why);
        }
        let facts = described.unwrap_or(&example.tool).clone();
        (ToolFacts { name, ..facts }.definition(), None)
    }
}

/// What an approver of the call must type: the value at the pointer, else the tool's name.
fn typed_by(tool: &ToolDefinition, arguments: &Value) -> Option<String> {
    let pointer = tool.security.typed_confirmation.as_deref()?;
    let typed = match arguments.pointer(pointer).filter(|_| !pointer.is_empty()) {
        Some(Value::String(text)) => text.clone(),
        Some(value @ (Value::Number(_) | Value::Bool(_))) => value.to_string(),
        _ => tool.name.clone(),
    };
    Some(typed)
}
