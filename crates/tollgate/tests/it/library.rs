//! Tools of one's own, with everything that `Cx` knows.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tollgate::{
    Call, Caller, Code, Cx, Door, Json, Permission, Progress, ProgressUpdate, Risk, Role, Status, Surface, Tollgate,
    ToolError, tool_fn,
};

#[derive(Deserialize, JsonSchema)]
struct Weather {
    /// The city's name.
    city: String,
    #[serde(default = "celsius")]
    unit: Unit,
}

#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Unit {
    Celsius,
    Fahrenheit,
}

fn celsius() -> Unit {
    Unit::Celsius
}

#[derive(Serialize)]
struct Report {
    city: String,
    unit: Unit,
    asked_by: String,
}

fn alice() -> Caller {
    Caller::new("alice", "developer", Surface::Library)
}

#[tokio::test]
async fn a_function_is_a_tool() {
    let folder = tempfile::tempdir().unwrap();
    let gate = Tollgate::builder()
        .workspace(folder.path())
        .data_dir(folder.path().join("data"))
        .tool(
            tool_fn("get_weather", "Says the weather of a city.", |args: Weather, cx: Cx| async move {
                cx.progress.report(ProgressUpdate { progress: 1.0, total: Some(2.0), message: None });
                Ok(Json(Report { city: args.city, unit: args.unit, asked_by: cx.caller.subject.clone() }))
            })
            .risk(Risk::Read)
            .permission(Permission::Network),
        )
        .build()
        .await
        .unwrap();
    let (sender, receiver) = std::sync::mpsc::channel();
    let call = Call::tool("get_weather", json!({"city": "北京"}))
        .with_progress(Progress::to(move |update| sender.send(update.progress).unwrap()));
    let outcome = gate.call(&alice(), call).await;
    assert_eq!(
        outcome.result().unwrap().structured,
        Some(json!({"city": "北京", "unit": "celsius", "asked_by": "alice"}))
    );
    assert_eq!(receiver.recv().unwrap(), 1.0);
    let outcome = gate.call(&alice(), Call::tool("get_weather", json!({"city": "北京", "unit": "kelvin"}))).await;
    assert_eq!(outcome.code(), Some(Code::InvalidArguments));
    let names: Vec<String> = gate.list(&alice()).await.iter().map(|tool| tool.name.clone()).collect();
    assert_eq!(names.len(), 12, "its own and the eleven: {names:?}");
}

#[tokio::test]
async fn undeclared_risk_asks() {
    let folder = tempfile::tempdir().unwrap();
    #[derive(Deserialize, JsonSchema)]
    struct Nothing {}
    let gate = Tollgate::builder()
        .workspace(folder.path())
        .data_dir(folder.path().join("data"))
        .without_builtin_tools()
        .tool(tool_fn("launch", "Launches.", |_: Nothing, _: Cx| async { Ok("launched") }))
        .role(
            Role::new("silent")
                .allow("*")
                .risk(Risk::Dangerous)
                .permission(Permission::System)
                .ask(tollgate::Ask::Never),
        )
        .build()
        .await
        .unwrap();
    assert_eq!(gate.call(&alice(), Call::tool("launch", json!({}))).await.status(), Status::Waiting);
    let silent = Caller::new("alice", "silent", Surface::Library);
    assert_eq!(gate.call(&silent, Call::tool("launch", json!({}))).await.model_text(), "launched");
}

#[tokio::test]
async fn errors_keep_their_advice() {
    let folder = tempfile::tempdir().unwrap();
    #[derive(Deserialize, JsonSchema)]
    struct Query {
        sku: String,
    }
    let gate = Tollgate::builder()
        .workspace(folder.path())
        .data_dir(folder.path().join("data"))
        .tool(
            tool_fn("query", "Looks a product up.", |args: Query, _: Cx| async move {
                Err::<String, _>(
                    ToolError::new(format!("no product has the SKU `{}`", args.sku))
                        .with_tool_code("SKU_NOT_FOUND")
                        .with_hint("ask for A103"),
                )
            })
            .risk(Risk::Read),
        )
        .build()
        .await
        .unwrap();
    let outcome = gate.call(&alice(), Call::tool("query", json!({"sku": "A1O3"}))).await;
    let error = outcome.end.error().unwrap();
    assert_eq!((error.tool_code.as_deref(), error.hint.as_deref()), (Some("SKU_NOT_FOUND"), Some("ask for A103")));
}

#[tokio::test]
async fn the_data_folder_may_not_hold_the_workspace() {
    let folder = tempfile::tempdir().unwrap();
    let error = Tollgate::builder().workspace(folder.path()).data_dir(folder.path()).build().await.err().unwrap();
    assert!(error.to_string().contains("holds the workspace"), "{error}");
    let error = Tollgate::builder().workspace(folder.path().join("none")).build().await.err().unwrap();
    assert!(error.to_string().contains("the workspace"), "{error}");
}

#[tokio::test]
async fn keys_and_programs_are_out_of_reach() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tollgate.toml");
    let text = r#"
[models.default]
base_url = "http://127.0.0.1:9/v1"
model = "m"
api_key = { file = "keys/model.key" }
[[tool]]
name = "convert"
description = "Converts."
command = ["sh", "convert.sh"]
risk = "read"
"#;
    std::fs::write(&path, text).unwrap();
    std::fs::create_dir(folder.path().join("keys")).unwrap();
    std::fs::write(folder.path().join("keys/model.key"), "sk-4711-4711").unwrap();
    std::fs::write(folder.path().join("convert.sh"), "echo fine").unwrap();
    let loaded = tollgate::config::Loaded::read(&path, folder.path()).unwrap();
    let house = Tollgate::builder().config(loaded).build().await.unwrap();
    let call = async |tool: &str, arguments: serde_json::Value| house.call(&alice(), Call::tool(tool, arguments)).await;
    assert_eq!(call("read_file", json!({"path": "keys/model.key"})).await.code(), Some(Code::Denied));
    let rewritten = json!({"path": "convert.sh", "content": "touch pwned", "overwrite": true});
    assert_eq!(call("write_file", rewritten).await.code(), Some(Code::Denied));
    assert_eq!(call("read_file", json!({"path": "convert.sh"})).await.model_text(), "echo fine");
    let planted = json!({"path": "sub/tollgate.toml", "content": "role = \"x\""});
    assert_eq!(call("write_file", planted).await.code(), Some(Code::Denied));
    assert_eq!(call("convert", json!({})).await.model_text().trim(), "fine");
}

#[tokio::test]
async fn what_does_not_fit_together_is_named_by_its_line() {
    for (text, line, part) in [
        ("# a\nrole = \"nobody\"\n", 2, "`role`: no role is named `nobody`"),
        ("\n[[tool]]\nname = \"calculate\"\ndescription = \"d\"\ncommand = [\"t\"]\n", 2, "`tool.calculate`"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tollgate.toml");
        std::fs::write(&path, text).unwrap();
        let loaded = tollgate::config::Loaded::read(&path, folder.path()).unwrap();
        let Err(tollgate::Error::Config(error)) = Tollgate::builder().config(loaded).build().await else {
            unreachable!("{text}");
        };
        assert_eq!(error.line, line);
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[tokio::test]
async fn a_subset_of_the_tools() {
    let folder = tempfile::tempdir().unwrap();
    let gate = Tollgate::builder().workspace(folder.path()).data_dir(folder.path().join("data")).build().await.unwrap();
    let calculations = tollgate::Selection::of_tools(&["calc*".to_owned()]).unwrap();
    let some = tollgate::View::new(gate.door(), calculations);
    assert_eq!(some.list(&alice()).await.len(), 1);
    let outcome = some.call(&alice(), Call::tool("list_files", json!({}))).await;
    assert_eq!(outcome.code(), Some(Code::UnknownTool));
    let records =
        tollgate::ledger::attempt_records(gate.data_dir(), outcome.attempt.as_ref().unwrap().as_str()).unwrap();
    assert_eq!(records.last().unwrap().code(), Some("forbidden"), "the ledger knows better");
    assert_eq!(some.call(&alice(), Call::tool("calculate", json!({"expression": "1+1"}))).await.model_text(), "2");
    assert!(tollgate::Selection::of_tools(&["[".to_owned()]).is_err());
}
