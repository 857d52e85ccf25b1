//! A question to the policy, in Cedar's words: who asks for which tool, and under which circumstances.

use std::collections::{HashMap, HashSet};

use cedar_policy::{Context, Entities, Entity, EntityId, EntityTypeName, EntityUid, Request, RestrictedExpression};
use jiff::Timestamp;
use jiff::tz::Offset;
use serde_json::Value;
use tollgate_types::{Caller, Permission, Risk, ToolDefinition};

use super::analyse::{Attributes, Reads};
use super::argument::{Projected, moment_in_cedar};
use crate::provenance::Provenance;

/// What is so when a call is asked for, beside the call itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Circumstances<'a> {
    /// The environment that this process serves, such as `production`.
    pub environment: Option<&'a str>,
    /// The time.
    pub now: Timestamp,
    /// Whether the session has read content from outside.
    pub is_tainted: bool,
    /// Where the values of the arguments come from.
    pub provenance: Provenance<'a>,
}

/// One question.
#[derive(Clone, Copy)]
pub(crate) struct Inquiry<'a> {
    pub(crate) caller: &'a Caller,
    /// The caller's role and those it inherits from.
    pub(crate) roles: &'a [String],
    pub(crate) tool: &'a ToolDefinition,
    /// None asks whether the tool may be listed.
    pub(crate) arguments: Option<&'a Value>,
    pub(crate) circumstances: &'a Circumstances<'a>,
}

/// The names of the schema, parsed once.
pub(crate) struct Names {
    user: EntityTypeName,
    role: EntityTypeName,
    tool: EntityTypeName,
    set: EntityTypeName,
    action: EntityUid,
}

impl Names {
    pub(crate) fn new() -> Option<Self> {
        let name = |text: &str| text.parse::<EntityTypeName>().ok();
        Some(Self {
            user: name("Tollgate::User")?,
            role: name("Tollgate::Role")?,
            tool: name("Tollgate::Tool")?,
            set: name("Tollgate::ToolSet")?,
            action: EntityUid::from_type_name_and_id(name("Tollgate::Action")?, EntityId::new("use")),
        })
    }

    fn uid(kind: &EntityTypeName, id: &str) -> EntityUid {
        EntityUid::from_type_name_and_id(kind.clone(), EntityId::new(id))
    }

    /// The caller with its roles, and the tool with its sets: what of them is read.
    pub(crate) fn entities(&self, inquiry: Inquiry<'_>, reads: &Reads, sets: &[&str]) -> Result<Entities, String> {
        let Inquiry { caller, tool, .. } = inquiry;
        let roles: HashSet<EntityUid> = inquiry.roles.iter().map(|role| Self::uid(&self.role, role)).collect();
        let sets: HashSet<EntityUid> = sets.iter().map(|set| Self::uid(&self.set, set)).collect();
        let user = Entity::new(Self::uid(&self.user, &caller.subject), user(caller, &reads.user), roles);
        let tool = Entity::new(Self::uid(&self.tool, &tool.name), attributes(tool, &reads.tool), sets);
        let entities = [user.map_err(|error| error.to_string())?, tool.map_err(|error| error.to_string())?];
        Entities::from_entities(entities, None).map_err(|error| error.to_string())
    }

    pub(crate) fn request(&self, inquiry: Inquiry<'_>, context: Context) -> Result<Request, String> {
        let principal = Self::uid(&self.user, &inquiry.caller.subject);
        let resource = Self::uid(&self.tool, &inquiry.tool.name);
        Request::new(principal, self.action.clone(), resource, context, None).map_err(|error| error.to_string())
    }
}

fn text(value: &str) -> RestrictedExpression {
    RestrictedExpression::new_string(value.to_owned())
}

fn user(caller: &Caller, read: &Attributes) -> HashMap<String, RestrictedExpression> {
    let known = [("subject", caller.subject.as_str()), ("role", &caller.role), ("surface", caller.surface.as_str())];
    let tenant = caller.tenant.as_deref().map(|tenant| ("tenant", tenant));
    let known = known.into_iter().chain(tenant).filter(|(name, _)| read.has(name));
    known.map(|(name, value)| (name.to_owned(), text(value))).collect()
}

fn attributes(tool: &ToolDefinition, read: &Attributes) -> HashMap<String, RestrictedExpression> {
    let ToolDefinition { source, annotations, risk, permission, .. } = tool;
    let texts = [
        ("name", Some(tool.name.as_str())),
        ("source", Some(source.kind.as_str())),
        ("server", source.server.as_deref()),
        ("domain", source.domain.as_deref()),
        ("category", Some(tool.category.as_str())),
        ("risk", Some(risk.as_str())),
        ("permission", Some(permission.as_str())),
    ];
    let bools = [
        ("read_only", annotations.read_only),
        ("destructive", annotations.destructive),
        ("idempotent", annotations.idempotent),
        ("open_world", annotations.open_world),
    ];
    let levels = [("risk_level", risk_level(*risk)), ("permission_level", permission_level(*permission))];
    let texts = texts.into_iter().filter_map(|(name, value)| Some((name, Fact::Text(value?))));
    let bools = bools.into_iter().filter_map(|(name, value)| Some((name, Fact::Bool(value?))));
    let levels = levels.into_iter().map(|(name, value)| (name, Fact::Long(value)));
    let facts = texts.chain(bools).chain(levels).chain([("tags", Fact::Texts(&tool.tags))]);
    facts.filter(|(name, _)| read.has(name)).map(|(name, fact)| (name.to_owned(), fact.in_cedar())).collect()
}

/// An attribute of a tool, before Cedar has a copy of it.
enum Fact<'a> {
    Text(&'a str),
    Bool(bool),
    Long(i64),
    Texts(&'a [String]),
}

impl Fact<'_> {
    fn in_cedar(self) -> RestrictedExpression {
        match self {
            Self::Text(value) => text(value),
            Self::Bool(value) => RestrictedExpression::new_bool(value),
            Self::Long(value) => RestrictedExpression::new_long(value),
            Self::Texts(values) => RestrictedExpression::new_set(values.iter().map(|value| text(value))),
        }
    }
}

/// A risk as a number, so that rules can compare: read 1, write 2, dangerous 3.
pub(crate) fn risk_level(risk: Risk) -> i64 {
    match risk {
        Risk::Read => 1,
        Risk::Write => 2,
        Risk::Dangerous => 3,
    }
}

/// A permission as a number: read 1, write 2, execute 3, network 4, system 5.
pub(crate) fn permission_level(permission: Permission) -> i64 {
    match permission {
        Permission::Read => 1,
        Permission::Write => 2,
        Permission::Execute => 3,
        Permission::Network => 4,
        Permission::System => 5,
    }
}

/// The context of a call, approved or not: what of it is read.
pub(crate) fn context(
    inquiry: Inquiry<'_>,
    projected: &Projected,
    reads: &Reads,
    offset: Offset,
    is_approved: bool,
) -> Result<Context, String> {
    let Circumstances { environment, now, is_tainted, .. } = *inquiry.circumstances;
    let mut pairs = Vec::new();
    let mut add = |name: &str, value: RestrictedExpression| pairs.push((name.to_owned(), value));
    let record = |values: &[(String, RestrictedExpression)]| {
        RestrictedExpression::new_record(values.iter().cloned()).map_err(|error| error.to_string())
    };
    if reads.has_whole || !reads.arguments.is_empty() {
        add("args", record(&projected.values)?);
        add("from", record(&projected.origins)?);
    }
    if reads.part("approved") {
        add("approved", RestrictedExpression::new_bool(is_approved));
    }
    if reads.part("tainted") {
        add("tainted", RestrictedExpression::new_bool(is_tainted));
    }
    // Cedar reads a moment from its text, which costs as much as all the rest.
    if reads.part("now") {
        add("now", moment_in_cedar(now).ok_or("the time is out of range")?);
    }
    if reads.part("hour") || reads.part("weekday") {
        let here = offset.to_datetime(now);
        add("hour", RestrictedExpression::new_long(here.hour().into()));
        add("weekday", RestrictedExpression::new_long(here.weekday().to_monday_one_offset().into()));
    }
    for (name, value) in [("tenant", inquiry.caller.tenant.as_deref()), ("environment", environment)] {
        if let Some(value) = value {
            add(name, text(value));
        }
    }
    Context::from_pairs(pairs).map_err(|error| error.to_string())
}
