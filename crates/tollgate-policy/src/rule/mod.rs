//! The operator's rules, in Cedar: read and checked once, then asked for each call that they can concern.
//!
//! Cedar decides whether one rule applies; how rules, roles and a human's yes come together is decided here and in
//! [`crate::Policy`]. Each rule is asked by itself, because Cedar leaves a rule out that fails, and here a rule that
//! fails denies.

pub(crate) mod analyse;
pub(crate) mod argument;
pub(crate) mod example;
pub(crate) mod index;
pub(crate) mod read;
pub(crate) mod request;
pub(crate) mod schema;
pub(crate) mod size;
pub(crate) mod source;

use std::collections::BTreeMap;

use cedar_policy::{Authorizer, Context, Effect, Entities, PolicySet, Request};
use globset::GlobSet;
use jiff::tz::Offset;
use serde_json::json;

pub(crate) use read::effect_name;

use analyse::Reads;
use argument::{Projected, Projection};
use index::{Index, Who};
use request::{Inquiry, Names};
use source::{ArgumentType, RuleSource};

/// All rules, read and checked.
pub(crate) struct Rules {
    pub(crate) rules: Vec<Rule>,
    /// Whether any of them can depend on what a session has read.
    pub(crate) reads_taint: bool,
    /// Whether any of them can depend on where a value comes from.
    pub(crate) reads_from: bool,
    index: Index,
    sets: Vec<(String, GlobSet)>,
    pub(crate) projections: Vec<Projection>,
    types: BTreeMap<String, ArgumentType>,
    offset: Offset,
    names: Names,
    authorizer: Authorizer,
}

/// One rule.
pub(crate) struct Rule {
    pub(crate) id: String,
    pub(crate) effect: Effect,
    /// What the model is told when it decides.
    pub(crate) reason: Option<String>,
    /// Its own text, without its annotations.
    pub(crate) text: String,
    pub(crate) offset: usize,
    pub(crate) reads: Reads,
    /// The tools that it names.
    pub(crate) tools: Vec<String>,
    /// How many examples it carries.
    pub(crate) examples: usize,
    /// The rule by itself.
    whole: PolicySet,
    /// The same without the conditions that read the context.
    listed: PolicySet,
}

/// Whether a rule applies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Applies {
    Yes,
    No,
    /// It could not be evaluated.
    Fails(String),
}

/// What the rules say together.
#[derive(Clone)]
pub(crate) enum Opinion<'a> {
    /// Nothing.
    None,
    /// A permit applies, and no forbid.
    Grants(&'a Rule),
    /// A forbid applies.
    Forbids(&'a Rule),
    /// One could not be evaluated.
    Fails(&'a Rule, String),
}

/// What the rules say of a call, without a human's yes and with it.
pub(crate) struct Opinions<'a> {
    pub(crate) unapproved: Opinion<'a>,
    pub(crate) approved: Opinion<'a>,
}

impl Rules {
    /// What the rules say of a call.
    pub(crate) fn on_call(&self, inquiry: Inquiry<'_>) -> Opinions<'_> {
        let each = self.each(inquiry);
        let unapproved = Self::opinion(each.iter().map(|(rule, unapproved, _)| (*rule, unapproved)));
        let approved = Self::opinion(each.iter().map(|(rule, _, approved)| (*rule, approved)));
        Opinions { unapproved, approved }
    }

    /// What the rules say of a tool before there is a call: a forbid counts where it does not depend on the call, a
    /// permit where it could apply to some call.
    pub(crate) fn on_listing(&self, inquiry: Inquiry<'_>) -> Opinion<'_> {
        let trial = self.trial(inquiry);
        let applies = |rule: &Rule| match (rule.reads.is_contextual, rule.effect) {
            (false, _) => trial.ask(self, &rule.whole, &trial.unapproved),
            (true, Effect::Forbid) => Applies::No,
            // One that fails here grants no call either.
            (true, Effect::Permit) => match trial.ask(self, &rule.listed, &trial.unapproved) {
                Applies::Fails(_) => Applies::No,
                applies => applies,
            },
        };
        let each: Vec<(&Rule, Applies)> = trial.slice.iter().map(|rule| (*rule, applies(rule))).collect();
        Self::opinion(each.iter().map(|(rule, applies)| (*rule, applies)))
    }

    /// The rules that can concern this, and whether each applies, unapproved and approved.
    pub(crate) fn each(&self, inquiry: Inquiry<'_>) -> Vec<(&Rule, Applies, Applies)> {
        let trial = self.trial(inquiry);
        let both = |rule: &Rule| {
            let unapproved = trial.applies(self, rule, false);
            // Asked again only where a human's yes can matter.
            let approved =
                if rule.reads.part("approved") { trial.applies(self, rule, true) } else { unapproved.clone() };
            (unapproved, approved)
        };
        let each = trial.slice.iter().map(|rule| (*rule, both(rule)));
        each.map(|(rule, (unapproved, approved))| (rule, unapproved, approved)).collect()
    }

    /// What rules say together that apply, or do not.
    fn opinion<'a, 'b>(each: impl Iterator<Item = (&'a Rule, &'b Applies)>) -> Opinion<'a> {
        let (mut grants, mut forbids) = (None, None);
        for (rule, applies) in each {
            match (applies, rule.effect) {
                (Applies::Fails(why), _) => return Opinion::Fails(rule, why.clone()),
                (Applies::No, _) => {}
                (Applies::Yes, Effect::Permit) => grants = grants.or(Some(rule)),
                (Applies::Yes, Effect::Forbid) => forbids = forbids.or(Some(rule)),
            }
        }
        match (forbids, grants) {
            (Some(rule), _) => Opinion::Forbids(rule),
            (None, Some(rule)) => Opinion::Grants(rule),
            (None, None) => Opinion::None,
        }
    }

    fn trial<'a>(&'a self, inquiry: Inquiry<'_>) -> Trial<'a> {
        let tool = inquiry.tool.name.as_str();
        let sets: Vec<&str> =
            self.sets.iter().filter(|(_, globs)| globs.is_match(tool)).map(|(name, _)| name.as_str()).collect();
        let who = Who { user: &inquiry.caller.subject, roles: inquiry.roles, tool, sets: &sets };
        let slice: Vec<&Rule> = self.index.slice(&who).into_iter().filter_map(|n| self.rules.get(n)).collect();
        if slice.is_empty() {
            return Trial::empty();
        }
        let provenance = slice.iter().any(|rule| rule.reads.part("from")).then_some(inquiry.circumstances.provenance);
        let projected = inquiry
            .arguments
            .map(|arguments| argument::project(&self.projections, inquiry.tool, arguments, provenance))
            .unwrap_or_default();
        let request = |is_approved| {
            let context = match inquiry.arguments {
                Some(_) => request::context(inquiry, &projected, self.offset, is_approved)?,
                // What is asked for a listing reads none.
                None => Context::empty(),
            };
            self.names.request(inquiry, context)
        };
        let entities = self.names.entities(inquiry, &sets);
        let unapproved = request(false);
        let approved = slice.iter().any(|rule| rule.reads.part("approved")).then(|| request(true));
        Trial { slice, projected, entities, unapproved, approved }
    }

    /// What the policy's hash is made of, beside the roles and the text.
    pub(crate) fn canonical(source: &RuleSource, types: &BTreeMap<String, ArgumentType>) -> String {
        let RuleSource { text, arguments, sets, utc_offset_minutes, .. } = source;
        let schema = schema::text(types);
        json!({ "arguments": arguments, "offset": utc_offset_minutes, "rules": text, "schema": schema, "sets": sets })
            .to_string()
    }

    /// The types of the declared arguments.
    pub(crate) fn types(&self) -> &BTreeMap<String, ArgumentType> {
        &self.types
    }
}

/// One question, made ready to be put to the rules it can concern.
struct Trial<'a> {
    slice: Vec<&'a Rule>,
    projected: Projected,
    entities: Result<Entities, String>,
    unapproved: Result<Request, String>,
    /// The same with a human's yes, where a rule depends on it.
    approved: Option<Result<Request, String>>,
}

impl Trial<'_> {
    fn empty() -> Self {
        Self {
            slice: Vec::new(),
            projected: Projected::default(),
            entities: Ok(Entities::empty()),
            unapproved: Err(String::new()),
            approved: None,
        }
    }

    fn applies(&self, rules: &Rules, rule: &Rule, is_approved: bool) -> Applies {
        if let Some((name, why)) = self.projected.misfits.iter().find(|(name, _)| rule.reads.argument(name)) {
            return Applies::Fails(format!("`context.args.{name}` has no value: {why}"));
        }
        let approved = self.approved.as_ref().filter(|_| is_approved);
        self.ask(rules, &rule.whole, approved.unwrap_or(&self.unapproved))
    }

    fn ask(&self, rules: &Rules, rule: &PolicySet, request: &Result<Request, String>) -> Applies {
        let (request, entities) = match (request, &self.entities) {
            (Ok(request), Ok(entities)) => (request, entities),
            (Err(why), _) | (_, Err(why)) => return Applies::Fails(why.clone()),
        };
        let response = rules.authorizer.is_authorized(request, rule, entities);
        // INVARIANT: what could not be evaluated never counts as «does not apply».
        if let Some(error) = response.diagnostics().errors().next() {
            let cedar_policy::AuthorizationError::PolicyEvaluationError(error) = error;
            return Applies::Fails(error.inner().to_string());
        }
        // The reasons of an answer are the policies that came to it: none, where a `permit` or a `forbid` does not apply.
        if response.diagnostics().reason().next().is_some() { Applies::Yes } else { Applies::No }
    }
}

#[cfg(test)]
mod tests;
