//! Keeps checkpoints of the ledger elsewhere: `[audit.anchor]`. A failure costs no call: it is said, tried again with
//! growing pauses, and the latest checkpoint stands for all that were missed.

use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tollgate_guard::client::{Client, Origin, Request};
use tollgate_guard::redact::Redactor;
use tollgate_guard::syslog;
use tollgate_types::{CancellationToken, Clock, Secret};

use crate::builder::{Resolved, resolve};
use crate::config::{Anchor, Loaded};

/// One try.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The pauses between tries.
const RETRY_MIN: Duration = Duration::from_secs(1);
const RETRY_MAX: Duration = Duration::from_secs(60);
/// What is read of checkpoints that were kept elsewhere.
const ANCHOR_BYTES_MAX: usize = 64 * 1024 * 1024;

type Note = Arc<str>;
type Notes = watch::Receiver<Option<Note>>;

/// How one place does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnchorStatus {
    /// `file`, `syslog` or `http`.
    pub kind: &'static str,
    /// Checkpoints that it took from this process.
    pub kept: u64,
    /// Why the last try failed, if it did.
    pub failing: Option<String>,
}

/// A look at how the places do, for those who watch.
#[derive(Clone, Default)]
pub struct AnchorWatch(Vec<Arc<Mutex<AnchorStatus>>>);

impl AnchorWatch {
    /// Each place; none where none is configured.
    pub fn statuses(&self) -> Vec<AnchorStatus> {
        self.0.iter().map(|status| lock(status).clone()).collect()
    }
}

/// The places that checkpoints are kept at, each with a task that a stop waits for.
pub(crate) struct Anchors {
    watch: AnchorWatch,
    tasks: Mutex<JoinSet<()>>,
    stop: CancellationToken,
}

enum Place {
    File(PathBuf),
    Syslog(syslog::Target, Arc<dyn Clock>),
    Http { client: Client, url: String, headers: Vec<(String, Secret)> },
}

/// One place, and what it is to keep.
struct Keeper {
    place: Place,
    notes: Notes,
    every: Duration,
    status: Arc<Mutex<AnchorStatus>>,
}

impl Anchors {
    /// Starts to keep what is signed from now on.
    pub(crate) async fn start(
        loaded: &Loaded,
        notes: &Notes,
        clock: &Arc<dyn Clock>,
        redactor: &Redactor,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Self>, crate::config::ConfigError> {
        let Some((anchor, every)) = loaded.anchor()? else { return Ok(None) };
        let mut anchors =
            Self { watch: AnchorWatch::default(), tasks: Mutex::default(), stop: CancellationToken::new() };
        for place in places(loaded, anchor, clock, redactor, warnings).await {
            let status = Arc::new(Mutex::new(AnchorStatus { kind: place.kind(), kept: 0, failing: None }));
            anchors.watch.0.push(Arc::clone(&status));
            let mut notes = notes.clone();
            // What was signed before was for others to keep.
            notes.borrow_and_update();
            let keeper = Keeper { place, notes, every, status };
            lock(&anchors.tasks).spawn(keeper.run(anchors.stop.clone()));
        }
        Ok(Some(anchors))
    }

    pub(crate) fn watch(&self) -> AnchorWatch {
        self.watch.clone()
    }

    /// Has the latest checkpoint kept, as far as that goes, and ends.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        let mut tasks = std::mem::take(&mut *lock(&self.tasks));
        while tasks.join_next().await.is_some() {}
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn places(
    loaded: &Loaded,
    anchor: &Anchor,
    clock: &Arc<dyn Clock>,
    redactor: &Redactor,
    warnings: &mut Vec<String>,
) -> Vec<Place> {
    let mut places = Vec::new();
    places.extend(anchor.file.as_ref().map(|file| Place::File(loaded.path(file))));
    let target = anchor.syslog.as_ref().and_then(|text| text.parse().ok());
    places.extend(target.map(|target| Place::Syslog(target, Arc::clone(clock))));
    if let Some(url) = &anchor.http {
        let mut headers = Vec::new();
        for (name, value) in &anchor.headers {
            match resolve(name, value, &loaded.folder, redactor).await {
                Ok(Resolved::Text(text)) => headers.push((name.clone(), Secret::new(text))),
                Ok(Resolved::Secret(secret)) => headers.push((name.clone(), secret)),
                Err(why) => warnings.push(format!("audit.anchor.headers.{name} is not sent: {why}")),
            }
        }
        let client = Client::new(Origin::of(url));
        places.push(Place::Http { client, url: url.clone(), headers });
    }
    places
}

impl Place {
    fn kind(&self) -> &'static str {
        match self {
            Self::File(_) => "file",
            Self::Syslog(..) => "syslog",
            Self::Http { .. } => "http",
        }
    }

    async fn keep(&self, note: &str) -> Result<(), String> {
        let json = serde_json::json!({ "v": 1, "note": note }).to_string();
        match self {
            Self::File(path) => {
                let path = path.clone();
                let written = tokio::task::spawn_blocking(move || append(&path, &json)).await;
                written.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
            }
            Self::Syslog(target, clock) => {
                let time = format!("{:.6}", clock.now());
                let sent = syslog::send(target, &time, "checkpoint", &json, TIMEOUT).await;
                sent.map_err(|error| format!("{target}: {error}"))
            }
            Self::Http { client, url, headers } => {
                let request = Request {
                    method: "POST".into(),
                    url: url.clone(),
                    headers: vec![("Content-Type".into(), "application/json".into())],
                    secret_headers: headers.clone(),
                    body: Some(json.into_bytes()),
                    timeout: TIMEOUT,
                };
                let response = client.send(request).await.map_err(|error| error.to_string())?;
                match response.status {
                    200..=299 => Ok(()),
                    status => Err(format!("it answers with the status {status}")),
                }
            }
        }
    }
}

fn append(path: &Path, json: &str) -> io::Result<()> {
    let mut file = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    file.write_all(format!("{json}\n").as_bytes())?;
    file.sync_data()
}

impl Keeper {
    async fn run(mut self, stop: CancellationToken) {
        let (mut retry, mut is_due) = (RETRY_MIN, false);
        loop {
            if !is_due {
                tokio::select! {
                    changed = self.notes.changed() => if changed.is_err() { return },
                    () = stop.cancelled() => break,
                }
            }
            is_due = !self.keep().await;
            let pause = if is_due { retry } else { self.every };
            retry = if is_due { (retry * 2).min(RETRY_MAX) } else { RETRY_MIN };
            tokio::select! {
                () = tokio::time::sleep(pause) => is_due |= self.notes.has_changed().unwrap_or(false),
                () = stop.cancelled() => break,
            }
        }
        // The last one is not left out because the one before was just kept.
        if is_due || self.notes.has_changed().unwrap_or(false) {
            self.keep().await;
        }
    }

    /// Has the latest kept. Says whether it was.
    async fn keep(&mut self) -> bool {
        let note = self.notes.borrow_and_update().clone();
        let Some(note) = note else { return true };
        let kept = self.place.keep(&note).await;
        let mut status = lock(&self.status);
        match kept {
            Ok(()) => {
                status.kept += 1;
                status.failing = None;
                true
            }
            Err(why) => {
                tracing::error!("the ledger's checkpoint is not kept elsewhere ({}): {why}", status.kind);
                status.failing = Some(why);
                false
            }
        }
    }
}

/// Checkpoints that were kept elsewhere: the text of a file, or what an `http` or `https` address gives.
///
/// # Errors
/// Why it cannot be read.
pub async fn read_anchor(place: &str) -> Result<String, String> {
    let bytes = if place.starts_with("http://") || place.starts_with("https://") {
        let client = Client::new([Origin::of(place).map_err(|error| error.to_string())?]);
        let request = Request {
            method: "GET".into(),
            url: place.to_owned(),
            headers: Vec::new(),
            secret_headers: Vec::new(),
            body: None,
            timeout: TIMEOUT,
        };
        let response = client.send(request).await.map_err(|error| error.to_string())?;
        if response.status != 200 {
            return Err(format!("it answers with the status {}", response.status));
        }
        response.bytes(ANCHOR_BYTES_MAX, TIMEOUT).await.map_err(|error| error.to_string())?
    } else {
        let length = std::fs::metadata(place).map_err(|error| error.to_string())?.len();
        if length > ANCHOR_BYTES_MAX as u64 {
            return Err(format!("it has more than {ANCHOR_BYTES_MAX} bytes"));
        }
        std::fs::read(place).map_err(|error| error.to_string())?
    };
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())
}
