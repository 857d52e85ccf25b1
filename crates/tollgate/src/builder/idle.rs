//! What the configuration says of tools that are not there.

use std::collections::BTreeSet;

use tollgate_gate::Gate;
use tollgate_types::Undo;

/// Rules about tools that are not there, of which each is told.
const RULES_TOLD_MAX: usize = 10;

/// What the configuration says that concerns nothing yet.
pub(super) fn told(gate: &Gate) -> Vec<String> {
    rules(gate).into_iter().chain(fallbacks(gate)).chain(undos(gate)).collect()
}

/// Rules about a tool that is not there, by a slip of the pen or because it went; servers bring theirs later.
fn rules(gate: &Gate) -> Vec<String> {
    let (policy, catalog) = (gate.policy(), gate.catalog());
    let names: Vec<String> = catalog.all().iter().map(|entry| entry.definition.name.clone()).collect();
    let named = policy.named_tools().into_iter().filter(|(_, tool)| !catalog.has(tool) && !tool.starts_with("mcp__"));
    let warning = |(rule, tool): (&str, &str)| {
        let near = tollgate_catalog::nearest(tool, names.iter().map(String::as_str));
        let hint = near.first().map(|near| format!(": did you mean `{near}`?")).unwrap_or_default();
        format!("the rule `{rule}` is about the tool `{tool}`, which is not there{hint}")
    };
    let mut warnings: Vec<String> = named.clone().take(RULES_TOLD_MAX).map(warning).collect();
    let more = named.count() - warnings.len();
    if more > 0 {
        warnings.push(format!("{more} more rules are about tools that are not there"));
    }
    warnings
}

/// Tools whose fallback is not there; servers bring theirs later.
fn fallbacks(gate: &Gate) -> BTreeSet<String> {
    let catalog = gate.catalog();
    let is_idle = |other: &String| !catalog.has(other) && !other.starts_with("mcp__");
    let of = |name: &String| gate.failures(name).map(|report| report.ladder).unwrap_or_default();
    let all = catalog.all().into_iter().map(|entry| entry.definition.name.clone());
    let idle = all.flat_map(|name| {
        let others = of(&name).into_iter().filter_map(|rung| rung.fallback).filter(is_idle).collect::<Vec<_>>();
        others.into_iter().map(move |other| format!("`{name}` falls back to the tool `{other}`, which is not there"))
    });
    idle.collect()
}

/// Tools that are to be taken back by one that is not there; servers bring theirs later.
fn undos(gate: &Gate) -> Vec<String> {
    let catalog = gate.catalog();
    let named = catalog.all().into_iter().filter_map(|entry| match &entry.definition.undo {
        Undo::Tool(undo) => Some((entry.definition.name.clone(), undo.tool.clone())),
        Undo::None | Undo::BeforeImage => None,
    });
    let idle = named.filter(|(_, undo)| !catalog.has(undo) && !undo.starts_with("mcp__"));
    idle.map(|(tool, undo)| format!("`{tool}` is to be undone by the tool `{undo}`, which is not there")).collect()
}
