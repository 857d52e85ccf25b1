//! Two servers behind one address that share no memory: a call that waits for its client at one goes on at the other, or is
//! refused there; whatever was done is not done again.

use serde_json::{Value, json};

use crate::http::{Server, key};
use crate::shop::Shop;

const SERVER: &str = include_str!("replicas_server.py");

const CONFIG: &str = r#"
[approvals]
clients = ["buyer"]

[roles.buyer]
tools = ["*"]
permission = "network"
risk = "dangerous"

[mcp.shop]
command = "python3"
args = ["server.py"]

[mcp.shop.tools.order]
risk = "read"
permission = "read"

[mcp.live]
command = "python3"
args = ["server.py"]
env = { LIVE = "1" }

[mcp.live.tools.order]
risk = "read"
permission = "read"
"#;

fn shop(more: &str) -> Shop {
    let shop = Shop::with(&format!("{more}{CONFIG}"));
    std::fs::write(shop.path().join("server.py"), SERVER).unwrap();
    shop
}

/// What was ordered, in every one of these folders.
fn orders(shops: &[&Shop]) -> Vec<Value> {
    let read = |shop: &&Shop| std::fs::read_to_string(shop.path().join("orders")).unwrap_or_default();
    let text: String = shops.iter().map(read).collect();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// One request of a client that can ask its human.
fn call(server: &Server, key: &str, tool: &str, more: &Value) -> Value {
    let mut params = json!({ "name": tool, "arguments": {} });
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": { "elicitation": {} },
    });
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params }).to_string();
    let headers = format!(
        "accept: application/json\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: {tool}\r\n"
    );
    server.ask_saying("POST", "/mcp", key, &headers, &body).1
}

/// The same request again, with an answer to the one question that it was answered with.
fn retry(asked: &Value, content: &Value) -> Value {
    let asked = &asked["result"];
    assert_eq!(asked["resultType"], "input_required", "{asked}");
    let question = asked["inputRequests"].as_object().unwrap().keys().next().unwrap();
    json!({
        "requestState": asked["requestState"],
        "inputResponses": { question: { "action": "accept", "content": content } },
    })
}

fn asks_for(answer: &Value, field: &str) -> bool {
    answer["result"]["inputRequests"].get(field).is_some()
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}"))
}

#[test]
fn questions_of_a_server_that_holds_nothing_are_answered_anywhere() {
    let shop = shop("");
    let servers = [Server::start(&shop, &["--role", "buyer"]), Server::start(&shop, &[])];
    let client = key(&shop, "client");
    for first in [0, 1] {
        let [here, there] = [&servers[first], &servers[1 - first]];
        let size = call(here, &client, "mcp__shop__order", &json!({}));
        assert!(asks_for(&size, "size"), "{size}");
        let colour = call(there, &client, "mcp__shop__order", &retry(&size, &json!({ "size": "大" })));
        assert!(asks_for(&colour, "colour"), "{colour}");
        let last = retry(&colour, &json!({ "colour": "red" }));
        assert_eq!(text(&call(here, &client, "mcp__shop__order", &last)), "ordered");
        assert_eq!(text(&call(here, &client, "mcp__shop__order", &last)), "ordered", "told again");
        let made = orders(&[&shop]);
        assert_eq!(made.len(), first + 1, "and not done again: {made:?}");
        assert_eq!(
            (&made[first]["size"]["content"]["size"], &made[first]["colour"]["content"]["colour"]),
            (&json!("大"), &json!("red"))
        );
    }
    // Nothing of it is anybody else's.
    let size = call(&servers[0], &client, "mcp__shop__order", &json!({}));
    let mut other = retry(&size, &json!({ "size": "s" }));
    other["arguments"] = json!({ "a": 1 });
    let refused = call(&servers[1], &client, "mcp__shop__order", &other);
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    // What still waits for answers holds up no end.
    assert_eq!(servers.map(Server::end), [Some(0); 2]);
    assert_eq!(shop.tollgate(&["audit", "verify"]).code, 0);
}

#[test]
fn a_yes_that_one_asked_for_is_given_at_another_once() {
    let shop = shop("");
    let servers = [Server::start(&shop, &["--role", "buyer"]), Server::start(&shop, &[])];
    let client = key(&shop, "client");
    let asked = call(&servers[0], &client, "mcp__shop__order_at_once", &json!({}));
    let yes = retry(&asked, &json!({ "decision": "approve" }));
    assert_eq!(text(&call(&servers[1], &client, "mcp__shop__order_at_once", &yes)), "ordered");
    for server in [&servers[1], &servers[0], &servers[0], &servers[1]] {
        call(server, &client, "mcp__shop__order_at_once", &yes);
    }
    assert_eq!(orders(&[&shop]).len(), 1);
    let asked = call(&servers[0], &client, "mcp__shop__order_at_once", &json!({}));
    let no = call(&servers[1], &client, "mcp__shop__order_at_once", &retry(&asked, &json!({ "decision": "reject" })));
    assert!(text(&no).contains("rejected") && orders(&[&shop]).len() == 1, "{no}");
}

#[test]
fn what_only_one_process_can_go_on_with_is_refused_by_the_others() {
    let shop = shop("");
    let servers = [Server::start(&shop, &["--role", "buyer"]), Server::start(&shop, &[])];
    let client = key(&shop, "client");
    let size = call(&servers[0], &client, "mcp__live__order", &json!({}));
    let answer = retry(&size, &json!({ "size": "m" }));
    let refused = call(&servers[1], &client, "mcp__live__order", &answer);
    let why = refused["error"]["message"].as_str().unwrap();
    assert!(why.contains("in another process") && orders(&[&shop]).is_empty(), "{refused}");
    assert_eq!(text(&call(&servers[0], &client, "mcp__live__order", &answer)), "ordered");
    let gone = call(&servers[0], &client, "mcp__live__order", &answer);
    assert!(gone["error"]["message"].as_str().unwrap().contains("nothing waits"), "{gone}");
    assert_eq!(orders(&[&shop]).len(), 1);
}

#[test]
fn two_folders_go_on_for_each_other_where_they_share_a_key() {
    let shared = "0123456789abcdef0123456789abcdef";
    let sharing = "[server]\nstate_keys = [{ file = \"new.key\" }, { file = \"old.key\" }]\n";
    let shops = [shop(sharing), shop(sharing), shop("")];
    for (shop, new, old) in
        [(&shops[0], "n".repeat(32), shared.to_owned()), (&shops[1], shared.to_owned(), "o".repeat(32))]
    {
        std::fs::write(shop.path().join("new.key"), new).unwrap();
        std::fs::write(shop.path().join("old.key"), old).unwrap();
    }
    let servers = shops.each_ref().map(|shop| Server::start(shop, &["--role", "buyer"]));
    let keys = shops.each_ref().map(|shop| key(shop, "client"));
    let call = |at: usize, tool: &str, more: &Value| call(&servers[at], &keys[at], tool, more);
    // The second seals by the key that the first opens while its own takes the place of that.
    let size = retry(&call(1, "mcp__shop__order", &json!({})), &json!({ "size": "s" }));
    assert!(asks_for(&call(0, "mcp__shop__order", &size), "colour"));
    assert_eq!(call(2, "mcp__shop__order", &size)["error"]["code"], -32602);
    let sealed_by_new = retry(&call(0, "mcp__shop__order", &json!({})), &json!({ "size": "s" }));
    assert_eq!(call(1, "mcp__shop__order", &sealed_by_new)["error"]["code"], -32602);
    // A question of one store is not known to the other: its answer is a yes to nothing there.
    let yes = retry(&call(1, "mcp__shop__order_at_once", &json!({})), &json!({ "decision": "approve" }));
    let waiting = call(0, "mcp__shop__order_at_once", &yes);
    assert!(text(&waiting).contains("approval_required"), "{waiting}");
    assert!(orders(&[&shops[0], &shops[1]]).is_empty());
}

#[test]
fn a_key_that_is_not_there_or_too_short_stops_the_start() {
    let shop = shop("[server]\nstate_keys = [{ file = \"a.key\" }]\n");
    let start = || shop.tollgate(&["serve", "--bind", "127.0.0.1:0"]);
    let missing = start();
    assert!(missing.code == 2 && missing.stderr.contains("server.state_keys"), "{}", missing.stderr);
    std::fs::write(shop.path().join("a.key"), "too short to be one").unwrap();
    let short = start();
    assert!(short.code == 2 && short.stderr.contains("less than 32 bytes"), "{}", short.stderr);
    let many = Shop::with("[server]\nstate_keys = [{ env = \"A\" }, { env = \"B\" }, { env = \"C\" }]\n")
        .tollgate(&["tools", "list"]);
    assert!(many.code == 2 && many.stderr.contains("one that seals"), "{}", many.stderr);
}
