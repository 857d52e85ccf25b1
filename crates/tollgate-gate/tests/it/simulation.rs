//! The state machine of calls, told as stories: processes that share a data folder, callers with keys, approvals, and deaths
//! at any step. A seed is a story; the clock is virtual, and each step is done before the next one begins, so that a seed
//! is told the same way again, as far as the system's own threads let it.
//!
//! `TOLLGATE_SEEDS=100000` tells more of them, `TOLLGATE_FIRST_SEED` says from which on; `TOLLGATE_SEED=17` tells one, and
//! what of it is not as the laws say.

#![expect(clippy::indexing_slicing, reason = "a test may stop at the first surprise")]

mod laws;
mod mortal;
mod process;
mod story;
mod teller;

use std::panic::AssertUnwindSafe;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use mortal::Killed;
use story::Story;

/// How many stories are told, where the environment does not say.
const SEEDS: u64 = 2_000;

fn told<T: std::str::FromStr>(variable: &str) -> Option<T> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}

/// Tells the story of a seed. What is wrong with it, if anything is.
fn fault(seed: u64) -> Option<String> {
    let story = Story::of(seed);
    let told = std::panic::catch_unwind(AssertUnwindSafe(|| teller::tell(&story)));
    let what = match told {
        Ok(Ok(_)) => return None,
        Ok(Err(what)) => what,
        Err(panic) if panic.is::<Killed>() => "a death went past the teller".to_owned(),
        Err(panic) => panic.downcast_ref::<String>().cloned().unwrap_or_else(|| "a panic, see above".to_owned()),
    };
    Some(format!(
        "seed {seed}: {what}\n{story}again: TOLLGATE_SEED={seed} cargo test -p tollgate-gate --test it simulation"
    ))
}

#[test]
fn every_seed_keeps_the_laws() {
    if let Some(seed) = told("TOLLGATE_SEED") {
        assert_eq!(fault(seed), None);
        return;
    }
    let first = told("TOLLGATE_FIRST_SEED").unwrap_or(0);
    let (end, next) = (first + told("TOLLGATE_SEEDS").unwrap_or(SEEDS), AtomicU64::new(first));
    let faults = Mutex::new(Vec::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end || faults.lock().unwrap().len() >= 3 {
                        return;
                    }
                    faults.lock().unwrap().extend(fault(seed));
                }
            });
        }
    });
    let faults = faults.into_inner().unwrap();
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
}

/// A seed would be worth little that tells another story each time. On a machine with much else to do a thread of the
/// ledger may come too late now and then, so that a death falls one step beside where it fell before.
#[test]
fn a_seed_is_told_the_same_way_again() {
    let (mut exact, mut same) = (0, 0);
    for seed in 0..100 {
        let story = Story::of(seed);
        let [first, second] = [teller::tell(&story).unwrap(), teller::tell(&story).unwrap()];
        if first.is_exact {
            exact += 1;
            same += usize::from(first == second);
        }
    }
    assert!(exact > 10 && same * 10 >= exact * 9, "of {exact} stories {same} were told the same way again");
}

/// The stories are about what the laws are about.
#[test]
fn the_stories_have_deaths_answers_and_replays() {
    let lines: Vec<String> = (0..200).flat_map(|seed| teller::tell(&Story::of(seed)).unwrap().lines).collect();
    let count = |what: &str| lines.iter().filter(|line| line.contains(what)).count();
    for what in
        ["ended without closing", "outcome_unknown", "started pay", "stored answer", "settled", "rejected", "cut"]
    {
        assert!(count(what) >= 3, "{what}: {}", count(what));
    }
}
