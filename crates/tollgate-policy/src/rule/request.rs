//! A question to the policy, in Cedar's words: who asks for which tool, and under which circumstances.

use std::collections::{HashMap, HashSet};

use cedar_policy::{Context, Entities, Entity, EntityId, EntityTypeName, EntityUid, Request, RestrictedExpression};
use jiff::Timestamp;
use jiff::tz::Offset;
use serde_json::Value;
use tollgate_types::{Caller, Permission, Risk, ToolDefinition};

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

    /// The caller with its roles, and the tool with its sets.
    pub(crate) fn entities(&self, inquiry: Inquiry<'_>, sets: &[&str]) -> Result<Entities, String> {
        let Inquiry { caller, tool, .. } = inquiry;
        let roles: HashSet<EntityUid> = inquiry.roles.iter().map(|role| Self::uid(&self.role, role)).collect();
        let sets: HashSet<EntityUid> = sets.iter().map(|set| Self::uid(&self.set, set)).collect();
        let user = Entity::new(Self::uid(&self.user, &caller.subject), user(caller), roles);
        let tool = Entity::new(Self::uid(&self.tool, &tool.name), attributes(tool), sets);
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

fn user(caller: &Caller) -> HashMap<String, RestrictedExpression> {
    let known = [("subject", caller.subject.as_str()), ("role", &caller.role), ("surface", caller.surface.as_str())];
    let tenant = caller.tenant.as_deref().map(|tenant| ("tenant", tenant));
    known.into_iter().chain(tenant).map(|(name, value)| (name.to_owned(), text(value))).collect()
}

fn attributes(tool: &ToolDefinition) -> HashMap<String, RestrictedExpression> {
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
    let tags = RestrictedExpression::new_set(tool.tags.iter().map(|tag| text(tag)));
    let texts = texts.into_iter().filter_map(|(name, value)| Some((name, text(value?))));
    let bools = bools.into_iter().filter_map(|(name, value)| Some((name, RestrictedExpression::new_bool(value?))));
    let levels = levels.into_iter().map(|(name, value)| (name, RestrictedExpression::new_long(value)));
    texts.chain(bools).chain(levels).chain([("tags", tags)]).map(|(name, value)| (name.to_owned(), value)).collect()
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

/// The context of a call, approved or not.
pub(crate) fn context(
    inquiry: Inquiry<'_>,
    projected: &Projected,
    offset: Offset,
    is_approved: bool,
) -> Result<Context, String> {
    let Circumstances { environment, now, is_tainted, .. } = *inquiry.circumstances;
    let here = offset.to_datetime(now);
    let args = RestrictedExpression::new_record(projected.values.iter().cloned()).map_err(|error| error.to_string())?;
    let from =
        RestrictedExpression::new_record(projected.origins.iter().cloned()).map_err(|error| error.to_string())?;
    let moment = moment_in_cedar(now).ok_or("the time is out of range")?;
    let known = [
        ("args", args),
        ("from", from),
        ("approved", RestrictedExpression::new_bool(is_approved)),
        ("tainted", RestrictedExpression::new_bool(is_tainted)),
        ("now", moment),
        ("hour", RestrictedExpression::new_long(here.hour().into())),
        ("weekday", RestrictedExpression::new_long(here.weekday().to_monday_one_offset().into())),
    ];
    let maybe = [("tenant", inquiry.caller.tenant.as_deref()), ("environment", environment)];
    let maybe = maybe.into_iter().filter_map(|(name, value)| Some((name, text(value?))));
    let pairs = known.into_iter().chain(maybe).map(|(name, value)| (name.to_owned(), value));
    Context::from_pairs(pairs).map_err(|error| error.to_string())
}
