//! Conversations over transports that carry whole messages both ways: a WebSocket, or the event stream and POSTs of
//! 2024-11-05. They are spoken as over stdio; only how messages come and go is the server's.

use std::sync::Arc;

use tokio::sync::mpsc;
use tollgate_types::{Caller, CancellationToken, Door};

use super::Endpoint;
use super::sessions::Shared;
use crate::stdio;

impl Endpoint {
    /// Holds one conversation: takes messages from `input` until it ends or `stop` (what is under way then gets five
    /// seconds), and gives answers to `out`, one JSON text each. Whoever drops the other end of `out` cancels what is
    /// under way. `caller` should have a session of its own.
    pub async fn converse(
        &self,
        door: Arc<dyn Door>,
        caller: Caller,
        input: mpsc::Receiver<Vec<u8>>,
        out: mpsc::Sender<Vec<u8>>,
        stop: CancellationToken,
    ) {
        stdio::serve_messages(self.conversation(None, Shared::default()), door, caller, input, out, stop).await;
    }
}
