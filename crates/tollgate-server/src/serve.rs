//! Listening, serving, and going down without dropping what is under way.

use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tollgate::{CancellationToken, Tollgate};

use crate::app::{ServeOptions, router};
use crate::keys::{self, KeyError};
use crate::limits::{HEAD_BYTES_MAX, HEAD_TIMEOUT, connections_max};

/// After an accept failed, as with too many open files.
/// How long those whose calls were cut off may take to hear of it.
const LAST_WORDS: Duration = Duration::from_secs(2);
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Why the server does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be listened on.
    #[error("`{address}` cannot be listened on: {source}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// The system's word.
        source: io::Error,
    },
    /// Other machines could reach it, and nobody has a key yet.
    #[error("`{0}` can be reached from other machines, and no key was made yet: `tollgate keys create` first")]
    Exposed(SocketAddr),
    /// The keys cannot be read.
    #[error(transparent)]
    Keys(#[from] KeyError),
}

/// A socket that listens; clients that come now wait to be served.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
}

impl Bound {
    /// Listens. An address that is not loopback's is refused while the data folder has no key that counts.
    ///
    /// # Errors
    /// When the address is taken, not this machine's, or refused.
    pub async fn bind(address: SocketAddr, data_dir: &Path) -> Result<Self, ServeError> {
        if !address.ip().is_loopback() && !keys::list(data_dir).await?.iter().any(|key| key.revoked.is_none()) {
            return Err(ServeError::Exposed(address));
        }
        let bind = |source| ServeError::Bind { address, source };
        let listener = TcpListener::bind(address).await.map_err(bind)?;
        let address = listener.local_addr().map_err(bind)?;
        Ok(Self { listener, address })
    }

    /// Where it listens: the port is the system's where 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the options' token is cancelled. Then nothing new is accepted, what is under way goes on for the
    /// options' drain, what is not done by then is cancelled, and every call is in the ledger when this returns.
    pub async fn serve(self, house: &Tollgate, options: ServeOptions) {
        let (stop, drain) = (options.stop.clone(), options.drain);
        let service = router(house, self.address, options);
        let mut connections = JoinSet::new();
        accept(self.listener, service.router.clone(), &mut connections, &stop).await;
        let closing = async |connections: &mut JoinSet<()>| {
            while connections.join_next().await.is_some() {}
            service.ended().await;
        };
        if timeout(drain, closing(&mut connections)).await.is_err() {
            // Who still waits is told so.
            service.app.cut.cancel();
            let _ = timeout(LAST_WORDS, closing(&mut connections)).await;
        }
        connections.shutdown().await;
        service.drain(Duration::ZERO).await;
        house.gate().drain().await;
    }
}

/// [`Bound::bind`] and [`Bound::serve`] in one.
///
/// # Errors
/// As [`Bound::bind`].
pub async fn serve(house: Arc<Tollgate>, address: SocketAddr, options: ServeOptions) -> Result<(), ServeError> {
    Bound::bind(address, house.data_dir()).await?.serve(&house, options).await;
    Ok(())
}

async fn accept(listener: TcpListener, router: Router, connections: &mut JoinSet<()>, stop: &CancellationToken) {
    let places = Arc::new(Semaphore::new(connections_max()));
    loop {
        let arrived = async {
            // INVARIANT: the semaphore lives here and is never closed.
            let place = Arc::clone(&places).acquire_owned().await.ok();
            (listener.accept().await, place)
        };
        let (accepted, place) = tokio::select! {
            () = stop.cancelled() => return,
            arrived = arrived => arrived,
            Some(_) = connections.join_next() => continue,
        };
        match accepted {
            Ok((stream, _)) => {
                let (router, stop) = (router.clone(), stop.clone());
                connections.spawn(async move {
                    let _place = place;
                    converse(stream, router, stop).await;
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn converse(stream: TcpStream, router: Router, stop: CancellationToken) {
    let _ = stream.set_nodelay(true);
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_header_size(HEAD_BYTES_MAX);
    let connection = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)).with_upgrades();
    let mut connection = pin!(connection);
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = stop.cancelled() => {
            // What is under way is answered, and nothing more is read.
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection broke off");
    }
}
