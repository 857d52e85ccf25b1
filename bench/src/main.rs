//! Measures what the gate costs, as ratios from one run, on the disk that holds `--folder`; with `--policy` only what a
//! decision costs, with `--redaction` only what redaction does, with `--shaping` only what shaping results does, with
//! `--failure` only what protection from failures costs, with `--lowering` only what the tools of a request cost,
//! with `--federated` only what the tools of many MCP servers do, with `--repair` only what reading arguments does, with `--streams` only what reading streamed replies does, with `--modes` only the two
//! modes of Responses. A terminal gets tables, a pipe JSON lines.
//!
//! ```text
//! cargo run --release -p tollgate-bench -- --tollgate target/release/tollgate [--folder DIR] [--markdown]
//! cargo run --release -p tollgate-bench -- --policy [--page docs/policy-speed.md]
//! cargo run --release -p tollgate-bench -- --redaction
//! cargo run --release -p tollgate-bench -- --failure [--folder DIR]
//! cargo run --release -p tollgate-bench -- --shaping
//! cargo run --release -p tollgate-bench -- --lowering
//! cargo run --release -p tollgate-bench -- --federated [--folder DIR]
//! cargo run --release -p tollgate-bench -- --repair
//! cargo run --release -p tollgate-bench -- --streams
//! cargo run --release -p tollgate-bench -- --modes
//! ```

#![expect(clippy::print_stdout, reason = "its output is its purpose")]

mod batch;
mod disk;
mod failure;
mod federated;
mod gate;
mod group;
mod lower;
mod modes;
mod policy;
mod process;
mod proof;
mod redact;
mod repair;
mod shape;
mod stats;
mod stream;

use std::error::Error;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use crate::stats::Row;

fn main() -> Result<(), Box<dyn Error>> {
    let mut folder = PathBuf::from(".");
    let mut tollgate = None;
    let mut is_markdown = std::io::stdout().is_terminal();
    let (mut is_policy, mut page) = (false, None);
    let (mut is_failure_only, mut is_federated_only) = (false, false);
    let mut part: Option<fn() -> Vec<Row>> = None;
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--folder" => folder = words.next().ok_or("--folder takes a folder")?.into(),
            "--tollgate" => tollgate = Some(words.next().ok_or("--tollgate takes the binary")?),
            "--markdown" => is_markdown = true,
            "--policy" => is_policy = true,
            "--page" => page = Some(PathBuf::from(words.next().ok_or("--page takes a file")?)),
            "--failure" => is_failure_only = true,
            "--federated" => is_federated_only = true,
            "--modes" => return told(&modes::measure()?, is_markdown),
            "--redaction" => part = Some(redact::measure),
            "--lowering" => part = Some(lower::measure),
            "--shaping" => part = Some(shape::measure),
            "--repair" => part = Some(repair::measure),
            "--streams" => part = Some(stream::measure),
            other => return Err(format!("no option is named `{other}`").into()),
        }
    }
    if is_policy {
        return decisions(is_markdown, page);
    }
    if is_failure_only {
        return told(&failures(&folder)?, is_markdown);
    }
    if is_federated_only {
        return told(&federated(&folder)?, is_markdown);
    }
    if let Some(measure) = part {
        return told(&measure(), is_markdown);
    }
    let mut rows = redact::measure();
    rows.push(batch::measure());
    rows.extend(shape::measure());
    rows.extend(lower::measure());
    rows.extend(repair::measure());
    rows.extend(stream::measure());
    rows.extend(modes::measure()?);
    rows.extend(calls(&folder, tollgate.as_deref())?);
    rows.extend(failures(&folder)?);
    rows.extend(federated(&folder)?);
    told(&rows, is_markdown)
}

/// What a decision costs, printed and, where a page is named, written.
fn decisions(is_markdown: bool, page: Option<PathBuf>) -> Result<(), Box<dyn Error>> {
    let report = policy::measure().map_err(|why| why.to_string())?;
    if let Some(page) = page {
        std::fs::write(page, report.page()?)?;
    }
    told(&report.rows, is_markdown)?;
    if is_markdown {
        println!("\n{}", report.plot()?);
    } else {
        println!("{}", serde_json::json!({ "curve": report.curve }));
    }
    Ok(())
}

fn told(rows: &[Row], is_markdown: bool) -> Result<(), Box<dyn Error>> {
    for row in rows {
        println!("{}", if is_markdown { row.markdown() } else { serde_json::to_string(row)? });
    }
    let missed: Vec<&Row> = rows.iter().filter(|row| !row.is_met()).collect();
    if !missed.is_empty() {
        eprintln_names(&missed);
    }
    Ok(())
}

/// What protection from failures costs.
fn failures(folder: &Path) -> Result<Vec<Row>, Box<dyn Error>> {
    on_worker(folder, |path| async move { failure::measure(&path).await })
}

/// What the tools of many servers cost.
fn federated(folder: &Path) -> Result<Vec<Row>, Box<dyn Error>> {
    on_worker(folder, |path| async move { federated::measure(&path).await })
}

/// Figures on a worker of a runtime, where a server's calls come from, in a folder of their own.
fn on_worker<F>(folder: &Path, measure: impl FnOnce(PathBuf) -> F) -> Result<Vec<Row>, Box<dyn Error>>
where
    F: Future<Output = Result<Vec<Row>, Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    let scratch = tempfile::tempdir_in(folder)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let figures = runtime.spawn(measure(scratch.path().to_owned()));
    Ok(runtime.block_on(figures)?.map_err(|why| why.to_string())?)
}

/// What a call costs, in process and from the start of one.
fn calls(folder: &Path, tollgate: Option<&str>) -> Result<Vec<Row>, Box<dyn Error>> {
    let mut rows = on_worker(folder, gate::measure)?;
    if let Some(tollgate) = tollgate {
        rows.extend(process::measure(tollgate, tempfile::tempdir_in(folder)?.path())?);
    }
    Ok(rows)
}

#[expect(clippy::print_stderr, reason = "a remark beside the figures")]
fn eprintln_names(missed: &[&Row]) {
    for row in missed {
        eprintln!("misses its aim: {}", row.what);
    }
}
