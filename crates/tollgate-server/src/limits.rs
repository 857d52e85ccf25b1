//! The limits of the server, beside those of the types.

use std::time::Duration;

use rustix::process::{Resource, getrlimit};

/// Connections at once; more wait to be accepted. Fewer where the process may not open twice as many files, but these.
pub(crate) const CONNECTIONS_MAX: usize = 16 * 1024;
pub(crate) const CONNECTIONS_MIN: usize = 512;
/// Places among the connections that no conversation takes, however many there are.
pub(crate) const CONNECTIONS_FOR_REQUESTS: usize = 256;
/// The head of a request.
pub(crate) const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Reading the head of a request, and between two requests of one connection.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// Reading the body of a request.
pub(crate) const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Calls and lists under way at once; more are told to come back.
pub(crate) const IN_FLIGHT_MAX: usize = 512;
/// Listeners to new records at once.
pub(crate) const LISTENERS_MAX: usize = 16;
/// What is read of a WebSocket at once, and held for each.
pub(crate) const SOCKET_BUFFER_BYTES: usize = 4 * 1024;
/// Between two looks for new records.
pub(crate) const EVENTS_PAUSE: Duration = Duration::from_millis(200);
/// Messages of one stream that wait for the client to read.
pub(crate) const STREAM_QUEUE_MAX: usize = 64;
/// How long the last message of a stream waits for the client to read.
pub(crate) const UNREAD_TIMEOUT: Duration = Duration::from_secs(30);
/// The silence of a stream before a comment keeps it open.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// How long a look at the keys is believed: a revoked key ends within it.
pub(crate) const KEYS_FRESH: Duration = Duration::from_secs(1);
/// Records of one answer.
pub(crate) const RECORDS_MAX: usize = 1_000;
/// Records of one answer unless asked otherwise.
pub(crate) const RECORDS_DEFAULT: usize = 50;
/// Lines of one metric; what comes later is counted under one name.
pub(crate) const SERIES_MAX: usize = 5_000;

/// Connections that this process may hold at once.
pub(crate) fn connections_max() -> usize {
    let files = getrlimit(Resource::Nofile).current.and_then(|files| usize::try_from(files).ok());
    (files.unwrap_or(usize::MAX) / 2).clamp(CONNECTIONS_MIN, CONNECTIONS_MAX)
}

/// Conversations over WebSockets and event streams at once; each holds a connection.
pub(crate) fn conversations_max() -> usize {
    connections_max() - CONNECTIONS_FOR_REQUESTS
}
