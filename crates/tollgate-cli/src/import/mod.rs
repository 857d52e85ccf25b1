//! Takes over the server lists of other MCP clients: reads them, sorts out what is new, and says the rest as
//! `tollgate.toml` says it. Starts no server and writes no file; `write` does the latter.

mod client;
mod field;
mod jsonc;
mod list;
mod name;
mod print;
mod server;
mod value;
mod write;

use std::path::{Path, PathBuf};

use serde::Serialize;
use tollgate::config::{Loaded, McpServer, SecretSource, TextOrSecret};

pub(crate) use client::{Place, Scope, World};
pub(crate) use list::{Entry, ListFault};
pub(crate) use value::needed;
pub(crate) use write::{keep, stage};

use client::Client;
use list::List;
use server::{Left, Way};
use value::{Reader, Value};

/// What became of a server of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Became {
    /// It is new in `tollgate.toml`.
    Added,
    /// It was there.
    Present,
    /// It is switched off in its list, and was left out.
    Disabled,
    /// It is Tollgate itself, and was left out.
    Itself,
    /// It can not be said in `tollgate.toml`, and was left out.
    Refused,
}

/// One server of a list.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ServerReport {
    /// Its name in the list.
    pub(crate) name: String,
    pub(crate) outcome: Became,
    /// Its name in `tollgate.toml`.
    pub(crate) here: Option<String>,
    /// What would run, or be asked.
    pub(crate) reaches: Option<String>,
    /// What is to be said of it.
    pub(crate) notes: Vec<String>,
}

/// One list.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ListReport {
    /// The client's word for `--import`.
    pub(crate) client: &'static str,
    /// Its name for people.
    #[serde(skip)]
    pub(crate) title: &'static str,
    pub(crate) file: String,
    /// Why it can not be read.
    pub(crate) fault: Option<ListFault>,
    pub(crate) servers: Vec<ServerReport>,
}

/// A list that was seen and not taken over.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Seen {
    pub(crate) client: &'static str,
    #[serde(skip)]
    pub(crate) title: &'static str,
    pub(crate) file: String,
    pub(crate) servers: usize,
    /// What takes it over.
    pub(crate) command: String,
}

/// A secret that gets a file of its own.
#[derive(Clone)]
pub(crate) struct KeptSecret {
    pub(crate) file: PathBuf,
    pub(crate) secret: tollgate::Secret,
}

/// What taking over comes to, before anything is written.
pub(crate) struct Import<'a> {
    world: &'a World,
    loaded: &'a Loaded,
    /// The folder of `tollgate.toml`.
    folder: &'a Path,
    known: Vec<(String, Way)>,
    /// What is appended to `tollgate.toml`.
    pub(crate) text: String,
    pub(crate) secrets: Vec<KeptSecret>,
    pub(crate) lists: Vec<ListReport>,
}

impl<'a> Import<'a> {
    /// Begins with what `tollgate.toml` has.
    pub(crate) fn new(world: &'a World, loaded: &'a Loaded, folder: &'a Path) -> Self {
        let known = loaded.config.mcp.iter().map(|(name, server)| (name.clone(), known(loaded, server.get_ref())));
        let known = known.collect();
        Self { world, loaded, folder, known, text: String::new(), secrets: Vec::new(), lists: Vec::new() }
    }

    /// Takes a list over, or the server of this name in it.
    pub(crate) fn some_of_list(&mut self, place: &Place, only: Option<&str>) {
        let file = self.shown(&place.file);
        let (client, title) = (place.client.word(), place.client.title());
        let mut report = ListReport { client, title, file, fault: None, servers: Vec::new() };
        match list::read(place, &self.world.folder) {
            Ok(list) => {
                let wanted = list.entries.iter().filter(|entry| only.is_none_or(|name| entry.name == name));
                report.servers = wanted.map(|entry| self.server(place, &list, entry)).collect();
            }
            Err(fault) => report.fault = Some(fault),
        }
        self.lists.push(report);
    }

    /// Takes a server over that somebody typed.
    pub(crate) fn typed(&mut self, entry: &Entry) -> ServerReport {
        let place = Place { client: Client::Typed, scope: Scope::Project, file: "tollgate mcp add".into() };
        let server = self.server(&place, &List::default(), entry);
        self.lists.push(ListReport {
            client: place.client.word(),
            title: place.client.title(),
            file: place.file.display().to_string(),
            fault: None,
            servers: vec![server.clone()],
        });
        server
    }

    /// The lists that are there and were not asked for.
    pub(crate) fn seen(&self, asked: &[Place]) -> Vec<Seen> {
        let unasked = self.world.existing().into_iter().filter(|place| !asked.contains(place));
        let seen = unasked.filter_map(|place| {
            let servers = list::read(&place, &self.world.folder).ok()?.entries.len();
            let client = place.client.word();
            let command = format!("tollgate init --import {client}");
            let (title, file) = (place.client.title(), self.shown(&place.file));
            (servers > 0).then_some(Seen { client, title, file, servers, command })
        });
        seen.collect()
    }

    fn server(&mut self, place: &Place, list: &List, entry: &Entry) -> ServerReport {
        let reader = Reader {
            client: place.client,
            folder: &self.world.folder,
            home: self.world.home.as_deref(),
            runs_in: ((place.scope == Scope::Project).then_some(&*self.world.folder), self.folder),
            inputs: &list.inputs,
        };
        let name = name::fit(&entry.name);
        let mut notes = Vec::new();
        let read = server::read(&name, &entry.fields, &reader, &mut notes);
        let mut report = ServerReport {
            name: crate::output::visible(&entry.name),
            outcome: Became::Refused,
            here: None,
            reaches: None,
            notes: Vec::new(),
        };
        match read {
            Ok(way) if way.is_tollgate(&self.loaded.config.server.bind) => {
                report.outcome = Became::Itself;
                report.notes.push("it is Tollgate itself, which does not call itself".into());
            }
            Ok(way) => self.place(place, &name, way, &mut report),
            Err(Left::Disabled) => {
                report.outcome = Became::Disabled;
                report.notes.push(format!("it is switched off in {}", self.shown(&place.file)));
            }
            Err(Left::Refused(reason)) => report.notes.push(reason),
        }
        // Of what was not taken over, only the reason matters.
        if report.outcome == Became::Added {
            report.notes.extend(notes);
        }
        report
    }

    /// Finds the server among those that are known, or a name for it.
    fn place(&mut self, place: &Place, fit: &str, way: Way, report: &mut ServerReport) {
        let mut name = fit.to_owned();
        let mut number = 1;
        while let Some((_, known)) = self.known.iter().find(|(known, _)| *known == name) {
            if way.reaches() == known.reaches() {
                report.outcome = Became::Present;
                let differing = way.differing(known);
                if !differing.is_empty() {
                    let what =
                        format!("{} is said otherwise in [mcp.{name}], which stays as it is", differing.join(", "));
                    report.notes.push(what);
                }
                report.here = Some(name);
                return;
            }
            number += 1;
            name = name::numbered(fit, number);
        }
        if number > 1 {
            report.notes.push(format!("[mcp.{fit}] is another server: this one is [mcp.{name}]"));
        } else if name != report.name {
            report.notes.push(format!("a server's name has letters, digits, `-` and single `_`: it is [mcp.{name}]"));
        }
        let from = format!("{} ({})", self.shown(&place.file), place.client.title());
        let (folder, data_dir, secrets) = (self.folder, &self.loaded.config.data_dir, &mut self.secrets);
        self.text.push_str(&print::table(&name, &from, &way, |key, secret| {
            let file = write::free_file(folder, &data_dir.join("secrets"), &format!("{name}-{key}"), secret, secrets);
            let kept = KeptSecret { file: folder.join(&file), secret: tollgate::Secret::new(secret) };
            secrets.push(kept);
            file.display().to_string()
        }));
        report.outcome = Became::Added;
        report.reaches = Some(crate::output::visible(&way.shown()));
        report.notes.extend(way.unset());
        report.here = Some(name.clone());
        self.known.push((name, way));
    }

    /// A path as a person would write it here.
    fn shown(&self, path: &Path) -> String {
        let in_home = || Some(Path::new("~").join(path.strip_prefix(self.world.home.as_ref()?).ok()?));
        let short = path.strip_prefix(&self.world.folder).map(Path::to_owned).ok().or_else(in_home);
        crate::output::visible(&short.unwrap_or_else(|| path.to_owned()).display().to_string())
            .replace(['\n', '\t'], " ")
    }
}

impl Way {
    /// What runs, or is asked: two servers with the same are one.
    fn reaches(&self) -> Vec<&str> {
        match self {
            Self::Program { command, args, .. } => std::iter::once(command).chain(args).map(String::as_str).collect(),
            Self::Endpoint { url, .. } => vec![url],
        }
    }

    /// Whether it is the server that this program is.
    fn is_tollgate(&self, bind: &str) -> bool {
        match self {
            Self::Program { .. } => {
                let words = self.reaches();
                let is_named = |word: &&str| Path::new(word).file_name().is_some_and(|name| name == "tollgate");
                words.iter().any(is_named) && words.contains(&"serve")
            }
            Self::Endpoint { url, .. } => {
                let port = bind.rsplit(':').next().unwrap_or_default();
                ["127.0.0.1", "localhost", "[::1]"].iter().any(|host| *url == format!("http://{host}:{port}/mcp"))
            }
        }
    }

    /// What is to be said of the variables that it needs and that are not set now.
    fn unset(&self) -> Vec<String> {
        let mut unset = Vec::new();
        for name in self.values().1.iter().flat_map(|(_, value)| value::needs(value)) {
            let note = format!("`{name}` is not set now, and must be before Tollgate starts: export {name}='…'");
            if std::env::var_os(name).is_none() && !unset.contains(&note) {
                unset.push(note);
            }
        }
        unset
    }

    /// The same for people: what stands behind the shell that was put before it.
    fn shown(&self) -> String {
        let words = self.reaches();
        match words.as_slice() {
            ["sh", "-c", script, "sh", plain @ ..] => {
                let numbered = plain.iter().enumerate();
                numbered.fold((*script).to_owned(), |script, (at, word)| {
                    script.replacen(&format!("\"${{{}}}\"", at + 1), word, 1)
                })
            }
            words => words.join(" "),
        }
    }

    fn values(&self) -> (&'static str, &[(String, Value)]) {
        match self {
            Self::Program { env, .. } => ("env", env),
            Self::Endpoint { headers, .. } => ("headers", headers),
        }
    }

    /// The variables or headers that two servers do not have in common.
    fn differing(&self, other: &Self) -> Vec<String> {
        let ((word, ours), (_, theirs)) = (self.values(), other.values());
        let lacks = |values: &[(String, Value)], pair: &(String, Value)| !values.contains(pair);
        let all = ours.iter().filter(|pair| lacks(theirs, pair)).chain(theirs.iter().filter(|pair| lacks(ours, pair)));
        let mut names: Vec<String> = all.map(|(name, _)| format!("`{word}.{name}`")).collect();
        names.sort();
        names.dedup();
        names
    }
}

/// A configured server as one of a list would be.
fn known(loaded: &Loaded, server: &McpServer) -> Way {
    let value = |value: &TextOrSecret| match value {
        TextOrSecret::Text(text) => Value::Text(text.clone()),
        TextOrSecret::Secret(SecretSource::Env(name)) => Value::Env(name.clone()),
        TextOrSecret::Secret(SecretSource::Command(command)) => Value::Command(command.clone()),
        TextOrSecret::Secret(SecretSource::File(path)) => {
            let path = loaded.path(path);
            // Whoever reads a pipe waits for somebody to write.
            let kept = if path.is_file() { std::fs::read_to_string(path).unwrap_or_default() } else { String::new() };
            Value::Kept(kept.trim_end_matches(['\r', '\n']).to_owned())
        }
    };
    let values = |table: &std::collections::BTreeMap<String, TextOrSecret>| {
        table.iter().map(|(name, text)| (name.clone(), value(text))).collect()
    };
    match (&server.command, &server.url) {
        (None, Some(url)) => Way::Endpoint { url: url.clone(), headers: values(&server.headers) },
        (command, _) => Way::Program {
            command: command.clone().unwrap_or_default(),
            args: server.args.clone(),
            env: values(&server.env),
        },
    }
}
