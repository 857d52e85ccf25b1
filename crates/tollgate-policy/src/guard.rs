//! A tool's own rules about its arguments: `security.allowed_paths` and `security.blocked_patterns`, compiled.

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use regex::{RegexSet, RegexSetBuilder};
use serde_json::Value;
use tollgate_types::{Security, ToolDefinition};

use crate::PolicyError;

/// The compiled form of one tool's `blocked_patterns`.
const PATTERNS_BYTES_MAX: usize = 1024 * 1024;

/// Property names that mean a path. Suffixes after `_` or `-`, and camelCase ones, count too.
const PATH_WORDS: [&str; 10] =
    ["path", "paths", "file", "files", "filepath", "filepaths", "filename", "dir", "directory", "folder"];

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

    /// The first text among the arguments that breaks a rule.
    pub(crate) fn check<'a>(&'a self, arguments: &'a Value) -> Result<(), Breach<'a>> {
        self.visit(arguments, false)
    }

    fn visit<'a>(&'a self, value: &'a Value, is_path: bool) -> Result<(), Breach<'a>> {
        match value {
            Value::String(text) => {
                self.check_text(text)?;
                match &self.paths {
                    Some(globs) if is_path && !normalise(text).is_some_and(|path| globs.is_match(path)) => {
                        Err(Breach::Path(text))
                    }
                    Some(_) | None => Ok(()),
                }
            }
            Value::Array(items) => items.iter().try_for_each(|item| self.visit(item, is_path)),
            Value::Object(object) => object.iter().try_for_each(|(key, value)| {
                self.check_text(key)?;
                self.visit(value, is_path || means_path(key))
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
        }
    }

    fn check_text(&self, text: &str) -> Result<(), Breach<'_>> {
        if !self.blocked.is_match(text) {
            return Ok(());
        }
        let first = self.blocked.matches(text).iter().next();
        Err(Breach::Pattern(first.and_then(|index| self.blocked.patterns().get(index)).map_or("", String::as_str)))
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

fn means_path(key: &str) -> bool {
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
