//! The house's own capabilities as tools: who has them, what they tell, and whom an answer is not taken of.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate::{Call, Caller, Code, Cx, Outcome, Risk, Status, Surface, tool_fn};

use crate::world::World;

#[derive(Deserialize, JsonSchema)]
struct Said {
    text: String,
}

const OWN: [&str; 5] = ["answer_approval", "list_approvals", "list_roles", "query_ledger", "query_whole_ledger"];
const CONFIG: &str = r#"
[roles.boss]
tools = ["list_approvals", "answer_approval", "list_roles", "query_whole_ledger"]
risk = "dangerous"
permission = "system"
ask = "never"

[roles.careful]
inherits = "boss"
tools = ["list_roles"]
ask = "default"

[roles.clerk]
inherits = "developer"
tools = ["query_ledger"]

[roles.greedy]
tools = ["*", "list_*", "answer_approva?", "query_{ledger,whole_ledger}"]
risk = "dangerous"
permission = "system"
"#;

async fn world() -> World {
    let send = tool_fn("send", "Sends it.", |said: Said, _: Cx| async move { Ok(said.text) }).risk(Risk::Dangerous);
    World::having(CONFIG, |house| house.tool(send)).await
}

async fn ask(world: &World, caller: &Caller, tool: &str, arguments: Value) -> Outcome {
    world.house.call(caller, Call::tool(tool, arguments)).await
}

async fn told(world: &World, caller: &Caller, tool: &str, arguments: Value) -> Value {
    let outcome = ask(world, caller, tool, arguments).await;
    outcome.result().unwrap_or_else(|| panic!("{tool}: {outcome:?}")).structured.clone().unwrap()
}

fn of(subject: &str, role: &str) -> Caller {
    Caller::new(subject, role, Surface::Library)
}

#[tokio::test]
async fn only_a_role_that_names_them_has_them() {
    let world = world().await;
    for (role, has) in [
        ("developer", &[][..]),
        ("reader", &[]),
        ("greedy", &[]),
        ("boss", &["answer_approval", "list_approvals", "list_roles", "query_whole_ledger"]),
        ("clerk", &["query_ledger"]),
    ] {
        let caller = of("ada", role);
        let listed = world.house.list(&caller).await;
        let listed: Vec<&str> =
            listed.iter().map(|tool| tool.name.as_str()).filter(|name| OWN.contains(name)).collect();
        assert_eq!(listed, has, "{role}");
        for name in OWN {
            let is_known = ask(&world, &caller, name, json!({ "no": 1 })).await.code() != Some(Code::UnknownTool);
            assert_eq!(is_known, has.contains(&name), "{role}: {name}");
        }
    }
    let told = told(&world, &of("bob", "boss"), "list_roles", json!({})).await;
    let names: Vec<&str> =
        told["roles"].as_array().unwrap().iter().map(|role| role["role"].as_str().unwrap()).collect();
    assert_eq!(
        (&told["yours"], names),
        (&json!("boss"), vec!["boss", "careful", "clerk", "developer", "greedy", "reader"])
    );
    assert!(told["roles"][0]["grants"].as_str().unwrap().contains("permit"));
}

#[tokio::test]
async fn an_operator_answers_and_nobody_answers_a_call_of_their_own() {
    let world = world().await;
    let (ada, bob) = (of("ada", "developer"), of("bob", "boss"));
    let send = async || ask(&world, &ada, "send", json!({ "text": "北京" })).await;
    assert_eq!(send().await.status(), Status::Waiting);
    let open = told(&world, &bob, "list_approvals", json!({})).await;
    let question = &open["approvals"][0];
    assert_eq!((&question["tool"], &question["arguments"]), (&json!("send"), &json!({ "text": "北京" })));
    let id = question["id"].as_str().unwrap();

    let own = ask(&world, &of("ada", "boss"), "answer_approval", json!({ "id": id, "approve": true })).await;
    assert_eq!((own.code(), own.end.error().unwrap().tool_code.as_deref()), (Some(Code::Denied), Some("OWN_CALL")));
    let careful = ask(&world, &of("eve", "careful"), "answer_approval", json!({ "id": id, "approve": true })).await;
    assert_eq!(careful.status(), Status::Waiting, "by the default table the answer is itself asked about");
    for none in [id.split_at(id.len() - 1).0, "app_none"] {
        let unknown = ask(&world, &bob, "answer_approval", json!({ "id": none, "approve": true })).await;
        assert_eq!(unknown.end.error().unwrap().tool_code.as_deref(), Some("NOT_OPEN"), "a part of an id is none");
    }
    assert_eq!(send().await.status(), Status::Waiting);

    let said = json!({ "id": id, "approve": true, "reason": "好" });
    let answered = told(&world, &bob, "answer_approval", said.clone()).await;
    assert_eq!(
        (&answered["approval"]["status"], &answered["approval"]["decided_by"]),
        (&json!("approved"), &json!("bob"))
    );
    assert_eq!(send().await.model_text(), "北京");
    assert!(ask(&world, &bob, "answer_approval", said).await.code().is_some(), "it is answered once");
}

#[tokio::test]
async fn one_reads_of_ones_own_calls_and_the_operator_of_all() {
    let world = world().await;
    let clerk = |subject: &str| of(subject, "clerk");
    for subject in ["ada", "eve", "ada,eve"] {
        ask(&world, &clerk(subject), "calculate", json!({ "expression": "1+1" })).await;
    }
    let tenant = clerk("ada").with_tenant("other");
    ask(&world, &tenant, "calculate", json!({ "expression": "2+2" })).await;
    let calls = json!({ "tool": "calc*" });
    let subjects = async |caller: &Caller, tool: &str| {
        let told = told(&world, caller, tool, calls.clone()).await;
        let attempts = told["attempts"].as_array().unwrap().clone();
        attempts.iter().map(|attempt| attempt["caller"]["subject"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(subjects(&clerk("ada"), "query_ledger").await, ["ada"]);
    assert_eq!(subjects(&tenant, "query_ledger").await, ["ada"]);
    assert_eq!(
        subjects(&clerk("ada,eve"), "query_ledger").await,
        <[&str; 0]>::default(),
        "a name of two is none of them"
    );
    assert_eq!(subjects(&of("bob", "boss"), "query_whole_ledger").await, ["ada", "ada,eve", "eve", "ada"]);
    let page = told(&world, &of("bob", "boss"), "query_whole_ledger", json!({ "tool": "calc*", "limit": 3 })).await;
    let rest = json!({ "tool": "calc*", "limit": 3, "cursor": page["next"] });
    let rest = told(&world, &of("bob", "boss"), "query_whole_ledger", rest).await;
    assert_eq!((page["attempts"].as_array().unwrap().len(), rest["attempts"].as_array().unwrap().len()), (3, 1));
    for (wrong, place) in [
        (json!({ "since": "soon" }), "/since"),
        (json!({ "status": "good" }), "/status"),
        (json!({ "cursor": "x" }), "/cursor"),
    ] {
        let outcome = ask(&world, &clerk("ada"), "query_ledger", wrong).await;
        let error = outcome.end.error().unwrap();
        assert_eq!((error.error, error.details[0].path.as_str()), (Code::InvalidArguments, place));
    }
}
