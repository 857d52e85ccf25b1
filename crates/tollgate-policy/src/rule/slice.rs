//! The rules that can concern one kind of call, as Cedar is asked for them: together, so that what a call costs is its
//! own rules and nothing else. Put together once for all calls that meet the same rules.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use cedar_policy::{Authorizer, Decision, Effect, Entities, PolicySet, Request};

use super::analyse::Reads;
use super::{Applies, Rule};

/// What all slices that are kept may hold of rules. One that is larger is kept alone.
const KEPT_RULES_MAX: usize = 4_096;

/// Rules that can concern one kind of call.
pub(crate) struct Slice {
    /// Their numbers, in order.
    pub(crate) numbers: Vec<usize>,
    /// What they read together.
    pub(crate) reads: Reads,
    /// Those to which a human's yes says nothing.
    settled: PolicySet,
    /// Forbids that a yes lifts: asked without one, and with it they do not apply.
    lifted: PolicySet,
    /// Permits that a yes makes: asked with one, and without it they do not apply.
    made: PolicySet,
    /// Those to which a yes says something else: asked without it and with it.
    both: PolicySet,
    /// Those that a listing asks: of a permit that reads the context, the rest.
    listed: PolicySet,
    /// Whether Cedar took all of them. Otherwise nothing may be decided by the rest.
    pub(crate) is_whole: bool,
}

/// What some rules say together: of each kind the number of the first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) grants: Option<usize>,
    pub(crate) forbids: Option<usize>,
    pub(crate) fails: Option<(usize, String)>,
}

impl Slice {
    /// The slice of these rules.
    pub(crate) fn new(rules: &[Rule], numbers: Vec<usize>) -> Self {
        let mut slice = Self::empty(numbers);
        for number in slice.numbers.clone() {
            if let Some(rule) = rules.get(number) {
                slice.add(rule, rule.asks);
            }
        }
        slice
    }

    /// The slice of one rule, which is asked without a human's yes and with it, whatever it says of one.
    pub(crate) fn alone(rules: &[Rule], number: usize) -> Self {
        let mut slice = Self::empty(vec![number]);
        if let Some(rule) = rules.get(number) {
            slice.add(rule, false);
        }
        slice
    }

    fn empty(numbers: Vec<usize>) -> Self {
        Self {
            numbers,
            reads: Reads::default(),
            settled: PolicySet::new(),
            lifted: PolicySet::new(),
            made: PolicySet::new(),
            both: PolicySet::new(),
            listed: PolicySet::new(),
            is_whole: true,
        }
    }

    fn add(&mut self, rule: &Rule, asks: bool) {
        self.reads.add(&rule.reads);
        let part = match (rule.reads.part("approved"), asks, rule.effect) {
            (false, ..) => &mut self.settled,
            (true, true, Effect::Forbid) => &mut self.lifted,
            (true, true, Effect::Permit) => &mut self.made,
            (true, false, _) => &mut self.both,
        };
        self.is_whole &= part.add(rule.whole.clone()).is_ok();
        if let Some(listed) = rule.as_listed() {
            self.is_whole &= self.listed.add(listed.clone()).is_ok();
        }
    }

    /// What the rules say of a call, without a human's yes and with it. `approved` is the request with it.
    pub(crate) fn on_call(&self, ask: &Ask<'_>, unapproved: &Request, approved: Option<&Request>) -> (Said, Said) {
        let settled = ask.all(&self.settled, unapproved);
        // Without one no rule depends on a yes.
        let Some(approved) = approved else { return (settled.clone(), settled) };
        // INVARIANT: a rule that fails in either case denies, so that each is asked wherever it could.
        let with = |own: &PolicySet, request| ask.all(own, request).and(ask.all(&self.both, request));
        (settled.clone().and(with(&self.lifted, unapproved)), settled.and(with(&self.made, approved)))
    }

    /// What the rules say of a tool before there is a call. A permit that reads the context and fails without it grants
    /// no call either.
    pub(crate) fn on_listing(&self, ask: &Ask<'_>, request: &Request, rules: &[Rule]) -> Said {
        let is_whole = |number: usize| rules.get(number).is_some_and(|rule| !rule.reads.is_contextual);
        ask.those(&self.listed, request, is_whole)
    }
}

/// The one who asks Cedar, and what there is.
pub(crate) struct Ask<'a> {
    pub(crate) authorizer: &'a Authorizer,
    pub(crate) entities: &'a Entities,
}

impl Ask<'_> {
    /// What a set of rules says.
    pub(crate) fn all(&self, policies: &PolicySet, request: &Request) -> Said {
        self.those(policies, request, |_| true)
    }

    /// The same; of the rules that fail only those that count.
    fn those(&self, policies: &PolicySet, request: &Request, counts: impl Fn(usize) -> bool) -> Said {
        let mut said = Said::default();
        if policies.is_empty() {
            return said;
        }
        let response = self.authorizer.is_authorized(request, policies, self.entities);
        // INVARIANT: what could not be evaluated never counts as «does not apply».
        for error in response.diagnostics().errors() {
            let cedar_policy::AuthorizationError::PolicyEvaluationError(error) = error;
            let number = number(error.policy_id().as_ref());
            if counts(number) && said.fails.as_ref().is_none_or(|(first, _)| number < *first) {
                said.fails = Some((number, error.inner().to_string()));
            }
        }
        // The reasons of an answer are the rules that came to it: every `forbid` that applies, else every `permit`.
        let first = response.diagnostics().reason().map(|id| number(id.as_ref())).min();
        match response.decision() {
            Decision::Allow => said.grants = first,
            Decision::Deny => said.forbids = first,
        }
        said
    }
}

/// A rule's number, by which Cedar knows it.
fn number(id: &str) -> usize {
    // Ids are made from numbers; a last one beyond all of them would find no rule, and deny.
    id.parse().unwrap_or(usize::MAX)
}

impl Said {
    /// What two sets of rules say together.
    pub(crate) fn and(self, other: Self) -> Self {
        let first = |one: Option<usize>, other: Option<usize>| one.into_iter().chain(other).min();
        Self {
            grants: first(self.grants, other.grants),
            forbids: first(self.forbids, other.forbids),
            fails: self.fails.into_iter().chain(other.fails).min_by_key(|(number, _)| *number),
        }
    }

    /// What one rule said by itself.
    pub(crate) fn of_one(&self, effect: Effect) -> Applies {
        match (&self.fails, effect) {
            (Some((_, why)), _) => Applies::Fails(why.clone()),
            (None, Effect::Permit) if self.grants.is_some() => Applies::Yes,
            (None, Effect::Forbid) if self.forbids.is_some() => Applies::Yes,
            (None, Effect::Permit | Effect::Forbid) => Applies::No,
        }
    }
}

/// The slices that were put together, by the numbers of their rules.
#[derive(Default)]
pub(crate) struct Slices(RwLock<BTreeMap<Vec<usize>, Arc<Slice>>>);

impl Slices {
    /// The slice of these rules.
    pub(crate) fn get(&self, rules: &[Rule], numbers: Vec<usize>) -> Arc<Slice> {
        if let Some(made) = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&numbers) {
            return Arc::clone(made);
        }
        let slice = Arc::new(Slice::new(rules, numbers));
        let mut made = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let kept: usize = made.keys().map(|numbers| numbers.len() + 1).sum();
        if kept + slice.numbers.len() >= KEPT_RULES_MAX {
            made.clear();
        }
        made.insert(slice.numbers.clone(), Arc::clone(&slice));
        slice
    }
}
