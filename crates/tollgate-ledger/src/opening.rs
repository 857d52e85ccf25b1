//! What is found when the ledger is opened, compared with what the last checkpoint says of it.

use jiff::Timestamp;
use tollgate_types::BootId;

use crate::checkpoints::{Checkpoints, Kept};
use crate::key::KeyFile;
use crate::notary::Standing;
use crate::segment::Folder;
use crate::tail::{self, Unproven};
use crate::writer::Writer;
use crate::{LedgerError, Options};

/// What happens when the ledger is not as it was proved to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnDamage {
    /// It is not opened.
    Refuse,
    /// It goes on from the newest checkpoint that holds. What does not continue the chain behind it becomes `.torn` files,
    /// the key and the checkpoints are put aside for new ones, and a `recovered` record says so.
    Accept,
}

/// One opening, within the right to sign and a turn at the ledger.
pub(crate) struct Opening<'a> {
    pub(crate) folder: &'a Folder,
    pub(crate) now: Timestamp,
    pub(crate) has_living: bool,
}

impl Opening<'_> {
    pub(crate) fn open(&self, id: &BootId, options: &Options) -> Result<(Writer, Standing), LedgerError> {
        let unproven = if self.has_living { Unproven::Keep } else { Unproven::Cut };
        let opened = Standing::open(self.folder, self.now)
            .and_then(|standing| Ok((tail::find_beyond(self.folder, &standing.last, unproven)?, standing)));
        let is_damage = |error: &LedgerError| matches!(error, LedgerError::Damaged { .. } | LedgerError::Key { .. });
        let (tail, standing, accepted) = match opened {
            Err(damage) if options.on_damage == OnDamage::Accept && is_damage(&damage) => {
                let standing = self.begin_anew()?;
                let size = standing.last.checkpoint.size;
                let note = format!(
                    "the operator accepted damage: {damage}. Checkpoints go on from record {size} with another key"
                );
                (tail::find_beyond(self.folder, &standing.last, Unproven::Accept)?, standing, Some(note))
            }
            opened => {
                let (tail, standing) = opened?;
                (tail, standing, None)
            }
        };
        let mut writer = Writer::open(self.folder.clone(), id, options, tail)?;
        if let Some(note) = accepted {
            tracing::warn!("{note}");
            writer.note(note)?;
        }
        Ok((writer, standing))
    }

    /// Nobody may sign two histories with one key: another one goes on where the newest checkpoint holds.
    fn begin_anew(&self) -> Result<Standing, LedgerError> {
        if self.has_living {
            return Err(LedgerError::InUse);
        }
        let from = self.newest_that_holds()?;
        Standing::anew(self.folder, self.now, from)
    }

    fn newest_that_holds(&self) -> Result<Option<Kept>, LedgerError> {
        let Ok(Some(signer)) = KeyFile::of(self.folder).load() else { return Ok(None) };
        let bytes = Checkpoints::of(self.folder).read()?.unwrap_or_default();
        for line in bytes.split(|byte| *byte == b'\n').rev() {
            if let Ok(kept) = Kept::parse(line, signer.verifier())
                && tail::must_hold(self.folder, &kept).is_ok()
            {
                return Ok(Some(kept));
            }
        }
        Ok(None)
    }
}
