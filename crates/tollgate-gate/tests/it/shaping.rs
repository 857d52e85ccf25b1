//! What the model sees, and what is kept.

use serde_json::{Value, json};
use tollgate_types::{Call, Caller, Code, Door, Risk, Secret, Status, Surface, ToolOutput};

use crate::world::{Setup, World, developer, tool};

fn lines(count: usize) -> String {
    (1..=count).map(|n| format!("第{n}行 some text\n")).collect()
}

#[tokio::test]
async fn a_long_text_is_cut_at_a_line_and_the_whole_can_be_read() {
    let world = World::new([tool("log", Risk::Read, |_, _| async { Ok(ToolOutput::text(lines(3000))) }).arc()]);
    let outcome = world.call("log", json!({})).await;
    let result = outcome.result().unwrap();
    let cut = result.truncated.clone().unwrap();
    assert_eq!(cut.total, 3000);
    let text = outcome.model_text();
    assert!(text.chars().count() < 10_300);
    assert!(text.contains(&format!("shown {} of 3000 lines", cut.shown)), "{text}");

    let (mut whole, mut offset) = (String::new(), 0);
    loop {
        let page = world.call("read_result", json!({"handle": cut.handle, "offset": offset})).await;
        let result = page.result().unwrap_or_else(|| panic!("{:?}", page.end));
        assert_eq!(result.truncated, None, "a page is never cut again");
        let text = page.model_text();
        whole.push_str(text.rsplit_once("\n[characters").unwrap().0);
        match result.structured.as_ref().unwrap()["next_offset"].as_u64() {
            Some(next) => offset = next,
            None => break,
        }
    }
    assert_eq!(whole, lines(3000));

    let stranger = Caller::new("carol", "developer", Surface::Library);
    let refused = world.gate.call(&stranger, Call::tool("read_result", json!({"handle": cut.handle}))).await;
    assert_eq!(refused.end.error().unwrap().tool_code.as_deref(), Some("NOT_FOUND"));
}

#[tokio::test]
async fn a_long_list_is_cut_at_an_item_and_stays_a_value() {
    let rows: Vec<Value> = (0..2000).map(|n| json!({"id": n, "name": "无线机械键盘"})).collect();
    let world = World::new([tool("rows", Risk::Read, move |_, _| {
        let rows = rows.clone();
        async move { Ok(ToolOutput::structured(json!({"rows": rows, "table": "stock"}))) }
    })
    .arc()]);
    let outcome = world.call("rows", json!({})).await;
    let result = outcome.result().unwrap();
    let cut = result.truncated.clone().unwrap();
    let shown = result.structured.as_ref().unwrap()["rows"].as_array().unwrap().len();
    assert_eq!((cut.shown, cut.total), (shown, 2000));
    assert!(shown > 100 && shown < 1000);
    assert!(outcome.model_text().contains(&format!("shown {shown} of 2000 items")));
}

#[tokio::test]
async fn a_failure_that_the_tool_reports_is_a_failure_with_its_advice() {
    let said =
        json!({"success": false, "error_code": "SKU_NOT_FOUND", "message": "no SKU `A1O3`", "suggestion": "try A103"});
    let world = World::new([tool("query", Risk::Read, move |_, _| {
        let said = said.clone();
        async move { Ok(ToolOutput::structured(said)) }
    })
    .arc()]);
    let outcome = world.call("query", json!({})).await;
    let error = outcome.end.error().unwrap();
    assert_eq!((outcome.status(), error.error, outcome.exit()), (Status::Failed, Code::ToolError, 1));
    assert_eq!((error.tool_code.as_deref(), error.hint.as_deref()), (Some("SKU_NOT_FOUND"), Some("try A103")));
    assert_eq!(world.record(&outcome, "finished")["outcome"]["tool_code"], "SKU_NOT_FOUND");
}

#[tokio::test]
async fn a_result_that_does_not_fit_its_schema_is_no_success() {
    let schema = json!({"type": "object", "properties": {"answer": {"type": "integer"}}, "required": ["answer"]});
    let world =
        World::new([tool("ask", Risk::Read, |_, _| async { Ok(ToolOutput::structured(json!({"answer": "forty"}))) })
            .define(|d| d.output_schema = Some(schema))
            .arc()]);
    let outcome = world.call("ask", json!({})).await;
    assert_eq!(outcome.code(), Some(Code::InvalidOutput));
    assert_eq!(
        world.record(&outcome, "finished")["result"],
        json!({"answer": "forty"}),
        "the ledger keeps what it was"
    );
}

#[tokio::test]
async fn too_much_is_refused() {
    let world =
        World::new([tool("flood", Risk::Read, |_, _| async { Ok(ToolOutput::text("x".repeat(17 << 20))) }).arc()]);
    assert_eq!(world.call("flood", json!({})).await.code(), Some(Code::ResultTooLarge));
}

#[tokio::test]
async fn nothing_is_said_as_nothing() {
    let world = World::new([tool("quiet", Risk::Read, |_, _| async { Ok(ToolOutput::default()) }).arc()]);
    assert_eq!(world.call("quiet", json!({})).await.model_text(), "(the tool returned nothing)");
}

#[tokio::test]
async fn an_envelope_wraps_data() {
    let tools = vec![tool("one", Risk::Read, |_, _| async { Ok(ToolOutput::structured(json!({"n": 1}))) }).arc()];
    let world = World::with(Setup { tools, envelope: true, ..Setup::default() });
    assert_eq!(world.call("one", json!({})).await.model_text(), r#"{"ok":true,"data":{"n":1}}"#);
}

#[tokio::test]
async fn injected_secrets_reach_neither_model_nor_ledger_nor_store() {
    let secret = "zq-injected-secret-4711";
    let tools = vec![
        tool("leak", Risk::Read, move |_, _| async move {
            Ok(ToolOutput::structured(json!({"header": format!("Bearer {secret}"), "list": [secret]})))
        })
        .arc(),
        tool("fail", Risk::Read, move |_, _| async move {
            Err(tollgate_types::ToolError::new(format!("refused by https://u:{secret}@host/")))
        })
        .arc(),
        tool("long", Risk::Read, move |_, _| async move { Ok(ToolOutput::text(format!("{secret}\n").repeat(2000))) })
            .arc(),
    ];
    let world = World::with(Setup { tools, secrets: vec![Secret::new(secret)], ..Setup::default() });
    for name in ["leak", "fail", "long"] {
        let outcome = world.gate.call(&developer(), Call::tool(name, json!({"password": secret}))).await;
        assert!(!serde_json::to_string(&outcome).unwrap().contains(secret), "{name}");
    }
    let mut folders = vec![world.folder.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let bytes = std::fs::read(&path).unwrap();
                let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
                assert!(!found, "{}", path.display());
            }
        }
    }
}
