//! A whole list of a server's, page by page, each thing on it still raw.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::fault::Fault;
use super::link::Link;
use super::message::{Ask, Lists};
use tollgate_types::Progress;

const PAGES_MAX: usize = 100;
const ITEMS_MAX: usize = 2_000;
const CURSOR_BYTES_MAX: usize = 64 * 1024;
const METHOD_NOT_FOUND: i64 = -32601;

/// What was listed.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// What is on it, as it came.
    pub(super) items: Vec<Box<RawValue>>,
    /// Why there may be more.
    pub(super) cut: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page<'a> {
    #[serde(borrow, default)]
    tools: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    resources: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    resource_templates: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    prompts: Option<Vec<&'a RawValue>>,
    #[serde(default)]
    next_cursor: Option<String>,
}

/// Asks for every page. A list that goes in circles or does not end is cut, and says so.
pub(super) async fn list(link: &Link, what: Lists) -> Result<Listing, Fault> {
    let mut listing = Listing::default();
    let (mut cursor, mut seen): (Option<String>, BTreeSet<String>) = (None, BTreeSet::new());
    let kind = what.as_str();
    for _ in 0..PAGES_MAX {
        let page = match link.ask(Ask::List { what, cursor: cursor.as_deref() }, Progress::none()).await {
            // A server that has none need not know the question.
            Err(Fault::Rpc(failure)) if failure.code == METHOD_NOT_FOUND && cursor.is_none() => return Ok(listing),
            page => page?,
        };
        let (items, next) = read(&page, what)?;
        listing.items.extend(items.into_iter().map(ToOwned::to_owned));
        if listing.items.len() > ITEMS_MAX {
            listing.items.truncate(ITEMS_MAX);
            listing.cut = Some(format!("the list has more than {ITEMS_MAX} {kind}; the rest is left out"));
            return Ok(listing);
        }
        let Some(next) = next else { return Ok(listing) };
        if next.len() > CURSOR_BYTES_MAX || !seen.insert(next.clone()) {
            listing.cut = Some("the list goes in circles: a cursor came twice; what came before is used".to_owned());
            return Ok(listing);
        }
        cursor = Some(next);
    }
    listing.cut = Some(format!("the list has more than {PAGES_MAX} pages; the rest is left out"));
    Ok(listing)
}

fn read(page: &RawValue, what: Lists) -> Result<(Vec<&RawValue>, Option<String>), Fault> {
    let kind = what.as_str();
    let page: Page<'_> = serde_json::from_str(page.get())
        .map_err(|error| Fault::Broken(format!("the list of {kind} can not be read: {error}")))?;
    let items = match what {
        Lists::Tools => page.tools,
        Lists::Resources => page.resources,
        Lists::Templates => page.resource_templates,
        Lists::Prompts => page.prompts,
    };
    let items =
        items.ok_or_else(|| Fault::Broken(format!("the list of {kind} can not be read: it has no `{kind}`")))?;
    Ok((items, page.next_cursor))
}
