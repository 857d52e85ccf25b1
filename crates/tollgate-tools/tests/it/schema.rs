//! `list_tables` and `describe_table` on a real SQLite file. PostgreSQL's part is in `postgres`.

use std::collections::BTreeMap;

use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;
use tollgate_tools::{BaseOptions, Database};

use crate::support::House;

fn shop(schema: &str) -> (TempDir, House) {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("shop.db");
    Connection::open(&file).unwrap().execute_batch(schema).unwrap();
    let databases = BTreeMap::from([("shop".to_owned(), Database::Sqlite(file))]);
    let house = House::with(BaseOptions { databases, ..BaseOptions::default() });
    (dir, house)
}

const SCHEMA: &str = "
    CREATE TABLE products (sku TEXT PRIMARY KEY, name TEXT NOT NULL DEFAULT 'x|y', stock INTEGER, shouted TEXT AS (upper(name)));
    CREATE TABLE lines (\"order\" INTEGER, place INTEGER, sku TEXT REFERENCES products (sku), PRIMARY KEY (\"order\", place));
    CREATE UNIQUE INDEX by_name ON products (name, lower(sku));
    CREATE VIEW empty AS SELECT sku FROM products WHERE stock = 0;
    CREATE TABLE \"订单 'a\"\"b\" (\"编号\" INTEGER);
    CREATE VIRTUAL TABLE notes USING fts5(body);
    INSERT INTO products (sku, stock) VALUES ('A103', 42), ('B208', 0);
    WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 10001) INSERT INTO \"订单 'a\"\"b\" SELECT x FROM c;";

#[tokio::test]
async fn tables_are_listed_with_kind_and_size() {
    let (_dir, house) = shop(SCHEMA);
    let listed = house.value("list_tables", json!({"database": "shop"})).await;
    let tables: Vec<(&str, &str, &Value)> = listed["tables"]
        .as_array()
        .unwrap()
        .iter()
        .map(|table| {
            let of = |key: &str| table[key].as_str().unwrap();
            (of("name"), of("kind"), &table["rows_estimate"])
        })
        .collect();
    assert_eq!(
        tables,
        [
            ("empty", "view", &Value::Null),
            ("lines", "table", &json!(0)),
            ("notes", "virtual table", &Value::Null),
            ("products", "table", &json!(2)),
            ("订单 'a\"b", "table", &Value::Null),
        ]
    );
    let text = house.text("list_tables", json!({"database": "shop", "matching": "PROD"})).await;
    assert_eq!(
        text,
        "| table | kind | rows, about | comment |\n| --- | --- | --- | --- |\n| products | table | 2 |  |\n\n1 table"
    );
    let none = house.text("list_tables", json!({"database": "shop", "matching": "zzz"})).await;
    assert_eq!(none, "the database `shop` has no tables like that");
}

#[tokio::test]
async fn a_table_is_described_with_its_keys() {
    let (_dir, house) = shop(SCHEMA);
    let value = house.value("describe_table", json!({"database": "shop", "table": "Products"})).await;
    let default = "'x|y'";
    assert_eq!(
        value["columns"],
        json!([
            {"name": "sku", "type": "TEXT", "nullable": true},
            {"name": "name", "type": "TEXT", "nullable": false, "default": default},
            {"name": "stock", "type": "INTEGER", "nullable": true},
            {"name": "shouted", "type": "TEXT", "nullable": true},
        ])
    );
    assert_eq!((&value["kind"], &value["primary_key"]), (&json!("table"), &json!(["sku"])));
    assert_eq!(value["indexes"], json!([{"name": "by_name", "columns": ["name", "(an expression)"], "unique": true}]));
    let lines = house.value("describe_table", json!({"database": "shop", "table": "lines"})).await;
    assert_eq!(lines["primary_key"], json!(["order", "place"]));
    assert_eq!(
        lines["foreign_keys"],
        json!([{"columns": ["sku"], "references": "products", "referenced_columns": ["sku"]}])
    );
    let text = house.text("describe_table", json!({"database": "shop", "table": "products"})).await;
    assert!(text.contains("| name | TEXT | no | 'x\\|y' |  |\n"), "{text}");
    assert!(text.ends_with("primary key: `sku`\nunique index `by_name`: `name`, `(an expression)`"), "{text}");
    let odd = house.value("describe_table", json!({"database": "shop", "table": "订单 'a\"b"})).await;
    assert_eq!(odd["columns"][0]["name"], "编号");
    let view = house.value("describe_table", json!({"database": "shop", "table": "empty"})).await;
    assert_eq!((&view["kind"], &view["columns"][0]["name"]), (&json!("view"), &json!("sku")));
}

#[tokio::test]
async fn a_table_that_is_not_there_has_neighbours() {
    let (_dir, house) = shop(SCHEMA);
    for (table, hint) in [("prodcts", "did you mean `products`?"), ("订单", "订单 'a\"b"), ("zzz", "the tables are ")]
    {
        let error = house.call("describe_table", json!({"database": "shop", "table": table})).await.unwrap_err();
        assert_eq!(error.tool_code.as_deref(), Some("NO_SUCH_TABLE"), "{error:?}");
        assert!(error.hint.as_deref().unwrap().contains(hint), "{table}: {error:?}");
    }
    for tool in ["list_tables", "describe_table"] {
        let error = house.check(tool, &json!({"database": "shpo", "table": "x"})).unwrap_err();
        assert!(error.message.contains("unknown field") || error.hint.unwrap().contains("`shop`"));
    }
    let (_dir, bare) = shop("");
    let error = bare.call("describe_table", json!({"database": "shop", "table": "x"})).await.unwrap_err();
    assert_eq!(error.hint.as_deref(), Some("the database has no tables"));
    assert_eq!(bare.text("list_tables", json!({"database": "shop"})).await, "the database `shop` has no tables");
}

#[tokio::test]
async fn sizes_come_from_analyze_where_it_ran() {
    let (_dir, house) = shop(&format!("{SCHEMA} ANALYZE;"));
    let listed = house.value("list_tables", json!({"database": "shop", "matching": "products"})).await;
    assert_eq!(listed["tables"][0]["rows_estimate"], 2);
}
