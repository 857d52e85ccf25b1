//! `/mcp` and `/mcp/{set}`: the endpoint's words as HTTP. Every request runs on a task of the server's, so that in the handshake era a
//! broken connection does not end it; in the stateless era the response's end does.

pub(crate) mod socket;
pub(crate) mod stream;
mod talk;

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tollgate::mcp::Answer;
use tollgate::mcp::http::Endpoint;
use tollgate::mcp::http::{Reply, Run, SESSION_ID};
use tollgate::{Caller, Door, Surface};

use crate::app::{App, Set};
use crate::entrance::Holder;
use crate::limits::{KEEP_ALIVE, STREAM_QUEUE_MAX, UNREAD_TIMEOUT};
use crate::problem::Problem;
use crate::{body, sse};

pub(crate) async fn post(
    State(app): State<Arc<App>>,
    Extension(holder): Extension<Holder>,
    set: Option<Path<String>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Problem> {
    let (door, endpoint) = reached(&app, set)?;
    let body = body::json(&headers, body).await?;
    match endpoint.post(&headers, &body, holder.name(), app.clock.monotonic()) {
        Reply::Run(run) if run.is_listening() => listen(&app, door, &holder, run),
        Reply::Run(run) => answer(&app, door, &holder, run).await,
        reply => Ok(plain(reply)),
    }
}

/// The stream of what a session's client is told unasked.
pub(crate) async fn get(
    State(app): State<Arc<App>>,
    Extension(holder): Extension<Holder>,
    set: Option<Path<String>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (door, endpoint) = reached(&app, set)?;
    let hearing = match endpoint.get(&headers, holder.name(), app.clock.monotonic()) {
        Reply::Hear(hearing) => hearing,
        reply => return Ok(plain(reply)),
    };
    let place = app.conversation()?;
    let caller = Arc::new(holder.caller(Surface::McpHttp).with_session(&*hearing.session));
    let (door, clock, stop) = (Arc::clone(door), Arc::clone(&app.clock), app.stop.clone());
    let (out, texts) = mpsc::channel(STREAM_QUEUE_MAX);
    app.tasks.spawn(async move {
        let _place = place;
        tokio::select! {
            () = hearing.tell(door, caller, &out, &*clock) => {}
            () = stop.cancelled() => {}
        }
    });
    Ok(sse::response(texts, ()))
}

/// The stream of what the client of the stateless era asked to be told.
fn listen(app: &Arc<App>, door: &Arc<dyn Door>, holder: &Holder, run: Run) -> Result<Response, Problem> {
    let place = app.conversation()?;
    let (door, caller) = (Arc::clone(door), Arc::new(holder.caller(Surface::McpHttp)));
    let ends_with_response = run.cancellation.clone().drop_guard();
    let (out, texts) = mpsc::channel(STREAM_QUEUE_MAX);
    let (stop, cut) = (app.stop.clone(), app.cut.clone());
    app.tasks.spawn(async move {
        let _place = place;
        let ended = tokio::select! {
            ended = run.listen(door, caller, &out, stop) => ended,
            () = cut.cancelled() => None,
        };
        if let Some(Answer { text, .. }) = ended {
            let _ = timeout(UNREAD_TIMEOUT, out.send(text)).await;
        }
    });
    Ok(sse::response(texts, ends_with_response))
}

pub(crate) async fn delete(
    State(app): State<Arc<App>>,
    Extension(holder): Extension<Holder>,
    set: Option<Path<String>>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let (_, endpoint) = reached(&app, set)?;
    let reply = endpoint.delete(&headers, holder.name(), app.clock.monotonic());
    if matches!(reply, Reply::Empty(204)) {
        let session = headers.get(SESSION_ID).and_then(|id| id.to_str().ok());
        let caller = holder.caller(Surface::McpHttp);
        app.gate.forget_session(&Caller { session: session.map(str::to_owned), ..caller });
    }
    Ok(plain(reply))
}

/// What is behind a path.
fn reached(app: &App, set: Option<Path<String>>) -> Result<(&Arc<dyn Door>, &Endpoint), Problem> {
    let set = set.map(|name| found(app, name)).transpose()?;
    Ok(set.map_or((&app.door, &app.endpoint), |set| (&set.door, &set.endpoint)))
}

fn found(app: &App, Path(name): Path<String>) -> Result<&Set, Problem> {
    app.sets.get(&name).ok_or_else(|| Problem::not_found("no set has this name").with_hint("docs/sets.md"))
}

async fn answer(app: &Arc<App>, door: &Arc<dyn Door>, holder: &Holder, run: Run) -> Result<Response, Problem> {
    let place = app.place()?;
    let mut caller = holder.caller(Surface::McpHttp);
    caller.session.clone_from(&run.session);
    let (door, caller) = (Arc::clone(door), Arc::new(caller));
    let (is_streamed, can_stream, cancellation) = (run.is_streamed, run.can_stream, run.cancellation.clone());
    let ends_with_response = run.ends_with_response.then(|| cancellation.clone().drop_guard());
    let (out, mut texts) = mpsc::channel(STREAM_QUEUE_MAX);
    let (ended, mut end) = oneshot::channel();
    let cut = app.cut.clone();
    app.tasks.spawn(async move {
        let _place = place;
        let answered = tokio::select! {
            answered = run.answer(door, caller, out.clone()) => answered,
            () = cut.cancelled() => None,
        };
        if let Some(Answer { text, status }) = answered {
            // Without a reader there is nobody to tell, and who does not read is not waited for.
            let _ = ended.send(status);
            let _ = timeout(UNREAD_TIMEOUT, out.send(text)).await;
        }
    });
    if is_streamed {
        return Ok(sse::response(texts, ends_with_response));
    }
    let Ok(first) = timeout(if can_stream { KEEP_ALIVE } else { Duration::MAX }, texts.recv()).await else {
        return Ok(sse::response(texts, ends_with_response));
    };
    // A cancelled request is not answered (MCP, Cancellation), but a POST must be.
    let Some(first) = first else { return Ok(StatusCode::ACCEPTED.into_response()) };
    let Ok(status) = end.try_recv() else {
        return Ok(sse::response_after(vec![sse::event(&first)], texts, ends_with_response));
    };
    // The answer is at hand; what came before it is not the answer.
    if let Some(second) = texts.recv().await {
        return Ok(sse::response_after(vec![sse::event(&first), sse::event(&second)], texts, ends_with_response));
    }
    Ok(json(StatusCode::from_u16(status).unwrap_or(StatusCode::OK), first))
}

fn plain(reply: Reply) -> Response {
    match reply {
        Reply::Json { status, body, session } => {
            let mut response = json(StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), body);
            if let Some(session) = session.and_then(|session| HeaderValue::try_from(session).ok()) {
                response.headers_mut().insert(HeaderName::from_static(SESSION_ID), session);
            }
            response
        }
        Reply::Empty(405) => (StatusCode::METHOD_NOT_ALLOWED, [(axum::http::header::ALLOW, "POST")]).into_response(),
        Reply::Empty(status) => StatusCode::from_u16(status).unwrap_or(StatusCode::ACCEPTED).into_response(),
        // INVARIANT: the one caller that can have it has taken it.
        Reply::Run(_) | Reply::Hear(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

fn json(status: StatusCode, body: Vec<u8>) -> Response {
    (status, [(CONTENT_TYPE, "application/json")], body).into_response()
}
