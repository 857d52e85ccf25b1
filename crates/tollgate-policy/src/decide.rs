//! The one decision function. Listing, search and calls all go through it, so that what is listed can be called.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use tollgate_types::{Caller, Language, Permission, RepairLevel, Risk, SourceKind, ToolDefinition};

use crate::grant::{Grant, by_name};
use crate::guard::{Breach, Guard};
use crate::rule::request::{Circumstances, Inquiry};
use crate::rule::source::{RuleSource, RulesError};
use crate::rule::{Opinion, Opinions, Rule, Rules};
use crate::{Ask, PolicyError, Role};

/// Of a blocked argument, what a reason quotes.
const QUOTE_CHARS_MAX: usize = 60;

/// What becomes of a call, mildest first: the strictest of several is their maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Effect {
    /// It may run.
    Allow,
    /// It may run once a human says so.
    Ask,
    /// It may not run.
    Deny,
}

impl Effect {
    /// The name in the ledger.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Deny => "deny",
        }
    }
}

/// An effect, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// What becomes of it.
    pub effect: Effect,
    /// The rule that said so, such as `role:reader:risk`.
    pub rule: String,
    /// One fragment for people.
    pub reason: String,
    /// What the model is told instead, where the reason is for the operator alone.
    pub told: Option<String>,
}

impl Decision {
    pub(crate) fn new(effect: Effect, rule: impl Into<String>, reason: String) -> Self {
        Self { effect, rule: rule.into(), reason, told: None }
    }

    /// The stricter of two; of two that are equally strict, this one.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        if other.effect > self.effect { other } else { self }
    }

    /// What the model is told.
    pub fn for_model(&self) -> &str {
        self.told.as_deref().unwrap_or(&self.reason)
    }
}

/// All roles, resolved and compiled, the operator's rules, and the argument rules of the tools that have some.
pub struct Policy {
    grants: BTreeMap<String, Grant>,
    pub(crate) rules: Option<Rules>,
    guards: RwLock<BTreeMap<String, Arc<Guard>>>,
    hash: String,
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy").field("roles", &self.role_names()).field("hash", &self.hash).finish_non_exhaustive()
    }
}

impl Policy {
    /// Resolves and compiles roles. `developer` and `reader` are added unless they are among them.
    ///
    /// # Errors
    /// Names that are no names or stand twice, unknown parents, circles, roles without tools, bad globs.
    pub fn new(roles: impl IntoIterator<Item = Role>) -> Result<Self, PolicyError> {
        let roles = by_name(roles)?;
        let mut grants = BTreeMap::new();
        let mut hasher = Sha256::new();
        for (name, role) in &roles {
            let grant = Grant::resolve(role, &roles)?;
            hasher.update(format!("{name} {}\n", grant.canonical));
            grants.insert(name.clone(), grant);
        }
        Ok(Self { grants, rules: None, guards: RwLock::default(), hash: hex(&hasher.finalize()) })
    }

    /// The same policy with the operator's rules on top. Without rules nothing of Cedar runs.
    ///
    /// # Errors
    /// Rules that can not be read, do not fit the schema, name a role or a set that does not exist, or do not do what
    /// their examples say: each with its place.
    pub fn with_rules(mut self, source: &RuleSource) -> Result<Self, RulesError> {
        let rules = crate::rule::read::read(source, &self.role_chains())?;
        let canonical = Rules::canonical(source, rules.types());
        self.hash = hex(&Sha256::new().chain_update(&self.hash).chain_update("\n").chain_update(canonical).finalize());
        self.rules = Some(rules);
        Ok(self)
    }

    /// Every role, with itself and those it inherits from.
    pub(crate) fn role_chains(&self) -> BTreeMap<String, Vec<String>> {
        self.grants.iter().map(|(name, grant)| (name.clone(), grant.roles.clone())).collect()
    }

    /// How often in a row the same call of this role may end in the same way; none stands for ever.
    pub fn repeats(&self, role: &str) -> Option<u32> {
        Some(self.grants.get(role)?.repeats?.get())
    }

    /// The language that callers in this role are spoken to in, where it says one.
    pub fn language(&self, role: &str) -> Option<Language> {
        self.grants.get(role)?.language
    }

    /// How far the arguments of this role's calls are mended, where it says so.
    pub fn repair(&self, role: &str) -> Option<RepairLevel> {
        self.grants.get(role)?.repair
    }

    /// Compiles a tool's `security.allowed_paths` and `security.blocked_patterns`, and keeps them under its name.
    /// To be called when the tool is registered: calls of a tool with rules that were not compiled are denied.
    ///
    /// # Errors
    /// A glob or an expression that can not be read.
    pub fn compile(&self, tool: &ToolDefinition) -> Result<(), PolicyError> {
        let guard = Guard::is_needed(&tool.security).then(|| Guard::compile(tool)).transpose()?;
        let mut guards = self.guards.write().unwrap_or_else(PoisonError::into_inner);
        match guard {
            Some(guard) => guards.insert(tool.name.clone(), Arc::new(guard)),
            None => guards.remove(&tool.name),
        };
        Ok(())
    }

    /// Judges a call, or with no arguments whether the tool may be listed.
    ///
    /// Rules on arguments, time, taint or approval never hide a tool. What a tool says of itself (tenants,
    /// environments, paths, patterns) no rule loosens; a permit of the operator may go beyond a role.
    pub fn decide(
        &self,
        caller: &Caller,
        tool: &ToolDefinition,
        arguments: Option<&Value>,
        circumstances: &Circumstances<'_>,
    ) -> Decision {
        let role = caller.role.as_str();
        let Some(grant) = self.grants.get(role) else {
            return Decision::new(Effect::Deny, "role:unknown", format!("there is no role `{role}`"));
        };
        let by_role = grant.refuses(role, tool);
        let by_tool = || {
            refuses_place(caller, tool, circumstances.environment)
                .or_else(|| arguments.and_then(|arguments| self.refuses_arguments(tool, arguments)))
        };
        let native = || asks(role, grant.ask, tool);
        let Some(rules) = &self.rules else {
            return by_role.or_else(by_tool).unwrap_or_else(native);
        };
        if let Some(no) = by_tool() {
            return by_role.unwrap_or(no);
        }
        let inquiry = Inquiry { caller, roles: &grant.roles, tool, arguments, circumstances };
        let by_rules = match arguments {
            None => listed(by_role, rules.on_listing(inquiry)),
            Some(_) => called(by_role, &rules.on_call(inquiry)),
        };
        match by_rules {
            Some(decision) => decision.max(native()),
            None => native(),
        }
    }

    pub(crate) fn grant(&self, role: &str) -> Option<&Grant> {
        self.grants.get(role)
    }

    /// Whether any rule depends on what the session has read.
    pub fn reads_taint(&self) -> bool {
        self.rules.as_ref().is_some_and(|rules| rules.reads_taint)
    }

    /// Whether any rule depends on where the values of arguments come from.
    pub fn reads_provenance(&self) -> bool {
        self.rules.as_ref().is_some_and(|rules| rules.reads_from)
    }

    /// Whether a role exists.
    pub fn has_role(&self, name: &str) -> bool {
        self.grants.contains_key(name)
    }

    /// The roles by name.
    pub fn role_names(&self) -> Vec<&str> {
        self.grants.keys().map(String::as_str).collect()
    }

    /// Lower-case hex SHA-256 over what the roles grant, and over the rules with their schema and declarations:
    /// policies that grant the same have the same.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Refuses a call of which a path leads to where the tool may not go. `lead` says where a path leads: the places are
    /// one, in several forms; none where that can not be said.
    pub fn refuses_lead(
        &self,
        tool: &ToolDefinition,
        arguments: &Value,
        lead: impl Fn(&str) -> Option<Vec<String>>,
    ) -> Option<Decision> {
        // Without paths nothing is followed; without a guard the call is denied anyway.
        let guard =
            Some(tool).filter(|tool| !tool.security.allowed_paths.is_empty()).and_then(|tool| self.guard(tool))?;
        let is_refused = |path: &&str| !lead(path).is_some_and(|places| places.iter().any(|place| guard.allows(place)));
        let path = guard.paths(arguments).into_iter().find(is_refused)?;
        let path: String = path.chars().take(QUOTE_CHARS_MAX).collect();
        let reason = format!("`{path}` leads, by a link, out of the allowed paths of `{}`", tool.name);
        Some(Decision::new(Effect::Deny, "tool:allowed_paths", reason))
    }

    /// What was compiled of the tool, if it is what the tool says now.
    fn guard(&self, tool: &ToolDefinition) -> Option<Arc<Guard>> {
        let guard = self.guards.read().unwrap_or_else(PoisonError::into_inner).get(&tool.name).cloned();
        guard.filter(|guard| guard.fits(&tool.security))
    }

    fn refuses_arguments(&self, tool: &ToolDefinition, arguments: &Value) -> Option<Decision> {
        if !Guard::is_needed(&tool.security) {
            return None;
        }
        let Some(guard) = self.guard(tool) else {
            let rule =
                if tool.security.allowed_paths.is_empty() { "tool:blocked_patterns" } else { "tool:allowed_paths" };
            return Some(Decision::new(
                Effect::Deny,
                rule,
                format!("the rules of `{}` about its arguments were not read when it was registered", tool.name),
            ));
        };
        let (rule, reason) = match guard.check(arguments).err()? {
            Breach::Path(path) => {
                let path: String = path.chars().take(QUOTE_CHARS_MAX).collect();
                ("tool:allowed_paths", format!("`{path}` is not among the allowed paths of `{}`", tool.name))
            }
            Breach::Pattern(pattern) => (
                "tool:blocked_patterns",
                format!("an argument of `{}` matches its blocked pattern `{pattern}`", tool.name),
            ),
        };
        Some(Decision::new(Effect::Deny, rule, reason))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(64), |mut hex, byte| {
        // Writing to a string does not fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// The rules' part of a listing: none where they have nothing to say.
fn listed(by_role: Option<Decision>, opinion: Opinion<'_>) -> Option<Decision> {
    match (by_role, opinion) {
        (_, Opinion::Fails(rule, why)) => Some(fails(rule, &why)),
        (_, Opinion::Forbids(rule)) => Some(by(Effect::Deny, rule)),
        (Some(_), Opinion::Grants(rule)) => Some(by(Effect::Allow, rule)),
        (no, Opinion::None) => no,
        (None, Opinion::Grants(_)) => None,
    }
}

/// The rules' part of a call: without a human's yes it is denied, with it allowed, so it asks.
pub(crate) fn called(by_role: Option<Decision>, opinions: &Opinions<'_>) -> Option<Decision> {
    let Opinions { unapproved, approved } = opinions;
    // INVARIANT: an error in either is a deny.
    for opinion in [unapproved, approved] {
        if let Opinion::Fails(rule, why) = opinion {
            return Some(fails(rule, why));
        }
    }
    match (approved, unapproved, by_role) {
        (Opinion::Forbids(rule), ..) => Some(by(Effect::Deny, rule)),
        // Nobody grants it, approved or not.
        (Opinion::None, _, Some(no)) => Some(no),
        (_, Opinion::Forbids(rule), _) => Some(by(Effect::Ask, rule)),
        (Opinion::Grants(rule), Opinion::None, Some(_)) => Some(by(Effect::Ask, rule)),
        (Opinion::Grants(rule), Opinion::Grants(_), Some(_)) => Some(by(Effect::Allow, rule)),
        (Opinion::None | Opinion::Grants(_), _, None) => None,
        (Opinion::Fails(rule, why), ..) | (_, Opinion::Fails(rule, why), _) => Some(fails(rule, why)),
    }
}

/// A decision of one rule.
fn by(effect: Effect, rule: &Rule) -> Decision {
    let verb = match effect {
        Effect::Allow => "allows this call",
        Effect::Ask => "asks for a human's yes first",
        Effect::Deny => "forbids this call",
    };
    let reason = rule.reason.clone().unwrap_or_else(|| format!("the rule `{}` {verb}", rule.id));
    Decision::new(effect, format!("cedar:{}", rule.id), reason)
}

/// A rule that can not be evaluated denies. The model learns nothing of how.
fn fails(rule: &Rule, why: &str) -> Decision {
    let reason = format!("the rule `{}` could not be evaluated: {why}", rule.id);
    let told = Some("a rule about this call could not be evaluated, and so it is denied".to_owned());
    Decision { told, ..Decision::new(Effect::Deny, format!("cedar:{}", rule.id), reason) }
}

impl Grant {
    pub(crate) fn refuses(&self, role: &str, tool: &ToolDefinition) -> Option<Decision> {
        let deny = |rule: &str, reason| Some(Decision::new(Effect::Deny, format!("role:{role}:{rule}"), reason));
        let ToolDefinition { name, risk, permission, .. } = tool;
        if !self.names(tool) {
            return deny("tools", format!("the role `{role}` does not name `{name}`"));
        }
        if *risk > self.risk {
            return deny("risk", format!("`{name}` has risk {risk}, and the role `{role}` ends at {}", self.risk));
        }
        if *permission > self.permission {
            let granted = self.permission;
            return deny("permission", format!("`{name}` needs {permission}, and the role `{role}` ends at {granted}"));
        }
        None
    }
}

fn refuses_place(caller: &Caller, tool: &ToolDefinition, environment: Option<&str>) -> Option<Decision> {
    let is_outside = |places: &[String], here: Option<&str>| {
        !places.is_empty() && !here.is_some_and(|here| places.iter().any(|place| place == here))
    };
    let deny = |rule, reason| Some(Decision::new(Effect::Deny, rule, reason));
    if is_outside(&tool.tenants, caller.tenant.as_deref()) {
        return deny("tool:tenants", format!("`{}` is not for this tenant", tool.name));
    }
    if is_outside(&tool.environments, environment) {
        return deny("tool:environments", format!("`{}` does not exist in this environment", tool.name));
    }
    None
}

/// The table of what asks, for a call that may happen.
fn asks(role: &str, ask: Ask, tool: &ToolDefinition) -> Decision {
    let ToolDefinition { name, risk, permission, .. } = tool;
    let is_read = *risk == Risk::Read;
    let is_own_write =
        *risk == Risk::Write && tool.source.kind == SourceKind::Builtin && *permission <= Permission::Write;
    let by_role = || format!("role:{role}:ask");
    let (effect, rule) = match ask {
        _ if tool.security.requires_confirmation => (Effect::Ask, "tool:requires_confirmation".to_owned()),
        Ask::Never => (Effect::Allow, by_role()),
        Ask::Always => (Effect::Ask, by_role()),
        Ask::Write if !is_read => (Effect::Ask, by_role()),
        Ask::Default | Ask::Write if is_read => (Effect::Allow, "default:read".to_owned()),
        Ask::Default if is_own_write => (Effect::Allow, "default:workspace".to_owned()),
        Ask::Default | Ask::Write => (Effect::Ask, "default:ask".to_owned()),
    };
    let verb = match effect {
        Effect::Allow => "runs without asking",
        Effect::Ask | Effect::Deny => "asks first",
    };
    let reason = format!("`{name}` has risk {risk} and needs {permission}: for the role `{role}` it {verb}");
    Decision::new(effect, rule, reason)
}

#[cfg(test)]
mod tests;
