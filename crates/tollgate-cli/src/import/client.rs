//! The MCP clients whose lists can be taken over, and where each keeps them.

use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Who keeps a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Client {
    ClaudeCode,
    ClaudeDesktop,
    Cursor,
    VsCode,
    Codex,
    /// A file that somebody named.
    Unnamed,
    /// Somebody's words on the command line.
    Typed,
}

/// All that keep lists in known places.
const CLIENTS: [Client; 5] = [Client::ClaudeCode, Client::ClaudeDesktop, Client::Cursor, Client::VsCode, Client::Codex];

impl Client {
    /// The word for `--import`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude",
            Self::ClaudeDesktop => "claude-desktop",
            Self::Cursor => "cursor",
            Self::VsCode => "vscode",
            Self::Codex => "codex",
            Self::Unnamed => "file",
            Self::Typed => "command-line",
        }
    }

    /// Its name for people.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::ClaudeCode => "Claude Code",
            Self::ClaudeDesktop => "Claude Desktop",
            Self::Cursor => "Cursor",
            Self::VsCode => "VS Code",
            Self::Codex => "Codex",
            Self::Unnamed => "a file",
            Self::Typed => "the command line",
        }
    }

    /// Whether `${NAME}` stands for a variable in its lists.
    pub(super) fn has_variables(self) -> bool {
        self != Self::Codex
    }
}

/// Whom a list is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Everybody who works in this folder.
    Project,
    /// This user, everywhere.
    User,
}

/// Where a list may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) client: Client,
    pub(crate) scope: Scope,
    pub(crate) file: PathBuf,
}

/// Where one stands.
#[derive(Debug, Clone, Default)]
pub(crate) struct World {
    /// The project's folder.
    pub(crate) folder: PathBuf,
    /// The user's home.
    pub(crate) home: Option<PathBuf>,
    /// `~/.config`, or what stands for it.
    pub(crate) config_home: Option<PathBuf>,
    /// Where Codex keeps its things.
    pub(crate) codex_home: Option<PathBuf>,
    /// Where Claude Code keeps its things, when it is not the home.
    pub(crate) claude_home: Option<PathBuf>,
}

impl World {
    /// The world of this process.
    pub(crate) fn here() -> Result<Self, Failure> {
        let folder = std::env::current_dir()
            .map_err(|error| Failure::usage(format!("the current folder cannot be read: {error}")))?;
        let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let home = std::env::home_dir();
        let below = |name: &str| home.as_ref().map(|home| home.join(name));
        Ok(Self {
            folder,
            config_home: named("XDG_CONFIG_HOME").or_else(|| below(".config")),
            codex_home: named("CODEX_HOME").or_else(|| below(".codex")),
            claude_home: named("CLAUDE_CONFIG_DIR").or_else(|| home.clone()),
            home,
        })
    }

    /// Where a client's lists may be: the project's first.
    fn places_of(&self, client: Client) -> Vec<Place> {
        let project = match client {
            Client::ClaudeCode => Some(".mcp.json"),
            Client::Cursor => Some(".cursor/mcp.json"),
            Client::VsCode => Some(".vscode/mcp.json"),
            Client::Codex => Some(".codex/config.toml"),
            Client::ClaudeDesktop | Client::Unnamed | Client::Typed => None,
        };
        let in_config = |path: &str| {
            // macOS keeps what Linux keeps in `~/.config` elsewhere.
            let mac = self.home.as_ref().map(|home| home.join("Library/Application Support").join(path));
            let linux = self.config_home.as_ref().map(|config| config.join(path));
            [mac, linux].into_iter().flatten().collect()
        };
        let user: Vec<PathBuf> = match client {
            Client::ClaudeCode => self.claude_home.iter().map(|home| home.join(".claude.json")).collect(),
            Client::ClaudeDesktop => in_config("Claude/claude_desktop_config.json"),
            Client::Cursor => self.home.iter().map(|home| home.join(".cursor/mcp.json")).collect(),
            Client::VsCode => in_config("Code/User/mcp.json"),
            Client::Codex => self.codex_home.iter().map(|home| home.join("config.toml")).collect(),
            Client::Unnamed | Client::Typed => Vec::new(),
        };
        let project = project.map(|file| Place { client, scope: Scope::Project, file: self.folder.join(file) });
        let mut places: Vec<Place> = project.into_iter().collect();
        for file in user {
            // In the home folder a project's list is the user's.
            if places.iter().all(|place| !is_same(&place.file, &file)) {
                places.push(Place { client, scope: Scope::User, file });
            }
        }
        places
    }

    /// Every list that is there, the projects' first.
    pub(crate) fn existing(&self) -> Vec<Place> {
        let mut places: Vec<Place> = CLIENTS.into_iter().flat_map(|client| self.places_of(client)).collect();
        places.retain(|place| place.file.symlink_metadata().is_ok());
        places.sort_by_key(|place| place.scope == Scope::User);
        places
    }

    /// The lists that `--import` asks for: the project's where it asks for none.
    ///
    /// # Errors
    /// When a word is neither a client nor a file, or a client has no list here.
    pub(crate) fn asked(&self, words: &[String]) -> Result<Vec<Place>, Failure> {
        let existing = self.existing();
        let project = |place: &&Place| place.scope == Scope::Project;
        if words.is_empty() {
            return Ok(existing.iter().filter(project).cloned().collect());
        }
        let mut asked: Vec<Place> = Vec::new();
        for word in words {
            let found: Vec<Place> = match word.as_str() {
                "none" => Vec::new(),
                "all" => existing.clone(),
                "project" => existing.iter().filter(project).cloned().collect(),
                word => match CLIENTS.into_iter().find(|client| client.word() == word) {
                    Some(client) => self.lists_of(client, &existing)?,
                    None => vec![self.named(word)?],
                },
            };
            for place in found {
                if !asked.contains(&place) {
                    asked.push(place);
                }
            }
        }
        asked.sort_by_key(|place| place.scope == Scope::User);
        Ok(asked)
    }

    fn lists_of(&self, client: Client, existing: &[Place]) -> Result<Vec<Place>, Failure> {
        let found: Vec<Place> = existing.iter().filter(|place| place.client == client).cloned().collect();
        if found.is_empty() {
            let places = self.places_of(client);
            let looked: Vec<String> = places.iter().map(|place| format!("`{}`", place.file.display())).collect();
            let message = format!("{} has no list of servers here", client.title());
            return Err(Failure::usage(message).hint(format!("looked for {}", looked.join(" and "))));
        }
        Ok(found)
    }

    fn named(&self, word: &str) -> Result<Place, Failure> {
        let file = self.folder.join(word);
        if file.symlink_metadata().is_err() {
            let words: Vec<&str> = CLIENTS.iter().map(|client| client.word()).collect();
            let message = format!("`{word}` is neither a file that is there nor a client");
            return Err(
                Failure::usage(message).hint(format!("--import {}, project, all, none or FILE", words.join(", ")))
            );
        }
        let known = self.existing().into_iter().find(|place| is_same(&place.file, &file));
        Ok(known.unwrap_or(Place { client: Client::Unnamed, scope: Scope::Project, file }))
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    real(one) == real(other)
}
