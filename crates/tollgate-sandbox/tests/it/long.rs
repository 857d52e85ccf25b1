//! Programs that run until they are told to stop, and what becomes of them when we do not get to say so.

use std::io::{BufRead, BufReader};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
use tollgate_sandbox::{Spawn, spawn};

use super::*;

const GRACE: Duration = Duration::from_millis(300);
/// Where the process that is going to be killed keeps its folder.
const FOLDER: &str = "TOLLGATE_TEST_FOLDER";

fn script(folder: &Path, script: &str) -> Spawn {
    Spawn {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script.into()],
        cwd: folder.to_owned(),
        env: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
    }
}

/// A child that ignores TERM, and one more that left the group; the last line of `pids` is there when all are.
const FAMILY: &str = "trap '' TERM; (trap '' TERM; while :; do sleep 0.05; done) & echo $! > pids; \
     setsid sh -c 'trap \"\" TERM; while :; do sleep 0.05; done' & sleep 0.1; echo $! >> pids; echo $$ >> pids; \
     while :; do sleep 0.05; done";

fn family(folder: &Path) -> Option<Vec<Pid>> {
    let text = fs::read_to_string(folder.join("pids")).ok()?;
    let pids: Vec<Pid> = text.lines().filter_map(|line| line.parse().ok().and_then(Pid::from_raw)).collect();
    (pids.len() == 3 && text.ends_with('\n')).then_some(pids)
}

/// Programs in the world that were started from `folder`, dead and unburied ones too.
fn started_from(folder: &Path) -> Vec<String> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let here = processes.filter(|process| fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == folder));
    here.map(|process| process.file_name().to_string_lossy().into_owned()).collect()
}

fn open_descriptors() -> usize {
    fs::read_dir("/proc/self/fd").unwrap().count()
}

#[tokio::test]
async fn a_program_is_talked_to_and_ends_when_its_input_does() {
    let folder = TempDir::new().unwrap();
    let (child, mut pipes) = spawn(script(folder.path(), "cat; echo bye >&2; exit 7")).await.unwrap();
    pipes.stdin.write_all(b"hello\n").await.unwrap();
    let mut lines = tokio::io::BufReader::new(&mut pipes.stdout).lines();
    assert_eq!(lines.next_line().await.unwrap().unwrap(), "hello");
    drop(pipes.stdin);
    let ended = child.stop(NEVER / 2).await.unwrap();
    assert_eq!(ended.code(), Some(7));
}

#[tokio::test]
async fn stopping_leaves_no_descendant_no_zombie_and_no_descriptor() {
    let folder = TempDir::new().unwrap();
    let first = spawn(script(folder.path(), "exit")).await.unwrap();
    first.0.stop(GRACE).await;
    drop(first.1);
    let before = open_descriptors();
    for _ in 0..3 {
        let (child, pipes) = spawn(script(folder.path(), FAMILY)).await.unwrap();
        let pids = until(|| family(folder.path())).await;
        assert!(pids.iter().all(|pid| is_running(*pid)));
        child.stop(GRACE).await;
        drop(pipes);
        assert!(!pids.iter().any(|pid| is_running(*pid)));
        fs::remove_file(folder.path().join("pids")).unwrap();
    }
    assert_eq!(open_descriptors(), before);
    let me = std::process::id();
    until(|| fs::read_to_string(format!("/proc/self/task/{me}/children")).unwrap().is_empty().then_some(())).await;
}

#[tokio::test]
async fn dropping_kills_descendants_in_the_group_and_out_of_it() {
    let folder = TempDir::new().unwrap();
    let (child, _pipes) = spawn(script(folder.path(), FAMILY)).await.unwrap();
    let pids = until(|| family(folder.path())).await;
    drop(child);
    until(|| (!pids.iter().any(|pid| is_running(*pid))).then_some(())).await;
}

#[tokio::test]
async fn a_program_outlives_the_threads_of_its_runtime() {
    let folder = TempDir::new().unwrap();
    let from = folder.path().to_owned();
    let elsewhere = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(spawn(script(&from, "echo $$ > pid; exec sleep 1000"))).unwrap()
    });
    let (child, _pipes) = elsewhere.join().unwrap();
    let pid = until(|| pid_in(folder.path())).await;
    assert!(is_running(pid), "the thread that asked is gone, the program is not");
    drop(child);
    until(|| (!is_running(pid)).then_some(())).await;
}

#[tokio::test]
async fn a_process_to_be_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let folder = Path::new(&folder);
    let (_child, _pipes) = spawn(script(folder, FAMILY)).await.unwrap();
    let cancellation = CancellationToken::new();
    let launch = Launch {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), "echo $$ > pid; exec sleep 1000".into()],
        cwd: folder.to_owned(),
        env: base_env(),
        stdin: Vec::new(),
        timeout: NEVER,
        stdout_bytes_max: 10,
        stderr_bytes_max: 10,
        progress: Progress::none(),
    };
    let ready = async {
        until(|| family(folder)).await;
        until(|| pid_in(folder)).await;
        eprintln!("ready");
        std::future::pending::<()>().await;
    };
    tokio::select! { _ = run(launch, &cancellation) => {}, () = ready => {} }
}

#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "this process itself is started once more, to be killed")]
async fn a_kill_of_this_process_takes_all_descendants_with_it() {
    let folder = TempDir::new().unwrap();
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "long::a_process_to_be_killed", "--nocapture"]).env(FOLDER, folder.path());
    let mut holder = command.stderr(std::process::Stdio::piped()).spawn().unwrap();
    let said = BufReader::new(holder.stderr.take().unwrap());
    assert!(said.lines().map_while(Result::ok).any(|line| line == "ready"));
    let mut pids = family(folder.path()).unwrap();
    pids.push(pid_in(folder.path()).unwrap());
    assert!(pids.iter().all(|pid| is_running(*pid)));

    holder.kill().unwrap();
    holder.wait().unwrap();
    until(|| (!pids.iter().any(|pid| is_running(*pid))).then_some(())).await;
    until(|| started_from(folder.path()).is_empty().then_some(())).await;
}
