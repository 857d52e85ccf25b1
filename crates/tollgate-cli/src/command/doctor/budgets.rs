//! The budgets: who spent how much of each, of late.

use tollgate::config::Loaded;
use tollgate::store::{Spent, Store, StoreError};

use super::Finding;
use super::program::word;

/// Counts of one budget that are shown.
const SHOWN: usize = 3;

pub(super) async fn examine(loaded: &Loaded) -> Vec<Finding> {
    let store = Store::new(&loaded.data_dir());
    let mut findings = Vec::new();
    for (at, budget) in loaded.config.budget.iter().enumerate() {
        let (what, budget) = (format!("budget {}", at + 1), budget.get_ref());
        let spent = if store.exists() { store.spent_of(budget.id()).await } else { Ok(Vec::new()) };
        let terms = format!("{} units for {}", budget.units, budget.tools.join(", "));
        findings.push(match spent {
            Ok(counts) => Finding::well(what, format!("{terms}; {}", of_late(&counts))),
            Err(error) => ailing(what, loaded, &error),
        });
    }
    findings
}

/// What was spent on the last day, or in the sessions.
fn of_late(counts: &[Spent]) -> String {
    let Some(first) = counts.first() else { return "nothing is spent".into() };
    let last: Vec<&Spent> = counts.iter().filter(|spent| spent.count.day == first.count.day).collect();
    let shown = last.iter().take(SHOWN).map(|spent| {
        let holder: Vec<String> = serde_json::from_str(&spent.count.holder).unwrap_or_default();
        let holder = if holder.is_empty() { "all".to_owned() } else { holder.join(" / ") };
        format!("{holder} {}", spent.units)
    });
    let shown = shown.collect::<Vec<_>>().join(", ");
    let day = if first.count.day.is_empty() { String::new() } else { format!(" on {}", first.count.day) };
    let more = if last.len() > SHOWN { format!(", and {} more", last.len() - SHOWN) } else { String::new() };
    format!("spent{day}: {shown}{more}")
}

fn ailing(what: String, loaded: &Loaded, error: &StoreError) -> Finding {
    let path = word(&loaded.data_dir().join("store.db").display().to_string());
    let mend = format!(
        "no call that costs something is made until it reads; without it nothing is spent: mv {path} {path}.broken"
    );
    Finding::ailing(what, error.to_string(), mend)
}
