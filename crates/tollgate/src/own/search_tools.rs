//! `search_tools`: finds tools by words among those that the asker may use, and tells how they are called.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_catalog::{search, to_definition};
use tollgate_types::{
    Annotations, BoxFuture, Category, Cx, Dialect, Permission, Risk, Source, SourceKind, Tool, ToolDefinition,
    ToolError, ToolOutput, input_schema,
};

use crate::view::{SEARCH_TOOLS, Selection, is_own};

/// Tools that are told unless asked otherwise.
const FOUND: usize = 5;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// What is to be done, in a few words.
    #[schemars(length(min = 1, max = 1000))]
    query: String,
    /// How many tools to tell at most.
    #[serde(default = "found")]
    #[schemars(range(min = 1, max = 20))]
    limit: usize,
    /// Only tools of this set, as it shows them.
    #[serde(default)]
    set: Option<String>,
}

fn found() -> usize {
    FOUND
}

/// The tool.
pub(super) struct SearchTools {
    sets: Arc<BTreeMap<String, Selection>>,
}

impl SearchTools {
    pub(super) fn new(sets: Arc<BTreeMap<String, Selection>>) -> Self {
        Self { sets }
    }

    async fn found(&self, arguments: Value, cx: Cx) -> Result<ToolOutput, ToolError> {
        let arguments: Arguments =
            serde_json::from_value(arguments).map_err(|error| ToolError::invalid("", error.to_string()))?;
        let mut tools = cx.door.list(&cx.caller).await;
        if let Some(name) = &arguments.set {
            let set = self.sets.get(name).ok_or_else(|| unknown(name, &self.sets))?;
            tools = tools.iter().filter_map(|tool| set.shown(tool)).collect();
        }
        let tools = tools.iter().map(|tool| &**tool).filter(|tool| !is_own(&tool.name));
        let found = search(&arguments.query, tools, arguments.limit);
        let told: Vec<Value> = found.iter().map(|tool| told(tool)).collect();
        Ok(ToolOutput::text_and_structured(text(&told), json!({ "tools": told })))
    }
}

/// A definition without what only programs need.
fn told(tool: &ToolDefinition) -> Value {
    let mut definition = to_definition(tool, Dialect::Mcp);
    if let Some(definition) = definition.as_object_mut() {
        definition.retain(|key, _| !matches!(key.as_str(), "outputSchema" | "annotations"));
    }
    definition
}

fn text(told: &[Value]) -> String {
    if told.is_empty() {
        return "no tool has these words: ask with others, or do without a tool".into();
    }
    told.iter().map(Value::to_string).collect::<Vec<_>>().join("\n")
}

fn unknown(name: &str, sets: &BTreeMap<String, Selection>) -> ToolError {
    let names: Vec<&str> = sets.keys().map(String::as_str).collect();
    ToolError::invalid("/set", format!("no set is named `{}`", name.escape_debug()))
        .with_hint(format!("there is {}", names.join(", ")))
}

impl Tool for SearchTools {
    fn definition(&self) -> ToolDefinition {
        let mut tool =
            ToolDefinition::new(SEARCH_TOOLS, "Finds tools by words of what they do, and tells their arguments.");
        tool.title = Some("Search the tools".into());
        tool.when = Some("Use it first, where no tool that you see does what is wanted.".into());
        tool.when_not = Some("Do not use it for files, pages or data: it knows tools alone.".into());
        tool.category = Category::Information;
        tool.tags = ["tools", "find", "discover", "工具", "搜索", "查找"].map(str::to_owned).into();
        tool.risk = Risk::Read;
        tool.permission = Permission::Read;
        tool.source = Source::of(SourceKind::Builtin);
        tool.annotations =
            Annotations { read_only: Some(true), destructive: None, idempotent: Some(true), open_world: Some(false) };
        tool.input_schema = input_schema::<Arguments>();
        tool.examples = vec![json!({ "query": "send an email" }), json!({ "query": "查询数据库", "limit": 3 })];
        tool
    }

    fn call(&self, arguments: Value, cx: Cx) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        Box::pin(self.found(arguments, cx))
    }
}
