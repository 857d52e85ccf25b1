//! `tollgate doctor url`: where a URL from a model or a tool may lead.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::net::IpAddr;

use crate::args::{Format, Global};
use crate::failure::Failure;
use crate::output::{self, Style, style};

/// Exit status when a URL may not be asked.
const BLOCKED: u8 = 3;

pub(crate) async fn run(global: &Global, url: String, resolve: &[String]) -> Result<u8, Failure> {
    let pinned = pinned(resolve)?;
    let report = tokio::task::spawn_blocking(move || tollgate::check_url(&url, &pinned))
        .await
        .map_err(|error| Failure::internal(error.to_string()))?;
    match output::format(global) {
        Format::Json => output::json(&report)?,
        Format::Text => {
            let is_terminal = std::io::stdout().is_terminal();
            let (colour, word) = if report.allowed { (Style::Green, "allowed") } else { (Style::Red, "blocked") };
            output::line(&format!("{}: {} ({})", style(colour, word, is_terminal), report.url, report.reason))?;
        }
    }
    Ok(if report.allowed { 0 } else { BLOCKED })
}

/// `HOST=IP`, where one host may have several.
fn pinned(resolve: &[String]) -> Result<BTreeMap<String, Vec<IpAddr>>, Failure> {
    let mut pinned: BTreeMap<String, Vec<IpAddr>> = BTreeMap::new();
    for pair in resolve {
        let fault =
            || Failure::usage(format!("`{pair}` is not HOST=IP")).hint("such as --resolve example.com=93.184.216.34");
        let (host, address) = pair.split_once('=').ok_or_else(fault)?;
        let addresses = pinned.entry(host.to_owned()).or_default();
        if !address.is_empty() {
            addresses.push(address.trim_matches(['[', ']']).parse().map_err(|_| fault())?);
        }
    }
    Ok(pinned)
}
