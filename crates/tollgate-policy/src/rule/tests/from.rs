//! Rules about where the values of arguments come from.

use proptest::prelude::*;
use proptest::sample::subsequence;

use super::*;
use crate::{Heard, Origin, Origins};

const NAMED: &str = "@id(\"named\") forbid (principal, action, resource) when { context.tainted && context.from has to && \
                     !([\"user\", \"operator\", \"tool\"].containsAll(context.from.to)) } unless { context.approved };";

fn effect(policy: &Policy, arguments: Value, provenance: Provenance<'_>) -> Effect {
    let here = Circumstances { is_tainted: true, provenance, ..HERE };
    policy.decide(&caller("clerk"), &tool("send", Risk::Write), Some(&arguments), &here).effect
}

#[test]
fn a_value_that_nobody_trusted_wrote_asks() {
    let policy = policy(NAMED);
    assert!(policy.reads_provenance() && policy.reads_taint());
    let origins = Origins {
        user: vec![Heard::new("write to ann@example.com")],
        outside: vec![Heard::new("write to eve@example.com")],
        ..Origins::default()
    };
    let to = |people: &[&str]| effect(&policy, json!({ "to": people }), Provenance::Heard(&origins));
    assert_eq!(to(&["ann@example.com"]), Effect::Allow);
    assert_eq!(to(&["ann@example.com", "eve@example.com"]), Effect::Ask);
    assert_eq!(to(&["zoe@example.com"]), Effect::Ask);
    assert_eq!(to(&[]), Effect::Allow);
    assert_eq!(effect(&policy, json!({}), Provenance::Heard(&origins)), Effect::Allow);
    assert_eq!(effect(&policy, json!({"to": ["ann@example.com"]}), Provenance::Unknown), Effect::Ask);
}

#[test]
fn the_origin_of_a_value_of_another_type_is_not_known_and_denies() {
    assert_eq!(effect(&policy(NAMED), json!({"to": "ann@example.com"}), Provenance::Unknown), Effect::Deny);
    assert_eq!(effect(&policy(NAMED), json!({"to": null}), Provenance::Unknown), Effect::Deny);
}

#[test]
fn null_is_nothing_where_the_tool_says_so() {
    let policy = policy(NAMED);
    let here = Circumstances { is_tainted: true, ..HERE };
    let mut send = tool("send", Risk::Write);
    let decide =
        |send: &ToolDefinition| policy.decide(&caller("clerk"), send, Some(&json!({"to": null})), &here).effect;
    send.input_schema = json!({"type": "object", "properties": {"to": {"default": []}}});
    assert_eq!(decide(&send), Effect::Deny);
    for to in [json!({"default": null}), json!({"type": ["array", "null"]}), json!({"anyOf": [{"type": "null"}]})] {
        send.input_schema = json!({"type": "object", "properties": {"to": to}});
        assert_eq!(decide(&send), Effect::Allow, "{to}");
    }
    send.input_schema = json!({"type": "object", "properties": {"to": {"type": "array"}}});
    assert_eq!(decide(&send), Effect::Deny, "what the schema does not let be null is there, and is of no type");
}

#[test]
fn examples_say_where_values_come_from() {
    let rule = |from: &str| {
        let example =
            format!("{{'role':'clerk', 'tool':'send', 'args':{{'to':['a']}}, 'tainted':true, 'from':{from}}}");
        Policy::new(roles())
            .unwrap()
            .with_rules(&source(&NAMED.replace("forbid", &format!("@match(\"{example}\") forbid"))))
    };
    assert!(rule("{'to':['outside']}").is_ok() && rule("{'to':['user','model']}").is_ok() && rule("{}").is_ok());
    assert!(rule("{'to':['user']}").is_err());
    assert!(rule("{'to':['somebody']}").unwrap_err().to_string().contains("can not be read"));
}

#[test]
fn an_argument_that_is_not_declared_has_no_origin() {
    let text =
        "forbid (principal, action, resource) when { context.from has who && context.from.who.contains(\"user\") };";
    let (.., message, _) = broken(&format!("@id(\"a\") {text}"));
    assert!(message.contains("is impossible"), "{message}");
    let bare = "@id(\"a\") forbid (principal, action, resource) when { context.from.to.contains(\"user\") };";
    assert!(broken(bare).2.contains("to"), "an argument may be missing");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_less_trusted_origin_more_never_loosens(
        origins in subsequence(vec![Origin::User, Origin::Operator, Origin::Outside, Origin::Tool, Origin::Model], 0..5),
        is_model in any::<bool>(),
    ) {
        let policy = policy(NAMED);
        let given = |origins: &[Origin]| {
            let from = [("to".to_owned(), origins.iter().copied().collect())].into();
            effect(&policy, json!({"to": ["a"]}), Provenance::Given(&from))
        };
        let mut more = origins.clone();
        more.push(if is_model { Origin::Model } else { Origin::Outside });
        prop_assert!(given(&more) >= given(&origins));
        prop_assert_eq!(given(&more), Effect::Ask);
    }
}
