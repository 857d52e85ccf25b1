//! `list_files`: what is in a folder.

use std::fmt::Write as _;
use std::ops::ControlFlow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tollgate_types::{Category, Cx, Permission, Risk, ToolDefinition, ToolError};

use super::place::Kind;
use super::walk::{DEPTH_MAX, Entry, Glob, Options, Walked, walk};
use super::workspace::Confined;
use crate::text::{bytes, count, visible};
use crate::typed::{READS, Run, Typed, codes, words};

const LIMIT: usize = 200;

/// The arguments of `list_files`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// The folder, relative to the workspace.
    #[serde(default = "here")]
    #[schemars(length(min = 1, max = 4096))]
    path: String,
    /// Only what fits this glob: `*.md` by name at any depth, `src/**/*.rs` by path below the folder.
    #[schemars(length(min = 1, max = 1000))]
    glob: Option<String>,
    /// How many folders deep, 1 to 64; without it 1, or with a glob all.
    #[schemars(range(min = 1, max = 64))]
    depth: Option<u32>,
    /// Whether names that begin with a point are shown.
    #[serde(default)]
    include_hidden: bool,
    /// How many entries to show, at most 1,000.
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 1000))]
    limit: usize,
}

fn here() -> String {
    ".".to_owned()
}

fn default_limit() -> usize {
    LIMIT
}

/// What is there.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Output {
    /// The folder, relative to the workspace.
    path: String,
    /// The entries, by path.
    entries: Vec<Listed>,
    /// How many are shown.
    shown: usize,
    /// How many there are.
    total: usize,
    /// Whether all were counted; otherwise there are at least so many.
    total_is_exact: bool,
}

/// One entry.
#[derive(Serialize, JsonSchema)]
struct Listed {
    /// The path, relative to the workspace.
    path: String,
    /// What it is.
    kind: ListedKind,
    /// The size of a file in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
}

/// What an entry is.
#[derive(Clone, Copy, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ListedKind {
    File,
    Folder,
    Link,
    Other,
}

pub(crate) struct ListFiles;

impl Typed for ListFiles {
    type Args = Args;
    type Output = Output;

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            title: Some("List files".into()),
            when: Some("Use it to see what is there, or to find a file by its name.".into()),
            when_not: Some("To find files by what is in them use search_files; to read one use read_file.".into()),
            category: Category::Environment,
            tags: words(&["folder", "directory", "glob", "find", "文件", "目录", "列表"]),
            aliases: words(&["ls", "list_directory", "find_files"]),
            examples: vec![json!({}), json!({"path": "src", "glob": "*.rs"})],
            annotations: READS,
            risk: Risk::Read,
            permission: Permission::Read,
            errors: codes(&[
                ("NOT_FOUND", "nothing has this path; the hint names the nearest"),
                ("NOT_A_FOLDER", "the path is not a folder"),
                ("PERMISSION", "the operating system does not allow it"),
            ]),
            ..ToolDefinition::new(
                "list_files",
                "Lists the files and folders of a folder of the workspace, sorted, with sizes; folders end in `/`. \
                 Hidden entries, and what .gitignore leaves out, are not shown; links are not followed. Returns up to \
                 200 entries and how many there are.",
            )
        }
    }

    fn check(&self, args: &Args, cx: &Cx) -> Result<(), ToolError> {
        if let Some(glob) = &args.glob {
            Glob::new(glob)?;
        }
        Confined::open(&cx.workspace)?.locate(&args.path).map(drop)
    }

    fn run(&self, args: Args, run: &Run) -> Result<(String, Output), ToolError> {
        let glob = args.glob.as_deref().map(Glob::new).transpose()?;
        let confined = Confined::open(&run.cx.workspace)?;
        let place = confined.locate(&args.path)?;
        match place.kind {
            Kind::Folder => {}
            Kind::Missing => return Err(place.not_found()),
            Kind::File | Kind::Special(_) => {
                return Err(ToolError::new(format!("`{}` is not a folder", args.path))
                    .with_tool_code("NOT_A_FOLDER")
                    .with_hint("read_file shows what is in a file"));
            }
        }
        let depth_max = args.depth.unwrap_or(if glob.is_some() { DEPTH_MAX } else { 1 });
        let options = Options { depth_max, glob: glob.as_ref(), include_hidden: args.include_hidden };
        let mut text = String::new();
        let mut entries = Vec::new();
        let mut total = 0;
        let walked = walk(&place, &options, &run.stop, |entry| {
            total += 1;
            if entries.len() < args.limit {
                entries.push(list(entry, &mut text));
            }
            ControlFlow::Continue(())
        })?;
        text.push_str(&summary(&entries, total, &walked, args.include_hidden));
        let shown = entries.len();
        Ok((text, Output { path: place.path(), entries, shown, total, total_is_exact: !walked.is_cut }))
    }
}

fn list(entry: &Entry<'_>, text: &mut String) -> Listed {
    let (kind, size) = match () {
        () if entry.meta.is_dir() => (ListedKind::Folder, None),
        () if entry.meta.is_symlink() => (ListedKind::Link, None),
        () if entry.meta.is_file() => (ListedKind::File, Some(entry.meta.len())),
        () => (ListedKind::Other, None),
    };
    // A line end in a name would forge an entry.
    let shown = visible(entry.path);
    let _ = match kind {
        ListedKind::Folder => writeln!(text, "{shown}/"),
        ListedKind::File => writeln!(text, "{shown} ({})", bytes(entry.meta.len())),
        ListedKind::Other => writeln!(text, "{shown} (not a file)"),
        ListedKind::Link => match entry.folder.read_link_contents(entry.name) {
            Ok(target) => writeln!(text, "{shown} -> {}", visible(&target.to_string_lossy())),
            Err(_) => writeln!(text, "{shown} (link)"),
        },
    };
    Listed { path: entry.path.to_owned(), kind, bytes: size }
}

fn summary(entries: &[Listed], total: usize, walked: &Walked, include_hidden: bool) -> String {
    let mut notes = Vec::new();
    if entries.is_empty() {
        notes.push("nothing to show".to_owned());
    } else if entries.len() < total || walked.is_cut {
        let least = if walked.is_cut { "at least " } else { "" };
        let (shown, of) = (entries.len(), format!("{least}{total}"));
        notes.push(format!("{shown} of {of} shown; narrow it with path or glob, or raise limit"));
    } else {
        notes.push(format!("{total} in all"));
    }
    if walked.hidden > 0 {
        let why = if include_hidden { "ignored" } else { "hidden or ignored" };
        notes.push(format!("{} {why}", walked.hidden));
    }
    if walked.unreadable > 0 {
        notes.push(format!("{} could not be read", count(walked.unreadable, "folder")));
    }
    format!("[{}]", notes.join("; "))
}
