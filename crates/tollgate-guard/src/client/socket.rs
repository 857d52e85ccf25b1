//! WebSockets (RFC 6455) to configured origins: opened by a request like any other, and then messages of text both ways.

use std::time::Duration;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use reqwest::Upgraded;
use tokio::time::timeout;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::{Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::{Client, ClientError, Request, Response};

/// What is read at once.
const READ_BYTES: usize = 16 * 1024;

/// What came of opening one.
#[derive(Debug)]
pub enum Opened {
    /// It is open.
    Socket(WebSocket),
    /// The server answered something else.
    Refused(Response),
}

/// An open WebSocket.
#[derive(Debug)]
pub struct WebSocket {
    stream: WebSocketStream<Upgraded>,
    origin: String,
    message_bytes_max: usize,
}

/// The end that speaks. Dropping both ends closes the connection.
#[derive(Debug)]
pub struct Speaker {
    sink: SplitSink<WebSocketStream<Upgraded>, Message>,
    origin: String,
}

/// The end that listens.
#[derive(Debug)]
pub struct Listener {
    stream: SplitStream<WebSocketStream<Upgraded>>,
    origin: String,
    message_bytes_max: usize,
}

impl Client {
    /// Opens a WebSocket by a `GET`, whose address begins with `http` or `https`
    /// ([`socket_address`](super::socket_address)). Messages from the server may have `message_bytes_max`.
    ///
    /// # Errors
    /// As [`send`](Client::send), and when what answers speaks no WebSocket.
    pub async fn open_socket(
        &self,
        mut request: Request,
        subprotocol: &str,
        message_bytes_max: usize,
    ) -> Result<Opened, ClientError> {
        let (key, wait) = (generate_key(), request.timeout);
        let asked = [
            ("Connection", "Upgrade"),
            ("Upgrade", "websocket"),
            ("Sec-WebSocket-Version", "13"),
            ("Sec-WebSocket-Key", &key),
            ("Sec-WebSocket-Protocol", subprotocol),
        ];
        request.headers.extend(asked.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let http = |client: &Self, origin: &str| {
            client.kept(&client.shared.sockets, origin, |builder| builder.http1_only().pool_max_idle_per_host(0))
        };
        let response = self.send_by(request, http).await?;
        if response.status != 101 {
            return Ok(Opened::Refused(response));
        }
        let origin = response.origin.clone();
        let broken = |reason: &str| ClientError::Closed { origin: origin.clone(), reason: reason.to_owned() };
        if response.header("sec-websocket-accept") != Some(&*derive_accept_key(key.as_bytes())) {
            return Err(broken("it answered the opening of another WebSocket"));
        }
        let upgraded = match timeout(wait, response.inner.upgrade()).await {
            Ok(upgraded) => upgraded.map_err(|error| ClientError::from_http(origin.clone(), &error))?,
            Err(_elapsed) => return Err(ClientError::timed_out(origin, wait)),
        };
        let config = WebSocketConfig::default()
            .read_buffer_size(READ_BYTES)
            .write_buffer_size(0)
            .max_message_size(Some(message_bytes_max))
            .max_frame_size(Some(message_bytes_max));
        let stream = WebSocketStream::from_raw_socket(upgraded, Role::Client, Some(config)).await;
        Ok(Opened::Socket(WebSocket { stream, origin, message_bytes_max }))
    }
}

impl WebSocket {
    /// Its two ends.
    pub fn split(self) -> (Speaker, Listener) {
        let Self { stream, origin, message_bytes_max } = self;
        let (sink, stream) = stream.split();
        (Speaker { sink, origin: origin.clone() }, Listener { stream, origin, message_bytes_max })
    }
}

impl Speaker {
    /// Says one message.
    ///
    /// # Errors
    /// When the connection broke, or nobody reads for `wait`.
    pub async fn say(&mut self, text: String, wait: Duration) -> Result<(), ClientError> {
        self.send(Message::text(text), wait).await
    }

    /// Asks for a sign of life, which the server gives by itself.
    ///
    /// # Errors
    /// As [`say`](Self::say).
    pub async fn ping(&mut self, wait: Duration) -> Result<(), ClientError> {
        self.send(Message::Ping(Vec::new().into()), wait).await
    }

    /// Says goodbye; the server may not care.
    pub async fn close(&mut self, wait: Duration) {
        let _ = self.send(Message::Close(None), wait).await;
    }

    async fn send(&mut self, message: Message, wait: Duration) -> Result<(), ClientError> {
        match timeout(wait, self.sink.send(message)).await {
            Ok(sent) => sent.map_err(|error| closed(&self.origin, &error)),
            Err(_elapsed) => Err(ClientError::timed_out(self.origin.clone(), wait)),
        }
    }
}

impl Listener {
    /// The next message, as text or as the bytes it came in; none after the server's goodbye. Dropped and asked again, it
    /// loses nothing.
    ///
    /// # Errors
    /// When the connection broke, or a message is too long.
    pub async fn hear(&mut self) -> Result<Option<Vec<u8>>, ClientError> {
        loop {
            match self.stream.next().await {
                Some(Ok(Message::Text(text))) => return Ok(Some(text.as_bytes().to_vec())),
                Some(Ok(Message::Binary(bytes))) => return Ok(Some(bytes.into())),
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Close(_))) | None => return Ok(None),
                Some(Err(Error::ConnectionClosed | Error::AlreadyClosed)) => return Ok(None),
                Some(Err(Error::Capacity(_))) => {
                    return Err(ClientError::TooLarge { limit_bytes: self.message_bytes_max });
                }
                Some(Err(error)) => return Err(closed(&self.origin, &error)),
            }
        }
    }
}

fn closed(origin: &str, error: &Error) -> ClientError {
    ClientError::Closed { origin: origin.to_owned(), reason: error.to_string() }
}
