//! In which order the calls of one batch run: side by side, but for those that would get into each other's way.
//!
//! Two calls get into each other's way when they use the same lane and one of them changes something. A tool that runs one
//! after the other is a lane; so is each value that stands where a definition's `execution.resources` point.

use std::collections::{HashMap, VecDeque};

use serde_json::Value;
use tollgate_types::{Concurrency, Risk, ToolDefinition};

/// What one call uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lanes {
    names: Vec<String>,
    is_read: bool,
}

impl Lanes {
    /// What a call with these arguments uses; none stands for arguments that are no JSON.
    pub fn of(definition: &ToolDefinition, arguments: Option<&Value>) -> Self {
        let resources = definition.execution.resources.iter().filter_map(|pointer| arguments?.pointer(pointer));
        let mut names: Vec<_> = resources.map(|value| format!("resource {}", spelled(value))).collect();
        let is_sequential = definition.execution.concurrency == Concurrency::Sequential;
        if is_sequential {
            names.push(format!("tool {}", definition.name));
        }
        Self { names, is_read: definition.risk == Risk::Read && !is_sequential }
    }

    /// What a call of a tool uses of which nothing is known yet.
    pub fn unknown(tool: &str) -> Self {
        Self { names: vec![format!("tool {tool}")], is_read: false }
    }
}

/// A value as a name: paths that only differ by a leading `./` are one.
fn spelled(value: &Value) -> String {
    match value {
        Value::String(text) => text.trim_start_matches("./").to_owned(),
        other => other.to_string(),
    }
}

/// The calls of a batch, by their places in it. Building it and running through it is linear in the calls and their lanes.
#[derive(Debug, Default)]
pub struct Schedule {
    /// Of how many earlier calls each one still waits for the end.
    awaited: Vec<usize>,
    /// Which later calls wait for each one.
    followers: Vec<Vec<usize>>,
    ready: VecDeque<usize>,
}

/// Who used a lane so far.
#[derive(Default)]
struct Lane {
    last_change: Option<usize>,
    reads_since: Vec<usize>,
}

impl Schedule {
    /// The order of calls that use these lanes.
    pub fn new(calls: impl IntoIterator<Item = Lanes>) -> Self {
        let mut schedule = Self::default();
        let mut lanes: HashMap<String, Lane> = HashMap::new();
        for (at, Lanes { names, is_read }) in calls.into_iter().enumerate() {
            schedule.awaited.push(0);
            schedule.followers.push(Vec::new());
            for name in names {
                let lane = lanes.entry(name).or_default();
                if is_read {
                    schedule.follow(lane.last_change, at);
                    lane.reads_since.push(at);
                } else {
                    // After reads it need not wait for the change before them: they did.
                    let reads = std::mem::take(&mut lane.reads_since);
                    let last = if reads.is_empty() { lane.last_change } else { None };
                    reads.into_iter().map(Some).chain([last]).for_each(|before| schedule.follow(before, at));
                    lane.last_change = Some(at);
                }
            }
        }
        let free = schedule.awaited.iter().enumerate().filter(|(_, awaited)| **awaited == 0);
        schedule.ready = free.map(|(at, _)| at).collect();
        schedule
    }

    fn follow(&mut self, before: Option<usize>, at: usize) {
        // A call may name one lane twice.
        let Some(before) = before.filter(|before| *before != at) else { return };
        if let (Some(followers), Some(awaited)) = (self.followers.get_mut(before), self.awaited.get_mut(at)) {
            followers.push(at);
            *awaited += 1;
        }
    }

    /// The next call that may begin now, in the order of the batch as far as that is possible.
    pub fn begin(&mut self) -> Option<usize> {
        self.ready.pop_front()
    }

    /// A call has ended, however it did.
    pub fn end(&mut self, at: usize) {
        for follower in self.followers.get_mut(at).map(std::mem::take).unwrap_or_default() {
            if let Some(awaited) = self.awaited.get_mut(follower) {
                *awaited -= 1;
                if *awaited == 0 {
                    self.ready.push_back(follower);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn lanes(names: &[u8], is_read: bool) -> Lanes {
        Lanes { names: names.iter().map(u8::to_string).collect(), is_read }
    }

    #[test]
    fn a_definition_says_what_is_in_the_way() {
        let mut write = ToolDefinition::new("write_file", "Writes.");
        write.risk = Risk::Write;
        write.execution.resources = vec!["/path".to_owned()];
        let mut read = write.clone();
        (read.name, read.risk) = ("read_file".to_owned(), Risk::Read);
        let of = |definition: &ToolDefinition, path: &str| Lanes::of(definition, Some(&json!({"path": path})));
        let order = |calls: [Lanes; 2]| {
            let mut schedule = Schedule::new(calls);
            (schedule.begin(), schedule.begin())
        };
        assert_eq!(order([of(&write, "a"), of(&read, "a")]), (Some(0), None));
        assert_eq!(order([of(&write, "./a"), of(&write, "a")]), (Some(0), None));
        assert_eq!(order([of(&write, "a"), of(&write, "b")]), (Some(0), Some(1)));
        assert_eq!(order([of(&read, "a"), of(&read, "a")]), (Some(0), Some(1)));
        assert_eq!(order([Lanes::of(&write, None), Lanes::of(&write, None)]), (Some(0), Some(1)));
        read.execution.concurrency = Concurrency::Sequential;
        assert_eq!(order([of(&read, "a"), of(&read, "b")]), (Some(0), None), "one after the other, reads too");
        assert_eq!(order([Lanes::unknown("x"), Lanes::unknown("x")]), (Some(0), None));
    }

    proptest! {
        /// Every call begins once; no two in each other's way overlap, and those keep their order.
        #[test]
        fn what_is_in_the_way_keeps_its_order(
            calls in prop::collection::vec((prop::collection::vec(0_u8..4, 0..3), any::<bool>()), 0..40),
            picks in prop::collection::vec(any::<prop::sample::Index>(), 200),
        ) {
            let mut schedule = Schedule::new(calls.iter().map(|(names, is_read)| lanes(names, *is_read)));
            let (mut running, mut begun, mut ended) = (Vec::new(), vec![false; calls.len()], vec![false; calls.len()]);
            let in_the_way = |a: usize, b: usize| {
                let (a, b) = (&calls[a], &calls[b]);
                !(a.1 && b.1) && a.0.iter().any(|name| b.0.contains(name))
            };
            for pick in picks {
                while let Some(at) = schedule.begin() {
                    prop_assert!(!std::mem::replace(&mut begun[at], true));
                    for before in (0..at).filter(|&before| in_the_way(before, at)) {
                        prop_assert!(ended[before], "{at} began before {before} had ended");
                    }
                    running.push(at);
                }
                if running.is_empty() { break }
                let at = running.swap_remove(pick.index(running.len()));
                ended[at] = true;
                schedule.end(at);
            }
            prop_assert!(ended.iter().all(|ended| *ended) || calls.len() > 200);
        }
    }
}
