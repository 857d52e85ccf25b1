//! `query_ledger` and `query_whole_ledger`: what was asked for and what became of it; one's own calls, or everybody's.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_ledger::{Asker, Attempt, Cursor, Filter, FilterError, Index, LedgerError, View};
use tollgate_tools::native::tool_fn;
use tollgate_types::{Cx, Tool, ToolError};

use super::tells;

const LIMIT: usize = 20;

/// Whose calls are told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    Own,
    Everybodys,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Question {
    /// A glob of the tools' names.
    #[serde(default)]
    tool: Option<String>,
    /// How they ended: `done`, `refused`, `failed`, `waiting`, `unknown`, `open`; several parted by commas.
    #[serde(default)]
    status: Option<String>,
    /// Why they did not end as `done`, such as `denied`; several parted by commas.
    #[serde(default)]
    code: Option<String>,
    /// From when on: RFC 3339, a date, or a span before now such as `2h`.
    #[serde(default)]
    since: Option<String>,
    /// Until when.
    #[serde(default)]
    until: Option<String>,
    /// How many at most.
    #[serde(default = "limit")]
    #[schemars(range(min = 1, max = 100))]
    limit: usize,
    /// The `next` of an earlier answer.
    #[serde(default)]
    cursor: Option<String>,
}

fn limit() -> usize {
    LIMIT
}

pub(super) fn tool(data_dir: PathBuf, whose: Whose) -> Arc<dyn Tool> {
    let (name, does) = match whose {
        Whose::Own => {
            ("query_ledger", "Tells what you asked for and what became of it, newest first, from the ledger.")
        }
        Whose::Everybodys => {
            ("query_whole_ledger", "Tells what anybody asked for and what became of it, newest first.")
        }
    };
    let ask = move |question: Question, cx: Cx| {
        let data_dir = data_dir.clone();
        async move {
            let found = tokio::task::spawn_blocking(move || found(&data_dir, whose, &question, &cx)).await;
            found.map_err(|_| ToolError::new("the house is closing").retryable())?
        }
    };
    let tool = tool_fn(name, does, ask);
    let tool = tool.when(
        "Use it to find out what was done, refused or still waits.",
        "It tells of calls, not of what they changed: read that where it is.",
    );
    Arc::new(tool.define(tells))
}

fn found(data_dir: &Path, whose: Whose, question: &Question, cx: &Cx) -> Result<Value, ToolError> {
    let filter = filter(whose, question, cx)?;
    let cursor = question.cursor.as_deref().map(str::parse::<Cursor>).transpose();
    let cursor = cursor.map_err(|why| ToolError::invalid("/cursor", why))?;
    let page = Index::open(data_dir, &mut |_, _| {})
        .and_then(|mut index| index.find(&filter, View::Attempts, question.limit, cursor))
        .map_err(|error: LedgerError| ToolError::new(error.to_string()).retryable())?;
    let attempts = page.found.iter().map(|found| &found.attempt);
    // INVARIANT: a filter parts words and may find more than is one's own.
    let is_own = |attempt: &Attempt| {
        let Asker { subject, tenant, .. } = &attempt.caller;
        *subject == cx.caller.subject && *tenant == cx.caller.tenant.clone().unwrap_or_default()
    };
    let is_told = |attempt: &&Attempt| whose == Whose::Everybodys || is_own(attempt);
    let attempts: Vec<&Attempt> = attempts.filter(is_told).collect();
    Ok(json!({ "attempts": attempts, "next": page.next }))
}

fn filter(whose: Whose, question: &Question, cx: &Cx) -> Result<Filter, ToolError> {
    let now = cx.clock.now().to_zoned_datetime(TimeZone::UTC);
    let mut filter = Filter::default();
    let own = (whose == Whose::Own).then_some(&cx.caller.subject);
    let words = [
        ("caller", own),
        ("tool", question.tool.as_ref()),
        ("status", question.status.as_ref()),
        ("code", question.code.as_ref()),
        ("since", question.since.as_ref()),
        ("until", question.until.as_ref()),
    ];
    for (name, word) in words {
        let Some(word) = word else { continue };
        let unfit =
            |error: FilterError| ToolError::invalid(format!("/{name}"), error.to_string()).with_hint(error.hint());
        filter.set(name, word, &now).map_err(unfit)?;
    }
    Ok(filter)
}
