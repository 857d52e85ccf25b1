//! A stricter rule never loosens; and the policy by itself, on many more houses than can be opened.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;
use tokio::runtime::Runtime;
use tollgate::policy::{Circumstances, Effect, RuleSource};
use tollgate::{Caller, Code, Policy, ToolDefinition};
use tollgate_testkit::reference::any::{self, Change, at};
use tollgate_testkit::reference::{self, Asked, House, State, listed, pass, reach, registered};

use super::world::{World, product_policy, product_role};
use super::{fit, told};

/// How far a call came: the higher the stricter.
fn strictness(code: Option<Code>) -> u8 {
    match code {
        None => 0,
        Some(Code::ApprovalRequired) => 1,
        Some(Code::Denied) => 2,
        _ => 3,
    }
}

/// The change where it is one to the stricter.
fn stricter(house: &House, role: &str, change: &Change) -> Option<Change> {
    let (permission, risk, ask) = reach(house, role);
    let is_stricter = match change {
        Change::Exclude(_) => true,
        Change::Allow(_) | Change::ExcludeNothing => false,
        Change::Risk(to) => *to < risk,
        Change::Permission(to) => *to < permission,
        Change::Ask(to) => *to > ask,
    };
    is_stricter.then(|| change.clone())
}

fn forbid() -> impl Strategy<Value = String> {
    let head = select(vec!["principal, action, resource", "principal in Tollgate::Role::\"role0\", action, resource"]);
    let when = select(vec![
        "when { resource.risk_level > 1 }",
        "when { resource.name like \"*pay*\" }",
        "unless { context.approved }",
        "when { principal has tenant && principal.tenant == \"acme\" }",
        "when { resource.source == \"mcp\" } unless { context.approved }",
    ]);
    (head, when).prop_map(|(head, when)| format!("@id(\"no\") forbid ({head}) {when};\n"))
}

async fn strictnesses(world: &World, plan: &House, callers: &[Caller]) -> Vec<(u8, bool)> {
    let mut found = Vec::new();
    for caller in callers {
        let names = world.names(caller).await;
        for tool in registered(plan).into_iter().filter(|tool| tool.name != "read_result") {
            let asked = Asked { caller: caller.clone(), name: tool.name.clone(), arguments: fit(1) };
            found.push((strictness(world.call(&asked).await.code()), !names.contains(&tool.name)));
        }
    }
    found
}

proptest! {
    #![proptest_config(told(8))]

    #[test]
    fn a_stricter_rule_never_loosens(
        house in any::house(),
        callers in any::callers(),
        change in any::change(),
        forbid in forbid(),
    ) {
        let runtime = Runtime::new().unwrap();
        runtime.block_on(async {
            let mut plan = House { limit: None, ..house };
            plan.tools.truncate(10);
            let world = World::new(&mut plan).await;
            let mut before = strictnesses(&world, &plan, &callers).await;
            let changed = stricter(&plan, "role0", &change);
            if let (Some(change), Some(role)) = (changed, plan.roles.first_mut()) {
                change.apply(role);
            }
            for rules in ["", &forbid] {
                world.reload(&plan, rules).await;
                let after = strictnesses(&world, &plan, &callers).await;
                for (before, after) in before.iter().zip(&after) {
                    prop_assert!(after.0 >= before.0 && after.1 >= before.1, "{:?} became {:?}", before, after);
                }
                before = after;
            }
            Ok(())
        })?;
    }
}

fn effect(policy: &Policy, house: &House, caller: &Caller, tool: &ToolDefinition, is_call: bool) -> Effect {
    let here = Circumstances { environment: house.environment.as_deref(), ..Circumstances::default() };
    let arguments = json!({"n": 1});
    policy.decide(caller, tool, is_call.then_some(&arguments), &here).effect
}

proptest! {
    #![proptest_config(told(192))]

    #[test]
    fn the_policy_decides_as_the_reference(house in any::house(), callers in any::callers()) {
        let house = House { limit: None, ..house };
        let policy = product_policy(&house);
        for tool in registered(&house) {
            policy.compile(tool).unwrap();
            for caller in &callers {
                let is_listed = listed(&house, caller).contains(&tool.name);
                prop_assert_eq!(effect(&policy, &house, caller, tool, false) != Effect::Deny, is_listed);
                let asked = Asked { caller: caller.clone(), name: tool.name.clone(), arguments: fit(1) };
                let (expected, _) = pass(&house, &State::default(), &asked);
                let found = effect(&policy, &house, caller, tool, true);
                let expected = match strictness(expected.code) {
                    0 => Effect::Allow,
                    1 => Effect::Ask,
                    _ => Effect::Deny,
                };
                prop_assert_eq!(found, expected, "{} for {:?}", tool.name, caller);
            }
        }
    }

}

proptest! {
    #![proptest_config(told(24))]

    /// With all that it inherits, decided natively and by the rule that `policy explain` shows for it.
    #[test]
    fn a_role_is_the_rule_that_is_generated_for_it(house in any::house(), callers in any::callers(), role in 0..6_usize) {
        let Some(role) = at(&house.roles, role) else { return Ok(()) };
        let policy = product_policy(&house);
        let text = policy.role_as_rule(&role.name).unwrap();
        let globs = house.roles.iter().flat_map(|role| role.tools.iter().chain(&role.exclude));
        let sets = globs.map(|glob| (glob.clone(), vec![glob.clone()])).collect();
        let source = RuleSource { file: "generated".into(), text: text.into(), sets, ..RuleSource::default() };
        // A role of this name that grants nothing by itself, and asks as the other does.
        let (_, _, ask) = reach(&house, &role.name);
        let bare = product_role(&reference::Role { ask: Some(ask), ..reference::Role::default() });
        let bare = bare.allow("no_such_tool").named(role.name.as_str());
        let cedar = Policy::new([bare]).unwrap().with_rules(&source).unwrap();
        for tool in registered(&house) {
            policy.compile(tool).unwrap();
            cedar.compile(tool).unwrap();
            for caller in callers.iter().map(|caller| Caller { role: role.name.clone(), ..caller.clone() }) {
                for is_call in [false, true] {
                    let effect = |policy: &Policy| effect(policy, &house, &caller, tool, is_call);
                    // How often a human is asked is the role's own; whether it may at all is the rule's.
                    prop_assert_eq!(effect(&policy), effect(&cedar), "{}", tool.name);
                }
            }
        }
    }
}
