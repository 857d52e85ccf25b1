//! Measures what the gate costs, as ratios from one run, on the disk that holds `--folder`.
//!
//! ```text
//! cargo run --release -p tollgate-bench -- --tollgate target/release/tollgate [--folder DIR] [--markdown]
//! ```

#![expect(clippy::print_stdout, reason = "its output is its purpose")]

mod disk;
mod gate;
mod process;
mod stats;

use std::error::Error;
use std::path::PathBuf;

use crate::stats::Row;

fn main() -> Result<(), Box<dyn Error>> {
    let mut folder = PathBuf::from(".");
    let mut tollgate = None;
    let mut is_markdown = false;
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--folder" => folder = words.next().ok_or("--folder takes a folder")?.into(),
            "--tollgate" => tollgate = Some(words.next().ok_or("--tollgate takes the binary")?),
            "--markdown" => is_markdown = true,
            other => return Err(format!("no option is named `{other}`").into()),
        }
    }
    let scratch = tempfile::tempdir_in(&folder)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    // On a worker, where a server's calls come from.
    let on_worker = runtime.spawn(gate::measure(scratch.path().to_owned()));
    let mut rows = runtime.block_on(on_worker)?.map_err(|why| why.to_string())?;
    if let Some(tollgate) = tollgate {
        rows.extend(process::measure(&tollgate, scratch.path())?);
    }
    for row in &rows {
        println!("{}", if is_markdown { row.markdown() } else { serde_json::to_string(row)? });
    }
    let missed: Vec<&Row> = rows.iter().filter(|row| !row.is_met()).collect();
    if !missed.is_empty() {
        eprintln_names(&missed);
    }
    Ok(())
}

#[expect(clippy::print_stderr, reason = "a remark beside the figures")]
fn eprintln_names(missed: &[&Row]) {
    for row in missed {
        eprintln!("misses its aim: {}", row.what);
    }
}
