//! A server behind a WebSocket: the conversation of stdio, one message of the protocol in one message of text.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;
use tollgate_guard::client::{
    Client, Credentials, Current, Listener, Opened, Renewal, Request, Speaker, WebSocket, socket_address,
};
use tollgate_types::Clock;

use super::config::Limits;
use super::fault::Fault;
use super::heard::Heard;
use super::http::refused;
use super::stdio::{Driver, Shared, StdioLink};
use super::traces::Traces;

const SUBPROTOCOL: &str = "mcp";
/// How long the server may leave a message unread.
const WRITE_WAIT: Duration = Duration::from_secs(30);
/// Silence of ours after which the server is asked for a sign of life.
const KEEP_ALIVE: Duration = Duration::from_secs(20);
/// For a goodbye.
const CLOSE_WAIT: Duration = Duration::from_secs(1);

/// Opens the connection, and once more with credentials that were read anew where the server does not take those it was
/// shown.
pub(super) async fn open(
    client: &Client,
    clock: &dyn Clock,
    (url, credentials): (&str, &Credentials),
    limits: Limits,
    (traces, heard): (Arc<Traces>, Arc<Heard>),
) -> Result<(StdioLink, Driver), Fault> {
    let known_by = credentials.fresh().await;
    let socket = match connect(client, clock, url, &known_by, limits).await {
        Err(fault @ Fault::Http { status: 401, .. }) => {
            let renewal = credentials.renew_after(&known_by, &fault.refusal().unwrap_or_default()).await;
            let known_by = credentials.current();
            if renewal != Renewal::Renewed {
                return Err(fault.after(renewal, known_by.why()));
            }
            let again = connect(client, clock, url, &known_by, limits).await;
            again.map_err(|fault| fault.after(renewal, None))?
        }
        opened => opened?,
    };
    let (link, queue) = StdioLink::new(traces, heard);
    let driver = drive(socket, queue, Arc::clone(&link.shared), link.close.clone().cancelled_owned());
    Ok((link, Box::pin(driver)))
}

async fn connect(
    client: &Client,
    clock: &dyn Clock,
    url: &str,
    known_by: &Current,
    limits: Limits,
) -> Result<WebSocket, Fault> {
    let request = Request {
        method: "GET".to_owned(),
        url: socket_address(url).into_owned(),
        headers: Vec::new(),
        secret_headers: known_by.headers().to_vec(),
        body: None,
        timeout: limits.handshake,
    };
    match client.open_socket(request, SUBPROTOCOL, limits.response_bytes_max).await? {
        Opened::Socket(socket) => Ok(socket),
        Opened::Refused(response) => match refused(response, clock.now()).await {
            // There is no question yet that this could be an answer to.
            Fault::Rpc(failure) => Err(Fault::Broken(format!("the server opens no WebSocket: {}", failure.message))),
            fault => Err(fault),
        },
    }
}

async fn drive(
    socket: WebSocket,
    queue: mpsc::Receiver<Vec<u8>>,
    shared: Arc<Shared>,
    close: impl Future<Output = ()>,
) -> Option<String> {
    let (mut speaker, listener) = socket.split();
    let why = {
        let reading = pin!(read(listener, &shared));
        let writing = pin!(write(&mut speaker, queue));
        tokio::select! {
            why = reading => Some(why),
            why = writing => Some(why),
            () = close => None,
        }
    };
    shared.pending.close(why.as_deref().unwrap_or("the server was stopped"));
    if why.is_none() {
        speaker.close(CLOSE_WAIT).await;
    }
    why
}

async fn read(mut listener: Listener, shared: &Shared) -> String {
    loop {
        match listener.hear().await {
            Ok(Some(message)) => drop(shared.read(&message)),
            Ok(None) => return "the server closed the connection".to_owned(),
            Err(error) => return error.to_string(),
        }
    }
}

async fn write(speaker: &mut Speaker, mut queue: mpsc::Receiver<Vec<u8>>) -> String {
    loop {
        let said = match timeout(KEEP_ALIVE, queue.recv()).await {
            // What we say is JSON, which is UTF-8.
            Ok(Some(message)) => speaker.say(String::from_utf8(message).unwrap_or_default(), WRITE_WAIT).await,
            Ok(None) => return "nobody asks any more".to_owned(),
            Err(_elapsed) => speaker.ping(WRITE_WAIT).await,
        };
        if let Err(error) = said {
            return error.to_string();
        }
    }
}
