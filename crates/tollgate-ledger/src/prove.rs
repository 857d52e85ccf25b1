//! Proofs for third parties: that one record is in the ledger that a checkpoint was signed over, and that a later checkpoint
//! only added to an earlier one.

use std::path::Path;

use serde::Serialize;

use crate::LedgerError;
use crate::checkpoints::{Checkpoints, damaged};
use crate::key::KeyFile;
use crate::line::{self, Head};
use crate::lines::Lines;
use crate::note::{Checkpoint, node_text, notes_in};
use crate::segment::{Folder, segment_name};
use crate::tree::{self, Frontier, Node, Roots};

/// All that it takes to check that a record is in the ledger, but for the verifier key, which must come another way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Proof {
    /// The version of this form.
    pub v: u32,
    /// The record's line, without its line break.
    pub record: String,
    /// The leaf that it is, from 0: one less than its `seq`.
    pub index: u64,
    /// The audit path of RFC 6962 §2.1.1, from the leaf up, in base64.
    pub path: Vec<String>,
    /// The signed note with the root that the path leads to.
    pub checkpoint: String,
    /// The key that signed it, for comparison with the one that the reader has.
    pub key: String,
    /// That the tree only grew since an earlier checkpoint.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Since>,
}

/// That the tree of an earlier checkpoint is the beginning of the later one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Since {
    /// The earlier signed note.
    pub checkpoint: String,
    /// The consistency proof of RFC 6962 §2.1.2, in base64.
    pub path: Vec<String>,
}

/// Proves the record `seq`, and that nothing before the note `since` was changed after it. It reads the records up to the
/// last checkpoint.
///
/// # Errors
/// [`LedgerError::NotCovered`] when no checkpoint covers the record, [`LedgerError::NotACheckpoint`] when `since` is none
/// of this ledger, [`LedgerError::Damaged`] when the records are not those that were signed, or that it cannot be read.
pub fn prove(data_dir: &Path, seq: u64, since: Option<&str>) -> Result<Proof, LedgerError> {
    let folder = Folder::of(data_dir);
    folder.existing_segments()?;
    let key = KeyFile::of(&folder).load_any()?.ok_or(LedgerError::NoKey)?.verifier().clone();
    let last = Checkpoints::of(&folder).last(&key)?.ok_or_else(|| damaged(1, 0, "the checkpoints are gone"))?.kept;
    let Checkpoint { size, root, .. } = last.checkpoint;
    let Some(index) = seq.checked_sub(1).filter(|index| *index < size) else {
        return Err(LedgerError::NotCovered { seq, size });
    };
    let old = since.map(|text| {
        let note = notes_in(text).pop().ok_or(LedgerError::NotACheckpoint { why: "there is no note in it" })?;
        let old =
            Checkpoint::open(&note, &key).map_err(|doubt| LedgerError::NotACheckpoint { why: doubt.message() })?;
        if old.size == 0 {
            return Err(LedgerError::NotACheckpoint { why: "it covers no record" });
        }
        if old.size > size {
            return Err(LedgerError::NotACheckpoint { why: "it covers more records than the last one here" });
        }
        Ok((note, old))
    });
    let old = old.transpose()?;
    let audit = tree::inclusion(index, size);
    let growth = old.as_ref().map(|(_, old)| tree::consistency(old.size, size)).unwrap_or_default();
    let read = Reading::of(&folder, index, size, Roots::of([audit.clone(), growth].concat()))?;
    let (path, growth) = read.roots.split_at_checked(audit.len()).unwrap_or_default();
    // What is handed out was checked as its reader will check it.
    let is_right = read.root == root && tree::root_of_inclusion(index, size, read.leaf, path) == Some(root);
    if !is_right {
        return Err(damaged(1, 0, "the records are not those that the last checkpoint was signed over"));
    }
    if let Some((_, old)) = &old
        && !tree::is_consistent(old.size, old.root, size, root, growth)
    {
        return Err(damaged(1, 0, "the records are not those that the earlier checkpoint was signed over"));
    }
    let texts = |nodes: &[Node]| nodes.iter().map(node_text).collect();
    let since = old.map(|(checkpoint, _)| Since { checkpoint, path: texts(growth) });
    Ok(Proof {
        v: 1,
        record: read.record,
        index,
        path: texts(path),
        checkpoint: last.note,
        key: key.to_string(),
        since,
    })
}

/// What the records of a tree come to.
struct Reading {
    record: String,
    leaf: Node,
    root: Node,
    roots: Vec<Node>,
}

impl Reading {
    fn of(folder: &Folder, index: u64, size: u64, mut roots: Roots) -> Result<Self, LedgerError> {
        let reading = || LedgerError::io("be read");
        let mut frontier = Frontier::default();
        let (mut head, mut wanted) = (Head::GENESIS, None);
        for first in folder.existing_segments()? {
            let file = folder.open_to_read(first).map_err(reading())?;
            let len = file.len().map_err(reading())?;
            let mut lines = Lines::new(file.as_ref(), 0, len);
            while head.seq < size
                && let Some(line) = lines.next().map_err(reading())?
            {
                let link = line::peek(line.bytes).filter(|link| link.follows(&head));
                let Some((link, leaf)) = link.and_then(|link| Some((link, line::bytes_of(&link.head.hash)?))) else {
                    let (seq, segment, message) =
                        (head.seq + 1, segment_name(first), "the line does not continue the chain");
                    return Err(LedgerError::Damaged { seq, segment, line: 0, message });
                };
                let leaf = tree::leaf(&leaf);
                if head.seq == index {
                    wanted = Some((String::from_utf8_lossy(line.bytes).into_owned(), leaf));
                }
                roots.push(head.seq, leaf);
                frontier.push(leaf);
                head = link.head;
            }
        }
        let gone = || damaged(head.seq + 1, 0, "records that a checkpoint covers are gone");
        let (record, leaf) = wanted.ok_or_else(gone)?;
        Ok(Self { record, leaf, root: frontier.root(), roots: roots.finish() })
    }
}
