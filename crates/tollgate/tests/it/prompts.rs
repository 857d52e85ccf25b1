//! `[prompts.NAME]`: listed, filled in, completed and recorded through the gate.

use serde_json::{Value, json};
use tollgate::config::Loaded;
use tollgate::{Call, CallKind, Caller, Code, Door, Error, Outcome, Surface, Tollgate};

const EXAMPLES: &str = include_str!("../../../../examples/prompts/tollgate.toml");

struct World {
    house: Tollgate,
    _folder: tempfile::TempDir,
}

impl World {
    async fn new(config: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let house = built(&folder, config).await.unwrap();
        Self { house, _folder: folder }
    }

    async fn get(&self, name: &str, arguments: Value) -> Outcome {
        self.house.call(&ada(), Call::of(CallKind::Prompt, format!("prompts/{name}"), arguments)).await
    }

    async fn text(&self, name: &str, arguments: Value) -> String {
        let outcome = self.get(name, arguments).await;
        let said = outcome.result().unwrap_or_else(|| panic!("{outcome:?}")).structured.clone().unwrap();
        assert_eq!(
            (&said["messages"][0]["role"], &said["messages"][0]["content"]["type"]),
            (&json!("user"), &json!("text"))
        );
        said["messages"][0]["content"]["text"].as_str().unwrap().to_owned()
    }
}

async fn built(folder: &tempfile::TempDir, config: &str) -> Result<Tollgate, Error> {
    let file = folder.path().join("tollgate.toml");
    std::fs::write(&file, config).unwrap();
    Tollgate::builder().config(Loaded::read(&file, folder.path())?).build().await
}

fn ada() -> Caller {
    Caller::new("ada", "reader", Surface::Library)
}

async fn names(door: &dyn Door, caller: &Caller) -> Vec<String> {
    door.list_kind(caller, CallKind::Prompt).await.iter().map(|prompt| prompt.name.clone()).collect()
}

#[tokio::test]
async fn the_examples_are_listed_and_filled_in() {
    let world = World::new(&format!("{EXAMPLES}\n[sets.git]\nprompts = [\"prompts/commit_*\"]\n")).await;
    let all = ["prompts/code_review_prompt", "prompts/commit_message_prompt"];
    assert_eq!(names(&*world.house.door(), &ada()).await, all);
    let set = world.house.view("git", world.house.door()).unwrap();
    assert_eq!(names(&set, &ada()).await, ["prompts/commit_message_prompt"]);
    let outside = set.call(&ada(), Call::of(CallKind::Prompt, all[0], json!({ "diff": "x" }))).await;
    assert_eq!(outside.code(), Some(Code::UnknownTool));
    let tools = world.house.list(&ada()).await;
    assert!(tools.iter().all(|tool| !tool.name.contains('/')), "no model is offered a prompt");

    // What is filled in is data: it is no template, and no end of ours.
    let diff = "+ let x = \"{{ 7 * 7 }} {% for %}\"; // 北京";
    let review = world.text("code_review_prompt", json!({ "diff": diff, "focus": "安全", "language": "中文" })).await;
    assert!(
        review.contains(diff) && review.contains("above all its 安全") && review.contains("Answer in 中文."),
        "{review}"
    );
    let plain = world.text("code_review_prompt", json!({ "diff": diff })).await;
    assert!(!plain.contains("above all") && !plain.contains("Answer in"), "{plain}");
    let commit = world.text("commit_message_prompt", json!({ "diff": diff, "style": "conventional" })).await;
    assert!(commit.contains("`fix:`") && !commit.contains("in the imperative"), "{commit}");

    for wrong in [json!({}), json!({ "diff": "x", "no": "y" }), json!({ "diff": { "x": 1 } })] {
        assert_eq!(
            world.get("code_review_prompt", wrong.clone()).await.code(),
            Some(Code::InvalidArguments),
            "{wrong}"
        );
    }
    assert_eq!(world.get("none", json!({})).await.code(), Some(Code::UnknownTool));
    let recorded = world.get("commit_message_prompt", json!({ "diff": "x" })).await;
    let records =
        tollgate::ledger::attempt_records(world.house.data_dir(), recorded.attempt.as_ref().unwrap().as_str());
    assert_eq!(records.unwrap()[0].get("kind"), Some(&json!("prompt")));
}

#[tokio::test]
async fn an_argument_is_completed_by_what_it_may_be() {
    let world = World::new(EXAMPLES).await;
    let complete = async |name: &str, value: &str| {
        let asked = json!({ "argument": { "name": name, "value": value } });
        let call = Call::of(CallKind::Completion, "prompts/code_review_prompt", asked);
        let outcome = world.house.call(&ada(), call).await;
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
    let said = world.get("b", json!({ "who": "世界" })).await;
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
        let folder = tempfile::tempdir().unwrap();
        let Err(Error::Config(error)) = built(&folder, &text).await else { panic!("{text:?} was taken") };
        assert!(error.to_string().contains(part), "{text:?}: {error}");
        assert_eq!(error.line, line, "{text:?}: {error}");
    }
}
