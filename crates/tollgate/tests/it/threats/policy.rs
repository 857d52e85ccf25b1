//! Policy, approvals, hidden tools, limits and the clock under attack.

use std::collections::BTreeSet;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::{Value, json};
use tollgate::store::Answer;
use tollgate::{Caller, Clock, Code, End, Outcome, Permission, Risk, Status};
use tollgate_testkit::reference::any::at as at_place;

use super::world::{World, caller, input, quoted, run, tool};

fn id(outcome: &Outcome) -> String {
    let End::Waiting(waiting, _) = &outcome.end else { panic!("it does not wait: {:?}", outcome.end) };
    waiting.id.to_string()
}

async fn say_yes(world: &World, outcome: &Outcome) {
    let yes = Answer { approved: true, by: "alice".into(), reason: None, typed: None };
    world.house.operator().answer(&id(outcome), yes).await.unwrap();
}

/// T006: what a tool says is not obeyed; what its session does next is another matter than before.
pub(super) fn a_poisoned_result_taints(entry: &Value) {
    const RULES: &str = "@id(\"tainted\") forbid (principal, action, resource) \
                         when { context.tainted && resource.risk_level > 1 } unless { context.approved };";
    run(async {
        let world = World::new("", RULES).await;
        let [text] = &quoted(input(entry))[..] else { panic!("one text: {entry}") };
        let mut fetch = tool("fetch", Risk::Read);
        fetch.permission = Permission::Network;
        world.saying(fetch, text);
        world.echo(tool("send", Risk::Write));
        world.echo(tool("look", Risk::Read));
        let ada = caller("free").with_session("one");
        assert_eq!(world.raw(&ada, "send", "{}").await.status(), Status::Done);
        let fetched = world.raw(&ada, "fetch", "{}").await;
        assert!(fetched.model_text().contains(text.as_str()), "it is handed on as it is");
        assert_eq!(world.raw(&ada, "send", "{}").await.code(), Some(Code::ApprovalRequired));
        assert_eq!(world.raw(&ada, "look", "{}").await.status(), Status::Done, "reading goes on");
        let other = caller("free").with_session("two");
        assert_eq!(world.raw(&other, "send", "{}").await.status(), Status::Done);
    });
}

/// T062: one yes, and as many at once as the entry says.
pub(super) fn one_yes_and_many_at_once(entry: &Value) {
    run(async {
        let world = World::new("", "").await;
        world.echo(tool("pay", Risk::Dangerous));
        let count: usize = input(entry).split(' ').next().unwrap().parse().unwrap();
        let ada = caller("asking");
        say_yes(&world, &world.raw(&ada, "pay", r#"{"amount":1}"#).await).await;
        let outcomes = join_all((0..count).map(|_| world.raw(&ada, "pay", r#"{"amount":1}"#))).await;
        assert_eq!(outcomes.iter().filter(|outcome| outcome.status() == Status::Done).count(), 1);
        assert_eq!(world.reached().len(), 1);
        for outcome in outcomes.iter().filter(|outcome| outcome.status() != Status::Done) {
            assert!(matches!(outcome.code(), Some(Code::ApprovalRequired | Code::Conflict)), "{:?}", outcome.end);
        }
    });
}

/// T066: a rule that cannot be evaluated denies, or does not load.
pub(super) fn what_fails_denies(_: &Value) {
    const PAYS: &str = "@id(\"large\") forbid (principal, action, resource == Tollgate::Tool::\"pay\") \
                        when { context.args has amount && context.args.amount > 100 };";
    run(async {
        let world = World::new("", PAYS).await;
        world.echo(tool("pay", Risk::Write));
        for amount in [r#""100""#, "null", "1.5", "[1]", "9223372036854775808", "{}"] {
            let outcome = world.raw(&caller("free"), "pay", &format!("{{\"amount\": {amount}}}")).await;
            assert_eq!(outcome.code(), Some(Code::Denied), "{amount}");
            let decided = world.records(&outcome).into_iter().find(|record| record["event"] == "decided").unwrap();
            let reason = decided["decision"]["reason"].as_str().unwrap();
            assert!(reason.contains("could not be evaluated"), "the operator is told: {reason}");
            assert!(!outcome.end.error().unwrap().message.contains("amount"), "and the model is not");
        }
        assert!(world.reached().is_empty());
        // What reads a tenant that may be missing, is of the wrong type, or names nothing that is there: not loaded.
        let good = world.house.gate().policy().hash().to_owned();
        for broken in [
            "forbid (principal, action, resource) when { principal.tenant == \"acme\" };",
            "forbid (principal, action, resource) when { context.tenant == \"acme\" };",
            "forbid (principal, action, resource) when { resource.risk_level == \"high\" };",
            "forbid (principal in Tollgate::Role::\"nobody\", action, resource);",
            "permit (principal, action, resource) when { context.args.sum > 1 };",
        ] {
            std::fs::write(world.folder.path().join("rules.cedar"), format!("@id(\"b\") {broken}")).unwrap();
            assert!(world.house.reload_policy().await.is_err(), "{broken}");
            assert_eq!(world.house.gate().policy().hash(), good);
        }
        assert!(world.house.reloads().is_broken() && world.house.reloads().failed() == 5);
    });
}

/// T068: called by its exact name, a hidden tool is answered as one that nobody has.
pub(super) fn hidden_is_unknown(entry: &Value) {
    run(async {
        let world = World::new("", "").await;
        let name = input(entry).split(' ').nth(1).unwrap();
        world.echo(tool(name, Risk::Dangerous));
        let reader = caller("reader");
        assert!(!world.names(&reader).await.contains(name));
        let absent = name.replace("wipe", "wine");
        let said = async |asked: &str| {
            let outcome = world.raw(&reader, asked, "{}").await;
            let text = serde_json::to_string(outcome.end.error().unwrap()).unwrap();
            (text.replace(asked, "NAME"), world.end(&outcome)["outcome"]["code"].clone())
        };
        let ((hidden, recorded), (none, _)) = (said(name).await, said(&absent).await);
        assert_eq!(hidden, none);
        assert_eq!(recorded, json!("forbidden"));
        assert!(world.reached().is_empty());
    });
}

/// T069: whatever is there of the file, calls are decided by a whole policy, the old one or the new.
pub(super) fn a_half_written_policy_never_counts(_: &Value) {
    const NEW: &str = "@id(\"no\") @reason(\"closed\") forbid (principal, action, resource == Tollgate::Tool::\"pay\") \
                       unless { context.approved };\n";
    run(async {
        let world = World::new("", "").await;
        world.echo(tool("pay", Risk::Write));
        let file = world.folder.path().join("rules.cedar");
        let free = caller("free");
        let mut hashes = BTreeSet::from([world.house.gate().policy().hash().to_owned()]);
        for length in (1..NEW.len()).step_by(7) {
            std::fs::write(&file, NEW.get(..length).unwrap()).unwrap();
            let (reloaded, outcomes) =
                tokio::join!(world.house.reload_policy(), join_all((0..3).map(|_| world.raw(&free, "pay", "{}"))));
            assert!(reloaded.is_err(), "{length}");
            assert!(outcomes.iter().all(|outcome| outcome.status() == Status::Done));
            for record in outcomes.iter().flat_map(|outcome| world.records(outcome)) {
                hashes.extend(record["policy"].as_str().map(str::to_owned));
            }
        }
        assert_eq!(hashes.len(), 1, "each record says which policy it was decided by");
        std::fs::write(&file, NEW).unwrap();
        assert!(world.house.reload_policy().await.unwrap());
        assert_eq!(world.raw(&caller("free"), "pay", "{}").await.code(), Some(Code::ApprovalRequired));
        assert!(!world.house.reloads().is_broken());
    });
}

/// T074: at the edge of a window, by another spelling, another conversation or another way in: the limit is the limit.
pub(super) fn a_burst_at_the_edge(_: &Value) {
    run(async {
        let limit = "[[limit]]\ncalls = 10\nevery = \"10s\"\nper = [\"caller\", \"tool\"]\n";
        let world = World::new(limit, "").await;
        world.echo(tool("look", Risk::Read));
        let variants: Vec<Caller> = (0..4).map(|at| caller("free").with_session(at.to_string())).collect();
        let burst = async || {
            let calls = (0..20).map(|at| world.raw(at_place(&variants, at).unwrap(), "look", "{}"));
            join_all(calls).await.iter().filter(|outcome| outcome.status() == Status::Done).count()
        };
        assert_eq!(world.raw(&caller("free"), "Look", "{}").await.code(), Some(Code::UnknownTool));
        let mut done = burst().await;
        assert_eq!(done, 10);
        // Just before and just after each edge.
        for passed in [9_999, 1, 1, 9_999] {
            world.clock.advance(Duration::from_millis(passed));
            done += burst().await;
        }
        assert!(done <= 10 + 20, "{done} in 20 s");
    });
}

/// T082: a day back. What was over stays over, durations are not negative, and the order is that of the chain.
pub(super) fn the_clock_is_set_back(entry: &Value) {
    run(async {
        let world = World::new("", "").await;
        world.echo(tool("pay", Risk::Dangerous));
        let days: u64 = input(entry).trim_start_matches("faketime -").trim_end_matches('d').parse().unwrap();
        let day = Duration::from_secs(days * 24 * 60 * 60);
        let ada = caller("asking");
        let question = world.raw(&ada, "pay", "{}").await;
        say_yes(&world, &question).await;
        world.clock.advance(day);
        assert!(world.house.operator().approvals(true).await.unwrap().is_empty(), "somebody looks");
        world.clock.set(world.clock.now() - day);
        let outcome = world.raw(&ada, "pay", "{}").await;
        assert_eq!(outcome.code(), Some(Code::ApprovalExpired));
        assert!(world.records(&outcome).iter().all(|record| record["duration_ms"].as_i64().unwrap_or(0) >= 0));
        assert!(tollgate::ledger::verify(world.house.data_dir()).unwrap().ok);
        assert!(world.reached().is_empty());
        // Further back than the question was put.
        let question = world.raw(&ada, "pay", "{}").await;
        say_yes(&world, &question).await;
        world.clock.set(world.clock.now() - day);
        assert_ne!(world.raw(&ada, "pay", "{}").await.status(), Status::Done);
        assert!(world.reached().is_empty());
    });
}
