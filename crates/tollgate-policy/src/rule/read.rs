//! Reading rules: parsed, checked against the schema, named, and tried on their own examples. What is wrong is refused
//! with its place.

use std::collections::{BTreeMap, BTreeSet};

use cedar_policy::ffi::DetailedError;
use cedar_policy::{
    Authorizer, Effect, Policy, PolicyId, PolicySet, Schema, ValidationMode, ValidationWarning, Validator,
};
use jiff::tz::Offset;

use super::analyse::{Reads, asks, without_context};
use super::argument::{self, globs};
use super::example;
use super::index::{Head, Index, id_of, type_of};
use super::request::Names;
use super::slice::Slices;
use super::source::{RuleFault, RuleSource, RulesError};
use super::{Rule, Rules, schema, size};

/// Rules of one policy.
const RULES_MAX: usize = 20_000;
/// A rule's name.
const ID_CHARS_MAX: usize = 128;
/// What a model is told.
const REASON_CHARS_MAX: usize = 1_000;
/// Faults that are told at once.
pub(crate) const FAULTS_MAX: usize = 100;
/// The furthest zone from UTC.
const OFFSET_MINUTES_MAX: i32 = 14 * 60;

/// Reads rules. `parents` are the roles that exist, each with itself and those it inherits from.
pub(crate) fn read(source: &RuleSource, parents: &BTreeMap<String, Vec<String>>) -> Result<Rules, RulesError> {
    size::check(source).map_err(|fault| RulesError::Text(vec![*fault]))?;
    size::with_stack(|| read_sized(source, parents))
}

fn read_sized(source: &RuleSource, parents: &BTreeMap<String, Vec<String>>) -> Result<Rules, RulesError> {
    let (projections, types) = argument::compile(&source.arguments)?;
    let sets = sets(source)?;
    let minutes = source.utc_offset_minutes;
    let offset = Offset::from_seconds(minutes.saturating_mul(60)).ok();
    let offset = offset.filter(|_| minutes.abs() <= OFFSET_MINUTES_MAX).ok_or(RulesError::Offset { minutes })?;
    let broken = |message: String| RulesError::Text(vec![RuleFault::at(source, 0, None, message)]);
    let (schema, _) = Schema::from_cedarschema_str(&schema::text(&types)).map_err(|error| broken(error.to_string()))?;
    let names = Names::new().ok_or_else(|| broken("the schema has no usable names".to_owned()))?;
    let policies = parse(source)?;
    let mut faults = check(source, &policies, &schema);
    let mut rules = Vec::new();
    let mut index = Index::default();
    let mut ids = BTreeSet::new();
    for policy in in_order(&policies) {
        if faults.len() >= FAULTS_MAX {
            break;
        }
        faults.extend(unknown_names(source, policy, parents, &sets));
        match rule(source, policy, rules.len()) {
            Ok(rule) if ids.contains(&rule.id) => {
                let fault = RuleFault::at(source, rule.offset, Some(&rule.id), twice(&rule.id));
                faults.push(fault.hint("give each rule an `@id` of its own"));
            }
            Ok(rule) => {
                ids.insert(rule.id.clone());
                index.add(Head::of(policy));
                rules.push(rule);
            }
            Err(fault) => faults.push(*fault),
        }
    }
    if faults.is_empty() {
        let [reads_taint, reads_from] =
            ["tainted", "from"].map(|part| rules.iter().any(|rule: &Rule| rule.reads.part(part)));
        let rules = Rules {
            rules,
            reads_taint,
            reads_from,
            index,
            slices: Slices::default(),
            sets,
            projections,
            types,
            offset,
            names,
            authorizer: Authorizer::new(),
        };
        faults = example::try_all(source, &policies, &rules, parents);
        if faults.is_empty() {
            return Ok(rules);
        }
    }
    faults.sort_by_key(|fault| fault.offset);
    Err(RulesError::Text(faults))
}

fn twice(id: &str) -> String {
    format!("two rules are named `{id}`")
}

fn sets(source: &RuleSource) -> Result<Vec<(String, globset::GlobSet)>, RulesError> {
    let bad = |name: &str, problem| RulesError::Set { name: name.to_owned(), problem };
    source
        .sets
        .iter()
        .map(|(name, tools)| Ok((name.clone(), globs(tools).map_err(|problem| bad(name, problem))?)))
        .collect()
}

fn parse(source: &RuleSource) -> Result<PolicySet, RulesError> {
    let policies: PolicySet = source.text.parse().map_err(|errors: cedar_policy::ParseErrors| {
        RulesError::Text(
            errors.iter().take(FAULTS_MAX).map(|error| told(source, &DetailedError::from(error), 0)).collect(),
        )
    })?;
    let whole = |message: &str, hint: &str| {
        Err(RulesError::Text(vec![RuleFault::at(source, 0, None, message.to_owned()).hint(hint)]))
    };
    if policies.num_of_templates() > 0 {
        return whole(
            "a rule has a slot (`?principal` or `?resource`)",
            "write the role, user, tool or set itself: rules are no templates",
        );
    }
    if policies.num_of_policies() > RULES_MAX {
        return whole(&format!("there are more than {RULES_MAX} rules"), "join rules, or use sets of tools");
    }
    Ok(policies)
}

/// What Cedar says of a place.
fn told(source: &RuleSource, error: &DetailedError, otherwise: usize) -> RuleFault {
    let label = error.source_locations.first();
    let offset = label.map_or(otherwise, |label| label.loc.start);
    let mut fault = RuleFault::at(source, offset, None, error.message.clone());
    fault.hint = error.help.clone().or_else(|| label.and_then(|label| label.label.clone()));
    fault
}

/// The policies as they stand in the text.
pub(crate) fn in_order(policies: &PolicySet) -> Vec<&Policy> {
    let mut policies: Vec<&Policy> = policies.policies().collect();
    policies.sort_by_key(|policy| place(policy));
    policies
}

/// Where a policy begins in the text.
pub(crate) fn place(policy: &Policy) -> usize {
    policy.as_ref().loc().map_or(0, |loc| loc.start())
}

fn check(source: &RuleSource, policies: &PolicySet, schema: &Schema) -> Vec<RuleFault> {
    let result = Validator::new(schema.clone()).validate(policies, ValidationMode::Strict);
    let of = |id: &PolicyId| policies.policy(id);
    let fault = |error: DetailedError, id: &PolicyId| {
        let policy = of(id);
        let mut fault = told(source, &error, policy.map_or(0, place));
        let name = policy.and_then(named).map(str::to_owned);
        // Cedar numbers the policies of a file; people know them by their names.
        if let Some(name) = &name {
            fault.message = fault.message.replace(&format!("policy `{id}`"), &format!("rule `{name}`"));
        }
        fault.rule = name;
        fault
    };
    let errors = result.validation_errors().map(|error| fault(DetailedError::from(error), error.policy_id()));
    let never =
        result.validation_warnings().filter(|warning| matches!(warning, ValidationWarning::ImpossiblePolicy(_)));
    let never = never.map(|warning| fault(DetailedError::from(warning), warning.policy_id()));
    errors.chain(never).take(FAULTS_MAX).collect()
}

/// Roles and sets that a rule names and nobody defined: it would never apply, and nobody would know.
fn unknown_names(
    source: &RuleSource,
    policy: &Policy,
    parents: &BTreeMap<String, Vec<String>>,
    sets: &[(String, globset::GlobSet)],
) -> Vec<RuleFault> {
    let roles = || parents.keys().map(String::as_str).collect::<Vec<_>>();
    let sets = || sets.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>();
    let mut faults = Vec::new();
    for uid in policy.entity_literals() {
        let (kind, known) = match type_of(&uid).as_str() {
            "Tollgate::Role" => ("role", roles()),
            "Tollgate::ToolSet" => ("set of tools", sets()),
            _ => continue,
        };
        let id = id_of(&uid);
        if known.contains(&id.as_str()) {
            continue;
        }
        let start = place(policy);
        let offset =
            source.text.get(start..).and_then(|text| text.find(&uid.to_string())).map_or(start, |at| start + at);
        let hint = match known.as_slice() {
            [] => format!("there is no {kind}; [policy.sets] defines sets of tools"),
            known => format!("there is {}", known.join(", ")),
        };
        faults.push(RuleFault::at(source, offset, named(policy), format!("no {kind} is named `{id}`")).hint(hint));
    }
    faults
}

/// Takes a rule apart; `number` is its place among them.
fn rule(source: &RuleSource, policy: &Policy, number: usize) -> Result<Rule, Box<RuleFault>> {
    let offset = place(policy);
    let id = named(policy).unwrap_or_default();
    let fault = |message: String, hint: &str| {
        let id = Some(id).filter(|id| !id.is_empty());
        Box::new(RuleFault::at(source, offset, id, message).hint(hint))
    };
    if id.is_empty() || id.chars().count() > ID_CHARS_MAX || id.chars().any(char::is_control) {
        return Err(fault(
            "the rule has no usable name".to_owned(),
            "write `@id(\"no-large-refunds\")` before it: the ledger says which rule decided",
        ));
    }
    let mut examples = 0;
    for (name, _) in policy.annotations() {
        if example::is_example(name) {
            examples += 1;
        } else if name != "id" && name != "reason" {
            let hint = "a rule has `@id`, `@reason`, and as examples `@match` and `@not_match` (more: `@match_2`, …)";
            return Err(fault(format!("there is no annotation `@{name}`"), hint));
        }
    }
    let reason = annotation(policy, "reason").map(str::to_owned);
    if reason.as_ref().is_some_and(|reason| reason.trim().is_empty() || reason.chars().count() > REASON_CHARS_MAX) {
        let message = format!("`@reason` has 1 to {REASON_CHARS_MAX} characters");
        return Err(fault(message, "say to the model what it may do instead"));
    }
    let unread = |error: String| fault(format!("the rule can not be taken apart: {error}"), "write it more simply");
    // Of a policy that came from a text `to_json` parses the text again, which takes longer than everything else here.
    let tree = Policy::from(policy.as_ref().clone()).to_json().map_err(|error| unread(error.to_string()))?;
    let reads = Reads::of(&tree);
    let number = PolicyId::new(number.to_string());
    let is_conditional = reads.is_contextual && policy.effect() == Effect::Permit;
    let listed = if is_conditional {
        let listed = Policy::from_json(Some(number.clone()), without_context(&tree));
        Some(listed.map_err(|error| unread(error.to_string()))?)
    } else {
        None
    };
    Ok(Rule {
        id: id.to_owned(),
        effect: policy.effect(),
        reason,
        text: without_annotations(&policy.to_cedar().unwrap_or_default()).to_owned(),
        offset,
        reads,
        asks: asks(&tree),
        tools: named_tools(policy),
        examples,
        whole: policy.new_id(number),
        listed,
    })
}

fn named(policy: &Policy) -> Option<&str> {
    annotation(policy, "id")
}

/// An annotation, found among all of them: Cedar would parse the name that it is asked for, each time.
fn annotation<'a>(policy: &'a Policy, name: &str) -> Option<&'a str> {
    policy.annotations().find(|(one, _)| *one == name).map(|(_, text)| text)
}

fn named_tools(policy: &Policy) -> Vec<String> {
    let named = policy.entity_literals().into_iter().filter(|uid| type_of(uid) == "Tollgate::Tool");
    named.map(|uid| id_of(&uid)).collect()
}

/// The text of a rule from its `permit` or `forbid` on.
fn without_annotations(text: &str) -> &str {
    let mut rest = text.trim();
    loop {
        if let Some(comment) = rest.strip_prefix("//") {
            rest = comment.split_once('\n').map_or("", |(_, after)| after).trim_start();
        } else if rest.starts_with('@') {
            rest = rest.trim_start_matches(|c: char| c == '@' || c == '_' || c.is_alphanumeric()).trim_start();
            if let Some(quoted) = rest.strip_prefix('(') {
                rest = after_string(quoted.trim_start()).trim_start().trim_start_matches(')').trim_start();
            }
        } else {
            return rest;
        }
    }
}

/// What follows the string that a text begins with.
fn after_string(text: &str) -> &str {
    let mut is_escaped = true; // the opening quote ends nothing
    for (at, c) in text.char_indices() {
        if c == '"' && !is_escaped {
            return text.get(at + 1..).unwrap_or_default();
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    ""
}

/// The words of an effect.
pub(crate) fn effect_name(effect: Effect) -> &'static str {
    match effect {
        Effect::Permit => "permit",
        Effect::Forbid => "forbid",
    }
}
