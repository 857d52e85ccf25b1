//! Which rules can concern a call, by what their heads name, so that a thousand rules about other tools and roles cost
//! nothing.

use std::collections::BTreeMap;

use cedar_policy::{EntityUid, Policy, PrincipalConstraint, ResourceConstraint};

/// What the head of a rule names. What it does not name may be anything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Head {
    user: Option<String>,
    role: Option<String>,
    tool: Option<String>,
    set: Option<String>,
}

impl Head {
    pub(crate) fn of(policy: &Policy) -> Self {
        let mut head = Self::default();
        match policy.principal_constraint() {
            PrincipalConstraint::Eq(uid) | PrincipalConstraint::In(uid) | PrincipalConstraint::IsIn(_, uid) => {
                match type_of(&uid).as_str() {
                    "Tollgate::User" => head.user = Some(id_of(&uid)),
                    "Tollgate::Role" => head.role = Some(id_of(&uid)),
                    _ => {}
                }
            }
            PrincipalConstraint::Any | PrincipalConstraint::Is(_) => {}
        }
        match policy.resource_constraint() {
            ResourceConstraint::Eq(uid) | ResourceConstraint::In(uid) | ResourceConstraint::IsIn(_, uid) => {
                match type_of(&uid).as_str() {
                    "Tollgate::Tool" => head.tool = Some(id_of(&uid)),
                    "Tollgate::ToolSet" => head.set = Some(id_of(&uid)),
                    _ => {}
                }
            }
            ResourceConstraint::Any | ResourceConstraint::Is(_) => {}
        }
        head
    }

    fn fits(&self, who: &Who<'_>) -> bool {
        let is = |named: &Option<String>, one: &str| named.as_deref().is_none_or(|named| named == one);
        is(&self.user, who.user)
            && is(&self.tool, who.tool)
            && self.role.as_ref().is_none_or(|role| who.roles.contains(role))
            && self.set.as_deref().is_none_or(|set| who.sets.contains(&set))
    }
}

pub(crate) fn type_of(uid: &EntityUid) -> String {
    uid.type_name().to_string()
}

pub(crate) fn id_of(uid: &EntityUid) -> String {
    uid.id().unescaped().to_owned()
}

/// Who asks for what, as far as heads name it.
pub(crate) struct Who<'a> {
    pub(crate) user: &'a str,
    /// The role and those it inherits from.
    pub(crate) roles: &'a [String],
    pub(crate) tool: &'a str,
    pub(crate) sets: &'a [&'a str],
}

/// Rules by the narrowest thing that their heads name.
#[derive(Default)]
pub(crate) struct Index {
    heads: Vec<Head>,
    by_tool: BTreeMap<String, Vec<usize>>,
    by_user: BTreeMap<String, Vec<usize>>,
    by_set: BTreeMap<String, Vec<usize>>,
    by_role: BTreeMap<String, Vec<usize>>,
    general: Vec<usize>,
}

impl Index {
    /// Adds the rule with the next number.
    pub(crate) fn add(&mut self, head: Head) {
        let bucket = match &head {
            Head { tool: Some(tool), .. } => self.by_tool.entry(tool.clone()).or_default(),
            Head { user: Some(user), .. } => self.by_user.entry(user.clone()).or_default(),
            Head { set: Some(set), .. } => self.by_set.entry(set.clone()).or_default(),
            Head { role: Some(role), .. } => self.by_role.entry(role.clone()).or_default(),
            Head { user: None, role: None, tool: None, set: None } => &mut self.general,
        };
        bucket.push(self.heads.len());
        self.heads.push(head);
    }

    /// Whether a rule can concern this.
    pub(crate) fn can_concern(&self, number: usize, who: &Who<'_>) -> bool {
        self.heads.get(number).is_some_and(|head| head.fits(who))
    }

    /// The numbers of the rules that can concern this, in order.
    pub(crate) fn slice(&self, who: &Who<'_>) -> Vec<usize> {
        let sets = who.sets.iter().filter_map(|set| self.by_set.get(*set));
        let roles = who.roles.iter().filter_map(|role| self.by_role.get(role));
        let named = [self.by_tool.get(who.tool), self.by_user.get(who.user), Some(&self.general)];
        let mut numbers: Vec<usize> = named
            .into_iter()
            .flatten()
            .chain(sets)
            .chain(roles)
            .flatten()
            .copied()
            .filter(|number| self.can_concern(*number, who))
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }
}
