//! What a server prints to standard error, in a file that does not grow without end: lines with their time, secrets taken
//! out. When the file is full it becomes the older one of two. Several processes may write it.

use std::fmt;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tollgate_guard::redact::Redactor;
use tollgate_types::Clock;

/// Of one file; there are two.
const FILE_BYTES_MAX: u64 = 512 * 1024;
/// A longer line is written as several.
const LINE_BYTES_MAX: usize = 4 * 1024;

/// The file that a server's standard error is kept in.
#[derive(Clone)]
pub struct LogFile(Arc<Inner>);

struct Inner {
    path: PathBuf,
    redactor: Redactor,
    clock: Arc<dyn Clock>,
    /// The beginning of a line whose end did not come yet.
    begun: Mutex<Vec<u8>>,
}

impl fmt::Debug for LogFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LogFile").field(&self.0.path).finish()
    }
}

impl LogFile {
    /// The file at `path`, which is made with the first line; what the redactor knows is not in it.
    pub fn new(path: impl Into<PathBuf>, redactor: Redactor, clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(Inner { path: path.into(), redactor, clock, begun: Mutex::default() }))
    }

    /// Keeps what was printed. A file that cannot be written costs the lines alone.
    pub(super) async fn keep(&self, bytes: &[u8]) {
        let lines = self.lines(bytes);
        if lines.is_empty() {
            return;
        }
        let inner = Arc::clone(&self.0);
        let written = tokio::task::spawn_blocking(move || inner.append(&lines)).await;
        match written {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::debug!(path = %self.0.path.display(), %error, "a server's log is not written"),
            Err(error) => tracing::debug!(%error, "a server's log is not written"),
        }
    }

    /// The lines that are whole now.
    fn lines(&self, bytes: &[u8]) -> Vec<String> {
        let mut begun = self.0.begun.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines = Vec::new();
        for byte in bytes {
            if *byte != b'\n' {
                begun.push(*byte);
            }
            if *byte == b'\n' || begun.len() == LINE_BYTES_MAX {
                let line = String::from_utf8_lossy(&begun).trim_end().to_owned();
                begun.clear();
                if !line.is_empty() {
                    lines.push(line);
                }
            }
        }
        lines
    }
}

impl Inner {
    fn append(&self, lines: &[String]) -> io::Result<()> {
        let now = self.clock.now();
        let mut text = String::new();
        for line in lines {
            text.push_str(&format!("{now:.3} {}\n", self.redactor.text(line).replace('\n', " ")));
        }
        self.open()?.write_all(text.as_bytes())
    }

    /// The file, locked, with room in it.
    fn open(&self) -> io::Result<File> {
        if let Some(folder) = self.path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        loop {
            let file = OpenOptions::new().append(true).create(true).mode(0o600).open(&self.path)?;
            file.lock()?;
            let metadata = file.metadata()?;
            // Somebody else may have put another in its place meanwhile.
            if fs::metadata(&self.path).ok().map(|now| now.ino()) != Some(metadata.ino()) {
                continue;
            }
            if metadata.len() < FILE_BYTES_MAX {
                return Ok(file);
            }
            fs::rename(&self.path, older(&self.path))?;
        }
    }
}

fn older(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

/// The last lines of what was kept at `path`; none where nothing was.
///
/// # Errors
/// When a file is there and cannot be read.
pub fn tail(path: &Path, lines: usize) -> io::Result<Vec<String>> {
    let mut bytes = Vec::new();
    for path in [older(path), path.to_owned()] {
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        // A line goes over the end, and somebody may write while we read.
        let from = file.metadata()?.len().saturating_sub(2 * FILE_BYTES_MAX);
        file.seek(SeekFrom::Start(from))?;
        file.take(2 * FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    }
    let text = String::from_utf8_lossy(&bytes);
    let all: Vec<&str> = text.lines().collect();
    Ok(all.iter().skip(all.len().saturating_sub(lines)).map(|line| (*line).to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use tollgate_testkit::TestClock;
    use tollgate_types::Secret;

    use super::*;

    #[test]
    fn lines_are_kept_without_secrets_and_the_oldest_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("mcp/x.log");
        let redactor = Redactor::new(b"key", [Secret::new("zq-injected-secret")]);
        let log = LogFile::new(&path, redactor, Arc::new(TestClock::new(jiff::Timestamp::UNIX_EPOCH)));
        assert_eq!(tail(&path, 10).unwrap(), Vec::<String>::new());
        let append = |text: &str| log.0.append(&log.lines(text.as_bytes())).unwrap();
        append("one 北");
        append("京\r\n\n token=zq-injected-secret\nbegun");
        let kept = tail(&path, 10).unwrap();
        assert_eq!((kept.len(), kept[0].as_str()), (2, "1970-01-01T00:00:00.000Z one 北京"), "{kept:?}");
        assert!(kept[1].contains("[redacted:") && !kept[1].contains("zq-injected"), "{kept:?}");
        for _ in 0..400 {
            append(&format!("{}\n", "y".repeat(5_000)));
        }
        append("last\n");
        let sizes = [path.clone(), older(&path)].map(|path| fs::metadata(path).unwrap().len());
        assert!(sizes.iter().all(|size| *size < FILE_BYTES_MAX + 10_000), "{sizes:?}");
        assert!(tail(&path, 1).unwrap()[0].ends_with(" last"));
    }
}
