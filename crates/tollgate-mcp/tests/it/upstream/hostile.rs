//! Servers that do what they should not: each costs itself and nobody else.

use tollgate_mcp::upstream::UpstreamState;
use tollgate_types::{CancellationToken, Code, Progress};

use super::*;

#[tokio::test]
async fn every_kind_of_server_is_greeted_in_its_era() {
    let cases = [
        ("legacy", "2025-11-25"),
        ("odd-code", "2025-11-25"),
        ("ignores-discover", "2025-11-25"),
        ("late", "2025-11-25"),
        ("modern", "2026-07-28"),
        ("noise", "2025-11-25"),
        ("deep", "2025-11-25"),
    ];
    for (character, era) in cases {
        let house = House::with(&[character]).await;
        let status = house.status();
        assert_eq!((status.state, status.era), (UpstreamState::Ready, Some(era)), "{character}: {status:?}");
        let output = house.call("mcp__x__echo", json!({"a": "好"})).await.unwrap();
        assert_eq!(serde_json::from_str::<Value>(text(&output)).unwrap(), json!({"a": "好"}), "{character}");
        let methods = house.methods();
        assert_eq!(methods.contains(&"initialize".to_owned()), era != "2026-07-28", "{character}: {methods:?}");
        assert!(status.stderr_tail.contains("starting"), "{character}");
        house.upstreams.stop().await;
        assert_eq!(house.status().state, UpstreamState::Stopped);
    }
}

#[tokio::test]
async fn a_server_that_starts_slowly_may_answer_the_probe_late() {
    // It then holds to the era of the first question, and refuses `initialize`, or the bare requests after it.
    for character in ["slow", "slow-strict"] {
        let limits = Limits { probe: Duration::from_millis(100), ..limits() };
        let house = House::of(|folder| vec![double(folder, "x", &[character, "1.5"])], limits);
        house.upstreams.settle(NEVER).await;
        let status = house.status();
        assert_eq!((status.state, status.era), (UpstreamState::Ready, Some("2026-07-28")), "{status:?}");
        assert_eq!((status.noise.stale_answers, status.restarts), (1, 0));
        assert_eq!(&house.methods()[..2], ["server/discover", "initialize"]);
        assert_eq!(text(&house.call("mcp__x__echo", json!({})).await.unwrap()), "{}");
    }
}

#[tokio::test]
async fn a_server_that_dies_at_the_probe_is_started_again_without_one() {
    let house = House::with(&["dies-at", "server/discover"]).await;
    let status = house.status();
    assert_eq!((status.state, status.era), (UpstreamState::Ready, Some("2025-11-25")), "{status:?}");
    assert_eq!(house.methods()[..2], ["server/discover", "initialize"]);
    assert_eq!(status.restarts, 0);
}

#[tokio::test]
async fn what_a_server_dies_at_is_said() {
    for (words, reason) in [
        (vec!["dies-at", "initialize"], "the server closed its output (exit status: 3)"),
        (vec!["dies-at", "tools/list"], "the server closed its output (exit status: 3)"),
        (vec!["future"], "the server speaks revision `2099-01-01`"),
        (vec!["babbles"], "lines that are no message"),
    ] {
        let house = House::with(&words).await;
        let status = house.status();
        assert!(status.last_error.as_deref().unwrap_or_default().contains(reason), "{words:?}: {status:?}");
        assert!(status.tools.is_empty() && status.restarts > 0);
        house.upstreams.stop().await;
    }
}

#[tokio::test]
async fn a_call_survives_wrong_ids_and_a_death_costs_one_call() {
    let house = House::with(&["noise"]).await;
    let output = house.call("mcp__x__echo", json!({"do": "wrong ids"})).await.unwrap();
    assert_eq!(text(&output), "right");
    until("both are counted", || house.status().noise.stale_answers == 1).await;
    let noise = house.status().noise;
    // Twice it is no message: half a JSON, and bytes that are none. White space is nothing at all.
    assert_eq!((noise.unknown_ids, noise.lines), (5, 4), "{noise:?}");
    assert_eq!(noise.last_lines[0], "Welcome to the server!");

    for how in ["die", "die halfway"] {
        let error = house.call("mcp__x__echo", json!({"do": how})).await.unwrap_err();
        assert_eq!((error.code, error.tool_code.as_deref()), (Code::UpstreamError, Some("BROKEN_OFF")), "{error:?}");
        until("it may be started again", || house.status().retry_in_ms == Some(0)).await;
        assert_eq!(text(&house.call("mcp__x__echo", json!({"n": 1})).await.unwrap()), r#"{"n": 1}"#);
    }
    assert_eq!(house.status().restarts, 2);
}

#[tokio::test]
async fn an_answer_that_is_too_large_costs_its_call_alone() {
    let house = House::with(&["legacy"]).await;
    let error = house.call("mcp__x__echo", json!({"do": "huge"})).await.unwrap_err();
    assert_eq!(error.code, Code::ResultTooLarge, "{error:?}");
    assert_eq!(text(&house.call("mcp__x__echo", json!({})).await.unwrap()), "{}");
    assert_eq!((house.status().noise.too_long, house.status().restarts), (1, 0));
}

/// The most memory that this process had so far.
fn peak_bytes() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.split_whitespace().next().unwrap().parse::<usize>().unwrap() * 1024
}

#[tokio::test]
async fn two_billion_bytes_without_the_end_of_a_line_cost_their_server_alone() {
    let two = |folder: &Path| vec![double(folder, "x", &["legacy"]), double(folder, "y", &["legacy"])];
    let house = House::of(two, limits());
    house.upstreams.settle(NEVER).await;
    let pid = house.call("mcp__x__echo", json!({"do": "pid"})).await.unwrap();
    let process = format!("/proc/{}", text(&pid));
    let (error, other) =
        tokio::join!(house.call("mcp__x__echo", json!({"do": "zeros"})), house.call("mcp__y__echo", json!({"n": 1})));
    let error = error.unwrap_err();
    assert_eq!((error.code, error.tool_code.as_deref()), (Code::UpstreamError, Some("BROKEN_OFF")), "{error:?}");
    assert!(error.message.contains("without the end of a line"), "{error:?}");
    assert_eq!(text(&other.unwrap()), r#"{"n": 1}"#);
    until("the program is gone", || !Path::new(&process).exists()).await;
    until("it may be started again", || house.status().retry_in_ms == Some(0)).await;
    assert_eq!(text(&house.call("mcp__x__echo", json!({"n": 2})).await.unwrap()), r#"{"n": 2}"#);
    assert!(peak_bytes() < 300_000_000, "{} bytes", peak_bytes());
}

#[tokio::test]
async fn a_server_that_never_answers_is_told_that_nobody_waits() {
    let house = House::with(&["legacy"]).await;
    let error =
        call(&house.upstreams, "mcp__x__echo", json!({"do": "never"}), Duration::from_millis(50)).await.unwrap_err();
    assert_eq!(error.code, Code::Timeout);

    let mut cx = tollgate_testkit::cx("/");
    cx.cancellation = CancellationToken::new();
    let stop = cx.cancellation.clone();
    let tool = find(&house.upstreams, "mcp__x__echo");
    let (error, ()) = tokio::join!(tool.call(json!({"do": "never"}), cx), async {
        until("it was asked", || house.methods().iter().filter(|it| *it == "tools/call").count() == 2).await;
        stop.cancel();
    });
    assert_eq!(error.unwrap_err().code, Code::Cancelled);

    let cancelled = || house.methods().iter().filter(|it| *it == "notifications/cancelled").count();
    until("both questions were taken back", || cancelled() == 2).await;
    let log = house.log();
    let asked: Vec<&Value> = log.iter().filter(|it| it["method"] == "tools/call").map(|it| &it["id"]).collect();
    let taken: Vec<&Value> = log.iter().filter_map(|it| it["params"].get("requestId")).collect();
    assert_eq!(asked, taken);
}

#[tokio::test]
async fn progress_is_handed_on_and_questions_are_refused() {
    let house = House::with(&["legacy"]).await;
    let steps = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&steps);
    let mut cx = tollgate_testkit::cx("/");
    cx.progress = Progress::to(move |step| heard.lock().unwrap().push((step.progress, step.message)));
    find(&house.upstreams, "mcp__x__echo").call(json!({"do": "progress"}), cx).await.unwrap();
    let expected = [(1.0, Some("step 1".to_owned())), (2.0, Some("step 2".to_owned()))];
    assert_eq!(*steps.lock().unwrap(), expected);

    house.call("mcp__x__echo", json!({"do": "ask"})).await.unwrap();
    until("both are answered", || house.methods().iter().filter(|it| *it == "-").count() == 2).await;
    let log = house.log();
    let replies: Vec<&Value> = log.iter().filter(|it| it.get("method").is_none()).collect();
    let to = |id: Value| *replies.iter().find(|it| it["id"] == id).unwrap();
    // It does not wait for the answer to its question; what it hears says so, or that there is no client.
    assert!(matches!(to(json!("mine"))["error"]["code"].as_i64(), Some(-32601 | -32603)), "{replies:?}");
    assert_eq!(to(json!(5))["result"], json!({}));
}

#[tokio::test]
async fn a_million_tools_cost_no_more_than_is_allowed() {
    for (character, part) in [("million", "larger than"), ("thousands", "more than")] {
        let house = House::with(&[character]).await;
        let status = house.status();
        let said = status.last_error.clone().unwrap_or_default();
        assert!(said.contains(part), "{character}: {said}");
        // One list that is too long is no list; of one in pages the first thousands are used.
        assert_eq!(status.tools.len() > 1_000, character == "thousands", "{} tools", status.tools.len());
        assert!(house.methods().iter().filter(|it| *it == "tools/list").count() < 10);
        house.upstreams.stop().await;
    }
}

#[tokio::test]
async fn a_list_that_always_changes_keeps_nobody_from_calling() {
    let house = House::with(&["restless"]).await;
    for n in 0..20 {
        let output = house.call("mcp__x__echo", json!({"n": n})).await.unwrap();
        assert_eq!(text(&output), format!("{{\"n\": {n}}}"));
    }
    until("it is asked again and again", || house.changes.load(Ordering::SeqCst) > 3).await;
    assert_eq!((house.status().tools.len(), house.status().restarts), (2, 0));
    house.upstreams.stop().await;
}

#[tokio::test]
async fn a_server_that_stops_reading_keeps_nobody_waiting_longer_than_they_want() {
    let house = House::with(&["deaf"]).await;
    // More than the pipe and the queue hold.
    let large = "x".repeat(20_000);
    let calls =
        (0..100).map(|_| call(&house.upstreams, "mcp__x__echo", json!({"text": large}), Duration::from_millis(300)));
    for answered in futures_util::future::join_all(calls).await {
        assert_eq!(answered.unwrap_err().code, Code::Timeout);
    }
    house.upstreams.stop().await;
    assert_eq!(house.status().state, UpstreamState::Stopped);
}

#[tokio::test]
async fn a_server_may_die_at_any_message() {
    for (moment, starts) in [("notifications/initialized", false), ("tools/list", false), ("tools/call", true)] {
        let house = House::with(&["dies-at", moment]).await;
        let status = house.status();
        assert_eq!(status.state == UpstreamState::Ready, starts, "{moment}: {status:?}");
        if starts {
            let error = house.call("mcp__x__echo", json!({})).await.unwrap_err();
            assert_eq!(error.tool_code.as_deref(), Some("BROKEN_OFF"), "{moment}: {error:?}");
        }
        until("its end is said", || house.status().last_error.is_some_and(|said| said.contains("exit status: 3")))
            .await;
        house.upstreams.stop().await;
    }
}
