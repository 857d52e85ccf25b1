//! `edit_file`: exact text in a file replaced by other text.

use std::fs::File;
use std::io::Read as _;

use cap_std::fs::Metadata;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tollgate_types::{
    Annotations, Category, Concurrency, Cx, Execution, Permission, Risk, ToolDefinition, ToolError, Undo,
};

use super::atomic::{self, Before};
use super::change::{self, Change};
use super::image::{self, Found};
use super::lines::{WHOLE_BYTES_MAX, binary};
use super::place::Place;
use super::workspace::Confined;
use crate::text::{bytes, count, cut, visible};
use crate::typed::{Run, Typed, codes, words};

/// A preview is made while others wait.
const PREVIEW_FILE_BYTES_MAX: u64 = 1024 * 1024;
const PREVIEW_CHARS_MAX: usize = 2_000;
const TOO_LARGE: &str = "TOO_LARGE";

/// The arguments of `edit_file`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// The file, relative to the workspace, such as `src/main.rs`.
    #[schemars(length(min = 1, max = 4096))]
    path: String,
    /// The text to replace, exactly as it stands in the file, indentation included, and long enough to be unique.
    #[schemars(length(min = 1))]
    old_text: String,
    /// The text to put in its place; empty to delete.
    new_text: String,
    /// Whether every occurrence is replaced; otherwise there must be exactly one.
    #[serde(default)]
    replace_all: bool,
}

/// What was changed; the places themselves are the text.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Output {
    /// The file, relative to the workspace, links resolved.
    path: String,
    /// How many places were changed.
    replacements: usize,
    /// The line of the first of them, from 1.
    first_line: usize,
    /// The new size of the file.
    bytes: usize,
}

pub(crate) struct EditFile;

impl Typed for EditFile {
    type Args = Args;
    type Output = Output;

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            title: Some("Edit a file".into()),
            when: Some("Use it to change a part of a file that you have read.".into()),
            when_not: Some("For a new file, or to replace a file as a whole, use write_file.".into()),
            category: Category::Environment,
            tags: words(&["file", "replace", "change", "文件", "修改", "替换"]),
            aliases: words(&["str_replace", "replace_in_file"]),
            examples: vec![
                json!({"path": "src/main.rs", "old_text": "let port = 80;", "new_text": "let port = 8080;"}),
            ],
            annotations: Annotations {
                read_only: Some(false),
                destructive: Some(true),
                idempotent: Some(false),
                open_world: Some(false),
            },
            risk: Risk::Write,
            permission: Permission::Write,
            undo: Undo::BeforeImage,
            execution: Execution {
                concurrency: Concurrency::Sequential,
                resources: words(&["/path"]),
                ..Execution::default()
            },
            errors: codes(&[
                ("NO_MATCH", "old_text is not in the file; the hint names the nearest lines"),
                ("AMBIGUOUS", "old_text is there more than once; the message names the lines"),
                ("TOO_MANY", "old_text is there more than 100,000 times"),
                ("NOT_FOUND", "nothing has this path; the hint names the nearest"),
                ("IS_FOLDER", "the path is a folder"),
                ("NOT_A_FILE", "the path is a pipe, a socket or a device"),
                ("BINARY_FILE", "the file is not text"),
                ("NOT_UTF8", "the file is text in another encoding than UTF-8"),
                (TOO_LARGE, "the file is over 16 MiB"),
                ("READ_ONLY", "the file or its file system may not be written"),
                ("CHANGED", "somebody changed the file meanwhile; nothing was written"),
                ("DISK_FULL", "there is no space; nothing was written"),
                ("PERMISSION", "the operating system does not allow it"),
            ]),
            ..ToolDefinition::new(
                "edit_file",
                "Replaces exact text in one text file of the workspace (UTF-8, at most 16 MiB) and returns the changed \
                 lines as a diff. Line ends, byte order mark and file mode stay as they are.",
            )
        }
    }

    fn check(&self, args: &Args, cx: &Cx) -> Result<(), ToolError> {
        refuse_nothing(args)?;
        Confined::open(&cx.workspace)?.locate(&args.path)?.may_change()
    }

    fn preview(&self, args: &Args, cx: &Cx) -> Option<String> {
        let confined = Confined::open(&cx.workspace).ok()?;
        let place = confined.locate(&args.path).ok()?;
        let (file, _) = place.open_to_change().ok()?;
        let path = place.path();
        match read(&place, &file, PREVIEW_FILE_BYTES_MAX) {
            Ok(text) if change::occurs(&text, &args.old_text) => {
                let change = change::replace(&text, &args.old_text, &args.new_text, args.replace_all).ok()?;
                Some(format!("edit {}:\n{}", visible(&path), visible(&change.diff)))
            }
            Err(error) if error.tool_code.as_deref() == Some(TOO_LARGE) => {
                let (old, new) = (cut(&args.old_text, PREVIEW_CHARS_MAX), cut(&args.new_text, PREVIEW_CHARS_MAX));
                let every = if args.replace_all { "every " } else { "" };
                Some(format!(
                    "edit {}, which is too large to preview: replace {every}\n{}\nby\n{}",
                    visible(&path),
                    visible(&old),
                    visible(&new)
                ))
            }
            Ok(_) | Err(_) => None,
        }
    }

    fn run(&self, args: Args, run: &Run) -> Result<(String, Output), ToolError> {
        refuse_nothing(&args)?;
        let confined = Confined::open(&run.cx.workspace)?;
        let place = confined.locate(&args.path)?;
        let (file, meta, change) = plan(&place, &args)?;
        run.stop.check()?;
        let kept = image::keep(&place, run, Found::File(&file, &meta), Some(change.text.as_bytes()))?;
        atomic::write(&place, run.cx.attempt.as_str(), &[change.text.as_bytes()], Before::File(&meta))?;
        let path = place.path();
        let replacements = u64::try_from(change.replacements).unwrap_or(u64::MAX);
        let (places, diff) = (count(replacements, "replacement"), change.diff.trim_end());
        let text = format!("edited `{path}` ({places}){}\n{diff}", kept.told());
        let output =
            Output { path, replacements: change.replacements, first_line: change.first_line, bytes: change.text.len() };
        Ok((text, output))
    }
}

fn refuse_nothing(args: &Args) -> Result<(), ToolError> {
    if args.old_text.is_empty() {
        return Err(ToolError::invalid("/old_text", "there is nothing to look for")
            .with_hint("write_file makes a new file; to insert, replace a line by itself and what comes with it"));
    }
    if args.old_text == args.new_text {
        return Err(ToolError::invalid("/new_text", "equal to old_text: nothing would change"));
    }
    Ok(())
}

fn plan(place: &Place<'_>, args: &Args) -> Result<(File, Metadata, Change), ToolError> {
    let (file, meta) = place.open_to_change()?;
    let text = read(place, &file, WHOLE_BYTES_MAX)?;
    let change = change::replace(&text, &args.old_text, &args.new_text, args.replace_all)?;
    Ok((file, meta, change))
}

/// The whole text of a file.
fn read(place: &Place<'_>, file: &File, bytes_max: u64) -> Result<String, ToolError> {
    let size = file.metadata().map_err(|error| place.failed(&error))?.len();
    let mut raw = Vec::with_capacity(usize::try_from(size.min(bytes_max)).unwrap_or(0));
    if size <= bytes_max {
        file.take(bytes_max + 1).read_to_end(&mut raw).map_err(|error| place.failed(&error))?;
    }
    let size = size.max(u64::try_from(raw.len()).unwrap_or(u64::MAX));
    if size > bytes_max {
        return Err(ToolError::new(format!("`{}` has {}", place.path(), bytes(size)))
            .with_tool_code(TOO_LARGE)
            .with_hint("only files up to 16 MiB can be edited"));
    }
    let is_binary = raw.contains(&0);
    match String::from_utf8(raw) {
        Ok(text) if !is_binary => Ok(text),
        Ok(_) => Err(binary(size)),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            Err(ToolError::new(format!("`{}` is not UTF-8 at byte {at}", place.path()))
                .with_tool_code("NOT_UTF8")
                .with_hint("the file is binary or in another encoding: convert it to UTF-8 first"))
        }
    }
}
