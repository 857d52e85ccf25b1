//! Find, admit and validate.

use serde_json::json;
use tollgate_policy::Role;
use tollgate_types::{Call, Caller, Code, Door, Permission, Risk, Status, Surface, ToolOutput};

use crate::world::{Setup, World, developer, echo, tool};

#[tokio::test]
async fn a_call_runs_and_its_record_says_so() {
    let world = World::new([echo().arc()]);
    let outcome = world.call("echo", json!({"text": "你好"})).await;
    assert_eq!(outcome.status(), Status::Done);
    assert_eq!(outcome.result().unwrap().structured, Some(json!({"text": "你好", "times": 1})), "defaults are filled");
    assert_eq!(world.events(&outcome), ["received", "decided", "started", "finished"]);

    let received = world.record(&outcome, "received");
    assert_eq!(received["arguments"], json!({"text": "你好"}), "as it was asked");
    assert_eq!(received["caller"], json!({"subject": "bob", "role": "developer", "surface": "library"}));
    let decided = world.record(&outcome, "decided");
    assert_eq!(decided["decision"]["effect"], "allow");
    assert_eq!(decided["args_hmac"].as_str().unwrap().len(), 64);
    assert_eq!(decided["policy"].as_str().unwrap().len(), 64);
    let finished = world.record(&outcome, "finished");
    assert_eq!(finished["outcome"], json!({"status": "done"}));
    assert_eq!(finished["tool"]["source"], "native");
    assert!(world.records().iter().all(|record| record["sandbox"] == "none"));
    assert!(world.records().iter().all(|record| record.get("arguments").is_none() || record["event"] == "received"));
    assert!(world.records().iter().all(|record| record.get("result").is_none() || record["event"] == "finished"));
}

#[tokio::test]
async fn what_is_not_for_this_caller_does_not_exist_for_it() {
    let hidden = tool("delete_all", Risk::Dangerous, |_, _| async { Ok(ToolOutput::text("gone")) });
    let world = World::new([echo().arc(), hidden.arc()]);
    let reader = Caller::new("eve", "reader", Surface::McpStdio);
    let forbidden = world.gate.call(&reader, Call::tool("delete_all", json!({}))).await;
    let missing = world.gate.call(&reader, Call::tool("delete_alt", json!({}))).await;
    let told = |outcome: &tollgate_types::Outcome, name: &str| {
        serde_json::to_string(outcome.end.error().unwrap()).unwrap().replace(name, "NAME")
    };
    assert_eq!(forbidden.code(), Some(Code::UnknownTool));
    assert_eq!(told(&forbidden, "delete_all"), told(&missing, "delete_alt"));
    assert_eq!(world.record(&forbidden, "finished")["outcome"]["code"], "forbidden");
    assert_eq!(world.record(&missing, "finished")["outcome"]["code"], "unknown_tool");
}

#[tokio::test]
async fn suggestions_name_only_what_may_be_seen() {
    let hidden = tool("write_all", Risk::Dangerous, |_, _| async { Ok(ToolOutput::text("")) });
    let world = World::new([echo().define(|d| d.name = "write_note".into()).arc(), hidden.arc()]);
    let reader = Caller::new("eve", "reader", Surface::McpStdio);
    let outcome = world.gate.call(&reader, Call::tool("write_nota", json!({}))).await;
    let hint = outcome.end.error().unwrap().hint.clone().unwrap();
    assert!(hint.contains("`write_note`") && !hint.contains("write_all"), "{hint}");
}

#[tokio::test]
async fn listed_is_callable_and_nothing_else() {
    let tools = [
        echo().arc(),
        tool("w", Risk::Write, |_, _| async { Ok(ToolOutput::text("ok")) }).arc(),
        tool("d", Risk::Dangerous, |_, _| async { Ok(ToolOutput::text("ok")) }).arc(),
        tool("n", Risk::Read, |_, _| async { Ok(ToolOutput::text("ok")) })
            .define(|d| d.permission = Permission::Network)
            .arc(),
    ];
    let names: Vec<String> = tools.iter().map(|tool| tool.definition().name).collect();
    let roles = vec![
        Role::new("narrow").allow("e*"),
        Role::new("writer").allow("*").exclude("d").risk(Risk::Dangerous).permission(Permission::Read),
    ];
    let world = World::with(Setup { tools: tools.to_vec(), roles, ..Setup::default() });
    for role in ["developer", "reader", "narrow", "writer", "nobody"] {
        let caller = Caller::new("bob", role, Surface::Library);
        let listed: Vec<String> = world.gate.list(&caller).await.iter().map(|d| d.name.clone()).collect();
        for name in &names {
            let outcome = world.gate.call(&caller, Call::tool(name.clone(), json!({"text": "x"}))).await;
            assert_eq!(listed.contains(name), outcome.code() != Some(Code::UnknownTool), "{role} {name}");
        }
    }
}

#[tokio::test]
async fn every_error_is_named_by_its_pointer() {
    let world = World::new([echo().arc()]);
    let outcome = world.call("echo", json!({"times": 99, "txet": "x"})).await;
    let error = outcome.end.error().unwrap();
    assert_eq!((error.error, outcome.status()), (Code::InvalidArguments, Status::Refused));
    let paths: Vec<&str> = error.details.iter().map(|detail| detail.path.as_str()).collect();
    assert!(error.details.len() >= 3 && paths.contains(&"/times"), "{:?}", error.details);
    assert!(
        error.details.iter().any(|detail| detail.unknown == ["txet"] && detail.accepted.contains(&"text".to_owned()))
    );
    assert_eq!(world.events(&outcome), ["received", "finished"], "it was never started");
}

#[tokio::test]
async fn what_can_be_mended_without_loss_is_and_is_recorded() {
    let world = World::new([echo().arc()]);
    let outcome = world.raw("echo", r#""{\"text\":\"a\",\"times\":\"3\"}""#).await;
    assert_eq!(outcome.result().unwrap().structured, Some(json!({"text": "a", "times": 3})));
    let rules: Vec<&str> = outcome.repairs.iter().map(|repair| repair.rule.as_str()).collect();
    assert!(rules.contains(&"double_encoded") && rules.contains(&"string_to_integer"), "{rules:?}");
    assert_eq!(world.record(&outcome, "decided")["repairs"].as_array().unwrap().len(), rules.len());
    assert!(world.record(&outcome, "received")["arguments"].is_string(), "the text as it came");
}

#[tokio::test]
async fn broken_arguments_are_refused_and_recorded() {
    let world = World::new([echo().arc()]);
    let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let cases = [
        (r#"{"text": "a""#, Code::InvalidJson),
        (r#"{"text": "a", "text": "b"}"#, Code::InvalidJson),
        (r#"{"text":"C:\data\reports"}"#, Code::InvalidJson),
        (r#"{"text":"\ud83dA"}"#, Code::InvalidJson),
        (r#"["a"]"#, Code::InvalidArguments),
        ("7", Code::InvalidArguments),
        ("", Code::InvalidArguments),
        ("null", Code::InvalidArguments),
        (r#"{"text":"a","times":0.5}"#, Code::InvalidArguments),
        (r#"{"text":null}"#, Code::InvalidArguments),
        (nested.as_str(), Code::InvalidJson),
    ];
    for (arguments, code) in cases {
        let outcome = world.raw("echo", arguments).await;
        let shown: String = arguments.chars().take(40).collect();
        assert_eq!(outcome.code(), Some(code), "{shown}: {:?}", outcome.end);
        assert_eq!(world.events(&outcome), ["received", "finished"], "{shown}");
    }
    assert!(tollgate_ledger::verify(world.folder.path()).unwrap().ok);
}

#[tokio::test]
async fn a_tools_own_check_refuses_before_it_runs() {
    struct Picky;
    impl tollgate_types::Tool for Picky {
        fn definition(&self) -> tollgate_types::ToolDefinition {
            let mut definition = tollgate_types::ToolDefinition::new("picky", "A tool with a check of its own.");
            definition.risk = Risk::Read;
            definition
        }
        fn check(&self, _: &serde_json::Value, _: &tollgate_types::Cx) -> Result<(), tollgate_types::ToolError> {
            Err(tollgate_types::ToolError::with_code(Code::Denied, "not here").with_hint("elsewhere"))
        }
        fn call(
            &self,
            _: serde_json::Value,
            _: tollgate_types::Cx,
        ) -> tollgate_types::BoxFuture<'_, Result<ToolOutput, tollgate_types::ToolError>> {
            panic!("it must not run")
        }
    }
    let world = World::new([std::sync::Arc::new(Picky) as _]);
    let outcome = world.call("picky", json!({})).await;
    assert_eq!((outcome.status(), outcome.code()), (Status::Refused, Some(Code::Denied)));
    assert_eq!(world.events(&outcome), ["received", "finished"]);
}

#[tokio::test]
async fn a_tool_calls_through_the_same_door() {
    let outer = tool("outer", Risk::Read, |_, cx| async move {
        let call = Call::tool("echo", json!({"text": "inner"})).with_parent(cx.attempt.clone());
        Ok(ToolOutput::text(cx.door.call(&cx.caller, call).await.model_text()))
    });
    let world = World::new([echo().arc(), outer.arc()]);
    let outcome = world.call("outer", json!({})).await;
    assert_eq!(outcome.model_text(), r#"{"text":"inner","times":1}"#);
    let parents: Vec<_> = world.records().iter().filter_map(|record| record.get("parent").cloned()).collect();
    assert!(!parents.is_empty() && parents.iter().all(|parent| parent == outcome.attempt.as_ref().unwrap().as_str()));
}

#[test]
fn two_tools_of_one_name_are_an_error() {
    let result = std::panic::catch_unwind(|| World::new([echo().arc(), echo().arc()]));
    assert!(result.is_err());
    let _ = developer();
}
