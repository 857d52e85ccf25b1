//! Streams of server-sent events (WHATWG HTML, Server-sent events).

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::limits::KEEP_ALIVE;

/// Each text, which is on one line, as one event, until nobody can send any more. `held` lives as long as the stream.
pub(crate) fn response(texts: mpsc::Receiver<Vec<u8>>, held: impl Send + 'static) -> Response {
    response_after(Vec::new(), texts, held)
}

/// The same after some pieces of the stream.
pub(crate) fn response_after(
    before: Vec<Bytes>,
    texts: mpsc::Receiver<Vec<u8>>,
    held: impl Send + 'static,
) -> Response {
    let before = before.into_iter().map(Ok::<_, std::convert::Infallible>);
    let events = stream::unfold((texts, held), |(mut texts, held)| async move {
        let event = match timeout(KEEP_ALIVE, texts.recv()).await {
            Ok(Some(text)) => event(&text),
            Ok(None) => return None,
            Err(_) => Bytes::from_static(b":\n\n"),
        };
        Some((Ok(event), (texts, held)))
    });
    let headers = [
        (CONTENT_TYPE, "text/event-stream"),
        (CACHE_CONTROL, "no-store"),
        // A proxy must not wait for more (MCP 2026-07-28, Streamable HTTP: receiving messages).
        (axum::http::HeaderName::from_static("x-accel-buffering"), "no"),
    ];
    (headers, Body::from_stream(stream::iter(before).chain(events))).into_response()
}

/// One text, which is on one line, as an event.
pub(crate) fn event(text: &[u8]) -> Bytes {
    let mut event = Vec::with_capacity(text.len() + 24);
    event.extend_from_slice(b"event: message\ndata: ");
    event.extend_from_slice(text);
    event.extend_from_slice(b"\n\n");
    event.into()
}
