//! Walking a folder of the workspace in order: ignore files are respected, links are not followed, what is protected
//! is not there, and every folder is opened from its parent.

use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::ops::ControlFlow;

use cap_std::fs::{Dir, Metadata};
use globset::{GlobBuilder, GlobMatcher};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use tollgate_types::ToolError;

use super::place::{Place, open_file, open_folder};
use super::protected::{Id, id};
use super::workspace::Confined;
use crate::typed::Stop;

/// Folders within folders.
pub(crate) const DEPTH_MAX: u32 = 64;
/// Entries that one walk looks at.
const ENTRIES_MAX: u64 = 200_000;
const IGNORE_FILE_BYTES_MAX: u64 = 1024 * 1024;
const IGNORE_FILES: [&str; 2] = [".gitignore", ".ignore"];

/// What a walk passes over.
pub(crate) struct Options<'a> {
    /// How many folders deep; 1 is the folder itself.
    pub(crate) depth_max: u32,
    /// Only names that fit.
    pub(crate) glob: Option<&'a Glob>,
    /// Names that begin with a point too.
    pub(crate) include_hidden: bool,
}

/// What a walk meets.
pub(crate) struct Entry<'a> {
    /// The folder it is in.
    pub(crate) folder: &'a Dir,
    /// Its name there.
    pub(crate) name: &'a OsStr,
    /// Its path from the workspace's folder.
    pub(crate) path: &'a str,
    /// What it is; a link is a link.
    pub(crate) meta: &'a Metadata,
}

/// How a walk went.
#[derive(Debug, Default)]
pub(crate) struct Walked {
    /// Entries left out as hidden or ignored.
    pub(crate) hidden: u64,
    /// Folders that could not be read.
    pub(crate) unreadable: u64,
    /// Whether it ended early.
    pub(crate) is_cut: bool,
    entries: u64,
}

/// A pattern for names, or with a slash for paths below the folder that is walked.
pub(crate) struct Glob {
    matcher: GlobMatcher,
    is_path: bool,
}

impl Glob {
    /// # Errors
    /// `invalid_arguments` at `/glob`.
    pub(crate) fn new(glob: &str) -> Result<Self, ToolError> {
        let matcher = GlobBuilder::new(glob).literal_separator(true).build().map_err(|error| {
            ToolError::invalid("/glob", format!("not a glob: {}", error.kind()))
                .with_hint("write it as `*.rs`, `src/**/*.rs` or `*.{md,txt}`")
        })?;
        Ok(Self { matcher: matcher.compile_matcher(), is_path: glob.contains('/') })
    }

    pub(crate) fn fits(&self, name: &OsStr, below: &str) -> bool {
        if self.is_path { self.matcher.is_match(below) } else { self.matcher.is_match(name) }
    }
}

/// Walks the folder at `place`, each folder's entries by name.
pub(crate) fn walk<F>(place: &Place<'_>, options: &Options<'_>, stop: &Stop, visit: F) -> Result<Walked, ToolError>
where
    F: FnMut(&Entry<'_>) -> ControlFlow<()>,
{
    let ignores = place.ancestors().map(|(folder, path)| ignores_of(folder, &path)).collect();
    let start = place.path();
    let path = if start == "." { String::new() } else { start };
    let start_len = if path.is_empty() { 0 } else { path.len() + 1 };
    let confined = place.confined();
    let mut walk = Walk { confined, options, stop, visit, ignores, start_len, walked: Walked::default() };
    let flow = walk.descend(place.folder(), place.folder_id(), &path, 1)?;
    walk.walked.is_cut |= flow.is_break();
    Ok(walk.walked)
}

struct Walk<'a, F> {
    confined: &'a Confined,
    options: &'a Options<'a>,
    stop: &'a Stop,
    visit: F,
    /// From the workspace's folder to the one that is being walked.
    ignores: Vec<Gitignore>,
    start_len: usize,
    walked: Walked,
}

impl<F: FnMut(&Entry<'_>) -> ControlFlow<()>> Walk<'_, F> {
    fn descend(&mut self, folder: &Dir, folder_id: Id, path: &str, depth: u32) -> Result<ControlFlow<()>, ToolError> {
        let Ok(entries) = folder.entries() else {
            self.walked.unreadable += 1;
            return Ok(ControlFlow::Continue(()));
        };
        let mut found: Vec<(OsString, Metadata)> = Vec::new();
        for entry in entries.flatten() {
            self.walked.entries += 1;
            if self.walked.entries > ENTRIES_MAX {
                return Ok(ControlFlow::Break(()));
            }
            // What vanished meanwhile is not there.
            if let Ok(meta) = entry.metadata() {
                found.push((entry.file_name(), meta));
            }
        }
        found.sort_by(|a, b| a.0.cmp(&b.0));
        for (name, meta) in found {
            self.stop.check()?;
            if self.confined.is_protected(folder_id, &name, &meta) {
                continue;
            }
            let shown = name.to_string_lossy();
            let path = if path.is_empty() { shown.into_owned() } else { format!("{path}/{shown}") };
            if self.is_hidden(&name, &path, meta.is_dir()) {
                self.walked.hidden += 1;
                continue;
            }
            if self.meet(folder, &name, &path, &meta, depth)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn meet(
        &mut self,
        folder: &Dir,
        name: &OsStr,
        path: &str,
        meta: &Metadata,
        depth: u32,
    ) -> Result<ControlFlow<()>, ToolError> {
        let below = path.get(self.start_len..).unwrap_or(path);
        let fits = self.options.glob.is_none_or(|glob| glob.fits(name, below));
        if fits && (self.visit)(&Entry { folder, name, path, meta }).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        if !meta.is_dir() || depth >= self.options.depth_max.min(DEPTH_MAX) {
            return Ok(ControlFlow::Continue(()));
        }
        let Ok((inner, meta)) = open_folder(folder, name) else {
            self.walked.unreadable += 1;
            return Ok(ControlFlow::Continue(()));
        };
        if self.confined.protected().has(&meta) {
            return Ok(ControlFlow::Continue(()));
        }
        self.ignores.push(ignores_of(&inner, path));
        let flow = self.descend(&inner, id(&meta), path, depth + 1);
        self.ignores.pop();
        flow
    }

    fn is_hidden(&self, name: &OsStr, path: &str, is_dir: bool) -> bool {
        if name == ".git" || (!self.options.include_hidden && name.as_encoded_bytes().starts_with(b".")) {
            return true;
        }
        // The deepest ignore file that says anything about it decides, as in git.
        for ignores in self.ignores.iter().rev() {
            match ignores.matched(path, is_dir) {
                Match::None => {}
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
            }
        }
        false
    }
}

fn ignores_of(folder: &Dir, path: &str) -> Gitignore {
    let mut builder = GitignoreBuilder::new(path);
    for name in IGNORE_FILES {
        let Some(text) = read_ignore_file(folder, name) else { continue };
        for line in text.lines() {
            // A line that is no pattern hides nothing, as in git.
            let _ = builder.add_line(None, line);
        }
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

fn read_ignore_file(folder: &Dir, name: &str) -> Option<String> {
    let (file, meta) = open_file(folder, OsStr::new(name)).ok()?;
    if !meta.is_file() {
        return None;
    }
    let mut text = String::new();
    file.take(IGNORE_FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}
