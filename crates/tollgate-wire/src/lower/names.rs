//! The reversible table of names of one request. Names that every wire accepts stay; others get a form that is made
//! from the name alone, so that it is the same in each request.

use std::borrow::Cow;
use std::collections::HashMap;

use tollgate_types::limits;

/// Prefixes that models put before a name on their own.
const KNOWN_PREFIXES: &[&str] = &["functions.", "default_api:", "default_api.", "tools/", "default."];

/// Which wire name stands for which tool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    to_wire: HashMap<String, String>,
    to_tool: HashMap<String, String>,
}

impl Names {
    /// The table for these tools.
    pub fn of<'a>(tools: impl IntoIterator<Item = &'a str>) -> Self {
        let mut names = Self::default();
        let (legal, other): (Vec<_>, Vec<_>) = tools.into_iter().partition(|name| is_legal(name));
        // Legal names first: they are their own wire names and must not be taken by a made one.
        for name in legal {
            names.insert(name, name.to_owned());
        }
        for name in other {
            let mut wire = made(name, 0);
            let mut round = 1;
            while names.to_tool.get(&wire).is_some_and(|taken| taken != name) {
                wire = made(name, round);
                round += 1;
            }
            names.insert(name, wire);
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

    /// Whether a tool of this name, its own or the one on the wire, is offered.
    pub fn is_offered(&self, name: &str) -> bool {
        self.to_wire.contains_key(name) || self.to_tool.contains_key(name)
    }

    /// The name for the wire; also for a name that a model made up, because it stands in the history.
    pub fn on_wire<'a>(&'a self, tool: &'a str) -> Cow<'a, str> {
        match self.to_wire.get(tool) {
            Some(wire) => wire.into(),
            None if is_legal(tool) => tool.into(),
            None => made(tool, 0).into(),
        }
    }

    /// The tool that a model means, and a diagnostic when the name was not exactly the one offered. A known prefix
    /// goes only when what is left is exactly an offered name; nothing is ever matched by likeness.
    pub fn resolve<'a>(&'a self, asked: &'a str) -> (&'a str, Option<&'static str>) {
        if let Some(tool) = self.exact(asked) {
            return (tool, None);
        }
        let bare =
            KNOWN_PREFIXES.iter().filter_map(|prefix| asked.strip_prefix(prefix)).find_map(|rest| self.exact(rest));
        bare.map_or((asked, None), |tool| (tool, Some("name_prefix_stripped")))
    }

    fn exact(&self, name: &str) -> Option<&str> {
        let by_wire = self.to_tool.get(name).map(String::as_str);
        by_wire.or_else(|| self.to_wire.get_key_value(name).map(|(tool, _)| tool.as_str()))
    }
}

fn is_legal(name: &str) -> bool {
    (1..=limits::TOOL_NAME_CHARS_MAX).contains(&name.len()) && name.bytes().all(is_legal_byte)
}

fn is_legal_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

/// A legal name with a suffix that tells apart what becomes equal.
fn made(name: &str, round: u32) -> String {
    const SUFFIX_CHARS: usize = 9;
    let legal = |c: char| if u8::try_from(c).is_ok_and(is_legal_byte) { c } else { '_' };
    let head: String = name.chars().map(legal).take(limits::TOOL_NAME_CHARS_MAX - SUFFIX_CHARS).collect();
    format!("{head}_{:08x}", fnv1a(name.bytes().chain(round.to_le_bytes())))
}

/// FNV-1a, 32 bits (draft-eastlake-fnv): stable over versions and machines, unlike the standard library's hasher.
fn fnv1a(bytes: impl Iterator<Item = u8>) -> u32 {
    bytes.fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}
