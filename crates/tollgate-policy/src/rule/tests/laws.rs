//! What holds whatever the rules say.

use cedar_policy::Effect as CedarEffect;
use proptest::prelude::*;
use proptest::sample::select as pick;
use serde_json::{Value, json};
use tollgate_types::{Permission, Risk, SourceKind, ToolDefinition};

use super::super::request::Inquiry;
use super::super::{Applies, Opinion, Opinions, Rule};
use super::{HERE, caller, roles, source, tool};
use crate::decide::called;
use crate::{Ask, Circumstances, Decision, Effect, Policy, Role, RuleSource};

const CONDITIONS: [&str; 13] = [
    "context.args has amount && context.args.amount > 100",
    "context.args has amount && context.args.amount * 4611686018427387904 > 5",
    "context.approved",
    "context.args has amount && context.args.amount * 4611686018427387904 > 5 && context.approved",
    "!context.approved",
    "context.tainted || resource.risk_level > 1",
    "resource.risk_level > 2 && context.approved",
    "resource.name like \"read_*\"",
    "principal.role == \"clerk\" && context.hour > 5",
    "resource has server && context.args has path",
    "resource.risk_level * 4611686018427387904 > 0",
    "if context.approved then resource.risk_level > 1 else true",
    "resource.source == \"mcp\"",
];
const HEADS: [&str; 4] = [
    "(principal, action, resource)",
    "(principal in Tollgate::Role::\"clerk\", action, resource)",
    "(principal == Tollgate::User::\"ada\", action == Tollgate::Action::\"use\", resource)",
    "(principal, action, resource in Tollgate::ToolSet::\"money\")",
];

fn any_rule(effects: &'static [&'static str]) -> impl Strategy<Value = String> {
    let kind = pick(vec!["when", "unless"]);
    (pick(effects), pick(&HEADS[..]), kind, pick(&CONDITIONS[..]), pick(&CONDITIONS[..]), pick(vec!["&&", "||"]))
        .prop_map(|(effect, head, kind, one, two, joint)| {
            format!("{effect} {head} {kind} {{ ({one}) {joint} ({two}) }};")
        })
}

#[test]
fn what_the_laws_are_tried_on_loads() {
    for (condition, head) in CONDITIONS.iter().flat_map(|condition| HEADS.map(|head| (condition, head))) {
        for kind in ["when", "unless"] {
            let rule = format!("forbid {head} {kind} {{ {condition} }};");
            assert!(rules_of(std::slice::from_ref(&rule)).is_some(), "{rule}");
        }
    }
}

fn rules_of(rules: &[String]) -> Option<Policy> {
    let text: String = rules.iter().enumerate().map(|(n, rule)| format!("@id(\"r{n}\") {rule}\n")).collect();
    // Some conditions can never hold together, and are refused.
    Policy::new(roles()).unwrap().with_rules(&source(&text)).ok()
}

fn any_call() -> impl Strategy<Value = (String, ToolDefinition, Value, bool)> {
    let risks = pick(vec![Risk::Read, Risk::Write, Risk::Dangerous]);
    let arguments =
        pick(vec![json!({}), json!({"amount": 1}), json!({"amount": 1000}), json!({"amount": "x", "path": "y"})]);
    let names = pick(vec!["read_a", "refund", "pay_b", "wipe"]);
    (pick(vec!["clerk", "lead", "reader"]), names, risks, arguments, any::<bool>(), any::<bool>()).prop_map(
        |(role, name, risk, arguments, is_mcp, is_tainted)| {
            let mut tool = tool(name, risk);
            if is_mcp {
                tool.source.kind = SourceKind::Mcp;
                tool.source.server = Some("files".into());
            }
            (role.to_owned(), tool, arguments, is_tainted)
        },
    )
}

/// What rules come to that were asked one by one: the first that fails, else the first forbid that applies, else the
/// first permit that does.
fn joined<'a>(each: impl Iterator<Item = (&'a Rule, &'a Applies)> + Clone) -> Opinion<'a> {
    let applies = |effect| {
        let mut each = each.clone();
        each.find(|(rule, applies)| rule.effect == effect && **applies == Applies::Yes).map(|(rule, _)| rule)
    };
    let failing = each.clone().find_map(|(rule, applies)| match applies {
        Applies::Fails(why) => Some(Opinion::Fails(rule, why.clone())),
        Applies::Yes | Applies::No => None,
    });
    failing
        .or(applies(CedarEffect::Forbid).map(Opinion::Forbids))
        .or(applies(CedarEffect::Permit).map(Opinion::Grants))
        .unwrap_or(Opinion::None)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_forbid_more_never_loosens(
        rules in proptest::collection::vec(any_rule(&["permit", "forbid"]), 0..4),
        forbid in any_rule(&["forbid"]),
        (role, tool, arguments, is_tainted) in any_call(),
    ) {
        let more: Vec<String> = rules.iter().cloned().chain([forbid]).collect();
        if let (Some(before), Some(after)) = (rules_of(&rules), rules_of(&more)) {
            let here = Circumstances { is_tainted, ..HERE };
            for arguments in [None, Some(&arguments)] {
                let effect = |policy: &Policy| policy.decide(&caller(&role), &tool, arguments, &here).effect;
                prop_assert!(effect(&after) >= effect(&before));
            }
        }
    }

    #[test]
    fn what_may_be_called_is_listed(
        rules in proptest::collection::vec(any_rule(&["permit", "forbid"]), 1..5),
        (role, tool, arguments, is_tainted) in any_call(),
    ) {
        if let Some(policy) = rules_of(&rules) {
            let here = Circumstances { is_tainted, ..HERE };
            let called = policy.decide(&caller(&role), &tool, Some(&arguments), &here).effect;
            let listed = policy.decide(&caller(&role), &tool, None, &HERE).effect;
            prop_assert!(called == Effect::Deny || listed != Effect::Deny);
        }
    }

    #[test]
    fn a_rule_that_fails_is_a_deny(
        rules in proptest::collection::vec(any_rule(&["permit", "forbid"]), 1..5),
        (role, tool, arguments, is_tainted) in any_call(),
    ) {
        if let Some(policy) = rules_of(&rules) {
            let here = Circumstances { is_tainted, ..HERE };
            let explained = policy.explain(&caller(&role), &tool, &arguments, &here);
            if explained.rules.iter().any(|rule| rule.applies == crate::Applied::Error) {
                prop_assert_eq!(explained.call.effect, "deny");
            }
        }
    }

    /// Rules are asked together; what comes of it is what each says by itself.
    #[test]
    fn together_rules_say_what_each_says_by_itself(
        rules in proptest::collection::vec(any_rule(&["permit", "forbid"]), 1..6),
        (role, tool, arguments, is_tainted) in any_call(),
    ) {
        if let Some(policy) = rules_of(&rules) {
            let here = Circumstances { is_tainted, ..HERE };
            let (rules, caller) = (policy.rules.as_ref().unwrap(), caller(&role));
            let roles = policy.role_chains().remove(&role).unwrap();
            let inquiry =
                Inquiry { caller: &caller, roles: &roles, tool: &tool, arguments: Some(&arguments), circumstances: &here };
            let each = rules.each(inquiry);
            let together = rules.on_call(inquiry);
            let one_by_one = Opinions {
                unapproved: joined(each.iter().map(|(rule, unapproved, _)| (*rule, unapproved))),
                approved: joined(each.iter().map(|(rule, _, approved)| (*rule, approved))),
            };
            let fails = |opinions: &Opinions<'_>| matches!(opinions.unapproved, Opinion::Fails(..)) || matches!(opinions.approved, Opinion::Fails(..));
            prop_assert_eq!(fails(&together), fails(&one_by_one));
            for no in [None, Some(Decision::new(Effect::Deny, "role", String::new()))] {
                let (together, one_by_one) = (called(no.clone(), &together), called(no, &one_by_one));
                prop_assert_eq!(together.as_ref().map(|decision| decision.effect), one_by_one.as_ref().map(|decision| decision.effect));
                if !fails(&rules.on_call(inquiry)) {
                    prop_assert_eq!(together, one_by_one);
                }
            }
        }
    }

    /// Decided natively and by Cedar, a role grants the same.
    #[test]
    fn a_role_is_the_rule_that_it_generates(
        tools in proptest::collection::vec(proptest::sample::select(&["*", "read_*", "*_a", "wipe", "pay_?", "{refund,x}"][..]), 1..3),
        exclude in proptest::collection::vec(proptest::sample::select(&["read_a", "pay_*", "[rw]*"][..]), 0..2),
        levels in (0..3_usize, 0..5_usize, 0..5_usize),
        (_, mut tool, _, _) in any_call(),
    ) {
        let risks = [Risk::Read, Risk::Write, Risk::Dangerous];
        let permissions =
            [Permission::Read, Permission::Write, Permission::Execute, Permission::Network, Permission::System];
        let globs: Vec<&str> = tools.iter().chain(&exclude).copied().collect();
        tool.permission = permissions[levels.2];
        let role = Role::new("x").risk(risks[levels.0]).permission(permissions[levels.1]).ask(Ask::Never);
        let role = tools.iter().fold(role, |role, glob| role.allow(*glob));
        let role = exclude.iter().fold(role, |role, glob| role.exclude(*glob));
        let native = Policy::new([role]).unwrap();
        let text = native.role_as_rule("x").unwrap();
        let sets = globs.iter().map(|glob| ((*glob).to_owned(), vec![(*glob).to_owned()])).collect();
        // The same rule for a role that grants nothing of its own.
        let bare = Role::new("x").allow("no_such_tool").ask(Ask::Never);
        let source = RuleSource { file: "generated".into(), text: text.into(), sets, ..RuleSource::default() };
        let cedar = Policy::new([bare]).unwrap().with_rules(&source).unwrap();
        for arguments in [None, Some(&json!({}))] {
            let effect = |policy: &Policy| policy.decide(&caller("x"), &tool, arguments, &HERE).effect;
            prop_assert_eq!(effect(&native), effect(&cedar));
        }
    }
}
