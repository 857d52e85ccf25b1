//! The confinement of the environment tools: a path is walked one component at a time from the workspace's folder,
//! links are resolved by their text, each folder is opened without following anything, and everything on the way is
//! compared by device and inode with what is protected. So neither `..`, links, hard links, mounts nor a change
//! between check and use leads out of the workspace or into Tollgate's own files.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};

use cap_std::fs::{Dir, Metadata};
use tollgate_types::{Code, ToolError, Workspace};

use super::place::{Kind, Place};
use super::protected::{Id, Protected, id};

const PATH_BYTES_MAX: usize = 4_096;
/// As the kernel's own limit.
const LINKS_MAX: usize = 40;

/// The workspace of one run, opened.
pub(crate) struct Confined {
    root: Dir,
    root_id: Id,
    /// The names of the root under which an absolute path lies inside.
    root_paths: Vec<PathBuf>,
    protected: Protected,
    read_only: Protected,
}

impl Confined {
    /// Opens the workspace.
    pub(crate) fn open(workspace: &Workspace) -> Result<Self, ToolError> {
        let shown = workspace.root.display();
        let broken = |error: io::Error| {
            ToolError::new(format!("the workspace folder `{shown}` can not be opened: {error}"))
                .with_tool_code("WORKSPACE")
                .with_hint("the operator must set `workspace` to a folder that exists and may be read")
        };
        let root = Dir::open_ambient_dir(&workspace.root, cap_std::ambient_authority()).map_err(broken)?;
        let root_id = id(&root.dir_metadata().map_err(broken)?);
        let mut root_paths = vec![std::fs::canonicalize(&workspace.root).map_err(broken)?];
        root_paths.extend(std::path::absolute(&workspace.root));
        let protected = Protected::of(&workspace.protected);
        if protected.ids.contains(&root_id) {
            return Err(Protected::refusal(&shown.to_string()));
        }
        let read_only = Protected::of(&workspace.read_only);
        Ok(Self { root, root_id, root_paths, protected, read_only })
    }

    /// Where a path leads. Nothing needs to be there.
    ///
    /// # Errors
    /// `invalid_arguments` for what is no path, `denied` for what is out of reach, `tool_error` for what the file
    /// system says.
    pub(crate) fn locate(&self, path: &str) -> Result<Place<'_>, ToolError> {
        let mut walk = Walk { place: Place::root(self, path), todo: Vec::new(), links: 0 };
        walk.push(self.inside(path)?);
        while let Some(name) = walk.todo.pop() {
            if name == ".." {
                if walk.place.folders.pop().is_none() {
                    return Err(self.outside(path));
                }
            } else if !walk.step(&name)? {
                return walk.end(name);
            }
        }
        Ok(walk.place)
    }

    /// The part of `path` below the root, by its text.
    fn inside<'p>(&self, path: &'p str) -> Result<&'p Path, ToolError> {
        let bad = |message: &str, hint: &str| Err(ToolError::invalid("/path", message).with_hint(hint));
        let bytes = path.as_bytes();
        if path.is_empty() {
            return bad("the path is empty", "`.` is the workspace folder itself");
        }
        if path.len() > PATH_BYTES_MAX {
            return bad("the path is longer than 4096 bytes", "no file can have this path");
        }
        if bytes.contains(&0) {
            return bad("the path contains a NUL character", "give the path without it");
        }
        let has_drive = matches!(bytes, [letter, b':', b'/', ..] if letter.is_ascii_alphabetic());
        if bytes.contains(&b'\\') || has_drive {
            return bad(
                "the path is written as on Windows",
                "write it relative to the workspace with `/`, as `a/b.txt`",
            );
        }
        if path == "~" || path.starts_with("~/") {
            return Err(self.outside(path));
        }
        let path_ref = Path::new(path);
        if path_ref.is_relative() {
            return Ok(path_ref);
        }
        self.below_root(path_ref).ok_or_else(|| self.outside(path))
    }

    fn below_root<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        self.root_paths.iter().find_map(|root| path.strip_prefix(root).ok())
    }

    fn outside(&self, path: &str) -> ToolError {
        let root = self.root_paths.first().map(|root| root.display().to_string()).unwrap_or_default();
        ToolError::with_code(Code::Denied, format!("`{path}` is outside of the workspace")).with_hint(format!(
            "paths are relative to the workspace folder `{root}` and stay within it; list_files shows what is there"
        ))
    }

    pub(super) fn root(&self) -> &Dir {
        &self.root
    }

    pub(super) fn root_id(&self) -> Id {
        self.root_id
    }

    pub(super) fn protected(&self) -> &Protected {
        &self.protected
    }

    /// What may be read and not changed.
    pub(super) fn read_only(&self) -> &Protected {
        &self.read_only
    }

    /// Whether a walk must leave this entry out, by its name or by what it is.
    pub(super) fn is_protected(&self, folder: Id, name: &OsStr, meta: &Metadata) -> bool {
        self.protected.has_name(folder, name) || self.protected.has(meta)
    }
}

/// Whether a file of this name is what a start in its folder would obey.
fn is_configuration(name: &OsStr) -> bool {
    name.eq_ignore_ascii_case("tollgate.toml")
}

/// One resolution under way.
struct Walk<'a> {
    place: Place<'a>,
    /// What is left to walk, last first.
    todo: Vec<OsString>,
    links: usize,
}

impl<'a> Walk<'a> {
    fn push(&mut self, path: &Path) {
        let names = path.components().filter_map(|component| match component {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => None,
        });
        let at = self.todo.len();
        self.todo.extend(names);
        if let Some(added) = self.todo.get_mut(at..) {
            added.reverse();
        }
    }

    /// One component further; false when `name` is no folder and the walk ends.
    fn step(&mut self, name: &OsStr) -> Result<bool, ToolError> {
        let confined = self.place.confined;
        self.place.is_configuration |= is_configuration(name);
        if confined.protected.has_name(self.place.folder_id(), name) {
            return Err(Protected::refusal(&self.place.asked));
        }
        let meta = match self.place.folder().symlink_metadata(name) {
            Ok(meta) => meta,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.place.kind = Kind::Missing;
                return Ok(false);
            }
            Err(error) => return Err(self.place.failed(&error)),
        };
        if confined.protected.has(&meta) {
            return Err(Protected::refusal(&self.place.asked));
        }
        if meta.is_symlink() {
            self.follow(name)?;
            return Ok(true);
        }
        if meta.is_dir() {
            self.place.enter(name)?;
            return Ok(true);
        }
        self.place.kind = Kind::of(&meta);
        Ok(false)
    }

    fn follow(&mut self, name: &OsStr) -> Result<(), ToolError> {
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(ToolError::new(format!("`{}` goes through too many links", self.place.asked))
                .with_tool_code("TOO_MANY_LINKS"));
        }
        let target = self.place.folder().read_link_contents(name).map_err(|error| self.place.failed(&error))?;
        if target.is_relative() {
            self.push(&target);
            return Ok(());
        }
        let confined = self.place.confined;
        let below = confined.below_root(&target).ok_or_else(|| confined.outside(&self.place.asked))?;
        self.place.folders.clear();
        self.push(below);
        Ok(())
    }

    /// The walk ended at `name`: what is left must be names of what does not exist yet.
    fn end(mut self, name: OsString) -> Result<Place<'a>, ToolError> {
        let mut depth = self.place.folders.len() + 1;
        for name in self.todo.iter().rev() {
            depth = if name == ".." { depth.checked_sub(1) } else { Some(depth + 1) }
                .ok_or_else(|| self.place.confined.outside(&self.place.asked))?;
        }
        let goes_on = !self.todo.is_empty();
        let goes_up = self.todo.iter().any(|name| name == "..");
        self.place.is_configuration |= self.todo.iter().any(|name| is_configuration(name));
        self.place.rest.push(name);
        self.place.rest.extend(self.todo.into_iter().rev());
        match self.place.kind {
            Kind::Missing if goes_up => Err(self.place.not_found()),
            Kind::File | Kind::Special(_) if goes_on => {
                let message = format!("`{}` goes through something that is not a folder", self.place.asked);
                Err(ToolError::new(message).with_tool_code("NOT_A_FOLDER"))
            }
            Kind::Missing | Kind::File | Kind::Special(_) | Kind::Folder => Ok(self.place),
        }
    }
}
