//! What happens when a tool fails, for those who ask about it.

use tollgate::{Execution, FailureReport, RungReport, SourceReport};

/// One line for each code, then the limits and the source.
pub(crate) fn lines(execution: &Execution, report: &FailureReport) -> String {
    let mut text = String::new();
    let width = report.ladder.iter().map(|rung| rung.code.len()).max().unwrap_or_default();
    for rung in &report.ladder {
        text.push_str(&format!("  {:width$}  {}\n", rung.code, line(rung)));
    }
    let safe = if report.is_repeatable {
        "a call that may have happened may be made again"
    } else {
        "made again only where nothing happened"
    };
    let limits = [
        ("silent for", execution.idle_timeout_ms),
        ("waits for a turn", execution.queue_timeout_ms),
        ("all tries", execution.total_timeout_ms),
    ];
    let limits = limits.iter().filter_map(|(what, ms)| ms.map(|ms| format!(" · {what} {ms} ms")));
    text.push_str(&format!("  {safe}{}\n  {}\n", limits.collect::<String>(), source(&report.source)));
    text
}

fn line(rung: &RungReport) -> String {
    let mut steps = Vec::new();
    if let Some(by) = rung.retry_by {
        steps.push(format!("again {} ({by})", pauses(&rung.retry_after_ms)));
    }
    if let (Some(tool), Some(by)) = (&rung.fallback, rung.fallback_by) {
        steps.push(format!("`{tool}` instead ({by})"));
    }
    if rung.human {
        steps.push("a human is asked".to_owned());
    }
    steps.push("the caller is told".to_owned());
    steps.join(" → ")
}

fn pauses(pauses_ms: &[u64]) -> String {
    let pause = |ms: &u64| if *ms == 0 { "at once".to_owned() } else { format!("after {ms} ms") };
    pauses_ms.iter().map(pause).collect::<Vec<_>>().join(", ")
}

fn source(report: &SourceReport) -> String {
    let budget = &report.retry_budget;
    let retries = format!("retries {} in 100 calls and {} more", budget.percent, budget.reserve);
    let Some(rule) = report.breaker_rule else { return retries };
    let breaker = match rule.failures {
        0 => "never left alone".to_owned(),
        failures => format!("left alone for {} ms after {failures} failures in a row", rule.open_ms),
    };
    let places = report.max_concurrent.map(|places| format!(" · {places} at once")).unwrap_or_default();
    format!("source {}: {breaker}{places} · {retries}", report.source)
}
