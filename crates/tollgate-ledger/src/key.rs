//! The key that signs checkpoints: made once per data folder, readable by its owner alone.

use std::io;
use std::path::{Path, PathBuf};

use ring::rand::{SecureRandom, SystemRandom};

use crate::LedgerError;
use crate::disk::{Access, create_dir};
use crate::note::{Signer, VerifierKey};
use crate::segment::Folder;

/// What a key file may hold at most.
const KEY_BYTES_MAX: u64 = 1024;

/// `data_dir/keys/ledger.key`.
pub(crate) struct KeyFile<'a> {
    ledger: &'a Folder,
    folder: PathBuf,
}

impl<'a> KeyFile<'a> {
    pub(crate) fn of(ledger: &'a Folder) -> Self {
        Self { ledger, folder: ledger.data_dir().join("keys") }
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
        let file = match self.ledger.disk().open(path, Access::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(LedgerError::io("read its key"))?,
        };
        let bytes = file.read_from(0, KEY_BYTES_MAX).map_err(LedgerError::io("read its key"))?;
        let signer = std::str::from_utf8(&bytes).ok().and_then(Signer::parse);
        signer.map(Some).ok_or_else(|| LedgerError::Key { path: path.to_owned() })
    }

    /// Makes a key, or takes the one that was made and not put to use. Nothing counts on it before [`KeyFile::adopt`], so
    /// that a key and its first checkpoint are there both or neither, whenever a process dies.
    pub(crate) fn prepare(&self) -> Result<Signer, LedgerError> {
        let making = LedgerError::io;
        create_dir(self.ledger.disk(), &self.folder).map_err(making("make its key"))?;
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
            let file = self.ledger.disk().open(&path, Access::Replace)?;
            file.write_all_at(format!("{}\n", signer.secret_text()).as_bytes(), 0)?;
            file.sync_data()?;
            self.ledger.disk().sync_dir(&self.folder)
        };
        write().map_err(making("make its key"))?;
        Ok(signer)
    }

    /// From now on the prepared key is the ledger's.
    pub(crate) fn adopt(&self) -> Result<(), LedgerError> {
        self.rename(&self.new_path(), &self.path()).map_err(LedgerError::io("make its key"))
    }

    /// Puts a key aside that is not to be used any more.
    pub(crate) fn retire(&self) -> Result<(), LedgerError> {
        let retire =
            || match (1..).map(|count| self.folder.join(format!("ledger-{count}.key.old"))).find(|it| !it.exists()) {
                Some(old) if self.path().exists() => self.rename(&self.path(), &old),
                Some(_) | None => Ok(()),
            };
        retire().map_err(LedgerError::io("put its key aside"))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.ledger.disk().rename(from, to)?;
        self.ledger.disk().sync_dir(&self.folder)
    }
}

/// The key that the checkpoints of this data folder are verified with, to be kept elsewhere.
///
/// # Errors
/// [`LedgerError::NoKey`] when there is none yet, or that it cannot be read.
pub fn verifier_key(data_dir: &Path) -> Result<VerifierKey, LedgerError> {
    let signer = KeyFile::of(&Folder::of(data_dir)).load()?.ok_or(LedgerError::NoKey)?;
    Ok(signer.verifier().clone())
}
