//! `read_result`: pages through a result of which only a part was shown.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollgate_store::Store;
use tollgate_types::{
    Annotations, BoxFuture, Category, Cost, Cx, Permission, Risk, Source, SourceKind, Tool, ToolDefinition, ToolError,
    ToolOutput, Units, input_schema, output_schema,
};

/// The name that cut results point to.
pub(crate) const READ_RESULT: &str = "read_result";

/// Characters of one page unless asked otherwise.
const PAGE_CHARS: usize = 8_000;
/// Characters of one page at most: a page must not be cut again.
const PAGE_CHARS_MAX: usize = 9_500;

/// Arguments of `read_result`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The handle that the cut result named, such as "res_01…".
    handle: String,
    /// Where to begin, in characters from the start of the whole result.
    #[serde(default)]
    #[schemars(range(min = 0))]
    offset: usize,
    /// How many characters to return at most.
    #[serde(default = "page_chars")]
    #[schemars(range(min = 100, max = 9500))]
    limit: usize,
}

fn page_chars() -> usize {
    PAGE_CHARS
}

/// Where the page stands in the whole.
#[derive(Serialize, JsonSchema)]
struct Page {
    /// The first character returned.
    offset: usize,
    /// The first character after the page; null at the end.
    next_offset: Option<usize>,
    /// Characters of the whole result.
    total_chars: usize,
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
        let Arguments { handle, offset, limit } =
            serde_json::from_value(arguments).map_err(|error| ToolError::invalid("", error.to_string()))?;
        let stored = self.store.read_result(&cx.caller, &handle).await;
        let whole = stored.map_err(|error| ToolError::new(error.to_string()).retryable())?.ok_or_else(|| {
            ToolError::new(format!("no result has the handle `{}`", handle.escape_debug()))
                .with_tool_code("NOT_FOUND")
                .with_hint("use the handle exactly as the cut result named it; results are kept for 7 days")
        })?;
        let total_chars = whole.chars().count();
        if offset >= total_chars && offset > 0 {
            let message = format!("offset {offset} is past the end: the result has {total_chars} characters");
            return Err(ToolError::new(message).with_tool_code("PAST_END"));
        }
        let page = page_of(&whole, offset, limit.clamp(1, PAGE_CHARS_MAX));
        let next = offset + page.chars().count();
        let next_offset = (next < total_chars).then_some(next);
        let place = match next_offset {
            Some(next) => format!("\n[characters {offset}–{next} of {total_chars}; go on with offset {next}]"),
            None => format!("\n[characters {offset}–{total_chars} of {total_chars}; this is the end]"),
        };
        let structured = serde_json::to_value(Page { offset, next_offset, total_chars })
            .map_err(|error| ToolError::new(error.to_string()))?;
        Ok(ToolOutput::text_and_structured(format!("{page}{place}"), structured))
    }
}

/// A page that ends with a whole line where one ends in its second half.
fn page_of(text: &str, offset: usize, limit: usize) -> String {
    let page: String = text.chars().skip(offset).take(limit).collect();
    let is_last = page.chars().count() < limit;
    match page.rfind('\n') {
        Some(end) if !is_last && end > page.len() / 2 => page.get(..=end).unwrap_or_default().to_owned(),
        _ => page,
    }
}

impl Tool for ReadResult {
    fn definition(&self) -> ToolDefinition {
        let mut definition =
            ToolDefinition::new(READ_RESULT, "Pages through a long tool result of which only the beginning was shown.");
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
        definition.examples = vec![json!({ "handle": "res_0123456789abcdef", "offset": 8000 })];
        definition.errors = [
            ("NOT_FOUND".to_owned(), "no such handle for this caller".to_owned()),
            ("PAST_END".to_owned(), "the offset is past the end".to_owned()),
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
                let page = page_of(&text, offset, limit);
                offset += page.chars().count();
                joined.push_str(&page);
            }
            assert_eq!(joined, text);
        }
    }
}
