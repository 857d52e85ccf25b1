//! What would change an answer: the same call is decided again with one thing other than it is.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use serde_json::Value;
use tollgate_types::{Caller, ToolDefinition};

use crate::rule::analyse::Reads;
use crate::rule::argument::of_tool;
use crate::rule::request::Inquiry;
use crate::rule::source::ArgumentType;
use crate::{Circumstances, Effect, Origin, Policy, Provenance};

/// Values that are tried for one thing.
const TRIED_MAX: usize = 32;
/// Values of one thing that are told.
const TOLD_MAX: usize = 3;
/// An environment that nobody has.
const ELSEWHERE: &str = "\u{0}";
/// How far the clock is turned on, and in which steps.
const STEP: SignedDuration = SignedDuration::from_mins(30);
const STEPS: i32 = 8 * 24 * 2;

/// A call, and what becomes of it as it is.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) policy: &'a Policy,
    pub(super) caller: &'a Caller,
    pub(super) tool: &'a ToolDefinition,
    pub(super) arguments: &'a Value,
    pub(super) circumstances: &'a Circumstances<'a>,
    pub(super) effect: Effect,
}

impl Asked<'_> {
    /// What would make the answer milder, one thing at a time.
    pub(super) fn changes(self) -> Vec<String> {
        let mut changes = Vec::new();
        if self.effect == Effect::Allow {
            return changes;
        }
        if self.effect == Effect::Ask {
            changes.push("a human's yes: then it runs".to_owned());
        }
        changes.extend(self.roles());
        changes.extend(self.numbers());
        changes.extend(self.texts());
        changes.extend(self.origins());
        changes.extend(self.taint());
        changes.extend(self.tenants());
        changes.extend(self.environments());
        changes.extend(self.time());
        changes
    }

    /// What becomes of it otherwise, if that is milder.
    fn milder(self, other: Self) -> Option<Effect> {
        let Self { policy, caller, tool, arguments, circumstances, .. } = other;
        let effect = policy.decide(caller, tool, Some(arguments), circumstances).effect;
        (effect < self.effect).then_some(effect)
    }

    fn inquiry<'a>(&'a self, roles: &'a [String]) -> Inquiry<'a> {
        let Self { caller, tool, arguments, circumstances, .. } = self;
        Inquiry { caller, roles, tool, arguments: Some(arguments), circumstances }
    }

    /// The texts that rules about this call compare something with, where they read what is `wanted`.
    fn compared(&self, wanted: impl Fn(&Reads) -> bool) -> Vec<String> {
        let (Some(rules), Some(grant)) = (&self.policy.rules, self.policy.grant(&self.caller.role)) else {
            return Vec::new();
        };
        let texts = rules.texts(self.inquiry(&grant.roles), wanted);
        texts.into_iter().take(TRIED_MAX).collect()
    }

    fn roles(self) -> Vec<String> {
        let milder = |role: &str| {
            let caller = Caller { role: role.to_owned(), ..self.caller.clone() };
            let effect = self.milder(Asked { caller: &caller, ..self })?;
            Some(format!("the role `{role}`: {}", effect.as_str()))
        };
        self.policy.role_names().into_iter().filter_map(milder).collect()
    }

    fn taint(self) -> Option<String> {
        let clean = Circumstances { is_tainted: false, ..*self.circumstances };
        let effect = self.milder(Asked { circumstances: &clean, ..self })?;
        Some(format!("a session that has read nothing from outside: {}", effect.as_str()))
    }

    fn tenants(self) -> Vec<String> {
        let mut tenants: BTreeSet<String> = self.tool.tenants.iter().cloned().collect();
        tenants.extend(self.tool.source.domain.clone());
        tenants.extend(self.compared(|reads| reads.part("tenant") || reads.user.has("tenant")));
        let milder = |tenant: &String| {
            let caller = Caller { tenant: Some(tenant.clone()), ..self.caller.clone() };
            let effect = self.milder(Asked { caller: &caller, ..self })?;
            Some(format!("the tenant `{tenant}`: {}", effect.as_str()))
        };
        tenants.iter().take(TRIED_MAX).filter_map(milder).take(TOLD_MAX).collect()
    }

    fn environments(self) -> Vec<String> {
        let mut environments: BTreeSet<String> = self.tool.environments.iter().cloned().collect();
        environments.extend(self.compared(|reads| reads.part("environment")));
        let milder = |environment: &String| {
            let there = Circumstances { environment: Some(environment), ..*self.circumstances };
            let effect = self.milder(Asked { circumstances: &there, ..self })?;
            Some(format!("the environment `{environment}`: {}", effect.as_str()))
        };
        let mut changes: Vec<String> = environments.iter().take(TRIED_MAX).filter_map(milder).take(TOLD_MAX).collect();
        let elsewhere = Circumstances { environment: Some(ELSEWHERE), ..*self.circumstances };
        if let Some(effect) = self.milder(Asked { circumstances: &elsewhere, ..self }) {
            changes.push(format!("an environment that no rule names: {}", effect.as_str()));
        }
        changes
    }

    /// The first time from now on at which the answer is milder.
    fn time(self) -> Option<String> {
        let rules = self.policy.rules.as_ref()?;
        let roles = &self.policy.grant(&self.caller.role)?.roles;
        let is_timed = ["now", "hour", "weekday"].iter().any(|part| rules.reads(self.inquiry(roles), part));
        let mut times = (1..=STEPS).filter(|_| is_timed).filter_map(|step| {
            let now = self.circumstances.now.checked_add(STEP.checked_mul(step)?).ok()?;
            let then = Circumstances { now, ..*self.circumstances };
            let effect = self.milder(Asked { circumstances: &then, ..self })?;
            Some(format!("at {}: {}", rules.clock(now), effect.as_str()))
        });
        times.next()
    }

    /// What becomes of it where the user wrote a value: each by itself, or else all of them.
    fn origins(self) -> Vec<String> {
        let names = self.policy.arguments(self.tool);
        let now: BTreeMap<String, BTreeSet<Origin>> = names
            .iter()
            .filter_map(|(name, pointer)| {
                let value = self.arguments.pointer(pointer)?;
                Some(((*name).to_owned(), self.circumstances.provenance.of(name, value)))
            })
            .collect();
        let with = |written: &[&str]| {
            let mut from = now.clone();
            for (name, origins) in &mut from {
                if written.contains(&name.as_str()) {
                    *origins = BTreeSet::from([Origin::User]);
                }
            }
            let there = Circumstances { provenance: Provenance::Given(&from), ..*self.circumstances };
            self.milder(Asked { circumstances: &there, ..self })
        };
        let all: Vec<&str> = now.keys().map(String::as_str).collect();
        let one = |name: &&str| Some(format!("`{name}` as the user wrote it: {}", with(&[name])?.as_str()));
        let each: Vec<String> = all.iter().filter_map(one).collect();
        match with(&all) {
            Some(effect) if each.is_empty() => {
                let names: Vec<String> = all.iter().map(|name| format!("`{name}`")).collect();
                vec![format!("{} as the user wrote them: {}", names.join(" and "), effect.as_str())]
            }
            Some(_) | None => each,
        }
    }

    /// For each text that a rule may read: those that a rule names, for which the answer is milder.
    fn texts(self) -> Vec<String> {
        let (Some(rules), Some(grant)) = (&self.policy.rules, self.policy.grant(&self.caller.role)) else {
            return Vec::new();
        };
        let mut changes = Vec::new();
        for (name, projection) in of_tool(&rules.projections, &self.tool.name) {
            if projection.kind != ArgumentType::String || self.arguments.pointer(&projection.pointer).is_none() {
                continue;
            }
            let named = rules.texts(self.inquiry(&grant.roles), |reads| reads.argument(name));
            let milder = |text: &String| {
                let changed = replaced(self.arguments, &projection.pointer, text.as_str().into());
                let effect = self.milder(Asked { arguments: &changed, ..self })?;
                Some(format!("`{name}` of `{text}`: {}", effect.as_str()))
            };
            changes.extend(named.iter().take(TRIED_MAX).filter_map(milder).take(TOLD_MAX));
        }
        changes
    }

    /// For each number that a rule may read: the largest smaller one for which the answer is milder.
    fn numbers(self) -> Vec<String> {
        let Some(rules) = &self.policy.rules else { return Vec::new() };
        let mut changes = Vec::new();
        for (name, projection) in of_tool(&rules.projections, &self.tool.name) {
            let is_number = matches!(projection.kind, ArgumentType::Long | ArgumentType::Decimal);
            let value = self.arguments.pointer(&projection.pointer).and_then(Value::as_f64).filter(|_| is_number);
            // Beyond this a float skips whole numbers.
            let Some(value) = value.filter(|value| (1.0..=9e15).contains(value)) else { continue };
            let with = |number: i64| {
                let changed = replaced(self.arguments, &projection.pointer, number.into());
                self.milder(Asked { arguments: &changed, ..self })
            };
            let (mut good, mut bad) = (0_i64, format!("{:.0}", value.ceil()).parse::<i64>().unwrap_or(i64::MAX));
            let Some(mut effect) = with(good) else { continue };
            while bad - good > 1 {
                let middle = good + (bad - good) / 2;
                match with(middle) {
                    Some(milder) => (good, effect) = (middle, milder),
                    None => bad = middle,
                }
            }
            changes.push(format!("`{name}` of at most {good}: {}", effect.as_str()));
        }
        changes
    }
}

fn replaced(arguments: &Value, pointer: &str, value: Value) -> Value {
    let mut changed = arguments.clone();
    if let Some(place) = changed.pointer_mut(pointer) {
        *place = value;
    }
    changed
}
