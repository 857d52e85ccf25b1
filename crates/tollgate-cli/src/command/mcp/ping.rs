//! `tollgate mcp ping`: how soon servers are up, and how soon they answer then.

use std::time::Duration;

use serde::Serialize;
use tollgate::Tollgate;

use super::{AILING, known, only};
use crate::args::{Format, Global};
use crate::command::{configuration, open};
use crate::failure::Failure;
use crate::output::{self, visible};

/// What one server came to.
#[derive(Serialize)]
struct Pinged {
    name: String,
    ok: bool,
    /// From asking until it was up and had said what it gives.
    up_ms: Option<f64>,
    /// Each question and its answer.
    answered_ms: Vec<f64>,
    error: Option<String>,
}

pub(super) async fn run(global: &Global, names: Vec<String>, count: u16) -> Result<u8, Failure> {
    let loaded = configuration(global)?;
    names.iter().try_for_each(|name| known(&loaded, name))?;
    let names = if names.is_empty() { loaded.config.mcp.keys().cloned().collect() } else { names };
    let house = open(global, only(loaded, &names)).await?;
    let mut all = Vec::new();
    for name in names {
        all.push(pinged(&house, name, count).await);
    }
    house.stop().await;
    match output::format(global) {
        Format::Json => output::json_hiding(&all)?,
        Format::Text if all.is_empty() => output::line("no MCP server is configured: tollgate mcp add adds one")?,
        Format::Text => output::out(&for_people(&all))?,
    }
    Ok(if all.iter().all(|one| one.ok) { 0 } else { AILING })
}

async fn pinged(house: &Tollgate, name: String, count: u16) -> Pinged {
    let clock = house.clock();
    let mut it = Pinged { name, ok: false, up_ms: None, answered_ms: Vec::new(), error: None };
    let began = clock.monotonic();
    for _ in 0..count {
        let answered = match house.ping_server(&it.name).await {
            Some(Ok(took)) => took,
            Some(Err(error)) => {
                it.error = Some(error.message);
                return it;
            }
            None => {
                it.error = Some("it is not available".to_owned());
                return it;
            }
        };
        let up = clock.monotonic().saturating_sub(began).saturating_sub(answered);
        it.up_ms.get_or_insert(ms(up));
        it.answered_ms.push(ms(answered));
    }
    it.ok = true;
    it
}

fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

fn for_people(all: &[Pinged]) -> String {
    let rows = all.iter().map(|it| {
        let mut sorted = it.answered_ms.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |index: usize| sorted.get(index).map(|ms| format!("{ms:.2}")).unwrap_or_default();
        vec![
            it.name.clone(),
            it.up_ms.map(|ms| format!("{ms:.0}")).unwrap_or_default(),
            at(0),
            at(sorted.len() / 2),
            at(sorted.len().saturating_sub(1)),
            visible(it.error.as_deref().unwrap_or_default()),
        ]
    });
    output::table(&["server", "up, ms", "least, ms", "median, ms", "most, ms", "error"], rows)
}
