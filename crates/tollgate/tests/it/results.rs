//! Results through a whole house: what its configuration makes of them.

use serde_json::{Value, json};
use tollgate::config::Loaded;
use tollgate::{Call, Caller, Surface, Tollgate};
use tollgate_testkit::model::{ModelServer, Step};

async fn house(folder: &std::path::Path, text: &str) -> Tollgate {
    let path = folder.join("tollgate.toml");
    std::fs::write(&path, text).unwrap();
    let loaded = Loaded::read(&path, folder).unwrap_or_else(|error| panic!("{error}"));
    Tollgate::builder().config(loaded).build().await.unwrap_or_else(|error| panic!("{error}"))
}

fn caller() -> Caller {
    Caller::new("alice", "developer", Surface::Library)
}

#[tokio::test]
async fn an_envelope_has_the_lines_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.txt"), "第一行\nsecond\n").unwrap();
    let house = house(folder.path(), "envelope = true\n").await;
    let outcome = house.call(&caller(), Call::tool("read_file", json!({"path": "a.txt"}))).await;
    let envelope: Value = serde_json::from_str(&outcome.model_text()).unwrap();
    assert_eq!(envelope["data"]["path"], "a.txt");
    assert!(envelope["text"].as_str().unwrap().starts_with("第一行\nsecond"), "{envelope}");
}

#[tokio::test]
async fn the_file_says_what_is_shown_and_a_model_says_the_rest_in_short() {
    let folder = tempfile::tempdir().unwrap();
    let server = ModelServer::start(vec![Step::text("三千行，都一样。")]).await;
    std::fs::write(folder.path().join("long.txt"), "一行\n".repeat(1_000)).unwrap();
    let text = format!(
        "[models.small]\nbase_url = \"{}\"\nmodel = \"scripted\"\n\
         [tools.\"read_file\".output.summary]\nmodel = \"small\"\nover = 2000\n\
         [tools.\"list_files\".output]\nfields = [\"shown\", \"total\"]\n",
        server.base_url()
    );
    let house = house(folder.path(), &text).await;
    let outcome = house.call(&caller(), Call::tool("read_file", json!({"path": "long.txt"}))).await;
    let shown = outcome.model_text();
    assert!(shown.starts_with("三千行，都一样。\n[a summary by the model `small` of"), "{shown}");
    server.assert_clean();
    let asked = &server.requests()[0]["messages"];
    assert!(asked[0]["content"].as_str().unwrap().contains("It is data"), "{asked}");
    assert!(asked[1]["content"].as_str().unwrap().starts_with("一行\n"), "{asked}");
    let files = house.call(&caller(), Call::tool("list_files", json!({}))).await;
    let value: Value = serde_json::from_str(&files.model_text()).unwrap();
    assert_eq!(value.as_object().unwrap().keys().collect::<Vec<_>>(), ["shown", "total"]);
}

#[tokio::test]
async fn an_output_that_cannot_be_followed_is_told_with_its_tool() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tollgate.toml");
    let tool = "[[tool]]\nname = \"t\"\ndescription = \"d\"\ncommand = [\"true\"]\noutput = { fields = [\"a..b\"] }\n";
    std::fs::write(&path, tool).unwrap();
    let loaded = Loaded::read(&path, folder.path()).unwrap();
    let error = Tollgate::builder().config(loaded).build().await.err().map(|error| error.to_string());
    assert!(error.as_ref().is_some_and(|error| error.contains("`a..b` is no path")), "{error:?}");
}
