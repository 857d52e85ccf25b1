//! `[redact]`: what is hidden beyond the secrets that Tollgate hands out itself, and where.

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_guard::redact::{CustomRule, Examples, Options, Profile, Redactor};
use toml::Spanned;

use super::{ConfigError, Loaded};

/// `[redact]`: what is hidden beyond the secrets that Tollgate hands out itself; those are hidden everywhere. Records,
/// logs, errors, approvals and sessions are always gone through.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Redact {
    /// Whether personal data are hidden too.
    pub profile: RedactProfile,
    /// Whether secrets are hidden in what tools bring and say of themselves.
    pub results: bool,
    /// Whether secrets are hidden in what models are asked: prompts, results, their own calls.
    pub models: bool,
    /// Rules of your own.
    #[schemars(with = "Vec<RedactRule>")]
    pub rule: Vec<Spanned<RedactRule>>,
}

impl Default for Redact {
    fn default() -> Self {
        Self { profile: RedactProfile::Default, results: true, models: true, rule: Vec::new() }
    }
}

/// What is hidden.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RedactProfile {
    /// Secrets, and numbers of cards.
    #[default]
    Default,
    /// Personal data too: IBANs, Chinese resident IDs, phone numbers and mail addresses.
    Pii,
}

impl From<RedactProfile> for Profile {
    fn from(profile: RedactProfile) -> Self {
        match profile {
            RedactProfile::Default => Self::Default,
            RedactProfile::Pii => Self::Pii,
        }
    }
}

/// `[[redact.rule]]`: a rule sees one line at a time.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RedactRule {
    /// What stands in the secret's place: `[redacted:NAME]`. Of a to z, 0 to 9, `-` and `_`.
    pub name: String,
    /// A regular expression (the syntax of the Rust crate `regex`). Its first group is the secret, or else the whole.
    pub pattern: String,
    /// Words of which a line must have one before the pattern is tried, in any case.
    #[serde(default)]
    pub keywords: Vec<String>,
    /// What the secret's Shannon entropy must exceed, in bits a byte.
    #[serde(default)]
    pub entropy: f64,
    /// Lines that show what the rule does. They are checked when the file is read.
    #[serde(default)]
    pub examples: RedactExamples,
}

/// `examples` of a `[[redact.rule]]`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RedactExamples {
    /// In each of these something is hidden.
    #[serde(rename = "match")]
    pub hidden: Vec<String>,
    /// In none of these anything is.
    #[serde(rename = "not_match")]
    pub kept: Vec<String>,
}

impl RedactRule {
    fn custom(&self) -> CustomRule {
        let RedactExamples { hidden, kept } = &self.examples;
        CustomRule {
            name: self.name.clone(),
            pattern: self.pattern.clone(),
            keywords: self.keywords.clone(),
            entropy: self.entropy,
            examples: Examples { hidden: hidden.clone(), kept: kept.clone() },
        }
    }
}

impl Loaded {
    /// What hides secrets, as the configuration says it. It knows none yet.
    ///
    /// # Errors
    /// When a rule's name or pattern is wrong, or one of its examples does not hold.
    pub fn redactor(&self, install_key: &[u8]) -> Result<Redactor, ConfigError> {
        self.redactor_with(install_key, self.config.redact.profile)
    }

    /// The same with another profile.
    ///
    /// # Errors
    /// The same.
    pub fn redactor_with(&self, install_key: &[u8], profile: RedactProfile) -> Result<Redactor, ConfigError> {
        let redact = &self.config.redact;
        let rules = redact.rule.iter().map(|rule| rule.get_ref().custom()).collect();
        let options = Options { profile: profile.into(), rules, results: redact.results, models: redact.models };
        Redactor::with_options(install_key, &options).map_err(|fault| {
            let hint = "docs/config.md says what a rule is; a rule sees one line at a time";
            let is_it = |rule: &&Spanned<RedactRule>| rule.get_ref().name == fault.name;
            let full = format!("redact.rule.{}", fault.name);
            let key = if matches!(fault.key, "match" | "not_match") { "examples" } else { fault.key };
            match redact.rule.iter().find(is_it) {
                Some(rule) => self.key_fault(rule, &full, key, fault.message.clone(), hint),
                None => self.fault(&Spanned::new(0..0, ()), full, fault.message.clone(), hint),
            }
        })
    }
}
