//! When the program is asked to stop.

use std::future::Future;
use std::pin::Pin;

/// Listens from now on; the future ends with Ctrl-C, SIGTERM, or when the terminal is gone.
pub(crate) fn stopped() -> Pin<Box<dyn Future<Output = ()> + Send>> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let kinds = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        if let Ok(mut signals) = kinds.into_iter().map(signal).collect::<std::io::Result<Vec<_>>>() {
            return Box::pin(std::future::poll_fn(move |cx| {
                let is_stopped = signals.iter_mut().any(|signal| signal.poll_recv(cx).is_ready());
                if is_stopped { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
            }));
        }
    }
    Box::pin(async {
        // Without signals there is nothing to wait for.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    })
}
