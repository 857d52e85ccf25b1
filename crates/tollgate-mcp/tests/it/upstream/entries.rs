//! Resources, templates and prompts of servers: listed one by one, asked for by their own names, handed on as they came.

use std::sync::mpsc;

use tollgate_types::{CallKind, Owner, Permission, Raw, Risk, ToolDefinition, Unfollowed};

use super::*;

const NOTE: &str = "mcp__my_x__resources/demo://note/1";
const NOTES: &str = "mcp__my_x__resources/demo://note/{id}";
const GREET: &str = "mcp__my_x__prompts/greet";

/// The library in each era.
async fn libraries() -> Vec<House> {
    let mut houses = Vec::new();
    for era in ["2025-11-25", "2026-07-28"] {
        let configure = |folder: &Path| {
            let mut config = double(folder, "my_x", &[]);
            if let UpstreamKind::Stdio { args, .. } = &mut config.kind {
                *args = ["-S", servers::LIBRARY, era].map(ToOwned::to_owned).to_vec();
            }
            vec![config]
        };
        let house = House::of(configure, limits());
        house.upstreams.settle(NEVER).await;
        assert_eq!(house.status().era, Some(era), "{:?}", house.status());
        houses.push(house);
    }
    houses
}

async fn ask(house: &House, kind: CallKind, name: &str, arguments: Value) -> Result<ToolOutput, ToolError> {
    let mut cx = tollgate_testkit::cx("/");
    (cx.kind, cx.deadline) = (kind, NEVER);
    tokio::time::timeout(NEVER, find(&house.upstreams, name).call(arguments, cx)).await.unwrap()
}

fn raw(output: &ToolOutput) -> &str {
    output.raw.as_ref().map(Raw::get).unwrap()
}

#[tokio::test]
async fn each_is_an_entry_and_an_odd_one_is_set_aside_alone() {
    for house in libraries().await {
        let status = house.status();
        assert_eq!(status.tools, ["mcp__my_x__add_note"]);
        assert_eq!(
            (status.resources, status.prompts),
            (vec![NOTE.to_owned(), NOTES.to_owned()], vec![GREET.to_owned()])
        );
        let why: Vec<_> = status.quarantined.iter().map(|it| (it.tool.as_str(), it.reason.as_str())).collect();
        for ((tool, reason), (expected, part)) in why.iter().zip([
            ("again", "registered already"),
            ("without", "no `uri`"),
            ("broken", "control characters"),
            ("number 5", "invalid type"),
            ("broken", "not closed"),
            ("number 2", "no `name`"),
        ]) {
            assert!(*tool == expected && reason.contains(part), "{why:?}");
        }
        assert_eq!(why.len(), 6);

        let note: ToolDefinition = find(&house.upstreams, NOTE).definition();
        assert_eq!((note.kind, note.risk, note.permission), (CallKind::Resource, Risk::Read, Permission::Read));
        assert_eq!(note.annotations.open_world, Some(true));
        assert!(note.listing.unwrap().get().contains("1000000000000000000000000000000"), "it stays as it came");
        let greet = find(&house.upstreams, GREET).definition();
        assert_eq!(greet.input_schema["required"], json!(["who"]));
        assert_eq!(greet.input_schema["properties"]["who"], json!({ "type": "string", "description": "Whom." }));
    }
}

#[tokio::test]
async fn what_they_say_is_handed_on_whole_with_the_names_that_resources_have_here() {
    for house in libraries().await {
        let read = ask(&house, CallKind::Resource, NOTE, json!({ "uri": "demo://note/1" })).await.unwrap();
        let expected =
            r#"{"contents":[{"uri":"my.x+demo://note/1","text":"a note","n":123456789012345678901}],"vendor":1.50}"#;
        assert_eq!(raw(&read), expected);
        assert_eq!(read.structured.unwrap()["contents"][0]["text"], "a note");
        let read = ask(&house, CallKind::Resource, NOTES, json!({ "uri": "demo://note/7" })).await.unwrap();
        assert!(raw(&read).contains("my.x+demo://note/7"));
        let error = ask(&house, CallKind::Resource, NOTES, json!({ "uri": "demo://note/404" })).await.unwrap_err();
        assert!(error.tool_code.unwrap().starts_with("RPC_-32"));

        let prompt = ask(&house, CallKind::Prompt, GREET, json!({ "who": "小明" })).await.unwrap();
        let messages = prompt.structured.unwrap()["messages"].clone();
        assert_eq!(messages[0]["content"]["text"], r#"{"who": "\u5c0f\u660e"}"#);
        assert_eq!(messages[1]["content"]["resource"]["uri"], "my.x+demo://note/1");

        for (name, of) in [
            (GREET, json!({ "type": "ref/prompt", "name": "greet" })),
            (NOTES, json!({ "type": "ref/resource", "uri": "demo://note/{id}" })),
        ] {
            let asked =
                json!({ "argument": { "name": "who", "value": "a" }, "context": { "arguments": { "b": "c" } } });
            let completed = ask(&house, CallKind::Completion, name, asked).await.unwrap().structured.unwrap();
            let values = &completed["completion"]["values"];
            assert_eq!(values[1], "a!");
            assert_eq!(serde_json::from_str::<Value>(values[0].as_str().unwrap()).unwrap(), of);
            let log = house.log();
            assert_eq!(log.last().unwrap()["params"]["context"], json!({ "arguments": { "b": "c" } }));
        }
    }
}

#[tokio::test]
async fn what_changes_is_listed_again_and_told() {
    for house in libraries().await {
        let (told, updates) = mpsc::channel();
        house.upstreams.on_update(move |name, _| drop(told.send(name.to_owned())));
        ask(&house, CallKind::Subscription, NOTE, json!({ "uri": "demo://note/1" })).await.unwrap();
        let is_stateless = house.status().era == Some("2026-07-28");
        let method = if is_stateless { "subscriptions/listen" } else { "resources/subscribe" };
        let asks = |house: &House| {
            house.log().iter().any(|message| {
                let params = &message["params"];
                let resources = &params["notifications"]["resourceSubscriptions"];
                message["method"] == method
                    && (params["uri"] == "demo://note/1" || *resources == json!(["demo://note/1"]))
            })
        };
        until("the server is asked to say when it changes", || asks(&house)).await;

        let output = ask(&house, CallKind::Tool, "mcp__my_x__add_note", json!({})).await.unwrap();
        assert_eq!(
            raw(&output),
            r#"{"content":[{"type":"resource_link","uri":"my.x+demo://note/2","name":"second"}]}"#
        );
        until("the new note is there", || house.status().resources.len() == 3).await;
        assert_eq!(updates.recv_timeout(NEVER).unwrap(), NOTE);
        let owner = Owner::from(&*tollgate_testkit::cx("/").caller);
        house.upstreams.unfollow(Unfollowed { name: NOTE, owner: &owner, by_all: false });
        assert!(!house.methods().contains(&"resources/unsubscribe".to_owned()), "others follow it still");
        house.upstreams.unfollow(Unfollowed { name: NOTE, owner: &owner, by_all: true });
        let ended = |house: &House| match is_stateless {
            true => house.methods().iter().filter(|method| *method == "subscriptions/listen").count() > 2,
            false => house.methods().contains(&"resources/unsubscribe".to_owned()),
        };
        until("nobody wants to be told", || ended(&house)).await;
    }
}
