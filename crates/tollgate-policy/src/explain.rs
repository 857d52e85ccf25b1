//! Why a decision is as it is: which rules were asked, what each said and by which of its conditions, and what would
//! change the answer. It decides nothing: every answer here comes from [`Policy::decide`].

mod changes;

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::Value;
use tollgate_types::{Caller, ToolDefinition};

use crate::grant::Grant;
use crate::rule::argument::{is_left_out, of_tool};
use crate::rule::request::{Inquiry, permission_level, risk_level};
use crate::rule::{Applies, Rule, Rules, effect_name};
use crate::{Circumstances, Decision, Origin, Policy};

use changes::Asked;

/// A decision, explained.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The caller's role.
    pub role: String,
    /// The tool.
    pub tool: String,
    /// Under which circumstances.
    pub circumstances: Assumed,
    /// The arguments that rules may read, and where their values come from.
    pub arguments: Vec<ArgumentReport>,
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

/// What was taken to be so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Assumed {
    /// The caller's tenant.
    pub tenant: Option<String>,
    /// The environment.
    pub environment: Option<String>,
    /// Whether the session has read content from outside.
    pub tainted: bool,
    /// The time, in the zone that rules go by.
    pub now: String,
}

/// An argument as rules see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ArgumentReport {
    /// Its name in rules.
    pub name: String,
    /// Where it stands.
    pub pointer: String,
    /// Its value; none where there is none.
    pub value: Option<Value>,
    /// Where the value comes from: one origin, or for a list those of its elements.
    pub from: Vec<Origin>,
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
    /// Its conditions, as far as its head fits.
    pub conditions: Vec<ConditionReport>,
    /// Why it could not be evaluated.
    pub error: Option<String>,
    /// The arguments that it reads.
    pub reads: Vec<String>,
    /// Its text.
    pub text: String,
}

/// What one condition of a rule said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConditionReport {
    /// `when` or `unless`.
    pub kind: &'static str,
    /// Its text.
    pub text: String,
    /// Whether it holds without a human's yes; none where an earlier one has settled the rule.
    pub holds: Option<Applied>,
    /// Whether it holds with one.
    pub holds_approved: Option<Applied>,
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

    /// The arguments of a tool that rules may read: name and pointer.
    pub fn arguments(&self, tool: &ToolDefinition) -> Vec<(&str, &str)> {
        let Some(rules) = &self.rules else { return Vec::new() };
        let named = of_tool(&rules.projections, &tool.name);
        named.into_iter().map(|(name, projection)| (name, projection.pointer.as_str())).collect()
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
        let asked = Asked { policy: self, caller, tool, arguments, circumstances, effect: call.effect };
        let Circumstances { environment, now, is_tainted, provenance } = *circumstances;
        let argument = |(name, pointer): (&str, &str)| {
            let value = arguments.pointer(pointer).filter(|value| !is_left_out(tool, pointer, value)).cloned();
            let from = value.as_ref().map(|value| provenance.of(name, value)).unwrap_or_default();
            ArgumentReport {
                name: name.to_owned(),
                pointer: pointer.to_owned(),
                value,
                from: from.into_iter().collect(),
            }
        };
        Explanation {
            role: caller.role.clone(),
            tool: tool.name.clone(),
            circumstances: Assumed {
                tenant: caller.tenant.clone(),
                environment: environment.map(str::to_owned),
                tainted: is_tainted,
                now: self.rules.as_ref().map_or_else(|| now.to_string(), |rules| rules.clock(now)),
            },
            arguments: self.arguments(tool).into_iter().map(argument).collect(),
            list: self.decide(caller, tool, None, circumstances).into(),
            rules: self.reports(caller, tool, arguments, circumstances),
            changes: asked.changes(),
            call: call.into(),
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
        let inquiry = Inquiry { caller, roles: &grant.roles, tool, arguments: Some(arguments), circumstances };
        let each = rules.each(inquiry).into_iter();
        each.map(|(rule, unapproved, approved)| report(rules, inquiry, rule, [unapproved, approved])).collect()
    }

    /// What a role grants, as a rule in Cedar. A glob that Cedar's `like` can not say stands as a set of its own name.
    pub fn role_as_rule(&self, role: &str) -> Option<String> {
        self.grant(role).map(|grant| as_rule(role, grant))
    }
}

fn report(rules: &Rules, inquiry: Inquiry<'_>, rule: &Rule, said: [Applies; 2]) -> RuleReport {
    let [unapproved, approved] = &said;
    let conditions = rules.conditions(inquiry, rule).into_iter().map(|condition| {
        let [holds, holds_approved] = condition.holds.each_ref().map(|holds| holds.as_ref().map(Applied::from));
        ConditionReport { kind: condition.kind, text: condition.text, holds, holds_approved }
    });
    RuleReport {
        id: rule.id.clone(),
        effect: effect_name(rule.effect),
        applies: unapproved.into(),
        applies_approved: approved.into(),
        conditions: conditions.collect(),
        error: said.iter().find_map(|applies| match applies {
            Applies::Fails(why) => Some(why.clone()),
            Applies::Yes | Applies::No => None,
        }),
        reads: rule.reads.arguments.iter().cloned().collect(),
        text: rule.text.clone(),
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
