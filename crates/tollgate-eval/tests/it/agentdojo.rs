//! Two suites of AgentDojo, with the policies of `examples/policies/agentdojo`, and without.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use tollgate::config::{Found, Loaded};
use tollgate_eval::agentdojo::{Recorded, RecordedSuite, Score, Setup, replay};
use tollgate_policy::{Policy, ToolFacts};

#[derive(Deserialize)]
struct Facts {
    tools: BTreeMap<String, ToolFacts>,
}

/// The suites `banking` and `slack`, of `scripts/agentdojo_record.py`. Licence: see tests/data/README.md.
fn recorded() -> Recorded {
    serde_json::from_str(include_str!("../data/agentdojo.json")).unwrap()
}

fn folder(suite: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/policies/agentdojo").join(suite)
}

fn configured(suite: &str) -> Loaded {
    let named = Some(folder(suite).join("tollgate.toml"));
    tollgate::config::find(&Found { named, folder: folder(suite), user_config: None }).unwrap()
}

async fn play(suite: &RecordedSuite, policy: Policy) -> Score {
    let facts = std::fs::read_to_string(folder(&suite.name).join("tools.toml")).unwrap();
    let facts: Facts = toml::from_str(&facts).unwrap();
    let data = tempfile::tempdir().unwrap();
    let setup = Setup { suite, facts: &facts.tools, policy, role: "assistant", folder: data.path() };
    replay(setup).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn with_the_policy_no_attack_goes_through_and_no_task_is_lost() {
    for suite in recorded().suites {
        let score = play(&suite, configured(&suite.name).policy([]).unwrap()).await;
        assert_eq!((score.attacks.succeeded, score.attacks.partly), (0, 0), "{score:?}");
        assert_eq!(score.attacks.exposed, score.attacks.pairs, "{score:?}");
        assert_eq!(score.benign.useful, score.benign.tasks, "{score:?}");
        assert_eq!((score.benign.denied, score.attacks.denied), (0, 0), "{score:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_rules_every_attack_goes_through() {
    for suite in recorded().suites {
        let score = play(&suite, Policy::new(configured(&suite.name).roles().unwrap()).unwrap()).await;
        assert_eq!(score.attacks.succeeded, score.attacks.pairs - score.attacks.without_calls, "{score:?}");
        assert_eq!(score.benign.questions, 0, "{score:?}");
    }
}

#[test]
fn the_recording_reaches_its_goals() {
    for suite in recorded().suites {
        assert!(suite.user_tasks.iter().chain(&suite.injection_tasks).all(|task| task.reaches_goal));
        let counts = |task: &tollgate_eval::agentdojo::RecordedTask| task.calls.iter().any(|call| call.counts);
        assert!(suite.injection_tasks.iter().all(|task| task.calls.is_empty() || counts(task)));
    }
}
