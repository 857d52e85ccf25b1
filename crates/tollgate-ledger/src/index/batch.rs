//! Reading on: the next lines of the ledger as rows of the index.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, params};

use super::Trouble;
use super::places::{Place, Places, Reader};
use super::tables::{Id, Names, Position, signed, unsigned};
use crate::attempt::{Attempt, Brief};
use crate::line;
use crate::lines::Lines;
use crate::segment::{Folder, segment_name};
use crate::{LedgerError, Record};

/// Records of one transaction. Their attempts are held in memory.
const RECORDS_MAX: usize = 20_000;

/// Attempts whose records came in, in the order of their first.
#[derive(Default)]
pub(super) struct Batch {
    attempts: Vec<Row>,
    by_id: HashMap<String, usize>,
    records: usize,
}

struct Row {
    seq: u64,
    attempt: Attempt,
    places: Places,
    links: Vec<Id>,
    /// The kind of the row that is there already.
    stored: Option<i64>,
}

impl Batch {
    /// Reads lines from `position` on, up to `end` and a limit, and moves the position behind them. Whether there may be
    /// more.
    pub(super) fn read(
        &mut self,
        connection: &Connection,
        folder: &Folder,
        position: &mut Position,
        end: (u64, u64),
    ) -> Result<bool, Trouble> {
        let begin = (position.segment, position.offset);
        let segments = folder.existing_segments()?;
        for first in segments.into_iter().filter(|first| *first >= begin.0 && *first <= end.0) {
            let file = folder.open_to_read(first).map_err(LedgerError::io("be read"))?;
            let len = file.len().map_err(LedgerError::io("be read"))?;
            let len = if first == end.0 { len.min(end.1) } else { len };
            let mut lines = Lines::new(file.as_ref(), if first == begin.0 { begin.1 } else { 0 }, len);
            while let Some(line) = lines.next().map_err(LedgerError::io("be read"))? {
                if !line.is_whole {
                    break;
                }
                let brief = serde_json::from_slice::<Brief<'_>>(line.bytes).ok();
                let Some((brief, hash)) = brief.zip(line::hash_said(line.bytes)) else {
                    let number = crate::lines::line_number(file.as_ref(), line.start).unwrap_or_default();
                    let (seq, segment) = (position.seq + 1, segment_name(first));
                    let message = "the line is not a record";
                    return Err(LedgerError::Damaged { seq, segment, line: number, message }.into());
                };
                self.add(connection, folder, &brief, line.start)?;
                let seq = brief.seq;
                *position = Position { segment: first, offset: lines.position(), seq, hash };
                self.records += 1;
                if self.records == RECORDS_MAX {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn add(&mut self, connection: &Connection, folder: &Folder, brief: &Brief<'_>, offset: u64) -> Result<(), Trouble> {
        let id = brief.attempt();
        let known = match self.by_id.get(id) {
            Some(index) => Some(*index),
            None if id.is_empty() => None,
            None => stored(connection, folder, id)?.map(|row| self.push(row)),
        };
        let index = match known {
            Some(index) => {
                if let Some(row) = self.attempts.get_mut(index) {
                    row.attempt.learn(brief);
                }
                index
            }
            None => {
                let attempt = Attempt::begin(brief);
                let (places, links) = (Places::default(), Vec::new());
                self.push(Row { seq: brief.seq, attempt, places, links, stored: None })
            }
        };
        let Some(row) = self.attempts.get_mut(index) else { return Ok(()) };
        row.places.push(Place { seq: brief.seq, offset });
        for other in [&brief.parent, &brief.approval].into_iter().flatten() {
            let other = Id::of(&other.0);
            if !row.links.contains(&other) {
                row.links.push(other);
            }
        }
        Ok(())
    }

    fn push(&mut self, row: Row) -> usize {
        let index = self.attempts.len();
        if !row.attempt.attempt.is_empty() {
            self.by_id.insert(row.attempt.attempt.clone(), index);
        }
        self.attempts.push(row);
        index
    }

    /// Writes the rows.
    pub(super) fn write(&self, connection: &Connection) -> rusqlite::Result<()> {
        let mut names = Names::default();
        let mut write = connection.prepare_cached(
            "insert or replace into attempt (seq, id, tail, kind, time, session, duration_ms, answer_ms, places)
             values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        )?;
        let mut link = connection.prepare_cached("insert or ignore into link (other, seq) values (?1, ?2)")?;
        for row in &self.attempts {
            let Row { seq, attempt, places, links, stored } = row;
            if let Some(kind) = stored {
                names.leave(*kind);
            }
            let kind = names.enter(connection, attempt)?;
            let session = Some(names.word(connection, &attempt.caller.session)?).filter(|session| *session != 0);
            let id = Some(Id::of(&attempt.attempt)).filter(|_| !attempt.attempt.is_empty());
            let seq = signed(*seq);
            write.execute(params![
                seq,
                id,
                id.as_ref().and_then(Id::tail),
                kind,
                attempt.time.as_microsecond(),
                session,
                attempt.duration_ms.map(signed),
                attempt.answer_ms.map(signed),
                places.pack(),
            ])?;
            for other in links {
                link.execute(params![other, seq])?;
            }
        }
        names.store(connection)
    }
}

/// What an earlier batch knew of an attempt, read from the ledger once more.
fn stored(connection: &Connection, folder: &Folder, id: &str) -> Result<Option<Row>, Trouble> {
    let mut select = connection.prepare_cached("select seq, kind, places from attempt where id = ?1")?;
    let found = select
        .query_row([Id::of(id)], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, Vec<u8>>(2)?)))
        .optional()?;
    let Some((seq, kind, packed)) = found else { return Ok(None) };
    let seq = unsigned(seq);
    let places = Places::unpack(&packed).ok_or(Trouble::Stale)?;
    let records = Reader::new(folder.clone()).read(&places)?.ok_or(Trouble::Stale)?;
    let records: Vec<Record> = records.into_iter().map(|(record, _)| record).collect();
    let attempt = Attempt::of(&records).ok_or(Trouble::Stale)?;
    Ok(Some(Row { seq, attempt, places, links: Vec::new(), stored: Some(kind) }))
}
