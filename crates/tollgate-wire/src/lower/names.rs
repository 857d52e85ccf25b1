//! The reversible table of names of one request. Names that the wire accepts stay; others get a form that is made from the
//! name alone, so that it is the same in each request.

use std::borrow::Cow;
use std::collections::HashMap;

use tollgate_types::{RepairRule, ToolDefinition};

use crate::dialect::Dialect;

/// Prefixes that models put before a name on their own.
const KNOWN_PREFIXES: &[&str] = &["functions.", "default_api:", "default_api.", "tools/", "default."];

/// Which wire name stands for which tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    dialect: Dialect,
    to_wire: HashMap<String, String>,
    to_tool: HashMap<String, String>,
    /// The property that a tool's free text fills, where the tool went out as one of free text.
    texts: HashMap<String, String>,
}

impl Names {
    /// The table for these tools in Chat Completions.
    pub fn of<'a>(tools: impl IntoIterator<Item = &'a str>) -> Self {
        Self::in_dialect(Dialect::Chat, tools)
    }

    /// The table for these tools.
    pub fn in_dialect<'a>(dialect: Dialect, tools: impl IntoIterator<Item = &'a str>) -> Self {
        let mut names = Self { dialect, ..Self::default() };
        let (legal, mut other): (Vec<_>, Vec<_>) = tools.into_iter().partition(|name| is_legal(dialect, name));
        // Legal names first: they are their own wire names and must not be taken by a made one. The others in an order of
        // their own, so that the order of the tools changes no name.
        for name in legal {
            names.insert(name, name.to_owned());
        }
        other.sort_unstable();
        other.dedup();
        for name in other {
            let free = (0..).map(|round| made(dialect, name, round)).find(|wire| !names.to_tool.contains_key(wire));
            names.insert(name, free.unwrap_or_default());
        }
        names
    }

    /// The table for these tools, of which some go out as tools of free text.
    pub(super) fn offered<'a>(
        dialect: Dialect,
        tools: impl Iterator<Item = (&'a ToolDefinition, bool)> + Clone,
    ) -> Self {
        let mut names = Self::in_dialect(dialect, tools.clone().map(|(tool, _)| tool.name.as_str()));
        for (tool, _) in tools.filter(|(_, is_text)| *is_text) {
            let property = tool.text_input.as_ref().map(|input| input.property.clone());
            names.texts.extend(property.map(|property| (tool.name.clone(), property)));
        }
        names
    }

    fn insert(&mut self, tool: &str, wire: String) {
        self.to_wire.insert(tool.to_owned(), wire.clone());
        self.to_tool.insert(wire, tool.to_owned());
    }

    /// Whether no tool is offered.
    pub fn is_empty(&self) -> bool {
        self.to_wire.is_empty()
    }

    /// The names on the wire.
    pub(crate) fn wire_names(&self) -> impl Iterator<Item = &str> {
        self.to_tool.keys().map(String::as_str)
    }

    /// Whether a tool of this name, its own or the one on the wire, is offered.
    pub fn is_offered(&self, name: &str) -> bool {
        self.to_wire.contains_key(name) || self.to_tool.contains_key(name)
    }

    /// The name for the wire; also for a name that a model made up, because it stands in the history.
    pub fn on_wire<'a>(&'a self, tool: &'a str) -> Cow<'a, str> {
        match self.to_wire.get(tool) {
            Some(wire) => wire.into(),
            None if is_legal(self.dialect, tool) => tool.into(),
            None => made(self.dialect, tool, 0).into(),
        }
    }

    /// The property that the free text of a call fills, where the tool went out as one of free text (`type: custom`):
    /// from the text `x` of such a call the arguments `{"property": "x"}` are made. The name is the tool's own or the one
    /// on the wire.
    pub fn text_property(&self, name: &str) -> Option<&str> {
        self.texts.get(self.exact(name)?).map(String::as_str)
    }

    /// The tool that a model means, and a diagnostic when the name was not exactly the one offered. A known prefix
    /// goes only when what is left is exactly an offered name; nothing is ever matched by likeness.
    pub fn resolve<'a>(&'a self, asked: &'a str) -> (&'a str, Option<&'static str>) {
        if let Some(tool) = self.exact(asked) {
            return (tool, None);
        }
        let bare =
            KNOWN_PREFIXES.iter().filter_map(|prefix| asked.strip_prefix(prefix)).find_map(|rest| self.exact(rest));
        bare.map_or((asked, None), |tool| (tool, Some(RepairRule::NamePrefixStripped.as_str())))
    }

    fn exact(&self, name: &str) -> Option<&str> {
        let by_wire = self.to_tool.get(name).map(String::as_str);
        by_wire.or_else(|| self.to_wire.get_key_value(name).map(|(tool, _)| tool.as_str()))
    }
}

/// The longest name that a provider takes.
fn chars_max(dialect: Dialect) -> usize {
    match dialect {
        Dialect::Chat | Dialect::Anthropic => 64,
        Dialect::Responses | Dialect::Gemini => 128,
    }
}

fn is_legal(dialect: Dialect, name: &str) -> bool {
    (1..=chars_max(dialect)).contains(&name.len())
        && name.bytes().all(|byte| is_legal_byte(dialect, byte))
        && (dialect != Dialect::Gemini || !name.starts_with(|first: char| !first.is_ascii_alphabetic() && first != '_'))
}

fn is_legal_byte(dialect: Dialect, byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-".contains(&byte) || dialect == Dialect::Gemini && b".:".contains(&byte)
}

/// A legal name with a suffix that tells apart what becomes equal.
fn made(dialect: Dialect, name: &str, round: u32) -> String {
    const SUFFIX_CHARS: usize = 9;
    let mut head = String::new();
    for c in name.chars() {
        if u8::try_from(c).is_ok_and(|byte| is_legal_byte(dialect, byte)) {
            head.push(c);
        } else if !head.ends_with('_') {
            head.push('_');
        }
        if head.len() > chars_max(dialect) {
            break;
        }
    }
    // Of a name in another script nothing is left.
    let is_told = head.contains(|c: char| c.is_ascii_alphanumeric());
    let mut wire = if is_told { head } else { "tool".to_owned() };
    if !is_legal(dialect, wire.get(..1).unwrap_or_default()) {
        wire.insert(0, '_');
    }
    wire.truncate(chars_max(dialect) - SUFFIX_CHARS);
    let suffix = fnv1a(name.bytes().chain(round.to_le_bytes()));
    let gap = if wire.ends_with('_') { "" } else { "_" };
    format!("{wire}{gap}{suffix:08x}")
}

/// FNV-1a, 32 bits (draft-eastlake-fnv): stable over versions and machines, unlike the standard library's hasher.
fn fnv1a(bytes: impl Iterator<Item = u8>) -> u32 {
    bytes.fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
