//! `read_result`: pages through a result of which only a part was shown, searches it and filters it.

use std::io::BufReader;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollgate_shape::{Filter, Search, SearchError};
use tollgate_store::{KeptResult, Store, StoreError};
use tollgate_types::{
    Annotations, BoxFuture, Category, Cost, Cx, Permission, Risk, Source, SourceKind, Tool, ToolDefinition, ToolError,
    ToolOutput, Units, input_schema, limits, output_schema,
};

/// The name that cut results point to.
pub(crate) const READ_RESULT: &str = "read_result";

/// Characters of one page unless asked otherwise.
const PAGE_CHARS: usize = 8_000;
/// Characters of one page at most: a page must not be cut again.
const PAGE_CHARS_MAX: usize = 9_500;
/// What is read at once of a result that is searched.
const READ_BYTES: usize = 64 * 1024;

/// Arguments of `read_result`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The handle that the cut result named, such as "res_01…".
    handle: String,
    /// Where to begin, in characters from the start of the whole result, or of what was searched or filtered.
    #[serde(default)]
    #[schemars(range(min = 0))]
    offset: u64,
    /// How many characters to return at most.
    #[serde(default = "page_chars")]
    #[schemars(range(min = 100, max = 9500))]
    limit: usize,
    /// Only lines in which this stands, in any case, each with its number and its offset.
    #[serde(default)]
    #[schemars(length(min = 1, max = 1000))]
    search: Option<String>,
    /// Whether `search` is a regular expression.
    #[serde(default)]
    is_regex: bool,
    /// Only what this filter finds in a JSON result, a value a line. A part of jq, such as `.rows[10:20]` or
    /// `.rows[] | select(.price > 100) | {id, price}`.
    #[serde(default)]
    #[schemars(length(min = 1, max = 1000))]
    filter: Option<String>,
}

fn page_chars() -> usize {
    PAGE_CHARS
}

/// Where the page stands in the whole.
#[derive(Serialize, JsonSchema)]
struct Page {
    /// The first character returned.
    offset: u64,
    /// The first character after the page; null at the end.
    next_offset: Option<u64>,
    /// Characters of the whole result; null where it was searched or filtered.
    total_chars: Option<u64>,
}

/// The tool.
pub(crate) struct ReadResult {
    store: Store,
}

impl ReadResult {
    pub(crate) fn new(store: Store) -> Self {
        Self { store }
    }

    async fn page(&self, arguments: Value, cx: Cx) -> Result<ToolOutput, ToolError> {
        let arguments: Arguments =
            serde_json::from_value(arguments).map_err(|error| ToolError::invalid("", error.to_string()))?;
        let look = Look::wanted(&arguments)?;
        let Arguments { handle, offset, limit, .. } = arguments;
        let limit = limit.clamp(1, PAGE_CHARS_MAX);
        let stop = cx.cancellation.clone();
        let read = move |kept: KeptResult| look.read(kept, offset, limit, &|| stop.is_cancelled());
        let found = self.store.with_result(&cx.caller, &handle, cx.clock.now(), read).await;
        let (text, page) = found.map_err(|error| unreadable(&error))?.ok_or_else(|| {
            ToolError::new(format!("no result has the handle `{}`", handle.escape_debug()))
                .with_tool_code("NOT_FOUND")
                .with_hint("use the handle exactly as the cut result named it; results are kept for some days")
        })??;
        let structured = serde_json::to_value(page).map_err(|error| ToolError::new(error.to_string()))?;
        Ok(ToolOutput::text_and_structured(text, structured))
    }
}

fn unreadable(error: &StoreError) -> ToolError {
    ToolError::new(error.to_string()).retryable()
}

/// What is looked for in a whole result.
enum Look {
    Page,
    Search(Search),
    Filter(Filter),
}

type Read = Result<(String, Page), ToolError>;

impl Look {
    fn wanted(arguments: &Arguments) -> Result<Self, ToolError> {
        match (&arguments.search, &arguments.filter) {
            (None, None) => Ok(Self::Page),
            (Some(pattern), None) => Search::new(pattern, arguments.is_regex)
                .map(Self::Search)
                .map_err(|error| ToolError::invalid("/search", error.to_string())),
            (None, Some(filter)) => {
                Filter::read(filter).map(Self::Filter).map_err(|error| ToolError::invalid("/filter", error.to_string()))
            }
            (Some(_), Some(_)) => Err(ToolError::invalid("/filter", "a result is searched or filtered, not both")),
        }
    }

    fn read(self, kept: KeptResult, offset: u64, limit: usize, is_stopped: &dyn Fn() -> bool) -> Read {
        let mut window = Window { skip: offset, left: limit, text: String::new(), goes_on: false };
        match self {
            Self::Page => return page(kept, offset, limit),
            Self::Search(search) => {
                let tell = |line: String| window.push(&line) && !is_stopped();
                search.run(BufReader::with_capacity(READ_BYTES, kept), tell).map_err(|error| match error {
                    SearchError::Pattern(why) => ToolError::invalid("/search", why),
                    SearchError::Io(error) => ToolError::new(error.to_string()).retryable(),
                })?;
            }
            Self::Filter(filter) => filtered(&filter, kept, &mut window, is_stopped)?,
        }
        Ok(window.shown(offset))
    }
}

fn page(mut kept: KeptResult, offset: u64, limit: usize) -> Read {
    let total = kept.chars();
    if offset >= total && offset > 0 {
        let message = format!("offset {offset} is past the end: the result has {total} characters");
        return Err(ToolError::new(message).with_tool_code("PAST_END"));
    }
    let text = kept.page(offset, limit).map_err(|error| unreadable(&error))?;
    let page = whole_lines(&text, limit);
    let next = offset + page.chars().count() as u64;
    let next_offset = (next < total).then_some(next);
    let place = match next_offset {
        Some(next) => format!("\n[characters {offset}–{next} of {total}; go on with offset {next}]"),
        None => format!("\n[characters {offset}–{total} of {total}; this is the end]"),
    };
    Ok((format!("{page}{place}"), Page { offset, next_offset, total_chars: Some(total) }))
}

/// A page that ends with a whole line where one ends in its second half.
fn whole_lines(page: &str, limit: usize) -> &str {
    let is_last = page.chars().count() < limit;
    match page.rfind('\n') {
        Some(end) if !is_last && end > page.len() / 2 => page.get(..=end).unwrap_or_default(),
        _ => page,
    }
}

/// Every value of the result, one or a value a line, through the filter.
fn filtered(
    filter: &Filter,
    mut kept: KeptResult,
    window: &mut Window,
    is_stopped: &dyn Fn() -> bool,
) -> Result<(), ToolError> {
    if kept.bytes() > limits::RESULT_BYTES_MAX as u64 {
        let message = format!("a result of {} bytes is too large to be filtered", kept.bytes());
        return Err(ToolError::new(message).with_tool_code("TOO_LARGE").with_hint("use `search`, or read it in pages"));
    }
    let text = kept.text().map_err(|error| unreadable(&error))?;
    for value in serde_json::Deserializer::from_str(&text).into_iter::<Value>() {
        let value = value.map_err(|error| {
            ToolError::new(format!("the result is not JSON: {error}"))
                .with_tool_code("NOT_JSON")
                .with_hint("use `search`, or read it in pages")
        })?;
        let mut tell = |found: Value| window.push(&found.to_string());
        filter.run(&value, is_stopped, &mut tell).map_err(|error| {
            let hint = "a filter is a part of jq: paths, select, map, sort_by, group_by, length and their like";
            ToolError::new(error.to_string()).with_tool_code("FILTER").with_hint(hint)
        })?;
        if window.goes_on {
            break;
        }
    }
    Ok(())
}

/// A part of what comes line by line.
struct Window {
    /// Characters before it that are still to come.
    skip: u64,
    left: usize,
    text: String,
    goes_on: bool,
}

impl Window {
    /// Takes a line; false once no more fits.
    fn push(&mut self, line: &str) -> bool {
        let mut chars = line.chars().chain(['\n']);
        while self.skip > 0 {
            if chars.next().is_none() {
                return true;
            }
            self.skip -= 1;
        }
        let before = self.text.len();
        self.text.extend(chars.by_ref().take(self.left));
        self.left -= self.text.get(before..).unwrap_or_default().chars().count().min(self.left);
        self.goes_on = self.left == 0;
        !self.goes_on
    }

    fn shown(self, offset: u64) -> (String, Page) {
        let next = offset + self.text.chars().count() as u64;
        let next_offset = self.goes_on.then_some(next);
        let said = match (next_offset, self.text.is_empty()) {
            (Some(next), _) => format!("[more was found; go on with offset {next}]"),
            (None, true) => "[nothing more was found]".to_owned(),
            (None, false) => "[that is all]".to_owned(),
        };
        let gap = if self.text.is_empty() { "" } else { "\n" };
        (format!("{}{gap}{said}", self.text), Page { offset, next_offset, total_chars: None })
    }
}

impl Tool for ReadResult {
    fn definition(&self) -> ToolDefinition {
        let mut definition = ToolDefinition::new(
            READ_RESULT,
            "Reads a long tool result of which only a part was shown: page by page, the lines with a word, or what a filter \
                 finds in JSON.",
        );
        definition.title = Some("Read a kept result".into());
        definition.when = Some("Use it with the handle that a cut result names («read_result with handle …»).".into());
        definition.when_not = Some("Do not use it for files: use read_file.".into());
        definition.category = Category::Data;
        definition.risk = Risk::Read;
        definition.permission = Permission::Read;
        definition.source = Source::of(SourceKind::Builtin);
        definition.annotations =
            Annotations { read_only: Some(true), destructive: None, idempotent: Some(true), open_world: Some(false) };
        definition.tags = vec!["result".into(), "page".into(), "truncated".into(), "结果".into(), "分页".into()];
        // The call that brought the result was paid for.
        definition.cost = Some(Cost::Fixed(Units::ZERO));
        definition.input_schema = input_schema::<Arguments>();
        definition.output_schema = Some(output_schema::<Page>());
        definition.examples = vec![
            json!({ "handle": "res_0123456789abcdef", "offset": 8000 }),
            json!({ "handle": "res_0123456789abcdef", "search": "timeout" }),
            json!({ "handle": "res_0123456789abcdef", "filter": ".rows[] | select(.price > 100) | {id, price}" }),
        ];
        definition.errors = [
            ("NOT_FOUND".to_owned(), "no such handle for this caller".to_owned()),
            ("PAST_END".to_owned(), "the offset is past the end".to_owned()),
            ("NOT_JSON".to_owned(), "only JSON can be filtered".to_owned()),
            ("FILTER".to_owned(), "the filter does not fit the result, or takes too long".to_owned()),
            ("TOO_LARGE".to_owned(), "the result is too large to be filtered".to_owned()),
        ]
        .into();
        definition
    }

    fn call(&self, arguments: Value, cx: Cx) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        Box::pin(self.page(arguments, cx))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_join_to_the_whole() {
        let text: String = (0..500).map(|n| format!("第{n}行 line {n}\n")).collect();
        for limit in [1, 7, 100, 333] {
            let (mut joined, mut offset) = (String::new(), 0);
            while offset < text.chars().count() {
                let rest: String = text.chars().skip(offset).take(limit).collect();
                let page = whole_lines(&rest, limit);
                offset += page.chars().count();
                joined.push_str(page);
            }
            assert_eq!(joined, text);
        }
    }

    #[test]
    fn windows_join_to_all_that_was_found() {
        let lines = ["北京 one", "", "three", "四"];
        for limit in 1..20 {
            let (mut joined, mut offset) = (String::new(), 0);
            loop {
                let mut window = Window { skip: offset, left: limit, text: String::new(), goes_on: false };
                let _ = lines.iter().all(|line| window.push(line));
                joined.push_str(&window.text);
                let (_, page) = window.shown(offset);
                match page.next_offset {
                    Some(next) => offset = next,
                    None => break,
                }
            }
            assert_eq!(joined, format!("{}\n", lines.join("\n")));
        }
    }
}
