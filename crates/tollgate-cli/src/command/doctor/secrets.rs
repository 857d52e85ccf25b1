//! The secrets that the configuration names: whether each is to be had, and that its file is its owner's alone. No value is
//! shown.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tollgate::config::{Loaded, Runs, SecretSource, TextOrSecret};
use tollgate::webhooks::check_secret;

use super::Finding;
use super::program::{line, word};
use crate::import::needed;

/// What the webhook is called.
pub(super) const WEBHOOK: &str = "approvals webhook";
/// What others may do with a file, in its mode.
pub(super) const OTHERS: u32 = 0o077;

/// Everything but the secrets of MCP servers, which are looked at with them.
pub(super) async fn examine(loaded: &Loaded) -> Vec<Finding> {
    let mut findings = models(loaded).await;
    for (name, why, mend) in lacking(&loaded.config.env, loaded).await {
        findings.push(Finding::ailing(format!("env {name}"), why, mend));
    }
    for tool in loaded.tools().unwrap_or_default() {
        let Runs::Http(http) = &tool.runs else { continue };
        for (name, why, mend) in lacking(&http.headers, loaded).await {
            findings.push(Finding::ailing(format!("tool {}", tool.definition.name), format!("{name}: {why}"), mend));
        }
    }
    findings.extend(search(loaded).await);
    findings.extend(webhook(loaded).await);
    findings.extend(loaded.secret_files().iter().filter_map(|path| exposed(path)));
    findings
}

async fn models(loaded: &Loaded) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, model) in &loaded.config.models {
        let model = model.get_ref();
        let what = format!("model {name}");
        let key = match &model.api_key {
            Some(source) => source.resolve(&loaded.folder).await.err().map(|why| (why, mend(source, loaded))),
            None => None,
        };
        let header = lacking(&model.headers, loaded).await.into_iter().next();
        let header = header.map(|(header, why, mend)| (format!("headers.{header}: {why}"), mend));
        findings.push(match key.or(header) {
            None => Finding::well(what, format!("{} at {}", model.model, model.base_url)),
            Some((why, mend)) => Finding::ailing(what, why, mend),
        });
    }
    findings
}

/// A PostgreSQL server. Its connection string holds a password, so nothing of it is shown.
pub(super) async fn postgres(name: &str, source: &SecretSource, loaded: &Loaded) -> Finding {
    let what = format!("database {name}");
    match source.resolve(&loaded.folder).await {
        Ok(_) => Finding::well(what, "PostgreSQL"),
        Err(why) => Finding::ailing(what, why, mend(source, loaded)),
    }
}

async fn search(loaded: &Loaded) -> Option<Finding> {
    let url = loaded.search_url().ok().flatten()?;
    let source = loaded.config.search.as_ref()?.get_ref().api_key.as_ref();
    let why = match source {
        Some(source) => source.resolve(&loaded.folder).await.err().map(|why| (why, mend(source, loaded))),
        None => None,
    };
    Some(match why {
        None => Finding::well("search", url),
        Some((why, mend)) => Finding::ailing("search", why, mend),
    })
}

/// The webhook of approvals: its secrets, each of the form that it must have, and its headers.
async fn webhook(loaded: &Loaded) -> Option<Finding> {
    let said = loaded.webhook().ok().flatten()?;
    for source in said.secrets() {
        let why = match source.resolve(&loaded.folder).await {
            Err(why) => (why, mend(source, loaded)),
            Ok(secret) => match check_secret(&secret) {
                Err(fault) => (fault.to_string(), "echo whsec_$(openssl rand -base64 32)    (makes one)".to_owned()),
                Ok(()) => continue,
            },
        };
        return Some(Finding::ailing(WEBHOOK, why.0, why.1));
    }
    if let Some((name, why, mend)) = lacking(&said.headers, loaded).await.into_iter().next() {
        return Some(Finding::ailing(WEBHOOK, format!("headers.{name}: {why}"), mend));
    }
    // The rest of the address is its receiver's business.
    let url = said.url.split(['?', '#']).next().unwrap_or_default();
    Some(Finding::well(WEBHOOK, url))
}

/// The values of a table that are not to be had: their names, why, and what mends it.
pub(super) async fn lacking(values: &BTreeMap<String, TextOrSecret>, loaded: &Loaded) -> Vec<(String, String, String)> {
    let mut lacking = Vec::new();
    for (name, value) in values {
        let TextOrSecret::Secret(source) = value else { continue };
        if let Err(why) = source.resolve(&loaded.folder).await {
            lacking.push((name.clone(), why, mend(source, loaded)));
        }
    }
    lacking
}

fn mend(source: &SecretSource, loaded: &Loaded) -> String {
    match source {
        SecretSource::Env(name) => format!("export {name}='…'"),
        SecretSource::File(path) => {
            let path = loaded.path(path);
            let path = word(&path.display().to_string());
            format!("install -D -m 600 /dev/stdin {path}    (then type the secret, Enter, Ctrl-D)")
        }
        SecretSource::Command(command) => {
            let scripts = command.get(2).into_iter().filter(|_| command.first().is_some_and(|program| program == "sh"));
            let mut unset = scripts.flat_map(|script| needed(script)).filter(|name| std::env::var_os(name).is_none());
            if let Some(name) = unset.next() {
                return format!("export {name}='…'");
            }
            format!("see what it says: {}", line(command.iter().map(String::as_str)))
        }
    }
}

/// A secret's file that others may read. One that is not there is told with what needs it.
fn exposed(path: &Path) -> Option<Finding> {
    let mode = path.metadata().ok()?.permissions().mode() & 0o7777;
    let found = format!("`{}` is open to others than its owner (mode {mode:o})", path.display());
    let mend = format!("chmod 600 {}", word(&path.display().to_string()));
    (mode & OTHERS != 0).then(|| Finding::ailing("secret file", found, mend))
}
