//! The ledger as operators read it: records that are there, and records as they come.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::Uri;
use axum::response::Response;
use jiff::tz::TimeZone;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tollgate::ledger::{self, Attempt, Cursor, Filter, FilterError, Follower, Index, LedgerError, Record, View};

use super::parameters;
use crate::app::App;
use crate::limits::{EVENTS_PAUSE, RECORDS_DEFAULT, RECORDS_MAX, STREAM_QUEUE_MAX};
use crate::problem::Problem;
use crate::sse;

/// `GET /api/v1/audit`: what fits the filters, as attempts, newest first, or as their records; without filters, the last
/// records, oldest first. A time without a zone is meant in UTC.
pub(crate) async fn audit(State(app): State<Arc<App>>, uri: Uri) -> Result<Json<Value>, Problem> {
    const NAMES: [&str; 15] = {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = Filter::NAMES;
        ["view", "limit", "cursor", a, b, c, d, e, f, g, h, i, j, k, l]
    };
    let [view, limit, cursor, words @ ..] = parameters(&uri, NAMES)?;
    let view = match view.as_deref() {
        None | Some("records") => View::Records,
        Some("attempts") => View::Attempts,
        Some(_) => return Err(Problem::bad_request("`view` must be records or attempts")),
    };
    let limit = match limit {
        None => RECORDS_DEFAULT,
        Some(limit) => limit
            .parse()
            .ok()
            .filter(|limit| (1..=RECORDS_MAX).contains(limit))
            .ok_or_else(|| Problem::bad_request(format!("`limit` must be 1 to {RECORDS_MAX}")))?,
    };
    let cursor = cursor.map(|text| text.parse::<Cursor>().map_err(Problem::bad_request)).transpose()?;
    let now = app.clock.now().to_zoned_datetime(TimeZone::UTC);
    let mut filter = Filter::default();
    for (name, text) in Filter::NAMES.into_iter().zip(words) {
        if let Some(text) = text {
            let wrong = |error: FilterError| Problem::bad_request(format!("{error}: {}", error.hint()));
            filter.set(name, &text, &now).map_err(wrong)?;
        }
    }
    let data_dir = app.data_dir.clone();
    let answer = aside(move || answer(&data_dir, &filter, view, limit, cursor)).await;
    match answer {
        Ok(answer) => Ok(Json(answer)),
        Err(Some(LedgerError::Missing { .. })) if view == View::Records => Ok(Json(json!({ "records": [] }))),
        Err(Some(LedgerError::Missing { .. })) => Ok(Json(json!({ "attempts": [], "next": null }))),
        Err(error) => Err(problem(error)),
    }
}

fn answer(
    data_dir: &Path,
    filter: &Filter,
    view: View,
    limit: usize,
    cursor: Option<Cursor>,
) -> Result<Value, LedgerError> {
    if view == View::Records && filter.is_empty() && cursor.is_none() {
        let (records, _) = ledger::tail(data_dir, limit)?;
        return Ok(json!({ "records": records }));
    }
    let page = Index::open(data_dir, &mut |_, _| {})?.find(filter, view, limit, cursor)?;
    Ok(match view {
        View::Attempts => {
            let attempts: Vec<&Attempt> = page.found.iter().map(|found| &found.attempt).collect();
            json!({ "attempts": attempts, "next": page.next })
        }
        View::Records => {
            let records = page.found.iter().flat_map(|found| &found.records);
            let records: Vec<&Record> = records.filter(|record| filter.takes_event(record)).collect();
            json!({ "records": records, "next": page.next })
        }
    })
}

/// `GET /api/v1/events`: every record from now on, each as one event.
pub(crate) async fn events(State(app): State<Arc<App>>) -> Result<Response, Problem> {
    let place = app.listener()?;
    let data_dir = app.data_dir.clone();
    let mut follower = match aside({
        let data_dir = data_dir.clone();
        move || ledger::tail(&data_dir, 0)
    })
    .await
    {
        Ok((_, follower)) => Some(follower),
        Err(Some(LedgerError::Missing { .. })) => None,
        Err(error) => return Err(problem(error)),
    };
    let (out, records) = mpsc::channel(STREAM_QUEUE_MAX);
    let stop = app.stop.clone();
    app.tasks.spawn(async move {
        let _place = place;
        loop {
            tokio::select! {
                () = tokio::time::sleep(EVENTS_PAUSE) => {}
                () = out.closed() => return,
                () = stop.cancelled() => return,
            }
            match next(follower, data_dir.clone()).await {
                Ok((now, records)) => {
                    follower = now;
                    for record in records {
                        let text = serde_json::to_vec(&record).unwrap_or_default();
                        tokio::select! {
                            sent = out.send(text) => if sent.is_err() { return },
                            () = stop.cancelled() => return,
                        }
                    }
                }
                Err(error) => {
                    let error = error.map_or_else(|| "the reader broke off".to_owned(), |error| error.to_string());
                    let text = json!({ "ok": false, "error": "unavailable", "message": error }).to_string();
                    let _ = out.send(text.into_bytes()).await;
                    return;
                }
            }
        }
    });
    Ok(sse::response(records, ()))
}

type Step = (Option<Follower>, Vec<Record>);

/// What came since the last look. A ledger that was not there when the listener came is new as a whole.
async fn next(follower: Option<Follower>, data_dir: PathBuf) -> Result<Step, Option<LedgerError>> {
    aside(move || match follower {
        Some(mut follower) => follower.poll_new().map(|records| (Some(follower), records)),
        None => match ledger::tail(&data_dir, RECORDS_MAX) {
            Ok((records, follower)) => Ok((Some(follower), records)),
            Err(LedgerError::Missing { .. }) => Ok((None, Vec::new())),
            Err(error) => Err(error),
        },
    })
    .await
}

/// Reads files away from the async threads. The error is none when the reader broke off.
pub(super) async fn aside<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, LedgerError> + Send + 'static,
) -> Result<T, Option<LedgerError>> {
    tokio::task::spawn_blocking(read).await.map_err(|_| None)?.map_err(Some)
}

pub(super) fn problem(error: Option<LedgerError>) -> Problem {
    let message = error.as_ref().map_or_else(|| "the reader broke off".to_owned(), LedgerError::to_string);
    match error {
        Some(LedgerError::UnknownAttempt { .. }) => Problem::not_found(message),
        Some(LedgerError::AmbiguousAttempt { .. }) => Problem::bad_request(message),
        _ => Problem::unavailable(message),
    }
}
