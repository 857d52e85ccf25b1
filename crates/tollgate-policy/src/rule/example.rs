//! Examples that rules carry, `@match` and `@not_match`: each is tried when the rules are read, and a rule that does not
//! do what its examples say is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cedar_policy::PolicySet;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use tollgate_types::{Annotations, Caller, Category, Permission, Risk, Source, SourceKind, Surface, ToolDefinition};

use crate::provenance::{Origin, Provenance};

use super::read::{FAULTS_MAX, in_order, place};
use super::request::{Circumstances, Inquiry};
use super::slice::Slice;
use super::source::{RuleFault, RuleSource};
use super::{Applies, Rule, Rules};

/// One call as an example: `{"role": "support", "tool": "refund_order", "args": {"amount": 20}}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Example {
    /// The caller's role.
    pub role: String,
    /// The tool: its name, or an object with what it is.
    #[serde(deserialize_with = "name_or_facts")]
    pub tool: ToolFacts,
    /// The arguments.
    #[serde(default = "no_arguments")]
    pub args: Value,
    /// Whether a human said yes.
    #[serde(default)]
    pub approved: bool,
    /// Whether the session has read content from outside.
    #[serde(default)]
    pub tainted: bool,
    /// Where the values of arguments come from, by the argument's name in rules; unsaid, they are the model's.
    #[serde(default)]
    pub from: BTreeMap<String, BTreeSet<Origin>>,
    /// The caller's name.
    #[serde(default = "somebody")]
    pub subject: String,
    /// The caller's tenant.
    #[serde(default)]
    pub tenant: Option<String>,
    /// The way in.
    #[serde(default = "library")]
    pub surface: Surface,
    /// The environment.
    #[serde(default)]
    pub environment: Option<String>,
    /// The time.
    #[serde(default)]
    pub now: Timestamp,
}

/// What a tool of an example is; unsaid, what a tool is that says nothing of itself: dangerous, and needing execute.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ToolFacts {
    /// Its name.
    pub name: String,
    /// What it does to the world.
    pub risk: Option<Risk>,
    /// What it needs.
    pub permission: Option<Permission>,
    /// What it is for.
    pub category: Option<Category>,
    /// Where it comes from.
    pub source: Option<SourceKind>,
    /// The upstream.
    pub server: Option<String>,
    /// The field it belongs to.
    pub domain: Option<String>,
    /// Its tags.
    pub tags: Vec<String>,
    /// Its hints.
    pub annotations: Annotations,
    /// Whether a human is always asked.
    pub requires_confirmation: bool,
}

fn no_arguments() -> Value {
    Value::Object(serde_json::Map::new())
}

fn somebody() -> String {
    "somebody".to_owned()
}

fn library() -> Surface {
    Surface::Library
}

fn name_or_facts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ToolFacts, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(name) => Ok(ToolFacts { name, ..ToolFacts::default() }),
        facts => serde_json::from_value(facts).map_err(serde::de::Error::custom),
    }
}

impl Example {
    /// The caller.
    pub fn caller(&self) -> Caller {
        let mut caller = Caller::new(self.subject.clone(), self.role.clone(), self.surface);
        caller.tenant.clone_from(&self.tenant);
        caller
    }

    /// The circumstances.
    pub fn circumstances(&self) -> Circumstances<'_> {
        Circumstances {
            environment: self.environment.as_deref(),
            now: self.now,
            is_tainted: self.tainted,
            provenance: Provenance::Given(&self.from),
        }
    }
}

impl ToolFacts {
    /// A definition that says this.
    pub fn definition(&self) -> ToolDefinition {
        let mut tool = ToolDefinition::new(&self.name, "");
        tool.risk = self.risk.unwrap_or(tool.risk);
        tool.permission = self.permission.unwrap_or(tool.permission);
        tool.category = self.category.unwrap_or(tool.category);
        let kind = self.source.unwrap_or(tool.source.kind);
        tool.source = Source { kind, server: self.server.clone(), domain: self.domain.clone(), version: None };
        tool.tags.clone_from(&self.tags);
        tool.annotations = self.annotations;
        tool.security.requires_confirmation = self.requires_confirmation;
        tool
    }
}

/// Reads an example. In it `'` may stand for `"`, where it has none: a string of Cedar would need `\"`.
fn read(text: &str) -> Result<Example, String> {
    let text = if text.contains('"') { text.to_owned() } else { text.replace('\'', "\"") };
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

/// Whether an annotation is an example: `@match`, `@not_match`, or one of them with a number such as `@match_2`.
pub(crate) fn is_example(annotation: &str) -> bool {
    let name = annotation.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('_');
    name == "match" || name == "not_match"
}

/// Tries all examples, and says which rules do not do what they say.
pub(crate) fn try_all(
    source: &RuleSource,
    policies: &PolicySet,
    rules: &Rules,
    parents: &BTreeMap<String, Vec<String>>,
) -> Vec<RuleFault> {
    let mut faults = Vec::new();
    for (number, (policy, rule)) in in_order(policies).into_iter().zip(&rules.rules).enumerate() {
        if faults.len() >= FAULTS_MAX {
            break;
        }
        let alone = rules.alone(number);
        for (name, text) in policy.annotations().filter(|(name, _)| is_example(name)) {
            if let Err((message, hint)) = try_one(rules, &alone, rule, parents, name, text) {
                let start = place(policy);
                let marked = format!("@{name}(");
                let at = source.text.get(start..).and_then(|text| text.find(&marked)).map_or(start, |at| start + at);
                faults.push(RuleFault::at(source, at, Some(&rule.id), message).hint(hint));
            }
        }
    }
    faults
}

fn try_one(
    rules: &Rules,
    alone: &Arc<Slice>,
    rule: &Rule,
    parents: &BTreeMap<String, Vec<String>>,
    name: &str,
    text: &str,
) -> Result<(), (String, String)> {
    let example = read(text).map_err(|error| {
        let hint = "such as `@match(\"{'role': 'support', 'tool': 'refund_order', 'args': {'amount': 500}}\")`";
        (format!("the example `@{name}` of the rule `{}` can not be read: {error}", rule.id), hint.to_owned())
    })?;
    let Some(roles) = parents.get(&example.role) else {
        let known = parents.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        return Err((
            format!("the example `@{name}` of the rule `{}` has the role `{}`", rule.id, example.role),
            format!("there is {known}"),
        ));
    };
    let (caller, tool, circumstances) = (example.caller(), example.tool.definition(), example.circumstances());
    let inquiry =
        Inquiry { caller: &caller, roles, tool: &tool, arguments: Some(&example.args), circumstances: &circumstances };
    let is_wanted = name.starts_with("match");
    let (unapproved, approved) = rules.one(inquiry, alone);
    let applies = if example.approved { approved } else { unapproved };
    let does = match (&applies, is_wanted) {
        (Applies::Yes, true) | (Applies::No, false) => return Ok(()),
        (Applies::Yes, false) => "applies to".to_owned(),
        (Applies::No, true) => "does not apply to".to_owned(),
        (Applies::Fails(why), _) => format!("fails for ({why})"),
    };
    Err((
        format!("the rule `{}` {does} its example `@{name}`", rule.id),
        "correct the rule, or the example if it is what is wrong".to_owned(),
    ))
}
