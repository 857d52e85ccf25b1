//! A server's whole list of tools, page by page, each tool still raw.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::fault::Fault;
use super::link::Link;
use super::message::Ask;
use tollgate_types::Progress;

const PAGES_MAX: usize = 100;
const TOOLS_MAX: usize = 2_000;
const CURSOR_BYTES_MAX: usize = 64 * 1024;
const METHOD_NOT_FOUND: i64 = -32601;

/// What was listed.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// The tools as they came.
    pub(super) tools: Vec<Box<RawValue>>,
    /// Why there may be more.
    pub(super) cut: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page<'a> {
    #[serde(borrow)]
    tools: Vec<&'a RawValue>,
    #[serde(default)]
    next_cursor: Option<String>,
}

/// Asks for every page. A list that goes in circles or does not end is cut, and says so.
pub(super) async fn list(link: &Link) -> Result<Listing, Fault> {
    let mut listing = Listing::default();
    let (mut cursor, mut seen): (Option<String>, BTreeSet<String>) = (None, BTreeSet::new());
    for _ in 0..PAGES_MAX {
        let page = match link.ask(Ask::List { cursor: cursor.as_deref() }, Progress::none()).await {
            // A server without tools need not know the question.
            Err(Fault::Rpc(failure)) if failure.code == METHOD_NOT_FOUND && cursor.is_none() => return Ok(listing),
            page => page?,
        };
        let page: Page<'_> = serde_json::from_str(page.get())
            .map_err(|error| Fault::Broken(format!("the list of tools can not be read: {error}")))?;
        listing.tools.extend(page.tools.into_iter().map(ToOwned::to_owned));
        if listing.tools.len() > TOOLS_MAX {
            listing.tools.truncate(TOOLS_MAX);
            listing.cut = Some(format!("the list has more than {TOOLS_MAX} tools; the rest is left out"));
            return Ok(listing);
        }
        let Some(next) = page.next_cursor else { return Ok(listing) };
        if next.len() > CURSOR_BYTES_MAX || !seen.insert(next.clone()) {
            listing.cut = Some("the list goes in circles: a cursor came twice; what came before is used".to_owned());
            return Ok(listing);
        }
        cursor = Some(next);
    }
    listing.cut = Some(format!("the list has more than {PAGES_MAX} pages; the rest is left out"));
    Ok(listing)
}
