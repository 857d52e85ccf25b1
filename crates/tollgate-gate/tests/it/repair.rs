//! What becomes of arguments that are not exactly right: a line of `cases/repair.jsonl` each, through the gate, and what
//! docs/repair.md says of it.

use serde_json::{Value, json};
use tollgate_catalog::schema::Schema;
use tollgate_gate::BuildError;
use tollgate_policy::Role;
use tollgate_types::{Call, Code, Door, Outcome, Permission, Repair, RepairLevel, RepairRule, Risk, ToolOutput};
use tollgate_wire::repair;

use crate::world::{Setup, TestTool, World, developer, echo, tool};

fn level(case: &Value, who: &str) -> Option<RepairLevel> {
    case.get(who).map(|level| serde_json::from_value(level.clone()).unwrap())
}

fn told(case: &Value) -> TestTool {
    let risk = case.get("risk").map_or(Risk::Read, |risk| serde_json::from_value(risk.clone()).unwrap());
    let schema = case.get("schema").cloned().unwrap_or_else(|| json!({"type": "object"}));
    let told = tool("tell", risk, |arguments, _| async move { Ok(ToolOutput::text(arguments.to_string())) });
    told.schema(schema).define(|definition| definition.repair = level(case, "tool"))
}

fn world(case: &Value) -> World {
    let mut role = Role::new("developer").allow("*").risk(Risk::Dangerous).permission(Permission::System);
    role.ask = Some(tollgate_policy::Ask::Never);
    role.repair = level(case, "role");
    World::with(Setup {
        roles: vec![role],
        tools: vec![told(case).arc()],
        repair: level(case, "house"),
        ..Setup::default()
    })
}

fn lines(repairs: &[Repair]) -> Vec<String> {
    repairs.iter().map(|repair| format!("{} {}", repair.path, repair.rule)).collect()
}

/// What the ledger says was mended.
fn recorded(world: &World, outcome: &Outcome) -> Vec<String> {
    let events = world.events(outcome);
    let event = if events.contains(&"decided".to_owned()) { "decided" } else { "finished" };
    let repairs = world.record(outcome, event).get("repairs").cloned().unwrap_or_else(|| json!([]));
    lines(&serde_json::from_value::<Vec<Repair>>(repairs).unwrap())
}

#[tokio::test]
async fn arguments_are_mended_answered_or_refused_as_the_cases_say() {
    for line in include_str!("../cases/repair.jsonl").lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let world = world(&case);
        let outcome = world.raw("tell", case["text"].as_str().unwrap()).await;
        assert_eq!(recorded(&world, &outcome), lines(&outcome.repairs), "the record is the outcome: {line}");
        if let Some(code) = case.get("error") {
            let error = outcome.end.error().unwrap_or_else(|| panic!("it ran: {line}"));
            assert_eq!(json!(error.error), *code, "{line}");
            let says = case["says"].as_str().unwrap();
            assert!(error.message.contains(says), "{line}: {}", error.message);
            assert_eq!(world.events(&outcome), ["received", "finished"], "it never started: {line}");
            continue;
        }
        let result = outcome.result().unwrap_or_else(|| panic!("{line}: {:?}", outcome.end));
        let [tollgate_types::Content::Text(text)] = result.content.as_slice() else { panic!("{line}: {result:?}") };
        assert_eq!(text.as_str(), case["becomes"], "{line}");
        assert_eq!(json!(lines(&outcome.repairs)), case["repairs"], "{line}");
        // What came out needs nothing more: it is as `off` takes it.
        for rung in ["off", case.get("house").and_then(Value::as_str).unwrap_or("lossless")] {
            let mut again = case.clone();
            again["house"] = json!(rung);
            let once_more = self::world(&again).raw("tell", text).await;
            assert!(once_more.repairs.is_empty(), "{line}: {:?}", once_more.repairs);
            assert_eq!(once_more.result().map(|result| &result.content), Some(&result.content), "{line}");
        }
    }
}

#[tokio::test]
async fn what_the_surface_mended_is_in_the_record_too() {
    let world = World::new([echo().arc()]);
    let mended = vec![Repair::new("", RepairRule::NamePrefixStripped), Repair::new("", RepairRule::ObjectArguments)];
    let call = Call::raw("echo", "{'text':'a'}").with_repairs(mended);
    let outcome = world.gate.call(&developer(), call.clone()).await;
    let expected = [" name_prefix_stripped", " object_arguments", " single_quotes"];
    assert_eq!(
        (lines(&outcome.repairs), recorded(&world, &outcome)),
        (expected.map(str::to_owned).into(), expected.map(str::to_owned).into())
    );

    let strict = World::with(Setup { tools: vec![echo().arc()], repair: Some(RepairLevel::Off), ..Setup::default() });
    let outcome = strict.gate.call(&developer(), Call { arguments: r#"{"text":"a"}"#.into(), ..call }).await;
    assert_eq!(outcome.code(), Some(Code::InvalidJson), "an object is no text");
    assert_eq!(recorded(&strict, &outcome), [" name_prefix_stripped", " object_arguments"]);
}

#[test]
fn a_tool_that_changes_something_may_not_ask_for_lenient() {
    for risk in ["write", "dangerous"] {
        let case = json!({"risk": risk, "tool": "lenient"});
        let world = World::new([]);
        let error = world.gate.register(told(&case).arc()).unwrap_err();
        let error = BuildError { name: "tell".to_owned(), source: error }.to_string();
        assert!(error.contains("`repair` is `lenient`") && error.contains(&format!("risk is `{risk}`")), "{error}");
    }
    World::new([told(&json!({"tool": "lenient"})).arc(), echo().arc()]);
}

/// The cells of a row, without their code marks.
fn cells(row: &str) -> Vec<String> {
    let plain = |cell: &str| {
        let cell = cell.trim();
        let marks = Some(cell.len() - cell.trim_start_matches('`').len());
        let marks = marks.filter(|marks| cell.ends_with(&"`".repeat(*marks))).unwrap_or_default();
        let inside = cell.get(marks..cell.len() - marks).unwrap();
        inside.trim_matches(|c| marks > 1 && c == ' ').replace('⏎', "\n")
    };
    row.trim_matches('|').split(" | ").map(plain).collect()
}

/// What the gate makes of a text on a rung; nothing where it refuses it.
fn made(text: &str, schema: &Schema, level: RepairLevel) -> Option<(Value, Vec<Repair>)> {
    let repair::Parsed { mut value, mut repairs } = repair::arguments(text, level).ok()?;
    if level > RepairLevel::Off {
        repairs.extend(schema.coerce(&mut value));
    }
    schema.validate(&value).is_empty().then_some((value, repairs))
}

#[test]
fn the_page_says_what_the_code_does() {
    let page = include_str!("../../../../docs/repair.md");
    let table = page.lines().skip_while(|line| !line.starts_with("| rule |"));
    let rows: Vec<Vec<String>> = table.filter(|line| line.starts_with("| `")).map(cells).collect();
    let names: Vec<&str> = rows.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(names, RepairRule::ALL.iter().map(|rule| rule.as_str()).collect::<Vec<_>>());
    for (row, rule) in rows.iter().zip(RepairRule::ALL) {
        let [_, from, does, written, schema, becomes] = row.as_slice() else { panic!("{row:?}") };
        assert_eq!((from.as_str(), does.as_str()), (rule.level().as_str(), rule.does()), "{rule}");
        if written == "–" {
            continue;
        }
        let schema = if schema == "–" { json!({}) } else { serde_json::from_str(schema).unwrap() };
        let schema = Schema::compile(&json!({"type": "object", "properties": {"v": schema}})).unwrap();
        let (value, repairs) = made(written, &schema, rule.level()).unwrap_or_else(|| panic!("{rule}: {written}"));
        assert_eq!(value.to_string(), *becomes, "{rule}");
        assert_eq!(repairs.iter().map(|repair| repair.rule.as_str()).collect::<Vec<_>>(), [rule.as_str()]);
        for lower in [RepairLevel::Off, RepairLevel::Lossless].into_iter().filter(|lower| *lower < rule.level()) {
            let left = made(written, &schema, lower);
            assert!(left.is_none_or(|(_, repairs)| repairs.is_empty()), "{rule} is mended at {lower}");
        }
    }
}
