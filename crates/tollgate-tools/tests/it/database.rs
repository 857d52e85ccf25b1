//! `query_database` on real SQLite files: what reads, and what must not write.

use std::collections::BTreeMap;
use std::path::PathBuf;

use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;
use tollgate_tools::{BaseOptions, Database};
use tollgate_types::Code;

use crate::support::{House, Ticking};

struct Shop {
    _dir: TempDir,
    file: PathBuf,
    house: House,
}

fn shop() -> Shop {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("shop.db");
    let db = Connection::open(&file).unwrap();
    db.execute_batch(
        "PRAGMA journal_mode = WAL;
         CREATE TABLE products (sku TEXT PRIMARY KEY, name TEXT, stock INTEGER, price REAL, photo BLOB);
         INSERT INTO products VALUES ('A103', '无线键盘', 42, 199.5, x'00ff'), ('B208', 'a|b' || char(10) || 'c', 0, NULL, NULL);
         CREATE TABLE numbers (n INTEGER);
         WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 150) INSERT INTO numbers SELECT x FROM c;
         CREATE VIRTUAL TABLE notes USING fts5(body);
         INSERT INTO notes VALUES ('wireless keyboard');",
    )
    .unwrap();
    let databases = BTreeMap::from([
        ("shop".to_owned(), Database::Sqlite(file.clone())),
        ("gone".to_owned(), Database::Sqlite(dir.path().join("gone.db"))),
    ]);
    let house = House::with(BaseOptions { databases, ..BaseOptions::default() });
    Shop { _dir: dir, file, house }
}

fn sql(sql: &str) -> Value {
    json!({"database": "shop", "sql": sql})
}

#[tokio::test]
async fn rows_come_as_a_table_and_as_values() {
    let shop = shop();
    let query = json!({
        "database": "shop",
        "sql": "SELECT *, 9223372036854775807 AS big FROM products WHERE stock >= ? ORDER BY sku -- all",
        "params": [0],
    });
    let output = shop.house.call("query_database", query).await.unwrap();
    assert_eq!(
        crate::support::text(&output),
        "| sku | name | stock | price | photo | big |\n| --- | --- | --- | --- | --- | --- |\n| A103 | 无线键盘 | 42 | \
         199.5 | (2 bytes) | 9223372036854775807 |\n| B208 | a\\|b<br>c | 0 | NULL | NULL | 9223372036854775807 |\n\n2 rows"
    );
    assert_eq!(
        output.structured.unwrap()["rows"],
        json!([
            ["A103", "无线键盘", 42, 199.5, {"blob_bytes": 2}, 9_223_372_036_854_775_807_i64],
            ["B208", "a|b\nc", 0, null, null, 9_223_372_036_854_775_807_i64]
        ])
    );
}

#[tokio::test]
async fn what_reads_is_allowed() {
    let shop = shop();
    for (statement, rows) in [
        ("SELECT count(*) FROM numbers;", 1),
        ("WITH t AS (SELECT 1 AS a) SELECT * FROM t /* done */ ;  ", 1),
        ("SELECT * FROM notes WHERE notes MATCH 'keyboard'", 1),
        ("SELECT value FROM json_each('[1,2]')", 2),
        ("PRAGMA table_info(products)", 5),
        ("SELECT name FROM pragma_table_info('products')", 5),
        ("EXPLAIN QUERY PLAN SELECT * FROM products", 1),
        ("SELECT 'it''s; DROP TABLE products' AS text", 1),
        ("SELECT 1e999", 1),
        ("SELECT sku FROM products WHERE 0", 0),
        ("VALUES (1), (2)", 2),
    ] {
        let value = shop.house.value("query_database", sql(statement)).await;
        assert_eq!((&value["row_count"], &value["more"]), (&json!(rows), &json!(false)), "{statement}");
    }
}

#[tokio::test]
async fn what_does_not_only_read_is_refused_and_does_nothing() {
    let shop = shop();
    let before = std::fs::read(&shop.file).unwrap();
    let attach = format!("ATTACH '{}' AS other", shop.file.display());
    for statement in [
        "INSERT INTO numbers VALUES (1)",
        "UPDATE products SET stock = 0",
        "DELETE FROM products",
        "REPLACE INTO products (sku) VALUES ('x')",
        "WITH x AS (SELECT 1) DELETE FROM numbers",
        "DROP TABLE products",
        "ALTER TABLE products ADD COLUMN x",
        "CREATE TABLE x (y)",
        "CREATE TEMP TABLE x (y)",
        "CREATE TEMP TABLE x AS SELECT 1",
        "CREATE VIRTUAL TABLE temp.v USING fts5(a)",
        "CREATE TRIGGER t AFTER INSERT ON numbers BEGIN SELECT 1; END",
        "PRAGMA query_only = 0",
        "PRAGMA journal_mode = DELETE",
        "PRAGMA writable_schema = 1",
        "PRAGMA database_list",
        "SELECT * FROM pragma_database_list",
        "SELECT load_extension('x')",
        "VACUUM",
        "VACUUM INTO 'copy.db'",
        "REINDEX",
        "ANALYZE",
        "BEGIN",
        "COMMIT",
        "SAVEPOINT x",
        "DETACH main",
        &attach,
        "SELECT 1; DROP TABLE products",
        "EXPLAIN DELETE FROM products",
    ] {
        let error = shop.house.call("query_database", sql(statement)).await.unwrap_err();
        assert_eq!(error.tool_code.as_deref(), Some("ONLY_READS"), "{statement}: {error:?}");
    }
    assert_eq!(shop.house.code("query_database", sql("SELECT 1; SELECT 2")).await, "SEVERAL_STATEMENTS");
    assert_eq!(std::fs::read(&shop.file).unwrap(), before);
}

#[tokio::test]
async fn errors_name_what_is_near() {
    let shop = shop();
    for (statement, code, hint) in [
        ("SELECT * FROM prodcts", "NO_SUCH_TABLE", "`products`"),
        ("SELECT * FROM zzz", "NO_SUCH_TABLE", "the tables are"),
        ("SELECT skuu FROM products", "NO_SUCH_COLUMN", "`sku`"),
        ("SELECT p.nam FROM products p", "NO_SUCH_COLUMN", "`name`"),
        ("SELECT * FROM products WHERE name = \"键盘\"", "NO_SUCH_COLUMN", "the columns are"),
        ("SELEC 1", "SQL", "near `SELEC 1`"),
        ("SELECT nosuch(1)", "SQL", "SQLite"),
        ("SELECT 1 WHERE", "SQL", "SQLite"),
        ("SELECT ? + ?", "PARAMETERS", "one value"),
        ("SELECT zeroblob(99999999)", "TOO_LARGE", "a part"),
    ] {
        let error = shop.house.call("query_database", sql(statement)).await.unwrap_err();
        assert_eq!(error.tool_code.as_deref(), Some(code), "{statement}: {error:?}");
        assert!(error.hint.as_deref().unwrap().contains(hint), "{statement}: {error:?}");
    }
    for (params, path) in [(json!([[1]]), "/params/0"), (json!([1, u64::MAX]), "/params/1")] {
        let arguments = json!({"database": "shop", "sql": "SELECT ?, ?", "params": params});
        let error = shop.house.call("query_database", arguments).await.unwrap_err();
        assert_eq!((error.code, error.details[0].path.starts_with(path)), (Code::InvalidArguments, true), "{error:?}");
    }
    assert_eq!(shop.house.code("query_database", sql("  -- nothing")).await, "SQL");
}

#[tokio::test]
async fn rows_cells_and_time_have_limits() {
    let mut shop = shop();
    let value = shop.house.value("query_database", sql("SELECT n FROM numbers")).await;
    assert_eq!((&value["row_count"], &value["more"]), (&json!(100), &json!(true)));
    let text = shop
        .house
        .text("query_database", json!({"database": "shop", "sql": "SELECT n FROM numbers", "limit": 2}))
        .await;
    assert!(text.ends_with("2 rows shown; there are more: add conditions, aggregate, or raise limit"), "{text}");
    let long = sql("SELECT printf('%.*c', 3000, 'x') AS a, replace(hex(zeroblob(1500)), '0', '键') AS b");
    let value = shop.house.value("query_database", long).await;
    // Without a space nobody can say that it is no secret, and half of one is not recognised.
    assert_eq!(value["rows"][0][0], "… [3000 more characters]");
    assert!(value["rows"][0][1].as_str().unwrap().ends_with("键… [1000 more characters]"));
    shop.house.cx.clock = std::sync::Arc::new(Ticking::default());
    shop.house.cx.deadline = std::time::Duration::from_millis(100);
    let endless = sql("WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c");
    assert_eq!(shop.house.code("query_database", endless).await, "timeout");
}

#[tokio::test]
async fn a_database_is_known_by_name_only() {
    let shop = shop();
    let error = shop.house.check("query_database", &json!({"database": "shpo", "sql": "SELECT 1"})).unwrap_err();
    assert_eq!(error.code, Code::InvalidArguments);
    assert_eq!(error.hint.as_deref(), Some("did you mean `shop`? the databases are `gone`, `shop`"));
    let gone = json!({"database": "gone", "sql": "SELECT 1"});
    assert_eq!(shop.house.code("query_database", gone).await, "NO_DATABASE");
    assert!(!shop.file.with_file_name("gone.db").exists());
    let error = House::new().check("query_database", &json!({"database": "shop", "sql": "SELECT 1"})).unwrap_err();
    let hint = error.hint.unwrap();
    assert!(hint.contains("[databases.shop]\nsqlite = \"shop.db\"") && hint.contains("postgres = {"), "{hint}");
    std::fs::write(shop.file.with_file_name("gone.db"), "this is no database at all, only text\n").unwrap();
    let gone = json!({"database": "gone", "sql": "SELECT * FROM x"});
    assert_eq!(shop.house.code("query_database", gone).await, "UNUSABLE");
}
