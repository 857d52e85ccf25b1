//! What a view shows: which tools, under which names, and with which of their arguments set beforehand.

use std::borrow::Cow;
use std::sync::Arc;

use globset::{Glob, GlobMatcher, GlobSet, GlobSetBuilder};
use serde_json::{Map, Value, json};
use tollgate_catalog::unknown_tool;
use tollgate_types::{Call, CallKind, Code, End, ErrorObject, Outcome, RepairLevel, Text, ToolDefinition};
use tollgate_wire::repair;

/// The tool that finds others; it is told which set asks.
pub(crate) const SEARCH_TOOLS: &str = "search_tools";
/// The argument that tells it.
pub(crate) const SET_ARGUMENT: &str = "set";
/// What a result that was cut is read on with.
const READ_RESULT: &str = "read_result";
/// What the names of servers' tools begin with.
const SERVERS: &str = "mcp__";

/// Some of what a house has, as some clients are to see it.
#[derive(Debug, Clone)]
pub struct Selection {
    /// The name of its `[sets.NAME]`.
    name: Option<String>,
    tools: GlobSet,
    prompts: GlobSet,
    resources: GlobSet,
    bound: Vec<(GlobMatcher, Map<String, Value>)>,
    /// What is left away of names.
    prefix: Option<String>,
    max_tools: Option<usize>,
}

impl Selection {
    /// What has a name that fits one of the globs.
    ///
    /// # Errors
    /// When a glob cannot be read: a text that names it.
    pub fn of_tools(globs: &[String]) -> Result<Self, String> {
        let tools = set(globs)?;
        let (prompts, resources) = (tools.clone(), tools.clone());
        Ok(Self { name: None, tools, prompts, resources, bound: Vec::new(), prefix: None, max_tools: None })
    }

    /// The same with other prompts.
    pub(crate) fn prompts(self, globs: &[String]) -> Result<Self, String> {
        Ok(Self { prompts: set(globs)?, ..self })
    }

    /// The same with other resources.
    pub(crate) fn resources(self, globs: &[String]) -> Result<Self, String> {
        Ok(Self { resources: set(globs)?, ..self })
    }

    /// The same under a name: what was cut can be read on in it, and its tools can be searched.
    pub(crate) fn named(self, name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..self }
    }

    /// The same with arguments that are set beforehand for the tools that fit `glob`, or with a `/` in it for the prompts.
    pub(crate) fn bind(mut self, glob: &str, arguments: Map<String, Value>) -> Result<Self, String> {
        self.bound.push((matcher(glob)?, arguments));
        Ok(self)
    }

    /// The same with the tools of this server alone, under the names that they have there.
    pub(crate) fn bare(self, server: &str) -> Self {
        Self { prefix: Some(prefix(server)), ..self }
    }

    /// The same whose tools are searched where they are more than so many.
    pub(crate) fn max_tools(self, max_tools: Option<usize>) -> Self {
        Self { max_tools, ..self }
    }

    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Whether what has this name behind the view is shown, to whom the door behind shows it.
    pub(super) fn shows(&self, kind: CallKind, name: &str) -> bool {
        let is_prompt = || self.prompts.is_match(name);
        let is_resource = || self.resources.is_match(name);
        match kind {
            CallKind::Tool => self.shows_tool(name),
            CallKind::Prompt => self.is_of_server(name) && is_prompt(),
            CallKind::Resource | CallKind::Template | CallKind::Subscription => {
                self.is_of_server(name) && is_resource()
            }
            // It goes where its prompt or template goes.
            CallKind::Completion => self.is_of_server(name) && (is_prompt() || is_resource()),
            // Servers ask for these, and no client.
            CallKind::Sampling | CallKind::Elicitation | CallKind::Roots => false,
        }
    }

    fn shows_tool(&self, name: &str) -> bool {
        match name {
            READ_RESULT if self.name.is_some() => true,
            // Without a name it cannot be told what to search.
            SEARCH_TOOLS if self.name.is_none() => false,
            SEARCH_TOOLS if self.max_tools.is_some() => true,
            _ => self.is_of_server(name) && self.tools.is_match(name),
        }
    }

    fn is_of_server(&self, name: &str) -> bool {
        self.prefix.as_ref().is_none_or(|prefix| name.len() > prefix.len() && name.starts_with(prefix))
    }

    /// Whether it is there for the view's own sake, and counts as none of the set's tools.
    pub(super) fn is_own(&self, name: &str) -> bool {
        self.name.is_some() && is_own(name)
    }

    /// A tool as it is shown here, if it is.
    pub(crate) fn shown(&self, tool: &Arc<ToolDefinition>) -> Option<Arc<ToolDefinition>> {
        if !self.shows(tool.kind, &tool.name) {
            return None;
        }
        let (name, bound) = (self.name_here(&tool.name), self.bound(tool.kind, &tool.name));
        if name == tool.name && bound.is_empty() {
            return Some(Arc::clone(tool));
        }
        let mut shown = ToolDefinition::clone(tool);
        shown.name = name.to_owned();
        hide(&mut shown.input_schema, &bound);
        if !bound.is_empty() {
            // What its server said of it tells them all.
            shown.listing = None;
        }
        for example in shown.examples.iter_mut().filter_map(Value::as_object_mut) {
            bound.keys().for_each(|argument| drop(example.shift_remove(argument)));
        }
        Some(Arc::new(shown))
    }

    pub(crate) fn may_be_too_long(&self) -> bool {
        self.max_tools.is_some()
    }

    pub(super) fn is_too_long(&self, shown: &[Arc<ToolDefinition>]) -> bool {
        self.max_tools.is_some_and(|most| shown.iter().filter(|tool| !self.is_own(&tool.name)).count() > most)
    }

    /// The name behind of a tool of here; none of what is not shown.
    pub(super) fn behind<'a>(&self, name: &'a str) -> Option<Cow<'a, str>> {
        self.name_behind(CallKind::Tool, name)
    }

    /// Makes a call of here one of the door behind, or refuses it. Returns what was set beforehand.
    pub(super) fn take(&self, call: &mut Call) -> Map<String, Value> {
        let Some(behind) = self.name_behind(call.kind, &call.name) else {
            // What is refused for its name is refused for nothing else.
            call.refusal = Some(unknown_tool(&call.name, []));
            return Map::new();
        };
        call.name = behind.into_owned();
        let bound = self.bound(call.kind, &call.name);
        if bound.is_empty() {
            return bound;
        }
        let fitted = match call.kind {
            CallKind::Completion => not_completed(&bound, &call.arguments),
            _ => put_in(&bound, &mut call.arguments),
        };
        if let Err(error) = fitted {
            call.refusal.get_or_insert(error);
        }
        bound
    }

    /// What the asker is told where the fault may be of what was set beforehand: nothing of that.
    pub(super) fn misfit(&self, asked: &str, bound: &Map<String, Value>, outcome: &mut Outcome) -> Option<ErrorObject> {
        let (End::Refused(error) | End::Failed(error)) = &mut outcome.end else { return None };
        if bound.is_empty() || error.error != Code::InvalidArguments {
            return None;
        }
        error.details.iter_mut().for_each(|detail| detail.accepted.retain(|argument| !bound.contains_key(argument)));
        let is_ours = |argument: &String| bound.contains_key(argument);
        let is_ours = error.details.iter().any(|detail| {
            first(&detail.path).as_ref().is_some_and(is_ours)
                || detail.path.is_empty() && detail.unknown.iter().any(is_ours)
        });
        is_ours.then(|| {
            tracing::warn!(set = self.name(), tool = asked, "what `bind` sets does not fit the tool");
            Text::BoundMisfit.error(&[("tool", &asked.escape_debug())])
        })
    }

    /// What is set beforehand for the tool or the prompt of this name behind the view.
    fn bound(&self, kind: CallKind, name: &str) -> Map<String, Value> {
        let mut bound = Map::new();
        if !matches!(kind, CallKind::Tool | CallKind::Prompt | CallKind::Completion) {
            return bound;
        }
        if name == SEARCH_TOOLS {
            bound.extend(self.name.as_ref().map(|set| (SET_ARGUMENT.to_owned(), json!(set))));
        }
        let is_meant = |glob: &GlobMatcher| glob.glob().glob().contains('/') == name.contains('/');
        for (_, arguments) in self.bound.iter().filter(|(glob, _)| is_meant(glob) && glob.is_match(name)) {
            bound.extend(arguments.clone());
        }
        bound
    }

    fn name_here<'a>(&self, behind: &'a str) -> &'a str {
        let bare = self.prefix.as_ref().and_then(|prefix| behind.strip_prefix(prefix.as_str()));
        // What would be taken for another keeps its whole name.
        bare.filter(|bare| !bare.is_empty() && !is_own(bare) && !bare.starts_with(SERVERS)).unwrap_or(behind)
    }

    /// The name behind the view of what is called so here; none where nothing is.
    fn name_behind<'a>(&self, kind: CallKind, asked: &'a str) -> Option<Cow<'a, str>> {
        let behind = match &self.prefix {
            Some(prefix) if !is_own(asked) && !asked.starts_with(SERVERS) => Cow::Owned(format!("{prefix}{asked}")),
            _ => Cow::Borrowed(asked),
        };
        // Results point to resources by whole names.
        let is_its_name = !matches!(kind, CallKind::Tool | CallKind::Prompt) || self.name_here(&behind) == asked;
        (is_its_name && self.shows(kind, &behind)).then_some(behind)
    }
}

/// Whether the house itself has a tool of this name, which every set may need.
pub(crate) fn is_own(name: &str) -> bool {
    matches!(name, READ_RESULT | SEARCH_TOOLS | super::CALL_TOOL)
}

/// What the names of a server's tools begin with.
pub(crate) fn prefix(server: &str) -> String {
    format!("{SERVERS}{server}__")
}

fn set(globs: &[String]) -> Result<GlobSet, String> {
    let mut set = GlobSetBuilder::new();
    for text in globs {
        set.add(glob(text)?);
    }
    set.build().map_err(|error| error.to_string())
}

fn matcher(text: &str) -> Result<GlobMatcher, String> {
    Ok(glob(text)?.compile_matcher())
}

fn glob(text: &str) -> Result<Glob, String> {
    Glob::new(text).map_err(|error| format!("the glob `{text}` cannot be read: {}", error.kind()))
}

/// Takes arguments out of a schema.
fn hide(schema: &mut Value, bound: &Map<String, Value>) {
    let Some(schema) = schema.as_object_mut() else { return };
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.retain(|argument, _| !bound.contains_key(argument));
    }
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|argument| argument.as_str().is_none_or(|argument| !bound.contains_key(argument)));
    }
}

/// Puts what is set beforehand into the text of arguments, which stays as it came otherwise. What could be mended into
/// saying one of them is not: such a text is refused unless it is exactly right.
fn put_in(bound: &Map<String, Value>, arguments: &mut String) -> Result<(), ErrorObject> {
    if arguments.trim_ascii().is_empty() {
        arguments.replace_range(.., "{}");
    }
    let read = repair::arguments(arguments, RepairLevel::Off).map_err(ErrorObject::from)?;
    let Some(given) = read.value.as_object() else { return Ok(()) };
    if let Some(argument) = bound.keys().find(|argument| given.contains_key(*argument)) {
        return Err(Text::Bound.error(&[("argument", &argument.escape_debug())]));
    }
    let ours = Value::Object(bound.clone()).to_string();
    let (Some(ours), Some((_, theirs))) = (ours.strip_suffix('}'), arguments.split_once('{')) else { return Ok(()) };
    let comma = if given.is_empty() { "" } else { "," };
    *arguments = format!("{ours}{comma}{theirs}");
    Ok(())
}

/// Nobody is told what may stand where something is set beforehand.
fn not_completed(bound: &Map<String, Value>, asked: &str) -> Result<(), ErrorObject> {
    let asked: Value = serde_json::from_str(asked).unwrap_or_default();
    let argument = asked.pointer("/argument/name").and_then(Value::as_str);
    match argument.filter(|argument| bound.contains_key(*argument)) {
        Some(argument) => Err(Text::Bound.error(&[("argument", &argument.escape_debug())])),
        None => Ok(()),
    }
}

/// The first key of a JSON Pointer.
fn first(pointer: &str) -> Option<String> {
    let key = pointer.strip_prefix('/')?.split('/').next()?;
    Some(key.replace("~1", "/").replace("~0", "~"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bare() -> Selection {
        Selection::of_tools(&["mcp__x__*".to_owned()]).unwrap().named("s").bare("x").max_tools(Some(5))
    }

    #[test]
    fn bare_names_go_there_and_back_and_never_meet() {
        let behind =
            ["mcp__x__go", "mcp__x__read_result", "mcp__x__mcp__x__read_result", "mcp__x__mcp__y__go", "read_result"];
        let behind = behind.into_iter().chain(["search_tools", "mcp__x__search_tools", "mcp__x__call_tool"]);
        let mut seen = std::collections::BTreeSet::new();
        for name in behind {
            let here = bare().name_here(name).to_owned();
            assert!(seen.insert(here.clone()), "{here} is two");
            assert_eq!(bare().name_behind(CallKind::Tool, &here).as_deref(), Some(name));
        }
        assert_eq!(bare().name_here("mcp__x__go"), "go");
        for nothing in ["mcp__x__go", "mcp__y__go", "", "mcp__x__"] {
            assert_eq!(bare().name_behind(CallKind::Tool, nothing), None, "{nothing}");
        }
    }

    #[test]
    fn each_kind_goes_by_its_own_globs() {
        let globs = |text: &str| [text.to_owned()];
        let set = Selection::of_tools(&globs("mcp__x__*")).unwrap().named("s");
        let set = set.prompts(&globs("*prompts/code_*")).unwrap().resources(&globs("*/file://*")).unwrap();
        for (kind, name, is_shown) in [
            (CallKind::Prompt, "mcp__x__prompts/code_review", true),
            (CallKind::Prompt, "prompts/code_review", true),
            (CallKind::Prompt, "mcp__x__prompts/other", false),
            (CallKind::Resource, "resources/file:///a", true),
            (CallKind::Template, "mcp__x__resources/file:///{path}", true),
            (CallKind::Resource, "mcp__x__resources/demo://1", false),
            (CallKind::Completion, "prompts/code_review", true),
            (CallKind::Completion, "mcp__x__resources/file:///{path}", true),
            (CallKind::Completion, "mcp__x__prompts/other", false),
            (CallKind::Sampling, "mcp__x__client/sampling", false),
            (CallKind::Tool, "prompts/code_review", false),
        ] {
            assert_eq!(set.shows(kind, name), is_shown, "{name}");
        }
        let bare = set.bare("x");
        for (kind, here, behind) in [
            (CallKind::Prompt, "prompts/code_review", Some("mcp__x__prompts/code_review")),
            (CallKind::Prompt, "mcp__x__prompts/code_review", None),
            (CallKind::Resource, "resources/file:///a", Some("mcp__x__resources/file:///a")),
            (CallKind::Resource, "mcp__x__resources/file:///a", Some("mcp__x__resources/file:///a")),
            (CallKind::Resource, "mcp__y__resources/file:///a", None),
        ] {
            assert_eq!(bare.name_behind(kind, here).as_deref(), behind, "{here}");
        }
    }

    #[test]
    fn arguments_are_put_in_or_refused() {
        let bound = json!({ "tenant": "北京", "n": 1 }).as_object().unwrap().clone();
        let put = |text: &str| {
            let mut arguments = text.to_owned();
            put_in(&bound, &mut arguments).map(|()| arguments).map_err(|error| error.error)
        };
        let whole = |text: &str| Ok(text.to_owned());
        assert_eq!(put(""), whole(r#"{"tenant":"北京","n":1}"#));
        assert_eq!(put(" {} "), whole(r#"{"tenant":"北京","n":1} "#));
        assert_eq!(put(r#"{"q": 9007199254740991}"#), whole(r#"{"tenant":"北京","n":1,"q": 9007199254740991}"#));
        for theirs in [r#"{"tenant": "me"}"#, r#"{"ten\u0061nt": 1}"#, r#"{"q": 1, "n": null}"#] {
            assert_eq!(put(theirs), Err(Code::InvalidArguments), "{theirs}");
        }
        for odd in ["[]", "null", "{'q': 1}", "{\"q\": 1", "{\"q\":1}{\"tenant\":2}", "{\"q\":1,\"q\":2}"] {
            assert!(put(odd).is_err(), "{odd}");
        }
    }
}
