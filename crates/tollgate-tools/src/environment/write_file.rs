//! `write_file`: a whole file, new or replaced.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tollgate_types::{Annotations, Category, Cx, Execution, Permission, Risk, ToolDefinition, ToolError, Undo};

use super::atomic::{self, Before};
use super::image::{self, Found, Kept};
use super::place::{Kind, Place};
use super::workspace::Confined;
use crate::text::{bytes, cut, visible};
use crate::typed::{Run, Typed, codes, words};

const PREVIEW_CHARS_MAX: usize = 4_000;

/// The arguments of `write_file`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// The file, relative to the workspace, such as `notes/2026.md`. Folders that are missing are made.
    #[schemars(length(min = 1, max = 4096))]
    path: String,
    /// The whole content, as UTF-8. It is written as it is; end it with a line break where the format wants one.
    content: String,
    /// Whether an existing file may be replaced.
    #[serde(default)]
    overwrite: bool,
}

/// What was written.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Output {
    /// The file, relative to the workspace, links resolved.
    path: String,
    /// The size of the new content.
    bytes: u64,
    /// Whether the file is new; otherwise one was replaced.
    created: bool,
}

pub(crate) struct WriteFile;

impl Typed for WriteFile {
    type Args = Args;
    type Output = Output;

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            title: Some("Write a file".into()),
            when: Some("Use it for a new file, or to replace a whole file with overwrite=true.".into()),
            when_not: Some("To change a part of an existing file use edit_file.".into()),
            category: Category::Environment,
            tags: words(&["file", "create", "save", "文件", "写入", "保存"]),
            aliases: words(&["create_file", "save_file"]),
            examples: vec![json!({"path": "notes/todo.md", "content": "- call the supplier\n"})],
            annotations: Annotations {
                read_only: Some(false),
                destructive: Some(true),
                idempotent: Some(true),
                open_world: Some(false),
            },
            risk: Risk::Write,
            permission: Permission::Write,
            undo: Undo::BeforeImage,
            execution: Execution { resources: words(&["/path"]), ..Execution::default() },
            errors: codes(&[
                ("EXISTS", "the file exists and overwrite is false"),
                ("IS_FOLDER", "the path is a folder"),
                ("NOT_A_FILE", "the path is a pipe, a socket or a device"),
                ("NOT_A_FOLDER", "a part of the path before the last is not a folder"),
                ("READ_ONLY", "the file or its file system may not be written"),
                ("CHANGED", "somebody changed the file meanwhile; nothing was written"),
                ("DISK_FULL", "there is no space; nothing was written"),
                ("PERMISSION", "the operating system does not allow it"),
            ]),
            ..ToolDefinition::new(
                "write_file",
                "Writes one text file of the workspace as a whole and returns its size and whether it is new. Readers \
                 see the old content or the new, never a part. An existing file is replaced, and its old content lost, \
                 only with overwrite=true.",
            )
        }
    }

    fn check(&self, args: &Args, cx: &Cx) -> Result<(), ToolError> {
        Confined::open(&cx.workspace)?.locate(&args.path)?.may_change()?;
        names_a_file(&args.path)
    }

    fn preview(&self, args: &Args, cx: &Cx) -> Option<String> {
        let confined = Confined::open(&cx.workspace).ok()?;
        let place = confined.locate(&args.path).ok()?;
        let size = bytes(u64::try_from(args.content.len()).ok()?);
        let verb = match place.kind {
            Kind::File => "replace",
            Kind::Missing => "create",
            Kind::Folder | Kind::Special(_) => return None,
        };
        let content = cut(&args.content, PREVIEW_CHARS_MAX);
        Some(format!("{verb} {} ({size}):\n{}", visible(&place.path()), visible(&content)))
    }

    fn run(&self, args: Args, run: &Run) -> Result<(String, Output), ToolError> {
        let confined = Confined::open(&run.cx.workspace)?;
        let mut place = confined.locate(&args.path)?;
        place.may_change()?;
        names_a_file(&args.path)?;
        let content = args.content.as_bytes();
        let (created, kept) = match place.kind {
            Kind::Folder => return Err(place.is_folder()),
            Kind::Special(what) => return Err(place.is_special(what)),
            Kind::File if !args.overwrite => return Err(atomic::exists(&args.path)),
            Kind::File => (false, replace(&place, run, content)?),
            Kind::Missing => {
                place.create_folders()?;
                let kept = image::keep(&place, run, Found::Nothing, Some(content))?;
                atomic::write(&place, run.cx.attempt.as_str(), &[content], Before::Nothing)?;
                (true, kept)
            }
        };
        let size = u64::try_from(content.len()).unwrap_or(u64::MAX);
        let path = place.path();
        let done = if created { "created" } else { "replaced" };
        let text = format!("{done} `{path}` ({}){}", bytes(size), kept.told());
        Ok((text, Output { path, bytes: size, created }))
    }
}

fn replace(place: &Place<'_>, run: &Run, content: &[u8]) -> Result<Kept, ToolError> {
    let (file, meta) = place.open_to_change()?;
    let kept = image::keep(place, run, Found::File(&file, &meta), Some(content))?;
    atomic::write(place, run.cx.attempt.as_str(), &[content], Before::File(&meta))?;
    Ok(kept)
}

fn names_a_file(path: &str) -> Result<(), ToolError> {
    if path.ends_with('/') {
        return Err(ToolError::invalid("/path", "the path names a folder").with_hint("end it with the file's name"));
    }
    Ok(())
}
