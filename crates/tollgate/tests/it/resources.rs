//! `[resources]`: files of the workspace and schemas of databases, through the gate.

use serde_json::{Value, json};
use tollgate::{Call, CallKind, Caller, Code, Outcome, Surface};

use crate::world::{World, ada, names, refused};

const FILES: &str = "[resources]\nfiles = [\"*.md\", \"docs/**\"]\n";

async fn read(world: &World, caller: &Caller, uri: &str) -> Outcome {
    world.house.call(caller, Call::of(CallKind::Resource, format!("resources/{uri}"), json!({ "uri": uri }))).await
}

/// The one content of a resource that can be read.
async fn content(world: &World, uri: &str) -> Value {
    let outcome = read(world, &ada(), uri).await;
    let said = outcome.result().unwrap_or_else(|| panic!("{uri}: {outcome:?}")).structured.clone().unwrap();
    said["contents"][0].clone()
}

async fn listed(world: &World, caller: &Caller) -> Vec<String> {
    names(&*world.house.door(), caller, CallKind::Resource).await
}

async fn completed(world: &World, template: &str, argument: &str, begun: &str) -> Value {
    let asked = json!({ "argument": { "name": argument, "value": begun } });
    let call = Call::of(CallKind::Completion, format!("resources/{template}"), asked);
    let outcome = world.house.call(&ada(), call).await;
    outcome.result().unwrap_or_else(|| panic!("{outcome:?}")).structured.as_ref().unwrap()["completion"]["values"]
        .clone()
}

/// A workspace with what is shown, and with all that must not be.
async fn workspace(config: &str) -> World {
    let world = World::new(config).await;
    world.put("README.md", "你好\n");
    world.put("docs/读 我.txt", "tea");
    world.put("docs/a/logo.png", [0x89, b'P', 0xff]);
    world.put("docs/.hidden.md", "h");
    world.put(".env.md", "SECRET=1");
    world.put("src/main.rs", "fn main() {}");
    world.put(".gitignore", "ignored.md\n");
    world.put("ignored.md", "i");
    std::os::unix::fs::symlink("../src/main.rs", world.folder.path().join("docs/link")).unwrap();
    std::os::unix::fs::symlink("/etc", world.folder.path().join("docs/etc")).unwrap();
    std::fs::hard_link(world.folder.path().join("tollgate.toml"), world.folder.path().join("docs/toml")).unwrap();
    world
}

#[tokio::test]
async fn files_that_the_globs_name_are_listed_and_read() {
    let world = workspace(FILES).await;
    let shown = ["file:///README.md", "file:///docs/a/logo.png", "file:///docs/%E8%AF%BB%20%E6%88%91.txt"];
    let mut expected: Vec<String> = shown.iter().map(|uri| format!("resources/{uri}")).collect();
    expected.sort();
    assert_eq!(listed(&world, &ada()).await, expected);
    let door = world.house.door();
    assert_eq!(names(&*door, &ada(), CallKind::Template).await, ["resources/file:///{+path}"]);
    let all = door.list_kind(&ada(), CallKind::Resource).await;
    let readme: Value = serde_json::from_str(all[0].listing.as_ref().unwrap().get()).unwrap();
    assert_eq!(readme, json!({ "name": "README.md", "size": 7, "mimeType": "text/markdown" }));

    let text = content(&world, "file:///README.md").await;
    assert_eq!(text, json!({ "uri": "file:///README.md", "mimeType": "text/markdown", "text": "你好\n" }));
    assert_eq!(content(&world, shown[2]).await["text"], "tea");
    let image = content(&world, "file:///docs/a/logo.png").await;
    assert_eq!((&image["mimeType"], &image["blob"]), (&json!("image/png"), &json!("iVD/")));
    let outcome = read(&world, &ada(), "file:///README.md").await;
    let received = &world.records(&outcome)[0];
    assert_eq!(
        (&received["kind"], &received["tool"]["name"]),
        (&json!("resource"), &json!("resources/file:///README.md"))
    );
    assert_eq!(
        completed(&world, "file:///{+path}", "path", "docs/").await,
        json!(["docs/a/logo.png", "docs/读 我.txt"])
    );
    world.put("new.md", "n");
    assert!(listed(&world, &ada()).await.contains(&"resources/file:///new.md".to_owned()), "what comes is there");
}

/// What is hidden, protected, outside, linked, or written in another way than it is listed, is as little there as what is not.
#[tokio::test]
async fn a_file_has_one_name_and_what_is_kept_back_has_none() {
    let world = workspace(FILES).await;
    let missing = read(&world, &ada(), "file:///nothing.md").await;
    let told = |outcome: &Outcome, uri: &str| {
        let error = outcome.end.error().unwrap_or_else(|| panic!("{uri} was read"));
        (error.error, error.tool_code.clone(), error.message.replace(uri, "X"))
    };
    for uri in [
        "file:///.env.md",
        "file:///docs/.hidden.md",
        "file:///src/main.rs",
        "file:///tollgate.toml",
        "file:///docs/toml",
        "file:///docs/link",
        "file:///docs/etc/passwd",
        "file:///../README.md",
        "file:///docs/../README.md",
        "file:///docs/%2E%2E/README.md",
        "file:////README.md",
        "file:///%52EADME.md",
        "file:///./README.md",
        "file:///docs",
        "file:///",
        "file:///README.md/",
        "file:///docs//a/logo.png",
        "file:///docs/a%2Flogo.png",
        "file:///.tollgate/store.db",
        "file:///docs/读 我.txt",
        "file:///README.md?x",
    ] {
        let outcome = read(&world, &ada(), uri).await;
        assert_eq!(told(&outcome, uri), told(&missing, "file:///nothing.md"), "{uri}");
        assert!(!world.records(&outcome).iter().any(|record| record["event"] == "started"), "{uri}");
    }
    let large = vec![b'x'; 8 * 1024 * 1024 + 1];
    world.put("docs/large", large);
    let error = read(&world, &ada(), "file:///docs/large").await.end.error().unwrap().clone();
    assert_eq!(error.tool_code.as_deref(), Some("TOO_LARGE"));
}

#[tokio::test]
async fn roles_and_sets_name_files_like_everything_else() {
    let config = format!(
        "{FILES}[roles.docs]\ntools = [\"resources/file:///?+path?\", \"resources/file:///docs/*\"]\n\
         [roles.none]\ntools = [\"*\"]\nexclude = [\"resources/*\"]\n[sets.images]\nresources = [\"resources/file://*.png\"]\n"
    );
    let world = workspace(&config).await;
    let docs = Caller::new("eve", "docs", Surface::Library);
    let shown = listed(&world, &docs).await;
    assert_eq!(shown.len(), 2);
    assert!(shown.iter().all(|name| name.starts_with("resources/file:///docs/")), "{shown:?}");
    assert_eq!(read(&world, &docs, "file:///README.md").await.code(), Some(Code::UnknownTool));
    assert!(read(&world, &docs, "file:///docs/a/logo.png").await.result().is_some());
    let none = Caller::new("bob", "none", Surface::Library);
    assert!(listed(&world, &none).await.is_empty());
    assert_eq!(read(&world, &none, "file:///README.md").await.code(), Some(Code::UnknownTool));
    let images = world.set("images");
    assert_eq!(names(&*images, &ada(), CallKind::Resource).await, ["resources/file:///docs/a/logo.png"]);
    let readme = Call::of(CallKind::Resource, "resources/file:///README.md", json!({ "uri": "file:///README.md" }));
    assert_eq!(images.call(&ada(), readme).await.code(), Some(Code::UnknownTool));
}

#[tokio::test]
async fn without_a_word_there_are_none_and_wrong_words_are_named() {
    let world = workspace("[databases.shop]\nsqlite = \"shop.db\"\n").await;
    for kind in [CallKind::Resource, CallKind::Template] {
        assert!(names(&*world.house.door(), &ada(), kind).await.is_empty());
    }
    assert_eq!(read(&world, &ada(), "file:///README.md").await.code(), Some(Code::UnknownTool));
    for (text, line, part) in [
        ("[resources]\nfiles = [\"[\"]\n", 2, "`[` is not a glob"),
        ("[resources]\nfile = []\n", 2, "unknown field `file`"),
    ] {
        let error = refused(text).await;
        assert!(error.line == line && error.to_string().contains(part), "{error}");
    }
}

#[tokio::test]
async fn the_schema_of_a_database_is_a_resource_and_each_table_alone() {
    let world = World::new("[databases.\"my shop\"]\nsqlite = \"shop.db\"\n[resources]\nschemas = true\n").await;
    let database = rusqlite::Connection::open(world.folder.path().join("shop.db")).unwrap();
    let sql = "CREATE TABLE 订单 (id INTEGER PRIMARY KEY, sku TEXT NOT NULL); CREATE VIEW v AS SELECT sku FROM 订单;";
    database.execute_batch(sql).unwrap();
    assert_eq!(listed(&world, &ada()).await, ["resources/sqlite://my%20shop/schema"]);
    let whole = content(&world, "sqlite://my%20shop/schema").await;
    let said: Value = serde_json::from_str(whole["text"].as_str().unwrap()).unwrap();
    assert_eq!((&said["database"], &said["more"]), (&json!("my shop"), &json!(false)));
    let tables: Vec<_> = said["tables"].as_array().unwrap().iter().map(|table| &table["name"]).collect();
    assert_eq!(tables, ["v", "订单"]);
    let table = content(&world, "sqlite://my%20shop/%E8%AE%A2%E5%8D%95/schema").await;
    let said: Value = serde_json::from_str(table["text"].as_str().unwrap()).unwrap();
    assert_eq!((&said["columns"][1]["name"], &said["primary_key"]), (&json!("sku"), &json!(["id"])));
    assert_eq!(completed(&world, "sqlite://my%20shop/{table}/schema", "table", "").await, json!(["v", "订单"]));
    for uri in ["sqlite://my%20shop/V/schema", "sqlite://my%20shop/none/schema", "sqlite://my%20shop/%76/schema"] {
        let outcome = read(&world, &ada(), uri).await;
        assert_eq!(outcome.end.error().unwrap().tool_code.as_deref(), Some("NOT_FOUND"), "{uri}");
    }
    assert_eq!(read(&world, &ada(), "sqlite://other/schema").await.code(), Some(Code::UnknownTool));
}
