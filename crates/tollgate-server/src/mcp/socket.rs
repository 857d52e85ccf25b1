//! `/mcp/ws` and `/mcp/{set}/ws`: the conversation of stdio over a WebSocket, one message of the protocol in one text message. The specification
//! does not know it; SDKs do, and name the subprotocol `mcp`.

use std::sync::Arc;

use axum::Extension;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::extract::{Path, State};
use axum::response::Response;
use futures_util::{Sink, SinkExt, Stream, StreamExt};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tollgate::limits::FRAME_BYTES_MAX;

use super::talk::Talk;
use crate::app::App;
use crate::entrance::Holder;
use crate::limits::{KEEP_ALIVE, SOCKET_BUFFER_BYTES, UNREAD_TIMEOUT};
use crate::problem::Problem;

const SUBPROTOCOL: &str = "mcp";
/// What is read of a message, so that one that is too long is still answered under its id.
const MESSAGE_BYTES_MAX: usize = 2 * FRAME_BYTES_MAX;

/// Why a connection is closed: the code, and words for it (RFC 6455 §7.4).
type Goodbye = (u16, &'static str);

pub(crate) async fn open(
    State(app): State<Arc<App>>,
    Extension(holder): Extension<Holder>,
    set: Option<Path<String>>,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Result<Response, Problem> {
    let upgrade = upgrade.map_err(|rejection| {
        Problem::bad_request(format!("this opens no WebSocket: {}", rejection.body_text()))
            .with_hint("connect to ws://…/mcp/ws; over plain HTTP the endpoint is /mcp")
    })?;
    let talk = Talk::begin(&app, &holder, set)?;
    let tasks = app.tasks.clone();
    Ok(upgrade
        .protocols([SUBPROTOCOL])
        .read_buffer_size(SOCKET_BUFFER_BYTES)
        .write_buffer_size(0)
        .max_message_size(MESSAGE_BYTES_MAX)
        .max_frame_size(MESSAGE_BYTES_MAX)
        .on_upgrade(move |socket| tasks.track_future(carry(socket, talk))))
}

/// Carries messages both ways until either side ends.
async fn carry(socket: WebSocket, talk: Talk) {
    let (mut sink, stream) = socket.split();
    let goodbye = tokio::select! {
        goodbye = read(stream, talk.to) => goodbye,
        goodbye = write(&mut sink, talk.from) => goodbye,
    };
    if let Some((code, reason)) = goodbye {
        let close = Message::Close(Some(CloseFrame { code, reason: reason.into() }));
        let _ = timeout(UNREAD_TIMEOUT, sink.send(close)).await;
    }
}

/// What the client says, as fast as it is taken. Ends with the client's part of the connection.
async fn read(
    mut stream: impl Stream<Item = Result<Message, axum::Error>> + Unpin,
    to: mpsc::Sender<Vec<u8>>,
) -> Option<Goodbye> {
    loop {
        let Ok(place) = to.reserve().await else {
            // The conversation is over; the last answers may still be on their way.
            return std::future::pending().await;
        };
        match stream.next().await? {
            Ok(Message::Text(text)) => place.send(text.as_bytes().to_vec()),
            Ok(Message::Binary(_)) => return Some((close_code::UNSUPPORTED, "a message is one JSON text")),
            Ok(Message::Ping(_) | Message::Pong(_)) => {}
            Ok(Message::Close(_)) => return None,
            Err(error) => {
                tracing::debug!(%error, "a WebSocket broke off");
                return Some((close_code::POLICY, "not a WebSocket message, or one that is too long"));
            }
        }
    }
}

/// What the client is told. Ends with the conversation, or when the client does not read.
async fn write(
    sink: &mut (impl Sink<Message, Error = axum::Error> + Unpin),
    mut from: mpsc::Receiver<Vec<u8>>,
) -> Option<Goodbye> {
    loop {
        let message = match timeout(KEEP_ALIVE, from.recv()).await {
            // What we write is JSON, which is UTF-8.
            Ok(Some(text)) => Message::Text(String::from_utf8(text).unwrap_or_default().into()),
            Ok(None) => return Some((close_code::AWAY, "the server ends the conversation")),
            Err(_) => Message::Ping(axum::body::Bytes::new()),
        };
        timeout(UNREAD_TIMEOUT, sink.send(message)).await.ok()?.ok()?;
    }
}
