//! What stories are worth: a law that is only told of refusals says nothing of what runs.

use std::collections::BTreeMap;

use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::super::{answer, pass};
use super::*;

/// Tells a story to the reference alone, and counts how its calls ended.
fn tell(story: &Story, ends: &mut BTreeMap<String, usize>) {
    let (mut house, mut state) = (story.house.clone(), State::default());
    for step in &story.steps {
        match step {
            Step::Word(place, word) => {
                let Some(place) = question(*place, state.questions.len()) else { continue };
                let word = said(word, &state.questions[place]);
                let (is_taken, after) = answer(&state, place, &word);
                *ends.entry(format!("word, taken: {is_taken}")).or_default() += 1;
                state = after;
            }
            Step::Pass(by) => (state.wall, state.passed) = (state.wall + *by, state.passed + *by),
            Step::Back(by) => state.wall -= (*by).min(state.wall),
            Step::Change(place, change) => {
                let place = place % house.roles.len();
                change.apply(&mut house.roles[place]);
            }
            Step::Restart => state = state.restarted(),
            Step::List(_) | Step::Call(..) | Step::Again(..) => {
                let Some(asked) = story.asked(step, &state) else { continue };
                let (found, after) = pass(&house, &state, &asked);
                let end = match (found.code, found.recorded, found.question) {
                    (None, _, None) => "done".to_owned(),
                    (None, _, Some(_)) => "done under a yes".to_owned(),
                    (_, Some(recorded), _) => recorded.as_str().to_owned(),
                    (Some(code), None, _) => code.as_str().to_owned(),
                };
                *ends.entry(end).or_default() += 1;
                state = after;
            }
        }
    }
}

#[test]
fn stories_reach_every_end() {
    let (mut runner, mut ends) = (TestRunner::deterministic(), BTreeMap::new());
    for _ in 0..400 {
        tell(&story().new_tree(&mut runner).unwrap().current(), &mut ends);
    }
    for end in [
        "done",
        "done under a yes",
        "unknown_tool",
        "forbidden",
        "rate_limited",
        "invalid_json",
        "invalid_arguments",
        "denied",
        "approval_required",
        "approval_rejected",
        "approval_expired",
        "word, taken: true",
        "word, taken: false",
    ] {
        assert!(ends.get(end).is_some_and(|count| *count >= 10), "`{end}` is hardly reached: {ends:?}");
    }
}
