//! `tollgate policy`: who may do what, checked, tested and explained. Nothing runs.

mod cases;

use std::io::IsTerminal;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Value, json};
use tollgate::config::Loaded;
use tollgate::policy::{Applied, Circumstances, Explanation, Policy, RuleFault, RuleSource, RulesError, Verdict};
use tollgate::{BudgetReport, Caller, Surface, Units};

use super::{budget, call, configuration, open_quietly, unhurried, user};
use crate::args::{ExplainArgs, Format, Global, PolicyAction};
use crate::failure::{Failure, USAGE};
use crate::output::{self, Style, style, visible};

/// Exit status of a case that is not as expected.
const FAILED: u8 = 1;
/// Exit status of a call that is denied.
const DENIED: u8 = 3;

pub(crate) async fn run(global: &Global, action: PolicyAction) -> Result<u8, Failure> {
    match action {
        PolicyAction::Check { file } => check(global, &configured(global, file)?),
        PolicyAction::Test { file, cases } => test(global, &configured(global, file)?, cases),
        PolicyAction::Explain(args) => explain(global, args).await,
    }
}

/// The configuration, with the rules of this file if one is named.
fn configured(global: &Global, file: Option<PathBuf>) -> Result<Loaded, Failure> {
    let mut loaded = configuration(global)?;
    if let Some(file) = file {
        let file = std::path::absolute(&file)
            .map_err(|error| Failure::usage(format!("the file `{}` cannot be read: {error}", file.display())))?;
        loaded.set_rule_file(file);
    }
    Ok(loaded)
}

/// The policy, or every place where its rules are wrong.
fn read(loaded: &Loaded) -> Result<Result<Policy, Vec<RuleFault>>, Failure> {
    let roles = Policy::new(loaded.roles()?).map_err(tollgate::Error::from)?;
    let source: RuleSource = match loaded.rule_source()? {
        Some(source) => source,
        None => return Ok(Ok(roles)),
    };
    match roles.with_rules(&source) {
        Ok(policy) => Ok(Ok(policy)),
        Err(RulesError::Text(faults)) => Ok(Err(faults)),
        // What is declared stands in the configuration, and is named with its place there.
        Err(_) => loaded.policy([]).map(Ok).map_err(Failure::from),
    }
}

fn check(global: &Global, loaded: &Loaded) -> Result<u8, Failure> {
    let policy = match read(loaded)? {
        Ok(policy) => policy,
        Err(faults) => return broken(global, faults),
    };
    let rules = policy.rules();
    match output::format(global) {
        Format::Json => output::json(
            &json!({ "ok": true, "hash": policy.hash(), "roles": policy.role_names(), "rules": rules, "faults": [] }),
        )?,
        Format::Text if rules.is_empty() => output::line("the roles are well; there are no rules beside them")?,
        Format::Text => {
            let rows = rules.iter().map(|rule| {
                let reason = visible(rule.reason.as_deref().unwrap_or_default());
                vec![
                    visible(&rule.id),
                    rule.effect.to_owned(),
                    rule.reads.join(", "),
                    rule.examples.to_string(),
                    reason,
                ]
            });
            output::out(&output::table(&["rule", "effect", "reads", "examples", "reason"], rows))?;
        }
    }
    Ok(0)
}

/// Prints every place.
fn broken(global: &Global, faults: Vec<RuleFault>) -> Result<u8, Failure> {
    match output::format(global) {
        Format::Json => output::json(&json!({ "ok": false, "faults": faults }))?,
        Format::Text => {
            for fault in faults {
                Failure::from(fault).report();
            }
        }
    }
    Ok(USAGE)
}

fn test(global: &Global, loaded: &Loaded, cases: Option<PathBuf>) -> Result<u8, Failure> {
    let policy = match read(loaded)? {
        Ok(policy) => policy,
        Err(faults) => return broken(global, faults),
    };
    let examples: usize = policy.rules().iter().map(|rule| rule.examples).sum();
    let report = match cases::find(cases, loaded.rule_file().as_deref())? {
        Some(path) => cases::run(&path, &policy)?,
        None => cases::Report::default(),
    };
    let is_well = report.failed.is_empty();
    match output::format(global) {
        Format::Json => output::json(&json!({
            "ok": is_well, "examples": examples, "cases": report.cases, "failed": report.failed,
        }))?,
        Format::Text => {
            for failed in &report.failed {
                output::line(&visible(&failed.to_string()))?;
            }
            let cases = report.cases;
            let failed = report.failed.len();
            output::line(&format!("{examples} examples and {cases} cases, {failed} not as expected"))?;
        }
    }
    Ok(if is_well { 0 } else { FAILED })
}

async fn explain(global: &Global, args: ExplainArgs) -> Result<u8, Failure> {
    let text = call::read(args.arguments.as_deref().unwrap_or("{}"))?;
    let mut arguments: Value = serde_json::from_str(&text).map_err(|error| {
        Failure::usage(format!("the arguments are not JSON: {error}")).hint("such as '{\"path\": \"README.md\"}'")
    })?;
    let loaded = configuration(global)?;
    let role = global.role.clone().unwrap_or_else(|| loaded.config.role.get_ref().clone());
    let environment = loaded.config.environment.clone();
    let house = open_quietly(global, unhurried(loaded)).await?;
    let mut caller: Caller = super::caller(&house, &role, Surface::Cli)?;
    caller.subject = user();
    caller.tenant = args.tenant;
    // Servers say what they have when they are asked.
    house.list(&caller).await;
    let entry = house.gate().catalog().get(&args.tool);
    let now = args.at.unwrap_or_else(|| house.clock().now());
    house.stop().await;
    let Some(entry) = entry else {
        let failure = Failure::usage(format!("no tool is named `{}`", visible(&args.tool)));
        return Err(failure.hint("`tollgate tools list` lists those of a role"));
    };
    // The policy sees what the gate makes of the arguments.
    entry.input.coerce(&mut arguments);
    entry.input.fill_defaults(&mut arguments);
    if let Some(violation) = entry.input.validate(&arguments).first() {
        let at = if violation.path.is_empty() { String::new() } else { format!(" at {}", violation.path) };
        output::warn(global, &format!("such a call ends before policy is asked{at}: {}", violation.message));
    }
    let circumstances = Circumstances {
        environment: environment.as_deref(),
        now,
        is_tainted: args.tainted,
        ..Circumstances::default()
    };
    let policy = house.gate().policy();
    let explanation = policy.explain(&caller, &entry.definition, &arguments, &circumstances);
    let budgets = house.gate().budgets(&caller, &args.tool).await.map_err(tollgate::Error::from)?;
    let cost = entry.definition.cost_of(&arguments);
    match output::format(global) {
        Format::Json if budgets.is_empty() => output::json(&explanation)?,
        Format::Json => output::json(&Charged { explanation: &explanation, cost: cost.ok(), budgets: &budgets })?,
        Format::Text => output::out(&(story(&explanation) + &bill(cost, &budgets)))?,
    }
    Ok(if explanation.call.effect == "deny" { DENIED } else { 0 })
}

/// An explanation, and what the call would cost.
#[derive(Serialize)]
struct Charged<'a> {
    #[serde(flatten)]
    explanation: &'a Explanation,
    /// None where the arguments do not say it.
    cost: Option<Units>,
    budgets: &'a [BudgetReport],
}

fn bill(cost: Result<Units, String>, budgets: &[BudgetReport]) -> String {
    if budgets.is_empty() {
        return String::new();
    }
    let cost = cost.map_or_else(|why| format!("cannot be said: {why}"), |cost| format!("{cost} units"));
    let lines = std::iter::once(format!("the call: {}", visible(&cost))).chain(budget::lines(budgets));
    let lines: String = lines.map(|line| format!("  {line}\n")).collect();
    format!("\n{}\n{lines}", bold("What it costs"))
}

fn bold(text: &str) -> String {
    style(Style::Bold, text, std::io::stdout().is_terminal())
}

fn story(explanation: &Explanation) -> String {
    let is_terminal = std::io::stdout().is_terminal();
    let said = |verdict: &Verdict| {
        let colour = match verdict.effect {
            "allow" => Style::Green,
            "ask" => Style::Yellow,
            _ => Style::Red,
        };
        let effect = style(colour, verdict.effect, is_terminal);
        format!("{effect}  {} ({})", visible(&verdict.reason), visible(&verdict.rule))
    };
    let head = format!("{} as {}", visible(&explanation.tool), explanation.role);
    let listed = if explanation.list.effect == "deny" { "not listed" } else { "listed" };
    let mut text = format!("{}: {listed}\n  {}\n", bold(&head), said(&explanation.call));
    if !explanation.rules.is_empty() {
        text.push_str(&format!("\n{}\n", bold("Rules that concern it")));
    }
    for rule in &explanation.rules {
        let applies = match (rule.applies, rule.applies_approved) {
            (Applied::Error, _) | (_, Applied::Error) => "cannot be evaluated, and so denies",
            (Applied::Yes, Applied::Yes) => "applies",
            (Applied::Yes, Applied::No) => "applies until a human says yes",
            (Applied::No, Applied::Yes) => "applies once a human says yes",
            (Applied::No, Applied::No) => "does not apply",
        };
        text.push_str(&format!("  {} {} {applies}\n", rule.effect, bold(&visible(&rule.id))));
        if let Some(error) = &rule.error {
            text.push_str(&format!("    {}\n", visible(error)));
        }
        for line in rule.text.lines() {
            text.push_str(&format!("    {}\n", style(Style::Dim, &visible(line), is_terminal)));
        }
    }
    if !explanation.changes.is_empty() {
        text.push_str(&format!("\n{}\n", bold("What would change the answer")));
    }
    for change in &explanation.changes {
        text.push_str(&format!("  {}\n", visible(change)));
    }
    let role = explanation.role_as_rule.lines().map(|line| format!("  {}\n", style(Style::Dim, line, is_terminal)));
    text.push_str(&format!("\n{}\n{}", bold("What the role grants"), role.collect::<String>()));
    text
}
