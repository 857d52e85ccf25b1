//! Why an MCP server does not come up, and the command that mends it, by what it said.

use std::time::Duration;

use tollgate::config::{Loaded, McpServer};
use tollgate::mcp::upstream::{Trouble, UpstreamState, UpstreamStatus};

use super::program::{self, word};
use super::servers::reaches;

/// What keeps it from coming up. One that is still being started is too slow.
pub(super) fn of(status: &UpstreamStatus) -> Option<Trouble> {
    if status.state == UpstreamState::Ready {
        return None;
    }
    let waited_for = if status.noise.lines > 0 { Trouble::PrintsOnStdout } else { Trouble::TooSlow };
    Some(status.trouble.unwrap_or(waited_for))
}

/// What was found.
pub(super) fn found(status: &UpstreamStatus, wait: Duration) -> String {
    let late = format!("it did not say what it has within {} s", wait.as_secs());
    let error = status.last_error.clone().unwrap_or(late);
    match printed(status) {
        Some(line) => format!("{error}; it prints on standard output what is no message: {line}"),
        None => error,
    }
}

/// The last line on standard output that was no message.
pub(super) fn printed(status: &UpstreamStatus) -> Option<String> {
    status.noise.last_lines.last().map(|line| format!("`{}`", line.trim()))
}

/// The command that mends it; else the one that shows more.
pub(super) fn mend(status: &UpstreamStatus, server: &McpServer, loaded: &Loaded) -> String {
    let trouble = of(status);
    let Some(command) = &server.command else { return mend_endpoint(&status.name, trouble, server) };
    if let Some(mend) = by_words(status, server, loaded) {
        return mend;
    }
    let package = package(server);
    match (trouble, command.as_str()) {
        (Some(Trouble::PrintsOnStdout), _) => quieter(server, loaded),
        (Some(Trouble::OtherProtocol), "npx" | "bunx") => {
            format!("take a newer version: npm view {} versions", word(unversioned(package)))
        }
        (Some(Trouble::OtherProtocol), "uvx") => format!("take a newer version: uvx --refresh {}", word(package)),
        (Some(Trouble::OtherProtocol), _) => format!("take a newer version of it: {}", by_hand(server, loaded)),
        (Some(Trouble::TooSlow), "npx" | "bunx" | "uvx" | "docker") => {
            format!("let it fetch what it needs, once: {} </dev/null", by_hand(server, loaded))
        }
        (Some(Trouble::TooSlow), _) => {
            format!("give it more time: tollgate doctor --wait 600; or see what it does: {}", by_hand(server, loaded))
        }
        _ => format!("see what it says: {}", by_hand(server, loaded)),
    }
}

fn mend_endpoint(name: &str, trouble: Option<Trouble>, server: &McpServer) -> String {
    let url = word(server.url.as_deref().unwrap_or_default());
    match trouble {
        Some(Trouble::NeedsLogin) => format!("tollgate mcp login {}", word(name)),
        Some(Trouble::NeedsAuth) if server.oauth.is_some() => {
            format!("correct [mcp.{name}.oauth], or log in anew: tollgate mcp login {}", word(name))
        }
        Some(Trouble::NeedsAuth) => format!(
            "give it a key: headers = {{ Authorization = {{ command = [\"PROGRAM\"] }} }} below [mcp.{name}], which prints \
             `Bearer …`"
        ),
        Some(Trouble::TooSlow) => format!("give it more time: tollgate doctor --wait 600; this asks it: curl -i {url}"),
        Some(Trouble::OtherProtocol) => format!("it needs a newer version of the server behind {url}"),
        _ => format!("start it, or correct `url` of [mcp.{name}]; this asks it: curl -i {url}"),
    }
}

/// What programs say themselves of what they lack.
fn by_words(status: &UpstreamStatus, server: &McpServer, loaded: &Loaded) -> Option<String> {
    let said = format!("{} {}", status.last_error.as_deref().unwrap_or_default(), status.stderr_tail);
    let has = |part: &str| said.contains(part);
    let between = |open: &str, close: &str| Some(said.split_once(open)?.1.split_once(close)?.0.to_owned());
    if let Some(module) = between("No module named '", "'") {
        return Some(format!("python3 -m pip install {}", word(module.split('.').next().unwrap_or_default())));
    }
    // A shell that `init` put before a program finds it, or not.
    if let Some(program) = between("exec: ", ": not found") {
        return Some(program::brings(&program));
    }
    if has("E404") || has("404 Not Found") {
        return Some(format!("see if the package has another name: npm view {}", word(package(server))));
    }
    if has("Cannot find module") || has("Cannot find package") {
        return Some(format!("cd {} && npm install", word(&loaded.folder.display().to_string())));
    }
    None
}

/// How to keep standard output for messages.
pub(super) fn quieter(server: &McpServer, loaded: &Loaded) -> String {
    let words: Vec<&str> = server.command.iter().chain(&server.args).map(String::as_str).collect();
    match words.as_slice() {
        ["npm" | "pnpm" | "yarn", "run" | "start", ..] => {
            "only messages may stand on standard output: put \"--silent\" first among `args`".to_owned()
        }
        _ => format!(
            "only messages may stand on standard output, the rest belongs on standard error; this shows it: {} </dev/null \
             2>/dev/null",
            by_hand(server, loaded)
        ),
    }
}

fn by_hand(server: &McpServer, loaded: &Loaded) -> String {
    format!("cd {} && {}", word(&loaded.folder.display().to_string()), reaches(server))
}

fn package(server: &McpServer) -> &str {
    server.args.iter().find(|arg| !arg.starts_with('-')).map(String::as_str).unwrap_or_default()
}

/// `@scope/name@1.2` without its version.
fn unversioned(package: &str) -> &str {
    match package.rfind('@') {
        Some(at) if at > 0 => package.get(..at).unwrap_or(package),
        _ => package,
    }
}
