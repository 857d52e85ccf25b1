//! The data folder: whose it is, the disk below it, the ledger, the store, what dead processes left, and the server's keys. A
//! folder that is not there stays away.

use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tollgate::config::Loaded;
use tollgate::ledger::{self, LedgerError};
use tollgate::limits::{DISK_FREE_BYTES_MIN, DOCTOR_LEDGER_BYTES_MAX, LEDGER_RESERVE_BYTES};
use tollgate::store::{KeyKind, Store};
use tollgate::{Clock, SystemClock};
use tollgate_server::keys;

use super::super::told;
use super::Finding;
use super::program::word;
use super::secrets::{OTHERS, WEBHOOK};

/// The folders whose files are looked at one by one; results are too many.
const FOLDERS: [&str; 4] = ["audit", "boot", "keys", "secrets"];
/// The records at the end of a long ledger that are read.
const TAIL_RECORDS: usize = 1_000;
const INSTALL_KEY_BYTES: u64 = 32;
const MIB: u64 = 1024 * 1024;

pub(super) async fn examine(loaded: &Loaded) -> Vec<Finding> {
    let data_dir = loaded.data_dir();
    let mut findings = vec![disk(&data_dir)];
    if data_dir.symlink_metadata().is_ok() {
        findings.extend(folder(&data_dir));
        findings.extend(install_key(&data_dir));
        findings.extend(processes(&data_dir));
        findings.extend(unsettled(&data_dir).await);
        findings.extend(undelivered(loaded, &data_dir).await);
    }
    findings.push(record(&data_dir));
    findings.push(server_keys(loaded, &data_dir).await);
    findings
}

/// Writes to the data folder's disk, or to that where it would be, and takes it away again.
fn disk(data_dir: &Path) -> Finding {
    let absolute = std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.to_owned());
    let folder = absolute.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("/"));
    let shown = word(&folder.display().to_string());
    let written = tempfile::tempfile_in(folder).and_then(|mut file| {
        file.write_all(&[0; 4096])?;
        file.sync_all()
    });
    if let Err(error) = written {
        let mend = match error.kind() {
            ErrorKind::PermissionDenied => format!("chmod u+rwx {shown}    (or sudo chown -R \"$USER\" {shown})"),
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => larger(&shown),
            ErrorKind::ReadOnlyFilesystem => format!("sudo mount -o remount,rw \"$(findmnt -no TARGET -T {shown})\""),
            _ => format!("see what the disk says: findmnt -T {shown}"),
        };
        return Finding::ailing("disk", format!("`{}` cannot be written: {error}", folder.display()), mend);
    }
    match rustix::fs::statvfs(folder) {
        Ok(space) => {
            let free = space.f_bavail.saturating_mul(space.f_frsize);
            if free < 2 * LEDGER_RESERVE_BYTES && is_reserve_spent(data_dir) {
                let found = format!("calls cannot be written down at {}: the disk is full", folder.display());
                return Finding::ailing("disk", found, larger(&shown));
            }
            let found = format!("{} MiB are free at {}", free / MIB, folder.display());
            if free >= DISK_FREE_BYTES_MIN {
                return Finding::well("disk", format!("{found}, and what is written arrives"));
            }
            Finding::ailing("disk", format!("only {found}; {} should be", DISK_FREE_BYTES_MIN / MIB), larger(&shown))
        }
        Err(error) => Finding::ailing("disk", error.to_string(), format!("df -h {shown}")),
    }
}

/// The ledger gave up what it kept back for the ends of calls, and takes no new ones.
fn is_reserve_spent(data_dir: &Path) -> bool {
    data_dir.join("audit/reserve").metadata().is_ok_and(|reserve| reserve.len() < LEDGER_RESERVE_BYTES)
}

fn larger(folder: &str) -> String {
    format!("make room; the largest are: du -xah {folder} | sort -h | tail")
}

/// The data folder and what is in it is for its owner alone.
fn folder(data_dir: &Path) -> Vec<Finding> {
    let shown = word(&data_dir.display().to_string());
    let all = match inside(data_dir) {
        Ok(all) => all,
        Err(error) => {
            let mend = format!("sudo chown -R \"$USER\" {shown} && chmod -R u+rwX {shown}");
            return vec![Finding::ailing("data folder", format!("`{}`: {error}", data_dir.display()), mend)];
        }
    };
    let us = rustix::process::geteuid().as_raw();
    let mut findings = Vec::new();
    if let Some((path, found)) = all.iter().find(|(_, metadata)| metadata.uid() != us) {
        let found = format!("`{}` belongs to user {}, and this is user {us}", path.display(), found.uid());
        findings.push(Finding::ailing("data folder", found, format!("sudo chown -R {us} {shown}")));
    }
    let open: Vec<_> = all.iter().filter(|(_, metadata)| metadata.permissions().mode() & OTHERS != 0).collect();
    if let Some((path, metadata)) = open.first() {
        let more = if open.len() > 1 { format!(", and {} more", open.len() - 1) } else { String::new() };
        let mode = metadata.permissions().mode() & 0o7777;
        let found = format!("`{}` is open to others than its owner (mode {mode:o}){more}", path.display());
        findings.push(Finding::ailing("data folder", found, format!("chmod -R go-rwx {shown}")));
    }
    if findings.is_empty() {
        findings.push(Finding::well("data folder", format!("{}, for its owner alone", data_dir.display())));
    }
    findings
}

fn inside(data_dir: &Path) -> io::Result<Vec<(PathBuf, Metadata)>> {
    let mut all = vec![(data_dir.to_owned(), data_dir.metadata()?)];
    let mut folders = vec![data_dir.to_owned()];
    folders.extend(FOLDERS.iter().map(|name| data_dir.join(name)).filter(|folder| folder.is_dir()));
    for folder in folders {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            match entry.metadata() {
                // A running process takes its own files away.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                metadata => all.push((entry.path(), metadata?)),
            }
        }
    }
    Ok(all)
}

fn install_key(data_dir: &Path) -> Option<Finding> {
    let path = data_dir.join("keys/install.key");
    let length = path.metadata().ok()?.len();
    let found = format!("`{}` has {length} bytes, and should have {INSTALL_KEY_BYTES}", path.display());
    let path = word(&path.display().to_string());
    let mend = format!("restore it from a backup, or let a new one be made: mv {path} {path}.broken");
    (length != INSTALL_KEY_BYTES).then(|| Finding::ailing("install key", found, mend))
}

/// Processes that ended without closing: what they left is taken over by the next one that opens the data folder.
fn processes(data_dir: &Path) -> Option<Finding> {
    let locks = fs::read_dir(data_dir.join("boot")).ok()?.flatten().map(|entry| entry.path());
    // What is no file is not opened: a pipe would wait for its other end.
    let locks = locks.filter(|path| path.extension().is_some_and(|extension| extension == "lock") && path.is_file());
    // Who lives holds its lock alone.
    let is_dead = |path: &PathBuf| File::open(path).is_ok_and(|file| file.try_lock_shared().is_ok());
    let dead = locks.filter(is_dead).count();
    let found = format!("{dead} ended without closing, and left their locks");
    (dead > 0).then(|| Finding::ailing("processes", found, "tollgate audit settle"))
}

async fn unsettled(data_dir: &Path) -> Option<Finding> {
    let store = Store::new(data_dir);
    if !store.exists() {
        return None;
    }
    match store.unsettled().await {
        Ok(open) if open.is_empty() => None,
        Ok(open) => Some(Finding::ailing("unsettled calls", told(&open), "tollgate audit settle")),
        Err(error) => {
            let path = word(&data_dir.join("store.db").display().to_string());
            let mend = format!("the store may be lost without losing the record: mv {path} {path}.broken");
            Some(Finding::ailing("store", error.to_string(), mend))
        }
    }
}

/// Open approvals that the webhook's receiver did not take.
async fn undelivered(loaded: &Loaded, data_dir: &Path) -> Option<Finding> {
    let store = Store::new(data_dir);
    loaded.webhook().ok().flatten().filter(|_| store.exists())?;
    let waiting = store.undelivered(SystemClock::new().now()).await.ok()?;
    let first = waiting.first()?;
    let again = match &first.again {
        Some(again) => format!("is tried again at {again}"),
        None => "is given up".to_owned(),
    };
    let found = format!(
        "{} open approval(s) did not arrive; {} was tried {} times and {again}: {}",
        waiting.len(),
        first.id,
        first.tries,
        first.fault
    );
    Some(Finding::ailing(WEBHOOK, found, "mend the receiver or `url` of [approvals.webhook]; tollgate approvals list"))
}

fn record(data_dir: &Path) -> Finding {
    let bytes: u64 = fs::read_dir(data_dir.join("audit"))
        .map(|entries| entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum())
        .unwrap_or_default();
    let looked = if bytes <= DOCTOR_LEDGER_BYTES_MAX {
        ledger::verify(data_dir).map(|report| match report.fault {
            None => Ok(format!("{} records in one unbroken chain, {}", report.records, data_dir.display())),
            Some(fault) => Err(fault.message),
        })
    } else {
        let said = format!("{} MiB; the end can be read, and `tollgate audit verify` checks the whole", bytes / MIB);
        ledger::tail(data_dir, TAIL_RECORDS).map(|_| Ok(said))
    };
    match looked {
        Ok(Ok(found)) => Finding::well("ledger", found),
        Ok(Err(fault)) => Finding::ailing("ledger", fault, "tollgate audit verify"),
        Err(LedgerError::Missing { .. }) => Finding::well("ledger", format!("none yet, {}", data_dir.display())),
        Err(error @ LedgerError::Damaged { .. }) => {
            Finding::ailing("ledger", error.to_string(), "tollgate audit verify")
        }
        Err(error) => {
            let shown = word(&data_dir.display().to_string());
            Finding::ailing("ledger", error.to_string(), format!("ls -la {shown}/audit && chmod -R u+rwX {shown}"))
        }
    }
}

async fn server_keys(loaded: &Loaded, data_dir: &Path) -> Finding {
    let bind = &loaded.config.server.bind;
    let Ok(address) = bind.parse::<SocketAddr>() else {
        let found = format!("`server.bind` is `{bind}`, which is not an address and a port");
        return Finding::ailing(
            "server keys",
            found,
            "write bind = \"127.0.0.1:7373\" below [server] in tollgate.toml",
        );
    };
    let listed = match keys::list(data_dir).await {
        Ok(listed) => listed,
        Err(error) => return Finding::ailing("server keys", error.to_string(), "tollgate keys list"),
    };
    let count = |kind: KeyKind| listed.iter().filter(|key| key.kind == kind && key.revoked.is_none()).count();
    let (clients, operators) = (count(KeyKind::Client), count(KeyKind::Operator));
    let found = format!("{clients} of clients, {operators} of operators; served at {bind}");
    if address.ip().is_loopback() {
        let none = "none yet: the first `tollgate serve` makes a client's and an operator's";
        return Finding::well("server keys", if listed.is_empty() { none.to_owned() } else { found });
    }
    match (clients, operators) {
        (0, _) => Finding::ailing("server keys", found, "tollgate keys create NAME --role ROLE"),
        (_, 0) => Finding::ailing("server keys", found, "tollgate keys create NAME --operator"),
        _ => Finding::well("server keys", found),
    }
}
