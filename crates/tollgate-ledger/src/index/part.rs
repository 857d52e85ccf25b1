//! One attempt by a part of its id.

use rusqlite::Row;
use rusqlite::types::ValueRef;

use super::tables::Id;
use super::{Index, Trouble};
use crate::LedgerError;
use crate::filter::is_part;

impl Index {
    /// The one attempt whose id begins or ends with this.
    pub(super) fn resolve(&self, part: &str) -> Result<i64, Trouble> {
        let unknown = || LedgerError::UnknownAttempt { part: part.to_owned() };
        if part.is_empty() {
            return Err(unknown().into());
        }
        let row = |row: &Row<'_>| Ok((row.get::<_, i64>(0)?, id_text(row.get_ref(1)?).unwrap_or_default()));
        let exact = self.rows("select seq, id from attempt where id = ?1 limit 1", [Id::of(part)], row)?;
        if let Some((seq, _)) = exact.first() {
            return Ok(*seq);
        }
        let mut candidates = Vec::new();
        if let Some((low, high)) = beginning(part) {
            let sql = "select seq, id from attempt where id between ?1 and ?2 limit 2";
            candidates.extend(self.rows(sql, (low.as_slice(), high.as_slice()), row)?);
        }
        if let Some((low, high)) = ending(part) {
            let sql = "select seq, id from attempt where tail between ?1 and ?2 limit 100";
            candidates.extend(self.rows(sql, (low, high), row)?);
        }
        candidates.extend(self.rows("select seq, id from attempt where typeof(id) = 'text'", [], row)?);
        candidates.retain(|(_, id)| is_part(id, part));
        candidates.dedup_by_key(|(seq, _)| *seq);
        match candidates.as_slice() {
            [] => Err(unknown().into()),
            [(seq, _)] => Ok(*seq),
            [(_, first), .., (_, second)] => {
                let (first, second) = (first.clone(), second.clone());
                Err(LedgerError::AmbiguousAttempt { part: part.to_owned(), first, second }.into())
            }
        }
    }
}

/// The id as it stands in records.
pub(super) fn id_text(value: ValueRef<'_>) -> Option<String> {
    match value {
        ValueRef::Blob(bytes) => {
            let mut text = String::with_capacity(36);
            for (index, byte) in bytes.iter().enumerate() {
                if matches!(index, 4 | 6 | 8 | 10) {
                    text.push('-');
                }
                text.push_str(&format!("{byte:02x}"));
            }
            Some(text)
        }
        ValueRef::Text(text) => Some(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => None,
    }
}

/// The hex digits of a part of a UUID.
fn digits(part: &str) -> Option<Vec<u8>> {
    let digits = part.bytes().filter(|byte| *byte != b'-').map(|byte| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    });
    digits.collect::<Option<Vec<u8>>>().filter(|digits| (1..=32).contains(&digits.len()))
}

/// The least and the greatest UUID that begin so.
fn beginning(part: &str) -> Option<([u8; 16], [u8; 16])> {
    let digits = digits(part)?;
    let filled = |fill: u8| {
        let mut bytes = [fill << 4 | fill; 16];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            *byte = pair.first().copied().unwrap_or(fill) << 4 | pair.get(1).copied().unwrap_or(fill);
        }
        bytes
    };
    Some((filled(0), filled(15)))
}

/// The least and the greatest tail of a UUID that ends so. See [`Id::tail`].
fn ending(part: &str) -> Option<(i64, i64)> {
    const TAIL_DIGITS: usize = 12;
    let digits = digits(part)?;
    let mut tail = 0;
    let known = digits.len().min(TAIL_DIGITS);
    for digit in digits.iter().rev().take(known) {
        tail = tail << 4 | i64::from(*digit);
    }
    let open = 4 * (TAIL_DIGITS - known);
    Some((tail << open, (tail << open) + ((1 << open) - 1)))
}
