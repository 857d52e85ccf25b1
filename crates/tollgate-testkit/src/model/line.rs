//! Connections that the server can break before it has said a word, which HTTP libraries do not offer.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

/// Breaks one connection: whatever is written to it afterwards closes it instead.
#[derive(Debug, Clone, Default)]
pub(super) struct Cut(Arc<AtomicBool>);

impl Cut {
    pub(super) fn cut(&self) {
        self.0.store(true, Ordering::Release);
    }

    fn check(&self) -> io::Result<()> {
        if self.0.load(Ordering::Acquire) { Err(io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    }
}

/// Accepts connections that can be broken. The remote end's address is of no use here; its [`Cut`] stands in its place.
pub(super) struct Lines(pub(super) TcpListener);

impl Listener for Lines {
    type Io = Line;
    type Addr = Cut;

    async fn accept(&mut self) -> (Line, Cut) {
        let (stream, _) = Listener::accept(&mut self.0).await;
        // Small writes must leave as they are: how the stream is cut is what the client is tested with.
        let _ = stream.set_nodelay(true);
        let cut = Cut::default();
        (Line { stream, cut: cut.clone() }, cut)
    }

    fn local_addr(&self) -> io::Result<Cut> {
        Ok(Cut::default())
    }
}

impl Connected<IncomingStream<'_, Lines>> for Cut {
    fn connect_info(stream: IncomingStream<'_, Lines>) -> Self {
        stream.remote_addr().clone()
    }
}

/// One connection.
pub(super) struct Line {
    stream: TcpStream,
    cut: Cut,
}

impl AsyncRead for Line {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Line {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.cut.check()?;
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
