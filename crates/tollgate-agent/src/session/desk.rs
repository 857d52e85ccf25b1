//! Beginning sessions, finding them, going on with them, and copying them.

use std::sync::Arc;

use tollgate_catalog::nearest;
use tollgate_guard::redact::Redactor;
use tollgate_store::{SessionMeta, Store, StoreError};
use tollgate_types::{Caller, Clock, limits, uuid_v7};

use super::export::{self, ExportForm};
use super::show::{Listed, Shown};
use super::{Session, SessionError};

/// The sessions of one data folder.
#[derive(Clone)]
pub struct Sessions {
    pub(super) store: Store,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) redactor: Redactor,
}

/// What a new session is.
#[derive(Debug, Clone)]
pub struct Start {
    /// The name it answers to, beside its id.
    pub name: Option<String>,
    /// Who asks in it.
    pub caller: Caller,
    /// The model, as it is configured.
    pub model: String,
    /// What the model is told to be.
    pub system: Option<String>,
}

impl Sessions {
    /// The sessions of this store. `redactor` takes secrets out of all that is stored.
    pub fn new(store: Store, clock: Arc<dyn Clock>, redactor: Redactor) -> Self {
        Self { store, clock, redactor }
    }

    /// Begins a session and takes it for this process.
    ///
    /// # Errors
    /// When the name cannot be one or is given already, too many sessions have open calls, or the store fails.
    pub async fn begin(&self, start: Start) -> Result<Session, SessionError> {
        if let Some(name) = &start.name {
            check(name)?;
        }
        let now = self.clock.now();
        let id = uuid_v7(now);
        let lock = self.store.lock_session(&id)?;
        let meta = SessionMeta {
            id,
            name: start.name,
            caller: Caller { session: None, ..start.caller },
            model: start.model,
            system: start.system.map(|system| self.redactor.text(&system).into_owned()),
            created: now,
            updated: now,
            bytes: 0,
            forked_from: None,
        };
        self.store.add_session(meta.clone()).await?;
        Session::load(self, meta, Vec::new(), lock)
    }

    /// Takes a session for this process; `wanted` is its name, its id, or an unambiguous beginning or end of its id.
    ///
    /// # Errors
    /// When there is none, another process works in it, or the store fails.
    pub async fn resume(&self, wanted: &str) -> Result<Session, SessionError> {
        let id = self.find(wanted).await?.id;
        let lock = self.store.lock_session(&id).map_err(|error| match error {
            StoreError::Conflict(message) => SessionError::InUse(message),
            other => other.into(),
        })?;
        // Only what is read under the lock counts.
        let meta = self.store.session(&id).await?;
        let steps = self.store.steps(&id).await?;
        Session::load(self, meta, steps, lock)
    }

    /// The same for a session that may not be there yet.
    ///
    /// # Errors
    /// When the name cannot be one, and those of [`Sessions::resume`].
    pub async fn resume_named(&self, name: &str) -> Result<Option<Session>, SessionError> {
        if !is_uuid(name) {
            check(name)?;
            if !self.store.exists() || self.store.session_named(name).await?.is_none() {
                return Ok(None);
            }
        }
        self.resume(name).await.map(Some)
    }

    /// Every session, the one used last first.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn list(&self) -> Result<Vec<Listed>, SessionError> {
        if !self.store.exists() {
            return Ok(Vec::new());
        }
        Ok(self.store.sessions().await?.into_iter().map(Listed::from).collect())
    }

    /// One session with all its steps.
    ///
    /// # Errors
    /// When there is none, it does not read, or the store fails.
    pub async fn show(&self, wanted: &str) -> Result<Shown, SessionError> {
        let meta = self.find(wanted).await?;
        let steps = self.store.steps(&meta.id).await?;
        Shown::new(meta, steps)
    }

    /// One session as lines for other programs.
    ///
    /// # Errors
    /// When there is none, it does not read, or the store fails.
    pub async fn export(&self, wanted: &str, form: ExportForm) -> Result<Vec<String>, SessionError> {
        let meta = self.find(wanted).await?;
        let steps = self.store.steps(&meta.id).await?;
        export::lines(&meta, &steps, form)
    }

    /// Copies a session up to its turn number `turn`, from one; to the last one that is whole if unset.
    ///
    /// # Errors
    /// When there is no such session or turn, a call of the turn has no outcome, the name cannot be one, or the store fails.
    pub async fn fork(
        &self,
        wanted: &str,
        name: Option<String>,
        turn: Option<u32>,
    ) -> Result<SessionMeta, SessionError> {
        if let Some(name) = &name {
            check(name)?;
        }
        let from = self.find(wanted).await?;
        let now = self.clock.now();
        Ok(self.store.fork_session(&from.id, (uuid_v7(now), name), turn, now).await?)
    }

    /// Takes another model for a session from now on.
    ///
    /// # Errors
    /// When the store fails.
    pub async fn set_model(&self, session: &Session, model: &str) -> Result<(), SessionError> {
        Ok(self.store.set_session_model(&session.meta().id, model).await?)
    }

    async fn find(&self, wanted: &str) -> Result<SessionMeta, SessionError> {
        if !is_uuid(wanted) {
            check(wanted)?;
        }
        let why = match self.store.exists() {
            true => match self.store.session(wanted).await {
                Err(StoreError::NotFound(why)) => why,
                found => return Ok(found?),
            },
            false => format!("no session is named `{wanted}` or has this id"),
        };
        Err(SessionError::Unknown { why, near: self.near(wanted).await? })
    }

    /// What may have been meant: names like it, and ids that begin or end like it.
    async fn near(&self, wanted: &str) -> Result<Vec<String>, SessionError> {
        const CHARS: usize = 4;
        let listed = self.list().await?;
        let mut near = nearest(wanted, listed.iter().filter_map(|session| session.name.as_deref()));
        let beginning: String = wanted.chars().take(CHARS).collect();
        let ids = listed.iter().map(|session| &session.id).filter(|id| {
            let end = id.chars().skip(id.len() - CHARS).collect::<String>();
            wanted.len() >= CHARS && (id.starts_with(&beginning) || wanted.ends_with(&end))
        });
        near.extend(ids.cloned());
        near.truncate(limits::SUGGESTIONS_MAX);
        Ok(near)
    }
}

/// A name goes into commands and paths of people, so it is plain; it is no UUID, so that no id can be taken for it.
fn check(name: &str) -> Result<(), SessionError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let is_fit = name.chars().count() <= limits::SESSION_NAME_CHARS_MAX
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(is_plain)
        && !is_uuid(name);
    if is_fit { Ok(()) } else { Err(SessionError::BadName { given: name.chars().take(200).collect() }) }
}

/// Whether it has the form of RFC 9562 §4.
fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    lengths == [8, 4, 4, 4, 12] && groups.concat().bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_plain() {
        for name in ["a", "Inventory_2.1-x", "0198", &"x".repeat(64)] {
            assert!(check(name).is_ok(), "{name}");
        }
        let uuid = "0197c0de-0000-7000-8000-000000000001";
        for name in ["", ".", "..", "../x", "a/b", "-x", "a b", "库存", "a\n", "a%", &"x".repeat(65), uuid] {
            assert!(check(name).is_err(), "{name}");
        }
    }
}
