//! One conversation with a client that keeps a connection for it. It runs on a task of the server's, which the connection's
//! end or the server's ends.

use std::sync::Arc;

use axum::extract::Path;
use tokio::sync::mpsc;
use tollgate::Surface;
use tollgate::mcp::http::fresh_id;

use crate::app::App;
use crate::entrance::Holder;
use crate::limits::STREAM_QUEUE_MAX;
use crate::problem::Problem;

/// The connection's ends of a conversation.
pub(super) struct Talk {
    /// Its name, which nobody can guess.
    pub(super) session: String,
    /// What the client says. Dropping it lets what is under way come to its end.
    pub(super) to: mpsc::Sender<Vec<u8>>,
    /// What the client is told. Dropping it cancels what is under way.
    pub(super) from: mpsc::Receiver<Vec<u8>>,
}

impl Talk {
    /// Begins one with whoever was let in, with the whole house or with a set of it.
    pub(super) fn begin(app: &Arc<App>, holder: &Holder, set: Option<Path<String>>) -> Result<Self, Problem> {
        let set = set.map(|name| super::found(app, name)).transpose()?;
        let (door, endpoint) = set.map_or((&app.patient_door, &app.endpoint), |set| (&set.patient_door, &set.endpoint));
        let place = app.conversation()?;
        let session = fresh_id().ok_or_else(|| Problem::unavailable("the system gives no random numbers"))?;
        let caller = holder.caller(Surface::McpHttp).with_session(&*session);
        let (to, input) = mpsc::channel(STREAM_QUEUE_MAX);
        let (out, from) = mpsc::channel(STREAM_QUEUE_MAX);
        let (endpoint, door) = (endpoint.clone(), Arc::clone(door));
        let (stop, cut) = (app.stop.clone(), app.cut.clone());
        app.tasks.spawn(async move {
            let _place = place;
            tokio::select! {
                () = endpoint.converse(door, caller, input, out, stop) => {}
                () = cut.cancelled() => {}
            }
        });
        Ok(Self { session, to, from })
    }
}
