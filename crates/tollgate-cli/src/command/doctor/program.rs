//! Programs that the configuration names: whether they are there, and what brings them.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Why a program can not be started, and what mends it; none where it can.
pub(super) fn missing(program: &str, folder: &Path) -> Option<(String, String)> {
    let is_file = |path: &Path| path.metadata().is_ok_and(|metadata| metadata.is_file());
    let is_runnable = |path: &Path| {
        path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    if program.contains('/') {
        let path = folder.join(program);
        return match (is_runnable(&path), is_file(&path)) {
            (true, _) => None,
            (false, true) => {
                let mend = format!("chmod +x {}", word(&path.display().to_string()));
                Some((format!("`{}` may not be run", path.display()), mend))
            }
            (false, false) => Some((
                format!("the program `{program}` is not there"),
                format!("install `{program}`, or correct `command` in tollgate.toml"),
            )),
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&path).any(|folder| is_runnable(&folder.join(program))) {
        return None;
    }
    Some((format!("the program `{program}` is not in PATH"), brings(program)))
}

/// What brings a program that servers are often started with.
pub(super) fn brings(program: &str) -> String {
    let command = match program {
        "npx" | "npm" | "node" => "sudo apt-get install nodejs npm",
        "uvx" | "uv" => "pipx install uv",
        "bunx" | "bun" => "npm install -g bun",
        "deno" => "npm install -g deno",
        "docker" => "sudo apt-get install docker.io",
        "python3" | "python" | "pip" | "pip3" => "sudo apt-get install python3 python-is-python3 python3-pip",
        "pipx" => "sudo apt-get install pipx",
        _ => return format!("install `{program}`, put its folder into PATH, or correct `command` in tollgate.toml"),
    };
    format!("{command}    (or put the folder of `{program}` into PATH)")
}

/// A text as a word of a shell, for commands to copy.
pub(super) fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./:=@%+,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// A command line to copy.
pub(super) fn line<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    words.into_iter().map(word).collect::<Vec<_>>().join(" ")
}
