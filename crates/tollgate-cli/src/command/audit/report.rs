//! `tollgate audit report`: a stretch of the ledger in numbers, as tables or as a page.

use std::io::Write;
use std::path::Path;

use jiff::tz::TimeZone;
use tollgate::ledger::{Count, Summary};
use tollgate::{Clock, SystemClock};

use super::export::write_whole;
use super::page;
use super::query::{filter, index, local, span, wrong, zone_name};
use crate::args::{FilterArgs, Format, Global};
use crate::failure::Failure;
use crate::output::{self, Style, style, visible};

pub(super) fn run(global: &Global, args: &FilterArgs, html: Option<&Path>) -> Result<u8, Failure> {
    let asked = filter(args)?;
    let zone = TimeZone::system();
    let summary = index(global)?.summary(&asked, &zone).map_err(|error| wrong(&error))?;
    if let Some(path) = html {
        let now = SystemClock::new().now().to_zoned_datetime(zone);
        let words: Vec<String> = args.given().map(|(name, text)| format!("{name} {text}")).collect();
        let page = page::page(&summary, &now, &words.join(", "));
        write_whole(path, |file| {
            file.write_all(page.as_bytes())
                .map_err(|error| Failure::usage(format!("`{}` cannot be written: {error}", path.display())))
        })?;
        if !global.quiet {
            output::err(&format!("the report of {} attempts is in {}\n", summary.attempts, path.display()));
        }
        return Ok(0);
    }
    match output::format(global) {
        Format::Json => output::json(&summary)?,
        Format::Text => output::out(&tables(&summary))?,
    }
    Ok(0)
}

fn tables(summary: &Summary) -> String {
    let zone = TimeZone::system();
    let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stdout());
    let head = |text: &str| style(Style::Bold, text, is_terminal);
    let Some((first, last)) = summary.first.zip(summary.last) else { return "no attempt fits\n".to_owned() };
    let name = zone_name(&last.to_zoned_datetime(zone.clone()));
    let mut parts = vec![format!(
        "{} attempts from {} to {} ({name})",
        head(&summary.attempts.to_string()),
        local(first, &zone),
        local(last, &zone)
    )];
    let counts = |title: &str, counts: &[Count]| {
        let rows = counts.iter().map(|count| vec![named(&count.name), count.count.to_string(), share(count, summary)]);
        format!("{}\n{}", head(title), output::table(&["", "attempts", "share"], rows))
    };
    parts.push(counts("How they ended", &summary.statuses));
    let tools = summary.tools.iter().map(|tool| {
        let times =
            [tool.p50_ms, tool.p95_ms, tool.p99_ms].map(|ms| if tool.started > 0 { span(ms) } else { "–".into() });
        let numbers = [tool.count, tool.done, tool.refused].map(|number| number.to_string());
        std::iter::once(named(&tool.name)).chain(numbers).chain(times).collect()
    });
    let header = ["tool", "attempts", "done", "refused", "p50", "p95", "p99"];
    parts.push(format!("{}\n{}", head("Tools"), output::table(&header, tools)));
    parts.push(counts("Who asked", &summary.callers));
    parts.push(counts("Roles", &summary.roles));
    if !summary.codes.is_empty() {
        parts.push(counts("Why they did not end as done", &summary.codes));
    }
    if !summary.refusals.is_empty() {
        let rows = summary.refusals.iter();
        let rows = rows.map(|one| vec![visible(&one.code), visible(&one.rule), one.count.to_string()]);
        let table = output::table(&["code", "rule", "attempts"], rows);
        parts.push(format!("{}\n{table}", head("What was refused, and by which rule")));
    }
    parts.extend(approvals(summary).map(|line| format!("{}\n{line}", head("Questions to humans"))));
    parts.extend(unknown(summary).map(|line| format!("{}\n{line}", head("Never settled"))));
    format!("{}\n", parts.join("\n"))
}

/// One line on the questions to humans, if there were any.
pub(super) fn approvals(summary: &Summary) -> Option<String> {
    let approvals = &summary.approvals;
    let answered = approvals.approved + approvals.rejected;
    let times = match answered {
        0 => String::new(),
        _ => format!(
            "; half of the answers within {}, 95 of 100 within {}",
            span(approvals.p50_ms),
            span(approvals.p95_ms)
        ),
    };
    (approvals.asked > 0).then(|| {
        format!(
            "{} asked: {} approved, {} rejected, {} expired, {} open{times}",
            approvals.asked,
            approvals.approved,
            approvals.rejected,
            approvals.expired,
            approvals.asked.saturating_sub(answered + approvals.expired),
        )
    })
}

/// One line on what was started and never settled, if there is any.
pub(super) fn unknown(summary: &Summary) -> Option<String> {
    let ids: Vec<String> = summary.unknown_attempts.iter().map(|id| visible(id)).collect();
    let more = if (ids.len() as u64) < summary.unknown { ", …" } else { "" };
    (summary.unknown > 0).then(|| {
        format!(
            "{} started, and nobody knows how they ended (`tollgate audit settle`): {}{more}",
            summary.unknown,
            ids.join(", ")
        )
    })
}

/// A name, or a word for its absence.
pub(super) fn named(name: &str) -> String {
    if name.is_empty() { "(none)".to_owned() } else { visible(name) }
}

/// A part of all attempts.
pub(super) fn share(count: &Count, summary: &Summary) -> String {
    let permille = count.count.saturating_mul(1000) / summary.attempts.max(1);
    format!("{}.{} %", permille / 10, permille % 10)
}
