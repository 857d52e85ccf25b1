//! The data tools on a real PostgreSQL that each test starts: what reads, what must not write or reach out, and that a
//! stop reaches the server.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_tools::{BaseOptions, Database, Postgres};
use tollgate_types::{CallKind, Clock, Code, Cx, Secret, ToolError};

use crate::server::{PASSWORD, Server};
use crate::support::{House, Ticking};

const SCHEMA: &str = r#"
    CREATE TABLE products (
        sku text PRIMARY KEY, name text NOT NULL DEFAULT 'x|y', stock int CHECK (stock >= 0), price numeric(30, 10));
    COMMENT ON TABLE products IS 'What we sell';
    COMMENT ON COLUMN products.stock IS '库存';
    INSERT INTO products VALUES ('A103', '无线键盘', 42, 199.5), ('B208', E'a|b\nc', 0, NULL);
    CREATE TABLE orders (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, sku text REFERENCES products, placed timestamptz DEFAULT now());
    CREATE UNIQUE INDEX by_day ON orders (sku, date_trunc('day', placed AT TIME ZONE 'UTC')) WHERE sku IS NOT NULL;
    CREATE VIEW sold_out AS SELECT sku FROM products WHERE stock = 0;
    CREATE MATERIALIZED VIEW totals AS SELECT sum(stock) FROM products;
    CREATE SCHEMA sales;
    CREATE TABLE sales."订单 ""b""" ("编号" int[], state text);
    CREATE TABLE sales.hidden (x int);
    CREATE TABLE numbers AS SELECT n FROM generate_series(1, 1500) n;
    CREATE SEQUENCE counter;
    CREATE FUNCTION remember(x int) RETURNS int LANGUAGE sql AS 'SELECT x';
    CREATE FUNCTION double(x int) RETURNS int IMMUTABLE LANGUAGE sql AS 'SELECT 2 * x';
    CREATE ROLE reader LOGIN PASSWORD 'zq@pass/word';
    GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader;
    GRANT USAGE ON SCHEMA sales TO reader;
    GRANT SELECT ON sales."订单 ""b""" TO reader;
    GRANT INSERT, UPDATE, DELETE, TRUNCATE ON numbers TO reader;
    GRANT CREATE ON SCHEMA public TO reader;
    ANALYZE;
"#;

fn house(postgres: Postgres) -> House {
    let databases = BTreeMap::from([("shop".to_owned(), Database::Postgres(Box::new(postgres)))]);
    House::with(BaseOptions { databases, ..BaseOptions::default() })
}

fn sql(sql: &str) -> Value {
    json!({"database": "shop", "sql": sql})
}

async fn error(house: &House, statement: &str) -> ToolError {
    house.call("query_database", sql(statement)).await.err().unwrap_or_else(|| panic!("{statement} was run"))
}

#[tokio::test]
async fn rows_lose_nothing_on_their_way() {
    let server = Server::start(SCHEMA).await;
    let house = house(server.socket("reader"));
    let query = json!({
        "database": "shop",
        "sql": "SELECT sku, name, stock, price FROM products WHERE stock >= $1 ORDER BY sku; -- all",
        "params": [0],
    });
    let output = house.call("query_database", query).await.unwrap();
    assert_eq!(
        crate::support::text(&output),
        "| sku | name | stock | price |\n| --- | --- | --- | --- |\n| A103 | 无线键盘 | 42 | 199.5000000000 |\n\
         | B208 | a\\|b<br>c | 0 | NULL |\n\n2 rows"
    );
    for (expression, expected) in [
        ("9223372036854775807::bigint", json!(9_223_372_036_854_775_807_i64)),
        ("12345678901234567890.123456789::numeric", json!("12345678901234567890.123456789")),
        ("0.1::float4", json!(0.1)),
        ("1e308::float8", json!(1e308)),
        ("'NaN'::float8", json!("NaN")),
        ("'Infinity'::numeric", json!("Infinity")),
        ("true", json!(true)),
        ("NULL::int", json!(null)),
        (
            "'2026-11-30 06:30:00.123456+00'::timestamptz AT TIME ZONE 'Asia/Shanghai'",
            json!("2026-11-30 14:30:00.123456"),
        ),
        ("'9999-12-31'::date", json!("9999-12-31")),
        ("'infinity'::date", json!("infinity")),
        ("'1 year 2 mons 3 days'::interval", json!("1 year 2 mons 3 days")),
        ("'{\"a\": 12345678901234567890, \"b\":[1]}'::json", json!("{\"a\": 12345678901234567890, \"b\":[1]}")),
        ("'{\"a\": 1.10}'::jsonb", json!("{\"a\": 1.10}")),
        ("ARRAY[[1,2],[3,4]]", json!("{{1,2},{3,4}}")),
        ("ARRAY['a,b', '键']", json!("{\"a,b\",键}")),
        ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid", json!("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")),
        ("'\\x00ff'::bytea", json!({"blob_bytes": 2})),
        ("'192.168.0.0/16'::inet", json!("192.168.0.0/16")),
        ("ROW(1, 'x')", json!("(1,x)")),
        ("int4range(1, 5)", json!("[1,5)")),
        ("'<a>1</a>'::xml", json!("<a>1</a>")),
        ("12.34::money::numeric", json!("12.34")),
    ] {
        let value = house.value("query_database", sql(&format!("SELECT {expression} AS v"))).await;
        assert_eq!(value["rows"], json!([[expected]]), "{expression}");
    }
    for (params, select, expected) in [
        (json!([9_007_199_254_740_993_i64]), "$1::bigint + 1", json!(9_007_199_254_740_994_i64)),
        (json!(["12345678901234567890.5"]), "$1::numeric * 2", json!("24691357802469135781.0")),
        (json!([1.5]), "$1::numeric", json!("1.5")),
        (json!([true]), "NOT $1::bool", json!(false)),
        (json!([null]), "$1::text IS NULL", json!(true)),
        (json!(["{1,2}"]), "cardinality($1::int[])", json!(2)),
        (json!(["'; DROP TABLE numbers; --"]), "length($1)", json!(25)),
        (json!(["2026-11-30"]), "$1::date + 1", json!("2026-12-01")),
    ] {
        let query = json!({"database": "shop", "sql": format!("SELECT {select}"), "params": params});
        assert_eq!(house.value("query_database", query).await["rows"], json!([[expected]]), "{select}");
    }
}

#[tokio::test]
async fn what_reads_is_allowed() {
    let server = Server::start(SCHEMA).await;
    for user in ["reader", "owner"] {
        let house = house(server.socket(user));
        for (statement, rows) in [
            ("SELECT count(*), count(*) FROM numbers;", 1),
            ("WITH t AS (SELECT 1 AS a) SELECT * FROM t /* done */ ;  ", 1),
            ("TABLE products", 2),
            ("VALUES (1), (2) -- two", 2),
            ("(SELECT 1) UNION ALL (SELECT 2)", 2),
            ("SHOW server_version", 1),
            ("EXPLAIN (COSTS off) SELECT * FROM products", 1),
            ("SELECT relname FROM pg_class WHERE relname = 'products'", 1),
            ("SELECT double(4), random() < 2, gen_random_uuid(), pg_total_relation_size('products') > 0", 1),
            ("SELECT 'it''s; DROP TABLE products' AS text", 1),
            ("SELECT sku FROM products WHERE false", 0),
            ("SELECT FROM products", 2),
            ("SELECT * FROM sold_out", 1),
            ("SELECT * FROM sales.\"订单 \"\"b\"\"\"", 0),
            ("SELECT jsonb_agg(p) FROM products p", 1),
            ("SELECT * FROM pg_sleep(0)", 1),
        ] {
            let value = house.call("query_database", sql(statement)).await;
            let value = value.unwrap_or_else(|error| panic!("{user}: {statement}: {error:?}")).structured.unwrap();
            assert_eq!((&value["row_count"], &value["more"]), (&json!(rows), &json!(false)), "{statement}");
        }
    }
}

/// As a user that could do all of it, and as the superuser, whose rights reach out of the database.
#[tokio::test]
async fn what_does_not_only_read_is_refused_and_does_nothing() {
    let server = Server::start(SCHEMA).await;
    server.run("shop", "CREATE EXTENSION dblink; CREATE EXTENSION tablefunc").await;
    for user in ["reader", "owner"] {
        let house = house(server.socket(user));
        for statement in [
            "INSERT INTO numbers VALUES (1)",
            "WITH x AS (DELETE FROM numbers RETURNING n) SELECT * FROM x",
            "SELECT * FROM numbers FOR UPDATE",
            "SELECT 1 INTO made",
            "EXPLAIN ANALYZE DELETE FROM numbers",
            "EXPLAIN ANALYZE CREATE TABLE made AS SELECT 1",
            "CREATE TABLE made ()",
            "CREATE TEMP TABLE made ()",
            "COPY numbers TO PROGRAM 'touch /tmp/made'",
            "COPY (SELECT 1) TO '/tmp/made'",
            "DO $$ BEGIN RAISE 'x'; END $$",
            "SET transaction_read_only = off",
            "SET ROLE owner",
            "RESET ROLE",
            "SELECT set_config('transaction_read_only', 'off', false)",
            "SELECT set_config('role', 'none', false)",
            "SELECT pg_read_file('/etc/passwd')",
            "SELECT \"pg_catalog\".\"pg_read_file\" ('/etc/passwd')",
            "SELECT pg_ls_dir('/')",
            "SELECT lo_import('/etc/hostname')",
            "SELECT lo_export(1, '/tmp/made')",
            "SELECT lo_from_bytea(0, 'x')",
            "SELECT pg_terminate_backend(1)",
            "SELECT pg_reload_conf()",
            "SELECT pg_advisory_lock(1)",
            "SELECT pg_notify('a', 'b')",
            "SELECT nextval('counter')",
            "SELECT remember(1)",
            "SELECT query_to_xml('DELETE FROM numbers', true, true, '')",
            "SELECT * FROM dblink('dbname=shop', 'DELETE FROM numbers') AS t(x text)",
            "SELECT * FROM crosstab('SELECT 1, 2, pg_read_file(''/etc/passwd'')') AS t(a text, b text)",
            "BEGIN",
            "ROLLBACK",
            "LISTEN x",
            "VACUUM",
        ] {
            let error = error(&house, statement).await;
            assert_eq!(error.tool_code.as_deref(), Some("ONLY_READS"), "{user}: {statement}: {error:?}");
        }
        for statement in ["SELECT 1; SELECT 2", "COMMIT; DROP SCHEMA public CASCADE;", "ROLLBACK; CREATE TABLE made ()"]
        {
            assert_eq!(error(&house, statement).await.tool_code.as_deref(), Some("SEVERAL_STATEMENTS"), "{statement}");
        }
        // Nothing ends the statement that is made around the model's.
        for statement in ["SELECT 1) AS a; DROP TABLE numbers; --", "SELECT 1 ) UNION (SELECT 2", "SELECT 1 /*"] {
            let code = error(&house, statement).await.tool_code;
            assert!(matches!(code.as_deref(), Some("SQL" | "SEVERAL_STATEMENTS")), "{statement}: {code:?}");
        }
    }
    assert_eq!(server.rows("shop", "SELECT to_regclass('made') IS NULL").await, ["t"]);
    assert_eq!(server.rows("shop", "SELECT count(*) FROM numbers").await, ["1500"]);
    assert!(!Path::new("/tmp/made").exists());
}

/// What a superuser may do beyond reading tables, the server itself no longer lets it do.
#[tokio::test]
async fn a_superuser_reads_tables_and_nothing_else() {
    let server = Server::start(SCHEMA).await;
    let house = house(server.socket("owner"));
    let value = house.value("query_database", sql("SELECT current_user, current_setting('is_superuser')")).await;
    assert_eq!(value["rows"], json!([["pg_read_all_data", "off"]]));
    for statement in
        ["SELECT * FROM pg_authid", "TABLE \"pg_catalog\".PG_Shadow", "SELECT umoptions FROM pg_user_mappings"]
    {
        let denied = error(&house, statement).await;
        assert_eq!(denied.tool_code.as_deref(), Some("NO_PERMISSION"), "{denied:?}");
    }
    let by_name = "SELECT table_to_xml('pg_authid', true, true, '')";
    assert_eq!(error(&house, by_name).await.tool_code.as_deref(), Some("ONLY_READS"));
    assert_eq!(house.value("query_database", sql("SELECT * FROM sales.hidden")).await["row_count"], 0);
    // As before PostgreSQL 14, which has no such role.
    let gone =
        "SET allow_system_table_mods = on; UPDATE pg_authid SET rolname = 'gone' WHERE rolname = 'pg_read_all_data'";
    server.run("shop", gone).await;
    let error = error(&house, "SELECT 1").await;
    assert_eq!(error.tool_code.as_deref(), Some("UNUSABLE"), "{error:?}");
    assert!(error.hint.unwrap().contains("may only read"));
}

#[tokio::test]
async fn errors_name_what_is_near() {
    let server = Server::start(SCHEMA).await;
    let house = house(server.socket("reader"));
    for (statement, code, hint) in [
        ("SELECT * FROM prodcts", "NO_SUCH_TABLE", "`products`"),
        ("SELECT * FROM sales.prodcts", "NO_SUCH_TABLE", "`products`"),
        ("SELECT * FROM zzz", "NO_SUCH_TABLE", "the tables are"),
        ("SELECT skuu FROM products", "NO_SUCH_COLUMN", "`sku`"),
        ("SELECT p.nam FROM products p", "NO_SUCH_COLUMN", "`name`"),
        ("SELECT * FROM products WHERE name = \"键盘\"", "NO_SUCH_COLUMN", "the columns are"),
        ("SELECT * FROM sales.hidden", "NO_PERMISSION", "grant"),
        ("SELECT * FROM products ORDER stock", "SQL", "near `stock`"),
        ("SELECT nosuch(1)", "SQL", "PostgreSQL"),
        ("SELECT $1::int + $2::int", "PARAMETERS", "one value"),
        ("SELECT '键', stock / 0 FROM products", "SQL", "PostgreSQL"),
        ("SELECT 'x'::int", "SQL", "near `'x'::int`"),
        ("SELECT 'a", "SQL", "close every quote"),
    ] {
        let error = error(&house, statement).await;
        assert_eq!(error.tool_code.as_deref(), Some(code), "{statement}: {error:?}");
        assert!(error.hint.as_deref().unwrap_or_default().contains(hint), "{statement}: {error:?}");
    }
    let columns: Vec<String> = (0..501).map(|n| format!("{n}")).collect();
    let wide = error(&house, &format!("SELECT {}", columns.join(","))).await;
    assert_eq!(wide.tool_code.as_deref(), Some("TOO_LARGE"), "{wide:?}");
}

#[tokio::test]
async fn rows_and_cells_have_limits() {
    let server = Server::start(SCHEMA).await;
    let house = house(server.socket("reader"));
    let value = house.value("query_database", sql("SELECT n FROM numbers ORDER BY n")).await;
    assert_eq!((&value["row_count"], &value["more"], &value["rows"][99]), (&json!(100), &json!(true), &json!([100])));
    let all = json!({"database": "shop", "sql": "SELECT n FROM numbers ORDER BY n", "limit": 1000});
    let value = house.value("query_database", all).await;
    assert_eq!((&value["row_count"], &value["rows"][999]), (&json!(1000), &json!([1000])));
    let exact = json!({"database": "shop", "sql": "SELECT n FROM numbers WHERE n <= 2", "limit": 2});
    assert_eq!(house.value("query_database", exact).await["more"], false);
    // Much larger than what may travel.
    let long = sql("SELECT repeat('键', 30000000) AS a, repeat('word ', 1000) AS b, repeat('x', 5000) AS c");
    let row = house.value("query_database", long).await["rows"][0].clone();
    assert!(row[0].as_str().unwrap().ends_with("键… [29998000 more characters]"));
    assert!(row[1].as_str().unwrap().ends_with("word… [3001 more characters]"));
    assert_eq!(row[2], "… [5000 more characters]");
    let much = json!({"database": "shop", "sql": "SELECT repeat('word ', 390) || n FROM numbers, generate_series(1, 5)",
        "limit": 1000});
    assert_eq!(house.value("query_database", much).await["row_count"], 1000);
}

#[tokio::test]
async fn a_stop_reaches_the_server() {
    let server = Server::start(SCHEMA).await;
    let running = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tollgate' AND state = 'active'";
    // By its own time.
    let mut house = house(server.socket("reader"));
    house.cx.deadline = Duration::from_millis(300);
    let error = error(&house, "SELECT 1 FROM pg_sleep(600)").await;
    assert_eq!(error.code, Code::Timeout, "{error:?}");
    // By its asker, once the server is at it.
    house.cx.deadline = Duration::from_secs(60);
    let call = house.call("query_database", sql("SELECT count(*) FROM generate_series(1, 100000000000)"));
    let cancel = async {
        while server.rows("shop", running).await != ["1"] {}
        house.cx.cancellation.cancel();
    };
    let (done, ()) = tokio::join!(call, cancel);
    assert_eq!(done.unwrap_err().code, Code::Cancelled);
    while server.rows("shop", running).await != ["0"] {}
    // Nothing was left open either.
    let left = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tollgate'";
    while server.rows("shop", left).await != ["0"] {}
}

#[tokio::test]
async fn another_session_s_lock_is_not_waited_for() {
    let server = Server::start(SCHEMA).await;
    let mut house = house(server.socket("reader"));
    house.cx.deadline = Duration::from_secs(60);
    let held = server.rows("shop", "BEGIN; LOCK TABLE numbers; SELECT 1 FROM pg_sleep(600)");
    let ask = async {
        let waiting = "SELECT count(*) FROM pg_locks WHERE mode = 'AccessExclusiveLock' AND granted AND relation = 'numbers'::regclass";
        while server.rows("shop", waiting).await != ["1"] {}
        error(&house, "SELECT count(*) FROM numbers").await
    };
    let error = tokio::select! {
        _ = held => panic!("the lock was let go"),
        error = ask => error,
    };
    assert_eq!((error.tool_code.as_deref(), error.retryable), (Some("BUSY"), true), "{error:?}");
}

#[tokio::test]
async fn tls_is_spoken_where_it_is_asked_for_and_the_server_has_to_be_known() {
    let server = Server::start(SCHEMA).await;
    let encrypted = sql("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()");
    for (host, options, is_encrypted) in [
        ("127.0.0.1", "", false),
        ("localhost", "?sslmode=prefer", false),
        ("localhost", "?sslmode=require&sslrootcert=ca.pem", true),
        ("localhost", "?sslrootcert=ca.pem&sslmode=verify-full&channel_binding=require", true),
    ] {
        let house = house(server.tcp("reader", host, options));
        assert_eq!(
            house.value("query_database", encrypted.clone()).await["rows"],
            json!([[is_encrypted]]),
            "{options}"
        );
    }
    for (user, host, options, code) in [
        ("reader", "localhost", "?sslmode=require", "UNREACHABLE"),
        ("reader", "127.0.0.1", "?sslmode=require&sslrootcert=ca.pem", "UNREACHABLE"),
        ("reader", "localhost", "?sslmode=require&sslrootcert=gone.pem", "UNUSABLE"),
        ("nobody", "localhost", "", "UNUSABLE"),
    ] {
        let house = house(server.tcp(user, host, options));
        let error = error(&house, "SELECT 1").await;
        assert_eq!(error.tool_code.as_deref(), Some(code), "{options}: {error:?}");
        assert!(
            !format!("{error:?}").contains("pass") || error.message.contains("password authentication"),
            "{error:?}"
        );
        assert!(!format!("{error:?}").contains(PASSWORD), "{error:?}");
    }
    let nobody = Postgres::new(&Secret::new("postgres://u:zq-secret@127.0.0.1:1/d"), ".".as_ref()).unwrap();
    let error = error(&house(nobody), "SELECT 1").await;
    assert_eq!((error.code, error.tool_code.as_deref()), (Code::UpstreamError, Some("UNREACHABLE")), "{error:?}");
    assert!(!format!("{error:?}").contains("zq-secret"));
}

#[tokio::test]
async fn tables_are_listed_and_described() {
    let server = Server::start(SCHEMA).await;
    let house = house(server.socket("reader"));
    let text = house.text("list_tables", json!({"database": "shop"})).await;
    assert_eq!(
        text,
        "| table | kind | rows, about | comment |\n| --- | --- | --- | --- |\n\
         | public.numbers | table | 1500 |  |\n\
         | public.orders | table | 0 |  |\n\
         | public.products | table | 2 | What we sell |\n\
         | public.sold_out | view | ? |  |\n\
         | public.totals | materialized view | 1 |  |\n\
         | sales.订单 \"b\" | table | 0 |  |\n\n6 tables"
    );
    let found = house.value("list_tables", json!({"database": "shop", "matching": "SALES."})).await;
    assert_eq!(found["tables"][0]["name"], "订单 \"b\"");
    let value = house.value("describe_table", json!({"database": "shop", "table": "products"})).await;
    assert_eq!(
        value["columns"],
        json!([
            {"name": "sku", "type": "text", "nullable": false},
            {"name": "name", "type": "text", "nullable": false, "default": "'x|y'::text"},
            {"name": "stock", "type": "integer", "nullable": true, "comment": "库存"},
            {"name": "price", "type": "numeric(30,10)", "nullable": true},
        ])
    );
    assert_eq!((&value["comment"], &value["primary_key"]), (&json!("What we sell"), &json!(["sku"])));
    let orders = house.value("describe_table", json!({"database": "shop", "table": "public.orders"})).await;
    assert_eq!(
        orders["foreign_keys"],
        json!([{"columns": ["sku"], "references": "public.products", "referenced_columns": ["sku"]}])
    );
    assert_eq!(orders["columns"][0]["default"], "generated as identity");
    assert_eq!((&orders["indexes"][0]["name"], &orders["indexes"][0]["unique"]), (&json!("by_day"), &json!(true)));
    assert!(orders["indexes"][0]["columns"][1].as_str().unwrap().contains("date_trunc"), "{orders}");
    let odd = house.value("describe_table", json!({"database": "shop", "table": "sales.订单 \"b\""})).await;
    assert_eq!((&odd["columns"][0]["name"], &odd["columns"][0]["type"]), (&json!("编号"), &json!("integer[]")));
    for (table, hint) in
        [("prodcts", "`products`"), ("sales.订单", "`sales.订单 \"b\"`"), ("sales.hidden", "the tables are")]
    {
        let error = house.call("describe_table", json!({"database": "shop", "table": table})).await.unwrap_err();
        assert_eq!(error.tool_code.as_deref(), Some("NO_SUCH_TABLE"));
        assert!(error.hint.as_deref().unwrap().contains(hint), "{error:?}");
    }
    server.run("shop", "CREATE SCHEMA other; CREATE TABLE other.twin (); CREATE TABLE sales.twin (); GRANT USAGE ON SCHEMA other TO reader; GRANT SELECT ON other.twin, sales.twin TO reader").await;
    let error = house.call("describe_table", json!({"database": "shop", "table": "twin"})).await.unwrap_err();
    assert_eq!(
        (error.tool_code.as_deref(), error.hint.as_deref()),
        (Some("AMBIGUOUS"), Some("say which: `other.twin`, `sales.twin`"))
    );
    assert_eq!(
        house.value("describe_table", json!({"database": "shop", "table": "other.twin"})).await["columns"],
        json!([])
    );
}

#[tokio::test]
async fn a_schema_is_a_resource_whole_and_by_table() {
    let server = Server::start(SCHEMA).await;
    let databases = BTreeMap::from([("shop".to_owned(), Database::Postgres(Box::new(server.socket("reader"))))]);
    let clock: Arc<dyn Clock> = Arc::new(Ticking::default());
    let [whole, table] = &tollgate_tools::schema_resources(&databases, &clock, &Arc::default())[..] else {
        panic!("one of each is expected")
    };
    let names = [whole, table].map(|tool| tool.definition().name);
    assert_eq!(names, ["resources/postgres://shop/schema", "resources/postgres://shop/{table}/schema"]);
    let house = House::new();
    let ask = async |kind: CallKind, arguments: Value| {
        let tool = if arguments["uri"] == "postgres://shop/schema" { whole } else { table };
        tool.call(arguments, Cx { kind, ..house.cx.clone() }).await
    };
    let read = async |uri: &str| {
        let output = ask(CallKind::Resource, json!({ "uri": uri })).await?;
        let text = output.structured.unwrap()["contents"][0]["text"].as_str().unwrap().to_owned();
        Ok::<Value, ToolError>(serde_json::from_str(&text).unwrap())
    };
    let said = read("postgres://shop/schema").await.unwrap();
    let tables = said["tables"].as_array().unwrap();
    let has = |name: &str| tables.iter().find(|table| table["name"] == name);
    assert_eq!(has("products").unwrap()["columns"][2]["comment"], "库存");
    assert!(has("订单 \"b\"").is_some() && has("hidden").is_none(), "what may not be read is not there: {said}");
    assert_eq!(read("postgres://shop/public.products/schema").await.unwrap()["primary_key"], json!(["sku"]));
    for other in ["products", "sales.hidden", "PUBLIC.products", "none"] {
        let error = read(&format!("postgres://shop/{other}/schema")).await.unwrap_err();
        assert_eq!(error.tool_code.as_deref(), Some("NOT_FOUND"), "{other}");
    }
    let begun = json!({ "argument": { "name": "table", "value": "sales." } });
    let completed = ask(CallKind::Completion, begun).await.unwrap().structured.unwrap();
    assert_eq!(completed["completion"]["values"], json!(["sales.订单 \"b\""]));
}
