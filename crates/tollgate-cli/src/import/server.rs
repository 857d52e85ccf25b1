//! What one server of a list is here: a program or an endpoint, and what is to be said of the rest. Every field is taken
//! over or named; none is dropped without a word.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json};
use tollgate::mcp::upstream::{UpstreamConfig, UpstreamKind};

use super::field;
use super::value::{self, Notes, Reader, Value};

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Way {
    Program { command: String, args: Vec<String>, env: Vec<(String, Value)> },
    Endpoint { url: String, headers: Vec<(String, Value)> },
}

/// Why a server is not taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Left {
    /// Its list says that it is switched off.
    Disabled,
    /// It can not be said here: why, and what to do.
    Refused(String),
}

impl From<String> for Left {
    fn from(reason: String) -> Self {
        Self::Refused(reason)
    }
}

/// Reads a server. `name` is its name here, for the lines that are advised.
pub(super) fn read(name: &str, fields: &Json, reader: &Reader<'_>, notes: &mut Notes) -> Result<Way, Left> {
    let Json::Object(fields) = fields else { return Err(Left::Refused("it is not an object".into())) };
    let mut fields = fields.clone();
    let is_off = take_bool(&mut fields, "disabled")? == Some(true) || take_bool(&mut fields, "enabled")? == Some(false);
    if is_off {
        return Err(Left::Disabled);
    }
    // The address says it, or the server when it is asked.
    for key in ["type", "transport"] {
        fields.remove(key);
    }
    let url = ["url", "serverUrl", "httpUrl"].iter().find_map(|key| fields.remove(*key));
    let way = match (fields.contains_key("command"), url) {
        (true, None) => program(&mut fields, reader, notes)?,
        (false, Some(url)) => endpoint(name, &url, &mut fields, reader, notes)?,
        (true, Some(_)) => return Err(Left::Refused("it has both `command` and `url`".into())),
        (false, None) => return Err(Left::Refused("it has neither `command` nor `url`".into())),
    };
    notes.extend(fields.iter().map(|(key, value)| field::said(name, key, value)));
    Ok(way)
}

fn take_bool(fields: &mut Map<String, Json>, key: &str) -> Result<Option<bool>, String> {
    match fields.remove(key) {
        None | Some(Json::Null) => Ok(None),
        Some(Json::Bool(value)) => Ok(Some(value)),
        Some(_) => Err(format!("`{key}` was expected to be true or false")),
    }
}

fn text(key: &str, value: &Json) -> Result<String, String> {
    match value {
        Json::String(text) => Ok(text.clone()),
        Json::Number(number) => Ok(number.to_string()),
        Json::Bool(is) => Ok(is.to_string()),
        Json::Null | Json::Array(_) | Json::Object(_) => Err(format!("`{key}` was expected to be a text")),
    }
}

fn take_text(fields: &mut Map<String, Json>, key: &str) -> Result<Option<String>, String> {
    fields.remove(key).filter(|value| !value.is_null()).map(|value| text(key, &value)).transpose()
}

fn take_texts(fields: &mut Map<String, Json>, key: &str) -> Result<Vec<String>, String> {
    match fields.remove(key) {
        None | Some(Json::Null) => Ok(Vec::new()),
        Some(Json::Array(items)) => items.iter().map(|item| text(key, item)).collect(),
        Some(_) => Err(format!("`{key}` was expected to be a list of texts")),
    }
}

fn take_table(fields: &mut Map<String, Json>, key: &str) -> Result<Vec<(String, Json)>, String> {
    match fields.remove(key) {
        None | Some(Json::Null) => Ok(Vec::new()),
        Some(Json::Object(map)) => Ok(map.into_iter().collect()),
        Some(_) => Err(format!("`{key}` was expected to be a table of texts")),
    }
}

/// A table of texts with variables and secrets in it.
fn values(
    key: &str,
    fields: &mut Map<String, Json>,
    reader: &Reader<'_>,
    notes: &mut Notes,
) -> Result<Vec<(String, Value)>, String> {
    let mut values = Vec::new();
    for (name, value) in take_table(fields, key)? {
        if name.is_empty() || name.contains(['=', '\0', '\n']) {
            return Err(format!("`{key}` has a name that can be none"));
        }
        if value.is_null() {
            notes.push(format!(
                "`{key}.{name}` is null there: it is not set here either, unless it is one of PATH, HOME, LANG"
            ));
            continue;
        }
        let value = reader.value(&name, &text(&format!("{key}.{name}"), &value)?, notes)?;
        values.push((name, value));
    }
    Ok(values)
}

fn program(fields: &mut Map<String, Json>, reader: &Reader<'_>, notes: &mut Notes) -> Result<Way, String> {
    let mut words = vec![take_text(fields, "command")?.unwrap_or_default()];
    words.extend(take_texts(fields, "args")?);
    split(&mut words, reader.folder)?;
    let mut env = from_file(fields, reader, notes)?;
    for (name, value) in values("env", fields, reader, notes)? {
        set(&mut env, name, value);
    }
    for variable in take_variables(fields)? {
        // Codex hands on what is set; a variable that is named here must be.
        if std::env::var_os(&variable).is_some() {
            set(&mut env, variable.clone(), Value::Env(variable));
        } else {
            let said = crate::output::visible(&variable);
            notes.push(format!(
                "`{said}` is not set now, and was left out: env = {{ {said} = {{ env = \"{said}\" }} }} hands it on"
            ));
        }
    }
    let cwd = take_text(fields, "cwd")?.map(|cwd| reader.plain("cwd", &cwd, notes)).transpose()?;
    let cwd = cwd.map(|cwd| value::folder(&cwd, reader.folder, reader.home));
    let (there, here) = reader.runs_in;
    let cwd = cwd.or_else(|| there.map(Path::to_owned)).filter(|cwd| cwd != here);
    let words = spoken(&words, &mut env, reader, notes)?;
    let (command, args) = assembled(words, cwd.as_deref());
    if command.is_empty() {
        return Err("`command` is empty".into());
    }
    Ok(Way::Program { command, args, env })
}

fn set(env: &mut Vec<(String, Value)>, name: String, value: Value) {
    env.retain(|(known, _)| *known != name);
    env.push((name, value));
}

/// A whole command line in `command`, which some clients hand to a shell.
fn split(words: &mut Vec<String>, folder: &Path) -> Result<(), String> {
    let [line] = words.as_slice() else { return Ok(()) };
    if !line.trim().contains(char::is_whitespace) || folder.join(line).is_file() {
        return Ok(());
    }
    if line.contains(['"', '\'', '\\', '|', '&', ';', '<', '>', '`', '(', ')']) || line.contains("$(") {
        return Err("`command` is a line for a shell: write command = \"PROGRAM\" and args = [\"…\"]".into());
    }
    *words = line.split_whitespace().map(str::to_owned).collect();
    Ok(())
}

/// Codex's list of variables that a server is handed from its own environment.
fn take_variables(fields: &mut Map<String, Json>) -> Result<Vec<String>, String> {
    let Some(names) = fields.remove("env_vars") else { return Ok(Vec::new()) };
    let name = |item: &Json| item.as_str().or_else(|| item.get("name")?.as_str()).map(str::to_owned);
    let names = names.as_array().and_then(|items| items.iter().map(name).collect());
    names.ok_or_else(|| "`env_vars` was expected to be a list of names".into())
}

/// The variables of `envFile`, as they are now.
fn from_file(
    fields: &mut Map<String, Json>,
    reader: &Reader<'_>,
    notes: &mut Notes,
) -> Result<Vec<(String, Value)>, String> {
    let Some(path) = take_text(fields, "envFile")? else { return Ok(Vec::new()) };
    let path = value::folder(&reader.plain("envFile", &path, notes)?, reader.folder, reader.home);
    let is_file = path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.len() <= ENV_FILE_BYTES_MAX);
    let read = if is_file { std::fs::read_to_string(&path).ok() } else { None };
    let Some(content) = read else {
        return Err(format!("its `envFile` {} cannot be read as a text of at most 1 MiB", path.display()));
    };
    let mut env = Vec::new();
    for line in content.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let Some((name, value)) = line.strip_prefix("export ").unwrap_or(line).split_once('=') else { continue };
        let value = value.trim();
        let inner = ['"', '\''].iter().find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote));
        set(&mut env, name.trim().to_owned(), value::of_file(name.trim(), inner.unwrap_or(value))?);
    }
    notes.push(format!("the {} variables of {} were taken over as they are now", env.len(), path.display()));
    Ok(env)
}

/// What an `envFile` may have.
const ENV_FILE_BYTES_MAX: u64 = 1024 * 1024;

/// A word of a command line.
enum Word {
    Plain(String),
    /// It is only known when the server starts, or is a secret: the variable that holds it.
    Held(String),
}

/// The words of a command line. What must not stand in it goes into `env`.
fn spoken(
    words: &[String],
    env: &mut Vec<(String, Value)>,
    reader: &Reader<'_>,
    notes: &mut Notes,
) -> Result<Vec<Word>, String> {
    let secrets = value::secret_words(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let mut spoken = Vec::new();
    for (at, (word, is_secret)) in words.iter().zip(secrets).enumerate() {
        let is_open = reader.is_open(word, notes)?;
        if !is_open && !is_secret {
            spoken.push(Word::Plain(reader.plain("args", word, notes)?));
            continue;
        }
        let held = match reader.value("argument", word, notes)? {
            Value::Text(text) => match value::literal("password", &text)? {
                Value::Text(text) => {
                    spoken.push(Word::Plain(text));
                    continue;
                }
                kept => kept,
            },
            held => held,
        };
        let name = format!("TOLLGATE_ARG_{at}");
        set(env, name.clone(), held);
        spoken.push(Word::Held(name));
    }
    Ok(spoken)
}

/// The command line as the configuration has it. A shell stands before it where a word is held in a variable, or where
/// the program runs in another folder; the plain words stay arguments, so that the files among them stay protected.
fn assembled(words: Vec<Word>, cwd: Option<&Path>) -> (String, Vec<String>) {
    let is_plain = cwd.is_none() && words.iter().all(|word| matches!(word, Word::Plain(_)));
    let mut plain: Vec<String> = Vec::new();
    let mut script = String::new();
    if let Some(cwd) = cwd {
        plain.push(cwd.display().to_string());
        script.push_str("cd \"${1}\" && ");
    }
    script.push_str("exec");
    for word in words {
        match word {
            Word::Plain(text) => {
                plain.push(within(text, cwd));
                script.push_str(&format!(" \"${{{}}}\"", plain.len()));
            }
            Word::Held(name) => script.push_str(&format!(" \"${{{name}}}\"")),
        }
    }
    if is_plain {
        let mut words = plain.into_iter();
        return (words.next().unwrap_or_default(), words.collect());
    }
    let mut args = vec!["-c".to_owned(), script, "sh".to_owned()];
    args.extend(plain);
    ("sh".to_owned(), args)
}

/// A word that names a file of the folder that the program runs in, so that it names it from everywhere.
fn within(word: String, cwd: Option<&Path>) -> String {
    let file: Option<PathBuf> = cwd.map(|cwd| cwd.join(&word)).filter(|path| !word.is_empty() && path.is_file());
    file.map_or(word, |path| path.display().to_string())
}

fn endpoint(
    name: &str,
    url: &Json,
    fields: &mut Map<String, Json>,
    reader: &Reader<'_>,
    notes: &mut Notes,
) -> Result<Way, String> {
    let url = reader.plain("url", &text("url", url)?, notes)?;
    if value::is_secret("url", &url) {
        return Err("its `url` holds a secret, which has no place in tollgate.toml: see if the server takes it as a \
                    header, headers = { Authorization = { env = \"NAME\" } }"
            .into());
    }
    let of_http = match url.strip_prefix("ws") {
        Some(rest) if rest.starts_with("://") || rest.starts_with("s://") => format!("http{rest}"),
        _ => url.clone(),
    };
    let checked = UpstreamConfig::new(name, UpstreamKind::Http { url: of_http, headers: Default::default() }).check();
    checked.map_err(|error| error.to_string())?;
    let mut headers = values("headers", fields, reader, notes)?;
    for (name, value) in values("http_headers", fields, reader, notes)? {
        set(&mut headers, name, value);
    }
    for (header, variable) in take_table(fields, "env_http_headers")? {
        set(&mut headers, header, Value::Env(text("env_http_headers", &variable)?));
    }
    if let Some(variable) = take_text(fields, "bearer_token_env_var")? {
        set(&mut headers, "Authorization".into(), value::bearer(&variable)?);
    }
    if let Some(token) = take_text(fields, "bearer_token")? {
        set(&mut headers, "Authorization".into(), Value::Kept(format!("Bearer {token}")));
    }
    Ok(Way::Endpoint { url, headers })
}
