//! The per-install key, under which arguments are digested and redactions are marked.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use hmac::{Hmac, KeyInit, Mac};
use serde_json::Value;
use sha2::Sha256;
use tollgate_types::Digest;

use crate::StoreError;

const KEY_BYTES: usize = 32;

/// 32 random bytes, made once per data folder and readable by its owner alone.
#[derive(Clone)]
pub struct InstallKey([u8; KEY_BYTES]);

impl std::fmt::Debug for InstallKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("[secret]")
    }
}

impl InstallKey {
    /// Reads the key of `data_dir`, or makes it. Processes starting together agree on one.
    ///
    /// # Errors
    /// When the file cannot be read or made, or is not 32 bytes long.
    pub fn load(data_dir: &Path) -> Result<Self, StoreError> {
        let folder = data_dir.join("keys");
        let path = folder.join("install.key");
        match fs::read(&path) {
            Ok(bytes) => Self::from_bytes(&bytes, &path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make(&folder, &path).map_err(|source| StoreError::io(&path, source))?;
                let bytes = fs::read(&path).map_err(|source| StoreError::io(&path, source))?;
                Self::from_bytes(&bytes, &path)
            }
            Err(source) => Err(StoreError::io(path, source)),
        }
    }

    /// The key of `data_dir` where there is one, else one that nobody keeps. Makes nothing.
    ///
    /// # Errors
    /// When the file cannot be read or is not 32 bytes long, or the system has no randomness.
    pub fn load_or_borrow(data_dir: &Path) -> Result<Self, StoreError> {
        let path = data_dir.join("keys").join("install.key");
        match fs::read(&path) {
            Ok(bytes) => Self::from_bytes(&bytes, &path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut key = [0_u8; KEY_BYTES];
                getrandom::fill(&mut key).map_err(|error| StoreError::io(&path, io::Error::other(error)))?;
                Ok(Self(key))
            }
            Err(source) => Err(StoreError::io(path, source)),
        }
    }

    fn from_bytes(bytes: &[u8], path: &Path) -> Result<Self, StoreError> {
        let key = bytes.try_into().map_err(|_| {
            let message = format!("expected {KEY_BYTES} bytes, found {}", bytes.len());
            StoreError::io(path, io::Error::new(io::ErrorKind::InvalidData, message))
        })?;
        Ok(Self(key))
    }

    /// The bytes, for the redactor.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// HMAC-SHA256 over the canonical JSON (RFC 8785) of `value`, and over the exact digits of each integer that the
    /// canonical form rounds: it writes numbers as doubles, and two order numbers must not share an approval.
    ///
    /// # Errors
    /// When the value has no canonical form, such as a number that is not finite.
    pub fn digest(&self, value: &Value) -> Result<Digest, StoreError> {
        let canonical =
            serde_json_canonicalizer::to_vec(value).map_err(|error| StoreError::Corrupt(error.to_string()))?;
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).map_err(|e| StoreError::Corrupt(e.to_string()))?;
        mac.update(&canonical);
        exact_integers(value, &mut String::new(), &mut |place, digits| {
            mac.update(place.as_bytes());
            mac.update(digits.as_bytes());
        });
        Ok(Digest::new(hex(&mac.finalize().into_bytes())))
    }
}

/// Tells each integer beyond ±2^53, in the order of its place, where the place is the path to it.
fn exact_integers(value: &Value, place: &mut String, tell: &mut impl FnMut(&str, &str)) {
    const EXACT: u64 = 1 << 53;
    let mut within = |key: &str, value: &Value, place: &mut String| {
        let length = place.len();
        place.push('\u{0}');
        place.push_str(key);
        exact_integers(value, place, tell);
        place.truncate(length);
    };
    match value {
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                within(&index.to_string(), item, place);
            }
        }
        Value::Object(map) => {
            let mut members: Vec<_> = map.iter().collect();
            members.sort_unstable_by_key(|(key, _)| *key);
            for (key, member) in members {
                within(key, member, place);
            }
        }
        Value::Number(number) => {
            let magnitude = number.as_u64().or_else(|| number.as_i64().map(i64::unsigned_abs));
            if magnitude.is_some_and(|magnitude| magnitude > EXACT) {
                tell(&format!("{place}\u{0}"), &number.to_string());
            }
        }
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// Writes a whole key aside and links it into place, so that nobody ever reads half of one.
fn make(folder: &Path, path: &Path) -> io::Result<()> {
    create_private_folder(folder)?;
    let mut key = [0_u8; KEY_BYTES];
    getrandom::fill(&mut key).map_err(io::Error::other)?;
    let mut name = [0_u8; 8];
    getrandom::fill(&mut name).map_err(io::Error::other)?;
    let aside = folder.join(format!(".install-{}", hex(&name)));
    create_private(&aside, &key)?;
    let linked = fs::hard_link(&aside, path);
    fs::remove_file(&aside)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => fs::File::open(folder)?.sync_all(),
    }
}

/// Creates a folder that only its owner may enter.
pub(crate) fn create_private_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Opens a file that only its owner may read, for its content or for its lock, and makes it where it is not there.
pub(crate) fn open_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Creates a new file that only its owner may read, and syncs it. An existing file is left as it is.
pub(crate) fn create_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Ok(mut file) => {
            file.write_all(bytes)?;
            file.sync_all()
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Lower-case hex.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(u32::from(digit), 16)).collect()
}
