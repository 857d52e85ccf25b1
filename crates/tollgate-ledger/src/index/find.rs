//! Asking the index: a page of attempts, the newest first; one attempt by a part of its id; all of them in order.

use std::collections::{BinaryHeap, HashSet};
use std::fmt;
use std::str::FromStr;

use rusqlite::{OptionalExtension, Params, Row};
use serde::{Serialize, Serializer};

use super::part::id_text;
use super::places::{Places, Reader};
use super::tables::{Id, unsigned};
use super::{Index, Trouble};
use crate::attempt::Attempt;
use crate::filter::Filter;
use crate::{LedgerError, Record};

/// The attempts of one page.
pub const FOUND_MAX: usize = 10_000;
/// Attempts linked to another one.
const LINKED_MAX: i64 = 100;
/// Attempts of one kind that are fetched at once.
const CHUNK: usize = 16;
/// How many rows in the order of time are read in the time of one search in the order of kinds.
const ROWS_PER_SEARCH: u64 = 8;

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum View {
    /// Attempts alone.
    Attempts,
    /// Also the records about the ledger itself, which belong to no attempt.
    Records,
}

/// An attempt, or a record about the ledger itself, that was found.
#[derive(Debug, Clone)]
pub struct Found {
    /// What its records say together.
    pub attempt: Attempt,
    /// Its records in their order.
    pub records: Vec<Record>,
    /// The bytes of their lines, without the line feeds.
    pub lines: Vec<Vec<u8>>,
    /// What comes after it in a page is asked for with this.
    pub cursor: Cursor,
}

/// A page of what was found.
#[derive(Debug, Clone)]
pub struct Page {
    /// The newest first.
    pub found: Vec<Found>,
    /// Asks for the next page, where there is one.
    pub next: Option<Cursor>,
}

/// A place in the order of time, after which a page begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    time: i64,
    seq: i64,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.time, self.seq)
    }
}

impl FromStr for Cursor {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.split_once('.').and_then(|(time, seq)| time.parse().ok().zip(seq.parse().ok()));
        parts.map(|(time, seq)| Self { time, seq }).ok_or("a cursor is what an earlier answer gave as one")
    }
}

impl Serialize for Cursor {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A kind that is asked for.
pub(crate) struct Kind {
    pub(crate) id: i64,
    count: u64,
    last: i64,
}

/// What the index itself knows of an attempt.
pub(crate) struct IndexRow {
    pub(crate) time: i64,
    pub(crate) kind: i64,
    pub(crate) duration_ms: Option<u64>,
    pub(crate) answer_ms: Option<u64>,
}

/// The times that are asked for, in microseconds, and what the page comes after.
struct Range {
    since: i64,
    before: Cursor,
}

impl Range {
    fn of(filter: &Filter, after: Option<Cursor>) -> Self {
        let since = filter.since.map_or(i64::MIN, |since| micros_up(since.as_nanosecond()));
        let until = filter.until.map_or(i64::MAX, |until| micros_up(until.as_nanosecond()));
        let end = Cursor { time: until, seq: if filter.until.is_none() { i64::MAX } else { i64::MIN } };
        Self { since, before: after.map_or(end, |after| after.min(end)) }
    }
}

/// Records have microseconds; a bound between two of them is the later one.
fn micros_up(nanos: i128) -> i64 {
    i64::try_from(nanos.div_euclid(1000) + i128::from(nanos.rem_euclid(1000) > 0)).unwrap_or(i64::MAX)
}

impl Index {
    /// The attempts that are asked for, the newest first, at most `limit` of them and [`FOUND_MAX`], and those after
    /// `after`.
    ///
    /// # Errors
    /// [`LedgerError::UnknownAttempt`] or [`LedgerError::AmbiguousAttempt`] for an attempt that is asked for by such a
    /// part of its id, or that the ledger cannot be read.
    pub fn find(
        &mut self,
        filter: &Filter,
        view: View,
        limit: usize,
        after: Option<Cursor>,
    ) -> Result<Page, LedgerError> {
        let limit = limit.min(FOUND_MAX);
        self.using(|index| {
            let mut places = index.newest(filter, view, limit + 1, &Range::of(filter, after))?;
            let has_more = places.len() > limit;
            places.truncate(limit);
            let mut reader = Reader::new(index.folder.clone());
            let mut found = Vec::with_capacity(places.len());
            for cursor in places {
                found.push(index.fetch(&mut reader, cursor)?);
            }
            let next = found.last().map(|last: &Found| last.cursor).filter(|_| has_more);
            Ok(Page { found, next })
        })
    }

    /// The attempt whose id begins or ends so, and no other's.
    ///
    /// # Errors
    /// As [`Index::find`].
    pub fn attempt_by(&mut self, part: &str) -> Result<Found, LedgerError> {
        self.using(|index| {
            let seq = index.resolve(part)?;
            index.fetch_seq(&mut Reader::new(index.folder.clone()), seq)
        })
    }

    /// The attempts that name this attempt as their parent, or this approval, oldest first; at most 100.
    ///
    /// # Errors
    /// That the ledger cannot be read.
    pub fn linked(&mut self, id: &str) -> Result<Vec<Found>, LedgerError> {
        self.using(|index| {
            let sql = "select seq from link where other = ?1 order by seq limit ?2";
            let seqs = index.rows(sql, (Id::of(id), LINKED_MAX), |row| row.get::<_, i64>(0))?;
            let mut reader = Reader::new(index.folder.clone());
            seqs.into_iter().map(|seq| index.fetch_seq(&mut reader, seq)).collect()
        })
    }

    /// Visits all that is asked for, oldest first, in memory that does not grow with their number.
    ///
    /// # Errors
    /// As [`Index::find`], and what the visitor says.
    pub fn each<E: From<LedgerError>>(
        &mut self,
        filter: &Filter,
        view: View,
        mut visit: impl FnMut(Found) -> Result<(), E>,
    ) -> Result<(), E> {
        // A page of the oldest has no cursor of its own: the order of time is walked up, in steps of one statement.
        const STEP: usize = 500;
        let mut from = Cursor { time: i64::MIN, seq: i64::MIN };
        let mut reader = Reader::new(self.folder.clone());
        loop {
            let step = self.using(|index| index.oldest(filter, view, STEP, from))?;
            let Step { cursors, end } = step;
            for cursor in cursors {
                let found = match self.fetch(&mut reader, cursor) {
                    // Content was erased since the step was found: what is behind it stands elsewhere.
                    Err(Trouble::Stale) => {
                        reader = Reader::new(self.folder.clone());
                        self.using(|index| index.fetch(&mut Reader::new(index.folder.clone()), cursor))?
                    }
                    fetched => fetched.map_err(LedgerError::from)?,
                };
                visit(found)?;
            }
            match end {
                Some(end) => from = end,
                None => return Ok(()),
            }
        }
    }

    /// Visits what the index itself knows of the attempts that are asked for, in any order.
    pub(crate) fn visit_rows(&self, filter: &Filter, visit: &mut dyn FnMut(IndexRow)) -> Result<(), Trouble> {
        let Range { since, before } = Range::of(filter, None);
        let kinds = self.kinds(filter, View::Attempts)?;
        let kinds: Option<HashSet<i64>> = kinds.map(|kinds| kinds.iter().map(|kind| kind.id).collect());
        let mut sql = "select time, kind, duration_ms, answer_ms from attempt where +id is not null".to_owned();
        if filter.since.is_some() || filter.until.is_some() {
            sql.push_str(&format!(" and time >= {since} and (time, seq) < ({}, {})", before.time, before.seq));
        }
        if let Some(part) = &filter.attempt {
            sql.push_str(&format!(" and seq = {}", self.resolve(part)?));
        }
        if let Some(session) = &filter.session {
            sql.push_str(&format!(" and session = {}", self.word(session)?.unwrap_or_default()));
        }
        let mut statement = self.connection.prepare(&sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let millis = |column| Ok::<_, rusqlite::Error>(row.get::<_, Option<i64>>(column)?.map(unsigned));
            let kind = row.get(1)?;
            if kinds.as_ref().is_none_or(|kinds| kinds.contains(&kind)) {
                visit(IndexRow { time: row.get(0)?, kind, duration_ms: millis(2)?, answer_ms: millis(3)? });
            }
        }
        Ok(())
    }

    /// The first and the last time within what is asked for, of any attempt.
    pub(crate) fn bounds(&self, filter: &Filter) -> rusqlite::Result<Option<(i64, i64)>> {
        let Range { since, before } = Range::of(filter, None);
        // Two statements: each is one search in the index of times.
        let end = |end: &str| {
            let sql = format!("select {end}(time) from attempt where time >= ?1 and time < ?2");
            self.connection.query_row(&sql, (since, before.time), |row| row.get::<_, Option<i64>>(0))
        };
        Ok(end("min")?.zip(end("max")?))
    }

    /// The ids of the attempts that are asked for, the newest first.
    pub(crate) fn newest_ids(&self, filter: &Filter, limit: usize) -> Result<Vec<String>, Trouble> {
        let cursors = self.newest(filter, View::Attempts, limit, &Range::of(filter, None))?;
        let mut reader = Reader::new(self.folder.clone());
        cursors.into_iter().map(|cursor| Ok(self.fetch(&mut reader, cursor)?.attempt.attempt)).collect()
    }

    fn newest(&self, filter: &Filter, view: View, limit: usize, range: &Range) -> Result<Vec<Cursor>, Trouble> {
        if let Some(part) = &filter.attempt {
            let found = self.fetch_seq(&mut Reader::new(self.folder.clone()), self.resolve(part)?)?;
            let is_asked_for = found.cursor < range.before && filter.takes(&found.attempt);
            return Ok(if is_asked_for { vec![found.cursor] } else { Vec::new() });
        }
        let kinds = self.kinds(filter, view)?;
        let Range { since, before } = *range;
        if let Some(session) = &filter.session {
            let Some(session) = self.word(session)? else { return Ok(Vec::new()) };
            let sql = "select time, seq, kind from attempt where session = ?1 and time >= ?2 and (time, seq) < (?3, ?4)
                       order by time desc, seq desc";
            return self.walk(sql, (session, since, before.time, before.seq), kinds.as_deref(), limit);
        }
        let Some(kinds) = kinds else { return self.by_time(view, range, None, limit) };
        let kinds: Vec<Kind> = kinds.into_iter().filter(|kind| kind.last >= since).collect();
        let Some(last) = kinds.iter().map(|kind| kind.last).max() else { return Ok(Vec::new()) };
        let range = Range { since, before: before.min(Cursor { time: last, seq: i64::MAX }) };
        let matching: u64 = kinds.iter().map(|kind| kind.count).sum();
        let all: i64 = self.connection.query_row("select sum(count) from kind", [], |row| row.get(0))?;
        // Where most of all are asked for, reading in the order of time meets them soonest; where few are, each kind is
        // searched for its newest.
        let rows = (limit as u64).saturating_mul(unsigned(all) / matching.max(1) + 1);
        match rows < (kinds.len() as u64).saturating_mul(ROWS_PER_SEARCH) {
            true => self.by_time(view, &range, Some(&kinds), limit),
            false => self.by_kind(&range, &kinds, limit),
        }
    }

    fn by_time(&self, view: View, range: &Range, kinds: Option<&[Kind]>, limit: usize) -> Result<Vec<Cursor>, Trouble> {
        let sql = match view {
            View::Attempts => {
                "select time, seq, kind from attempt where time >= ?1 and (time, seq) < (?2, ?3) and +id is not null
                 order by time desc, seq desc"
            }
            View::Records => {
                "select time, seq, kind from attempt where time >= ?1 and (time, seq) < (?2, ?3)
                 order by time desc, seq desc"
            }
        };
        self.walk(sql, (range.since, range.before.time, range.before.seq), kinds, limit)
    }

    /// The first rows of a statement that are of one of the kinds.
    fn walk(
        &self,
        sql: &str,
        parameters: impl Params,
        kinds: Option<&[Kind]>,
        limit: usize,
    ) -> Result<Vec<Cursor>, Trouble> {
        let kinds: Option<HashSet<i64>> = kinds.map(|kinds| kinds.iter().map(|kind| kind.id).collect());
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query(parameters)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next()? {
            let kind: i64 = row.get(2)?;
            if kinds.as_ref().is_none_or(|kinds| kinds.contains(&kind)) {
                found.push(Cursor { time: row.get(0)?, seq: row.get(1)? });
                if found.len() == limit {
                    break;
                }
            }
        }
        Ok(found)
    }

    /// Merges the kinds: the one that may have the newest attempt is searched first, and only as far as it is needed.
    fn by_kind(&self, range: &Range, kinds: &[Kind], limit: usize) -> Result<Vec<Cursor>, Trouble> {
        let sql = "select time, seq from attempt where kind = ?1 and time >= ?2 and (time, seq) < (?3, ?4)
                   order by time desc, seq desc limit ?5";
        let mut search = self.connection.prepare_cached(sql)?;
        // What is known to be there, and, with a kind, what is the most that may be.
        let bound = |kind: &Kind| (range.before.min(Cursor { time: kind.last, seq: i64::MAX }), Some(kind.id));
        let mut heap: BinaryHeap<(Cursor, Option<i64>)> = kinds.iter().map(bound).collect();
        let mut found = Vec::new();
        while let Some((cursor, kind)) = heap.pop() {
            let Some(kind) = kind else {
                found.push(cursor);
                if found.len() == limit {
                    break;
                }
                continue;
            };
            let count = CHUNK.min(limit - found.len());
            let parameters = (kind, range.since, cursor.time, cursor.seq, i64::try_from(count).unwrap_or(i64::MAX));
            let row = |row: &Row<'_>| Ok(Cursor { time: row.get(0)?, seq: row.get(1)? });
            let chunk: Vec<Cursor> = search.query_map(parameters, row)?.collect::<Result<_, _>>()?;
            if let Some(last) = chunk.last().filter(|_| chunk.len() == count) {
                heap.push((*last, Some(kind)));
            }
            heap.extend(chunk.into_iter().map(|cursor| (cursor, None)));
        }
        Ok(found)
    }

    /// The next of all from `from` on, oldest first, and where to go on.
    fn oldest(&self, filter: &Filter, view: View, limit: usize, from: Cursor) -> Result<Step, Trouble> {
        let Range { since, before } = Range::of(filter, None);
        if filter.attempt.is_some() {
            let cursors = self.newest(filter, view, 1, &Range { since, before })?;
            return Ok(Step { cursors, end: None });
        }
        let kinds = self.kinds(filter, view)?;
        let session = match &filter.session {
            None => None,
            Some(session) => match self.word(session)? {
                None => return Ok(Step { cursors: Vec::new(), end: None }),
                session => session,
            },
        };
        let from = from.max(Cursor { time: since, seq: i64::MIN });
        let times = (from.time, from.seq, before.time, before.seq);
        let cursors = match session {
            None => {
                let sql = match view {
                    View::Attempts => {
                        "select time, seq, kind from attempt where time >= ?1 and (time, seq) > (?1, ?2)
                         and (time, seq) < (?3, ?4) and +id is not null order by time, seq"
                    }
                    View::Records => {
                        "select time, seq, kind from attempt where time >= ?1 and (time, seq) > (?1, ?2)
                         and (time, seq) < (?3, ?4) order by time, seq"
                    }
                };
                self.walk(sql, times, kinds.as_deref(), limit)?
            }
            Some(session) => {
                let sql = "select time, seq, kind from attempt where session = ?5 and time >= ?1
                           and (time, seq) > (?1, ?2) and (time, seq) < (?3, ?4) order by time, seq";
                let (a, b, c, d) = times;
                self.walk(sql, (a, b, c, d, session), kinds.as_deref(), limit)?
            }
        };
        let end = cursors.last().copied().filter(|_| cursors.len() == limit);
        Ok(Step { cursors, end })
    }

    fn fetch_seq(&self, reader: &mut Reader, seq: i64) -> Result<Found, Trouble> {
        let sql = "select time from attempt where seq = ?1";
        let time = self.connection.prepare_cached(sql)?.query_row([seq], |row| row.get(0))?;
        self.fetch(reader, Cursor { time, seq })
    }

    /// Reads what was found from the ledger itself.
    fn fetch(&self, reader: &mut Reader, cursor: Cursor) -> Result<Found, Trouble> {
        let sql = "select id, places from attempt where seq = ?1";
        let mut select = self.connection.prepare_cached(sql)?;
        let (id, packed): (Option<String>, Vec<u8>) =
            select.query_row([cursor.seq], |row| Ok((id_text(row.get_ref(0)?), row.get(1)?)))?;
        let places = Places::unpack(&packed).ok_or(Trouble::Stale)?;
        let (records, lines): (Vec<Record>, Vec<Vec<u8>>) =
            reader.read(&places)?.ok_or(Trouble::Stale)?.into_iter().unzip();
        let attempt = Attempt::of(&records).ok_or(Trouble::Stale)?;
        if attempt.attempt != id.unwrap_or_default() {
            return Err(Trouble::Stale);
        }
        Ok(Found { attempt, records, lines, cursor })
    }

    /// The kinds that the filter asks for; none where it asks for all of them.
    pub(crate) fn kinds(&self, filter: &Filter, view: View) -> rusqlite::Result<Option<Vec<Kind>>> {
        if filter.has_no_words() {
            return Ok(None);
        }
        let mut conditions = vec!["count > 0".to_owned()];
        if view == View::Attempts {
            conditions.push("status <> 0".to_owned());
        }
        let lists = [
            ("subject", &filter.callers),
            ("role", &filter.roles),
            ("tenant", &filter.tenants),
            ("code", &filter.codes),
            ("status", &filter.statuses),
            ("risk", &filter.risks),
        ];
        for (column, words) in lists.into_iter().filter(|(_, words)| !words.is_empty()) {
            let mut ids = Vec::new();
            for word in words {
                ids.extend(self.word(word)?);
            }
            conditions.push(is_in(column, &ids));
        }
        if !filter.tools.is_empty() {
            let sql = "select id, text from word where id in (select tool from kind)";
            let tools = self.rows(sql, [], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?;
            let ids: Vec<i64> = tools.into_iter().filter(|(_, name)| filter.has_tool(name)).map(|(id, _)| id).collect();
            conditions.push(is_in("tool", &ids));
        }
        if filter.events.0 != 0 {
            conditions.push(format!("events & {} <> 0", filter.events.0));
        }
        let sql = format!("select id, count, last from kind where {}", conditions.join(" and "));
        let mut statement = self.connection.prepare(&sql)?;
        let kind = |row: &Row<'_>| Ok(Kind { id: row.get(0)?, count: unsigned(row.get(1)?), last: row.get(2)? });
        statement.query_map([], kind)?.collect::<Result<_, _>>().map(Some)
    }

    fn word(&self, text: &str) -> rusqlite::Result<Option<i64>> {
        let mut select = self.connection.prepare_cached("select id from word where text = ?1")?;
        select.query_row([text], |row| row.get(0)).optional()
    }

    pub(crate) fn rows<T>(
        &self,
        sql: &str,
        parameters: impl Params,
        row: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
    ) -> rusqlite::Result<Vec<T>> {
        self.connection.prepare_cached(sql)?.query_map(parameters, row)?.collect()
    }
}

struct Step {
    cursors: Vec<Cursor>,
    end: Option<Cursor>,
}

fn is_in(column: &str, ids: &[i64]) -> String {
    let ids: Vec<String> = ids.iter().map(i64::to_string).collect();
    format!("{column} in ({})", ids.join(","))
}
