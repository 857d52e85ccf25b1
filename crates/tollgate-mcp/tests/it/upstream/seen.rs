//! What an operator sees of a server that is not well, and where its words are kept.

use tollgate_guard::client::Credentials;
use tollgate_guard::redact::Redactor;
use tollgate_mcp::upstream::{LogFile, Trouble, UpstreamState, tail};
use tollgate_types::Secret;

use super::*;

fn shell(folder: &Path, name: &str, script: &str) -> UpstreamConfig {
    let (command, args) = ("/bin/sh".to_owned(), vec!["-c".to_owned(), script.to_owned()]);
    let kind = UpstreamKind::Stdio { command, args, env: BTreeMap::new(), cwd: folder.to_owned() };
    UpstreamConfig::new(name, kind)
}

#[tokio::test]
async fn what_keeps_a_server_from_coming_up_has_a_word() {
    let quick = Limits { handshake: Duration::from_millis(700), ..limits() };
    let absent = |folder: &Path| {
        let kind = UpstreamKind::Stdio {
            command: "no-such-program".into(),
            args: vec![],
            env: BTreeMap::new(),
            cwd: folder.to_owned(),
        };
        UpstreamConfig::new("absent", kind)
    };
    let closed = UpstreamKind::Http { url: "http://127.0.0.1:9/mcp".into(), headers: Credentials::default() };
    let configs = |folder: &Path| {
        vec![
            absent(folder),
            UpstreamConfig::new("closed", closed),
            shell(folder, "ends", "echo it broke >&2; exit 3"),
            shell(folder, "deaf", "exec sleep 1000"),
            shell(folder, "prints", "echo Listening on port 80; exec sleep 1000"),
            double(folder, "future", &["future"]),
            double(folder, "noisy", &["noise"]),
        ]
    };
    let house = House::of(configs, quick);
    house.upstreams.settle(NEVER).await;
    let troubles = || {
        let list = house.upstreams.list();
        list.into_iter().map(|status| (status.name, status.trouble)).collect::<Vec<_>>()
    };
    // A server that falls again is never without its word.
    for (name, trouble) in troubles() {
        let expected = match name.as_str() {
            "absent" | "closed" => Some(Trouble::NotFound),
            "ends" => Some(Trouble::Ended),
            "deaf" => Some(Trouble::TooSlow),
            "prints" => Some(Trouble::PrintsOnStdout),
            "future" => Some(Trouble::OtherProtocol),
            // It prints, and answers all the same.
            _ => None,
        };
        assert_eq!(trouble, expected, "{name}: {:?}", house.upstreams.list());
    }
}

#[tokio::test]
async fn what_it_prints_to_standard_error_is_kept_without_secrets() {
    let kept = TempDir::new().unwrap();
    let path = kept.path().join("mcp/x.log");
    let redactor = Redactor::new(b"key", [Secret::new("zq-injected-secret")]);
    let log = LogFile::new(&path, redactor, RealClock::new());
    let script = "echo 北京 zq-injected-secret >&2; printf half >&2; exit 3";
    let configure = |folder: &Path| vec![UpstreamConfig { log: Some(log), ..shell(folder, "x", script) }];
    let house = House::of(configure, Limits { pause_min: NEVER, pause_max: NEVER, ..limits() });
    house.upstreams.settle(NEVER).await;
    assert_eq!(house.status().state, UpstreamState::Down);
    until("it was kept", || tail(&path, 9).unwrap().iter().any(|line| line.contains("北京"))).await;
    let text = fs::read_to_string(&path).unwrap();
    assert!(!text.contains("zq-injected"), "{text}");
    let mode =
        |path: &Path| std::os::unix::fs::PermissionsExt::mode(&fs::metadata(path).unwrap().permissions()) & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
}
