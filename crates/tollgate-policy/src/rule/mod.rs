//! The operator's rules, in Cedar: read and checked once, then asked for each call that they can concern.
//!
//! Cedar says which rules apply and which fail; how that, roles and a human's yes come together is decided here and in
//! [`crate::Policy`]. Cedar leaves a rule out that fails; here a rule that fails denies.

pub(crate) mod analyse;
pub(crate) mod argument;
mod condition;
pub(crate) mod example;
pub(crate) mod index;
mod nullable;
pub(crate) mod read;
pub(crate) mod request;
pub(crate) mod schema;
pub(crate) mod size;
pub(crate) mod slice;
pub(crate) mod source;
pub(crate) mod trial;

use std::collections::BTreeMap;
use std::sync::Arc;

use cedar_policy::{Authorizer, Effect, Policy};
use globset::GlobSet;
use jiff::tz::Offset;
use serde_json::json;

pub(crate) use read::effect_name;

use analyse::Reads;
use argument::Projection;
use index::{Index, Who};
use request::{Inquiry, Names};
use slice::{Said, Slice, Slices};
use source::{ArgumentType, RuleSource};
use trial::Trial;

/// All rules, read and checked.
pub(crate) struct Rules {
    pub(crate) rules: Vec<Rule>,
    /// Whether any of them can depend on what a session has read.
    pub(crate) reads_taint: bool,
    /// Whether any of them can depend on where a value comes from.
    pub(crate) reads_from: bool,
    index: Index,
    slices: Slices,
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
    /// Whether a human's yes settles it by itself.
    asks: bool,
    /// The tools that it names.
    pub(crate) tools: Vec<String>,
    /// How many examples it carries.
    pub(crate) examples: usize,
    /// The rule, under its number.
    whole: Policy,
    /// Of a permit that reads the context: the same without the conditions that do.
    listed: Option<Policy>,
}

impl Rule {
    /// What a listing asks of it: nothing, where only a call can tell.
    fn as_listed(&self) -> Option<&Policy> {
        if self.reads.is_contextual { self.listed.as_ref() } else { Some(&self.whole) }
    }
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
        let (unapproved, approved) = self.trial(inquiry).map(|trial| trial.on_call(self)).unwrap_or_default();
        Opinions { unapproved: self.opinion(unapproved), approved: self.opinion(approved) }
    }

    /// What the rules say of a tool before there is a call: a forbid counts where it does not depend on the call, a
    /// permit where it could apply to some call.
    pub(crate) fn on_listing(&self, inquiry: Inquiry<'_>) -> Opinion<'_> {
        self.opinion(self.trial(inquiry).map(|trial| trial.on_listing(self)).unwrap_or_default())
    }

    /// The rules that can concern this, and whether each applies, unapproved and approved.
    pub(crate) fn each(&self, inquiry: Inquiry<'_>) -> Vec<(&Rule, Applies, Applies)> {
        let numbers = self.index.slice(&who(inquiry, &self.sets_of(&inquiry.tool.name)));
        let each = numbers.into_iter().filter_map(|number| {
            let (unapproved, approved) = self.one(inquiry, &self.alone(number));
            Some((self.rules.get(number)?, unapproved, approved))
        });
        each.collect()
    }

    /// One rule, to be asked by itself.
    pub(crate) fn alone(&self, number: usize) -> Arc<Slice> {
        Arc::new(Slice::alone(&self.rules, number))
    }

    /// Whether a rule that is alone applies, unapproved and approved.
    pub(crate) fn one(&self, inquiry: Inquiry<'_>, alone: &Arc<Slice>) -> (Applies, Applies) {
        let sets = self.sets_of(&inquiry.tool.name);
        let who = who(inquiry, &sets);
        let concerns = |number: &&usize| self.index.can_concern(**number, &who);
        let Some(rule) = alone.numbers.first().filter(concerns).and_then(|number| self.rules.get(*number)) else {
            return (Applies::No, Applies::No);
        };
        let (unapproved, approved) = Trial::new(self, inquiry, &sets, Arc::clone(alone)).on_call(self);
        (unapproved.of_one(rule.effect), approved.of_one(rule.effect))
    }

    /// Whether a rule that can concern the call reads this part of the context.
    pub(crate) fn reads(&self, inquiry: Inquiry<'_>, part: &str) -> bool {
        let numbers = self.index.slice(&who(inquiry, &self.sets_of(&inquiry.tool.name)));
        numbers.iter().filter_map(|number| self.rules.get(*number)).any(|rule| rule.reads.part(part))
    }

    /// A moment in the zone that rules go by.
    pub(crate) fn clock(&self, now: jiff::Timestamp) -> String {
        now.display_with_offset(self.offset).to_string()
    }

    /// What it comes to: a rule that fails before a forbid, and a forbid before a permit.
    fn opinion(&self, said: Said) -> Opinion<'_> {
        // Without rules nothing was said, and so there is a first one.
        let rule = |number: usize| self.rules.get(number).or(self.rules.first());
        let opinion = match said {
            Said { fails: Some((number, why)), .. } => rule(number).map(|rule| Opinion::Fails(rule, why)),
            Said { forbids: Some(number), .. } => rule(number).map(Opinion::Forbids),
            Said { grants: Some(number), .. } => rule(number).map(Opinion::Grants),
            Said { grants: None, forbids: None, fails: None } => None,
        };
        opinion.unwrap_or(Opinion::None)
    }

    /// The question to the rules that it can concern; none where there are none.
    fn trial(&self, inquiry: Inquiry<'_>) -> Option<Trial> {
        let sets = self.sets_of(&inquiry.tool.name);
        let numbers = self.index.slice(&who(inquiry, &sets));
        (!numbers.is_empty()).then(|| Trial::new(self, inquiry, &sets, self.slices.get(&self.rules, numbers)))
    }

    fn sets_of(&self, tool: &str) -> Vec<&str> {
        let tool = globset::Candidate::new(tool);
        let fits = self.sets.iter().filter(|(_, globs)| globs.is_match_candidate(&tool));
        fits.map(|(name, _)| name.as_str()).collect()
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

/// Who asks for what, as far as the heads of rules name it.
fn who<'a>(inquiry: Inquiry<'a>, sets: &'a [&'a str]) -> Who<'a> {
    Who { user: &inquiry.caller.subject, roles: inquiry.roles, tool: &inquiry.tool.name, sets }
}

#[cfg(test)]
mod tests;
