//! A server of 2024-11-05 over HTTP: one long event stream brings what it says, and its first event names where it is
//! spoken to. Otherwise the conversation of stdio.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::timeout;
use tollgate_guard::client::{Client, Credentials, Current, Renewal, Request, Response, join};
use tollgate_types::{Clock, limits};

use super::config::Limits;
use super::fault::Fault;
use super::heard::Heard;
use super::http::{header, is_stream, refused};
use super::sse::Events;
use super::stdio::{Driver, Shared, StdioLink, id_of};
use super::traces::Traces;

/// How long the stream may be silent: longer than any call.
const SILENCE: Duration = Duration::from_millis(2 * limits::TOOL_TIMEOUT_MS_MAX);
/// How long a message may take to be accepted.
const POST_WAIT: Duration = Duration::from_secs(30);

/// Everything that asking the server takes.
struct Place {
    client: Client,
    clock: Arc<dyn Clock>,
    credentials: Credentials,
    url: String,
    limits: Limits,
}

/// The stream, and what came of it so far.
struct Stream {
    response: Response,
    events: Events,
    bytes_max: usize,
}

/// Opens the stream and waits until it says where the server is spoken to.
pub(super) async fn open(
    client: Client,
    clock: Arc<dyn Clock>,
    (url, credentials): (String, Credentials),
    limits: Limits,
    (traces, heard): (Arc<Traces>, Arc<Heard>),
) -> Result<(StdioLink, Driver), Fault> {
    let (link, queue) = StdioLink::new(traces, heard);
    let mut place = Place { client, clock, credentials, url, limits };
    let response = place.ask("GET", None).await?;
    if response.status != 200 || !is_stream(&response) {
        let fault = refused(response, place.clock.now()).await;
        return Err(match fault {
            Fault::Http { status: 200, .. } | Fault::Rpc(_) => Fault::Broken("it answers with no event stream".into()),
            fault => fault,
        });
    }
    let mut stream = Stream { response, events: Events::default(), bytes_max: limits.response_bytes_max };
    let named = timeout(limits.handshake, stream.endpoint(&link.shared)).await;
    let named = named.unwrap_or(Err(Fault::TimedOut { ms: limits.handshake.as_millis() }))?;
    place.url = join(&place.url, &named)?;
    let driver = drive(place, stream, queue, Arc::clone(&link.shared), link.close.clone().cancelled_owned());
    Ok((link, Box::pin(driver)))
}

impl Place {
    /// One exchange, and once more with credentials that were read anew where the server does not take those it was shown.
    async fn ask(&self, method: &str, body: Option<&[u8]>) -> Result<Response, Fault> {
        let known_by = self.credentials.fresh().await;
        let response = self.ask_as(&known_by, method, body).await?;
        if response.status != 401 {
            return Ok(response);
        }
        let fault = refused(response, self.clock.now()).await;
        let renewal = self.credentials.renew_after(&known_by, &fault.refusal().unwrap_or_default()).await;
        let known_by = self.credentials.current();
        if renewal != Renewal::Renewed {
            return Err(fault.after(renewal, known_by.why()));
        }
        self.ask_as(&known_by, method, body).await
    }

    async fn ask_as(&self, known_by: &Current, method: &str, body: Option<&[u8]>) -> Result<Response, Fault> {
        let headers = match body {
            Some(_) => vec![header("Content-Type", "application/json")],
            None => vec![header("Accept", "text/event-stream"), header("Cache-Control", "no-store")],
        };
        let (method, url, body) = (method.to_owned(), self.url.clone(), body.map(<[u8]>::to_vec));
        let secret_headers = known_by.headers().to_vec();
        let timeout = if body.is_some() { POST_WAIT } else { self.limits.handshake };
        Ok(self.client.send(Request { method, url, headers, secret_headers, body, timeout }).await?)
    }

    /// Says one message. A question that is refused is answered so; without its stream nothing can be said at all.
    async fn say(&self, message: &[u8], shared: &Shared) -> Result<(), String> {
        let fault = match self.ask("POST", Some(message)).await {
            Ok(response) if (200..300).contains(&response.status) => return Ok(()),
            Ok(response) if matches!(response.status, 404 | 410) => {
                return Err("the server forgot the stream".to_owned());
            }
            Ok(response) => refused(response, self.clock.now()).await,
            Err(fault) => fault,
        };
        match id_of(message) {
            Some(id) => drop(shared.pending.settle(&id, Err(fault))),
            None => tracing::debug!(%fault, "a notice was not taken"),
        }
        Ok(())
    }
}

impl Stream {
    /// Where the server is spoken to; what comes before is taken as any other message.
    async fn endpoint(&mut self, shared: &Shared) -> Result<String, Fault> {
        let mut named = None;
        while named.is_none() {
            self.next(|name, data| match name {
                b"endpoint" => named = named.take().or(Some(String::from_utf8_lossy(data).trim().to_owned())),
                _ => take(name, data, shared),
            })
            .await?;
        }
        named.ok_or_else(|| Fault::Broken("the event stream names no endpoint".to_owned()))
    }

    /// Takes what comes next.
    async fn next(&mut self, mut each: impl FnMut(&[u8], &[u8])) -> Result<(), Fault> {
        let Some(piece) = self.response.next_chunk(SILENCE).await? else {
            return Err(Fault::Closed("the server ended its event stream".to_owned()));
        };
        let fed = self.events.feed(&piece, self.bytes_max, |event| each(event.name, event.data));
        fed.map_err(|_| Fault::TooLarge { limit_bytes: self.bytes_max })
    }
}

/// Events of other kinds are somebody else's.
fn take(name: &[u8], data: &[u8], shared: &Shared) {
    if matches!(name, b"" | b"message") && !data.is_empty() {
        let _ = shared.read(data);
    }
}

async fn drive(
    place: Place,
    mut stream: Stream,
    mut queue: mpsc::Receiver<Vec<u8>>,
    shared: Arc<Shared>,
    close: impl Future<Output = ()>,
) -> Option<String> {
    let why = {
        let reading = pin!(async {
            loop {
                if let Err(fault) = stream.next(|name, data| take(name, data, &shared)).await {
                    return fault.to_string();
                }
            }
        });
        let writing = pin!(async {
            while let Some(message) = queue.recv().await {
                if let Err(why) = place.say(&message, &shared).await {
                    return why;
                }
            }
            "nobody asks any more".to_owned()
        });
        tokio::select! {
            why = reading => Some(why),
            why = writing => Some(why),
            () = close => None,
        }
    };
    shared.pending.close(why.as_deref().unwrap_or("the server was stopped"));
    why
}
