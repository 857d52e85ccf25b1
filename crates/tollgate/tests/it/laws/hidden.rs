//! A tool that a caller may not list leaves no trace: to the caller, a house that keeps tools from it is a house that
//! does not have them.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tollgate::{Caller, Code, Door, Outcome, Permission, Risk, Selection, Surface, ToolDefinition, View};
use tollgate_testkit::reference::any::{self, Step, Story, at};
use tollgate_testkit::reference::{Arguments, Asked, House, State, listed, registered};

use super::told;
use super::world::{World, call};

/// An outcome without what no two have in common.
fn bare(outcome: &Outcome, ids: &mut BTreeMap<String, usize>) -> Value {
    let mut value = serde_json::to_value(outcome).unwrap();
    for key in ["attempt", "call_id", "duration_ms"] {
        value.as_object_mut().unwrap().remove(key);
    }
    let Some(id) = value.pointer("/waiting/id").and_then(Value::as_str).map(str::to_owned) else { return value };
    let number = ids.len();
    let number = *ids.entry(id.clone()).or_insert(number);
    serde_json::from_str(&value.to_string().replace(&id, &format!("question {number}"))).unwrap()
}

/// What one caller gets to see of a house.
async fn seen(door: &dyn Door, story: &Story, caller: &Caller) -> Vec<Value> {
    let (mut ids, mut seen) = (BTreeMap::new(), Vec::new());
    for step in &story.steps {
        if let Step::List(_) = step {
            let tools: Vec<Arc<ToolDefinition>> = door.list(caller).await;
            seen.push(json!(tools.iter().map(|tool| json!(**tool)).collect::<Vec<_>>()));
        }
        if let Some(asked) = story.asked(step, &State::default()) {
            let asked = Asked { caller: caller.clone(), ..asked };
            seen.push(bare(&door.call(caller, call(&asked)).await, &mut ids));
        }
    }
    seen
}

proptest! {
    #![proptest_config(told(16))]

    #[test]
    fn what_is_not_listed_leaves_no_trace(story in any::story(), caller in any::<u8>()) {
        let runtime = Runtime::new().unwrap();
        runtime.block_on(async {
            let Some(caller) = at(&story.callers, caller.into()) else { return Ok(()) };
            let mut whole = story.house.clone();
            let visible = listed(&whole, caller);
            let kept: Vec<ToolDefinition> = registered(&whole).into_iter().cloned().collect();
            let kept = kept.into_iter().filter(|tool| visible.contains(&tool.name)).collect();
            let mut pruned = House { tools: kept, ..whole.clone() };
            let (whole, pruned) = (World::new(&mut whole).await, World::new(&mut pruned).await);
            // The same questions in both: names of what is in the whole house, hidden or not.
            let one = seen(&whole.house, &story, caller).await;
            let other = seen(&pruned.house, &story, caller).await;
            prop_assert_eq!(one, other);
            Ok(())
        })?;
    }
}

fn tool(name: &str) -> ToolDefinition {
    let mut tool = ToolDefinition::new(name, "Does what its name says.");
    (tool.risk, tool.permission) = (Risk::Read, Permission::Read);
    tool
}

/// A door to some of the tools hides the others as a policy does: its advice does not name them.
#[tokio::test]
async fn a_door_to_some_tools_says_nothing_of_the_others() {
    let names = ["calc_sum", "calc_sums", "make_sum", "read_sum"];
    let mut plan = House { tools: names.iter().map(|name| tool(name)).collect(), ..House::default() };
    let world = World::new(&mut plan).await;
    let some = View::new(world.house.door(), Selection::of_tools(&["calc_s*".to_owned(), "x*".to_owned()]).unwrap());
    let ada = Caller::new("ada", "developer", Surface::Library);
    let said = async |name: &str| {
        let asked = Asked { caller: ada.clone(), name: name.into(), arguments: Arguments::Missing };
        let outcome = some.call(&ada, call(&asked)).await;
        let error = outcome.end.error().unwrap().clone();
        assert_eq!(error.error, Code::UnknownTool, "{name}");
        (error.message.replace(name, "NAME"), error.hint.unwrap_or_default())
    };
    for asked in ["make_sum", "make_sun", "xmake_sum", "calc_sumx", "read_sum", "read_sux", "xx"] {
        let (message, hint) = said(asked).await;
        assert_eq!(message, "no tool is named `NAME`");
        assert!(!hint.contains("make_sum") && !hint.contains("read_sum"), "{asked}: {hint}");
    }
    assert_eq!(said("calc_sumx").await.1, "did you mean `calc_sum` or `calc_sums`?");
    // One that is there and one that is not, by the same letters.
    assert_eq!(said("make_sum").await, said("make_sux").await);
    let long = "y".repeat(500);
    assert!(said(&long).await.0.len() < 100, "a long name is cut");
}
