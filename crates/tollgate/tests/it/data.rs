//! `[databases]` and `[search]`: secrets stay in, and what can not be had costs only itself.

use serde_json::{Value, json};
use tempfile::TempDir;
use tollgate::config::Loaded;
use tollgate::{Call, Caller, Code, Surface, Tollgate};

const DSN: &str = "postgres://reader:zq%40pass%2Fword@127.0.0.1:1/orders";
const KEY: &str = "zq-search-key-4711";

/// A house with this configuration, in a folder that has the two secrets in `keys`.
async fn house(config: &str) -> (TempDir, Tollgate) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tollgate.toml");
    std::fs::write(&path, config).unwrap();
    std::fs::create_dir(folder.path().join("keys")).unwrap();
    std::fs::write(folder.path().join("keys/orders.dsn"), format!("{DSN}\n")).unwrap();
    std::fs::write(folder.path().join("keys/search.key"), KEY).unwrap();
    let loaded = Loaded::read(&path, folder.path()).unwrap();
    let house = Tollgate::builder().config(loaded).build().await.unwrap();
    (folder, house)
}

fn alice() -> Caller {
    Caller::new("alice", "developer", Surface::Library)
}

async fn call(house: &Tollgate, tool: &str, arguments: Value) -> tollgate::Outcome {
    house.call(&alice(), Call::tool(tool, arguments)).await
}

const BOTH: &str = "[databases.orders]\npostgres = { file = \"keys/orders.dsn\" }\n\
                    [search]\nkind = \"brave\"\napi_key = { file = \"keys/search.key\" }\n";

#[tokio::test]
async fn no_secret_of_a_database_or_an_engine_comes_out() {
    let (folder, house) = house(BOTH).await;
    assert_eq!(house.warnings(), [] as [&str; 0]);
    let leaked = format!("all: {DSN}\nas it is: zq@pass/word\nas written: zq%40pass%2Fword\nkey: {KEY}\n");
    std::fs::write(folder.path().join("leaked.txt"), leaked).unwrap();
    let shown = call(&house, "read_file", json!({"path": "leaked.txt"})).await.model_text();
    assert_eq!(shown.matches("[redacted:secret").count(), 4, "{shown}");
    assert!(!shown.contains("pass") && !shown.contains("4711"), "{shown}");
    for path in ["keys/orders.dsn", "keys/search.key"] {
        assert_eq!(call(&house, "read_file", json!({"path": path})).await.code(), Some(Code::Denied), "{path}");
    }
    // Nobody answers there.
    let outcome = call(&house, "query_database", json!({"database": "orders", "sql": "SELECT 1"})).await;
    assert_eq!(outcome.code(), Some(Code::UpstreamError));
    assert!(!outcome.model_text().contains("pass"), "{}", outcome.model_text());
    let named = json!({"database": "orders", "sql": "SELECT 'zq@pass/word'"});
    let outcome = call(&house, "query_database", named).await;
    let records = tollgate::ledger::attempt_records(house.data_dir(), outcome.attempt.as_ref().unwrap().as_str());
    let records = records.unwrap().iter().map(|record| format!("{record:?}")).collect::<String>();
    assert!(records.contains("redacted") && !records.contains("zq@pass"), "{records}");
}

#[tokio::test]
async fn what_is_configured_is_listed() {
    let (_folder, house) = house(BOTH).await;
    let names: Vec<String> = house.list(&alice()).await.iter().map(|tool| tool.name.clone()).collect();
    for name in ["search_web", "fetch_page", "query_database", "list_tables", "describe_table"] {
        assert!(names.contains(&name.to_owned()), "{name}: {names:?}");
    }
    let query = house.list(&alice()).await.into_iter().find(|tool| tool.name == "query_database").unwrap();
    assert!(query.description.ends_with("Databases: `orders` (PostgreSQL)."), "{}", query.description);
    // A model's address never leads into the house.
    let inside = call(&house, "fetch_page", json!({"url": "http://127.0.0.1:80/"})).await;
    assert_eq!(inside.code(), Some(Code::Denied), "{}", inside.model_text());
}

#[tokio::test]
async fn what_can_not_be_had_costs_only_itself() {
    let (_folder, house) = house(
        "[databases.gone]\npostgres = { env = \"TOLLGATE_TEST_NOWHERE\" }\n\
         [databases.odd]\npostgres = { file = \"keys/search.key\" }\n\
         [databases.afar]\npostgres = { command = [\"echo\", \"host=db.example user=u password=zq-pass sslmode=disable\"] }\n\
         [databases.shop]\nsqlite = \"shop.db\"\n\
         [search]\nkind = \"brave\"\napi_key = { env = \"TOLLGATE_TEST_NOWHERE\" }\n",
    )
    .await;
    let warnings = house.warnings().join("\n");
    for part in [
        "the database `gone` is not available: the environment variable `TOLLGATE_TEST_NOWHERE` is not set",
        "the database `odd` is not available: what the file `keys/search.key` gives: it is no connection string",
        "the database `afar` is on another machine and `sslmode=disable`",
        "`search_web` is not available: the environment variable `TOLLGATE_TEST_NOWHERE` is not set",
    ] {
        assert!(warnings.contains(part), "{part}: {warnings}");
    }
    assert!(!warnings.contains(KEY) && !warnings.contains("zq-pass"), "{warnings}");
    let outcome = call(&house, "list_tables", json!({"database": "gone"})).await;
    assert_eq!(outcome.code(), Some(Code::InvalidArguments));
    assert_eq!(call(&house, "search_web", json!({"query": "x"})).await.code(), Some(Code::UnknownTool));
}

#[tokio::test]
async fn without_a_database_the_advice_names_both_kinds() {
    let (_folder, house) = house("").await;
    for (tool, arguments) in [
        ("query_database", json!({"database": "shop", "sql": "SELECT 1"})),
        ("list_tables", json!({"database": "shop"})),
        ("describe_table", json!({"database": "shop", "table": "t"})),
    ] {
        let outcome = call(&house, tool, arguments).await;
        let hint = outcome.end.error().unwrap().hint.clone().unwrap();
        assert!(hint.contains("sqlite = \"shop.db\"") && hint.contains("postgres = { env"), "{hint}");
    }
}
