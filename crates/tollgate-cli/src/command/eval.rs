//! `tollgate eval`: data sets through the gate. It has a folder of its own for each suite, and touches no other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::json;
use tollgate::config::Found;
use tollgate::policy::{Policy, ToolFacts};
use tollgate_eval::agentdojo::{Recorded, RecordedSuite, Score, Setup, replay, table};

use crate::args::{AgentdojoArgs, EvalAction, Format, Global};
use crate::failure::Failure;
use crate::output;

/// Exit status of a replay in which an attack went through or a task was lost.
const FAILED: u8 = 1;
/// The role of the policies.
const ROLE: &str = "assistant";
/// The page that `--report` writes.
const PAGE: &str = include_str!("eval/injection.md");

/// What the tools of a suite are.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Facts {
    tools: BTreeMap<String, ToolFacts>,
}

pub(crate) async fn run(global: &Global, action: EvalAction) -> Result<u8, Failure> {
    match action {
        EvalAction::Agentdojo(args) => agentdojo(global, args).await,
    }
}

async fn agentdojo(global: &Global, args: AgentdojoArgs) -> Result<u8, Failure> {
    let recorded: Recorded = read(&args.data, |text| serde_json::from_str(text).map_err(|error| error.to_string()))?;
    let policies = std::path::absolute(&args.policies)
        .map_err(|error| Failure::usage(format!("`{}` cannot be read: {error}", args.policies.display())))?;
    let (mut scores, mut without) = (Vec::new(), Vec::new());
    for suite in &recorded.suites {
        let folder = policies.join(&suite.name);
        let facts: Facts = read(&folder.join("tools.toml"), from_toml)?;
        let named = Some(folder.join("tollgate.toml"));
        let loaded = tollgate::config::find(&Found { named, folder: folder.clone(), user_config: None })?;
        scores.push(play(suite, &facts, loaded.policy([])?).await?);
        let roles = Policy::new(loaded.roles()?).map_err(tollgate::Error::from)?;
        without.push(play(suite, &facts, roles).await?);
    }
    if let Some(path) = &args.report {
        let page = page(&recorded, &scores, &without);
        std::fs::write(path, page)
            .map_err(|error| Failure::usage(format!("`{}` cannot be written: {error}", path.display())))?;
    }
    let all = Score::total(&scores);
    match output::format(global) {
        Format::Json => output::json(&json!({
            "source": recorded.source,
            "suites": scores,
            "all": all,
            "without_rules": without,
        }))?,
        Format::Text => {
            output::line(&format!("with the policies of {}", args.policies.display()))?;
            output::out(&table(&scores))?;
            output::line("\nwithout rules")?;
            output::out(&table(&without))?;
        }
    }
    let is_well = all.attacks.succeeded == 0 && all.benign.useful == all.benign.tasks;
    Ok(if is_well { 0 } else { FAILED })
}

async fn play(suite: &RecordedSuite, facts: &Facts, policy: Policy) -> Result<Score, Failure> {
    let folder = tempfile::tempdir()
        .map_err(|error| Failure::unavailable(format!("there is no folder for the replay: {error}")))?;
    let setup = Setup { suite, facts: &facts.tools, policy, role: ROLE, folder: folder.path() };
    replay(setup).await.map_err(|error| Failure::usage(format!("the suite `{}`: {error}", suite.name)))
}

fn from_toml<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    toml::from_str(text).map_err(|error| error.to_string())
}

fn read<T>(path: &Path, parse: impl FnOnce(&str) -> Result<T, String>) -> Result<T, Failure> {
    let name = PathBuf::from(path);
    let text = std::fs::read_to_string(path).map_err(|error| {
        let failure = Failure::usage(format!("`{}` cannot be read: {error}", name.display()));
        failure.hint("`scripts/agentdojo` makes the recording and runs this command")
    })?;
    parse(&text).map_err(|error| Failure::usage(format!("`{}` cannot be read: {error}", name.display())))
}

/// The page, with what came of it.
fn page(recorded: &Recorded, scores: &[Score], without: &[Score]) -> String {
    let all = Score::total(scores);
    let numbers = [
        ("source", recorded.source.clone()),
        ("table", table(scores)),
        ("without", table(without)),
        ("pairs", all.attacks.pairs.to_string()),
        ("with_calls", (all.attacks.pairs - all.attacks.without_calls).to_string()),
        ("without_calls", all.attacks.without_calls.to_string()),
        ("succeeded", all.attacks.succeeded.to_string()),
        ("partly", all.attacks.partly.to_string()),
        ("tasks", all.benign.tasks.to_string()),
        ("useful", all.benign.useful.to_string()),
        ("questions", all.benign.questions.to_string()),
        ("tasks_with_question", all.benign.tasks_with_question.to_string()),
        ("attack_questions", all.attacks.questions.to_string()),
        ("attack_denied", all.attacks.denied.to_string()),
    ];
    numbers
        .iter()
        .fold(PAGE.to_owned(), |page, (name, value)| page.replace(&format!("{{{{{name}}}}}"), value.trim_end()))
}
