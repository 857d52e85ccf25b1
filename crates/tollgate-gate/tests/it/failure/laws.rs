//! The laws of failing, over whatever sequence of faults: every call ends within its cap, has one outcome, leaves nothing
//! behind, and no effect that may not happen twice does.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;
use tollgate_types::{Call, CancellationToken, Clock, Risk, SourceKind};

use super::double::{Deeds, Fault, double, on_error, world};
use crate::world::{Setup, developer};

/// What a tool has to end by itself, and what timers are rounded up by.
const GRACE_MS: u64 = 750 + 10;

#[derive(Debug, Clone)]
struct Story {
    faults: Vec<Fault>,
    other: Vec<Fault>,
    risk: Risk,
    other_risk: Risk,
    repeatable: bool,
    timeout_ms: u64,
    idle_ms: Option<u64>,
    total_ms: Option<u64>,
    retries: u32,
    pause_ms: u64,
    has_fallback: bool,
    cancel_ms: Option<u64>,
}

fn stories() -> impl Strategy<Value = Story> {
    let fault = || prop::sample::select(Fault::ALL.to_vec());
    let risk = || prop::sample::select(vec![Risk::Read, Risk::Write]);
    let ms = || prop::option::of(1_u64..5_000);
    let tries = (prop::collection::vec(fault(), 1..5), prop::collection::vec(fault(), 1..3));
    (
        tries,
        (risk(), risk(), any::<bool>()),
        (1_u64..3_000, ms(), ms()),
        (0_u32..4, 0_u64..3_000),
        any::<bool>(),
        prop::option::weighted(0.3, 0_u64..8_000),
    )
        .prop_map(
            |(
                (faults, other),
                (risk, other_risk, repeatable),
                (timeout_ms, idle_ms, total_ms),
                (retries, pause_ms),
                has_fallback,
                cancel_ms,
            )| Story {
                faults,
                other,
                risk,
                other_risk,
                repeatable,
                timeout_ms,
                idle_ms,
                total_ms,
                retries,
                pause_ms,
                has_fallback,
                cancel_ms,
            },
        )
}

impl Story {
    /// The longest that one call may take.
    fn cap(&self) -> Duration {
        let pause = self.pause_ms.max(1_500) * 8;
        let tries = u64::from(self.retries + 1);
        let alone = tries * (self.timeout_ms + GRACE_MS) + tries * pause;
        let own = self.total_ms.map_or(alone, |total| alone.min(total + GRACE_MS));
        let other = if self.has_fallback { alone } else { 0 };
        let cap = self.total_ms.map_or(own + other, |total| (own + other).min(total + 2 * GRACE_MS));
        // Paused time goes on to the moment of cancelling whenever the call waits for its record, so that is when it is at least.
        Duration::from_millis(self.cancel_ms.map_or(cap, |cancel| cancel + 2 * GRACE_MS))
    }

    async fn told(self) {
        let deeds = [Arc::new(Deeds::default()), Arc::new(Deeds::default())];
        let retry = json!({"max": self.retries, "pause_ms": self.pause_ms});
        let mut ladder = json!({"network_error": {"retry": retry}, "timeout": {"retry": retry}, "rate_limit": {"retry": retry}, "default": {}});
        let plain = ladder.clone();
        if self.has_fallback {
            ladder["default"]["fallback"] = json!({"tool": "other"});
        }
        let tool = |name: &str, risk, faults: &[Fault], deeds, ladder| {
            double(name, risk, faults, deeds).define(|d| {
                d.source.kind = SourceKind::Builtin;
                d.idempotency.repeatable = self.repeatable;
                d.execution.timeout_ms = self.timeout_ms;
                d.execution.idle_timeout_ms = self.idle_ms;
                d.execution.total_timeout_ms = self.total_ms;
                d.on_error = on_error(ladder);
            })
        };
        let look = tool("look", self.risk, &self.faults, &deeds[0], ladder);
        let other = tool("other", self.other_risk, &self.other, &deeds[1], plain);
        let (world, clock) = world(Setup { tools: vec![look.arc(), other.arc()], ..Setup::default() });
        let (caller, stop) = (developer(), CancellationToken::new());
        let began = clock.monotonic();
        let mut call = std::pin::pin!(world.gate.call_until(&caller, Call::tool("look", json!({})), stop.clone()));
        let _outcome = match self.cancel_ms {
            None => call.await,
            Some(ms) => tokio::select! {
                biased;
                outcome = &mut call => outcome,
                () = tokio::time::sleep(Duration::from_millis(ms)) => {
                    stop.cancel();
                    call.await
                }
            },
        };
        let took = clock.monotonic() - began;
        assert!(took <= self.cap(), "{took:?} of {:?}", self.cap());
        world.gate.drain().await;
        let alive: usize = deeds.iter().map(|deeds| deeds.alive.load(Ordering::SeqCst)).sum();
        assert_eq!(alive, 0, "nothing is left running");
        self.check_effects(&deeds);
        let records = world.records();
        let of = |event: &str| {
            records
                .iter()
                .filter(|record| record["event"] == event)
                .map(|r| r["attempt"].as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        let (mut received, mut finished) = (of("received"), of("finished"));
        received.sort();
        finished.sort();
        assert_eq!(received, finished, "exactly one outcome each");
    }

    fn check_effects(&self, deeds: &[Arc<Deeds>; 2]) {
        let effects = |at: usize| deeds[at].effects.load(Ordering::SeqCst);
        let changes = |risk: Risk| risk != Risk::Read;
        if changes(self.risk) && !self.repeatable {
            assert!(effects(0) <= 1, "a change was made again");
            assert!(!changes(self.other_risk) || effects(0) + effects(1).min(1) <= 1, "and by another way");
        }
        if changes(self.other_risk) && !self.repeatable {
            assert!(effects(1) <= 1, "a change was made again");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn every_call_ends_once_within_its_cap_and_leaves_nothing_behind(story in stories()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        runtime.block_on(story.told());
    }
}
