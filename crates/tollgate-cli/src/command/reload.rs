//! Following the files of roles and rules while somebody is served.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use tollgate::Tollgate;

use crate::args::Global;
use crate::output;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What a file looked like: when it was written, and how long it is.
type Look = Vec<Option<(SystemTime, u64)>>;

/// Takes changed roles and rules over, and never ends. What is broken is said once; the old ones stay.
pub(crate) async fn follow(global: &Global, house: &Tollgate) {
    let files = house.policy_files();
    // Looks once at what changed between the start and now.
    let mut seen = Look::new();
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let now = look(&files);
        if now == seen {
            continue;
        }
        seen = now;
        match house.reload_policy().await {
            Ok(true) if !global.quiet => {
                let hash: String = house.gate().policy().hash().chars().take(12).collect();
                output::err(&format!("tollgate: the policy changed, and counts from now on ({hash})\n"));
            }
            Ok(_) => {}
            // Said even where nothing else is: the operator believes that the new one counts.
            Err(error) => {
                output::err(&format!("tollgate: the policy stays as it was, the new one is broken: {error}\n"))
            }
        }
    }
}

fn look(files: &[PathBuf]) -> Look {
    let one = |file: &PathBuf| {
        let metadata = std::fs::metadata(file).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    };
    files.iter().map(one).collect()
}
