//! The transport of 2024-11-05: `/sse` or `/sse/{set}` is the stream of what the client is told and names where it speaks, `/messages`. A
//! stream's name is no credential: it counts only together with the key that opened it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use url::form_urlencoded;

use super::talk::Talk;
use crate::app::App;
use crate::entrance::Holder;
use crate::limits::STREAM_QUEUE_MAX;
use crate::problem::Problem;
use crate::{body, sse};

const SESSION: &str = "sessionId";

pub(crate) async fn open(
    State(app): State<Arc<App>>,
    Extension(holder): Extension<Holder>,
    set: Option<Path<String>>,
    uri: Uri,
) -> Result<Response, Problem> {
    if uri.query().is_some() {
        // Elsewhere a query chose what was to be started.
        return Err(Problem::bad_request("`/sse` takes no parameters").with_hint("ask for `/sse` alone"));
    }
    let Talk { session, to, from } = Talk::begin(&app, &holder, set)?;
    let first = format!("event: endpoint\ndata: /messages?{SESSION}={session}\n\n");
    let open = app.streams.open(session, holder.name(), to);
    Ok(sse::response_after(vec![first.into()], from, open))
}

pub(crate) async fn post(
    State(app): State<Arc<App>>,
    Extension(holder): Extension<Holder>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let session = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes())
        .find(|(name, _)| name == SESSION)
        .ok_or_else(|| Problem::bad_request(format!("the address has no `{SESSION}`")).with_hint(OPEN_FIRST))?
        .1;
    let gone = || Problem::not_found("no such stream is open").with_hint(OPEN_FIRST);
    let to = app.streams.find(&session, holder.name()).ok_or_else(gone)?;
    match to.try_send(body::json(&headers, body).await?) {
        Ok(()) => Ok(StatusCode::ACCEPTED.into_response()),
        Err(TrySendError::Full(_)) => {
            Err(Problem::too_many(format!("{STREAM_QUEUE_MAX} messages of this stream wait")))
        }
        Err(TrySendError::Closed(_)) => Err(gone()),
    }
}

const OPEN_FIRST: &str = "open `/sse` first, and use the address that its first event names";

/// The open streams.
#[derive(Default)]
pub(crate) struct Streams(Mutex<HashMap<String, Stream>>);

struct Stream {
    owner: String,
    to: mpsc::Sender<Vec<u8>>,
}

impl Streams {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, Stream>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a stream open until the guard is dropped.
    fn open(self: &Arc<Self>, session: String, owner: &str, to: mpsc::Sender<Vec<u8>>) -> Open {
        self.lock().insert(session.clone(), Stream { owner: owner.to_owned(), to });
        Open { streams: Arc::clone(self), session }
    }

    /// Where the owner of a stream speaks.
    fn find(&self, session: &str, owner: &str) -> Option<mpsc::Sender<Vec<u8>>> {
        self.lock().get(session).filter(|stream| stream.owner == owner).map(|stream| stream.to.clone())
    }
}

/// A stream that is open.
struct Open {
    streams: Arc<Streams>,
    session: String,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.streams.lock().remove(&self.session);
    }
}
