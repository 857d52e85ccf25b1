//! The browser that a person agrees in: it is opened, and comes back to a port of this machine that listens for one answer;
//! or the person pastes where it was sent. Nothing but the answer to the question that stands open counts.

use std::io::BufRead;
use std::net::Ipv4Addr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tollgate::mcp::oauth::{Asked, AuthError, UserAgent};
use tollgate::{BoxFuture, CancellationToken, Progress};
use tollgate_sandbox::Launch;

use crate::failure::Failure;
use crate::output;

/// What a browser asks before the end of its headers.
const HEAD_BYTES_MAX: usize = 32 * 1024;
/// How long a connection may say nothing: browsers open some that they never use.
const SILENCE: Duration = Duration::from_secs(10);
/// Connections that are listened to at once.
const CONNECTIONS_MAX: usize = 16;
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
const OPENER_WAIT: Duration = Duration::from_secs(10);
const PATH: &str = "/callback";
const PAGE: &str = "<!doctype html><meta charset=utf-8><title>Tollgate</title><p>Tollgate has the answer. You can close this \
                    window.<p>Tollgate 已收到答复，您可以关闭此窗口。";

/// How the person and the browser come together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// It is opened, and comes back by itself.
    Opened,
    /// The person takes the address to it, and brings back where it was sent.
    Pasted,
}

/// A port of this machine, to which the browser is sent in the end.
pub(super) struct Browser {
    listener: TcpListener,
    redirect_uri: String,
    way: Way,
    wait: Duration,
}

impl Browser {
    /// On the configured port, else on the one of the last login if it is free, since that one is known where Tollgate is
    /// registered, else on any.
    pub(super) async fn on(port: Option<u16>, last: Option<&str>, way: Way, wait: Duration) -> Result<Self, Failure> {
        let bind = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port));
        let last = last.and_then(|uri| uri.strip_prefix("http://127.0.0.1:")?.strip_suffix(PATH)?.parse().ok());
        let listener = match (port, last) {
            (Some(port), _) => bind(port).await.map_err(|error| {
                Failure::unavailable(format!("nobody can listen on port {port} of 127.0.0.1: {error}"))
                    .hint("end who listens there, or change `redirect_port`, here and where Tollgate is registered")
            })?,
            (None, Some(port)) => match bind(port).await {
                Ok(listener) => listener,
                Err(_) => any(bind(0).await)?,
            },
            (None, None) => any(bind(0).await)?,
        };
        let address = any(listener.local_addr())?;
        Ok(Self { listener, redirect_uri: format!("http://{address}{PATH}"), way, wait })
    }

    /// Listens until the answer comes.
    async fn heard(&self, asked: &Asked) -> String {
        let mut connections: JoinSet<Option<String>> = JoinSet::new();
        loop {
            let has_room = connections.len() < CONNECTIONS_MAX;
            tokio::select! {
                Ok((stream, _)) = self.listener.accept(), if has_room => {
                    let asked = asked.clone();
                    connections.spawn(async move { timeout(SILENCE, answer(stream, &asked)).await.ok().flatten() });
                }
                Some(done) = connections.join_next() => {
                    if let Ok(Some(address)) = done {
                        return address;
                    }
                }
                // The system has no room for another connection now.
                else => sleep(ACCEPT_PAUSE).await,
            }
        }
    }

    async fn pasted(&self, asked: &Asked) -> Result<String, AuthError> {
        loop {
            output::err("The address that the browser was sent to: ");
            let line = tokio::task::spawn_blocking(|| {
                let mut line = String::new();
                std::io::stdin().lock().read_line(&mut line).map(|bytes| (bytes > 0).then_some(line))
            });
            match line.await {
                Ok(Ok(Some(line))) if asked.is_answer(line.trim()) => return Ok(line.trim().to_owned()),
                Ok(Ok(Some(_))) => output::err("That is not the answer to this login: it begins with "),
                _ => return Err(AuthError::Human("nothing more stands on standard input".to_owned())),
            }
            output::err(&format!("{}?\n", self.redirect_uri));
        }
    }
}

impl UserAgent for Browser {
    fn redirect_uri(&self) -> String {
        self.redirect_uri.clone()
    }

    fn visit<'a>(&'a self, asked: &'a Asked) -> BoxFuture<'a, Result<String, AuthError>> {
        Box::pin(async move {
            let (issuer, url) = (output::visible(asked.issuer()), output::visible(asked.url()));
            output::err(&format!("Log in at {issuer} with this address:\n\n  {url}\n\n"));
            let answered = async {
                match self.way {
                    Way::Pasted => self.pasted(asked).await,
                    Way::Opened => {
                        opened(asked.url()).await;
                        Ok(self.heard(asked).await)
                    }
                }
            };
            let late = || AuthError::Human(format!("nobody agreed within {} s", self.wait.as_secs()));
            timeout(self.wait, answered).await.unwrap_or_else(|_elapsed| Err(late()))
        })
    }
}

fn any<T>(done: std::io::Result<T>) -> Result<T, Failure> {
    done.map_err(|error| Failure::unavailable(format!("nobody can listen on 127.0.0.1: {error}")))
}

/// Opens a browser where there is a screen; the address is shown in any case. It is started away from this program's
/// processes, because it stays when they end.
async fn opened(url: &str) {
    let has_screen = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    let (program, args) = match (cfg!(target_os = "macos"), has_screen) {
        (true, _) => ("open", vec![url.to_owned()]),
        (false, true) => ("setsid", vec!["-f".to_owned(), "xdg-open".to_owned(), url.to_owned()]),
        (false, false) => return,
    };
    let launch = Launch {
        program: program.to_owned(),
        args,
        cwd: std::env::temp_dir(),
        env: std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .collect(),
        stdin: Vec::new(),
        timeout: OPENER_WAIT,
        stdout_bytes_max: HEAD_BYTES_MAX,
        stderr_bytes_max: 0,
        progress: Progress::none(),
    };
    if let Err(error) = tollgate_sandbox::run(launch, &CancellationToken::new()).await {
        tracing::debug!(%error, "no browser is opened");
    }
}

/// What one connection asks for, if that is the answer. Whatever else it is for is not here.
async fn answer(mut stream: TcpStream, asked: &Asked) -> Option<String> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() > HEAD_BYTES_MAX || stream.read_buf(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let line = String::from_utf8_lossy(&head).lines().next().map(ToOwned::to_owned).unwrap_or_default();
    let mut words = line.split(' ');
    let address = match (words.next(), words.next()) {
        (Some("GET"), Some(address)) if address.starts_with('/') && !address.starts_with("//") => address,
        _ => "",
    };
    let is_answer = asked.is_answer(address);
    let (status, page) = if is_answer { ("200 OK", PAGE) } else { ("404 Not Found", "") };
    let response = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: {}\r\nCache-Control: no-store\r\n\
         Referrer-Policy: no-referrer\r\nContent-Security-Policy: default-src 'none'\r\nConnection: close\r\n\r\n{page}",
        page.len()
    );
    let _ = stream.write_all(response.as_bytes()).await;
    let _ = stream.shutdown().await;
    is_answer.then(|| address.to_owned())
}
