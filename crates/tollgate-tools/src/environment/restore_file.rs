//! `restore_file`: a file as it was before a call changed it. Only an undo calls it.

use std::fs::File;

use cap_std::fs::{Metadata, Permissions, PermissionsExt as _};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tollgate_types::{
    Annotations, AttemptId, BeforeImage, Category, Code, Concurrency, Cx, Execution, FileImage, Permission,
    RESTORE_FILE, Risk, ToolDefinition, ToolError, Undo,
};

use super::atomic::{self, Before};
use super::image::{self, Found, Kept};
use super::place::{Kind, Place};
use super::workspace::Confined;
use crate::text::{bytes, visible};
use crate::typed::{Run, Typed, codes, words};

/// The arguments of `restore_file`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// The attempt whose change is taken back.
    #[schemars(length(min = 1, max = 64))]
    attempt: String,
    /// The file that it changed, relative to the workspace.
    #[schemars(length(min = 1, max = 4096))]
    path: String,
}

/// What was put back.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Output {
    /// The file, relative to the workspace.
    path: String,
    /// Its size now; none where the file was taken away, because there was none before.
    bytes: Option<u64>,
}

pub(crate) struct RestoreFile;

impl Typed for RestoreFile {
    type Args = Args;
    type Output = Output;

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            title: Some("Put a file back".into()),
            when: Some("It takes back one call of write_file or edit_file.".into()),
            when_not: Some("It is not for models: `tollgate undo` calls it.".into()),
            category: Category::Environment,
            tags: words(&["file", "undo", "文件", "撤销"]),
            examples: vec![json!({"attempt": "0192f0c1-0000-7000-8000-000000000001", "path": "notes/todo.md"})],
            annotations: Annotations {
                read_only: Some(false),
                destructive: Some(true),
                idempotent: Some(false),
                open_world: Some(false),
            },
            risk: Risk::Write,
            permission: Permission::Write,
            undo: Undo::BeforeImage,
            execution: Execution { concurrency: Concurrency::Sequential, ..Execution::default() },
            errors: codes(&[
                ("NOT_KEPT", "nothing is kept of what was there before"),
                ("READ_ONLY", "the file or its file system may not be written"),
                ("CHANGED", "somebody changed the file meanwhile; nothing was written"),
                ("DISK_FULL", "there is no space; nothing was written"),
                ("PERMISSION", "the operating system does not allow it"),
            ]),
            ..ToolDefinition::new(
                RESTORE_FILE,
                "Puts one file of the workspace back as it was before a call, if it still is what that call left.",
            )
        }
    }

    fn check(&self, args: &Args, cx: &Cx) -> Result<(), ToolError> {
        Confined::open(&cx.workspace)?.locate(&args.path)?.may_change()
    }

    fn preview(&self, args: &Args, cx: &Cx) -> Option<String> {
        let image = kept(args, cx).ok()?;
        let path = visible(&image.path);
        Some(match image.before {
            Some(file) => format!("put {path} back as it was ({})", bytes(length(&file))),
            None => format!("take {path} away: it did not exist before"),
        })
    }

    fn run(&self, args: Args, run: &Run) -> Result<(String, Output), ToolError> {
        let image = kept(&args, &run.cx)?;
        let confined = Confined::open(&run.cx.workspace)?;
        let mut place = confined.locate(&args.path)?;
        place.may_change()?;
        let now = now(&place)?;
        let left =
            now.as_ref().map(|(file, _)| image::sha256(file)).transpose().map_err(|error| place.failed(&error))?;
        if place.path() != image.path || left != image.after {
            return Err(is_not_as_left(&args));
        }
        run.stop.check()?;
        let (kept, size) = put_back(&mut place, run, now.as_ref(), image.before.as_ref())?;
        let path = place.path();
        let done = match size {
            Some(size) => format!("put `{path}` back ({})", bytes(size)),
            None => format!("took `{path}` away: it did not exist before"),
        };
        Ok((format!("{done}{}", kept.told()), Output { path, bytes: size }))
    }
}

fn kept(args: &Args, cx: &Cx) -> Result<BeforeImage, ToolError> {
    let attempt = AttemptId::new(args.attempt.as_str());
    let image = cx.images.as_ref().map(|images| images.image(&attempt)).transpose();
    image.map_err(ToolError::new)?.flatten().ok_or_else(|| {
        ToolError::new(format!("nothing is kept of what attempt {attempt} changed"))
            .with_tool_code("NOT_KEPT")
            .with_hint("what was there before is kept for 7 days, and as long as there is room")
            .nothing_happened()
    })
}

/// The file that stands there.
fn now(place: &Place<'_>) -> Result<Option<(File, Metadata)>, ToolError> {
    match place.kind {
        Kind::Missing => Ok(None),
        Kind::File | Kind::Folder | Kind::Special(_) => place.open_to_change().map(Some),
    }
}

/// Nobody's later change is lost by an undo.
fn is_not_as_left(args: &Args) -> ToolError {
    ToolError::with_code(Code::Conflict, format!("`{}` is not as attempt {} left it", args.path, args.attempt))
        .with_hint("somebody changed it since: undo the later change first, or change the file by hand")
        .nothing_happened()
}

fn put_back(
    place: &mut Place<'_>,
    run: &Run,
    now: Option<&(File, Metadata)>,
    before: Option<&FileImage>,
) -> Result<(Kept, Option<u64>), ToolError> {
    let attempt = run.cx.attempt.as_str();
    if now.is_none() {
        place.create_folders()?;
    }
    let found = now.map_or(Found::Nothing, |(file, meta)| Found::File(file, meta));
    let kept = image::keep(place, run, found, before.map(|file| file.bytes.as_slice()))?;
    match (now, before) {
        (Some((_, meta)), Some(file)) => {
            atomic::write(place, attempt, &[&file.bytes], Before::File(meta))?;
        }
        (None, Some(file)) => {
            atomic::write(place, attempt, &[&file.bytes], Before::Nothing)?;
            let mode = Permissions::from_mode(file.mode & 0o777);
            place.folder().set_permissions(place.name(), mode).map_err(|error| place.failed(&error))?;
        }
        (Some((_, meta)), None) => atomic::remove(place, meta)?,
        (None, None) => {}
    }
    Ok((kept, before.map(length)))
}

fn length(file: &FileImage) -> u64 {
    u64::try_from(file.bytes.len()).unwrap_or(u64::MAX)
}
