//! Whether a model goes in circles: the same call with the same result again and again, also with others between.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::Value;
use tollgate_types::RepairLevel;
use tollgate_wire::{ModelCall, repair};

/// In how many turns the same call may bring the same result.
const TURNS_MAX: u32 = 3;

/// What was called so far, and how often it brought the same.
#[derive(Debug, Default)]
pub(super) struct Repetition {
    seen: Vec<Seen>,
}

#[derive(Debug)]
struct Seen {
    tool: String,
    /// Compared as values, so that spaces and the order of keys do not hide a repetition.
    arguments: Result<Value, String>,
    result: u64,
    turns: u32,
    is_in_this_turn: bool,
}

impl Repetition {
    /// Takes the calls of one turn with their results; names the tool that brought the same too often.
    pub(super) fn take<'a>(&mut self, calls: impl Iterator<Item = (&'a ModelCall, &'a str)>) -> Option<String> {
        self.seen.iter_mut().for_each(|seen| seen.is_in_this_turn = false);
        let mut stuck = None;
        for (call, result) in calls {
            let parsed = repair::arguments(&call.arguments, RepairLevel::Lenient).map(|parsed| parsed.value);
            let arguments = parsed.map_err(|_| call.arguments.clone());
            let mut hasher = DefaultHasher::new();
            result.hash(&mut hasher);
            let result = hasher.finish();
            let known = self
                .seen
                .iter_mut()
                .find(|seen| seen.result == result && seen.tool == call.name && seen.arguments == arguments);
            match known {
                // Several equal calls of one turn are one attempt: the model has not seen a result between them.
                Some(seen) if seen.is_in_this_turn => {}
                Some(seen) => {
                    seen.turns += 1;
                    seen.is_in_this_turn = true;
                    if seen.turns >= TURNS_MAX {
                        stuck = Some(call.name.clone());
                    }
                }
                None => {
                    let tool = call.name.clone();
                    self.seen.push(Seen { tool, arguments, result, turns: 1, is_in_this_turn: true });
                }
            }
        }
        stuck
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes turns of `tool arguments -> result`; answers the turn in which it is stuck.
    fn stuck_at(turns: &[&[(&str, &str, &str)]]) -> Option<usize> {
        let mut repetition = Repetition::default();
        turns.iter().position(|turn| {
            let calls: Vec<_> = turn
                .iter()
                .map(|(tool, arguments, result)| {
                    let call = ModelCall {
                        name: (*tool).to_owned(),
                        arguments: (*arguments).to_owned(),
                        ..ModelCall::default()
                    };
                    (call, *result)
                })
                .collect();
            repetition.take(calls.iter().map(|(call, result)| (call, *result))).is_some()
        })
    }

    #[test]
    fn circles_are_seen_and_progress_is_not_one() {
        let search = ("search", r#"{"q":"x","n":1}"#, "same");
        let search_too = ("search", r#"{ "n": 1, "q": "x" }"#, "same");
        let list = ("list", "{}", "same");
        let broken = ("search", "{q", "same");
        assert_eq!(stuck_at(&[&[search], &[search], &[search_too]]), Some(2));
        assert_eq!(stuck_at(&[&[search], &[search], &[list], &[search], &[list]]), Some(3));
        assert_eq!(stuck_at(&[&[broken], &[broken], &[broken]]), Some(2));
        assert_eq!(stuck_at(&[&[search, search, search], &[list]]), None);
        assert_eq!(stuck_at(&[&[search], &[("search", search.1, "other")], &[search], &[("list", "", "same")]]), None);
    }
}
