//! A server as a table of `tollgate.toml`: what is appended to the file, as text, so that everything in it stays as it is.

use super::server::Way;
use super::value::Value;

/// The tables of a server. `file` gives the path of the file in which a secret is kept.
pub(super) fn table(name: &str, from: &str, way: &Way, mut file: impl FnMut(&str, &str) -> String) -> String {
    let mut text = format!("\n# From {from}.\n[mcp.{name}]\n");
    let (key, values) = match way {
        Way::Program { command, args, env } => {
            text.push_str(&format!("command = {}\n", quoted(command)));
            if !args.is_empty() {
                text.push_str(&format!("args = {}\n", list(args)));
            }
            ("env", env)
        }
        Way::Endpoint { url, headers } => {
            text.push_str(&format!("url = {}\n", quoted(url)));
            ("headers", headers)
        }
    };
    let pairs: Vec<String> = values
        .iter()
        .map(|(name, value)| {
            let value = match value {
                Value::Text(text) => quoted(text),
                Value::Env(variable) => format!("{{ env = {} }}", quoted(variable)),
                Value::Command(command) => format!("{{ command = {} }}", list(command)),
                Value::Kept(secret) => format!("{{ file = {} }}", quoted(&file(name, secret))),
            };
            format!("{} = {value}", self::key(name))
        })
        .collect();
    if !pairs.is_empty() {
        text.push_str(&format!("{key} = {{ {} }}\n", pairs.join(", ")));
    }
    text.push_str(&format!(
        "# Its tools are dangerous, and a human is asked, until you say what you know of them:\n\
         # [mcp.{name}.tools.\"get_*\"]\n# risk = \"read\"\n"
    ));
    text
}

fn list(words: &[String]) -> String {
    format!("[{}]", words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(", "))
}

/// A key: bare where it can be.
fn key(name: &str) -> String {
    let is_bare = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if is_bare { name.to_owned() } else { quoted(name) }
}

/// A text as a basic string on one line (TOML 1.0, «String»).
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_back() {
        let odd = "a\"b\\c\n\t\r\u{1}\u{7f}\u{85}北京 # ${x} 'q'";
        let way = Way::Program {
            command: odd.into(),
            args: vec![odd.into(), String::new()],
            env: vec![("A.b c".into(), Value::Text(odd.into())), ("B".into(), Value::Kept("s".into()))],
        };
        let text = table("x", "here", &way, |name, _| format!("kept/{name}"));
        let read: toml::Table = toml::from_str(&text).unwrap();
        let server = &read["mcp"]["x"];
        assert_eq!(server["command"].as_str(), Some(odd));
        assert_eq!(server["args"].as_array().unwrap()[0].as_str(), Some(odd));
        assert_eq!(server["env"]["A.b c"].as_str(), Some(odd));
        assert_eq!(server["env"]["B"]["file"].as_str(), Some("kept/B"));
    }
}
