//! A call is taken back by another call: once, by whoever may make that one, and not over what somebody did since.

use serde_json::{Value, json};

use crate::shop::{Done, Shop};

fn attempt(done: &Done) -> String {
    done.json()["attempt"].as_str().unwrap().to_owned()
}

fn code(done: &Done) -> Value {
    done.json()["error"]["error"].clone()
}

fn write(shop: &Shop, path: &str, content: &str) -> Done {
    let arguments = json!({"path": path, "content": content, "overwrite": true}).to_string();
    let done = shop.tollgate(&["call", "write_file", &arguments]);
    assert_eq!(done.code, 0, "{}", done.stdout);
    done
}

#[test]
fn a_file_is_put_back_once_and_the_undo_can_be_undone() {
    let shop = Shop::bare();
    let file = shop.path().join("笔记.md");
    std::fs::write(&file, "一\n").unwrap();
    let first = attempt(&write(&shop, "笔记.md", "二\n"));
    let undone = shop.tollgate(&["undo", &first]);
    assert_eq!((undone.code, undone.json()["tool"].clone()), (0, json!("restore_file")), "{}", undone.stdout);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "一\n");
    let again = shop.tollgate(&["undo", &first]);
    assert_eq!((again.code, code(&again)), (3, json!("conflict")), "{}", again.stdout);
    assert!(again.stdout.contains(&attempt(&undone)), "{}", again.stdout);

    let linked = shop.tollgate(&["audit", "query", "--parent", &first]);
    let linked = if linked.code == 0 { linked.stdout } else { shop.ledger().join("\n") };
    assert!(linked.contains(&attempt(&undone)));
    let received: Value = shop
        .ledger()
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .find(|record: &Value| record["attempt"] == json!(attempt(&undone)) && record["event"] == "received")
        .unwrap();
    assert_eq!(received["parent"], json!(first));

    let redone = shop.tollgate(&["undo", &attempt(&undone)]);
    assert_eq!(redone.code, 0, "{}", redone.stdout);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "二\n");
    assert_eq!(shop.tollgate(&["audit", "verify"]).code, 0);
}

#[test]
fn what_somebody_changed_since_is_left_alone() {
    let shop = Shop::bare();
    let file = shop.path().join("a.txt");
    let first = attempt(&write(&shop, "a.txt", "mine"));
    std::fs::write(&file, "theirs").unwrap();
    let refused = shop.tollgate(&["undo", &first]);
    assert_eq!((refused.code, code(&refused)), (3, json!("conflict")), "{}", refused.stdout);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "theirs");
    std::fs::write(&file, "mine").unwrap();
    let undone = shop.tollgate(&["undo", &first]);
    assert_eq!(undone.code, 0, "what came to nothing can be tried again: {}", undone.stdout);
    assert!(!file.exists(), "there was none before");
}

#[test]
fn what_cannot_be_undone_says_why_and_is_recorded() {
    let shop = Shop::with("[tools.write_file]\nundo = \"none\"\n");
    std::fs::write(shop.path().join("a.txt"), "x").unwrap();
    let read = attempt(&shop.tollgate(&["call", "read_file", r#"{"path":"a.txt"}"#]));
    let refused = attempt(&shop.tollgate(&["call", "write_file", r#"{"path":"a.txt"}"#]));
    let silent = attempt(&write(&shop, "a.txt", "y"));
    for (id, why) in [(&read, "it only read"), (&refused, "it did not run"), (&silent, "declares no undo")] {
        let done = shop.tollgate(&["undo", id]);
        assert_eq!((done.code, code(&done)), (3, json!("invalid_arguments")), "{}", done.stdout);
        assert!(done.stdout.contains(why), "{}", done.stdout);
        assert!(shop.ledger().iter().any(|line| line.contains(&attempt(&done)) && line.contains(id.as_str())));
    }
    assert_eq!(shop.tollgate(&["undo", "ffffffffffff"]).code, 2, "no attempt has this id");
    assert!(!shop.path().join(".tollgate/undo").exists(), "nothing is kept where the operator says none");
    let called = shop.tollgate(&["call", "restore_file", &json!({"attempt": silent, "path": "a.txt"}).to_string()]);
    assert_eq!(code(&called), json!("unknown_tool"), "only an undo calls it");
    let listed = shop.tollgate(&["tools", "list"]).stdout;
    assert!(!listed.contains("restore_file"));
}

const ORDERS: &str = r#"
role = "clerk"
[roles.clerk]
tools = ["*"]
risk = "dangerous"
permission = "system"
ask = "never"
[roles.buyer]
tools = ["order"]
risk = "dangerous"
permission = "system"
ask = "never"
[[tool]]
name = "order"
description = "Orders."
command = ["sh", "-c", "read -r line; echo \"order $line\" >> effects; echo '{\"order\":{\"id\":17}}'"]
input_schema = { type = "object", properties = { sku = { type = "string" }, token = { type = "string" } } }
undo = { tool = "cancel", map_args = { id = { result = "/order/id" }, sku = { pointer = "/sku" }, why = "undone" } }
[[tool]]
name = "cancel"
description = "Cancels."
command = ["sh", "-c", "read -r line; echo \"cancel $line\" >> effects"]
input_schema = { type = "object", properties = { id = { type = "integer" }, sku = { type = "string" }, why = { type = "string" } }, required = ["id"], additionalProperties = false }
"#;

fn effects(shop: &Shop) -> Vec<String> {
    let text = std::fs::read_to_string(shop.path().join("effects")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn another_tool_takes_it_back_as_any_call_is_made() {
    let shop = Shop::with(ORDERS);
    let first = attempt(&shop.tollgate(&["call", "order", r#"{"sku":"A103"}"#]));
    let stranger = shop.tollgate(&["--role", "buyer", "undo", &first]);
    assert_eq!((stranger.code, code(&stranger)), (3, json!("unknown_tool")), "it may not cancel");
    let racers: Vec<_> = (0..3).map(|_| shop.start(&["undo", &first])).collect();
    let done: Vec<Done> = racers.into_iter().map(|racer| racer.wait_with_output().unwrap().into()).collect();
    assert_eq!(done.iter().filter(|done| done.code == 0).count(), 1, "{}", done[0].stdout);
    assert!(done.iter().filter(|done| done.code != 0).all(|done| code(done) == "conflict"));
    let cancelled = "cancel {\"id\":17,\"sku\":\"A103\",\"why\":\"undone\"}";
    assert_eq!(effects(&shop), ["order {\"sku\":\"A103\"}", cancelled]);
    let shown = shop.tollgate(&["--format", "text", "tools", "show", "order"]).stdout;
    assert!(shown.contains("undo: `cancel` with {\"id\":{\"result\":\"/order/id\"}"), "{shown}");
    let shown = shop.tollgate(&["--format", "text", "tools", "show", "cancel"]).stdout;
    assert!(shown.contains("undo: none declared"), "{shown}");
}

#[test]
fn an_undo_waits_for_a_human_as_its_call_would() {
    let shop = Shop::with(&ORDERS.replace("ask = \"never\"\n[roles.buyer]", "ask = \"always\"\n[roles.buyer]"));
    let order = ["--role", "buyer", "call", "order", r#"{"sku":"A103"}"#];
    let first = attempt(&shop.tollgate(&order));
    let waiting = shop.tollgate(&["undo", &first]);
    assert_eq!(waiting.code, 4, "{}", waiting.stdout);
    let id = waiting.json()["waiting"]["id"].as_str().unwrap().to_owned();
    assert_eq!(shop.tollgate(&["approvals", "approve", &id]).code, 0);
    assert_eq!(shop.tollgate(&["undo", &first]).code, 0);
    assert_eq!(effects(&shop).len(), 2);
    assert_eq!(code(&shop.tollgate(&["undo", &first])), json!("conflict"));
}

#[test]
fn what_is_declared_wrong_is_said_before_anything_runs() {
    for (undo, why) in [
        ("\"before-image\"", "nobody keeps a before-image"),
        ("{ tool = \"cancel\", map_args = { id = { results = \"/id\" } } }", "map_args.id"),
        ("\"later\"", "before-image"),
    ] {
        let (before, declared) = ORDERS.split_once("undo = ").unwrap();
        let (_, after) = declared.split_once('\n').unwrap();
        let config = format!("{before}undo = {undo}\n{after}");
        let done = Shop::with(&config).tollgate(&["tools", "list"]);
        assert_eq!(done.code, 2, "{undo}: {}", done.stderr);
        assert!(done.stderr.replace("\n  │ ", " ").contains(why), "{undo}: {}", done.stderr);
    }
    let missing = Shop::with(&ORDERS.replace("tool = \"cancel\"", "tool = \"cancle\""));
    let warned = missing.tollgate(&["tools", "list"]);
    assert!(warned.stderr.contains("`cancle`, which is not there"), "{}", warned.stderr);
}
