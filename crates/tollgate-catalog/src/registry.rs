//! The registry: definitions by name, each with its pin and its compiled schemas.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use serde_json::Value;
use tollgate_types::{CallKind, Dialect, Pin, ToolDefinition};

use crate::nearest::fold;
use crate::register::{Sound, check, entry_name};
use crate::schema::{Schema, SchemaError};
use crate::template::UriTemplate;
use crate::{RegisterError, to_definition};

/// A registered tool.
#[derive(Debug)]
pub struct Entry {
    /// The definition. Where the input schema did not say `type = "object"`, it does now.
    pub definition: Arc<ToolDefinition>,
    /// What exactly was registered.
    pub pin: Pin,
    /// The compiled schema of the arguments.
    pub input: Schema,
    /// The compiled schema of the structured result.
    pub output: Option<Schema>,
    /// Whether it is not called like others ([`ToolDefinition::is_special`]).
    pub is_special: bool,
    template: Option<UriTemplate>,
}

impl Entry {
    /// The same for other arguments, under its own pin: a resource of a template, the completions of a prompt.
    ///
    /// # Errors
    /// When the schema can not be used.
    pub fn taking(&self, name: String, kind: CallKind, input_schema: Value) -> Result<Self, SchemaError> {
        let input = Schema::compile(&input_schema)?;
        let definition = ToolDefinition { name, kind, input_schema, ..(*self.definition).clone() };
        let (definition, pin) = (Arc::new(definition), self.pin.clone());
        Ok(Self { definition, pin, input, output: None, is_special: false, template: None })
    }
}

/// Which of some names are there.
#[derive(Debug)]
pub struct Resolved {
    /// The entries, in the order of the names.
    pub found: Vec<Arc<Entry>>,
    /// The names that are not there.
    pub missing: Vec<String>,
}

/// The directory of definitions. Reading waits for no one but a registration under way, which only inserts.
#[derive(Debug, Default)]
pub struct Catalog {
    state: RwLock<State>,
}

#[derive(Debug, Default, Clone)]
struct State {
    by_name: BTreeMap<String, Arc<Entry>>,
    /// Names without case and separators, to the name.
    by_look: BTreeMap<String, String>,
    templates: BTreeMap<String, Arc<Entry>>,
}

impl State {
    fn insert(&mut self, sound: Sound) -> Result<Arc<Entry>, RegisterError> {
        let Sound { definition, pin, input, output, template } = sound;
        let name = definition.name.clone();
        let look = look(&name);
        match self.by_look.get(&look) {
            Some(existing) if *existing == name => return Err(RegisterError::Duplicate { name }),
            Some(existing) => return Err(RegisterError::LookAlike { name, existing: existing.clone() }),
            None => {}
        }
        let (is_special, definition) = (definition.is_special(), Arc::new(definition));
        let entry = Arc::new(Entry { definition, pin, input, output, is_special, template });
        self.by_look.insert(look, name.clone());
        if entry.template.is_some() {
            self.templates.insert(name.clone(), entry.clone());
        }
        self.by_name.insert(name, entry.clone());
        Ok(entry)
    }
}

impl Catalog {
    /// A catalog without tools.
    pub fn new() -> Self {
        Self::default()
    }

    /// A catalog with tools.
    ///
    /// # Errors
    /// As [`Catalog::register`].
    pub fn base(definitions: impl IntoIterator<Item = ToolDefinition>) -> Result<Self, RegisterError> {
        let catalog = Self::new();
        catalog.register_all(definitions)?;
        Ok(catalog)
    }

    /// Adds a tool.
    ///
    /// # Errors
    /// A name that is none, is taken, or looks like another; a schema that is none, is not of objects, reaches outside
    /// of itself or is too large; a number out of range.
    pub fn register(&self, definition: ToolDefinition) -> Result<Arc<Entry>, RegisterError> {
        let sound = check(definition)?;
        self.write().insert(sound)
    }

    /// Adds tools: all of them, or with an error none.
    ///
    /// # Errors
    /// As [`Catalog::register`].
    pub fn register_all(&self, definitions: impl IntoIterator<Item = ToolDefinition>) -> Result<(), RegisterError> {
        let sounds = definitions.into_iter().map(check).collect::<Result<Vec<_>, _>>()?;
        let mut state = self.write();
        let mut next = state.clone();
        for sound in sounds {
            next.insert(sound)?;
        }
        *state = next;
        Ok(())
    }

    /// Takes a tool out. False when it was not there.
    pub fn remove(&self, name: &str) -> bool {
        let mut state = self.write();
        let was_there = state.by_name.remove(name).is_some();
        if was_there {
            state.by_look.remove(&look(name));
            state.templates.remove(name);
        }
        was_there
    }

    /// A tool by its exact name.
    pub fn get(&self, name: &str) -> Option<Arc<Entry>> {
        self.read().by_name.get(name).cloned()
    }

    /// Whether a tool is there.
    pub fn has(&self, name: &str) -> bool {
        self.read().by_name.contains_key(name)
    }

    /// The template that a resource of this name is one of; of several the one that says most of it.
    pub fn template_of(&self, name: &str) -> Option<Arc<Entry>> {
        let uri = entry_name(name).ok()?;
        let prefix = name.strip_suffix(uri)?;
        let state = self.read();
        let of_server = state.templates.range(prefix.to_owned()..).take_while(|(name, _)| name.starts_with(prefix));
        let fitting = of_server.filter_map(|(_, entry)| {
            let template = entry.template.as_ref().filter(|template| template.fits(uri))?;
            Some((template.literal_bytes(), entry))
        });
        // Of equals the first by name, so that it is always the same one.
        fitting.reduce(|best, other| if other.0 > best.0 { other } else { best }).map(|(_, entry)| entry.clone())
    }

    /// All tools, by name.
    pub fn all(&self) -> Vec<Arc<Entry>> {
        self.read().by_name.values().cloned().collect()
    }

    /// Looks several names up at once.
    pub fn resolve_names<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Resolved {
        let state = self.read();
        let mut resolved = Resolved { found: Vec::new(), missing: Vec::new() };
        for name in names {
            match state.by_name.get(name) {
                Some(entry) => resolved.found.push(entry.clone()),
                None => resolved.missing.push(name.to_owned()),
            }
        }
        resolved
    }

    /// All tools in a dialect, by name.
    pub fn to_definitions(&self, dialect: Dialect) -> Vec<Value> {
        let all = self.all();
        let tools = all.iter().filter(|entry| entry.definition.kind.is_tool());
        tools.map(|entry| to_definition(&entry.definition, dialect)).collect()
    }

    // INVARIANT: the state is changed by single inserts and swaps, so that a panic elsewhere leaves it whole.
    fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, State> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What looks alike is alike, but in a URI or a prompt's name every character counts.
fn look(name: &str) -> String {
    if name.contains('/') { name.to_owned() } else { fold(name) }
}

#[cfg(test)]
mod tests;
