//! A text of a list: what in it is a variable, what is a secret, and how `tollgate.toml` says the same. Only what is neither
//! is written there as it is; see `docs/config.md`, «TextOrSecret».

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::json;
use tollgate::redact::{Redactor, SECRET_BYTES_MIN};

use super::client::Client;

/// A piece of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Variable { name: String, default: Option<String> },
}

/// A value as the configuration can say it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    /// Not secret.
    Text(String),
    /// An environment variable, whole.
    Env(String),
    /// A program that prints it: what is made of variables and text.
    Command(Vec<String>),
    /// A secret that must be kept in a file of its own.
    Kept(String),
}

/// What the texts of one list are read with.
pub(super) struct Reader<'a> {
    pub(super) client: Client,
    /// The project's folder.
    pub(super) folder: &'a Path,
    pub(super) home: Option<&'a Path>,
    /// Where programs run unless told otherwise: there, and here.
    pub(super) runs_in: (Option<&'a Path>, &'a Path),
    pub(super) inputs: &'a BTreeMap<String, String>,
}

/// What is said of a text beside its value.
pub(super) type Notes = Vec<String>;

/// How tokens of well-known services begin. A name such as `GITHUB_PAT` says too little.
const TOKEN_PREFIXES: [&str; 22] = [
    "sk-",
    "sk_",
    "rk_",
    "ghp_",
    "gho_",
    "ghu_",
    "ghs_",
    "ghr_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "xapp-",
    "AKIA",
    "ASIA",
    "AIza",
    "ya29.",
    "hf_",
    "npm_",
    "pypi-",
    "eyJ",
    "secret_",
];
/// A shorter text is no token.
const TOKEN_CHARS_MIN: usize = 16;

/// Last words of names that often hold a secret, and not always: what is kept apart without need does no harm.
const LIKELY_NAMES: [&str; 9] = ["key", "pat", "pass", "pw", "auth", "creds", "dsn", "cookie", "private"];
/// A shorter text under such a name is none.
const LIKELY_CHARS_MIN: usize = 8;

/// Whether a text under a name must not stand in a configuration.
pub(super) fn is_secret(name: &str, text: &str) -> bool {
    let redactor = Redactor::new(&[], []);
    let changes = |text: &str| {
        let mut probe = json!({ name: text });
        let before = probe.clone();
        redactor.value(&mut probe);
        probe != before
    };
    let last = name.rsplit(['_', '-', '.']).next().unwrap_or_default().to_lowercase();
    let is_likely = LIKELY_NAMES.contains(&last.as_str()) && text.len() >= LIKELY_CHARS_MIN;
    let is_named = is_likely || changes("a value that stands for itself");
    !text.trim().is_empty() && (is_named || changes(text) || is_token(text))
}

/// Which words of a command line must not stand in a configuration: `--token X`, `--key=X`, `Authorization: X`.
pub(super) fn secret_words(words: &[&str]) -> Vec<bool> {
    let redactor = Redactor::new(&[], []);
    let mut probe = json!(words);
    redactor.value(&mut probe);
    let after = probe.as_array().map(Vec::as_slice).unwrap_or_default();
    words.iter().enumerate().map(|(at, word)| after.get(at) != Some(&json!(word)) || is_token(word)).collect()
}

fn is_token(text: &str) -> bool {
    let words = text.split([' ', '=', ',']);
    let is_one =
        |word: &str| word.len() >= TOKEN_CHARS_MIN && TOKEN_PREFIXES.iter().any(|prefix| word.starts_with(prefix));
    words.into_iter().any(is_one)
}

impl Reader<'_> {
    /// A value of `env` or `headers`.
    pub(super) fn value(&self, name: &str, text: &str, notes: &mut Notes) -> Result<Value, String> {
        let parts = self.parts(text, notes)?;
        match parts.as_slice() {
            [] => Ok(Value::Text(String::new())),
            [Part::Text(text)] => literal(name, text),
            [Part::Variable { name: variable, default: None }] => Ok(Value::Env(variable.clone())),
            [Part::Variable { name: variable, default: Some(default) }] if is_secret(name, default) => {
                notes.push(format!("{name}: the secret that stands for `{variable}` where it is not set was left out"));
                Ok(Value::Env(variable.clone()))
            }
            parts => {
                let is_apart = parts.iter().any(|part| match part {
                    Part::Text(text) => is_secret("text", text),
                    Part::Variable { default, .. } => default.as_ref().is_some_and(|text| is_secret("text", text)),
                });
                if is_apart {
                    return Err(format!(
                        "{name} has a secret beside a variable: put the whole into a variable, {name} = {{ env = \"NAME\" }}"
                    ));
                }
                Ok(Value::Command(printing(parts)))
            }
        }
    }

    /// A text in which no variable may be left.
    pub(super) fn plain(&self, what: &str, text: &str, notes: &mut Notes) -> Result<String, String> {
        match self.parts(text, notes)?.as_slice() {
            [] => Ok(String::new()),
            [Part::Text(text)] => Ok(text.clone()),
            parts => {
                let name = parts.iter().find_map(|part| match part {
                    Part::Variable { name, .. } => Some(name.as_str()),
                    Part::Text(_) => None,
                });
                let name = name.unwrap_or_default();
                Err(format!("`{what}` has the variable `{name}`, and tollgate.toml has none there: write the value"))
            }
        }
    }

    /// Whether a text has a variable that is only known when the server starts.
    pub(super) fn is_open(&self, text: &str, notes: &mut Notes) -> Result<bool, String> {
        Ok(self.parts(text, notes)?.iter().any(|part| matches!(part, Part::Variable { .. })))
    }

    fn parts(&self, text: &str, notes: &mut Notes) -> Result<Vec<Part>, String> {
        let mut parts = Vec::new();
        if !self.client.has_variables() {
            push(&mut parts, text);
            return Ok(parts);
        }
        let mut rest = text;
        while let Some((before, after)) = rest.split_once("${") {
            let (inner, after) = after.split_once('}').ok_or_else(|| format!("`{}` is not closed", shown(rest)))?;
            if inner.contains("${") {
                return Err("a variable within the default of a variable can not be said".into());
            }
            push(&mut parts, before);
            match self.part(inner, notes)? {
                Part::Text(text) => push(&mut parts, &text),
                variable @ Part::Variable { .. } => parts.push(variable),
            }
            rest = after;
        }
        push(&mut parts, rest);
        Ok(parts)
    }

    fn part(&self, inner: &str, notes: &mut Notes) -> Result<Part, String> {
        let path = |path: Option<&Path>| Part::Text(path.map(|path| path.display().to_string()).unwrap_or_default());
        let variable = |name: &str, default: Option<&str>| {
            is_variable(name).then(|| Part::Variable { name: name.to_owned(), default: default.map(str::to_owned) })
        };
        let found = match inner {
            "workspaceFolder" | "workspaceRoot" | "cwd" | "CLAUDE_PROJECT_DIR" => Some(path(Some(self.folder))),
            "workspaceFolderBasename" => Some(path(self.folder.file_name().map(Path::new))),
            "userHome" => Some(path(self.home)),
            "pathSeparator" | "/" => Some(Part::Text("/".into())),
            _ => match (inner.strip_prefix("env:"), inner.strip_prefix("input:")) {
                (Some(name), _) => variable(name, None),
                (_, Some(id)) => Some(self.input(id, notes)),
                (None, None) => match inner.split_once(":-") {
                    Some((name, default)) => variable(name, Some(default).filter(|text| !text.is_empty())),
                    None => variable(inner, None),
                },
            },
        };
        found.ok_or_else(|| format!("`${{{}}}` is no variable that is known here", shown(inner)))
    }

    /// What a client asks people for comes from a variable here.
    fn input(&self, id: &str, notes: &mut Notes) -> Part {
        let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        let mut name: String = id.chars().map(plain).collect();
        if !is_variable(&name) {
            name.insert_str(0, "INPUT_");
        }
        let words = self.inputs.get(id).filter(|words| !words.is_empty());
        let words = words.map(|words| format!(" ({})", shown(words))).unwrap_or_default();
        let note = format!("{} asks people for `{}`{words}: set `{name}` instead", self.client.title(), shown(id));
        if !notes.contains(&note) {
            notes.push(note);
        }
        Part::Variable { name, default: None }
    }
}

fn push(parts: &mut Vec<Part>, text: &str) {
    match parts.last_mut() {
        _ if text.is_empty() => {}
        Some(Part::Text(last)) => last.push_str(text),
        Some(Part::Variable { .. }) | None => parts.push(Part::Text(text.to_owned())),
    }
}

/// A text without a variable.
pub(super) fn literal(name: &str, text: &str) -> Result<Value, String> {
    if !is_secret(name, text) {
        return Ok(Value::Text(text.to_owned()));
    }
    if text.trim_end_matches(['\r', '\n']).len() < SECRET_BYTES_MIN {
        return Err(format!(
            "the secret {name} has less than {SECRET_BYTES_MIN} bytes, and could not be hidden in records"
        ));
    }
    Ok(Value::Kept(text.to_owned()))
}

/// A value of a file that is kept out of repositories: only what is plainly no secret is taken out of it.
pub(super) fn of_file(name: &str, text: &str) -> Result<Value, String> {
    let is_plain =
        text.len() < LIKELY_CHARS_MIN || ["/", "./", "http://", "https://"].iter().any(|p| text.starts_with(p));
    if is_plain { literal(name, text) } else { Ok(Value::Kept(text.to_owned())) }
}

/// The variables without which a value can not be had.
pub(super) fn needs(value: &Value) -> Vec<&str> {
    match value {
        Value::Env(name) => vec![name],
        Value::Command(command) => command.get(2).map(|script| needed(script)).unwrap_or_default(),
        Value::Text(_) | Value::Kept(_) => Vec::new(),
    }
}

/// The variables without which a script fails: `${NAME:?}`.
pub(crate) fn needed(script: &str) -> Vec<&str> {
    script
        .split("${")
        .skip(1)
        .filter_map(|rest| Some(rest.split_once(":?}")?.0))
        .filter(|name| is_variable(name))
        .collect()
}

/// The header of a token that a variable holds.
pub(super) fn bearer(variable: &str) -> Result<Value, String> {
    if !is_variable(variable) {
        return Err(format!("`bearer_token_env_var`: `{}` can be no variable", shown(variable)));
    }
    let variable = Part::Variable { name: variable.to_owned(), default: None };
    Ok(Value::Command(printing(&[Part::Text("Bearer ".into()), variable])))
}

/// A program that prints text and variables, and fails where a variable is not set. What is not ours is quoted or an
/// argument, never a word of the shell.
fn printing(parts: &[Part]) -> Vec<String> {
    let mut script = String::from("printf %s ");
    let mut defaults = Vec::new();
    for part in parts {
        match part {
            Part::Text(text) => script.push_str(&quoted(text)),
            Part::Variable { name, default: None } => script.push_str(&format!("\"${{{name}:?}}\"")),
            Part::Variable { name, default: Some(default) } => {
                defaults.push(default.clone());
                script.push_str(&format!("\"${{{name}:-${{{}}}}}\"", defaults.len()));
            }
        }
    }
    let mut command = vec!["sh".to_owned(), "-c".to_owned(), script];
    if !defaults.is_empty() {
        command.push("sh".into());
        command.extend(defaults);
    }
    command
}

/// A text as one word of a shell.
pub(super) fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

fn is_variable(name: &str) -> bool {
    let begins = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
    begins && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Somebody else's words, short enough for a line.
fn shown(text: &str) -> String {
    const CHARS_MAX: usize = 80;
    crate::output::visible(&text.chars().take(CHARS_MAX).collect::<String>()).replace(['\n', '\t'], " ")
}

/// A folder of a list, from the folder that it is relative to.
pub(super) fn folder(text: &str, base: &Path, home: Option<&Path>) -> PathBuf {
    match (text.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => base.join(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, text: &str) -> Result<Value, String> {
        let inputs = BTreeMap::from([("gh-token".to_owned(), "A token".to_owned())]);
        let (folder, home) = (Path::new("/srv/shop"), Some(Path::new("/home/bob")));
        let reader = Reader { client: Client::VsCode, folder, home, runs_in: (None, folder), inputs: &inputs };
        reader.value(name, text, &mut Vec::new())
    }

    #[test]
    fn a_text_is_what_it_says() {
        let sh = |script: &str, more: &[&str]| {
            let words = ["sh", "-c", script].into_iter().chain(more.iter().copied()).map(str::to_owned);
            Value::Command(words.collect())
        };
        for (text, expected) in [
            ("plain", Value::Text("plain".into())),
            ("", Value::Text(String::new())),
            ("${HOST}", Value::Env("HOST".into())),
            ("${env:HOST}", Value::Env("HOST".into())),
            ("${HOST:-}", Value::Env("HOST".into())),
            ("${input:gh-token}", Value::Env("GH_TOKEN".into())),
            ("${input:1}", Value::Env("INPUT_1".into())),
            ("${workspaceFolder}/${workspaceFolderBasename}", Value::Text("/srv/shop/shop".into())),
            ("${userHome}${/}x", Value::Text("/home/bob/x".into())),
            ("it's ${HOST}", sh("printf %s 'it'\\''s '\"${HOST:?}\"", &[])),
            ("${HOST:-a\"$(b)}", sh("printf %s \"${HOST:-${1}}\"", &["sh", "a\"$(b)"])),
            ("$HOST", Value::Text("$HOST".into())),
        ] {
            assert_eq!(read("HOST", text), Ok(expected), "{text}");
        }
        for text in ["${HOST", "${command:x}", "${A:-${B}}", "${a b}", "ghp_0123456789abcdef0123 ${X}"] {
            assert!(read("HOST", text).is_err(), "{text}");
        }
    }

    #[test]
    fn secrets_are_seen_by_name_and_by_form() {
        for (name, text) in [
            ("API_KEY", "zq-planted-4711"),
            ("Authorization", "Bearer zq-planted-4711"),
            ("authorization", "x-planted"),
            ("Cookie", "a=b; c=d"),
            ("DATABASE_URL", "postgres://bob:zq-planted-4711@db/shop"),
            ("GH", "ghp_0123456789abcdef0123"),
            ("TRACKER_KEY", "zq-planted-4711"),
            ("SETTINGS", "--token zq-planted-4711"),
        ] {
            assert_eq!(read(name, text), Ok(Value::Kept(text.into())), "{name}");
        }
        for (name, text) in [("SORT_KEY", "id"), ("MONKEY", "zq-planted"), ("TOKEN", ""), ("MAX_TOKENS", "4096")] {
            assert_eq!(read(name, text), Ok(Value::Text(text.into())), "{name}");
        }
        assert!(read("PASSWORD", "abc").is_err());
        assert_eq!(read("API_KEY", "${KEY:-zq-planted-4711}"), Ok(Value::Env("KEY".into())));
        assert_eq!(
            read("Authorization", "Bearer ${KEY}"),
            Ok(Value::Command(printing(&[
                Part::Text("Bearer ".into()),
                Part::Variable { name: "KEY".into(), default: None },
            ])))
        );
        let words = ["-y", "@acme/server", "--api-key", "zq-planted-4711", "--api-key=zq-planted-4711", "--port", "80"];
        assert_eq!(secret_words(&words), [false, false, false, true, true, false, false]);
    }
}
