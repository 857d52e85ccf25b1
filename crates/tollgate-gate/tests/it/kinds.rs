//! Resources, templates, prompts and completions: calls of their kind through the same stages as tools.

use std::sync::Arc;

use serde_json::{Value, json};
use tollgate_policy::{Policy, Role};
use tollgate_types::{
    Call, CallKind, Changed, Code, Door, End, Outcome, Permission, Raw, Risk, Secret, Tool, ToolDefinition, ToolOutput,
};

use crate::world::{Setup, TestTool, World, developer, tool};

const NOTE: &str = "mcp__x__resources/demo://note/1";
const NOTES: &str = "mcp__x__resources/demo://note/{id}";
const GREET: &str = "mcp__x__prompts/greet";

/// An entry that says with what it was asked, in raw JSON with a number that no float holds.
fn entry(name: &str, kind: CallKind) -> TestTool {
    let says = |arguments: Value, cx: tollgate_types::Cx| async move {
        let text = format!(r#"{{"kind":"{}","arguments":{arguments},"n":123456789012345678901}}"#, cx.kind.as_str());
        let raw: Box<serde_json::value::RawValue> = serde_json::from_str(&text).unwrap();
        let structured = serde_json::from_str(&text).unwrap();
        Ok(ToolOutput { content: Vec::new(), structured: Some(structured), raw: Some(raw.into()) })
    };
    tool(name, Risk::Read, says).define(|definition| {
        definition.kind = kind;
        definition.annotations.open_world = Some(true);
    })
}

fn entries() -> Vec<Arc<dyn Tool>> {
    let uri = |schema: Value| json!({ "type": "object", "properties": { "uri": schema }, "required": ["uri"] });
    vec![
        entry(NOTE, CallKind::Resource).schema(uri(json!({ "const": "demo://note/1" }))).arc(),
        entry(NOTES, CallKind::Template).schema(uri(json!({ "type": "string" }))).arc(),
        entry(GREET, CallKind::Prompt).arc(),
        tool("echo", Risk::Read, |arguments, _| async move { Ok(ToolOutput::structured(arguments)) }).arc(),
    ]
}

fn world(roles: Vec<Role>) -> World {
    World::with(Setup { roles, tools: entries(), ..Setup::default() })
}

fn role() -> Role {
    Role::new("developer").risk(Risk::Read).permission(Permission::Read)
}

async fn read(world: &World, uri: &str) -> Outcome {
    let name = format!("mcp__x__resources/{uri}");
    world.gate.call(&developer(), Call::of(CallKind::Resource, name, json!({ "uri": uri }))).await
}

async fn listed(world: &World, kind: CallKind) -> Vec<String> {
    let listed = world.gate.list_kind(&developer(), kind).await;
    listed.iter().map(|definition: &Arc<ToolDefinition>| definition.name.clone()).collect()
}

#[tokio::test]
async fn each_kind_is_listed_and_called_as_what_it_is() {
    let world = world(vec![role().allow("*")]);
    assert_eq!(listed(&world, CallKind::Tool).await, ["echo", "read_result"]);
    assert_eq!(listed(&world, CallKind::Resource).await, [NOTE]);
    assert_eq!(listed(&world, CallKind::Template).await, [NOTES]);
    assert_eq!(listed(&world, CallKind::Prompt).await, [GREET]);
    assert_eq!(listed(&world, CallKind::Completion).await, <[String; 0]>::default());
    for (kind, name, code) in [
        (CallKind::Prompt, GREET, None),
        (CallKind::Tool, GREET, Some(Code::UnknownTool)),
        (CallKind::Tool, NOTE, Some(Code::UnknownTool)),
        (CallKind::Prompt, NOTE, Some(Code::UnknownTool)),
        (CallKind::Resource, GREET, Some(Code::UnknownTool)),
        (CallKind::Prompt, "echo", Some(Code::UnknownTool)),
        (CallKind::Template, "echo", Some(Code::UnknownTool)),
        (CallKind::Completion, "echo", Some(Code::UnknownTool)),
        (CallKind::Completion, NOTE, Some(Code::UnknownTool)),
    ] {
        let outcome = world.gate.call(&developer(), Call::of(kind, name, json!({}))).await;
        assert_eq!(outcome.code(), code, "{kind:?} {name}");
        assert_eq!(world.record(&outcome, "received")["kind"], kind.as_str());
    }
}

#[tokio::test]
async fn a_resource_that_no_list_names_is_read_by_its_template_and_recorded_as_itself() {
    let world = world(vec![role().allow("*")]);
    let known = read(&world, "demo://note/1").await;
    assert_eq!(world.record(&known, "finished")["tool"]["name"], NOTE);
    let other = read(&world, "demo://note/2").await;
    assert_eq!(world.record(&other, "finished")["tool"]["name"], "mcp__x__resources/demo://note/2");
    let End::Done(result) = &other.end else { panic!("{other:?}") };
    let whole = r#"{"kind":"resource","arguments":{"uri":"demo://note/2"},"n":123456789012345678901}"#;
    assert_eq!(result.raw.as_ref().map(Raw::get), Some(whole));
    assert!(result.outside);
    for uri in ["demo://note/1/2", "demo://other/1", "demo://note/", "demo://note/{id}x/"] {
        assert_eq!(read(&world, uri).await.code(), Some(Code::UnknownTool), "{uri}");
    }
    // The name and the arguments say the same.
    let name = "mcp__x__resources/demo://note/2";
    let call = Call::of(CallKind::Resource, name, json!({ "uri": "demo://note/3" }));
    assert_eq!(world.gate.call(&developer(), call).await.code(), Some(Code::InvalidArguments));
}

#[tokio::test]
async fn a_template_opens_nothing_that_its_own_name_does_not() {
    let roles = vec![role().allow("mcp__x__*").exclude("mcp__x__resources/demo://note/secret*")];
    let world = world(roles);
    assert_eq!(read(&world, "demo://note/2").await.code(), None);
    let outcome = read(&world, "demo://note/secret-1").await;
    assert_eq!(outcome.code(), Some(Code::UnknownTool));
    assert_eq!(world.record(&outcome, "finished")["outcome"]["code"], "forbidden");

    // What may not be read may not be followed either.
    let follow =
        |uri: &str| Call::of(CallKind::Subscription, format!("mcp__x__resources/{uri}"), json!({ "uri": uri }));
    for (uri, code) in [
        ("demo://note/1", None),
        ("demo://note/2", None),
        ("demo://note/secret-1", Some(Code::UnknownTool)),
        ("demo://other", Some(Code::UnknownTool)),
    ] {
        assert_eq!(world.gate.call(&developer(), follow(uri)).await.code(), code, "{uri}");
    }

    // And the answer without the call is the same; what is not there is neither.
    let changes = world.gate.changes().watch(&developer());
    for (uri, is_allowed) in [
        ("demo://note/1", Some(true)),
        ("demo://note/2", Some(true)),
        ("demo://note/secret-1", Some(false)),
        ("demo://other", None),
    ] {
        let following = world.gate.following(&developer(), follow(uri));
        assert_eq!((following.is_allowed, following.name), (is_allowed, format!("mcp__x__resources/{uri}")));
    }
    assert_eq!(changes.take(), Changed::default(), "asking changes nothing");
    world.gate.replace_policy(Policy::new([role().allow("echo")]).unwrap()).unwrap();
    assert!(changes.take().lists);
    assert_eq!(world.gate.following(&developer(), follow("demo://note/1")).is_allowed, Some(false));
    assert!(world.gate.list_now(&developer(), CallKind::Resource).is_empty());
    assert!(world.gate.unregister(NOTE) && changes.take().lists);
    assert!(!world.gate.unregister(NOTE) && !changes.take().lists);

    let only_one = World::with(Setup {
        roles: vec![role().allow("mcp__x__resources/demo://note/2")],
        tools: entries(),
        ..Setup::default()
    });
    assert_eq!(read(&only_one, "demo://note/2").await.code(), Some(Code::UnknownTool), "nobody granted the template");
}

#[tokio::test]
async fn who_may_not_have_a_prompt_may_not_complete_it() {
    let complete = |name: &'static str, arguments: Value| Call::of(CallKind::Completion, name, arguments);
    let argument = json!({ "argument": { "name": "who", "value": "a" } });
    let world = world(vec![role().allow("mcp__x__*").exclude("mcp__x__resources/*")]);
    let outcome = world.gate.call(&developer(), complete(GREET, argument.clone())).await;
    let End::Done(result) = &outcome.end else { panic!("{outcome:?}") };
    assert_eq!(result.structured.as_ref().unwrap()["kind"], "completion");
    let received = world.record(&outcome, "received");
    assert_eq!((&received["kind"], &received["tool"]["name"]), (&json!("completion"), &json!(GREET)));
    let hidden = world.gate.call(&developer(), complete(NOTES, argument)).await;
    assert_eq!(hidden.code(), Some(Code::UnknownTool));
    for bad in [json!({}), json!({ "argument": "who" }), json!({ "argument": { "name": "who" } })] {
        let outcome = world.gate.call(&developer(), complete(GREET, bad.clone())).await;
        assert_eq!(outcome.code(), Some(Code::InvalidArguments), "{bad}");
    }
}

#[tokio::test]
async fn secrets_leave_by_no_raw_result() {
    let setup = Setup {
        roles: vec![role().allow("*")],
        tools: entries(),
        secrets: vec![Secret::new("demo://note/4711-4711")],
        ..Setup::default()
    };
    let world = World::with(setup);
    let outcome = read(&world, "demo://note/4711-4711").await;
    let End::Done(result) = &outcome.end else { panic!("{outcome:?}") };
    assert_eq!(result.raw, None);
    assert!(!result.structured.as_ref().unwrap().to_string().contains("4711-4711"), "{result:?}");
}

#[tokio::test]
async fn names_of_entries_are_checked_and_kept_apart() {
    let world = World::new([]);
    let register = |name: &str, kind| world.gate.register(entry(name, kind).arc()).map_err(|error| error.to_string());
    for name in ["plain", "mcp__x__resources/", "mcp__x__resources/a\nb", &format!("prompts/{}", "x".repeat(4_096))] {
        assert!(register(name, CallKind::Resource).is_err(), "{name}");
    }
    assert!(register("resources/x://{a", CallKind::Template).unwrap_err().contains("not closed"));
    assert!(register("resources/x", CallKind::Tool).is_err());
    register("resources/a_b", CallKind::Resource).unwrap();
    register("resources/A-B", CallKind::Resource).unwrap();
    assert!(register("resources/a_b", CallKind::Prompt).unwrap_err().contains("registered already"));
}
