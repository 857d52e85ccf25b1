//! `[sets.NAME]`: parts of the house, as some clients are to see them.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use toml::Spanned;

use super::{ConfigError, Loaded};
use crate::view::{Selection, prefix};

/// A name stands in a path.
const NAME_CHARS_MAX: usize = 64;

/// `[sets.NAME]`: a part of what the house has, served at `/mcp/NAME` and by `tollgate serve --stdio --set NAME`. It grants
/// nothing: who may not use a tool does not see it here either. docs/sets.md.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Set {
    /// Globs of the tools that it shows; unsaid: those of `bare`.
    #[serde(default)]
    pub tools: Vec<String>,
    /// Globs of the prompts that it shows, by their whole names: `prompts/NAME`, `mcp__SERVER__prompts/NAME`; unsaid: those of
    /// `bare`.
    #[serde(default)]
    pub prompts: Vec<String>,
    /// Globs of the resources that it shows, by their whole names: `resources/URI`, `mcp__SERVER__resources/URI`; unsaid:
    /// those of `bare`.
    #[serde(default)]
    pub resources: Vec<String>,
    /// Arguments that are set beforehand, by globs of tools: `bind = { "query_*" = { database = "shop" } }`, and by those of
    /// prompts, which have a `/`: `"prompts/review" = { language = "中文" }`. Nobody sees them in the schema, and who gives one
    /// is refused.
    #[serde(default)]
    pub bind: BTreeMap<String, Map<String, Value>>,
    /// The MCP server whose tools alone it shows, under the names that they have there.
    #[serde(default)]
    pub bare: Option<String>,
    /// Where there are more tools than this, the list has `search_tools` and `call_tool` instead.
    #[serde(default)]
    pub max_tools: Option<NonZeroUsize>,
}

impl Loaded {
    /// The `[sets.NAME]`.
    ///
    /// # Errors
    /// When one shows nothing, or what it says cannot be read.
    pub(crate) fn sets(&self) -> Result<BTreeMap<String, Selection>, ConfigError> {
        self.config.sets.iter().map(|(name, table)| Ok((name.clone(), self.set(name, table)?))).collect()
    }

    fn set(&self, name: &str, table: &Spanned<Set>) -> Result<Selection, ConfigError> {
        let full = format!("sets.{name}");
        let fault = |key: &str, message: String, hint: &str| self.key_fault(table, &full, key, message, hint);
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(is_plain) {
            let message = format!("a name has 1 to {NAME_CHARS_MAX} letters, digits, `_` or `-`: it stands in a path");
            return Err(self.fault(table, full, message, "such as [sets.research]"));
        }
        if name == "ws" {
            return Err(self.fault(table, full, "`/mcp/ws` is another way in".into(), "give the set another name"));
        }
        let set = table.get_ref();
        if let Some(server) = &set.bare {
            self.check_bare(server, set).map_err(|(key, message, hint)| fault(key, message, &hint))?;
        }
        let whole: Vec<String> = set.bare.iter().map(|server| format!("{}*", prefix(server))).collect();
        let or_whole = |globs: &Vec<String>| if globs.is_empty() { whole.clone() } else { globs.clone() };
        let (tools, prompts, resources) = (or_whole(&set.tools), or_whole(&set.prompts), or_whole(&set.resources));
        if tools.is_empty() && prompts.is_empty() && resources.is_empty() {
            let hint = "tools = [\"read_*\"], or bare = \"SERVER\" for all of one server";
            return Err(self.fault(table, full, "it shows nothing".into(), hint));
        }
        const GLOBS: &str = "use `*`, `?`, `[a-z]` and `{a,b}`";
        let mut selection = Selection::of_tools(&tools).map_err(|why| fault("tools", why, GLOBS))?.named(name);
        selection = selection.prompts(&prompts).map_err(|why| fault("prompts", why, GLOBS))?;
        selection = selection.resources(&resources).map_err(|why| fault("resources", why, GLOBS))?;
        for (glob, arguments) in &set.bind {
            if arguments.is_empty() {
                let hint = "bind = { \"query_*\" = { database = \"shop\" } }";
                return Err(fault("bind", format!("`{glob}` sets no argument"), hint));
            }
            selection = selection.bind(glob, arguments.clone()).map_err(|why| fault("bind", why, GLOBS))?;
        }
        selection = selection.max_tools(set.max_tools.map(NonZeroUsize::get));
        Ok(match &set.bare {
            Some(server) => selection.bare(server),
            None => selection,
        })
    }

    /// Bare names are those of one server that is there: key, message and hint, where they cannot be.
    fn check_bare(&self, server: &str, set: &Set) -> Result<(), (&'static str, String, String)> {
        if !self.config.mcp.contains_key(server) {
            let known: Vec<&str> = self.config.mcp.keys().map(String::as_str).collect();
            let hint =
                if known.is_empty() { "add [mcp.NAME]".into() } else { format!("there is {}", known.join(", ")) };
            return Err(("bare", format!("no MCP server is named `{server}`"), hint));
        }
        let prefix = prefix(server);
        let named = [("tools", &set.tools), ("prompts", &set.prompts), ("resources", &set.resources)];
        let named = named.into_iter().flat_map(|(key, globs)| globs.iter().map(move |glob| (key, glob)));
        let all = named.chain(set.bind.keys().map(|glob| ("bind", glob)));
        let Some((key, other)) = all.into_iter().find(|(_, glob)| !glob.starts_with(&prefix)) else { return Ok(()) };
        let message = format!("`{other}` is not of the server `{server}`, whose names alone can be bare");
        Err((key, message, format!("write \"{prefix}…\", or make a second set")))
    }

    /// What `bind` says of no tool of these names: a misspelt glob sets nothing. What may fit the tools of a server that
    /// did not say yet what it has is no such.
    pub(crate) fn idle_bindings(&self, names: &[String]) -> Vec<String> {
        let all =
            self.config.sets.iter().flat_map(|(set, table)| table.get_ref().bind.keys().map(move |glob| (set, glob)));
        let is_idle = |glob: &str| {
            let fits = |matcher: globset::GlobMatcher| names.iter().any(|name| matcher.is_match(name));
            !glob.starts_with("mcp__") && !globset::Glob::new(glob).is_ok_and(|glob| fits(glob.compile_matcher()))
        };
        let idle = all.filter(|(_, glob)| is_idle(glob));
        idle.map(|(set, glob)| format!("[sets.{set}] sets arguments of `{glob}`, which fits no tool")).collect()
    }
}
