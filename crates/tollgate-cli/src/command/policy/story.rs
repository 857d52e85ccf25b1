//! An explanation for people.

use std::fmt::Write as _;
use std::io::IsTerminal;

use tollgate::policy::{Applied, ArgumentReport, ConditionReport, Explanation, RuleReport};
use tollgate::{BudgetReport, Units};

use crate::command::budget;
use crate::output::{Style, style, visible};

/// What of a value is shown, in characters.
const VALUE_CHARS_MAX: usize = 60;

/// What becomes of the call, in one sentence.
pub(super) fn verdict(explanation: &Explanation, is_approved: bool) -> &'static str {
    match (explanation.call.effect, is_approved) {
        ("allow", _) => "it runs",
        ("ask", true) => "it runs: a human said yes",
        ("ask", false) => "it waits for a human's yes",
        (_, true) => "it is refused, whatever a human says",
        (_, false) => "it is refused",
    }
}

/// What a call would cost, or why that cannot be said, and how the budgets stand that it is about.
pub(super) struct Bill {
    pub(super) cost: Result<Units, String>,
    pub(super) budgets: Vec<BudgetReport>,
}

impl Bill {
    fn lines(&self) -> Vec<String> {
        if self.budgets.is_empty() {
            return Vec::new();
        }
        let cost = match &self.cost {
            Ok(cost) => format!("{cost} units"),
            Err(why) => format!("cannot be said: {}", visible(why)),
        };
        std::iter::once(format!("the call: {cost}")).chain(budget::lines(&self.budgets)).collect()
    }
}

/// The whole story.
pub(super) fn tell(explanation: &Explanation, is_approved: bool, bill: &Bill) -> String {
    let page = Page { is_terminal: std::io::stdout().is_terminal(), is_approved };
    let mut text = page.head(explanation);
    page.list(&mut text, "Arguments that rules see", explanation.arguments.iter().map(|one| page.argument(one)));
    page.list(&mut text, "Rules that concern it", explanation.rules.iter().map(|rule| page.rule(rule)));
    let changes = explanation.changes.iter().map(|change| format!("  {}\n", visible(change)));
    page.list(&mut text, "What would change the answer", changes);
    let role = explanation.role_as_rule.lines().map(|line| format!("  {}\n", page.dim(line)));
    page.list(&mut text, "What the role grants", role);
    page.list(&mut text, "What it costs", bill.lines().into_iter().map(|line| format!("  {line}\n")));
    text
}

struct Page {
    is_terminal: bool,
    is_approved: bool,
}

impl Page {
    fn bold(&self, text: &str) -> String {
        style(Style::Bold, &visible(text), self.is_terminal)
    }

    fn dim(&self, text: &str) -> String {
        style(Style::Dim, &visible(text), self.is_terminal)
    }

    fn list(&self, text: &mut String, title: &str, parts: impl Iterator<Item = String>) {
        let parts: String = parts.collect();
        if !parts.is_empty() {
            // Writing to a string does not fail.
            let _ = write!(text, "\n{}\n{parts}", self.bold(title));
        }
    }

    fn head(&self, explanation: &Explanation) -> String {
        let Explanation { role, tool, circumstances, list, call, .. } = explanation;
        let colour = match call.effect {
            "allow" => Style::Green,
            "ask" => Style::Yellow,
            _ => Style::Red,
        };
        let listed = if list.effect == "deny" { "not listed" } else { "listed" };
        let effect = style(colour, call.effect, self.is_terminal);
        let mut here = vec![circumstances.now.clone()];
        here.extend(circumstances.tenant.iter().map(|tenant| format!("tenant {tenant}")));
        here.extend(circumstances.environment.iter().map(|environment| format!("environment {environment}")));
        here.push(if circumstances.tainted { "read from outside" } else { "read nothing from outside" }.to_owned());
        format!(
            "{}: {listed}\n  {effect}  {} ({})\n  {}\n  {}\n",
            self.bold(&format!("{tool} as {role}")),
            visible(&call.reason),
            visible(&call.rule),
            verdict(explanation, self.is_approved),
            self.dim(&here.join(" · ")),
        )
    }

    fn argument(&self, argument: &ArgumentReport) -> String {
        let Some(value) = &argument.value else {
            return format!("  {} {}\n", argument.name, self.dim("is not there"));
        };
        let mut value: String = value.to_string();
        if value.chars().count() > VALUE_CHARS_MAX {
            value = value.chars().take(VALUE_CHARS_MAX).chain(['…']).collect();
        }
        let from: Vec<&str> = argument.from.iter().map(|origin| origin.as_str()).collect();
        let from = if from.is_empty() { "nobody".to_owned() } else { from.join(", ") };
        format!("  {} = {} {}\n", argument.name, visible(&value), self.dim(&format!("from {from}")))
    }

    fn rule(&self, rule: &RuleReport) -> String {
        let applies = match (rule.applies, rule.applies_approved) {
            (Applied::Error, _) | (_, Applied::Error) => "cannot be evaluated, and so denies",
            (Applied::Yes, Applied::Yes) => "applies",
            (Applied::Yes, Applied::No) => "applies until a human says yes",
            (Applied::No, Applied::Yes) => "applies once a human says yes",
            (Applied::No, Applied::No) => "does not apply",
        };
        let mut text = format!("  {} {} {applies}\n", rule.effect, self.bold(&rule.id));
        if let Some(error) = &rule.error {
            let _ = writeln!(text, "    {}", visible(error));
        }
        let _ = writeln!(text, "    {}", self.dim(&head(&rule.text)));
        text.extend(rule.conditions.iter().map(|condition| self.condition(condition)));
        text
    }

    fn condition(&self, condition: &ConditionReport) -> String {
        let word = |holds: Option<Applied>| match holds {
            Some(Applied::Yes) => "yes",
            Some(Applied::No) => "no",
            Some(Applied::Error) => "fails",
            None => "–",
        };
        let (now, approved) = (word(condition.holds), word(condition.holds_approved));
        let said =
            if now == approved { now.to_owned() } else { format!("{now}, and {approved} once a human says yes") };
        format!("    {:<6} {}  {said}\n", condition.kind, self.dim(&condition.text))
    }
}

/// Whom and what a rule is about: its text up to its conditions, on one line.
fn head(text: &str) -> String {
    let end = ["when {", "unless {", "when{", "unless{"].iter().filter_map(|word| text.find(word)).min();
    let head = text.get(..end.unwrap_or(text.len())).unwrap_or_default();
    head.split_whitespace().collect::<Vec<_>>().join(" ")
}
