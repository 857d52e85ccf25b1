//! Connections of single callers: what one leaves at a server, no other finds.

use tollgate_mcp::upstream::Sessions;
use tollgate_types::{Caller, Code, Surface};

use super::*;

fn pooled(folder: &Path) -> UpstreamConfig {
    let mut config = double(folder, "x", &["legacy"]);
    config.sessions = Sessions::Caller;
    config
}

fn house(callers_max: usize) -> House {
    House::of(|folder| vec![pooled(folder)], Limits { callers_max, ..limits() })
}

/// Which process answers a caller.
async fn who_answers(house: &House, subject: &str, tenant: Option<&str>) -> Result<u64, ToolError> {
    let mut cx = tollgate_testkit::cx("/");
    let caller = Caller::new(subject, "reader", Surface::Library);
    cx.caller = Arc::new(match tenant {
        Some(tenant) => caller.with_tenant(tenant),
        None => caller,
    });
    let answered = find(&house.upstreams, "mcp__x__echo").call(json!({"do": "pid"}), cx).await;
    answered.map(|output| text(&output).parse().unwrap())
}

#[tokio::test]
async fn each_caller_has_a_process_of_its_own() {
    let house = house(3);
    house.upstreams.settle(NEVER).await;
    let ann = who_answers(&house, "ann", None).await.unwrap();
    let bob = who_answers(&house, "bob", None).await.unwrap();
    let other_ann = who_answers(&house, "ann", Some("north")).await.unwrap();
    assert!(ann != bob && ann != other_ann && bob != other_ann);
    assert_eq!(who_answers(&house, "ann", None).await.unwrap(), ann, "and keeps it");
    // A fourth makes room from who was here longest ago.
    let cat = who_answers(&house, "cat", None).await.unwrap();
    let bobs = format!("/proc/{bob}");
    until("bob's has ended", || !Path::new(&bobs).exists()).await;
    assert_eq!(who_answers(&house, "ann", None).await.unwrap(), ann);
    assert_eq!(who_answers(&house, "cat", None).await.unwrap(), cat);
    let pids = [ann, other_ann, cat].map(|pid| format!("/proc/{pid}"));
    house.upstreams.stop().await;
    assert!(!pids.iter().any(|pid| Path::new(pid).exists()), "a stop waits for the end of all");
    let error = who_answers(&house, "ann", None).await.unwrap_err();
    assert_eq!(error.code, Code::Unavailable);
}

#[tokio::test]
async fn callers_who_are_known_by_one_credential_share_what_is_shared() {
    let house = House::with(&["legacy"]).await;
    let ann = who_answers(&house, "ann", None).await.unwrap();
    assert_eq!(who_answers(&house, "bob", Some("north")).await.unwrap(), ann);
    house.upstreams.stop().await;
}

#[tokio::test]
async fn who_is_in_the_middle_of_a_call_gives_no_place_away() {
    let house = house(1);
    house.upstreams.settle(NEVER).await;
    let mut cx = tollgate_testkit::cx("/");
    cx.caller = Arc::new(Caller::new("ann", "reader", Surface::Library));
    let tool = find(&house.upstreams, "mcp__x__echo");
    let mut held = tokio::task::JoinSet::new();
    held.spawn(async move { tool.call(json!({"do": "never"}), cx).await.is_err() });
    until("ann's call is there", || house.methods().contains(&"tools/call".to_owned())).await;
    let error = who_answers(&house, "bob", None).await.unwrap_err();
    assert_eq!(error.code, Code::Unavailable);
    assert!(error.message.contains("1 callers use it now"), "{error:?}");
    held.shutdown().await;
    until("the call has ended", || house.methods().contains(&"notifications/cancelled".to_owned())).await;
    who_answers(&house, "bob", None).await.unwrap();
}

#[tokio::test]
async fn nothing_is_left_of_callers_after_a_drop_or_disuse() {
    let brief = Limits { idle: Duration::from_millis(300), ..limits() };
    let house = House::of(|folder| vec![pooled(folder)], brief);
    house.upstreams.settle(NEVER).await;
    let pid = format!("/proc/{}", who_answers(&house, "ann", None).await.unwrap());
    until("a connection that is not used ends", || !Path::new(&pid).exists()).await;
    let pid = format!("/proc/{}", who_answers(&house, "ann", None).await.unwrap());
    drop(house.upstreams);
    until("and so does one that is dropped", || !Path::new(&pid).exists()).await;
}
