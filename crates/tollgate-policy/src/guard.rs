//! A tool's own rules about its arguments: `security.allowed_paths` and `security.blocked_patterns`, compiled.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use regex::{RegexSet, RegexSetBuilder};
use serde_json::Value;
use tollgate_types::{Security, ToolDefinition};

use crate::PolicyError;

/// The compiled form of one tool's `blocked_patterns`.
const PATTERNS_BYTES_MAX: usize = 1024 * 1024;

/// Property names that mean a path. Suffixes after `_` or `-`, and camelCase ones, count too.
const PATH_WORDS: [&str; 17] = [
    "path",
    "paths",
    "file",
    "files",
    "filepath",
    "filepaths",
    "filename",
    "filenames",
    "dir",
    "dirs",
    "directory",
    "directories",
    "folder",
    "folders",
    "workdir",
    "cwd",
    "pathname",
];
/// The same in Chinese, where nothing parts one word of a name from the next.
const PATH_WORDS_CHINESE: [&str; 5] = ["路径", "文件", "文件名", "目录", "文件夹"];

pub(crate) struct Guard {
    security: Security,
    paths: Option<GlobSet>,
    blocked: RegexSet,
}

/// What a guard found.
pub(crate) enum Breach<'a> {
    Path(&'a str),
    Pattern(&'a str),
}

impl Guard {
    pub(crate) fn is_needed(security: &Security) -> bool {
        !(security.allowed_paths.is_empty() && security.blocked_patterns.is_empty())
    }

    pub(crate) fn compile(tool: &ToolDefinition) -> Result<Self, PolicyError> {
        let paths = match tool.security.allowed_paths.as_slice() {
            [] => None,
            globs => Some(compile_paths(&tool.name, globs)?),
        };
        let build = |patterns: &[String]| RegexSetBuilder::new(patterns).size_limit(PATTERNS_BYTES_MAX).build();
        let patterns = tool.security.blocked_patterns.as_slice();
        let blocked = build(patterns).map_err(|all| {
            let bad = patterns.iter().find_map(|one| Some((one, build(std::slice::from_ref(one)).err()?)));
            let (pattern, problem) = bad.map_or((patterns.join("`, `"), all), |(one, error)| (one.clone(), error));
            let problem =
                problem.to_string().lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            PolicyError::BadPattern { tool: tool.name.clone(), pattern, problem }
        })?;
        Ok(Self { security: tool.security.clone(), paths, blocked })
    }

    /// Whether this was compiled from what the tool says now.
    pub(crate) fn fits(&self, security: &Security) -> bool {
        self.security.allowed_paths == security.allowed_paths
            && self.security.blocked_patterns == security.blocked_patterns
    }

    /// Whether a path fits one of the globs.
    pub(crate) fn allows(&self, path: &str) -> bool {
        let globs = self.paths.as_ref();
        globs.is_none_or(|globs| normalise(path).is_some_and(|path| globs.is_match(path)))
    }

    /// The paths among the arguments.
    pub(crate) fn paths<'a>(&self, arguments: &'a Value) -> Vec<&'a str> {
        let mut found = Vec::new();
        gather(arguments, false, &mut found);
        found
    }

    /// The first text among the arguments that breaks a rule.
    pub(crate) fn check<'a>(&'a self, arguments: &'a Value) -> Result<(), Breach<'a>> {
        self.visit(arguments, false)
    }

    fn visit<'a>(&'a self, value: &'a Value, is_path: bool) -> Result<(), Breach<'a>> {
        match value {
            Value::String(text) => {
                self.check_text(text)?;
                if is_path && !self.allows(text) { Err(Breach::Path(text)) } else { Ok(()) }
            }
            Value::Array(items) => items.iter().try_for_each(|item| self.visit(item, is_path)),
            Value::Object(object) => object.iter().try_for_each(|(key, value)| {
                self.check_text(key)?;
                self.visit(value, is_path || means_path(key))
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        }
    }

    /// Tries a text as it is, and as it looks.
    fn check_text(&self, text: &str) -> Result<(), Breach<'_>> {
        if self.blocked.is_empty() {
            return Ok(());
        }
        let first = |text: &str| self.blocked.matches(text).iter().next();
        let looks = || looks(text).and_then(|text| first(&text));
        let Some(first) = first(text).or_else(looks) else { return Ok(()) };
        Err(Breach::Pattern(self.blocked.patterns().get(first).map_or("", String::as_str)))
    }
}

/// Every text that stands under a name which means a path.
fn gather<'a>(value: &'a Value, is_path: bool, found: &mut Vec<&'a str>) {
    match value {
        Value::String(text) if is_path => found.push(text),
        Value::Array(items) => items.iter().for_each(|item| gather(item, is_path, found)),
        Value::Object(object) => {
            object.iter().for_each(|(key, value)| gather(value, is_path || means_path(key), found));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn compile_paths(tool: &str, globs: &[String]) -> Result<GlobSet, PolicyError> {
    let bad =
        |glob: &str, problem: String| PolicyError::BadPath { tool: tool.to_owned(), glob: glob.to_owned(), problem };
    let mut set = GlobSetBuilder::new();
    for glob in globs {
        let form = normalise(glob).ok_or_else(|| bad(glob, "a path without `..` and `~` is needed".to_owned()))?;
        // `data/**` means the folder as well as what is in it.
        for form in [Some(form.as_str()), form.strip_suffix("/**")].into_iter().flatten() {
            let glob = GlobBuilder::new(form).literal_separator(true).build();
            set.add(glob.map_err(|error| bad(form, error.kind().to_string()))?);
        }
    }
    set.build().map_err(|error| bad(error.glob().unwrap_or_default(), error.kind().to_string()))
}

/// A text as it looks: full-width forms as plain ones, and nothing that is not seen. None where that changes nothing.
fn looks(text: &str) -> Option<String> {
    let plain = |c: char| match c {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0),
        '\u{3000}' | '\u{a0}' => Some(' '),
        '\u{ad}'
        | '\u{61c}'
        | '\u{180e}'
        | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{2064}' => None,
        '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}' => None,
        c => Some(c),
    };
    if text.is_ascii() {
        return None;
    }
    let looks: String = text.chars().filter_map(plain).collect();
    (looks != text).then_some(looks)
}

fn means_path(key: &str) -> bool {
    if PATH_WORDS_CHINESE.iter().any(|word| key.ends_with(word)) {
        return true;
    }
    let lower = key.to_ascii_lowercase();
    PATH_WORDS.iter().any(|word| {
        let Some(rest) = lower.strip_suffix(word) else { return false };
        // `xpath` is no path; `file_path`, `file-path` and `filePath` are.
        rest.is_empty()
            || rest.ends_with(['_', '-', '.'])
            || key.as_bytes().get(rest.len()).is_some_and(u8::is_ascii_uppercase)
    })
}

/// A path without `.` and doubled slashes; none for what must never match: `..`, a home folder, a NUL.
fn normalise(path: &str) -> Option<String> {
    if path.contains('\0') || path.starts_with('~') {
        return None;
    }
    let path = path.replace('\\', "/");
    let mut out = String::with_capacity(path.len());
    if path.starts_with('/') {
        out.push('/');
    }
    for part in path.split('/').filter(|part| !part.is_empty() && *part != ".") {
        if part == ".." {
            return None;
        }
        if !(out.is_empty() || out.ends_with('/')) {
            out.push('/');
        }
        out.push_str(part);
    }
    Some(if out.is_empty() { ".".to_owned() } else { out })
}
