//! What was spent of budgets: never more than there is, by whomever and in whatever order.

#![expect(clippy::indexing_slicing, reason = "a test may stop at the first surprise")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::future::join_all;
use jiff::SignedDuration;
use proptest::prelude::*;
use tollgate_store::{Charge, Count, Spending, Store, StoreError, Unsettled};
use tollgate_types::{AttemptId, Units, limits};

use crate::{folder, now};

fn units(text: &str) -> Units {
    text.parse().unwrap()
}

fn count(budget: &str) -> Count {
    Count { budget: budget.into(), holder: r#"["bob"]"#.into(), day: "2026-11-30".into() }
}

fn charge(budget: &str, cost: Units, limit: Units) -> Charge {
    Charge { count: count(budget), cost, limit }
}

async fn spend(store: &Store, attempt: &str, charges: Vec<Charge>) -> Spending {
    store.spend(AttemptId::new(attempt), charges, now()).await.unwrap()
}

async fn spent(store: &Store, budget: &str) -> Units {
    store.spent(vec![count(budget)]).await.unwrap()[0]
}

#[tokio::test(flavor = "multi_thread")]
async fn of_those_who_race_for_the_last_unit_one_gets_it() {
    let (folder, store) = folder();
    spend(&store, "before", vec![charge("b", units("9"), units("10"))]).await;
    // Each has a connection of its own, as processes have.
    let races = (0..12).map(|number| {
        let store = Store::new(folder.path());
        async move { spend(&store, &format!("a{number}"), vec![charge("b", Units::ONE, units("10"))]).await }
    });
    let held = join_all(races).await.into_iter().filter(|spending| *spending == Spending::Held).count();
    assert_eq!((held, spent(&store, "b").await), (1, units("10")));
}

#[tokio::test]
async fn all_charges_are_held_or_none() {
    let (_folder, store) = folder();
    let charges =
        |cost: &str| vec![charge("wide", units(cost), units("100")), charge("narrow", units(cost), units("0.3"))];
    assert_eq!(spend(&store, "a", charges("0.1")).await, Spending::Held);
    assert_eq!(spend(&store, "b", charges("0.2")).await, Spending::Held);
    let short = Spending::Short { charge: 1, spent: units("0.3") };
    assert_eq!(spend(&store, "c", charges("0.000001")).await, short);
    assert_eq!((spent(&store, "wide").await, spent(&store, "narrow").await), (units("0.3"), units("0.3")));
}

#[tokio::test]
async fn what_never_ran_is_given_back_once_and_what_ran_never() {
    let (_folder, store) = folder();
    for attempt in ["never", "ran"] {
        spend(&store, attempt, vec![charge("b", units("4"), units("10"))]).await;
    }
    store.keep_spent(AttemptId::new("ran"), None).await.unwrap();
    for _ in 0..2 {
        store.give_back(AttemptId::new("never")).await.unwrap();
        store.give_back(AttemptId::new("ran")).await.unwrap();
        assert_eq!(spent(&store, "b").await, units("4"));
    }
}

#[tokio::test]
async fn what_a_dead_process_held_is_given_back_unless_it_was_started() {
    let (folder, store) = folder();
    for attempt in ["started", "never"] {
        spend(&store, attempt, vec![charge("b", units("4"), units("10"))]).await;
    }
    drop(store);
    let store = Store::new(folder.path());
    let [attempt, never] = ["started", "never"].map(AttemptId::new);
    let unknown = Unsettled {
        attempt: attempt.clone(),
        call_id: "c".into(),
        tool: "pay".into(),
        time: now().to_string(),
        caller: "bob".into(),
    };
    for _ in 0..2 {
        store.take_over(std::slice::from_ref(&unknown), std::slice::from_ref(&never)).unwrap();
        assert_eq!(spent(&store, "b").await, units("4"));
    }
    store.give_back(attempt).await.unwrap();
    assert_eq!(spent(&store, "b").await, Units::ZERO, "an operator found that it did not happen");
}

#[tokio::test]
async fn counts_are_told_apart_and_the_last_day_stands_first() {
    let (_folder, store) = folder();
    for (holder, day, cost) in
        [("[\"a\"]", "2026-11-29", "9"), ("[\"a\"]", "2026-11-30", "1"), ("[\"b\"]", "2026-11-30", "2")]
    {
        let count = Count { budget: "b".into(), holder: holder.into(), day: day.into() };
        spend(&store, "x", vec![Charge { count, cost: units(cost), limit: units("9") }]).await;
    }
    let all = store.spent_of("b".into()).await.unwrap();
    let all: Vec<_> = all.iter().map(|spent| (spent.count.holder.as_str(), spent.units.to_string())).collect();
    assert_eq!(all, [("[\"b\"]", "2".into()), ("[\"a\"]", "1".into()), ("[\"a\"]", "9".into())]);
    assert_eq!(store.spent_of("other".into()).await.unwrap(), []);
}

#[tokio::test]
async fn counts_are_forgotten_only_where_they_are_too_many() {
    let (folder, store) = folder();
    spend(&store, "a", vec![charge("old", Units::ONE, Units::ONE)]).await;
    let later = now() + SignedDuration::from_hours(24 * 400);
    let ahead =
        |budget: &str| store.spend(AttemptId::new("ahead"), vec![charge(budget, Units::ONE, Units::ONE)], later);
    assert_eq!(ahead("new").await.unwrap(), Spending::Held);
    assert_eq!(spent(&store, "old").await, Units::ONE, "the clock jumped ahead, and may come back");

    let database = rusqlite::Connection::open(folder.path().join("store.db")).unwrap();
    let fill = "with recursive n(i) as (select 3 union all select i + 1 from n where i < ?1) \
                insert into spending select 'full', i, '', 0, ?2 from n";
    database.execute(fill, (limits::SPENDING_COUNTS_MAX, later.as_microsecond())).unwrap();
    assert_eq!(ahead("newer").await.unwrap(), Spending::Held, "there is room once the old one is gone");
    assert_eq!(spent(&store, "old").await, Units::ZERO);
    let refused = ahead("newest").await;
    assert!(matches!(&refused, Err(StoreError::Limit(why)) if why.contains("100000 counts")), "{refused:?}");
    assert!(matches!(ahead("new").await.unwrap(), Spending::Short { .. }), "those that are there still count");
}

#[tokio::test]
async fn what_does_not_read_lets_nothing_through() {
    let (folder, store) = folder();
    spend(&store, "a", vec![charge("b", Units::ONE, units("10"))]).await;
    let database = rusqlite::Connection::open(folder.path().join("store.db")).unwrap();
    database.execute("update spending set spent = -5000000", []).unwrap();
    let refused = store.spend(AttemptId::new("x"), vec![charge("b", Units::ONE, units("10"))], now()).await;
    assert!(matches!(refused, Err(StoreError::Corrupt(_))), "{refused:?}");
}

#[tokio::test]
async fn a_store_of_the_third_format_is_brought_to_this_one() {
    let (folder, store) = folder();
    store.unsettled().await.unwrap();
    drop(store);
    let database = rusqlite::Connection::open(folder.path().join("store.db")).unwrap();
    let newer = "drop index idempotency_by_end; alter table idempotency drop column expires;";
    let older = "drop table spending; drop table spending_held; drop table deliveries; drop table messages; pragma user_version = 3";
    database.execute_batch(&format!("{} {newer} {older}", crate::WITHOUT_UNDOS)).unwrap();
    drop(database);
    let store = Store::new(folder.path());
    assert_eq!(spend(&store, "a", vec![charge("b", Units::ONE, Units::ONE)]).await, Spending::Held);
}

/// What may happen to a call under two budgets.
#[derive(Debug, Clone)]
enum Step {
    Spend { attempt: usize, cost: [u64; 2] },
    GiveBack(usize),
    Keep(usize, Option<u64>),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..6_usize, [1..6_000_000_u64, 1..6_000_000]).prop_map(|(attempt, cost)| Step::Spend { attempt, cost }),
        1 => (0..6_usize).prop_map(Step::GiveBack),
        1 => (0..6_usize, proptest::option::of(0..6_000_000_u64)).prop_map(|(attempt, to)| Step::Keep(attempt, to)),
    ]
}

const LIMITS: [u64; 2] = [10_000_000, 15_000_000];

/// The same in plain sums.
#[derive(Default)]
struct Model {
    sums: [u64; 2],
    held: BTreeMap<usize, [u64; 2]>,
}

impl Model {
    fn spend(&mut self, attempt: usize, cost: [u64; 2]) -> bool {
        let fits = (0..2).all(|at| self.sums[at] + cost[at] <= LIMITS[at]);
        if fits {
            let held = self.held.entry(attempt).or_default();
            for at in 0..2 {
                self.sums[at] += cost[at];
                held[at] += cost[at];
            }
        }
        fits
    }

    fn keep(&mut self, attempt: usize, came_to: u64) {
        let held = self.held.remove(&attempt).unwrap_or_default();
        (0..2).for_each(|at| self.sums[at] -= held[at].saturating_sub(came_to));
    }
}

fn micro(micro: u64) -> Units {
    Units::from_micro(micro).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn sums_are_those_of_plain_arithmetic(steps in proptest::collection::vec(step(), 1..16)) {
        static CASE: AtomicU32 = AtomicU32::new(0);
        let case = CASE.fetch_add(1, Ordering::Relaxed);
        let names = [format!("x{case}"), format!("y{case}")];
        let (folder, first) = folder();
        let stores = [first, Store::new(folder.path())];
        let mut model = Model::default();
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            for (turn, step) in steps.into_iter().enumerate() {
                let store = &stores[turn % 2];
                match step {
                    Step::Spend { attempt, cost } => {
                        let charge = |at: usize| charge(&names[at], micro(cost[at]), micro(LIMITS[at]));
                        let spending = spend(store, &attempt.to_string(), vec![charge(0), charge(1)]).await;
                        assert_eq!(spending == Spending::Held, model.spend(attempt, cost));
                    }
                    Step::GiveBack(attempt) => {
                        store.give_back(AttemptId::new(attempt.to_string())).await.unwrap();
                        model.keep(attempt, 0);
                    }
                    Step::Keep(attempt, came_to) => {
                        let came_to = came_to.map(micro);
                        store.keep_spent(AttemptId::new(attempt.to_string()), came_to).await.unwrap();
                        model.keep(attempt, came_to.map_or(u64::MAX, Units::micro));
                    }
                }
                for at in 0..2 {
                    assert_eq!(spent(store, &names[at]).await, micro(model.sums[at]));
                    assert!(model.sums[at] <= LIMITS[at]);
                }
            }
        });
    }

    #[test]
    fn whoever_comes_first_no_more_is_spent_than_there_is(costs in proptest::collection::vec(1..6_000_000_u64, 2..10)) {
        let (folder, store) = folder();
        tokio::runtime::Runtime::new().unwrap().block_on(async {
            let calls = costs.iter().enumerate().map(|(number, cost)| {
                let store = Store::new(folder.path());
                async move {
                    let charges = vec![charge("b", micro(*cost), micro(LIMITS[0]))];
                    let held = spend(&store, &number.to_string(), charges).await == Spending::Held;
                    if held && number % 3 == 0 {
                        store.give_back(AttemptId::new(number.to_string())).await.unwrap();
                        return 0;
                    }
                    if held { *cost } else { 0 }
                }
            });
            let sum: u64 = join_all(calls).await.into_iter().sum();
            assert_eq!(spent(&store, "b").await, micro(sum));
            assert!(sum <= LIMITS[0], "{sum}");
        });
    }
}
