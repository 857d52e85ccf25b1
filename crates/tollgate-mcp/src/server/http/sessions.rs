//! The sessions of the handshake era: who opened them, what is known of their clients, and what is under way in them. A
//! session's name is no credential: it counts only together with the authenticated name of its opener.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tollgate_types::CancellationToken;

use crate::jsonrpc::{Id, RpcError};
use crate::server::Peer;
use crate::server::live::Asked;
use crate::server::news::News;

/// Sessions of one endpoint.
const SESSIONS_MAX: usize = 16 * 1024;
/// A session that nobody used for so long is gone.
const SESSION_IDLE: Duration = Duration::from_secs(30 * 60);
/// Requests of one session under way at once.
const IN_FLIGHT_MAX: usize = 64;
const ID_BYTES: usize = 16;

/// A name for a session that nobody can guess; none where the system gives no random numbers.
pub fn fresh_id() -> Option<String> {
    let mut id = [0_u8; ID_BYTES];
    getrandom::fill(&mut id).ok()?;
    Some(format!("{:032x}", u128::from_be_bytes(id)))
}

#[derive(Default)]
pub(super) struct Sessions {
    open: Mutex<HashMap<String, Live>>,
    /// The minute in which what is gone was looked for last: what it followed is followed no longer.
    swept: AtomicU64,
}

struct Live {
    owner: String,
    peer: Peer,
    used: Duration,
    under_way: Vec<(Id, CancellationToken)>,
    shared: Shared,
    /// The stream of what its client is told unasked.
    stream: Option<CancellationToken>,
}

/// What the requests of a session have in common.
#[derive(Clone, Default)]
pub(super) struct Shared {
    /// Our questions.
    pub(super) asked: Arc<Asked>,
    /// What its client is told unasked.
    pub(super) news: Arc<News>,
}

impl Live {
    fn is_gone(&self, now: Duration) -> bool {
        let is_heard = self.stream.as_ref().is_some_and(|stream| !stream.is_cancelled());
        !is_heard && self.under_way.is_empty() && now.saturating_sub(self.used) >= SESSION_IDLE
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.under_way.iter().map(|(_, token)| token).chain(&self.stream).for_each(CancellationToken::cancel);
    }
}

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Live>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count(&self) -> usize {
        self.lock().len()
    }

    /// A new session. Where there is no room, the owner's longest unused one makes it; others' sessions stay.
    pub(super) fn open(&self, owner: &str, peer: Peer, now: Duration) -> Result<String, RpcError> {
        let id = fresh_id().ok_or_else(|| RpcError::internal("the system gives no random numbers"))?;
        let mut sessions = self.lock();
        let minute = now.as_secs() / 60;
        if sessions.len() >= SESSIONS_MAX || self.swept.swap(minute, Ordering::Relaxed) != minute {
            sessions.retain(|_, live| !live.is_gone(now));
        }
        if sessions.len() >= SESSIONS_MAX {
            let own = sessions.iter().filter(|(_, live)| live.owner == owner && live.under_way.is_empty());
            let Some(oldest) = own.min_by_key(|(_, live)| live.used).map(|(id, _)| id.clone()) else {
                return Err(RpcError::too_many(format_args!("{SESSIONS_MAX} sessions are open")));
            };
            sessions.remove(&oldest);
        }
        let shared = Shared::default();
        let live = Live { owner: owner.to_owned(), peer, used: now, under_way: Vec::new(), shared, stream: None };
        sessions.insert(id.clone(), live);
        Ok(id)
    }

    /// Who speaks in the owner's session, which is used by this.
    pub(super) fn find(&self, id: &str, owner: &str, now: Duration) -> Option<Peer> {
        let mut sessions = self.lock();
        let live = sessions.get_mut(id).filter(|live| live.owner == owner)?;
        if live.is_gone(now) {
            sessions.remove(id);
            return None;
        }
        live.used = now;
        Some(live.peer)
    }

    /// What the requests of a session have in common.
    pub(super) fn shared(&self, id: &str) -> Option<Shared> {
        self.lock().get(id).map(|live| live.shared.clone())
    }

    /// Puts a stream in the place of the one that the session has.
    pub(super) fn hear(&self, id: &str, stream: &CancellationToken) -> Option<Shared> {
        let mut sessions = self.lock();
        let live = sessions.get_mut(id)?;
        if let Some(older) = live.stream.replace(stream.clone()) {
            older.cancel();
        }
        Some(live.shared.clone())
    }

    /// A session was used until now.
    pub(super) fn used(&self, id: &str, now: Duration) {
        if let Some(live) = self.lock().get_mut(id) {
            live.used = live.used.max(now);
        }
    }

    /// What is known of a session's client from now on.
    pub(super) fn learn(&self, id: &str, peer: Peer) {
        if let Some(live) = self.lock().get_mut(id) {
            live.peer = peer;
        }
    }

    /// Closes the owner's session and cancels what is under way in it. False when there is none.
    pub(super) fn close(&self, id: &str, owner: &str, now: Duration) -> bool {
        if self.find(id, owner, now).is_none() {
            return false;
        }
        self.lock().remove(id).is_some()
    }

    /// Takes the id of a request until the guard is dropped; where it cannot, the status and the error.
    pub(super) fn enter(
        self: &Arc<Self>,
        session: &str,
        id: &Id,
        token: &CancellationToken,
    ) -> Result<UnderWay, (u16, RpcError)> {
        let mut sessions = self.lock();
        let live = sessions.get_mut(session).ok_or_else(|| (404, RpcError::session_not_found()))?;
        if live.under_way.iter().any(|(taken, _)| taken == id) {
            return Err((400, RpcError::invalid_request("a request of this id is still under way")));
        }
        if live.under_way.len() >= IN_FLIGHT_MAX {
            let detail = format_args!("{IN_FLIGHT_MAX} requests of this session are under way");
            return Err((429, RpcError::too_many(detail)));
        }
        live.under_way.push((id.clone(), token.clone()));
        Ok(UnderWay { sessions: Arc::clone(self), session: session.to_owned(), id: id.clone() })
    }

    pub(super) fn cancel(&self, session: &str, id: &Id) {
        if let Some(live) = self.lock().get(session)
            && let Some((_, token)) = live.under_way.iter().find(|(running, _)| running == id)
        {
            token.cancel();
        }
    }
}

/// A request that is under way in a session.
pub(super) struct UnderWay {
    sessions: Arc<Sessions>,
    session: String,
    id: Id,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if let Some(live) = self.sessions.lock().get_mut(&self.session) {
            live.under_way.retain(|(id, _)| *id != self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use tollgate_types::ClientCapabilities;

    use super::*;
    use crate::server::Revision;

    fn peer(revision: Revision) -> Peer {
        Peer { revision, client: ClientCapabilities::default(), logs: None, knows_tasks: false }
    }

    #[test]
    fn a_session_is_its_openers_and_ends_with_disuse() {
        let sessions = Sessions::default();
        let minute = Duration::from_secs(60);
        let id = sessions.open("ann", peer(Revision::V2025_11_25), Duration::ZERO).unwrap();
        assert_eq!(sessions.find(&id, "bob", minute), None);
        assert_eq!(sessions.find(&id, "ann", minute), Some(peer(Revision::V2025_11_25)));
        assert_eq!(sessions.find(&id, "ann", 30 * minute), Some(peer(Revision::V2025_11_25)), "it was used in between");
        assert_eq!(sessions.find(&id, "ann", 60 * minute), None);
        assert_eq!(sessions.count(), 0);
    }

    #[test]
    fn an_id_is_free_again_once_its_request_has_ended() {
        let sessions = Arc::new(Sessions::default());
        let session = sessions.open("ann", peer(Revision::V2025_11_25), Duration::ZERO).unwrap();
        let token = CancellationToken::new();
        let enter =
            |id: usize| sessions.enter(&session, &Id::Text(id.to_string()), &token).map_err(|(status, _)| status);
        let mut under_way: Vec<_> = (0..IN_FLIGHT_MAX).map(|id| enter(id).unwrap()).collect();
        assert_eq!((enter(0).err(), enter(IN_FLIGHT_MAX).err()), (Some(400), Some(429)));
        under_way.remove(0);
        let again = enter(0).unwrap();
        assert!(sessions.close(&session, "ann", Duration::ZERO) && token.is_cancelled());
        drop(again);
        assert_eq!(enter(1).err(), Some(404));
    }

    #[test]
    fn a_full_house_makes_room_only_from_the_owners_own() {
        let sessions = Sessions::default();
        let first = sessions.open("ann", peer(Revision::V2025_06_18), Duration::ZERO).unwrap();
        for second in 1..SESSIONS_MAX {
            sessions.open("ann", peer(Revision::V2025_06_18), Duration::from_millis(second as u64)).unwrap();
        }
        let now = Duration::from_secs(SESSION_IDLE.as_secs() - 1);
        assert!(sessions.open("bob", peer(Revision::V2025_06_18), now).is_err());
        sessions.open("ann", peer(Revision::V2025_06_18), now).unwrap();
        assert_eq!((sessions.count(), sessions.find(&first, "ann", now)), (SESSIONS_MAX, None));
    }
}
