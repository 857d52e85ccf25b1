//! The key that signs checkpoints: made once per data folder, readable by its owner alone.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use ring::rand::{SecureRandom, SystemRandom};

use crate::LedgerError;
use crate::note::{Signer, VerifierKey};
use crate::segment::{create_dir, open_regular, private_file, sync_dir};

/// What a key file may hold at most.
const KEY_BYTES_MAX: u64 = 1024;

/// `data_dir/keys/ledger.key`.
pub(crate) struct KeyFile {
    folder: PathBuf,
}

impl KeyFile {
    pub(crate) fn of(data_dir: &Path) -> Self {
        Self { folder: data_dir.join("keys") }
    }

    fn path(&self) -> PathBuf {
        self.folder.join("ledger.key")
    }

    /// A key that nothing was signed with yet, or only the checkpoint that begins the sequence.
    fn new_path(&self) -> PathBuf {
        self.folder.join("ledger.key.new")
    }

    /// The key; none when none was made yet.
    pub(crate) fn load(&self) -> Result<Option<Signer>, LedgerError> {
        self.read(&self.path())
    }

    /// The key, also one that is about to be put to use.
    pub(crate) fn load_any(&self) -> Result<Option<Signer>, LedgerError> {
        Ok(match self.load()? {
            Some(signer) => Some(signer),
            None => self.read(&self.new_path()).unwrap_or_default(),
        })
    }

    fn read(&self, path: &Path) -> Result<Option<Signer>, LedgerError> {
        let mut text = String::new();
        let file = match open_regular(private_file().read(true), path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(LedgerError::io("read its key"))?,
        };
        file.take(KEY_BYTES_MAX).read_to_string(&mut text).map_err(LedgerError::io("read its key"))?;
        let signer = Signer::parse(&text).ok_or_else(|| LedgerError::Key { path: path.to_owned() })?;
        Ok(Some(signer))
    }

    /// Makes a key, or takes the one that was made and not put to use. Nothing counts on it before [`KeyFile::adopt`], so
    /// that a key and its first checkpoint are there both or neither, whenever a process dies.
    pub(crate) fn prepare(&self) -> Result<Signer, LedgerError> {
        let making = LedgerError::io;
        create_dir(&self.folder).map_err(making("make its key"))?;
        let path = self.new_path();
        // One that was not finished is none.
        if let Ok(Some(signer)) = self.read(&path) {
            return Ok(signer);
        }
        let (mut id, mut seed) = ([0; 8], [0; 32]);
        let random = SystemRandom::new();
        let no_random = |_| making("make its key")(io::Error::other("the system gives no random numbers"));
        random.fill(&mut id).and_then(|()| random.fill(&mut seed)).map_err(no_random)?;
        let name = format!("tollgate/{:016x}", u64::from_be_bytes(id));
        let signer = Signer::new(&name, &seed).ok_or_else(|| LedgerError::Key { path: path.clone() })?;
        let write = || {
            let mut file = private_file().write(true).create(true).truncate(true).open(&path)?;
            writeln!(file, "{}", signer.secret_text())?;
            file.sync_all()?;
            sync_dir(&self.folder)
        };
        write().map_err(making("make its key"))?;
        Ok(signer)
    }

    /// From now on the prepared key is the ledger's.
    pub(crate) fn adopt(&self) -> Result<(), LedgerError> {
        let adopt = || fs::rename(self.new_path(), self.path()).and_then(|()| sync_dir(&self.folder));
        adopt().map_err(LedgerError::io("make its key"))
    }

    /// Puts a key aside that is not to be used any more.
    pub(crate) fn retire(&self) -> Result<(), LedgerError> {
        let retire =
            || match (1..).map(|count| self.folder.join(format!("ledger-{count}.key.old"))).find(|it| !it.exists()) {
                Some(old) if self.path().exists() => fs::rename(self.path(), old).and_then(|()| sync_dir(&self.folder)),
                Some(_) | None => Ok(()),
            };
        retire().map_err(LedgerError::io("put its key aside"))
    }
}

/// The key that the checkpoints of this data folder are verified with, to be kept elsewhere.
///
/// # Errors
/// [`LedgerError::NoKey`] when there is none yet, or that it cannot be read.
pub fn verifier_key(data_dir: &Path) -> Result<VerifierKey, LedgerError> {
    let signer = KeyFile::of(data_dir).load()?.ok_or(LedgerError::NoKey)?;
    Ok(signer.verifier().clone())
}
