//! Real programs, well-behaved and not, run to their end.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

mod long;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::{Pid, test_kill_process};
use tempfile::TempDir;
use tollgate_sandbox::{Finished, Launch, LaunchError, base_env, level, run};
use tollgate_types::{CancellationToken, Progress, limits};

/// Longer than any test may take: it turns a hang into a failure.
const NEVER: Duration = Duration::from_secs(60);

fn shell(folder: &TempDir, script: &str) -> Launch {
    Launch {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script.into()],
        cwd: folder.path().to_owned(),
        env: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        stdin: Vec::new(),
        timeout: NEVER,
        stdout_bytes_max: limits::PROGRAM_STDOUT_BYTES_MAX,
        stderr_bytes_max: limits::PROGRAM_STDERR_BYTES_MAX,
        progress: Progress::none(),
    }
}

async fn finish(launch: Launch) -> Result<Finished, LaunchError> {
    tokio::time::timeout(NEVER / 2, run(launch, &CancellationToken::new())).await.unwrap()
}

fn pid_in(folder: &Path) -> Option<Pid> {
    let text = fs::read_to_string(folder.join("pid")).ok()?;
    // The newline comes last: a number without it may be half written.
    text.strip_suffix('\n')?.parse().ok().and_then(Pid::from_raw)
}

/// A zombie that init has not reaped yet runs no more.
fn is_running(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    test_kill_process(pid).is_ok() && !stat.is_ok_and(|stat| stat.contains(") Z "))
}

async fn until<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let looked = async {
        loop {
            match look() {
                Some(seen) => return seen,
                None => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
    };
    tokio::time::timeout(NEVER / 2, looked).await.unwrap()
}

#[tokio::test]
async fn a_program_ends_as_it_likes() {
    let folder = TempDir::new().unwrap();
    let cases: [(&str, _, _, &[u8], _); 7] = [
        ("true", Some(0), None, b"", ""),
        ("echo out; echo err >&2; exit 3", Some(3), None, b"out\n", "err\n"),
        (r"printf '\377\000\376'; printf 'a\377b' >&2", Some(0), None, b"\xff\x00\xfe", "a\u{fffd}b"),
        ("kill -KILL $$", None, Some(9), b"", ""),
        ("echo before; kill -TERM $$", None, Some(15), b"before\n", ""),
        ("exec >&- 2>&-; exit 4", Some(4), None, b"", ""),
        ("pwd > where; cat where | wc -l | tr -d ' '", Some(0), None, b"1\n", ""),
    ];
    for (script, code, signal, stdout, stderr) in cases {
        let finished = finish(shell(&folder, script)).await.unwrap();
        let expected = Finished { code, signal, stdout: stdout.to_vec(), stderr: String::from(stderr) };
        assert_eq!(finished, expected, "{script}");
    }
}

#[tokio::test]
async fn input_and_output_flow_side_by_side() {
    let folder = TempDir::new().unwrap();
    let input: Vec<u8> = (0..3_000_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let echoed = finish(Launch { stdin: input.clone(), ..shell(&folder, "cat") }).await.unwrap();
    assert_eq!(echoed.stdout, input);

    let unread = finish(Launch { stdin: input.clone(), ..shell(&folder, "echo done") }).await.unwrap();
    assert_eq!((unread.code, unread.stdout.as_slice()), (Some(0), &b"done\n"[..]));

    let closed_early =
        finish(Launch { stdin: input, ..shell(&folder, "head -c 3 >&2; exec <&-; sleep 0.1; echo done") }).await;
    assert_eq!(closed_early.unwrap().stdout, b"done\n");

    let at_the_limit = Launch { stdout_bytes_max: 5, ..shell(&folder, "printf 12345") };
    assert_eq!(finish(at_the_limit).await.unwrap().stdout, b"12345");
}

#[tokio::test]
async fn each_piece_of_output_is_a_sign_of_life() {
    let folder = TempDir::new().unwrap();
    let wait = |file: &str| format!("while [ ! -e {file} ]; do sleep 0.01; done");
    let script = format!("printf a; {}; printf b >&2; {}; printf c", wait("1"), wait("2"));
    // The program goes on when its output was heard.
    let (heard, place) = (AtomicUsize::new(0), folder.path().to_owned());
    let progress = Progress::none().with_alive(move || {
        let times = heard.fetch_add(1, Ordering::SeqCst) + 1;
        fs::write(place.join(times.to_string()), "").unwrap();
    });
    let finished = finish(Launch { progress, ..shell(&folder, &script) }).await.unwrap();
    assert_eq!((finished.stdout.as_slice(), finished.stderr.as_str()), (&b"ac"[..], "b"));
    assert!(folder.path().join("3").exists());
}

#[tokio::test]
async fn endless_output_is_stopped_at_the_limit() {
    let folder = TempDir::new().unwrap();
    let launch = shell(&folder, "echo $$ > pid; head -c 1073741824 /dev/zero");
    let error = finish(launch).await.unwrap_err();
    assert!(matches!(error, LaunchError::StdoutTooLarge { limit_bytes: limits::PROGRAM_STDOUT_BYTES_MAX }));
    assert!(!is_running(pid_in(folder.path()).unwrap()));

    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak_kb: usize = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap()
        .trim_end_matches("kB")
        .trim()
        .parse()
        .unwrap();
    assert!(peak_kb < 128 * 1024, "peak memory {peak_kb} kB");
}

#[tokio::test]
async fn only_the_end_of_standard_error_is_kept() {
    let folder = TempDir::new().unwrap();
    let script = "i=0; while [ $i -lt 40000 ]; do echo 'grün 0123456789'; i=$((i+1)); done >&2; printf end >&2";
    let finished = finish(Launch { stderr_bytes_max: 100, ..shell(&folder, script) }).await.unwrap();
    assert!(finished.stderr.ends_with("grün 0123456789\nend"), "{}", finished.stderr);
    assert!(finished.stderr.len() <= 100 && !finished.stderr.contains('\u{fffd}'));
}

#[tokio::test]
async fn what_never_ends_is_stopped() {
    let cases = [
        ("obeys", "echo $$ > pid; echo alive >&2; exec sleep 1000", "alive\n"),
        ("ignores TERM", "trap '' TERM; echo $$ > pid; while :; do sleep 0.01; done", ""),
        ("has last words", "trap 'echo bye >&2; exit' TERM; echo $$ > pid; while :; do sleep 0.01; done", "bye\n"),
        ("closed its outputs", "exec >&- 2>&-; echo $$ > pid; exec sleep 1000", ""),
        ("prints without end", "echo $$ > pid; while :; do echo x >&2; done", "x\n"),
    ];
    for (what, script, stderr) in cases {
        let folder = TempDir::new().unwrap();
        let launch = Launch { timeout: Duration::from_millis(400), ..shell(&folder, script) };
        let error = finish(launch).await.unwrap_err();
        let LaunchError::TimedOut { timeout_ms: 400, stderr: said } = error else { panic!("{what}: {error:?}") };
        // A shell reports the children that the signal ended, so only the end is sure.
        assert!(said.ends_with(stderr), "{what}: {said}");
        assert!(!is_running(pid_in(folder.path()).unwrap()), "{what}");
    }
}

#[tokio::test]
async fn cancelling_stops_the_group() {
    let folder = TempDir::new().unwrap();
    let cancellation = CancellationToken::new();
    let running = run(shell(&folder, "sleep 1000 & echo $! > pid; wait"), &cancellation);
    let cancelling = async {
        let pid = until(|| pid_in(folder.path())).await;
        cancellation.cancel();
        pid
    };
    let (ended, child) = tokio::join!(running, cancelling);
    assert!(matches!(ended, Err(LaunchError::Cancelled)));
    assert!(!is_running(child));

    let late = run(shell(&folder, "echo started > late"), &cancellation).await;
    assert!(matches!(late, Err(LaunchError::Cancelled)));
    assert!(!folder.path().join("late").exists());
}

#[tokio::test]
async fn children_do_not_outlive_the_program() {
    let cases = [
        ("holds the pipes", "sleep 1000 & echo $! > pid; echo hello"),
        ("lets go of them", "sleep 1000 >/dev/null 2>&1 </dev/null & echo $! > pid; echo hello"),
        ("ignores TERM", "(trap '' TERM; exec sleep 1000) & echo $! > pid; echo hello"),
    ];
    for (what, script) in cases {
        let folder = TempDir::new().unwrap();
        let finished = finish(shell(&folder, script)).await.unwrap();
        assert_eq!((finished.code, finished.stdout.as_slice()), (Some(0), &b"hello\n"[..]), "{what}");
        assert!(!is_running(pid_in(folder.path()).unwrap()), "{what}");
    }
}

#[tokio::test]
async fn a_child_may_finish_what_it_prints() {
    let folder = TempDir::new().unwrap();
    let finished = finish(shell(&folder, "(sleep 0.02; echo late) & echo first")).await.unwrap();
    assert_eq!(finished.stdout, b"first\nlate\n");
}

#[tokio::test]
async fn dropping_the_future_kills_the_group() {
    let folder = TempDir::new().unwrap();
    let cancellation = CancellationToken::new();
    let script = "trap '' TERM; (exec sleep 1000) & echo $! > pid; wait";
    let child = tokio::select! {
        ended = run(shell(&folder, script), &cancellation) => panic!("{ended:?}"),
        child = until(|| pid_in(folder.path())) => child,
    };
    until(|| (!is_running(child)).then_some(())).await;
}

#[tokio::test]
async fn what_cannot_start_says_why() {
    let folder = TempDir::new().unwrap();
    let script = |name: &str, text: &str, mode: u32| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    };
    script("plain", "#!/bin/sh\n", 0o644);
    script("lost", "#!/no/such/interpreter\n", 0o755);
    let cases = [
        ("no-such-program", ".", "the program `no-such-program` was not found"),
        ("./no-such-program", ".", "the program `./no-such-program` was not found"),
        ("./plain", ".", "the program `./plain` could not be started: Permission denied (os error 13)"),
        (
            "./lost",
            ".",
            "the program `./lost` could not be started: the interpreter that its first line names is not there",
        ),
        ("/bin/sh", "missing", "the program `/bin/sh` could not be started: its working folder `"),
        ("a\0b", ".", "the program `a\0b` could not be started: "),
    ];
    for (program, cwd, message) in cases {
        let launch = Launch { program: program.into(), cwd: folder.path().join(cwd), ..shell(&folder, "") };
        let error = finish(launch).await.unwrap_err();
        assert!(error.to_string().starts_with(message), "{error}");
        assert_eq!(matches!(error, LaunchError::NotFound { .. }), message.ends_with("found"));
    }
}

#[tokio::test]
async fn the_environment_is_what_was_given() {
    let folder = TempDir::new().unwrap();
    let env = BTreeMap::from([("GREETING".to_owned(), "grüß dich".to_owned())]);
    let launch = Launch { program: "/usr/bin/env".into(), args: vec![], env, ..shell(&folder, "") };
    assert_eq!(String::from_utf8(finish(launch).await.unwrap().stdout).unwrap(), "GREETING=grüß dich\n");
}

#[test]
fn the_base_environment_holds_no_secret() {
    let env = base_env();
    assert!(env.contains_key("PATH"));
    // Cargo and nextest set many variables for a test; none of them is on the list.
    assert!(std::env::vars_os().any(|(name, _)| name == "CARGO_MANIFEST_DIR"));
    assert!(env.keys().all(|name| name.starts_with("LC_")
        || ["HOME", "LANG", "PATH", "TERM", "TMPDIR", "TZ", "USER"].contains(&name.as_str())));
    assert_eq!(level().as_str(), "none");
}
