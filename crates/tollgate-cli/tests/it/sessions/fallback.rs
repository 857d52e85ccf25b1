//! A call whose fallback failed too is told to the model: that the fallback holds the same key says nothing of the past.

use serde_json::json;
use tollgate_testkit::model::{ModelServer, Step};

use super::{House, config, last_event};
use crate::shop::Shop;

/// Nobody listens where `order` asks, and `spare` says no.
const TOOLS: &str = r#"
[[tool]]
name = "order"
description = "Orders at a shop."
http = { method = "POST", url = "http://127.0.0.1:9/orders" }
risk = "write"
on_error = { default = { fallback = { tool = "spare" } }, network_error = { retry = { max = 0 } } }
input_schema = { type = "object", properties = { n = { type = "integer" } } }

[[tool]]
name = "spare"
description = "Orders by another way."
command = ["sh", "-c", "echo ordered >> ran; echo 'sold out' >&2; exit 3"]
risk = "read"
input_schema = { type = "object", properties = { n = { type = "integer" } } }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn what_a_fallback_could_not_do_is_told_at_once() {
    let script = vec![Step::calls([("c1", "order", json!({"n": 1}))]), Step::text("it did not work")];
    let server = ModelServer::start(script).await;
    let shop = Shop::with(&format!("{}{TOOLS}", config(&server.base_url())));
    let house = House { shop, server };
    let done = house.expect(&["run", "order it", "--session", "s1", "--role", "free"], 0).await;
    assert_eq!(last_event(&done)["text"], "it did not work");
    let told = house.told("c1");
    assert!(told.contains("upstream_error") && told.contains("sold out"), "{told}");
    assert_eq!(house.ran(), ["ordered"]);
    house.server.assert_clean();
}
