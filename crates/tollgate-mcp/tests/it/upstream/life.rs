//! Servers start, fall, come back and end; whatever happens, nothing of them is left.

use tollgate_mcp::upstream::UpstreamState;
use tollgate_types::{Code, Secret};

use super::*;

fn is_running(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

fn descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Our children, dead and unburied ones too: of every thread, for any may have started them.
fn children() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
    let children = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    children.map(|children| children.split_whitespace().count()).sum()
}

#[tokio::test]
async fn nothing_is_left_after_a_stop_or_a_drop() {
    // What the process needs once and keeps.
    House::with(&["legacy"]).await.upstreams.stop().await;
    let before = descriptors();
    for is_dropped in [false, true] {
        let house = House::with(&["family"]).await;
        assert_eq!(house.status().state, UpstreamState::Ready);
        let pids = fs::read_to_string(house.folder.path().join("pids")).unwrap();
        assert!(pids.lines().count() == 3 && pids.lines().all(is_running));
        if is_dropped {
            drop(house.upstreams);
        } else {
            house.upstreams.stop().await;
            assert!(!pids.lines().any(is_running), "a stop waits for the end");
            drop(house);
        }
        until("all are gone", || !pids.lines().any(is_running)).await;
        until("no child and no zombie is left", || children() == 0).await;
        until("no descriptor is left", || descriptors() == before).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_servers_come_and_go() {
    House::with(&["legacy"]).await.upstreams.stop().await;
    let before = descriptors();
    let kinds: [&[&str]; 5] =
        [&["legacy"], &["modern"], &["noise"], &["dies-at", "tools/list"], &["dies-at", "server/discover"]];
    let configure = |folder: &Path| {
        let eager = |(index, words): (usize, &&[&str])| {
            let mut config = double(folder, &format!("s{index}"), words);
            config.start = Start::Eager;
            config
        };
        kinds.iter().enumerate().map(eager).collect()
    };
    let house = House::of(configure, limits());
    house.upstreams.settle(NEVER).await;
    let mut calls = tokio::task::JoinSet::new();
    for round in 0..40 {
        let tool = find(&house.upstreams, ["mcp__s0__echo", "mcp__s1__echo", "mcp__s2__echo"][round % 3]);
        let how = ["", "die", "wrong ids", ""][round % 4];
        calls.spawn(async move { tool.call(json!({"do": how}), tollgate_testkit::cx("/")).await.is_ok() });
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let answered = calls.join_all().await.into_iter().filter(|is_ok| *is_ok).count();
    assert!(answered > 0);
    // The one that can not list falls again and again, and takes nobody with it.
    let status = house.upstreams.list();
    assert!(status[3].restarts > 1 && status[3].tools.is_empty(), "{:?}", status[3]);
    assert_eq!((status[4].state, status[4].restarts), (UpstreamState::Ready, 0));
    house.upstreams.stop().await;
    drop(house);
    until("no child and no zombie is left", || children() == 0).await;
    until("no descriptor is left", || descriptors() == before).await;
}

#[tokio::test]
async fn a_lazy_server_waits_and_an_eager_one_comes_back_by_itself() {
    let lazy = House::of(|folder| vec![double(folder, "x", &["legacy"])], limits());
    assert_eq!(lazy.status().state, UpstreamState::Idle);
    lazy.upstreams.settle(NEVER).await;
    assert_eq!(lazy.status().state, UpstreamState::Ready);

    let configure = |folder: &Path| {
        let mut config = double(folder, "x", &["legacy"]);
        config.start = Start::Eager;
        vec![config]
    };
    let eager = House::of(configure, limits());
    until("it is up", || eager.status().state == UpstreamState::Ready).await;
    eager.call("mcp__x__echo", json!({"do": "die"})).await.unwrap_err();
    until("it fell and is up again", || {
        let status = eager.status();
        status.restarts == 1 && status.state == UpstreamState::Ready
    })
    .await;
    assert_eq!(eager.changes.load(Ordering::SeqCst), 1, "the same tools are no change");
}

#[tokio::test]
async fn a_server_that_can_not_start_is_tried_more_and_more_slowly() {
    let folder = TempDir::new().unwrap();
    let kind = UpstreamKind::Stdio {
        command: "no-such-program".into(),
        args: vec![],
        env: BTreeMap::new(),
        cwd: folder.path().to_owned(),
    };
    let config = UpstreamConfig { start: Start::Eager, ..UpstreamConfig::new("gone", kind) };
    let limits = Limits { pause_min: Duration::from_millis(5), pause_max: NEVER, ..limits() };
    let house = House::of(|folder| vec![config, double(folder, "well", &["legacy"])], limits);
    house.upstreams.settle(NEVER).await;
    until("it fell often", || house.status().restarts > 5).await;
    let status = house.status();
    assert_eq!(status.last_error.as_deref(), Some("the program `no-such-program` was not found"));
    assert!(status.retry_in_ms.is_some_and(|ms| ms > 50), "{status:?}");
    house.call("mcp__well__echo", json!({})).await.unwrap();
}

#[tokio::test]
async fn a_call_to_a_server_that_is_down_is_refused_at_once() {
    let limits = Limits { pause_min: NEVER, pause_max: NEVER, ..limits() };
    let house = House::of(|folder| vec![double(folder, "x", &["legacy"])], limits);
    house.upstreams.settle(NEVER).await;
    house.call("mcp__x__echo", json!({"do": "die"})).await.unwrap_err();
    until("it is down", || house.status().state == UpstreamState::Down).await;
    let error = house.call("mcp__x__echo", json!({})).await.unwrap_err();
    assert_eq!(error.code, Code::Unavailable);
    assert!(error.message.contains("the server `x` is down: the server closed its output"), "{error:?}");
}

#[tokio::test]
async fn the_environment_is_scrubbed() {
    let configure = |folder: &Path| {
        let script = "env > env; exec cat";
        let env = BTreeMap::from([("TOKEN".to_owned(), Secret::new("hunter2"))]);
        let args = vec!["-c".into(), script.into()];
        let kind = UpstreamKind::Stdio { command: "/bin/sh".into(), args, env, cwd: folder.to_owned() };
        vec![UpstreamConfig { start: Start::Eager, ..UpstreamConfig::new("x", kind) }]
    };
    let house = House::of(configure, limits());
    let env = || fs::read_to_string(house.folder.path().join("env")).unwrap_or_default();
    until("it was written", || env().contains("PATH=")).await;
    assert!(env().contains("TOKEN=hunter2") && !env().contains("CARGO"), "{}", env());
    assert!(!format!("{:?}", house.upstreams).contains("hunter2"));
}
