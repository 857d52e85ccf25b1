//! The REST interface.

use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::{Duration, timeout};
use tollgate::limits::FRAME_BYTES_MAX;
use tollgate_server::keys::{self, KeyKind};

use crate::world::{World, door, events, read};

#[tokio::test]
async fn a_call_is_answered_with_its_outcome_however_it_ends() {
    let world = World::new().await;
    let outcome = world.call("calculate", &json!({ "expression": "6 * 7" })).await;
    assert_eq!((&outcome["status"], &outcome["error"]), (&json!("done"), &Value::Null));
    assert!(outcome["result"]["content"][0]["text"].as_str().unwrap().contains("42"), "{outcome}");
    let outcome = world.call("calculate", &json!({ "expresion": "6 * 7" })).await;
    assert_eq!((&outcome["status"], &outcome["error"]["error"]), (&json!("refused"), &json!("invalid_arguments")));
    let outcome = world.call("no_such_tool", &json!({})).await;
    assert_eq!(outcome["error"]["error"], "unknown_tool");
    let attempt = outcome["attempt"].as_str().unwrap();

    let (status, found) =
        read(world.operator(Method::GET, &format!("/api/v1/audit?attempt={attempt}")).send().await.unwrap()).await;
    assert_eq!(status, 200);
    let records = found["records"].as_array().unwrap();
    assert_eq!(records[0]["caller"]["subject"], "client");
    assert_eq!((&records[0]["caller"]["surface"], &records[0]["event"]), (&json!("rest"), &json!("received")));
    let last = read(world.operator(Method::GET, "/api/v1/audit?limit=1").send().await.unwrap()).await.1;
    assert_eq!(last["records"].as_array().unwrap().len(), 1);
    for bad in ["?limit=0", "?limit=9999", "?limit=x", "?attmpt=x", "?limit=1&limit=1"] {
        let (status, _) = read(world.operator(Method::GET, &format!("/api/v1/audit{bad}")).send().await.unwrap()).await;
        assert_eq!(status, 400, "{bad}");
    }
    let (status, _) = read(world.operator(Method::GET, "/api/v1/audit?attempt=nope").send().await.unwrap()).await;
    assert_eq!(status, 404);
    world.end().await;
}

#[tokio::test]
async fn attempts_are_found_by_what_became_of_them() {
    let world = World::new().await;
    let ask = async |query: &str| {
        read(world.operator(Method::GET, &format!("/api/v1/audit?{query}")).send().await.unwrap()).await
    };
    assert_eq!(ask("view=attempts&status=done").await.1["attempts"], json!([]), "before the first call");
    let done = world.call("calculate", &json!({ "expression": "6 * 7" })).await;
    world.call("calculate", &json!({ "expression": "1" })).await;
    let refused = world.call("no_such_tool", &json!({})).await;

    let (status, found) = ask("view=attempts&status=refused&caller=client&since=1h").await;
    assert_eq!((status, &found["next"]), (200, &Value::Null), "{found}");
    assert_eq!(found["attempts"].as_array().unwrap().len(), 1);
    assert_eq!(found["attempts"][0]["attempt"], refused["attempt"]);
    assert_eq!(found["attempts"][0]["code"], "unknown_tool");

    let (_, first) = ask("view=attempts&tool=calc*&limit=1").await;
    let next = first["next"].as_str().unwrap();
    let (_, second) = ask(&format!("view=attempts&tool=calc*&limit=1&cursor={next}")).await;
    assert_eq!((&second["attempts"][0]["attempt"], &second["next"]), (&done["attempt"], &Value::Null));
    let (_, records) = ask("tool=calculate&event=started").await;
    let events: Vec<&Value> = records["records"].as_array().unwrap().iter().map(|record| &record["event"]).collect();
    assert_eq!(events, ["started", "started"]);
    for bad in ["view=all", "status=finished", "since=soon", "cursor=x", "event=started&event=finished", "tool=a["] {
        let (status, problem) = ask(bad).await;
        assert_eq!(status, 400, "{bad}: {problem}");
    }
    let key = world.client(Method::GET, "/api/v1/audit?view=attempts").send().await.unwrap();
    assert_eq!(key.status(), 403, "a client's key does not read the ledger");
    world.end().await;
}

#[tokio::test]
async fn what_is_wrong_with_the_request_itself_has_a_status() {
    let world = World::new().await;
    let post = || world.client(Method::POST, "/api/v1/calls");
    let json_text = |text: String| post().header("content-type", "application/json").body(text);
    let cases = [
        (post().header("content-type", "text/plain").body(r#"{"tool":"calculate"}"#), 415),
        (post().body(r#"{"tool":"calculate"}"#), 415),
        (json_text("{".into()), 400),
        (json_text("[]".into()), 400),
        (json_text(r#"{"tool":"calculate","argumens":{}}"#.into()), 400),
        (json_text(r#"{"tool":7}"#.into()), 400),
        (json_text(format!("\"{}\"", "x".repeat(FRAME_BYTES_MAX))), 413),
        (world.client(Method::GET, "/api/v1/nothing"), 404),
        (world.client(Method::GET, "/api/v1/calls"), 405),
        (world.client(Method::GET, "/api/v1/tools?q=x"), 400),
    ];
    for (request, expected) in cases {
        let (status, body) = read(request.send().await.unwrap()).await;
        assert_eq!(status, expected, "{body}");
        assert!(expected == 405 || body["ok"] == json!(false), "{body}");
    }
    world.end().await;
}

#[tokio::test]
async fn a_key_comes_in_the_body_or_in_the_header() {
    let world = World::new().await;
    let ask = |header: Option<&str>, body: Option<&str>| {
        let call = json!({ "tool": "calculate", "arguments": { "expression": "6 * 7" }, "idempotency_key": body });
        let request = world.client(Method::POST, "/api/v1/calls").json(&call);
        let request = header.into_iter().fold(request, |request, value| request.header("idempotency-key", value));
        async { read(request.send().await.unwrap()).await }
    };
    let cases = [
        (Some("\"order-17\""), None, 200, Some(false)),
        (None, Some("order-17"), 200, Some(true)),
        (Some("order-17"), Some("order-17"), 200, Some(true)),
        (Some("\"order-18\""), Some("order-17"), 400, None),
        (Some("\"order-17"), None, 400, None),
    ];
    for (header, body, expected, replayed) in cases {
        let (status, answer) = ask(header, body).await;
        assert_eq!((status, answer["replayed"].as_bool()), (expected, replayed), "{header:?} {body:?}: {answer}");
    }
    world.end().await;
}

#[tokio::test]
async fn tools_are_listed_and_found_by_a_part_of_their_words() {
    let world = World::new().await;
    let (status, all) = world.get("/api/v1/tools").await;
    let (_, some) = world.get("/api/v1/tools?query=CALCUL").await;
    assert_eq!(status, 200);
    assert!(all["tools"].as_array().unwrap().len() > some["tools"].as_array().unwrap().len());
    assert_eq!(some["tools"][0]["name"], "calculate");
    assert!(some["tools"][0]["input_schema"].is_object());
    world.end().await;
}

#[tokio::test]
async fn an_operator_says_yes_and_the_asker_asks_again() {
    let world = World::new().await;
    let clock = world.house.clock();
    let teller =
        keys::create(world.house.data_dir(), "teller", KeyKind::Client, Some("teller"), &*clock).await.unwrap();
    let say = async || {
        let body = json!({ "tool": "say", "arguments": { "text": "hello" } });
        let request = world.bare(Method::POST, "/api/v1/calls").bearer_auth(teller.secret.expose()).json(&body);
        read(request.send().await.unwrap()).await.1
    };
    let waiting = say().await;
    assert_eq!(waiting["status"], "waiting", "{waiting}");
    let id = waiting["waiting"]["id"].as_str().unwrap();

    let own = world.bare(Method::GET, &format!("/api/v1/approvals/{id}")).bearer_auth(teller.secret.expose());
    assert_eq!(own.send().await.unwrap().status(), 200, "an asker sees its own question");
    let (status, _) = world.get(&format!("/api/v1/approvals/{id}")).await;
    assert_eq!(status, 404, "and nobody else's");
    let (_, listed) = world.get("/api/v1/approvals").await;
    assert_eq!(listed["approvals"], json!([]));
    let (_, listed) = read(world.operator(Method::GET, "/api/v1/approvals").send().await.unwrap()).await;
    assert_eq!(listed["approvals"][0]["id"], id);

    let approve = || world.operator(Method::POST, &format!("/api/v1/approvals/{id}/approve"));
    assert_eq!(approve().body("reason=x").send().await.unwrap().status(), 415);
    let (status, answered) = read(approve().json(&json!({ "reason": "fine" })).send().await.unwrap()).await;
    assert_eq!((status, &answered["status"], &answered["decided_by"]), (200, &json!("approved"), &json!("operator")));
    assert_eq!(approve().send().await.unwrap().status(), 409);
    assert_eq!(world.operator(Method::POST, "/api/v1/approvals/none/reject").send().await.unwrap().status(), 404);
    assert_eq!(say().await["status"], "done");
    assert_eq!(say().await["status"], "waiting", "a yes is for one call");
    world.end().await;
}

#[tokio::test]
async fn records_are_heard_as_they_come() {
    let world = World::new().await;
    world.call("calculate", &json!({ "expression": "1" })).await;
    let mut heard = world.operator(Method::GET, "/api/v1/events").send().await.unwrap();
    assert_eq!(heard.headers()["content-type"], "text/event-stream");
    let outcome = world.call("calculate", &json!({ "expression": "2" })).await;
    let mut text = String::new();
    let first_two = async {
        while events(&text).len() < 2 {
            text.push_str(std::str::from_utf8(&heard.chunk().await.unwrap().unwrap()).unwrap());
        }
    };
    timeout(Duration::from_secs(10), first_two).await.unwrap();
    let first = &events(&text)[0];
    assert_eq!((&first["event"], &first["attempt"]), (&json!("received"), &outcome["attempt"]), "nothing from before");
    world.end().await;
}

#[tokio::test]
async fn a_client_that_goes_away_cancels_its_call() {
    let door = door();
    let world = World::before(&door, Duration::from_secs(5)).await;
    let body = json!({ "tool": "wait", "arguments": {} });
    let call = world.client(Method::POST, "/api/v1/calls").json(&body).send();
    tokio::select! {
        _ = call => unreachable!("it never comes back"),
        () = door.wait_for_calls(1) => {}
    }
    timeout(Duration::from_secs(10), async {
        while door.cancelled().is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await
    .unwrap();
    world.end().await;
}

#[tokio::test]
async fn what_happened_is_counted() {
    let world = World::new().await;
    world.call("calculate", &json!({ "expression": "1" })).await;
    world.call("calculate", &json!({})).await;
    world.call("made_up", &json!({})).await;
    let text = world.client(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
    for line in [
        r#"tollgate_calls_total{tool="calculate",status="done",code=""} 1"#,
        r#"tollgate_calls_total{tool="calculate",status="refused",code="invalid_arguments"} 1"#,
        r#"tollgate_calls_total{tool="(unknown)",status="refused",code="unknown_tool"} 1"#,
        r#"tollgate_call_duration_seconds_count{tool="calculate"} 2"#,
        "tollgate_calls_in_flight 0",
        "tollgate_ledger_writable 1",
        "tollgate_ledger_signed 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
    }
    assert!(!text.contains("made_up"));
    world.end().await;
}

#[tokio::test]
async fn without_a_ledger_the_server_is_not_ready() {
    let world = World::new().await;
    let audit = world.house.data_dir().join("audit");
    std::fs::rename(&audit, world.folder().join("gone")).unwrap();
    let (status, _) = read(world.bare(Method::GET, "/readyz").send().await.unwrap()).await;
    assert_eq!(status, 503);
    let (status, _) = read(world.bare(Method::GET, "/healthz").send().await.unwrap()).await;
    assert_eq!(status, 200);
    std::fs::rename(world.folder().join("gone"), &audit).unwrap();
    let (status, _) = read(world.bare(Method::GET, "/readyz").send().await.unwrap()).await;
    assert_eq!(status, 200);
    world.end().await;
}

/// What was kept back for the ends of calls is used up, and there is no way to keep it back again.
#[tokio::test]
async fn where_no_call_may_begin_the_server_is_not_ready_and_says_so() {
    let world = World::new().await;
    let reserve = world.house.data_dir().join("audit/reserve");
    let seen = async || {
        let (status, _) = read(world.bare(Method::GET, "/readyz").send().await.unwrap()).await;
        let metrics = world.operator(Method::GET, "/metrics").send().await.unwrap().text().await.unwrap();
        (status, metrics.contains("\ntollgate_ledger_writable 1\n"))
    };
    assert_eq!(seen().await, (200, true));
    std::fs::remove_file(&reserve).unwrap();
    std::fs::create_dir(&reserve).unwrap();
    assert_eq!(seen().await, (503, false));
    let calling = world.client(Method::POST, "/api/v1/calls").json(&json!({
        "tool": "calculate", "arguments": { "expression": "1+1" },
    }));
    let (_, outcome) = read(calling.send().await.unwrap()).await;
    assert_eq!(outcome["error"]["error"], "audit_unavailable");
    std::fs::remove_dir(&reserve).unwrap();
    assert_eq!(seen().await, (200, true), "it mends itself");
    world.end().await;
}

#[test]
fn the_interface_is_described() {
    let document = tollgate_server::openapi();
    let text = document.to_string();
    for reference in text.split("\"$ref\":\"#").skip(1).map(|rest| rest.split('"').next().unwrap()) {
        assert!(document.pointer(reference).is_some(), "{reference} points nowhere");
    }
    insta::assert_json_snapshot!(document);
}
