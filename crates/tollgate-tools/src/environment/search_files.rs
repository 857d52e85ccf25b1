//! `search_files`: lines that fit a pattern, in the files of a folder.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;

use grep_matcher::{LineTerminator, Matcher as _};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, MmapChoice, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkFinish, SinkMatch,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tollgate_types::{Category, Cx, Permission, Risk, ToolDefinition, ToolError};

use super::place::{Kind, Place, open_file};
use super::walk::{DEPTH_MAX, Glob, Options, Walked, walk};
use super::workspace::Confined;
use crate::text::{count, run_end, run_start, visible};
use crate::typed::{READS, Run, Stop, Typed, codes, words};

/// A compiled pattern; a larger one costs seconds before anything is searched.
const REGEX_BYTES_MAX: usize = 2 * 1024 * 1024;
const LIMIT: usize = 100;
/// Matches are counted up to here, so that the total is worth its time.
const TOTAL_MAX: usize = 10_000;
/// What one answer may hold; nothing more is shown then.
const TEXT_BYTES_MAX: usize = 4 * 1024 * 1024;
const LINE_CHARS_MAX: usize = 250;
/// What stands before a match in a line that is cut.
const LEAD_CHARS: usize = 80;
/// The longest run without a space that is shown when it holds the match and would be cut.
const RUN_CHARS_MAX: usize = 200;
/// The longest line that is searched.
const HEAP_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The arguments of `search_files`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// What to look for within a line: a regular expression (Rust syntax, no look-around), or with literal=true the
    /// text itself. At most 1,000 characters.
    #[schemars(length(min = 1, max = 1000))]
    pattern: String,
    /// The folder or file to search, relative to the workspace.
    #[serde(default = "here")]
    #[schemars(length(min = 1, max = 4096))]
    path: String,
    /// Only files that fit this glob: `*.md` by name at any depth, `src/**/*.rs` by path below the folder.
    #[schemars(length(min = 1, max = 1000))]
    glob: Option<String>,
    /// Whether the pattern is plain text.
    #[serde(default)]
    literal: bool,
    /// Whether upper and lower case are the same.
    #[serde(default)]
    ignore_case: bool,
    /// How many lines to show before and after each match, at most 10.
    #[serde(default)]
    #[schemars(range(max = 10))]
    context: usize,
    /// How many matches to show, at most 1,000.
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

/// What was found.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Output {
    /// The matches that are shown, by path and line.
    matches: Vec<Found>,
    /// How many are shown.
    shown: usize,
    /// How many lines match.
    total: usize,
    /// Whether all were counted; otherwise there are at least so many.
    total_is_exact: bool,
    /// How many files were searched.
    files: u64,
}

/// One line that matches.
#[derive(Serialize, JsonSchema)]
struct Found {
    /// The file, relative to the workspace.
    path: String,
    /// The line, from 1.
    line: u64,
    /// Its text; a long one is cut around the match.
    text: String,
}

pub(crate) struct SearchFiles;

impl Typed for SearchFiles {
    type Args = Args;
    type Output = Output;

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            title: Some("Search in files".into()),
            when: Some("Use it to find where something is said or defined before you read a file.".into()),
            when_not: Some("To find files by name use list_files; to read a file you know use read_file.".into()),
            category: Category::Environment,
            tags: words(&["grep", "find", "regex", "text", "搜索", "查找", "文件"]),
            aliases: words(&["grep", "search_code", "find_in_files"]),
            examples: vec![
                json!({"pattern": "fn main", "glob": "*.rs"}),
                json!({"pattern": "库存", "literal": true, "path": "docs", "context": 2}),
            ],
            annotations: READS,
            risk: Risk::Read,
            permission: Permission::Read,
            errors: codes(&[
                ("NOT_FOUND", "nothing has this path; the hint names the nearest"),
                ("NOT_A_FILE", "the path is a pipe, a socket or a device"),
                ("PERMISSION", "the operating system does not allow it"),
            ]),
            ..ToolDefinition::new(
                "search_files",
                "Searches the text files of a folder of the workspace line by line and returns matches as \
                 `path:line: text`, with how many there are; 100 are shown, lines over 250 characters are cut around \
                 the match. Binary and hidden files, and what .gitignore leaves out, are skipped unless path names \
                 them; links are not followed.",
            )
        }
    }

    fn check(&self, args: &Args, cx: &Cx) -> Result<(), ToolError> {
        matcher(args)?;
        if let Some(glob) = &args.glob {
            Glob::new(glob)?;
        }
        Confined::open(&cx.workspace)?.locate(&args.path).map(drop)
    }

    fn run(&self, args: Args, run: &Run) -> Result<(String, Output), ToolError> {
        let matcher = matcher(&args)?;
        let glob = args.glob.as_deref().map(Glob::new).transpose()?;
        let confined = Confined::open(&run.cx.workspace)?;
        let place = confined.locate(&args.path)?;
        let searcher = SearcherBuilder::new()
            .line_number(true)
            // As the matcher's, which takes `\r\n` for one end.
            .line_terminator(LineTerminator::crlf())
            .before_context(args.context)
            .after_context(args.context)
            .binary_detection(BinaryDetection::quit(0))
            .memory_map(MmapChoice::never())
            .heap_limit(Some(HEAP_BYTES_MAX))
            .build();
        let mut search = Search { matcher, searcher, stop: &run.stop, limit: args.limit, result: Results::default() };
        let walked = match place.kind {
            Kind::Folder => search.folder(&place, glob.as_ref())?,
            Kind::File | Kind::Missing | Kind::Special(_) => {
                let (file, _) = place.open_file()?;
                search.file(&file, &place.path());
                Walked::default()
            }
        };
        run.stop.check()?;
        Ok(search.result.finish(&walked, &args))
    }
}

fn matcher(args: &Args) -> Result<RegexMatcher, ToolError> {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(args.ignore_case)
        .fixed_strings(args.literal)
        // Many lines are searched at once, so `^` and `$` must mean each line's.
        .multi_line(true)
        .crlf(true)
        .size_limit(REGEX_BYTES_MAX)
        .dfa_size_limit(REGEX_BYTES_MAX)
        .build(&args.pattern)
        .map_err(|error| {
            let message = error.to_string();
            let reason = message.lines().last().unwrap_or_default().trim_start_matches("error: ");
            ToolError::invalid("/pattern", format!("not a regular expression: {}", visible(reason))).with_hint(
                "set literal=true to look for the text itself; otherwise write `\\` before each of `.*+?()[]{}|^$`, \
                 without look-around, within one line",
            )
        })
}

struct Search<'a> {
    matcher: RegexMatcher,
    searcher: Searcher,
    stop: &'a Stop,
    limit: usize,
    result: Results,
}

impl Search<'_> {
    fn folder(&mut self, place: &Place<'_>, glob: Option<&Glob>) -> Result<Walked, ToolError> {
        // The glob is for files, so it is asked in each folder.
        let options = Options { depth_max: DEPTH_MAX, glob, include_hidden: false };
        walk(place, &options, self.stop, |entry| {
            if !entry.meta.is_file() {
                return ControlFlow::Continue(());
            }
            match open_file(entry.folder, entry.name) {
                Ok((file, meta)) if meta.is_file() && !place.confined().protected().has(&meta) => {
                    self.file(&file, entry.path);
                }
                Ok(_) => {}
                Err(_) => self.result.unreadable += 1,
            }
            if self.result.total >= TOTAL_MAX { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
    }

    fn file(&mut self, file: &File, path: &str) {
        self.result.files += 1;
        let reader = Stoppable { file, stop: self.stop };
        let sink =
            Lines { path, matcher: &self.matcher, limit: self.limit, result: &mut self.result, is_binary: false };
        if self.searcher.search_reader(&self.matcher, reader, sink).is_err() {
            self.result.unreadable += 1;
        }
    }
}

/// A file that ends with an error when the run must.
struct Stoppable<'a> {
    file: &'a File,
    stop: &'a Stop,
}

impl Read for Stoppable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.stop.reason().is_some() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.file.read(buffer)
    }
}

#[derive(Default)]
struct Results {
    text: String,
    matches: Vec<Found>,
    total: usize,
    files: u64,
    binary: u64,
    unreadable: u64,
}

impl Results {
    fn finish(mut self, walked: &Walked, args: &Args) -> (String, Output) {
        let is_cut = walked.is_cut || self.total >= TOTAL_MAX;
        let shown = self.matches.len();
        let files = count(self.files, "file");
        let mut notes = Vec::new();
        let least = if is_cut { "at least " } else { "" };
        if self.total == 0 {
            notes.push(format!("no match in {files}"));
        } else if shown < self.total || is_cut {
            let total = self.total;
            notes.push(format!("{shown} of {least}{total} matches shown; narrow it with path or glob, or raise limit"));
        } else {
            notes.push(format!("{} matched in {files}", count(u64::try_from(shown).unwrap_or(0), "line")));
        }
        if self.total == 0 && walked.is_cut {
            notes.push("there are more files than were searched; narrow it with path or glob".to_owned());
        }
        if self.total == 0 && !args.ignore_case {
            notes.push("upper and lower case differ".to_owned());
        }
        let skipped = [
            (self.binary, "binary"),
            (self.unreadable + walked.unreadable, "unreadable"),
            (walked.hidden, "hidden or ignored"),
        ];
        notes.extend(skipped.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what} skipped")));
        let _ = write!(self.text, "[{}]", notes.join("; "));
        let output =
            Output { matches: self.matches, shown, total: self.total, total_is_exact: !is_cut, files: self.files };
        (self.text, output)
    }
}

struct Lines<'a> {
    path: &'a str,
    matcher: &'a RegexMatcher,
    limit: usize,
    result: &'a mut Results,
    is_binary: bool,
}

impl Lines<'_> {
    fn is_full(&self) -> bool {
        self.result.matches.len() >= self.limit || self.result.text.len() > TEXT_BYTES_MAX
    }
}

impl Sink for Lines<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, io::Error> {
        self.result.total += 1;
        if !self.is_full() {
            let line = found.line_number().unwrap_or(0);
            let at = self.matcher.find(found.bytes()).ok().flatten().map_or(0, |at| at.start());
            let text = cut_around(found.bytes(), at);
            let _ = writeln!(self.result.text, "{}:{line}: {text}", self.path);
            self.result.matches.push(Found { path: self.path.to_owned(), line, text });
        }
        Ok(self.result.total < TOTAL_MAX)
    }

    fn context(&mut self, _: &Searcher, context: &SinkContext<'_>) -> Result<bool, io::Error> {
        let is_after_last = matches!(context.kind(), SinkContextKind::After);
        if !self.is_full() || (is_after_last && self.result.total == self.result.matches.len()) {
            let line = context.line_number().unwrap_or(0);
            let _ = writeln!(self.result.text, "{}-{line}- {}", self.path, cut_around(context.bytes(), 0));
        }
        Ok(true)
    }

    fn context_break(&mut self, _: &Searcher) -> Result<bool, io::Error> {
        if !self.is_full() {
            self.result.text.push_str("--\n");
        }
        Ok(true)
    }

    fn binary_data(&mut self, _: &Searcher, _: u64) -> Result<bool, io::Error> {
        self.is_binary = true;
        Ok(false)
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> Result<(), io::Error> {
        if self.is_binary || finish.binary_byte_offset().is_some() {
            self.result.binary += 1;
        }
        Ok(())
    }
}

/// One line as text; a long one from a little before the byte `at`, and in whole runs: half of a secret is not
/// recognised by whoever redacts.
fn cut_around(line: &[u8], at: usize) -> String {
    let line = line.trim_ascii_end();
    let before = String::from_utf8_lossy(line.get(..at).unwrap_or(line));
    let text = String::from_utf8_lossy(line);
    let total = text.chars().count();
    if total <= LINE_CHARS_MAX {
        return text.into_owned();
    }
    let skip = before.chars().count().saturating_sub(LEAD_CHARS).min(total - LINE_CHARS_MAX);
    let byte_of = |chars: usize| text.char_indices().nth(chars).map_or(text.len(), |(byte, _)| byte);
    let (mut from, mut to) = (run_end(&text, byte_of(skip)), run_start(&text, byte_of(skip + LINE_CHARS_MAX)));
    let at = before.len();
    let after = text.get(at..).and_then(|rest| rest.chars().next()).map_or(at, |c| at + c.len_utf8());
    let (start, end) = (run_start(&text, at), run_end(&text, after));
    let run_chars = text.get(start..end).unwrap_or_default().chars().count();
    if run_chars <= RUN_CHARS_MAX {
        (from, to) = (from.min(start), to.max(end));
    } else if start < from || to < end {
        return format!("… [{run_chars} characters without a space]");
    }
    let part = text.get(from..to).unwrap_or_default();
    let lead = if from > 0 { "…" } else { "" };
    let end = if to < text.len() { "…" } else { "" };
    format!("{lead}{part}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_cut_around_its_match() {
        let line = format!("{}键盘{}", "无".repeat(400), "线".repeat(400));
        let at = line.find("键盘").unwrap();
        let cut = cut_around(line.as_bytes(), at);
        assert!(cut.starts_with('…') && cut.ends_with('…') && cut.contains("键盘"));
        assert_eq!(cut.chars().count(), LINE_CHARS_MAX + 2);
        assert_eq!(cut_around("短\r\n".as_bytes(), 0), "短");
    }

    #[test]
    fn a_run_in_a_long_line_is_shown_whole_or_not_at_all() {
        let (word, secret) = ("ab ".repeat(60), "hunter2".repeat(20));
        let line = format!("{word}{secret} {word}needle{word}{secret} {word}");
        for at in 0..line.len() {
            let cut = cut_around(line.as_bytes(), at);
            let halves = cut.replace(&secret, "");
            assert!(!halves.contains("hunter2"), "{at}: {cut}");
            assert!(cut.chars().count() <= LINE_CHARS_MAX + RUN_CHARS_MAX + 2);
        }
        let at = line.find("needle").unwrap();
        assert!(cut_around(line.as_bytes(), at).contains("needle"));
        let long = format!("a {} b", "x".repeat(1_000));
        assert_eq!(cut_around(long.as_bytes(), 500), "… [1000 characters without a space]");
        assert_eq!(cut_around(long.as_bytes(), 0), "a …");
    }
}
