//! `[policy]`: where the rules are, and what is declared for them.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_policy::{Argument, Policy, Role, RuleFault, RuleSource, RulesError};
use tollgate_types::limits;
use toml::Spanned;

use super::{ConfigError, Loaded, error};
use crate::Error;

/// `[policy]`: rules in Cedar beside the roles. Without it the roles alone decide. docs/policy.md says how rules are
/// written.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "Policy")]
pub struct PolicyFile {
    /// The file of rules. Relative to the configuration's folder.
    pub file: Option<PathBuf>,
    /// The zone of `context.hour` and `context.weekday`, such as `+08:00`.
    pub utc_offset: Option<String>,
    /// Sets of tools for `resource in Tollgate::ToolSet::"NAME"`, each as globs.
    pub sets: BTreeMap<String, Vec<String>>,
    /// The arguments that rules may read as `context.args.NAME`; they see no others.
    pub argument: Vec<Argument>,
}

impl Loaded {
    /// The policy that the configuration describes, with more roles from elsewhere.
    ///
    /// # Errors
    /// When a role, the file of rules, or what is declared for it is wrong: with file, line, and what would be right.
    pub fn policy(&self, more: impl IntoIterator<Item = Role>) -> Result<Policy, Error> {
        let policy = Policy::new(self.roles()?.into_iter().chain(more))?;
        match self.rule_source()? {
            None => Ok(policy),
            Some(source) => Ok(policy.with_rules(&source).map_err(|error| self.rules_fault(&error))?),
        }
    }

    /// The file of rules, when there is one.
    pub fn rule_file(&self) -> Option<PathBuf> {
        self.config.policy.as_ref()?.get_ref().file.as_ref().map(|file| self.path(file))
    }

    /// Takes the rules from another file.
    pub fn set_rule_file(&mut self, file: PathBuf) {
        let policy = self.config.policy.get_or_insert_with(|| Spanned::new(0..0, PolicyFile::default()));
        policy.get_mut().file = Some(file);
    }

    /// The rules as they are written, when there are some.
    ///
    /// # Errors
    /// When there is no such file or it cannot be read, or the zone is none.
    pub fn rule_source(&self) -> Result<Option<RuleSource>, ConfigError> {
        let Some(table) = &self.config.policy else { return Ok(None) };
        let path = self.rule_file().ok_or_else(|| {
            self.fault(table, "policy".into(), "it names no file of rules".into(), "file = \"rules.cedar\"")
        })?;
        let PolicyFile { utc_offset, sets, argument, .. } = table.get_ref();
        let utc_offset_minutes = match utc_offset {
            None => 0,
            Some(text) => minutes(text).ok_or_else(|| {
                let message = format!("`{text}` is no distance from UTC");
                self.key_fault(table, "policy", "utc_offset", message, "write it as \"+08:00\" or \"-03:30\"")
            })?,
        };
        let hint = "set `file` of [policy] to a file of rules; docs/policies.md has examples";
        let text = error::read_text(&path, limits::RULES_BYTES_MAX, hint)?;
        let file = path.strip_prefix(&self.folder).unwrap_or(&path).display().to_string();
        let (arguments, sets) = (argument.clone(), sets.clone());
        Ok(Some(RuleSource { file, text: text.into(), arguments, sets, utc_offset_minutes }))
    }

    /// What is wrong with the rules: in their own file, or at the key that declares something for them.
    fn rules_fault(&self, error: &RulesError) -> ConfigError {
        let hint = "docs/policy.md says how rules are declared";
        let nowhere = Spanned::new(0..0, PolicyFile::default());
        let table = self.config.policy.as_ref().unwrap_or(&nowhere);
        match error {
            RulesError::Text(faults) => self.text_fault(faults),
            RulesError::Argument { name, .. } => {
                self.key_fault(table, "policy", &format!("argument.{name}"), error.to_string(), hint)
            }
            RulesError::Set { name, .. } => {
                self.key_fault(table, "policy.sets", name, error.to_string(), "globs of tools, such as [\"pay_*\"]")
            }
            _ => self.key_fault(table, "policy", "utc_offset", error.to_string(), hint),
        }
    }

    fn text_fault(&self, faults: &[RuleFault]) -> ConfigError {
        let path = self.rule_file().unwrap_or_default();
        let Some(first) = faults.first() else {
            return ConfigError::whole(&path, "the rules cannot be read".into(), "docs/policy.md says how");
        };
        let message = match faults.len() {
            1 => first.message.clone(),
            faults => format!("{} (and {} more: `tollgate policy check`)", first.message, faults - 1),
        };
        ConfigError::at(&path, &first.text, first.offset, None, message, first.hint.clone())
    }
}

/// `+08:00` in minutes.
fn minutes(text: &str) -> Option<i32> {
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (hours, minutes) = rest.split_once(':').unwrap_or((rest, "0"));
    let number = |text: &str, max: i32| {
        let is_plain = (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<i32>().ok().filter(|number| is_plain && *number <= max)
    };
    Some(sign * (number(hours, 14)? * 60 + number(minutes, 59)?))
}
