//! One question, made ready to be put to the rules it can concern: nothing is made ready that none of them reads.

use std::collections::BTreeMap;
use std::sync::Arc;

use cedar_policy::{Context, Entities, PolicySet, Request};

use super::analyse::Reads;
use super::request::{self, Inquiry};
use super::slice::{Ask, Said, Slice};
use super::{Rules, argument};

/// A question and the rules it is put to.
pub(crate) struct Trial {
    slice: Arc<Slice>,
    /// Why there is none, where it can not be put.
    question: Result<Question, String>,
    /// Arguments that are there and are not of their type, and why.
    misfits: BTreeMap<String, String>,
}

struct Question {
    entities: Entities,
    unapproved: Request,
    /// The same with a human's yes, where a rule depends on it.
    approved: Option<Request>,
}

impl Trial {
    pub(crate) fn new(rules: &Rules, inquiry: Inquiry<'_>, sets: &[&str], slice: Arc<Slice>) -> Self {
        let reads = &slice.reads;
        let provenance = reads.part("from").then_some(inquiry.circumstances.provenance);
        let projected = match inquiry.arguments {
            Some(arguments) => argument::project(&rules.projections, inquiry.tool, arguments, reads, provenance),
            None => argument::Projected::default(),
        };
        let request = |is_approved| {
            let context = match inquiry.arguments {
                Some(_) => request::context(inquiry, &projected, reads, rules.offset, is_approved)?,
                // What is asked for a listing reads none.
                None => Context::empty(),
            };
            rules.names.request(inquiry, context)
        };
        let question = || {
            if !slice.is_whole {
                return Err("its rules could not be put together".to_owned());
            }
            let approved = reads.part("approved") && inquiry.arguments.is_some();
            Ok(Question {
                entities: rules.names.entities(inquiry, reads, sets)?,
                unapproved: request(false)?,
                approved: approved.then(|| request(true)).transpose()?,
            })
        };
        Self { question: question(), misfits: projected.misfits, slice }
    }

    /// What the rules say of a call, without a human's yes and with it.
    pub(crate) fn on_call(&self, rules: &Rules) -> (Said, Said) {
        let (unapproved, approved) =
            self.put(rules, |ask, question| self.slice.on_call(&ask, &question.unapproved, question.approved.as_ref()));
        match self.misfit(rules) {
            Some(misfit) => (misfit.clone().and(unapproved), misfit.and(approved)),
            None => (unapproved, approved),
        }
    }

    /// What they say of a tool before there is a call.
    pub(crate) fn on_listing(&self, rules: &Rules) -> Said {
        let on_listing = |ask: Ask<'_>, question: &Question| {
            let said = self.slice.on_listing(&ask, &question.unapproved, &rules.rules);
            (said.clone(), said)
        };
        self.put(rules, on_listing).0
    }

    /// What other policies that read no more than these say of the call, without a human's yes and with it.
    pub(crate) fn say(&self, rules: &Rules, policies: &PolicySet) -> (Said, Said) {
        self.put(rules, |ask, question| {
            let approved = question.approved.as_ref().unwrap_or(&question.unapproved);
            (ask.all(policies, &question.unapproved), ask.all(policies, approved))
        })
    }

    /// Puts the question. One that can not be put is one that no rule could evaluate.
    fn put(&self, rules: &Rules, to: impl FnOnce(Ask<'_>, &Question) -> (Said, Said)) -> (Said, Said) {
        match &self.question {
            Ok(question) => to(Ask { authorizer: &rules.authorizer, entities: &question.entities }, question),
            Err(why) => {
                let first = self.slice.numbers.first();
                let said = Said { fails: first.map(|number| (*number, why.clone())), ..Said::default() };
                (said.clone(), said)
            }
        }
    }

    /// The first rule that reads an argument which has no value for rules.
    fn misfit(&self, rules: &Rules) -> Option<Said> {
        if self.misfits.is_empty() {
            return None;
        }
        let failing = self
            .slice
            .numbers
            .iter()
            .find_map(|number| Some((*number, self.misfit_of(&rules.rules.get(*number)?.reads)?)));
        failing.map(|fails| Said { fails: Some(fails), ..Said::default() })
    }

    /// Why what reads this fails, if it reads an argument which has no value for rules.
    pub(crate) fn misfit_of(&self, reads: &Reads) -> Option<String> {
        let (name, why) = self.misfits.iter().find(|(name, _)| reads.argument(name))?;
        Some(format!("`context.args.{name}` has no value: {why}"))
    }
}
