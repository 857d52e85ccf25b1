//! Failing for real: what is documented loads, and what is cancelled is gone: processes and sockets, counted.

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tollgate::config::Loaded;
use tollgate::{Ask, Call, Caller, CancellationToken, Code, Outcome, Permission, Risk, Role, Surface, Tollgate};

async fn house(folder: &Path, config: &str) -> Tollgate {
    let path = folder.join("tollgate.toml");
    std::fs::write(&path, config).unwrap();
    let loaded = Loaded::read(&path, folder).unwrap();
    let role = Role::new("free").allow("*").risk(Risk::Dangerous).permission(Permission::System).ask(Ask::Never);
    Tollgate::builder().config(loaded).role(role).without_builtin_tools().build().await.unwrap()
}

#[tokio::test]
async fn the_example_of_the_page_loads_and_says_what_the_page_says() {
    let page = include_str!("../../../../docs/failure.md");
    let example = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let house = house(folder.path(), example).await;
    assert!(house.warnings().is_empty(), "{:?}", house.warnings());
    let report = house.gate().failures("get_forecast").unwrap();
    let line = |code: &str| {
        let rung = report.ladder.iter().find(|rung| rung.code == code).unwrap();
        (rung.retry_after_ms.clone(), rung.retry_by, rung.fallback.as_deref(), rung.human)
    };
    assert_eq!(line("network_error"), (vec![1000, 2000, 4000], Some("resilience"), Some("get_climate"), false));
    assert_eq!(line("HTTP_503"), (vec![500, 1000, 2000, 4000, 8000], Some("source"), Some("get_climate"), false));
    assert_eq!(line("timeout"), (vec![0], Some("resilience"), Some("get_climate"), true));
    assert_eq!(line("NOT_FOUND"), (vec![], None, None, false));
    assert_eq!(line("default"), (vec![], None, Some("get_climate"), false));
    assert!(report.is_repeatable);
    assert_eq!((report.source.source.as_str(), report.source.max_concurrent), ("weather", Some(4)));
    house.stop().await;
}

#[tokio::test]
async fn rules_about_no_source_are_told() {
    let folder = tempfile::tempdir().unwrap();
    let house = house(folder.path(), "[resilience.sources.crn]\nmax_concurrent = 2\n").await;
    assert_eq!(house.warnings(), ["[resilience.sources.crn] is about no server"]);
    let lost =
        "[[tool]]\nname = \"a\"\ndescription = \"A.\"\ncommand = [\"a\"]\non_error.default.fallback.tool = \"b\"\n";
    let folder = tempfile::tempdir().unwrap();
    let house = self::house(folder.path(), lost).await;
    assert_eq!(house.warnings(), ["`a` falls back to the tool `b`, which is not there"]);
}

/// Calls and cancels once `is_there` returns.
async fn cancelled(house: &Tollgate, tool: &str, is_there: impl Future<Output = ()>) -> Outcome {
    let (caller, stop) = (Caller::new("ada", "free", Surface::Library), CancellationToken::new());
    let call = house.call_until(&caller, Call::tool(tool, json!({})), stop.clone());
    let cancel = async {
        is_there.await;
        stop.cancel();
    };
    tokio::join!(call, cancel).0
}

/// Whether a process is there and not only remembered.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim().is_empty() && !rest.trim_start().starts_with('Z'))
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let patience = Duration::from_secs(60);
    let waited = tokio::time::timeout(patience, async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    });
    assert!(waited.await.is_ok(), "{what}");
}

#[tokio::test]
async fn cancelling_ends_the_whole_tree_of_processes() {
    let folder = tempfile::tempdir().unwrap();
    let script = "trap '' TERM; sh -c 'trap \"\" TERM; sleep 600 & echo $! >> pids; echo $$ >> pids; wait' & echo $$ >> pids; wait";
    let config =
        format!("[[tool]]\nname = \"tree\"\ndescription = \"Grows.\"\ncommand = [\"sh\", \"-c\", {script:?}]\n");
    let house = house(folder.path(), &config).await;
    let list = folder.path().join("pids");
    let pids = || std::fs::read_to_string(&list).unwrap_or_default().lines().map(str::to_owned).collect::<Vec<_>>();
    let outcome = cancelled(&house, "tree", until("three processes", || pids().len() == 3)).await;
    assert_eq!(outcome.code(), Some(Code::Cancelled));
    house.stop().await;
    until("none of them is left", || pids().iter().filter(|pid| runs(pid)).count() == 0).await;
}

#[tokio::test]
async fn cancelling_closes_the_request() {
    let folder = tempfile::tempdir().unwrap();
    let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/x", server.local_addr().unwrap());
    let config =
        format!("[[tool]]\nname = \"ask\"\ndescription = \"Asks.\"\nhttp = {{ url = {url:?} }}\nrisk = \"read\"\n");
    let house = house(folder.path(), &config).await;
    let (asked, was_asked) = tokio::sync::oneshot::channel();
    let silent = async {
        let (mut socket, _) = server.accept().await.unwrap();
        let mut bytes = [0; 1024];
        assert!(socket.read(&mut bytes).await.unwrap() > 0);
        asked.send(()).unwrap();
        while !matches!(socket.read(&mut bytes).await, Ok(0) | Err(_)) {}
    };
    let call = cancelled(&house, "ask", async { was_asked.await.unwrap() });
    let (outcome, ()) = tokio::join!(call, silent);
    assert_eq!(outcome.code(), Some(Code::Cancelled));
    house.stop().await;
}
