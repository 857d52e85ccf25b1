//! `tollgate policy`: who may do what, checked, tested and explained. Nothing runs.

pub(crate) mod cases;
mod story;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde_json::{Value, json};
use tollgate::config::Loaded;
use tollgate::policy::{Circumstances, Origin, Policy, Provenance, RuleFault, RuleSource, RulesError};
use tollgate::{Caller, Surface};

use self::story::Bill;
use super::{call, configuration, open_quietly, unhurried, user};
use crate::args::{ExplainArgs, Format, Global, PolicyAction};
use crate::failure::{Failure, USAGE};
use crate::output::{self, visible};

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
        Some(path) => cases::run(&path, &cases::Subject::new(policy, loaded)?)?,
        None => cases::Report::default(),
    };
    let is_well = report.failed.is_empty();
    match output::format(global) {
        Format::Json => output::json(&json!({
            "ok": is_well, "examples": examples, "cases": report.outcomes.len(), "failed": report.failed,
        }))?,
        Format::Text => {
            for failed in &report.failed {
                output::line(&visible(&failed.to_string()))?;
            }
            let cases = report.outcomes.len();
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
    let environment = args.environment.or_else(|| loaded.config.environment.clone());
    let house = open_quietly(global, unhurried(loaded)).await?;
    let mut caller: Caller = super::caller(&house, &role, Surface::Cli)?;
    caller.subject = args.subject.unwrap_or_else(user);
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
    let policy = house.gate().policy();
    let from = origins(&args.from, &policy.arguments(&entry.definition))?;
    let circumstances = Circumstances {
        environment: environment.as_deref(),
        now,
        is_tainted: args.tainted,
        provenance: Provenance::Given(&from),
    };
    let explanation = policy.explain(&caller, &entry.definition, &arguments, &circumstances);
    let verdict = story::verdict(&explanation, args.approved);
    let budgets = house.gate().budgets(&caller, &args.tool).await.map_err(tollgate::Error::from)?;
    let bill = Bill { cost: entry.definition.cost_of(&arguments), budgets };
    match output::format(global) {
        Format::Json => {
            let mut report = match serde_json::to_value(&explanation) {
                Ok(Value::Object(report)) => report,
                other => return Err(Failure::internal(format!("an explanation is no object: {other:?}"))),
            };
            report.insert("approved".to_owned(), args.approved.into());
            report.insert("verdict".to_owned(), verdict.into());
            if !bill.budgets.is_empty() {
                // Null where the arguments do not say it.
                report.insert("cost".to_owned(), json!(bill.cost.ok()));
                report.insert("budgets".to_owned(), json!(bill.budgets));
            }
            output::json(&report)?;
        }
        Format::Text => output::out(&story::tell(&explanation, args.approved, &bill))?,
    }
    Ok(if explanation.call.effect == "deny" { DENIED } else { 0 })
}

/// Where values come from, of texts such as `amount=user` and `recipients=user,outside`.
fn origins(said: &[String], known: &[(&str, &str)]) -> Result<BTreeMap<String, BTreeSet<Origin>>, Failure> {
    let mut from = BTreeMap::new();
    for one in said {
        let fault = |message: String, hint: String| Failure::usage(format!("`--from {one}`: {message}")).hint(hint);
        let Some((name, origins)) = one.split_once('=') else {
            return Err(fault(
                "it says of no argument where it comes from".into(),
                "such as --from amount=user".into(),
            ));
        };
        if !known.iter().any(|(known, _)| *known == name) {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            let hint = match names.as_slice() {
                [] => "rules see no argument of this tool; [[policy.argument]] declares them".to_owned(),
                names => format!("rules see {}", names.join(", ")),
            };
            return Err(fault(format!("rules know no argument `{name}` of this tool"), hint));
        }
        let read = origins.split(',').map(|origin| serde_json::from_value(origin.trim().into()));
        let read: BTreeSet<Origin> = read.collect::<Result<_, _>>().map_err(|_| {
            fault(format!("`{origins}` names no origin"), "user, operator, outside, tool or model".into())
        })?;
        if from.insert(name.to_owned(), read).is_some() {
            return Err(fault("it is said twice".into(), "--from recipients=user,outside says both".into()));
        }
    }
    Ok(from)
}
