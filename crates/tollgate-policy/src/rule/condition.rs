//! The conditions of a rule one by one, for an explanation: what each says of a call, and which texts it compares with.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use cedar_policy::{Effect, Policy, PolicySet};
use regex::{Captures, Regex};
use serde_json::{Value, json};

use super::analyse::{Reads, all_parts};
use super::request::Inquiry;
use super::slice::Said;
use super::{Applies, Rule, Rules};

/// One condition of a rule: what stands between `when` or `unless` and the joints `&&` or `||`.
pub(crate) struct Condition {
    /// `when` or `unless`.
    pub(crate) kind: &'static str,
    pub(crate) text: String,
    /// Whether it holds without a human's yes and with it; none where an earlier one has settled it.
    pub(crate) holds: [Option<Applies>; 2],
}

impl Rules {
    /// The conditions of a rule that can concern the call, as far as each is looked at.
    pub(crate) fn conditions(&self, inquiry: Inquiry<'_>, rule: &Rule) -> Vec<Condition> {
        let Some(trial) = self.trial(inquiry) else { return Vec::new() };
        let tree = rule.whole.to_json().unwrap_or_default();
        let mut found = Vec::new();
        let mut is_settled = [false; 2];
        for (kind, part) in all_parts(&tree) {
            let Some((text, policies)) = alone(part) else { continue };
            let misfit = trial.misfit_of(&Reads::of_expression(part));
            let said = <[Said; 2]>::from(trial.say(self, &policies));
            // A `when` is settled by what does not hold, an `unless` by what does.
            let settles = if kind == "when" { Applies::No } else { Applies::Yes };
            let mut holds = [None, None];
            for ((holds, said), is_settled) in holds.iter_mut().zip(said).zip(&mut is_settled) {
                if *is_settled {
                    continue;
                }
                let applies = misfit.clone().map_or_else(|| said.of_one(Effect::Permit), Applies::Fails);
                *is_settled = applies == settles || matches!(applies, Applies::Fails(_));
                *holds = Some(applies);
            }
            found.push(Condition { kind, text, holds });
        }
        found
    }

    /// The texts that the rules which can concern the call compare something with, in conditions that read what is
    /// `wanted`.
    pub(crate) fn texts(&self, inquiry: Inquiry<'_>, wanted: impl Fn(&Reads) -> bool) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for (rule, ..) in self.each(inquiry).into_iter().filter(|(rule, ..)| wanted(&rule.reads)) {
            let tree = rule.whole.to_json().unwrap_or_default();
            let parts = all_parts(&tree).filter(|(_, part)| wanted(&Reads::of_expression(part)));
            parts.for_each(|(_, part)| gather(part, &mut found));
        }
        found
    }
}

/// A part of a condition as a rule of its own, and its text.
fn alone(part: &Value) -> Option<(String, PolicySet)> {
    let any = json!({ "op": "All" });
    let policy = Policy::from_json(
        None,
        json!({
            "effect": "permit", "principal": any, "action": any, "resource": any,
            "conditions": [{ "kind": "when", "body": part }],
        }),
    );
    let policy = policy.ok()?;
    let text = policy.to_cedar()?;
    let text = text.split_once("when {")?.1.trim().trim_end_matches(';').trim_end().strip_suffix('}')?.trim();
    Some((as_written(text), PolicySet::from_policies([policy]).ok()?))
}

/// Cedar knows `a >= b` as `!(a < b)` and prints it so; people write it the other way.
fn as_written(text: &str) -> String {
    static NEGATED: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let side = r"[^\s()]+(?:\([^()]*\))*";
        Regex::new(&format!(r"!\(({side}) (<=|<|==) ({side})\)")).ok()
    });
    let Some(negated) = &*NEGATED else { return text.to_owned() };
    let written = |found: &Captures<'_>| {
        let part = |number: usize| found.get(number).map_or("", |part| part.as_str());
        let operator = match part(2) {
            "<" => ">=",
            "<=" => ">",
            _ => "!=",
        };
        format!("{} {operator} {}", part(1), part(3))
    };
    negated.replace_all(text, written).into_owned()
}

fn gather(expression: &Value, found: &mut BTreeSet<String>) {
    match expression {
        Value::Object(object) => {
            if let Some(Value::String(text)) = object.get("Value") {
                found.insert(text.clone());
            }
            object.values().for_each(|inner| gather(inner, found));
        }
        Value::Array(items) => items.iter().for_each(|item| gather(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
