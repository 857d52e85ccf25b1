//! The binary as a whole: `tollgate call` from start to end, and `serve --stdio` at rest.

use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};

use tollgate::{Clock, SystemClock};

use crate::stats::{Aim, Row, median_us};

const STARTS: usize = 50;

#[expect(clippy::disallowed_methods, reason = "the binary under measurement is started, and no tool runs")]
fn command(tollgate: &str, folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(tollgate);
    command.args(args).current_dir(folder).stdout(Stdio::piped()).stderr(Stdio::null()).stdin(Stdio::null());
    command
}

/// Both figures; the call once in a fresh folder and once beside the many records of the measurement before.
pub(crate) fn measure(tollgate: &str, folder: &Path) -> Result<Vec<Row>, Box<dyn Error>> {
    let tollgate = std::path::absolute(tollgate)?.to_string_lossy().into_owned();
    let empty = folder.join("empty");
    std::fs::create_dir(&empty)?;
    let full = folder.join("fresh");
    std::fs::write(full.join("tollgate.toml"), "data_dir = \"data\"\n")?;
    let mut rows = Vec::new();
    for (folder, after) in [(&empty, ""), (&full, ", after the records above")] {
        let clock = SystemClock::new();
        let mut times = Vec::new();
        for _ in 0..STARTS {
            let began = clock.monotonic();
            let done =
                command(&tollgate, folder, &["call", "calculate", r#"{"expression":"34817 * 293"}"#]).output()?;
            times.push(clock.monotonic() - began);
            if !done.status.success() {
                return Err("`tollgate call` failed".into());
            }
        }
        let what = format!("`tollgate call`, start to end{after}");
        rows.push(Row {
            what,
            value: median_us(times) / 1000.0,
            unit: "ms",
            aim: Aim::AtMost(30.0),
            against: format!("p50 of {STARTS}"),
        });
    }
    rows.push(idle(&tollgate, &empty)?);
    Ok(rows)
}

fn idle(tollgate: &str, folder: &Path) -> Result<Row, Box<dyn Error>> {
    use std::io::{BufRead, BufReader, Write};
    let mut child = command(tollgate, folder, &["serve", "--stdio"]).stdin(Stdio::piped()).spawn()?;
    let (mut input, output) = (child.stdin.take().ok_or("no input")?, child.stdout.take().ok_or("no output")?);
    writeln!(
        input,
        r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"2025-11-25","capabilities":{{}},"clientInfo":{{"name":"b","version":"1"}}}}}}"#
    )?;
    BufReader::new(output).read_line(&mut String::new())?;
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()))?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    let kilobytes: f64 = resident.trim().trim_end_matches("kB").trim().parse()?;
    drop(input);
    child.wait()?;
    let what = "`serve --stdio` at rest, resident".to_owned();
    Ok(Row { what, value: kilobytes / 1024.0, unit: "MB", aim: Aim::AtMost(25.0), against: "/proc/PID/status".into() })
}
