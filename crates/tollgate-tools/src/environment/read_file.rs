//! `read_file`: the lines of one text file.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tollgate_types::{Category, Cx, Execution, Output as Shape, Permission, Risk, ToolDefinition, ToolError};

use super::lines::{Wanted, window};
use super::workspace::Confined;
use crate::text::count;
use crate::typed::{READS, Run, Typed, codes, words};

const LIMIT_LINES: u64 = 2_000;
/// A model reads a file to work on it; what a search result may cost is too little here.
const SHOWN_CHARS_MAX: usize = 40_000;

/// The arguments of `read_file`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// The file, relative to the workspace, such as `src/main.rs`.
    #[schemars(length(min = 1, max = 4096))]
    path: String,
    /// The first line to show, counted from 1.
    #[serde(default = "first_line")]
    #[schemars(range(min = 1))]
    offset: u64,
    /// How many lines to show, at most 20,000.
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1, max = 20000))]
    limit: u64,
}

fn first_line() -> u64 {
    1
}

fn default_limit() -> u64 {
    LIMIT_LINES
}

/// What was read; the lines themselves are the text.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Output {
    /// The file, relative to the workspace, links resolved.
    path: String,
    /// The size of the file.
    bytes: u64,
    /// The first line shown, from 1; 0 for an empty file.
    first_line: u64,
    /// The last line shown.
    last_line: u64,
    /// How many lines the file has; null for a file over 16 MiB that was not read to its end.
    lines_total: Option<u64>,
    /// Whether lines follow that are not shown.
    truncated: bool,
}

pub(crate) struct ReadFile;

impl Typed for ReadFile {
    type Args = Args;
    type Output = Output;

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            title: Some("Read a file".into()),
            when: Some("Use it when you know the path, and before you change a file.".into()),
            when_not: Some(
                "To find text in files use search_files; to see what files there are use list_files; for rows of a \
                 database use query_database; for the rest of a result that was cut use read_result."
                    .into(),
            ),
            category: Category::Environment,
            tags: words(&["file", "text", "lines", "open", "文件", "读取"]),
            aliases: words(&["cat", "view_file", "open_file"]),
            examples: vec![json!({"path": "README.md"}), json!({"path": "src/main.rs", "offset": 120, "limit": 80})],
            annotations: READS,
            risk: Risk::Read,
            permission: Permission::Read,
            execution: Execution { resources: words(&["/path"]), ..Execution::default() },
            output: Shape { max_length: SHOWN_CHARS_MAX, ..Shape::default() },
            errors: codes(&[
                ("NOT_FOUND", "nothing has this path; the hint names the nearest"),
                ("IS_FOLDER", "the path is a folder"),
                ("NOT_A_FILE", "the path is a pipe, a socket or a device"),
                ("BINARY_FILE", "the file is not text"),
                ("NOT_UTF8", "the file is text in another encoding than UTF-8 or UTF-16"),
                ("TOO_LARGE", "the file is UTF-16 and over 16 MiB"),
                ("OUT_OF_RANGE", "the file has fewer lines than `offset`"),
                ("PERMISSION", "the operating system does not allow it"),
            ]),
            ..ToolDefinition::new(
                "read_file",
                "Returns the lines of one text file of the workspace as they are (UTF-8, or UTF-16 with a byte order \
                 mark), 2,000 lines at a time; a line over 2,000 characters is cut with a mark.",
            )
        }
    }

    fn check(&self, args: &Args, cx: &Cx) -> Result<(), ToolError> {
        Confined::open(&cx.workspace)?.locate(&args.path).map(drop)
    }

    fn run(&self, args: Args, run: &Run) -> Result<(String, Output), ToolError> {
        let confined = Confined::open(&run.cx.workspace)?;
        let place = confined.locate(&args.path)?;
        let (file, meta) = place.open_file()?;
        let wanted = Wanted { offset: args.offset.max(1), limit: args.limit.max(1) };
        let window = window(file, meta.len(), &wanted, &run.stop)?;
        if window.lines == 0 && (wanted.offset > 1 || window.lines_total != Some(0)) {
            let total = window.lines_total.unwrap_or(0);
            return Err(ToolError::new(format!("line {} is beyond the end of `{}`", wanted.offset, args.path))
                .with_tool_code("OUT_OF_RANGE")
                .with_hint(format!("the file has {}", count(total, "line"))));
        }
        let last_line = (wanted.offset - 1) + window.lines;
        let truncated = window.lines_total.is_none_or(|total| total > last_line);
        let mut text = window.text;
        if window.lines == 0 {
            "(the file is empty)".clone_into(&mut text);
        } else if truncated || wanted.offset > 1 {
            let of = window.lines_total.map(|total| format!(" of {total}")).unwrap_or_default();
            let on = if truncated { format!("; read on with offset {}", last_line + 1) } else { String::new() };
            text.push_str(&format!("\n[lines {} to {last_line}{of}{on}]", wanted.offset));
        }
        let output = Output {
            path: place.path(),
            bytes: meta.len(),
            first_line: if window.lines == 0 { 0 } else { wanted.offset },
            last_line,
            lines_total: window.lines_total,
            truncated,
        };
        Ok((text, output))
    }
}
