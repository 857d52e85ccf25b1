//! `[prompts.NAME]`: texts that people choose in their clients, with what they fill in.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::{ConfigError, Loaded};
use crate::prompts::PromptEntry;

const NAME_CHARS_MAX: usize = 64;

/// `[prompts.NAME]`: a prompt for MCP clients, with a `template` or `messages`. Roles name it `prompts/NAME`. docs/prompts.md.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Prompt {
    /// The name for people.
    #[serde(default)]
    pub title: Option<String>,
    /// What it is for, as people read it who choose one.
    pub description: String,
    /// What is filled in.
    #[serde(default)]
    pub arguments: Vec<PromptArgument>,
    /// What the user says: a template (Jinja), in which each argument stands as `{{ name }}`.
    #[serde(default)]
    pub template: Option<String>,
    /// A conversation instead, each text of it a template.
    #[serde(default)]
    pub messages: Vec<PromptMessage>,
}

/// One argument of a prompt: a text.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptArgument {
    /// Its name in the templates: letters, digits and `_`.
    pub name: String,
    /// What to write there.
    #[serde(default)]
    pub description: Option<String>,
    /// Whether there is no prompt without it. One that is not given is empty: `{% if name %}`.
    #[serde(default)]
    pub required: bool,
    /// What clients offer to complete it with; anything else may be written too.
    #[serde(default)]
    pub values: Vec<String>,
}

/// One message of a prompt.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PromptMessage {
    /// Who says it.
    pub role: Speaker,
    /// What: a template.
    pub text: String,
}

/// Who says a message of a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    /// The user.
    User,
    /// The model.
    Assistant,
}

impl Loaded {
    /// The `[prompts.NAME]`.
    ///
    /// # Errors
    /// When one says nothing, or a template cannot be filled in with what it says it takes.
    pub(crate) fn prompts(&self) -> Result<Vec<PromptEntry>, ConfigError> {
        self.config.prompts.iter().map(|(name, table)| self.prompt(name, table)).collect()
    }

    fn prompt(&self, name: &str, table: &Spanned<Prompt>) -> Result<PromptEntry, ConfigError> {
        let full = format!("prompts.{name}");
        let fault = |key: &str, message: String, hint: &str| Err(self.key_fault(table, &full, key, message, hint));
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(is_plain) {
            let message = format!("a name has 1 to {NAME_CHARS_MAX} letters, digits, `_` or `-`");
            return Err(self.fault(table, full, message, "such as [prompts.code_review_prompt]"));
        }
        let prompt = table.get_ref();
        let messages = match (&prompt.template, prompt.messages.is_empty()) {
            (Some(text), true) => vec![PromptMessage { role: Speaker::User, text: text.clone() }],
            (None, false) => prompt.messages.clone(),
            (Some(_), false) => return fault("messages", "it has both `template` and `messages`".into(), "keep one"),
            (None, true) => {
                let hint = "template = \"Review this change: {{ diff }}\"";
                return Err(self.fault(table, full, "it says nothing".into(), hint));
            }
        };
        let mut names = BTreeSet::new();
        for PromptArgument { name, .. } in &prompt.arguments {
            let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
            if !is_name || !names.insert(name) {
                let message = format!("`{}` is no name of its own for an argument", name.escape_debug());
                return fault("arguments", message, "letters, digits and `_`, each name once");
            }
        }
        PromptEntry::new(name, prompt, messages).or_else(|why| {
            let key = if prompt.template.is_some() { "template" } else { "messages" };
            let hint = "name what it takes in `arguments`";
            fault(key, format!("it cannot be filled in: {why}"), hint)
        })
    }
}
