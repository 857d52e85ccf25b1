//! A clock that jumps: the chain, the order and the checkpoints do not depend on it.

use tollgate_ledger::{Checkpointing, read, tail, verify};
use tollgate_testkit::TestClock;

use super::*;

/// Where the wall stands for one record after the other, in seconds since 1970.
const WALLS: [i64; 9] = [
    1_767_323_045,
    1_767_323_046,
    1_735_700_000,
    4_102_444_800,
    1_767_323_045,
    0,
    253_402_207_200,
    -62_135_596_800,
    1_767_323_047,
];

#[tokio::test]
async fn a_wall_clock_that_jumps_breaks_no_chain_loses_no_checkpoint_and_changes_no_order() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(TestClock::default());
    for round in 0..3 {
        let shared: Arc<dyn Clock> = clock.clone();
        let (ledger, _) = Ledger::open(folder.path(), shared).unwrap();
        for (step, wall) in WALLS.into_iter().enumerate() {
            clock.set(Timestamp::from_second(wall).unwrap());
            let attempt = format!("attempt-{round}-{step}");
            let both = vec![entry(Event::Received, &attempt), entry(Event::Finished, &attempt)];
            ledger.append(both, Durability::Strict).await.unwrap();
            ledger.checkpoint_now().await.unwrap();
            assert!(ledger.checkpoint_failure().is_none());
        }
    }
    check_chain(folder.path());
    let report = verify(folder.path()).unwrap();
    let covered = report.checkpoints.as_ref().unwrap();
    assert!(report.ok && covered.unproven == 0, "{report:?}");
    assert_eq!(covered.count, 1 + 3 * WALLS.len(), "the first of all, and one for each record that asked");
    checkpoints::check_checkpoints(folder.path());

    let wanted: Vec<_> =
        (0..3).flat_map(|round| (0..WALLS.len()).map(move |step| format!("attempt-{round}-{step}"))).collect();
    let attempts = |records: Vec<tollgate_ledger::Record>| -> Vec<String> {
        let mut attempts: Vec<_> = records.iter().map(|it| it.attempt().unwrap().to_owned()).collect();
        attempts.dedup();
        attempts
    };
    assert_eq!(attempts(read(folder.path()).map(Result::unwrap).collect()), wanted);
    assert_eq!(attempts(tail(folder.path(), 1_000).unwrap().0), wanted);
}

#[tokio::test]
async fn a_machine_that_slept_signs_at_once_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Arc::new(TestClock::default());
    let shared: Arc<dyn Clock> = clock.clone();
    let checkpointing = Checkpointing { every_records: 1, ..Checkpointing::default() };
    let options = Options { checkpointing, ..Options::default() };
    let ledger = Ledger::open_with(folder.path(), shared, options).unwrap().0;
    let mut told = ledger.checkpoints();
    for days in [1_u64, 365, 36_500] {
        clock.advance(Duration::from_secs(days * 86_400));
        ledger.append(vec![entry(Event::Observed, "x")], Durability::Strict).await.unwrap();
        told.changed().await.unwrap();
    }
    drop(ledger);
    let report = verify(folder.path()).unwrap();
    assert!(report.ok && report.checkpoints.unwrap().unproven == 0);
}
