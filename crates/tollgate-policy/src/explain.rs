//! Why a decision is as it is: which rules were asked, what each said, and what would change the answer. It decides
//! nothing: every answer here comes from [`Policy::decide`].

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;
use tollgate_types::{Caller, ToolDefinition};

use crate::grant::Grant;
use crate::rule::argument::of_tool;
use crate::rule::request::{Inquiry, permission_level, risk_level};
use crate::rule::source::ArgumentType;
use crate::rule::{Applies, Rule, effect_name};
use crate::{Circumstances, Decision, Effect, Policy};

/// A decision, explained.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The caller's role.
    pub role: String,
    /// The tool.
    pub tool: String,
    /// Whether it is listed.
    pub list: Verdict,
    /// What becomes of the call.
    pub call: Verdict,
    /// The rules that can concern the call, as they stand in the file.
    pub rules: Vec<RuleReport>,
    /// What would make the answer milder.
    pub changes: Vec<String>,
    /// What the role grants, as a rule: the role is decided natively, and this says the same.
    pub role_as_rule: String,
}

/// An effect, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// `allow`, `ask` or `deny`.
    pub effect: &'static str,
    /// The rule that said so.
    pub rule: String,
    /// Why.
    pub reason: String,
}

impl From<Decision> for Verdict {
    fn from(decision: Decision) -> Self {
        Self { effect: decision.effect.as_str(), rule: decision.rule, reason: decision.reason }
    }
}

/// What one rule said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RuleReport {
    /// Its name.
    pub id: String,
    /// `permit` or `forbid`.
    pub effect: &'static str,
    /// Whether it applies without a human's yes.
    pub applies: Applied,
    /// Whether it applies with one.
    pub applies_approved: Applied,
    /// Why it could not be evaluated.
    pub error: Option<String>,
    /// The arguments that it reads.
    pub reads: Vec<String>,
    /// Its text.
    pub text: String,
}

/// A rule as it stands in the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RuleSummary {
    /// Its name.
    pub id: String,
    /// `permit` or `forbid`.
    pub effect: &'static str,
    /// What the model is told when it decides.
    pub reason: Option<String>,
    /// The arguments that it reads.
    pub reads: Vec<String>,
    /// How many examples it carries.
    pub examples: usize,
}

/// Whether a rule applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Applied {
    /// It does.
    Yes,
    /// It does not.
    No,
    /// It could not be evaluated, and so denies.
    Error,
}

impl From<&Applies> for Applied {
    fn from(applies: &Applies) -> Self {
        match applies {
            Applies::Yes => Self::Yes,
            Applies::No => Self::No,
            Applies::Fails(_) => Self::Error,
        }
    }
}

impl Policy {
    /// The rules, as they stand in the file.
    pub fn rules(&self) -> Vec<RuleSummary> {
        let summary = |rule: &Rule| RuleSummary {
            id: rule.id.clone(),
            effect: effect_name(rule.effect),
            reason: rule.reason.clone(),
            reads: rule.reads.arguments.iter().cloned().collect(),
            examples: rule.examples,
        };
        self.rules.iter().flat_map(|rules| &rules.rules).map(summary).collect()
    }

    /// The tools that rules name, each with its rule.
    pub fn named_tools(&self) -> Vec<(&str, &str)> {
        let rules = self.rules.iter().flat_map(|rules| &rules.rules);
        rules.flat_map(|rule| rule.tools.iter().map(|tool| (rule.id.as_str(), tool.as_str()))).collect()
    }

    /// Explains what becomes of a call.
    pub fn explain(
        &self,
        caller: &Caller,
        tool: &ToolDefinition,
        arguments: &Value,
        circumstances: &Circumstances<'_>,
    ) -> Explanation {
        let call = self.decide(caller, tool, Some(arguments), circumstances);
        let rules = self.reports(caller, tool, arguments, circumstances);
        let mut changes = Vec::new();
        if call.effect == Effect::Ask {
            changes.push("a human's yes: then it runs".to_owned());
        }
        changes.extend(self.other_roles(caller, tool, arguments, circumstances, call.effect));
        changes.extend(self.lower_arguments(caller, tool, arguments, circumstances, call.effect));
        if circumstances.is_tainted {
            let clean = Circumstances { is_tainted: false, ..*circumstances };
            let effect = self.decide(caller, tool, Some(arguments), &clean).effect;
            if effect < call.effect {
                changes.push(format!("a session that has read nothing from outside: {}", effect.as_str()));
            }
        }
        Explanation {
            role: caller.role.clone(),
            tool: tool.name.clone(),
            list: self.decide(caller, tool, None, circumstances).into(),
            call: call.into(),
            rules,
            changes,
            role_as_rule: self.role_as_rule(&caller.role).unwrap_or_default(),
        }
    }

    fn reports(
        &self,
        caller: &Caller,
        tool: &ToolDefinition,
        arguments: &Value,
        circumstances: &Circumstances<'_>,
    ) -> Vec<RuleReport> {
        let (Some(rules), Some(grant)) = (&self.rules, self.grant(&caller.role)) else { return Vec::new() };
        let arguments = Some(arguments);
        let each = rules.each(Inquiry { caller, roles: &grant.roles, tool, arguments, circumstances });
        let report = |(rule, unapproved, approved): (&Rule, Applies, Applies)| RuleReport {
            id: rule.id.clone(),
            effect: effect_name(rule.effect),
            applies: (&unapproved).into(),
            applies_approved: (&approved).into(),
            error: [unapproved, approved].into_iter().find_map(|applies| match applies {
                Applies::Fails(why) => Some(why),
                Applies::Yes | Applies::No => None,
            }),
            reads: rule.reads.arguments.iter().cloned().collect(),
            text: rule.text.clone(),
        };
        each.into_iter().map(report).collect()
    }

    fn other_roles(
        &self,
        caller: &Caller,
        tool: &ToolDefinition,
        arguments: &Value,
        circumstances: &Circumstances<'_>,
        effect: Effect,
    ) -> Vec<String> {
        let milder = |role: &&str| {
            let other = Caller { role: (*role).to_owned(), ..caller.clone() };
            let other = self.decide(&other, tool, Some(arguments), circumstances).effect;
            (other < effect).then(|| format!("the role `{role}`: {}", other.as_str()))
        };
        self.role_names().iter().filter_map(milder).collect()
    }

    /// For each number that a rule may read: the largest smaller one for which the answer is milder.
    fn lower_arguments(
        &self,
        caller: &Caller,
        tool: &ToolDefinition,
        arguments: &Value,
        circumstances: &Circumstances<'_>,
        effect: Effect,
    ) -> Vec<String> {
        let Some(rules) = &self.rules else { return Vec::new() };
        let mut changes = Vec::new();
        for (name, projection) in of_tool(&rules.projections, &tool.name) {
            let is_number = matches!(projection.kind, ArgumentType::Long | ArgumentType::Decimal);
            let value = arguments.pointer(&projection.pointer).and_then(Value::as_f64).filter(|_| is_number);
            // Beyond this a float skips whole numbers.
            let Some(value) = value.filter(|value| (1.0..=9e15).contains(value)) else { continue };
            let with = |number: i64| {
                let mut changed = arguments.clone();
                if let Some(place) = changed.pointer_mut(&projection.pointer) {
                    *place = number.into();
                }
                self.decide(caller, tool, Some(&changed), circumstances).effect
            };
            let milder = with(0);
            if milder >= effect {
                continue;
            }
            let (mut good, mut bad) = (0_i64, format!("{:.0}", value.ceil()).parse::<i64>().unwrap_or(i64::MAX));
            while bad - good > 1 {
                let middle = good + (bad - good) / 2;
                if with(middle) < effect { good = middle } else { bad = middle }
            }
            changes.push(format!("`{name}` of at most {good}: {}", with(good).as_str()));
        }
        changes
    }

    /// What a role grants, as a rule in Cedar. A glob that Cedar's `like` can not say stands as a set of its own name.
    pub fn role_as_rule(&self, role: &str) -> Option<String> {
        self.grant(role).map(|grant| as_rule(role, grant))
    }
}

fn as_rule(role: &str, grant: &Grant) -> String {
    let list = |key: &str| grant.canonical.get(key).and_then(Value::as_array).into_iter().flatten();
    let any = |key: &str| {
        let globs = list(key).filter_map(Value::as_str).map(|glob| {
            if glob.contains(['?', '[', ']', '{', '}', '\\']) {
                return format!("resource in Tollgate::ToolSet::\"{}\"", glob.escape_default());
            }
            format!("resource.name like \"{}\"", glob.escape_default())
        });
        globs.collect::<Vec<_>>().join(" || ")
    };
    let mut text = format!(
        "@id(\"role:{role}\")\npermit (principal, action == Tollgate::Action::\"use\", resource)\nwhen {{\n  \
         principal.role == \"{role}\" &&\n  resource.risk_level <= {} &&\n  resource.permission_level <= {} &&\n  ({})",
        risk_level(grant.risk),
        permission_level(grant.permission),
        any("tools"),
    );
    let excluded = any("exclude");
    if !excluded.is_empty() {
        // Writing to a string does not fail.
        let _ = write!(text, " &&\n  !({excluded})");
    }
    text.push_str("\n};\n");
    text
}
