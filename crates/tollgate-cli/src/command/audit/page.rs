//! The report as one HTML page that needs nothing else: no script, no font, no picture from elsewhere. Whatever stands in
//! a record is text here: it is made visible, then escaped.

use std::fmt::Write;

use jiff::ZonedDateTime;
use tollgate::ledger::{Count, Summary};

use super::plot::{self, Bar};
use super::query::{local, span, zone_name};
use super::report::{approvals, named, share, unknown};
use crate::output::visible;

const STYLE: &str = include_str!("report.css");
/// What the page's own rules allow to be used as style: the SHA-256 of [`STYLE`].
const STYLE_HASH: &str = "sha256-l0EEw5kuCyHI0J1pxt44EUwm9ZDjlYJWn38GKfhNI3o=";

/// The page about `summary`, as of `now`, of what was asked for by `words`.
pub(super) fn page(summary: &Summary, now: &ZonedDateTime, words: &str) -> String {
    let zone = now.time_zone();
    let stretch = match summary.first.zip(summary.last) {
        Some((first, last)) => format!("{} to {} ({})", local(first, zone), local(last, zone), zone_name(now)),
        None => "no attempt fits".to_owned(),
    };
    let asked = if words.is_empty() { String::new() } else { format!("<p>Asked for: {}</p>", text(words)) };
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src '{STYLE_HASH}'; \
         base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>Tollgate: {}</title>\n<style>{STYLE}</style>\n\
         </head>\n<body>\n<main>\n<h1>What was tried</h1>\n<p>{}</p>\n{asked}\n{}\n</main>\n\
         <footer>Made by tollgate {} on {} from the ledger's index. <code>tollgate audit verify</code> checks the \
         ledger itself.</footer>\n</body>\n</html>\n",
        text(&stretch),
        text(&stretch),
        body(summary, now),
        env!("CARGO_PKG_VERSION"),
        text(&now.strftime("%Y-%m-%d %H:%M %:z").to_string()),
    )
}

fn body(summary: &Summary, now: &ZonedDateTime) -> String {
    let mut body = tiles(summary);
    section(&mut body, "Through time", &plot::stack(&summary.bins, now.time_zone()));
    section(&mut body, "Tools", &tools(summary));
    section(&mut body, "Who asked", &counts(summary, &summary.callers, "asker"));
    section(&mut body, "Roles", &counts(summary, &summary.roles, "role"));
    section(&mut body, "Why they did not end as done", &counts(summary, &summary.codes, "code"));
    section(&mut body, "What was refused, and by which rule", &refusals(summary));
    for (title, line) in [("Questions to humans", approvals(summary)), ("Never settled", unknown(summary))] {
        section(&mut body, title, &line.map(|line| format!("<p>{}</p>", text(&line))).unwrap_or_default());
    }
    body
}

fn section(body: &mut String, title: &str, content: &str) {
    if !content.is_empty() {
        let _ = write!(body, "<section>\n<h2>{title}</h2>\n{content}</section>\n");
    }
}

fn tiles(summary: &Summary) -> String {
    let all = Count { name: "attempts".to_owned(), count: summary.attempts };
    let tiles = std::iter::once(&all)
        .chain(&summary.statuses)
        .map(|count| format!("<li><strong>{}</strong> {}</li>", count.count, text(&count.name)));
    format!("<ul class=\"tiles\">{}</ul>\n", tiles.collect::<String>())
}

fn tools(summary: &Summary) -> String {
    let bars: Vec<Bar> = summary.tools.iter().map(|tool| Bar { name: named(&tool.name), value: tool.count }).collect();
    let slow = summary.tools.iter().filter(|tool| tool.started > 0);
    let mut slow: Vec<Bar> = slow.map(|tool| Bar { name: named(&tool.name), value: tool.p95_ms }).collect();
    slow.sort_by_key(|bar| std::cmp::Reverse(bar.value));
    let rows = summary.tools.iter().map(|tool| {
        let times =
            [tool.p50_ms, tool.p95_ms, tool.p99_ms].map(|ms| if tool.started > 0 { span(ms) } else { "–".into() });
        let numbers = [tool.count, tool.done, tool.refused].map(|number| number.to_string());
        std::iter::once(named(&tool.name)).chain(numbers).chain(times).collect()
    });
    let header = ["tool", "attempts", "done", "refused", "p50", "p95", "p99"];
    if bars.is_empty() {
        return String::new();
    }
    let number = |value: u64| value.to_string();
    plot::bars("Attempts by tool", &bars, number)
        + &plot::bars("How long 95 of 100 that were started took at most", &slow, span)
        + &table(&header, rows)
}

fn counts(summary: &Summary, counts: &[Count], what: &str) -> String {
    if counts.is_empty() {
        return String::new();
    }
    let bars: Vec<Bar> = counts.iter().map(|count| Bar { name: named(&count.name), value: count.count }).collect();
    let rows = counts.iter().map(|count| vec![named(&count.name), count.count.to_string(), share(count, summary)]);
    plot::bars(&format!("Attempts by {what}"), &bars, |value| value.to_string())
        + &table(&[what, "attempts", "share"], rows)
}

fn refusals(summary: &Summary) -> String {
    if summary.refusals.is_empty() {
        return String::new();
    }
    let rows = summary.refusals.iter();
    table(
        &["code", "rule", "attempts"],
        rows.map(|one| vec![named(&one.code), named(&one.rule), one.count.to_string()]),
    )
}

fn table(header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let head: String = header.iter().map(|name| format!("<th scope=\"col\">{name}</th>")).collect();
    let rows: String = rows
        .map(|row| {
            let cells = row.iter().enumerate().map(|(index, cell)| match index {
                0 => format!("<th scope=\"row\">{}</th>", text(cell)),
                _ => format!("<td>{}</td>", text(cell)),
            });
            format!("<tr>{}</tr>\n", cells.collect::<String>())
        })
        .collect();
    format!("<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n")
}

/// A text as HTML and in attributes: nothing in it is obeyed or hidden.
pub(super) fn text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in visible(text).chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use sha2::{Digest, Sha256};

    use super::*;

    #[test]
    fn the_page_allows_its_own_style() {
        let hash = base64::engine::general_purpose::STANDARD.encode(Sha256::digest(STYLE.as_bytes()));
        assert_eq!(STYLE_HASH, format!("sha256-{hash}"), "after a change of report.css");
    }

    #[test]
    fn nothing_in_a_text_is_obeyed() {
        assert_eq!(
            text("<a href='x' b=\"\">&\u{1b}\u{202e}张"),
            "&lt;a href=&#39;x&#39; b=&quot;&quot;&gt;&amp;\\u{1b}\\u{202e}张"
        );
    }
}
