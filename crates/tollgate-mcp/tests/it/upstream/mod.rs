//! Servers as Tollgate calls them: hostile doubles over stdio and HTTP, and a real one.

mod asking;
mod entries;
mod faithful;
mod hostile;
mod http;
mod life;
mod logins;
mod pool;
mod real;
mod seen;
mod sessions;
mod tasks;
mod unasked;
mod ways;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tollgate_mcp::upstream::{Limits, OnChange, Start, UpstreamConfig, UpstreamKind, UpstreamStatus, Upstreams};
use tollgate_testkit::servers;
use tollgate_types::{Clock, Content, Tool, ToolError, ToolOutput};

/// Longer than any test may take: it turns a hang into a failure.
pub(super) const NEVER: Duration = Duration::from_secs(60);

struct RealClock(Instant);

impl RealClock {
    #[expect(clippy::disallowed_methods, reason = "servers live in real time")]
    fn new() -> Arc<Self> {
        Arc::new(Self(Instant::now()))
    }
}

impl Clock for RealClock {
    #[expect(clippy::disallowed_methods, reason = "servers live in real time")]
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::now()
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Bounds that fit a test: the probe is quick, and a fall costs little.
fn limits() -> Limits {
    Limits {
        probe: Duration::from_millis(700),
        handshake: Duration::from_secs(20),
        list: Duration::from_secs(15),
        response_bytes_max: 1024 * 1024,
        pause_min: Duration::from_millis(20),
        pause_max: Duration::from_millis(100),
        sustained: Duration::from_secs(10),
        stop: Duration::from_millis(300),
        ..Limits::default()
    }
}

fn double(folder: &Path, name: &str, words: &[&str]) -> UpstreamConfig {
    let mut args = vec!["-S".to_owned(), servers::HOSTILE.to_owned()];
    args.extend(words.iter().map(|word| (*word).to_owned()));
    let python = if Path::new("/usr/bin/python3").exists() { "/usr/bin/python3" } else { "python3" };
    let kind = UpstreamKind::Stdio { command: python.into(), args, env: BTreeMap::new(), cwd: folder.to_owned() };
    UpstreamConfig::new(name, kind)
}

struct House {
    upstreams: Upstreams,
    changes: Arc<AtomicUsize>,
    folder: TempDir,
}

impl House {
    fn of(configs: impl FnOnce(&Path) -> Vec<UpstreamConfig>, limits: Limits) -> Self {
        let folder = TempDir::new().unwrap();
        let changes = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&changes);
        let on_change: OnChange = Arc::new(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
        });
        let upstreams = Upstreams::start(configs(folder.path()), limits, RealClock::new(), on_change).unwrap();
        Self { upstreams, changes, folder }
    }

    /// One double, its tools known or its fall.
    async fn with(words: &[&str]) -> Self {
        let house = Self::of(|folder| vec![double(folder, "x", words)], limits());
        house.upstreams.settle(NEVER).await;
        house
    }

    fn status(&self) -> UpstreamStatus {
        self.upstreams.list().remove(0)
    }

    fn log(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
        text.lines().map_while(|line| serde_json::from_str(line).ok()).collect()
    }

    fn methods(&self) -> Vec<String> {
        let log = self.log();
        log.iter().map(|message| message["method"].as_str().unwrap_or("-").to_owned()).collect()
    }

    async fn call(&self, tool: &str, arguments: Value) -> Result<ToolOutput, ToolError> {
        call(&self.upstreams, tool, arguments, NEVER).await
    }
}

fn find(upstreams: &Upstreams, name: &str) -> Arc<dyn Tool> {
    let tools = upstreams.tools();
    let names: Vec<String> = tools.iter().map(|tool| tool.definition().name).collect();
    let found = tools.into_iter().find(|tool| tool.definition().name == name);
    found.unwrap_or_else(|| panic!("`{name}` is not among {names:?}; {:?}", upstreams.list()))
}

async fn call(up: &Upstreams, tool: &str, arguments: Value, deadline: Duration) -> Result<ToolOutput, ToolError> {
    let mut cx = tollgate_testkit::cx("/");
    cx.deadline = deadline;
    tokio::time::timeout(NEVER, find(up, tool).call(arguments, cx)).await.unwrap()
}

async fn until(what: &str, mut look: impl FnMut() -> bool) {
    let looked = async {
        while !look() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(NEVER / 2, looked).await.is_ok(), "{what}");
}

fn text(output: &ToolOutput) -> &str {
    match output.content.first() {
        Some(Content::Text(text)) => text,
        other => panic!("{other:?}"),
    }
}
