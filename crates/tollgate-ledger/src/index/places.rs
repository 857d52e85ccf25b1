//! Where the records of an attempt stand, packed into few bytes, and reading them there.

use crate::disk::Opened;
use crate::line::LINE_BYTES_MAX;
use crate::segment::Folder;
use crate::{LedgerError, Record};

/// What is read at once; most records are shorter.
const READ_BYTES: usize = 2 * 1024;

/// The places of some records, ascending.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Places(Vec<Place>);

/// The place of one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) seq: u64,
    /// Where its line begins in its segment.
    pub(super) offset: u64,
}

impl Places {
    pub(super) fn push(&mut self, place: Place) {
        self.0.push(place);
    }

    /// Each place as two LEB128 numbers: by how much its seq is more than that of the one before, and its offset.
    pub(super) fn pack(&self) -> Vec<u8> {
        let mut packed = Vec::with_capacity(self.0.len() * 6);
        let mut before = 0;
        for place in &self.0 {
            put(&mut packed, place.seq - before);
            put(&mut packed, place.offset);
            before = place.seq;
        }
        packed
    }

    pub(super) fn unpack(mut packed: &[u8]) -> Option<Self> {
        let mut places = Self::default();
        let mut before: u64 = 0;
        while !packed.is_empty() {
            before = before.checked_add(take(&mut packed)?)?;
            places.push(Place { seq: before, offset: take(&mut packed)? });
        }
        Some(places)
    }
}

fn put(packed: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        packed.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    packed.push(number as u8);
}

fn take(packed: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = packed.split_first()?;
        *packed = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// A record, and the bytes of its line without the line feed.
pub(super) type Standing = (Record, Vec<u8>);

/// Reads records where they stand.
pub(super) struct Reader {
    folder: Folder,
    segments: Vec<u64>,
    open: Option<(u64, Box<Opened>)>,
}

impl Reader {
    pub(super) fn new(folder: Folder) -> Self {
        Self { folder, segments: Vec::new(), open: None }
    }

    /// The records at these places. None where another record, or none, stands at one of
    /// them.
    pub(super) fn read(&mut self, places: &Places) -> Result<Option<Vec<Standing>>, LedgerError> {
        let mut records = Vec::with_capacity(places.0.len());
        for place in &places.0 {
            let line = match self.line(*place) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
                read => read.map_err(LedgerError::io("be read"))?,
            };
            let record = line.as_deref().and_then(Record::parse).filter(|record| record.seq() == place.seq);
            match record.zip(line) {
                Some(found) => records.push(found),
                None => return Ok(None),
            }
        }
        Ok(Some(records))
    }

    fn line(&mut self, place: Place) -> std::io::Result<Option<Vec<u8>>> {
        let Some(file) = self.file(place.seq)? else { return Ok(None) };
        let mut line = vec![0; READ_BYTES];
        let mut filled = 0;
        loop {
            let read = file.read_at(line.get_mut(filled..).unwrap_or_default(), place.offset + filled as u64)?;
            let fresh = line.get(filled..filled + read).unwrap_or_default();
            if let Some(end) = fresh.iter().position(|byte| *byte == b'\n') {
                line.truncate(filled + end);
                return Ok(Some(line));
            }
            filled += read;
            if read == 0 || filled > LINE_BYTES_MAX {
                return Ok(None);
            }
            line.resize(filled * 2, 0);
        }
    }

    /// The segment that holds a record.
    fn file(&mut self, seq: u64) -> std::io::Result<Option<&Opened>> {
        if self.segments.last().is_none_or(|last| seq >= *last) {
            self.segments = self.folder.segments()?;
        }
        let Some(first) = self.segments.iter().rev().find(|first| **first <= seq).copied() else { return Ok(None) };
        if self.open.as_ref().is_none_or(|(number, _)| *number != first) {
            self.open = Some((first, self.folder.open_to_read(first)?));
        }
        Ok(self.open.as_ref().map(|(_, file)| file.as_ref()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_packed_unpacks(steps in proptest::collection::vec((1..u64::MAX / 64, any::<u64>()), 0..16)) {
            let mut places = Places::default();
            let mut seq = 0;
            for (step, offset) in steps {
                seq += step;
                places.push(Place { seq, offset });
            }
            prop_assert_eq!(Places::unpack(&places.pack()), Some(places));
        }

        #[test]
        fn what_is_no_packing_is_none_and_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Places::unpack(&bytes);
        }
    }
}
