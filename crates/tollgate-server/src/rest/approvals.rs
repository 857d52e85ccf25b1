//! `/api/v1/approvals`: questions to a human, and their answers: by an operator's key, or signed.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Uri};
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollgate::limits::ANSWER_REASON_CHARS_MAX;
use tollgate::store::{Answer, Approval, StoreError};
use tollgate::webhooks::{Headers, Refusal};
use tollgate::{OperatorError, Surface, visible};

use super::parameters;
use crate::app::App;
use crate::body;
use crate::entrance::Holder;
use crate::problem::Problem;

/// `GET /api/v1/approvals[?all=true]`: an operator sees every question, a client its own about what it may still use.
pub(crate) async fn approvals(
    State(app): State<Arc<App>>,
    Extension(holder): Extension<Holder>,
    uri: Uri,
) -> Result<Escaped, Problem> {
    let [all] = parameters(&uri, ["all"])?;
    let open_only = match all.as_deref() {
        None | Some("false") => true,
        Some("true") => false,
        Some(_) => return Err(Problem::bad_request("`all` must be true or false")),
    };
    let mut approvals = app.operator.approvals(open_only).await.map_err(problem)?;
    if !holder.is_operator() {
        let names = app.names_for(&holder).await;
        approvals.retain(|approval| is_own(&holder, approval) && names.contains(&approval.tool));
    }
    Escaped::new(&json!({ "approvals": approvals }))
}

/// `GET /api/v1/approvals/{id}`.
pub(crate) async fn approval(
    State(app): State<Arc<App>>,
    Extension(holder): Extension<Holder>,
    Path(id): Path<String>,
) -> Result<Escaped, Problem> {
    let found = app.operator.approval(&id).await.map_err(problem)?;
    let may_see = holder.is_operator() || is_own(&holder, &found) && app.names_for(&holder).await.contains(&found.tool);
    if !may_see {
        return Err(Problem::not_found("no approval has this id"));
    }
    Escaped::new(&found)
}

fn is_own(holder: &Holder, approval: &Approval) -> bool {
    let is_of_a_key = [Surface::McpHttp, Surface::Rest].iter().any(|surface| surface.as_str() == approval.surface);
    is_of_a_key && approval.subject == holder.name()
}

/// `POST /api/v1/approvals/{id}/approve`.
pub(crate) async fn approve(
    State(app): State<Arc<App>>,
    Extension(holder): Extension<Holder>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Escaped, Problem> {
    decide(&app, &holder, &id, true, body::optional_json(&headers, body).await?).await
}

/// `POST /api/v1/approvals/{id}/reject`.
pub(crate) async fn reject(
    State(app): State<Arc<App>>,
    Extension(holder): Extension<Holder>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Escaped, Problem> {
    decide(&app, &holder, &id, false, body::optional_json(&headers, body).await?).await
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Words {
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    typed: Option<String>,
    #[serde(default)]
    for_session: bool,
    /// The result of the call, where the question wants it.
    #[serde(default)]
    result: Option<Value>,
}

async fn decide(
    app: &App,
    holder: &Holder,
    id: &str,
    approved: bool,
    body: Option<Vec<u8>>,
) -> Result<Escaped, Problem> {
    let words: Words = match body {
        None => Words::default(),
        Some(body) => serde_json::from_slice(&body).map_err(|error| {
            Problem::bad_request(format!("the body is not {{\"reason\": …, \"typed\": …}}: {error}"))
        })?,
    };
    if words.reason.as_ref().is_some_and(|reason| reason.chars().count() > ANSWER_REASON_CHARS_MAX) {
        return Err(Problem::bad_request(format!("`reason` may have {ANSWER_REASON_CHARS_MAX} characters")));
    }
    let answer = Answer { approved, by: holder.name().to_owned(), reason: words.reason, typed: words.typed };
    if words.for_session && !approved {
        return Err(Problem::bad_request("a no is for one call: leave `for_session` out".to_owned()));
    }
    if words.result.is_some() && (words.for_session || !approved) {
        return Err(Problem::bad_request("a result comes with a yes for one call".to_owned()));
    }
    let answered = match (words.result, words.for_session) {
        (Some(result), _) => app.operator.give_result(id, answer, result).await,
        (None, true) => app.operator.approve_for_session(id, answer).await,
        (None, false) => app.operator.answer(id, answer).await,
    };
    Escaped::new(&answered.map_err(problem)?)
}

/// `POST /api/v1/approvals/{id}/answer`: what a person said to a system that shares the webhook's secret. It needs no key:
/// its signature is one.
pub(crate) async fn answer(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Escaped, Problem> {
    let Some(webhook) = &app.webhook else {
        return Err(Problem::not_found("signed answers are not taken here").with_hint("set [approvals.webhook]"));
    };
    let body = body::answer(&headers, body).await?;
    let _place = app.place()?;
    let signed = Headers {
        id: only(&headers, "webhook-id"),
        timestamp: only(&headers, "webhook-timestamp"),
        signature: only(&headers, "webhook-signature"),
    };
    let received = webhook.read(&id, signed, &body).map_err(refused)?;
    let answered = app.operator.answer_by_message(received.message, received.answer).await;
    Escaped::new(&answered.map_err(problem)?)
}

/// The value of a header that is there once.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let (value, None) = (values.next()?, values.next()) else { return None };
    value.to_str().ok()
}

fn refused(refusal: Refusal) -> Problem {
    let message = refusal.to_string();
    match refusal {
        Refusal::Unsigned { .. } => Problem::unsigned(message).with_hint("sign it as Standard Webhooks 1.0.0 says"),
        Refusal::WrongSignature => Problem::wrong_signature(message)
            .with_hint("sign `ID.TIMESTAMP.BODY`, the body byte for byte, with the secret of [approvals.webhook]"),
        Refusal::Stale { .. } => Problem::stale(message).with_hint("sign anew when you send again, and set the clock"),
        Refusal::Malformed(_) => Problem::bad_request(message).with_hint("docs/policy.md shows one"),
        Refusal::Elsewhere(_) => Problem::mismatch(message).with_hint("send it to the path that its question names"),
    }
}

fn problem(error: OperatorError) -> Problem {
    let message = error.to_string();
    match error {
        OperatorError::Store(StoreError::NotFound(_)) | OperatorError::NotUnsettled(_) => Problem::not_found(message),
        OperatorError::Store(StoreError::NotTyped { .. }) => {
            Problem::bad_request(message).with_hint("give it as `typed`")
        }
        OperatorError::Unfit(_) => Problem::bad_request(message).with_hint("`expects` of the question says what fits"),
        OperatorError::Store(StoreError::Conflict(_)) => Problem::conflict(message),
        OperatorError::Store(StoreError::Replayed { .. }) => {
            Problem::replayed(message).with_hint("an answer needs an id of its own")
        }
        OperatorError::Store(StoreError::Foreign(_)) => {
            Problem::mismatch(message).with_hint("give the `digest` of the question")
        }
        OperatorError::Store(StoreError::OwnCall { .. }) => {
            Problem::own_call(message).with_hint("another person must say yes")
        }
        OperatorError::Store(_) | OperatorError::Ledger(_) => Problem::unavailable(message),
    }
}

/// JSON that is safe to look at: what an asker wrote may hide nothing in it.
pub(crate) struct Escaped(String);

impl Escaped {
    fn new(value: &impl Serialize) -> Result<Self, Problem> {
        visible::json(value).map(Self).map_err(|error| Problem::unavailable(error.to_string()))
    }
}

impl IntoResponse for Escaped {
    fn into_response(self) -> Response {
        ([(CONTENT_TYPE, "application/json")], self.0).into_response()
    }
}
