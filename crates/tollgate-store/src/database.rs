//! Opening the database, its tables, and the one way to use it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags, Transaction, TransactionBehavior};

use crate::line::Line;
use crate::{Keeping, StoreError};

/// The format that this program writes.
const VERSION: i64 = 7;

/// How long a statement waits for another process, and how long between two looks.
const BUSY_WAIT: Duration = Duration::from_secs(5);
const BUSY_PAUSE: Duration = Duration::from_millis(1);

const TABLES: &str = "
create table approvals (
    id text primary key, created integer not null, expires integer not null,
    subject text not null, role text not null, tenant text not null, surface text not null, session text,
    tool text not null, pin text not null, digest text not null, risk text not null, permission text not null,
    arguments text not null, preview text, reason text not null, attempt text not null, call_id text not null,
    status text not null, decided_by text, decided_at integer, decision_reason text,
    is_recorded integer not null default 0, consumed_at integer,
    typed text, approvers integer not null default 1, yes_by text not null default '[]'
) strict;
create index approvals_by_binding on approvals (subject, role, tenant, surface, pin, digest) where consumed_at is null;
create index approvals_open on approvals (status, created);
create table idempotency (
    subject text not null, tenant text not null, tool text not null, key text not null,
    digest text not null, attempt text not null, created integer not null, outcome text,
    expires integer not null default 0, primary key (subject, tenant, tool, key)
) strict;
create table results (
    handle text primary key, sha256 text not null, subject text not null, role text not null, tenant text not null,
    tool text not null, attempt text not null, created integer not null
) strict;
create index results_by_age on results (created);
create table keys (
    name text primary key, kind text not null, role text not null, hash text not null unique,
    created integer not null, revoked integer
) strict;
create table unsettled (
    attempt text primary key, call_id text not null, tool text not null, time text not null, caller text not null
) strict;
";

const GRANTS: &str = "
create table grants (
    id text primary key, tool text not null, pin text not null, subject text not null, role text not null,
    tenant text not null, surface text not null, session text not null, granted_by text not null,
    expires integer not null, left integer not null
) strict;
create index grants_by_session on grants (session, pin);
";

const SESSIONS: &str = "
create table sessions (
    id text primary key, name text unique, caller text not null, model text not null, system text,
    created integer not null, updated integer not null, bytes integer not null default 0, forked_from text
) strict;
create index sessions_by_use on sessions (updated);
create table session_steps (
    session text not null, seq integer not null, kind text not null, body text not null, primary key (session, seq)
) strict;
create table session_calls (
    session text not null, seq integer not null, position integer not null, key text, is_whole integer not null,
    approval text, outcome text, primary key (session, seq, position)
) strict;
create index session_calls_open on session_calls (session, key) where outcome is null;
create index session_calls_by_key on session_calls (key) where outcome is null and key is not null;
";

const MESSAGES: &str = "
create table deliveries (
    approval text primary key, tries integer not null, due integer, delivered integer, fault text
) strict;
create table messages (id text primary key, came integer not null) strict;
create index messages_by_age on messages (came);
";

const SPENDING: &str = "
create table spending (
    budget text not null, holder text not null, day text not null, spent integer not null, used integer not null,
    primary key (budget, holder, day)
) strict;
create table spending_held (
    attempt text not null, budget text not null, holder text not null, day text not null, cost integer not null,
    primary key (attempt, budget, holder, day)
) strict;
";

/// Questions for a result, beside those for a yes.
const INTERVENTIONS: &str = "
alter table approvals add column kind text not null default 'approval';
alter table approvals add column tried text;
alter table approvals add column expects text;
alter table approvals add column result text;
";

const UNDOS: &str = "
create table undos (
    attempt text primary key, tool text not null, arguments text, fault text, created integer not null, undone_by text,
    path text, before text, mode integer, bytes integer not null default 0, after text
) strict;
create index undos_by_age on undos (created, bytes);
create index undos_by_file on undos (before) where before is not null;
create index undos_by_undo on undos (undone_by) where undone_by is not null;
";

/// No format of their own: a program that does not know them reads and writes the same tables.
const INDEXES: &str = "
create index if not exists approvals_by_end on approvals (expires);
create index if not exists approvals_standing_by_end on approvals (expires)
    where consumed_at is null and status <> 'expired';
create index if not exists approvals_standing_by_beginning on approvals (created)
    where consumed_at is null and status <> 'expired';
create index if not exists idempotency_by_attempt on idempotency (attempt);
create index if not exists idempotency_by_end on idempotency (expires) where outcome is not null;
create index if not exists results_by_content on results (sha256);
create index if not exists results_by_caller on results (subject, role, tenant, created);
create table if not exists stand_ins (
    attempt text primary key, other text not null, tool text not null, created integer not null
) strict;
create index if not exists stand_ins_by_age on stand_ins (created);
create table if not exists tasks (
    id text primary key, subject text not null, role text not null, tenant text not null, boot text not null,
    created integer not null, expires integer not null, attempt text, ended integer, body text, bytes integer not null
) strict;
create index if not exists tasks_by_caller on tasks (subject, role, tenant, bytes);
create index if not exists tasks_by_end on tasks (expires);
create index if not exists tasks_by_attempt on tasks (attempt) where attempt is not null;
create table if not exists contents (sha256 text primary key, bytes integer not null, blocks blob not null) strict;
";

/// From each older format to the next one.
const MIGRATIONS: [(i64, &str); 8] = [
    (
        1,
        "alter table approvals add column typed text;
         alter table approvals add column approvers integer not null default 1;
         alter table approvals add column yes_by text not null default '[]';",
    ),
    (1, GRANTS),
    (2, SESSIONS),
    (3, SPENDING),
    (4, MESSAGES),
    // Every key had a day.
    (
        5,
        "alter table idempotency add column expires integer not null default 0;
         update idempotency set expires = created + 86400000000;",
    ),
    (6, UNDOS),
    (6, INTERVENTIONS),
];

/// The state of one data folder. Cheap to make: the database is opened at its first use.
#[derive(Clone)]
pub struct Store {
    folder: Arc<PathBuf>,
    opened: Arc<Mutex<Option<Opened>>>,
    pub(crate) keeping: Keeping,
    /// Whether this process has looked for results that nothing refers to.
    pub(crate) has_swept: Arc<AtomicBool>,
}

impl Store {
    /// The store of `data_dir`. Nothing is opened yet.
    pub fn new(data_dir: &Path) -> Self {
        Self {
            folder: Arc::new(data_dir.to_owned()),
            opened: Arc::default(),
            keeping: Keeping::default(),
            has_swept: Arc::default(),
        }
    }

    /// The same, which keeps whole results so.
    #[must_use]
    pub fn keeping(mut self, keeping: Keeping) -> Self {
        self.keeping = keeping;
        self
    }

    /// The data folder.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Looks into the database, away from the async threads.
    pub(crate) async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.away(move |store| store.blocking(work)).await
    }

    /// Changes the database in one transaction, away from the async threads. An error changes nothing.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.away(move |store| store.write_blocking(work)).await
    }

    async fn away<T: Send + 'static>(
        &self,
        work: impl FnOnce(Self) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let store = self.clone();
        tokio::task::spawn_blocking(move || work(store))
            .await
            .unwrap_or_else(|panic| Err(StoreError::Corrupt(format!("the store's task ended early: {panic}"))))
    }

    pub(crate) fn blocking<T>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.opened(|opened| work(&mut opened.connection))
    }

    pub(crate) fn write_blocking<T>(
        &self,
        work: impl FnOnce(&Transaction<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.opened(|Opened { connection, line }| {
            let transaction = line.next(|| connection.transaction_with_behavior(TransactionBehavior::Immediate))?;
            let done = work(&transaction)?;
            transaction.commit()?;
            Ok(done)
        })
    }

    fn opened<T>(&self, work: impl FnOnce(&mut Opened) -> Result<T, StoreError>) -> Result<T, StoreError> {
        let mut slot = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = match slot.as_mut() {
            Some(opened) => opened,
            None => slot.insert(open(&self.folder)?),
        };
        work(opened)
    }

    /// Whether a database file exists, so that a look does not create one.
    pub fn exists(&self) -> bool {
        self.folder.join("store.db").exists()
    }
}

/// The database, and the line of those who want to write into it.
struct Opened {
    connection: Connection,
    line: Line,
}

fn open(folder: &Path) -> Result<Opened, StoreError> {
    fs::create_dir_all(folder).map_err(|source| StoreError::io(folder, source))?;
    let path = folder.join("store.db");
    if !path.exists() {
        crate::key::create_private(&path, &[]).map_err(|source| StoreError::io(&path, source))?;
    }
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection =
        Connection::open_with_flags(&path, flags).map_err(|source| StoreError::Open { path: path.clone(), source })?;
    let line = Line::open(&folder.join("store.lock"));
    prepare(&mut connection, &line).map_err(|error| match error {
        StoreError::Sql(source) => StoreError::Open { path, source },
        other => other,
    })?;
    Ok(Opened { connection, line })
}

/// Waits more evenly than SQLite does by itself: a tenth of a second between two looks is long where a write takes a few
/// milliseconds.
fn wait(looks: i32) -> bool {
    std::thread::sleep(BUSY_PAUSE);
    BUSY_PAUSE.saturating_mul(looks.unsigned_abs()) < BUSY_WAIT
}

fn prepare(connection: &mut Connection, line: &Line) -> Result<(), StoreError> {
    connection.busy_handler(Some(wait))?;
    enter_wal(connection)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    if connection.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0))? == VERSION {
        // Takes no lock for what is there: whoever starts beside a busy process need not wait for it.
        return Ok(connection.execute_batch(INDEXES)?);
    }
    let transaction = line.next(|| connection.transaction_with_behavior(TransactionBehavior::Immediate))?;
    let found: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if found > VERSION {
        return Err(StoreError::TooNew { found, known: VERSION });
    }
    if found == 0 {
        transaction.execute_batch(TABLES)?;
        transaction.execute_batch(GRANTS)?;
        transaction.execute_batch(SESSIONS)?;
        transaction.execute_batch(SPENDING)?;
        transaction.execute_batch(MESSAGES)?;
        transaction.execute_batch(UNDOS)?;
        transaction.execute_batch(INTERVENTIONS)?;
    }
    for (_, migration) in MIGRATIONS.iter().filter(|(from, _)| (1..=*from).contains(&found)) {
        transaction.execute_batch(migration)?;
    }
    if found < VERSION {
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    transaction.execute_batch(INDEXES)?;
    transaction.commit()?;
    Ok(())
}

/// Changing the journal mode does not honour the busy timeout, so that processes starting together try again.
fn enter_wal(connection: &Connection) -> Result<(), StoreError> {
    const TRIES: u32 = 100;
    const PAUSE: Duration = Duration::from_millis(20);
    let mut tries = 0;
    loop {
        match connection.pragma_update(None, "journal_mode", "WAL") {
            Ok(()) => return Ok(()),
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && tries < TRIES => {
                tries += 1;
                std::thread::sleep(PAUSE);
            }
            Err(error) => return Err(error.into()),
        }
    }
}
