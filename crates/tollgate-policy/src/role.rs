//! A role as it is written: what it names, and what it leaves to its parent.

use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};
use tollgate_types::{Language, Permission, RepairLevel, Risk};

/// What a kind of caller may do. As configuration it is the table `[roles.<name>]`, without the name.
///
/// What is not said is taken from the role it inherits from; said nowhere it is the least: risk read, permission read,
/// and asking by the default table.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Role {
    #[serde(skip)]
    pub(crate) name: String,
    /// Globs of the tools it may use, added to the inherited ones.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// Globs of tools it may not use, added to the inherited ones. They win over `tools`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// The role it takes the rest from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inherits: Option<String>,
    /// The highest permission it grants.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permission: Option<Permission>,
    /// The highest risk it may use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub risk: Option<Risk>,
    /// When a human is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask: Option<Ask>,
    /// How often in a row the same call may end in the same way within a session; unsaid: for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeats: Option<NonZeroU32>,
    /// The language in which its callers are told why a call does not work; unsaid: the house's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<Language>,
    /// How far arguments are mended; of what the role and those it inherits from say, the strictest counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repair: Option<RepairLevel>,
}

impl Role {
    /// A role that grants nothing yet.
    pub fn new(name: impl Into<String>) -> Self {
        Self::default().named(name)
    }

    /// The same role under a name: configuration keeps the name as the table's key.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The same role, with the tools that match a glob.
    #[must_use]
    pub fn allow(mut self, glob: impl Into<String>) -> Self {
        self.tools.push(glob.into());
        self
    }

    /// The same role, without the tools that match a glob.
    #[must_use]
    pub fn exclude(mut self, glob: impl Into<String>) -> Self {
        self.exclude.push(glob.into());
        self
    }

    /// The same role on top of another.
    #[must_use]
    pub fn inherits(mut self, role: impl Into<String>) -> Self {
        self.inherits = Some(role.into());
        self
    }

    /// The same role with its highest permission.
    #[must_use]
    pub fn permission(mut self, permission: Permission) -> Self {
        self.permission = Some(permission);
        self
    }

    /// The same role with its highest risk.
    #[must_use]
    pub fn risk(mut self, risk: Risk) -> Self {
        self.risk = Some(risk);
        self
    }

    /// The same role with its rule for asking.
    #[must_use]
    pub fn ask(mut self, ask: Ask) -> Self {
        self.ask = Some(ask);
        self
    }

    /// The same role with a limit on calls that end as before.
    #[must_use]
    pub fn repeats(mut self, times: NonZeroU32) -> Self {
        self.repeats = Some(times);
        self
    }

    /// The same role, spoken to in this language.
    #[must_use]
    pub fn language(mut self, language: Language) -> Self {
        self.language = Some(language);
        self
    }

    /// The same role with a bound on what is mended.
    #[must_use]
    pub fn repair(mut self, level: RepairLevel) -> Self {
        self.repair = Some(level);
        self
    }

    /// The roles that exist unless they are redefined: `developer` for the local command line, `reader` for keys and
    /// stdio surfaces.
    pub(crate) fn built_in() -> [Self; 2] {
        let all = |name: &str| Self::new(name).allow("*").ask(Ask::Default);
        [
            all("developer").risk(Risk::Dangerous).permission(Permission::System),
            all("reader").risk(Risk::Read).permission(Permission::Network),
        ]
    }
}

/// When a human is asked before a call that the role may make, least often first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ask {
    /// Only where the tool itself requires it.
    Never,
    /// For all but reads and the workspace's own write tools.
    #[default]
    Default,
    /// For all but reads.
    Write,
    /// For every call.
    Always,
}

impl Ask {
    /// The name in configuration.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::Default => "default",
            Self::Write => "write",
            Self::Always => "always",
        }
    }
}
