//! A client of each way. What it is told is read as it came: an id may be a number that no machine number holds.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use reqwest::{Method, Response};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tollgate::mcp::{ServerInfo, serve_stdio};
use tollgate::{Caller, Door, Surface};
use tollgate_testkit::RecordingDoor;

use crate::world::World;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ways {
    Http,
    Stdio,
    Socket,
    Stream,
}

impl Ways {
    pub(super) const ALL: [Self; 4] = [Self::Http, Self::Stdio, Self::Socket, Self::Stream];
}

/// A message from the server.
#[derive(Debug)]
pub(super) struct Told {
    /// The id as it came; empty for a notification.
    pub(super) id: String,
    pub(super) code: Option<i64>,
    pub(super) result: Value,
    pub(super) message: Value,
}

impl Told {
    fn read(text: &str) -> Self {
        let members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(text).unwrap();
        // Some ids hold no `Value`: only what is looked at is read.
        let member = |name: &str| members.get(name).map_or(Value::Null, |raw| serde_json::from_str(raw.get()).unwrap());
        assert_eq!(member("jsonrpc"), "2.0", "{text}");
        Self {
            id: members.get("id").map(|raw| raw.get().to_owned()).unwrap_or_default(),
            code: member("error")["code"].as_i64(),
            result: member("result"),
            message: serde_json::json!({ "method": member("method"), "params": member("params") }),
        }
    }
}

/// A client.
pub(super) enum Way<'a> {
    Http(Posts<'a>),
    Stdio(Pipe),
    Socket(Socket),
    Stream(Stream<'a>),
}

impl<'a> Way<'a> {
    pub(super) async fn open(way: Ways, world: &'a World, door: &Arc<RecordingDoor>) -> Self {
        match way {
            Ways::Http => Self::Http(Posts { world, session: None }),
            Ways::Stdio => Self::Stdio(Pipe::open(Arc::<RecordingDoor>::clone(door))),
            Ways::Socket => Self::Socket(Socket::open(world, "/mcp/ws").await),
            Ways::Stream => Self::Stream(Stream::open(world, "/sse").await),
        }
    }

    pub(super) async fn tell(&mut self, text: &str) {
        match self {
            Self::Http(posts) => drop(posts.post(text).await),
            Self::Stdio(pipe) => pipe.to.write_all(format!("{text}\n").as_bytes()).await.unwrap(),
            Self::Socket(socket) => socket.say(text).await,
            Self::Stream(stream) => stream.say(text).await,
        }
    }

    pub(super) async fn ask(&mut self, text: &str) -> Told {
        if let Self::Http(posts) = self {
            let (status, answer) = posts.post(text).await;
            return Told::read(&answer.unwrap_or_else(|| unreachable!("{status} without a body to {text}")));
        }
        self.tell(text).await;
        self.next().await
    }

    pub(super) async fn next(&mut self) -> Told {
        match self {
            Self::Http(_) => unreachable!("an answer comes with its request"),
            Self::Stdio(pipe) => Told::read(&pipe.from.next_line().await.unwrap().unwrap()),
            Self::Socket(socket) => socket.hear().await,
            Self::Stream(stream) => stream.hear().await,
        }
    }
}

/// Streamable HTTP.
pub(super) struct Posts<'a> {
    world: &'a World,
    session: Option<String>,
}

impl Posts<'_> {
    async fn post(&mut self, text: &str) -> (u16, Option<String>) {
        let mut request = self.world.client(Method::POST, "/mcp").header("content-type", "application/json");
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
        }
        let response = request.body(text.to_owned()).send().await.unwrap();
        let status = response.status().as_u16();
        if let Some(session) = response.headers().get("mcp-session-id") {
            self.session = Some(session.to_str().unwrap().to_owned());
        }
        let kind = response.headers().get("content-type").map(|kind| kind.to_str().unwrap().to_owned());
        let body = response.text().await.unwrap();
        assert!(body.is_empty() || kind.as_deref() == Some("application/json"), "{status} {kind:?} {body}");
        (status, Some(body).filter(|body| !body.is_empty()))
    }
}

/// stdio.
pub(super) struct Pipe {
    to: DuplexStream,
    from: Lines<BufReader<DuplexStream>>,
    _server: JoinSet<()>,
}

impl Pipe {
    fn open(door: Arc<dyn Door>) -> Self {
        let (to, input) = tokio::io::duplex(64 * 1024);
        let (output, from) = tokio::io::duplex(64 * 1024);
        let info = ServerInfo { name: "tollgate".into(), version: "1.0.0".into(), instructions: None };
        let caller = Caller::new("client", "reader", Surface::McpStdio);
        let mut server = JoinSet::new();
        server.spawn(async move { serve_stdio(door, caller, info, input, output).await.unwrap() });
        Self { to, from: BufReader::new(from).lines(), _server: server }
    }
}

/// A WebSocket.
pub(super) struct Socket(WebSocketStream<TcpStream>);

impl Socket {
    pub(super) async fn open(world: &World, path: &str) -> Self {
        let mut request = format!("ws://{}{path}", world.address).into_client_request().unwrap();
        let key = format!("Bearer {}", world.keys.client.secret.expose());
        request.headers_mut().insert("authorization", key.parse().unwrap());
        request.headers_mut().insert("sec-websocket-protocol", "other, mcp".parse().unwrap());
        let stream = TcpStream::connect(world.address).await.unwrap();
        let (socket, response) = tokio_tungstenite::client_async(request, stream).await.unwrap();
        assert_eq!(response.headers()["sec-websocket-protocol"], "mcp");
        Self(socket)
    }

    pub(super) async fn say(&mut self, text: &str) {
        self.0.send(Message::text(text)).await.unwrap();
    }

    pub(super) async fn say_bytes(&mut self, bytes: &'static [u8]) {
        self.0.send(Message::binary(bytes)).await.unwrap();
    }

    pub(super) async fn hear(&mut self) -> Told {
        Told::read(self.0.next().await.unwrap().unwrap().to_text().unwrap())
    }

    /// The code with which the server closes.
    pub(super) async fn goodbye(&mut self) -> Option<u16> {
        loop {
            match self.0.next().await?.unwrap() {
                Message::Close(frame) => return frame.map(|frame| frame.code.into()),
                Message::Ping(_) => {}
                other => unreachable!("{other:?}"),
            }
        }
    }
}

pub(super) struct Mouth<'a>(SplitSink<&'a mut WebSocketStream<TcpStream>, Message>);
pub(super) struct Ear<'a>(SplitStream<&'a mut WebSocketStream<TcpStream>>);

pub(super) fn split(socket: &mut Socket) -> (Mouth<'_>, Ear<'_>) {
    let (mouth, ear) = (&mut socket.0).split();
    (Mouth(mouth), Ear(ear))
}

impl Mouth<'_> {
    pub(super) async fn say(&mut self, text: &str) {
        self.0.send(Message::text(text)).await.unwrap();
    }
}

impl Ear<'_> {
    pub(super) async fn hear(&mut self) -> Told {
        Told::read(self.0.next().await.unwrap().unwrap().to_text().unwrap())
    }
}

/// The event stream of 2024-11-05 and its POSTs.
pub(super) struct Stream<'a> {
    world: &'a World,
    events: Response,
    come: String,
    place: String,
}

impl<'a> Stream<'a> {
    pub(super) async fn open(world: &'a World, path: &str) -> Self {
        let events = world.client(Method::GET, path).header("accept", "text/event-stream").send().await.unwrap();
        assert_eq!(
            (events.status().as_u16(), &events.headers()["content-type"]),
            (200, &"text/event-stream".parse().unwrap())
        );
        let mut stream = Self { world, events, come: String::new(), place: String::new() };
        let (kind, place) = stream.event().await.unwrap();
        assert_eq!(kind, "endpoint");
        assert!(place.starts_with("/messages?sessionId="), "{place}");
        stream.place = place;
        stream
    }

    pub(super) fn place(&self) -> &str {
        &self.place
    }

    async fn say(&mut self, text: &str) {
        let request = self.world.client(Method::POST, &self.place).header("content-type", "application/json");
        let response = request.body(text.to_owned()).send().await.unwrap();
        assert_eq!(response.status(), 202, "{text}");
    }

    pub(super) async fn hear(&mut self) -> Told {
        let (kind, data) = self.event().await.unwrap();
        assert_eq!(kind, "message");
        Told::read(&data)
    }

    /// The next event's name and data; none at the end of the stream.
    pub(super) async fn event(&mut self) -> Option<(String, String)> {
        loop {
            while let Some((event, rest)) = self.come.split_once("\n\n") {
                let event = event.to_owned();
                self.come = rest.to_owned();
                let field = |name: &str| event.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned);
                if let (Some(kind), Some(data)) = (field("event: "), field("data: ")) {
                    return Some((kind, data));
                }
            }
            let piece = self.events.chunk().await.ok()??;
            self.come.push_str(std::str::from_utf8(&piece).unwrap());
        }
    }
}
