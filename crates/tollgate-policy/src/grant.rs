//! A role as it is enforced: its inheritance resolved, its globs compiled.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use globset::{Candidate, Glob, GlobSet, GlobSetBuilder};
use serde_json::{Value, json};
use tollgate_types::{Language, Permission, RepairLevel, Risk, ToolDefinition};

use crate::{Ask, PolicyError, Role};

/// Globs of one role with its inherited ones.
const ROLE_GLOBS_MAX: usize = 1_000;
/// One glob.
const GLOB_CHARS_MAX: usize = 256;
/// A role's name.
const ROLE_NAME_CHARS_MAX: usize = 64;

pub(crate) struct Grant {
    tools: GlobSet,
    exclude: GlobSet,
    /// What of `tools` may be no pattern but a name.
    by_letter: BTreeSet<String>,
    /// The role and those it inherits from.
    pub(crate) roles: Vec<String>,
    pub(crate) permission: Permission,
    pub(crate) risk: Risk,
    pub(crate) ask: Ask,
    pub(crate) repeats: Option<NonZeroU32>,
    pub(crate) language: Option<Language>,
    pub(crate) repair: Option<RepairLevel>,
    /// What the policy's hash is made of.
    pub(crate) canonical: Value,
}

impl Grant {
    /// Resolves one role against all of them.
    pub(crate) fn resolve(role: &Role, roles: &BTreeMap<String, Role>) -> Result<Self, PolicyError> {
        let chain = chain(role, roles)?;
        let gather = |list: fn(&Role) -> &[String]| {
            let mut globs: Vec<&str> = chain.iter().flat_map(|role| list(role)).map(String::as_str).collect();
            globs.sort_unstable();
            globs.dedup();
            globs
        };
        let (tools, exclude) = (gather(|role| &role.tools), gather(|role| &role.exclude));
        if tools.is_empty() {
            return Err(PolicyError::NoTools { role: role.name.clone() });
        }
        if tools.len() + exclude.len() > ROLE_GLOBS_MAX {
            return Err(PolicyError::TooManyGlobs { role: role.name.clone(), globs_max: ROLE_GLOBS_MAX });
        }
        let permission = chain.iter().find_map(|role| role.permission).unwrap_or(Permission::Read);
        let risk = chain.iter().find_map(|role| role.risk).unwrap_or(Risk::Read);
        let ask = chain.iter().find_map(|role| role.ask).unwrap_or_default();
        let repeats = chain.iter().find_map(|role| role.repeats);
        let repair = chain.iter().filter_map(|role| role.repair).min();
        let mut canonical = json!({
            "ask": ask.as_str(), "exclude": exclude, "permission": permission.as_str(), "risk": risk.as_str(),
            "tools": tools,
        });
        if let Some(repeats) = repeats {
            canonical.as_object_mut().map(|role| role.insert("repeats".to_owned(), json!(repeats)));
        }
        let language = chain.iter().find_map(|role| role.language);
        if let Some(language) = language {
            canonical.as_object_mut().map(|role| role.insert("language".to_owned(), json!(language)));
        }
        if let Some(repair) = repair {
            canonical.as_object_mut().map(|role| role.insert("repair".to_owned(), json!(repair)));
        }
        let by_letter = tools.iter().map(|&name| name.to_owned()).collect();
        let (tools, exclude) = (compile(&role.name, &tools)?, compile(&role.name, &exclude)?);
        let roles = chain.iter().map(|role| role.name.clone()).collect();
        Ok(Self { tools, exclude, by_letter, roles, permission, risk, ask, repeats, language, repair, canonical })
    }

    /// Whether the role names a tool.
    pub(crate) fn names(&self, tool: &ToolDefinition) -> bool {
        let is_named = !tool.security.named_only || self.by_letter.contains(&tool.name);
        let tool = Candidate::new(&tool.name);
        is_named && self.tools.is_match_candidate(&tool) && !self.exclude.is_match_candidate(&tool)
    }
}

/// The role, its parent, and so on.
fn chain<'a>(role: &'a Role, roles: &'a BTreeMap<String, Role>) -> Result<Vec<&'a Role>, PolicyError> {
    let mut chain = vec![role];
    let mut last = role;
    while let Some(parent) = &last.inherits {
        let names = || chain.iter().map(|role| role.name.as_str()).chain([parent.as_str()]).collect::<Vec<_>>();
        let Some(next) = roles.get(parent) else {
            return Err(PolicyError::UnknownParent { parent: parent.clone(), chain: names().join(" -> ") });
        };
        if chain.iter().any(|role| role.name == next.name) {
            return Err(PolicyError::Cycle { chain: names().join(" -> ") });
        }
        chain.push(next);
        last = next;
    }
    Ok(chain)
}

fn compile(role: &str, globs: &[&str]) -> Result<GlobSet, PolicyError> {
    let bad =
        |glob: &str, problem: String| PolicyError::BadGlob { role: role.to_owned(), glob: glob.to_owned(), problem };
    let mut set = GlobSetBuilder::new();
    for &glob in globs {
        if glob.is_empty() || glob.chars().count() > GLOB_CHARS_MAX {
            return Err(bad(glob, format!("a glob has 1 to {GLOB_CHARS_MAX} characters")));
        }
        set.add(Glob::new(glob).map_err(|error| bad(glob, error.kind().to_string()))?);
    }
    set.build().map_err(|error| bad(error.glob().unwrap_or_default(), error.kind().to_string()))
}

/// Roles by name, the built-in ones included.
pub(crate) fn by_name(roles: impl IntoIterator<Item = Role>) -> Result<BTreeMap<String, Role>, PolicyError> {
    let mut named = BTreeMap::new();
    for role in roles {
        let is_name = (1..=ROLE_NAME_CHARS_MAX).contains(&role.name.len())
            && role.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
        if !is_name {
            return Err(PolicyError::RoleName { role: role.name });
        }
        if let Some(twice) = named.insert(role.name.clone(), role) {
            return Err(PolicyError::DuplicateRole { role: twice.name });
        }
    }
    for role in Role::built_in() {
        named.entry(role.name.clone()).or_insert(role);
    }
    Ok(named)
}
