//! `file:///PATH`: files of the workspace as resources, by the operator's globs. A file has one URI: its path from the
//! workspace's folder, links resolved. So what a role grants by a name is what is read; and what the file tools may not
//! touch, what is hidden and what no glob fits is not there.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cap_std::fs::MetadataExt as _;
use serde_json::{Value, json};
use tollgate_types::{
    BoxFuture, CallKind, CancellationToken, Clock, Cx, Member, Tool, ToolDefinition, ToolError, ToolOutput, Workspace,
    limits,
};

use super::place::{Kind, Place};
use super::walk::{DEPTH_MAX, Entry, Glob, Options, walk};
use super::workspace::Confined;
use crate::follow::{Followed, Look};
use crate::resource::{begun, completion, contents, decoded, encoded, entry, missing, raw, uri};
use crate::typed::{Stop, on_thread, stoppable};

const SCHEME: &str = "file:///";
const TEXT: &str = "text/plain";
const BYTES: &str = "application/octet-stream";
/// What the ends of names say; of others it is said whether they are text.
const KINDS: [(&str, &str); 14] = [
    ("css", "text/css"),
    ("csv", "text/csv"),
    ("gif", "image/gif"),
    ("htm", "text/html"),
    ("html", "text/html"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("json", "application/json"),
    ("md", "text/markdown"),
    ("pdf", "application/pdf"),
    ("png", "image/png"),
    ("svg", "image/svg+xml"),
    ("webp", "image/webp"),
    ("xml", "application/xml"),
];

/// Which files of the workspace are resources: `*.md` by name at any depth, `docs/**` by path.
pub struct FileGlobs(Vec<Glob>);

impl FileGlobs {
    /// Reads them.
    ///
    /// # Errors
    /// When one can not be read: a text that names it.
    pub fn read(globs: &[String]) -> Result<Self, String> {
        let read = |glob: &String| Glob::new(glob).map_err(|error| format!("`{glob}` is {}", error.message));
        globs.iter().map(read).collect::<Result<_, _>>().map(Self)
    }
}

/// The files that fit one of the globs, as a template that lists them; those that somebody is to be told of go to `followed`.
pub fn file_resources(globs: FileGlobs, clock: Arc<dyn Clock>, followed: Arc<Followed>) -> Arc<dyn Tool> {
    Arc::new(Files { shown: Arc::new(Shown { globs: globs.0, clock }), followed })
}

struct Files {
    shown: Arc<Shown>,
    followed: Arc<Followed>,
}

/// Which files there are for clients.
struct Shown {
    globs: Vec<Glob>,
    clock: Arc<dyn Clock>,
}

impl Shown {
    fn shows(&self, path: &str) -> bool {
        let name = Path::new(path).file_name().unwrap_or_default();
        // Hidden files are where secrets lie.
        path.split('/').all(|part| !part.starts_with('.')) && self.globs.iter().any(|glob| glob.fits(name, path))
    }

    /// The file of a URI.
    fn locate<'a>(&self, confined: &'a Confined, uri: &str) -> Result<Place<'a>, ToolError> {
        let path = uri.strip_prefix(SCHEME).and_then(decoded).ok_or_else(|| missing(uri))?;
        // Why it is out of reach would say that it is there.
        let place = confined.locate(&path).map_err(|_| missing(uri))?;
        let is_it = place.kind == Kind::File && place.path() == path && self.shows(&path);
        if is_it { Ok(place) } else { Err(missing(uri)) }
    }

    /// Paths and sizes, as far as there is time and room for them.
    fn list(&self, workspace: &Workspace, stop: &Stop) -> Result<Vec<(String, u64)>, ToolError> {
        let confined = Confined::open(workspace)?;
        let options = Options { depth_max: DEPTH_MAX, glob: None, include_hidden: false };
        let mut found = Vec::new();
        let visit = |entry: &Entry<'_>| {
            // A name that is no text has no URI.
            let has_name = entry.name.to_str().is_some() && !entry.path.contains('\u{fffd}');
            if entry.meta.is_file() && has_name && self.shows(entry.path) {
                found.push((entry.path.to_owned(), entry.meta.size()));
            }
            if found.len() < limits::FILES_LISTED_MAX { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        match walk(&confined.locate(".")?, &options, stop, visit) {
            Ok(_) => Ok(found),
            // What was found in time is better than nothing.
            Err(_) if !found.is_empty() => Ok(found),
            Err(error) => Err(error),
        }
    }

    fn read(&self, uri: &str, workspace: &Workspace) -> Result<Value, ToolError> {
        use std::io::Read as _;
        let confined = Confined::open(workspace)?;
        let place = self.locate(&confined, uri)?;
        let (file, meta) = place.open_file()?;
        let mut bytes = Vec::new();
        file.take(limits::FILE_RESOURCE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(|error| place.failed(&error))?;
        if bytes.len() as u64 > limits::FILE_RESOURCE_BYTES_MAX {
            let message =
                format!("`{uri}` has {} bytes, and {} may be read", meta.size(), limits::FILE_RESOURCE_BYTES_MAX);
            return Err(ToolError::new(message)
                .with_tool_code("TOO_LARGE")
                .with_hint("read_file reads a part of a file"));
        }
        let known = known_kind(&place.path());
        Ok(match String::from_utf8(bytes) {
            Ok(text) => contents(uri, known.unwrap_or(TEXT), "text", text),
            Err(error) => contents(uri, known.unwrap_or(BYTES), "blob", STANDARD.encode(error.as_bytes())),
        })
    }

    /// Which file it is, how long, and when it was written.
    fn mark(&self, uri: &str, workspace: &Workspace) -> Option<String> {
        let confined = Confined::open(workspace).ok()?;
        let (_, meta) = self.locate(&confined, uri).ok()?.open_file().ok()?;
        Some(format!("{} {} {} {}", meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec()))
    }

    fn complete(&self, asked: &Value, workspace: &Workspace, stop: &Stop) -> Result<Value, ToolError> {
        let Some(begun) = begun(asked, "path") else { return Ok(completion(&[])) };
        let paths = self.list(workspace, stop)?.into_iter().map(|(path, _)| path);
        Ok(completion(&paths.filter(|path| path.starts_with(begun)).collect::<Vec<_>>()))
    }
}

fn known_kind(path: &str) -> Option<&'static str> {
    let end = Path::new(path).extension()?.to_str()?;
    KINDS.iter().find(|(known, _)| end.eq_ignore_ascii_case(known)).map(|(_, kind)| *kind)
}

fn member((path, bytes): (String, u64)) -> Option<Member> {
    let mut listing = json!({ "name": path, "size": bytes });
    if let (Some(kind), Some(members)) = (known_kind(&path), listing.as_object_mut()) {
        members.insert("mimeType".into(), kind.into());
    }
    let uri = format!("{SCHEME}{}", encoded(&path));
    // A URI is the end of an entry's name.
    (uri.len() < limits::ENTRY_NAME_BYTES_MAX / 2).then_some(Member { listing: raw(&listing)?, name: path, uri })
}

fn look(shown: Arc<Shown>, uri: String, workspace: Arc<Workspace>) -> Look {
    Arc::new(move || {
        let (shown, uri, workspace) = (Arc::clone(&shown), uri.clone(), Arc::clone(&workspace));
        Box::pin(async move { tokio::task::spawn_blocking(move || shown.mark(&uri, &workspace)).await.ok()? })
    })
}

impl Tool for Files {
    fn definition(&self) -> ToolDefinition {
        let what = "A file of the workspace, by its path from the workspace's folder.";
        let listing = json!({ "name": "files", "title": "Files of the workspace", "description": what });
        entry(CallKind::Template, &format!("{SCHEME}{{+path}}"), what, listing)
    }

    fn check(&self, arguments: &Value, cx: &Cx) -> Result<(), ToolError> {
        match cx.kind {
            CallKind::Completion => Ok(()),
            _ => self.shown.locate(&Confined::open(&cx.workspace)?, uri(arguments)).map(drop),
        }
    }

    fn preview(&self, arguments: &Value, _: &Cx) -> Option<String> {
        Some(crate::text::visible(uri(arguments)).into_owned())
    }

    fn members<'a>(&'a self, workspace: &'a Arc<Workspace>) -> BoxFuture<'a, Vec<Member>> {
        let (shown, workspace) = (Arc::clone(&self.shown), Arc::clone(workspace));
        let patience = Duration::from_millis(limits::FILES_LISTED_TIMEOUT_MS);
        Box::pin(async move {
            let stop = Stop::of(CancellationToken::new(), Arc::clone(&shown.clock), patience);
            let asked = stop.clone();
            let listed = stoppable(&stop, move || shown.list(&workspace, &asked)).await;
            listed.unwrap_or_default().into_iter().filter_map(member).collect()
        })
    }

    fn call(&self, arguments: Value, cx: Cx) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        let shown = Arc::clone(&self.shown);
        Box::pin(async move {
            if cx.kind == CallKind::Subscription {
                let uri = uri(&arguments).to_owned();
                self.followed.follow(&uri, 1, look(shown, uri.clone(), cx.workspace)).await?;
                return Ok(ToolOutput { structured: Some(json!({})), ..ToolOutput::default() });
            }
            let work = on_thread(cx, move |run| match run.cx.kind {
                CallKind::Completion => shown.complete(&arguments, &run.cx.workspace, &run.stop),
                _ => shown.read(uri(&arguments), &run.cx.workspace),
            });
            work.await.map(|said| ToolOutput { structured: Some(said), ..ToolOutput::default() })
        })
    }
}
