//! What becomes of spans when the collector is slow, refuses, or is not there: the caller of `seen` is never kept.

use std::sync::Arc;
use std::time::Duration;

use tollgate_telemetry::{Counts, Settings, Telemetry, TelemetryError};
use tollgate_types::{Observer, Secret, limits};

use crate::collector::{Answer, Collector};
use crate::spans::call;

fn seen(telemetry: &Telemetry, calls: usize) {
    for _ in 0..calls {
        telemetry.seen(&Arc::new(call(telemetry, None)));
    }
}

#[tokio::test]
async fn what_a_collector_refuses_for_now_is_sent_again() {
    for status in [429, 502, 503, 504] {
        let mut collector = Collector::start([Answer::Status(status)]).await;
        let telemetry = Telemetry::start(&Settings::below(&collector.base())).unwrap();
        seen(&telemetry, 1);
        assert_eq!(collector.taken.recv().await.unwrap().spans.len(), 4, "{status}");
        telemetry.stop().await;
        assert_eq!(telemetry.counts(), Counts { sent: 1, failed: 0, dropped: 0 });
    }
}

#[tokio::test]
async fn what_a_collector_refuses_for_good_is_lost_and_counted() {
    for status in [400, 401, 404, 500, 307] {
        let mut collector = Collector::start([Answer::Status(status)]).await;
        let telemetry = Telemetry::start(&Settings::below(&collector.base())).unwrap();
        seen(&telemetry, 3);
        telemetry.stop().await;
        assert_eq!(telemetry.counts(), Counts { sent: 0, failed: 3, dropped: 0 }, "{status}");
        assert!(collector.taken.try_recv().is_err());
    }
}

#[tokio::test]
async fn a_batch_has_as_many_calls_as_fit_and_all_arrive() {
    let mut collector = Collector::start([]).await;
    let telemetry = Telemetry::start(&Settings::below(&collector.base())).unwrap();
    let calls = 2 * limits::TELEMETRY_BATCH_CALLS_MAX + 1;
    seen(&telemetry, calls);
    telemetry.stop().await;
    assert_eq!(telemetry.counts().sent, calls as u64);
    let mut spans = Vec::new();
    while let Ok(taken) = collector.taken.try_recv() {
        assert!(taken.spans.len() <= 4 * limits::TELEMETRY_BATCH_CALLS_MAX);
        spans.push(taken.spans.len());
    }
    assert_eq!((spans.len(), spans.iter().sum::<usize>()), (3, 4 * calls));
}

#[tokio::test]
async fn a_silent_collector_keeps_nobody_and_what_does_not_fit_is_counted() {
    let mut collector = Collector::start([Answer::Silence]).await;
    let mut settings = Settings::below(&collector.base());
    settings.timeout = Duration::from_secs(60);
    let telemetry = Telemetry::start(&settings).unwrap();
    seen(&telemetry, 1);
    collector.tries.recv().await.unwrap();
    // The first is under way and never ends; the queue takes so many, and no more.
    let more = 5;
    seen(&telemetry, limits::TELEMETRY_QUEUE_CALLS_MAX + more);
    assert_eq!(telemetry.counts(), Counts { sent: 0, failed: 0, dropped: more as u64 });
    telemetry.stop().await;
    let dropped = (1 + limits::TELEMETRY_QUEUE_CALLS_MAX + more) as u64;
    assert_eq!(telemetry.counts(), Counts { sent: 0, failed: 0, dropped }, "what is left at the end is counted too");
}

#[tokio::test]
async fn a_collector_that_is_not_there_costs_spans() {
    let gone = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let telemetry = Telemetry::start(&Settings::below(&format!("http://{gone}"))).unwrap();
    seen(&telemetry, 2);
    telemetry.stop().await;
    assert_eq!(telemetry.counts(), Counts { sent: 0, failed: 2, dropped: 0 });
}

#[tokio::test]
async fn headers_go_along_and_are_shown_to_nobody() {
    let mut collector = Collector::start([]).await;
    let mut settings = Settings::below(&collector.base());
    settings.headers = vec![("Authorization".into(), Secret::new("Bearer of-the-collector"))];
    let telemetry = Telemetry::start(&settings).unwrap();
    assert!(!format!("{settings:?} {telemetry:?}").contains("of-the-collector"));
    seen(&telemetry, 1);
    telemetry.stop().await;
    assert_eq!(collector.taken.recv().await.unwrap().headers["authorization"], "Bearer of-the-collector");
}

#[tokio::test]
async fn an_address_that_is_none_is_an_error() {
    for endpoint in ["collector:4318", "ftp://collector/v1/traces", "http://user@collector/v1/traces", ""] {
        let started = Telemetry::start(&Settings::at(endpoint));
        assert!(matches!(started, Err(TelemetryError::Endpoint(_))), "{endpoint}: {started:?}");
    }
}
