//! `[prompts.NAME]`: listed, filled in, completed and recorded through the gate.

use serde_json::{Value, json};
use tollgate::{Call, CallKind, Caller, Code, Door, Outcome, Surface};

use crate::world::{World, refused};

const EXAMPLES: &str = include_str!("../../../../examples/prompts/tollgate.toml");

async fn get(world: &World, name: &str, arguments: Value) -> Outcome {
    world.house.call(&reader(), Call::of(CallKind::Prompt, format!("prompts/{name}"), arguments)).await
}

async fn text(world: &World, name: &str, arguments: Value) -> String {
    let outcome = get(world, name, arguments).await;
    let said = outcome.result().unwrap_or_else(|| panic!("{outcome:?}")).structured.clone().unwrap();
    assert_eq!(
        (&said["messages"][0]["role"], &said["messages"][0]["content"]["type"]),
        (&json!("user"), &json!("text"))
    );
    said["messages"][0]["content"]["text"].as_str().unwrap().to_owned()
}

fn reader() -> Caller {
    Caller::new("ada", "reader", Surface::Library)
}

async fn names(door: &dyn Door, caller: &Caller) -> Vec<String> {
    crate::world::names(door, caller, CallKind::Prompt).await
}

#[tokio::test]
async fn the_examples_are_listed_and_filled_in() {
    let world = World::new(&format!("{EXAMPLES}\n[sets.git]\nprompts = [\"prompts/commit_*\"]\n")).await;
    let all = ["prompts/code_review_prompt", "prompts/commit_message_prompt"];
    assert_eq!(names(&*world.house.door(), &reader()).await, all);
    let set = world.house.view("git", world.house.door()).unwrap();
    assert_eq!(names(&set, &reader()).await, ["prompts/commit_message_prompt"]);
    let outside = set.call(&reader(), Call::of(CallKind::Prompt, all[0], json!({ "diff": "x" }))).await;
    assert_eq!(outside.code(), Some(Code::UnknownTool));
    let tools = world.house.list(&reader()).await;
    assert!(tools.iter().all(|tool| !tool.name.contains('/')), "no model is offered a prompt");

    // What is filled in is data: it is no template, and no end of ours.
    let diff = "+ let x = \"{{ 7 * 7 }} {% for %}\"; // 北京";
    let review = text(&world, "code_review_prompt", json!({ "diff": diff, "focus": "安全", "language": "中文" })).await;
    assert!(
        review.contains(diff) && review.contains("above all its 安全") && review.contains("Answer in 中文."),
        "{review}"
    );
    let plain = text(&world, "code_review_prompt", json!({ "diff": diff })).await;
    assert!(!plain.contains("above all") && !plain.contains("Answer in"), "{plain}");
    let commit = text(&world, "commit_message_prompt", json!({ "diff": diff, "style": "conventional" })).await;
    assert!(commit.contains("`fix:`") && !commit.contains("in the imperative"), "{commit}");

    for wrong in [json!({}), json!({ "diff": "x", "no": "y" }), json!({ "diff": { "x": 1 } })] {
        assert_eq!(
            get(&world, "code_review_prompt", wrong.clone()).await.code(),
            Some(Code::InvalidArguments),
            "{wrong}"
        );
    }
    assert_eq!(get(&world, "none", json!({})).await.code(), Some(Code::UnknownTool));
    let recorded = get(&world, "commit_message_prompt", json!({ "diff": "x" })).await;
    assert_eq!(world.records(&recorded)[0]["kind"], "prompt");
}

#[tokio::test]
async fn an_argument_is_completed_by_what_it_may_be() {
    let world = World::new(EXAMPLES).await;
    let complete = async |name: &str, value: &str| {
        let asked = json!({ "argument": { "name": name, "value": value } });
        let call = Call::of(CallKind::Completion, "prompts/code_review_prompt", asked);
        let outcome = world.house.call(&reader(), call).await;
        outcome.result().unwrap().structured.as_ref().unwrap()["completion"]["values"].clone()
    };
    assert_eq!(complete("focus", "S").await, json!(["security", "speed"]));
    assert_eq!(complete("focus", "正").await, json!(["正确性"]));
    assert_eq!(complete("diff", "").await, json!([]));
    assert_eq!(complete("none", "").await, json!([]));
}

#[tokio::test]
async fn a_role_grants_prompts_by_their_names_and_a_conversation_has_two_sides() {
    let world = World::new(
        "[roles.few]\ntools = [\"prompts/a*\"]\n[prompts.ab]\ndescription = \"d\"\ntemplate = \"t\"\n[prompts.b]\ndescription = \"d\"\n\
         messages = [{ role = \"assistant\", text = \"hello {{ who }}\" }, { role = \"user\", text = \"bye\" }]\n\
         arguments = [{ name = \"who\", required = true }]\n",
    )
    .await;
    let few = Caller::new("eve", "few", Surface::Library);
    assert_eq!(names(&*world.house.door(), &few).await, ["prompts/ab"]);
    let hidden = world.house.call(&few, Call::of(CallKind::Prompt, "prompts/b", json!({ "who": "x" }))).await;
    assert_eq!(hidden.code(), Some(Code::UnknownTool));
    let said = get(&world, "b", json!({ "who": "世界" })).await;
    let messages = said.result().unwrap().structured.as_ref().unwrap()["messages"].clone();
    assert_eq!((&messages[0]["role"], &messages[0]["content"]["text"]), (&json!("assistant"), &json!("hello 世界")));
    assert_eq!(messages[1]["role"], "user");
}

#[tokio::test]
async fn what_cannot_be_meant_is_named_by_its_line() {
    let prompt = "[prompts.p]\ndescription = \"d\"\n";
    for (text, line, part) in [
        (prompt.to_owned(), 1, "it says nothing"),
        (format!("{prompt}template = \"t\"\nmessages = [{{ role = \"user\", text = \"t\" }}]\n"), 4, "both"),
        (format!("{prompt}template = \"{{{{ diff }}}}\"\n"), 3, "undefined"),
        (format!("{prompt}template = \"{{{{ b }}}}\"\narguments = [{{ name = \"a\" }}]\n"), 3, "undefined"),
        (format!("{prompt}template = \"{{% if %}}\"\n"), 3, "syntax error"),
        (
            format!("{prompt}template = \"{{% for i in range(100000000) %}}x{{% endfor %}}\"\n"),
            3,
            "it cannot be filled in",
        ),
        (format!("{prompt}template = \"t\"\narguments = [{{ name = \"a b\" }}]\n"), 4, "`a b` is no name"),
        (
            format!("{prompt}template = \"t\"\narguments = [{{ name = \"a\" }}, {{ name = \"a\" }}]\n"),
            4,
            "`a` is no name",
        ),
        ("[prompts.\"a/b\"]\ndescription = \"d\"\ntemplate = \"t\"\n".into(), 1, "a name has 1 to 64"),
        ("[prompts.p]\ntemplate = \"t\"\n".into(), 1, "missing field `description`"),
    ] {
        let error = refused(&text).await;
        assert!(error.to_string().contains(part), "{text:?}: {error}");
        assert_eq!(error.line, line, "{text:?}: {error}");
    }
}
