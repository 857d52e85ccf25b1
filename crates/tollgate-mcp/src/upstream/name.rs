//! The names of a server's tools: `mcp__<server>__<tool>`, fit for every wire. Which tool a name means stands in a
//! table; it is never read out of the name.

use sha2::{Digest, Sha256};
use tollgate_types::limits;

const HASH_CHARS: usize = 8;

/// The name of a server's tool here. A name that must be changed or cut carries a hash of the whole, so that it stays
/// the same from start to start and differs from its neighbours.
pub(super) fn local(server: &str, tool: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let plain: String = tool.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    let name = format!("mcp__{server}__{plain}");
    if plain == tool && !tool.is_empty() && name.len() <= limits::TOOL_NAME_CHARS_MAX {
        return name;
    }
    let hash = hex(tool.as_bytes(), HASH_CHARS);
    let kept = name.len().min(limits::TOOL_NAME_CHARS_MAX - HASH_CHARS - 1);
    format!("{}_{hash}", name.get(..kept).unwrap_or(&name))
}

/// The name of a server's resource, template (`resources`) or prompt (`prompts`) here: as the server has it, behind its
/// server and its kind.
pub(super) fn entry(server: &str, group: &str, name: &str) -> String {
    format!("mcp__{server}__{group}/{name}")
}

/// The server of a resource's entry, and the URI that the resource has there.
pub(super) fn resource(entry: &str) -> Option<(&str, &str)> {
    let (server, own) = entry.strip_prefix("mcp__")?.split_once("__")?;
    Some((server, own.strip_prefix("resources/")?))
}

/// The beginning of a SHA-256, in lower-case hexadecimal.
pub(super) fn hex(bytes: &[u8], chars: usize) -> String {
    let digest = Sha256::digest(bytes);
    let nibbles = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    nibbles.take(chars).filter_map(|nibble| char::from_digit(u32::from(nibble), 16)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_fit_stable_and_distinct() {
        assert_eq!(local("files", "read_file"), "mcp__files__read_file");
        assert_eq!(local("files", "a.b"), "mcp__files__a_b_2e7336dc");
        let long = "x".repeat(80);
        let odd = ["a.b", "a/b", "a b", "a_b", "", "读", &long, &format!("{long}y")];
        let names: Vec<String> = odd.iter().map(|tool| local("files", tool)).collect();
        for (index, name) in names.iter().enumerate() {
            assert!(name.len() <= 64 && name.is_ascii() && name.starts_with("mcp__files__"), "{name}");
            assert!(!names[..index].contains(name), "{name}");
        }
        assert_eq!(hex(b"", 64), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
