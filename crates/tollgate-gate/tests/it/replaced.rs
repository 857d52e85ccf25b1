//! A policy that is replaced while a call is on its way: the one of now counts, and what it hides is unknown.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use serde_json::{Value, json};
use tollgate_gate::Gate;
use tollgate_policy::{Ask, Policy, Role, RuleSource};
use tollgate_types::{
    ApprovalAnswer, ApprovalChannel, ApprovalQuestion, BoxFuture, Code, Cx, Permission, Risk, Status, Tool,
    ToolDefinition, ToolError, ToolOutput,
};

use crate::world::{Setup, World, tool};

fn roles(ask: Ask) -> Vec<Role> {
    vec![Role::new("developer").allow("*").risk(Risk::Dangerous).permission(Permission::System).ask(ask)]
}

fn policy(ask: Ask, rules: &str) -> Policy {
    let source = RuleSource { file: "rules.cedar".into(), text: rules.into(), ..RuleSource::default() };
    Policy::new(roles(ask)).unwrap().with_rules(&source).unwrap()
}

/// Hides `pay`, or only denies it.
const HIDES: &str = r#"@id("hides") forbid (principal, action, resource == Tollgate::Tool::"pay");"#;
const DENIES: &str = r#"@id("denies") @reason("closed") forbid (principal, action, resource == Tollgate::Tool::"pay")
when { context.hour >= 0 };"#;
const ALLOWS: &str = "";

/// A tool during whose check the policy is replaced: after it was admitted, before it is judged.
struct Overtaken {
    gate: OnceLock<Gate>,
    rules: &'static str,
}

impl Tool for Overtaken {
    fn definition(&self) -> ToolDefinition {
        let mut definition = ToolDefinition::new("pay", "Pays.");
        definition.permission = Permission::Read;
        definition
    }

    fn check(&self, _: &Value, _: &Cx) -> Result<(), ToolError> {
        self.gate.get().unwrap().replace_policy(policy(Ask::Never, self.rules)).unwrap();
        Ok(())
    }

    fn call(&self, _: Value, _: Cx) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        Box::pin(std::future::ready(Ok(ToolOutput::text("paid"))))
    }
}

#[tokio::test]
async fn between_admission_and_judgement() {
    for (rules, code, recorded) in [
        (HIDES, Some(Code::UnknownTool), json!("forbidden")),
        (DENIES, Some(Code::Denied), json!("denied")),
        (ALLOWS, None, Value::Null),
    ] {
        let overtaken = Arc::new(Overtaken { gate: OnceLock::new(), rules });
        let tools: Vec<Arc<dyn Tool>> = vec![Arc::<Overtaken>::clone(&overtaken)];
        let world = World::with(Setup { roles: roles(Ask::Never), tools, ..Setup::default() });
        assert!(overtaken.gate.set(world.gate.clone()).is_ok());
        let outcome = world.call("pay", json!({})).await;
        assert_eq!(outcome.code(), code, "{rules}");
        assert_eq!(world.record(&outcome, "finished")["outcome"]["code"], recorded);
        assert_eq!(world.record(&outcome, "decided")["policy"], world.gate.policy().hash());
        if rules == HIDES {
            let none = world.call("pax", json!({})).await;
            let said = |of: &tollgate_types::Outcome, name: &str| {
                serde_json::to_string(of.end.error().unwrap()).unwrap().replace(name, "NAME")
            };
            assert_eq!(said(&outcome, "pay"), said(&none, "pax"));
        }
    }
}

/// A human who takes so long that the policy is another one meanwhile.
struct Slow {
    gate: OnceLock<Gate>,
    rules: &'static str,
}

impl ApprovalChannel for Slow {
    fn ask<'a>(&'a self, _: &'a ApprovalQuestion) -> BoxFuture<'a, ApprovalAnswer> {
        self.gate.get().unwrap().replace_policy(policy(Ask::Always, self.rules)).unwrap();
        Box::pin(std::future::ready(ApprovalAnswer::Approved { by: "alice".into(), typed: None }))
    }
}

#[tokio::test]
async fn while_a_human_thinks() {
    for (rules, code) in [(HIDES, Some(Code::UnknownTool)), (DENIES, Some(Code::Denied)), (ALLOWS, None)] {
        let (runs, slow) = (Arc::new(AtomicUsize::new(0)), Arc::new(Slow { gate: OnceLock::new(), rules }));
        let counted = Arc::clone(&runs);
        let pay = tool("pay", Risk::Dangerous, move |_, _| {
            counted.fetch_add(1, Ordering::SeqCst);
            async { Ok(ToolOutput::text("paid")) }
        });
        let channel: Arc<dyn ApprovalChannel> = Arc::<Slow>::clone(&slow);
        let (roles, tools) = (roles(Ask::Always), vec![pay.arc()]);
        let world = World::with(Setup { roles, tools, channel: Some(channel), ..Setup::default() });
        assert!(slow.gate.set(world.gate.clone()).is_ok());
        let outcome = world.call("pay", json!({})).await;
        assert_eq!(outcome.code(), code, "{rules}: a yes is judged again by the policy of now");
        assert_eq!(runs.load(Ordering::SeqCst), usize::from(code.is_none()));
        let decided: Vec<Value> = world
            .records()
            .into_iter()
            .filter(|record| record["event"] == "decided")
            .map(|it| it["policy"].clone())
            .collect();
        assert_eq!(decided.last(), Some(&json!(world.gate.policy().hash())), "recorded by which");
        if code.is_some() {
            // The yes is still there, and of use once the policy allows it again.
            world.gate.replace_policy(policy(Ask::Always, ALLOWS)).unwrap();
            assert_eq!(world.call("pay", json!({})).await.status(), Status::Done);
        }
    }
}
