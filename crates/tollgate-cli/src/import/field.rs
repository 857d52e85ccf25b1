//! Fields of other clients' lists that `tollgate.toml` says otherwise, or not at all: what becomes of each, and the line to
//! write where there is one.

use serde_json::Value;

use crate::output::visible;

/// What is to be said of a field that was not taken over.
pub(super) fn said(server: &str, key: &str, value: &Value) -> String {
    let instead = match key {
        "alwaysAllow" | "autoApprove" | "autoApproved" => {
            let tables: Vec<String> = tools(value).iter().map(|tool| format!("[mcp.{server}.tools.{tool}]")).collect();
            let tables = if tables.is_empty() { format!("[mcp.{server}.tools.\"GLOB\"]") } else { tables.join(" ") };
            format!("what changes nothing runs unasked with {tables} risk = \"read\"")
        }
        "disabledTools" | "disabled_tools" | "excludeTools" => {
            format!("a role hides them with exclude = [{}]", globs(server, value))
        }
        "enabledTools" | "enabled_tools" | "includeTools" => {
            format!("all its tools are there; a role shows these only with tools = [{}]", globs(server, value))
        }
        "timeout" => time(server, value, 1.0),
        "tool_timeout_sec" => time(server, value, 1000.0),
        "startup_timeout_sec" | "startup_timeout_ms" | "initTimeout" => "a server has 60 s to start".into(),
        "oauth" | "auth" | "scopes" | "oauth_resource" | "authProviderType" | "headersHelper" => {
            "nobody signs in to a server yet; where it wants a token, headers = { Authorization = { command = \
             [\"PROGRAM\"] } } has one printed"
                .into()
        }
        "sandbox" | "sandboxEnabled" => "programs run without isolation here".into(),
        "trust" | "default_tools_approval_mode" | "tools" => {
            format!("[mcp.{server}.tools.\"GLOB\"] says the risk of its tools, and roles say who may use them")
        }
        "description"
        | "name"
        | "title"
        | "icon"
        | "gallery"
        | "version"
        | "dev"
        | "required"
        | "envFile"
        | "cwd"
        | "args"
        | "env"
        | "env_vars"
        | "headers"
        | "http_headers"
        | "env_http_headers"
        | "bearer_token_env_var"
        | "bearer_token" => "it means nothing for this server here".into(),
        _ => "it is not known here".into(),
    };
    format!("`{}` was left out: {instead}", visible(key))
}

/// The names of tools in a list, quoted.
fn tools(value: &Value) -> Vec<String> {
    let names = value.as_array().into_iter().flatten().filter_map(Value::as_str);
    names.map(|name| format!("\"{}\"", visible(name))).collect()
}

/// The names of a server's tools here, quoted.
fn globs(server: &str, value: &Value) -> String {
    let names = tools(value).into_iter().map(|tool| format!("\"mcp__{server}__{}", tool.trim_start_matches('"')));
    names.collect::<Vec<_>>().join(", ")
}

fn time(server: &str, value: &Value, factor: f64) -> String {
    let ms = value.as_f64().map_or_else(|| "N".to_owned(), |time| format!("{:.0}", time * factor));
    format!("a call has 30 s, unless [tools.\"mcp__{server}__*\"] execution = {{ timeout_ms = {ms} }}")
}
