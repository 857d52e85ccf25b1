//! The tables of the index: what an attempt is found by, and how far the ledger has been read.
//!
//! An attempt is of a kind: caller, role, tenant, surface, tool, risk, status, code, rule and events together. There are
//! few kinds, so that any combination of filters is answered among them, and the attempts of a kind by one index.

use std::collections::HashMap;

use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::attempt::Attempt;
use crate::line::Hash;

/// The format that this program writes. Another one is made anew.
pub(super) const VERSION: i64 = 2;

/// `kind.first` and `kind.last` only bound the times of its attempts, in microseconds.
pub(super) const TABLES: &str = "
create table position (
    one integer primary key check (one = 1), segment integer not null, offset integer not null, seq integer not null,
    hash blob not null
) strict;
create table word (id integer primary key, text text not null unique) strict;
create table kind (
    id integer primary key, subject integer not null, role integer not null, tenant integer not null,
    surface integer not null, tool integer not null, risk integer not null, status integer not null,
    code integer not null, rule integer not null, events integer not null,
    count integer not null default 0, first integer not null default 9223372036854775807,
    last integer not null default -9223372036854775808,
    unique (subject, role, tenant, surface, tool, risk, status, code, rule, events)
) strict;
create table attempt (
    seq integer primary key, id any, tail integer, kind integer not null, time integer not null, session integer,
    duration_ms integer, answer_ms integer, places blob not null
) strict;
create index attempt_by_id on attempt (id) where id is not null;
create table link (other any not null, seq integer not null, primary key (other, seq)) strict, without rowid;
";

/// What questions need beside the tables. It is made when the ledger has been read, so that reading a long one for the
/// first time writes rows in their order alone.
pub(super) const INDICES: &str = "
create index if not exists attempt_by_text on attempt (id) where typeof(id) = 'text';
create index if not exists attempt_by_tail on attempt (tail) where tail is not null;
create index if not exists attempt_by_kind on attempt (kind, time);
create index if not exists attempt_by_time on attempt (time);
create index if not exists attempt_by_session on attempt (session, time) where session is not null;
";

/// How far the ledger has been read: where the next line begins, and which record stands before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) segment: u64,
    pub(super) offset: u64,
    pub(super) seq: u64,
    pub(super) hash: Hash,
}

impl Position {
    pub(super) fn load(connection: &Connection) -> rusqlite::Result<Option<Self>> {
        let row = |row: &Row<'_>| {
            let hash: Vec<u8> = row.get(3)?;
            let hash = hash.try_into().map_err(|_| rusqlite::Error::InvalidQuery)?;
            Ok(Self { segment: unsigned(row.get(0)?), offset: unsigned(row.get(1)?), seq: unsigned(row.get(2)?), hash })
        };
        connection.query_row("select segment, offset, seq, hash from position", [], row).optional()
    }

    pub(super) fn store(&self, connection: &Connection) -> rusqlite::Result<()> {
        let numbers = [self.segment, self.offset, self.seq].map(signed);
        let [segment, offset, seq] = numbers;
        let sql = "insert or replace into position values (1, ?1, ?2, ?3, ?4)";
        connection.execute(sql, params![segment, offset, seq, self.hash.as_slice()])?;
        Ok(())
    }
}

/// SQLite's integers have a sign. No number of ours needs the bit.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}

/// An id as it is stored: the 16 bytes of a UUID, or the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Id {
    Uuid([u8; 16]),
    Text(String),
}

impl Id {
    pub(super) fn of(text: &str) -> Self {
        uuid(text).map_or_else(|| Self::Text(text.to_owned()), Self::Uuid)
    }

    /// The id's last twelve hex digits, the last one first, so that ids of one ending stand together; none for others.
    pub(super) fn tail(&self) -> Option<i64> {
        let Self::Uuid(bytes) = self else { return None };
        let backwards = bytes.iter().rev().take(6).fold(0, |tail, byte| {
            let (high, low) = (byte >> 4, byte & 15);
            tail << 8 | i64::from(low) << 4 | i64::from(high)
        });
        Some(backwards)
    }
}

impl rusqlite::ToSql for Id {
    fn to_sql(&self) -> rusqlite::Result<rusqlite::types::ToSqlOutput<'_>> {
        match self {
            Self::Uuid(bytes) => bytes.as_slice().to_sql(),
            Self::Text(text) => text.to_sql(),
        }
    }
}

/// The bytes of a UUID in its usual form, RFC 9562 §4; none of any other text, so that the text can be had back.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    let mut digits = text.bytes().enumerate();
    let mut next = || loop {
        match digits.next()? {
            (8 | 13 | 18 | 23, b'-') => {}
            (8 | 13 | 18 | 23, _) => return None,
            (_, digit @ b'0'..=b'9') => return Some(digit - b'0'),
            (_, digit @ b'a'..=b'f') => return Some(digit - b'a' + 10),
            _ => return None,
        }
    };
    for byte in &mut bytes {
        *byte = next()? << 4 | next()?;
    }
    (text.len() == 36).then_some(bytes)
}

/// What a batch adds to a kind.
struct Change {
    id: i64,
    count: i64,
    first: i64,
    last: i64,
}

/// The kinds and words of one transaction, each looked up once.
#[derive(Default)]
pub(super) struct Names {
    words: HashMap<String, i64>,
    kinds: HashMap<[i64; 10], usize>,
    places: HashMap<i64, usize>,
    changes: Vec<Change>,
}

impl Names {
    /// The number of a word; 0 of none.
    pub(super) fn word(&mut self, connection: &Connection, text: &str) -> rusqlite::Result<i64> {
        if text.is_empty() {
            return Ok(0);
        }
        if let Some(id) = self.words.get(text) {
            return Ok(*id);
        }
        let known = connection
            .prepare_cached("select id from word where text = ?1")?
            .query_row([text], |row| row.get(0))
            .optional()?;
        let id = match known {
            Some(id) => id,
            None => {
                connection.prepare_cached("insert into word (text) values (?1)")?.execute([text])?;
                connection.last_insert_rowid()
            }
        };
        self.words.insert(text.to_owned(), id);
        Ok(id)
    }

    /// The kind of an attempt, which has one more of it.
    pub(super) fn enter(&mut self, connection: &Connection, attempt: &Attempt) -> rusqlite::Result<i64> {
        let caller = &attempt.caller;
        let rule = attempt.decision.as_ref().map(|decision| decision.rule.as_str()).unwrap_or_default();
        let words = [
            &caller.subject,
            &caller.role,
            &caller.tenant,
            &caller.surface,
            &attempt.tool,
            &attempt.risk,
            &attempt.status,
            &attempt.code,
        ];
        let mut key = [0; 10];
        for (slot, word) in key.iter_mut().zip(words.into_iter().map(String::as_str).chain([rule])) {
            *slot = self.word(connection, word)?;
        }
        if let Some(events) = key.last_mut() {
            *events = i64::from(attempt.events.bits(attempt.erased));
        }
        let place = match self.kinds.get(&key) {
            Some(place) => *place,
            None => {
                let id = kind_id(connection, &key)?;
                let place = self.place(id);
                self.kinds.insert(key, place);
                place
            }
        };
        let time = attempt.time.as_microsecond();
        let Some(change) = self.changes.get_mut(place) else { return Ok(0) };
        change.count += 1;
        change.first = change.first.min(time);
        change.last = change.last.max(time);
        Ok(change.id)
    }

    /// A kind has one less.
    pub(super) fn leave(&mut self, kind: i64) {
        let place = self.place(kind);
        if let Some(change) = self.changes.get_mut(place) {
            change.count -= 1;
        }
    }

    fn place(&mut self, id: i64) -> usize {
        let changes = &mut self.changes;
        *self.places.entry(id).or_insert_with(|| {
            changes.push(Change { id, count: 0, first: i64::MAX, last: i64::MIN });
            changes.len() - 1
        })
    }

    pub(super) fn store(&self, connection: &Connection) -> rusqlite::Result<()> {
        let mut update = connection.prepare_cached(
            "update kind set count = count + ?2, first = min(first, ?3), last = max(last, ?4) where id = ?1",
        )?;
        for change in &self.changes {
            update.execute([change.id, change.count, change.first, change.last])?;
        }
        Ok(())
    }
}

fn kind_id(connection: &Connection, key: &[i64; 10]) -> rusqlite::Result<i64> {
    let mut select = connection.prepare_cached(
        "select id from kind where subject = ?1 and role = ?2 and tenant = ?3 and surface = ?4 and tool = ?5
         and risk = ?6 and status = ?7 and code = ?8 and rule = ?9 and events = ?10",
    )?;
    if let Some(id) = select.query_row(*key, |row| row.get(0)).optional()? {
        return Ok(id);
    }
    let mut insert = connection.prepare_cached(
        "insert into kind (subject, role, tenant, surface, tool, risk, status, code, rule, events)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?;
    insert.execute(*key)?;
    Ok(connection.last_insert_rowid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_uuid_in_its_usual_form_is_stored_as_one() {
        let text = "019345ab-cdef-7000-8abc-0123456789af";
        let Id::Uuid(bytes) = Id::of(text) else { panic!("{text}") };
        assert_eq!((bytes[0], bytes[15]), (0x01, 0xaf));
        assert_eq!(Id::of(text).tail(), Some(0xfa98_7654_3210));
        for other in
            [&text.to_uppercase(), &text.replace('-', ""), &format!("{text}0"), text.trim_end_matches('f'), "a-1", ""]
        {
            assert_eq!(Id::of(other), Id::Text(other.to_owned()), "{other}");
        }
    }
}
