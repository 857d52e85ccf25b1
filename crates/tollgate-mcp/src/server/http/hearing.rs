//! The stream that a GET opens: what the client of a session is told unasked (MCP 2025-11-25, Transports: listening for
//! messages from the server). What happens while none is open is told on the next.

use std::sync::Arc;

use tokio::sync::mpsc;
use tollgate_types::{Caller, CancellationToken, Clock, Door};

use super::sessions::{Sessions, Shared};
use crate::server::news::List;

/// A stream that is open.
pub struct Hearing {
    /// The session that it belongs to.
    pub session: String,
    sessions: Arc<Sessions>,
    shared: Shared,
    cancellation: CancellationToken,
}

impl Hearing {
    /// Opens the session's stream; an older one ends.
    pub(super) fn open(sessions: &Arc<Sessions>, session: String) -> Option<Self> {
        let cancellation = CancellationToken::new();
        let shared = sessions.hear(&session, &cancellation)?;
        Some(Self { session, sessions: Arc::clone(sessions), shared, cancellation })
    }

    /// Tells to `out`, each a JSON text on one line, until the session ends or another stream takes its place. Dropping the
    /// future ends it too.
    pub async fn tell(self, door: Arc<dyn Door>, caller: Arc<Caller>, out: &mpsc::Sender<Vec<u8>>, clock: &dyn Clock) {
        let telling = async {
            match self.shared.news.begin(&door, &caller) {
                Some(follower) => follower.tell(&List::ALL, None, &out.downgrade()).await,
                None => out.closed().await,
            }
        };
        tokio::select! {
            () = telling => {}
            () = out.closed() => {}
            () = self.cancellation.cancelled() => {}
        }
        // It was used for as long as its stream was.
        self.sessions.used(&self.session, clock.monotonic());
    }
}

impl Drop for Hearing {
    fn drop(&mut self) {
        self.cancellation.cancel();
    }
}
