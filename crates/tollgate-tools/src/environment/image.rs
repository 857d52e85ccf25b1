//! What stands at a place before a call changes it, left where an undo finds it, and whether a place is still as a call left
//! it.

use std::fs::File;
use std::io::{self, Read as _, Seek as _};

use cap_std::fs::{Metadata, MetadataExt as _};
use sha2::{Digest as _, Sha256};
use tollgate_types::{BeforeImage, FileImage, ToolError, limits};

use super::place::Place;
use crate::typed::Run;

/// What is read of a file at once.
const PIECE_BYTES: usize = 64 * 1024;

/// What stands there now.
pub(crate) enum Found<'a> {
    Nothing,
    File(&'a File, &'a Metadata),
}

/// Whether the call can be undone.
pub(crate) enum Kept {
    /// The image was kept, or nobody wants one.
    Whole,
    /// The file is larger than what is kept.
    TooLarge,
}

impl Kept {
    /// What the model is told of it.
    pub(crate) fn told(&self) -> &'static str {
        match self {
            Self::Whole => "",
            Self::TooLarge => "; the old content was too large to keep, so this cannot be undone",
        }
    }
}

/// Keeps what stands at the place before `after` takes its place. Where it cannot be kept, nothing may be changed.
pub(crate) fn keep(place: &Place<'_>, run: &Run, found: Found<'_>, after: Option<&[u8]>) -> Result<Kept, ToolError> {
    let Some(images) = &run.cx.images else { return Ok(Kept::Whole) };
    let before = match found {
        Found::Nothing => None,
        Found::File(_, meta) if meta.size() > limits::UNDO_IMAGE_BYTES_MAX => return Ok(Kept::TooLarge),
        Found::File(file, meta) => match whole(file).map_err(|error| place.failed(&error))? {
            Some(bytes) => Some(FileImage { bytes, mode: meta.mode() }),
            None => return Ok(Kept::TooLarge),
        },
    };
    let image = BeforeImage { path: place.path(), before, after: after.map(|bytes| hex(&Sha256::digest(bytes))) };
    images.keep(&run.cx.attempt, image, run.cx.clock.now()).map_err(|why| {
        ToolError::new(format!("what stands at `{}` cannot be kept for an undo: {why}", place.path()))
            .with_tool_code("NOT_KEPT")
            .with_hint("nothing was changed; tell the operator")
            .nothing_happened()
    })?;
    Ok(Kept::Whole)
}

/// The file's bytes; none where they are too many.
fn whole(mut file: &File) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(limits::UNDO_IMAGE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    let is_whole = u64::try_from(bytes.len()).is_ok_and(|size| size <= limits::UNDO_IMAGE_BYTES_MAX);
    Ok(is_whole.then_some(bytes))
}

/// The SHA-256 of what is in the file.
pub(crate) fn sha256(mut file: &File) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut piece = vec![0; PIECE_BYTES];
    file.rewind()?;
    loop {
        let read = file.read(&mut piece)?;
        let Some(bytes) = piece.get(..read).filter(|bytes| !bytes.is_empty()) else { break };
        hasher.update(bytes);
    }
    Ok(hex(&hasher.finalize()))
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.filter_map(|digit| char::from_digit(u32::from(digit), 16)).collect()
}
