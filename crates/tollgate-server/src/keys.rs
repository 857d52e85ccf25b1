//! Access keys: made, listed, revoked, and recognised. A key is 32 random bytes behind a word that says what it is; what
//! is stored is its SHA-256, and what is compared are hashes, in a time that does not depend on them.

mod ring;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tollgate::store::{Store, StoreError};
use tollgate::{Clock, Secret};

pub use tollgate::store::{AccessKey, KeyKind};

pub(crate) use ring::Ring;

/// The role of a client key unless told otherwise.
pub const ROLE: &str = "reader";
const KEY_BYTES: usize = 32;
const NAME_CHARS_MAX: usize = 64;

/// Why a key could not be made, listed or revoked.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The store does not take it.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The name cannot be one.
    #[error("`{0}` cannot name a key: letters, digits, `-`, `_`, `.` and `@`, at most {NAME_CHARS_MAX}")]
    Name(String),
    /// The system gives no random numbers.
    #[error("the system gives no random numbers")]
    Random,
}

/// A key that was just made: the only time that it can be seen.
#[derive(Debug, Clone)]
pub struct NewKey {
    /// The key, as a client sends it.
    pub secret: Secret,
    /// What is kept of it.
    pub key: AccessKey,
}

/// The keys of a first start, and where they were written for their owner alone.
#[derive(Debug, Clone)]
pub struct FirstKeys {
    /// Lists and calls.
    pub client: NewKey,
    /// The client key's file.
    pub client_file: PathBuf,
    /// Answers approvals and reads the ledger.
    pub operator: NewKey,
    /// The operator key's file.
    pub operator_file: PathBuf,
}

/// Makes the first client key and the first operator key, once in the life of a data folder, and writes them to
/// `keys/client.key` and `keys/operator.key` (mode 0600). The client key has the role `role`, else [`ROLE`]. None where
/// keys were made before.
///
/// # Errors
/// When the files or the store cannot be written; then no key counts.
pub async fn first(data_dir: &Path, role: Option<&str>, clock: &dyn Clock) -> Result<Option<FirstKeys>, KeyError> {
    let store = Store::new(data_dir);
    if !store.access_keys().await?.is_empty() {
        return Ok(None);
    }
    let folder = data_dir.join("keys");
    let first = FirstKeys {
        client: make("client", KeyKind::Client, role.unwrap_or(ROLE), clock)?,
        client_file: folder.join("client.key"),
        operator: make("operator", KeyKind::Operator, "", clock)?,
        operator_file: folder.join("operator.key"),
    };
    let files = [
        (first.client_file.clone(), first.client.secret.clone()),
        (first.operator_file.clone(), first.operator.secret.clone()),
    ];
    let keys = vec![first.client.key.clone(), first.operator.key.clone()];
    let is_first = store
        .add_first_access_keys(keys, move || {
            for (path, secret) in files {
                write_private(&path, secret.expose()).map_err(|source| StoreError::Io { path, source })?;
            }
            Ok(())
        })
        .await?;
    Ok(is_first.then_some(first))
}

/// Makes a key. `role` is a client's; an operator has none.
///
/// # Errors
/// When the name was given before or cannot be one, or the store fails.
pub async fn create(
    data_dir: &Path,
    name: &str,
    kind: KeyKind,
    role: Option<&str>,
    clock: &dyn Clock,
) -> Result<NewKey, KeyError> {
    let is_fit = |character: char| character.is_ascii_alphanumeric() || "-_.@".contains(character);
    if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(is_fit) {
        return Err(KeyError::Name(name.escape_debug().take(2 * NAME_CHARS_MAX).collect()));
    }
    let role = match kind {
        KeyKind::Client => role.unwrap_or(ROLE),
        KeyKind::Operator => "",
    };
    let made = make(name, kind, role, clock)?;
    Store::new(data_dir).add_access_key(made.key.clone()).await?;
    Ok(made)
}

/// Every key, oldest first, the revoked ones too.
///
/// # Errors
/// When the store fails.
pub async fn list(data_dir: &Path) -> Result<Vec<AccessKey>, KeyError> {
    let store = Store::new(data_dir);
    if !store.exists() {
        return Ok(Vec::new());
    }
    Ok(store.access_keys().await?)
}

/// Makes a key count for nothing; a running server sees it within a second.
///
/// # Errors
/// When no key has this name, or the store fails.
pub async fn revoke(data_dir: &Path, name: &str, clock: &dyn Clock) -> Result<AccessKey, KeyError> {
    Ok(Store::new(data_dir).revoke_access_key(name.to_owned(), clock.now()).await?)
}

fn make(name: &str, kind: KeyKind, role: &str, clock: &dyn Clock) -> Result<NewKey, KeyError> {
    let mut bytes = [0_u8; KEY_BYTES];
    getrandom::fill(&mut bytes).map_err(|_| KeyError::Random)?;
    // The word lets people and secret scanners tell what they found.
    let secret = format!("tollgate_{}_{}", kind.as_str(), hex(&bytes));
    let key = AccessKey {
        name: name.to_owned(),
        kind,
        role: role.to_owned(),
        hash: hex(&hash(&secret)),
        // As the store keeps it.
        created: jiff::Timestamp::from_millisecond(clock.now().as_millisecond()).unwrap_or_default(),
        revoked: None,
    };
    Ok(NewKey { secret: Secret::new(secret), key })
}

fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret).into()
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(u32::from(digit), 16)).collect()
}

/// Writes a file that only its owner may read, in place of one that may be there.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(folder)?;
    }
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    writeln!(file, "{text}")?;
    file.sync_all()
}
