//! MCP servers over stdio, as Python programs that need nothing but the language: where they lie. Each says in its first lines
//! which words it takes.

/// A server of any bad character that is asked for: it prints what it must not, answers twice, late or never, dies at any
/// message, lists without end.
pub const HOSTILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/servers/hostile.py");
/// A server with resources, templates and prompts, some of them odd.
pub const LIBRARY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/servers/library.py");
/// A server that answers with the text of a file, as it stands there.
pub const MIRROR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/servers/mirror.py");
