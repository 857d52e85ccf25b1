//! `/api/v1`: calls, tools, approvals and the ledger. A call is answered with its outcome object and the status 200, no
//! matter how it ended; other statuses are about the request itself.

mod audit;

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Uri};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tollgate::store::{Answer, Approval, StoreError};
use tollgate::{Call, OperatorError, Outcome, Surface, ToolDefinition};
use url::form_urlencoded;

use crate::app::App;
use crate::body;
use crate::entrance::Holder;
use crate::limits::REASON_CHARS_MAX;
use crate::problem::Problem;

pub(crate) use audit::{audit, events};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked<'a> {
    tool: String,
    #[serde(borrow, default)]
    arguments: Option<&'a RawValue>,
    #[serde(default)]
    idempotency_key: Option<String>,
}

/// `POST /api/v1/calls`. When the client goes away the call is cancelled.
pub(crate) async fn call(
    State(app): State<Arc<App>>,
    Extension(holder): Extension<Holder>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Outcome>, Problem> {
    let body = body::json(&headers, body).await?;
    let _place = app.place()?;
    let asked: Asked<'_> = serde_json::from_slice(&body).map_err(|error| {
        Problem::bad_request(format!("the body is not a call: {error}"))
            .with_hint("send {\"tool\": …, \"arguments\": {…}, \"idempotency_key\": …}")
    })?;
    let arguments = asked.arguments.map(RawValue::get).unwrap_or_default();
    let mut call = Call::raw(asked.tool, arguments);
    call.idempotency_key = asked.idempotency_key;
    let caller = holder.caller(Surface::Rest);
    let call = app.door.call(&caller, call);
    let outcome = tokio::select! {
        outcome = app.tasks.track_future(call) => outcome,
        () = app.cut.cancelled() => return Err(Problem::unavailable("the server went down")),
    };
    Ok(Json(outcome))
}

/// `GET /api/v1/tools[?query=]`.
pub(crate) async fn tools(
    State(app): State<Arc<App>>,
    Extension(holder): Extension<Holder>,
    uri: Uri,
) -> Result<Json<Value>, Problem> {
    let [query] = parameters(&uri, ["query"])?;
    let mut tools = app.door.list(&holder.caller(Surface::Rest)).await;
    if let Some(query) = query {
        let query = query.to_lowercase();
        tools.retain(|tool| has(tool, &query));
    }
    let tools: Vec<&ToolDefinition> = tools.iter().map(|tool| &**tool).collect();
    Ok(Json(json!({ "tools": tools })))
}

fn has(tool: &ToolDefinition, query: &str) -> bool {
    let words = [Some(&tool.name), tool.title.as_ref(), Some(&tool.description), tool.when.as_ref()];
    let mut words = words.into_iter().flatten().chain(&tool.tags).chain(&tool.aliases);
    words.any(|text| text.to_lowercase().contains(query))
}

/// `GET /api/v1/approvals[?all=true]`: an operator sees every question, a client its own about what it may still use.
pub(crate) async fn approvals(
    State(app): State<Arc<App>>,
    Extension(holder): Extension<Holder>,
    uri: Uri,
) -> Result<Json<Value>, Problem> {
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
    Ok(Json(json!({ "approvals": approvals })))
}

/// `GET /api/v1/approvals/{id}`.
pub(crate) async fn approval(
    State(app): State<Arc<App>>,
    Extension(holder): Extension<Holder>,
    Path(id): Path<String>,
) -> Result<Json<Approval>, Problem> {
    let found = app.operator.approval(&id).await.map_err(problem)?;
    let may_see = holder.is_operator() || is_own(&holder, &found) && app.names_for(&holder).await.contains(&found.tool);
    if !may_see {
        return Err(Problem::not_found("no approval has this id"));
    }
    Ok(Json(found))
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
) -> Result<Json<Approval>, Problem> {
    answer(&app, &holder, &id, true, body::optional_json(&headers, body).await?).await
}

/// `POST /api/v1/approvals/{id}/reject`.
pub(crate) async fn reject(
    State(app): State<Arc<App>>,
    Extension(holder): Extension<Holder>,
    Path(id): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<Approval>, Problem> {
    answer(&app, &holder, &id, false, body::optional_json(&headers, body).await?).await
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
}

async fn answer(
    app: &App,
    holder: &Holder,
    id: &str,
    approved: bool,
    body: Option<Vec<u8>>,
) -> Result<Json<Approval>, Problem> {
    let words: Words = match body {
        None => Words::default(),
        Some(body) => serde_json::from_slice(&body).map_err(|error| {
            Problem::bad_request(format!("the body is not {{\"reason\": …, \"typed\": …}}: {error}"))
        })?,
    };
    if words.reason.as_ref().is_some_and(|reason| reason.chars().count() > REASON_CHARS_MAX) {
        return Err(Problem::bad_request(format!("`reason` may have {REASON_CHARS_MAX} characters")));
    }
    let answer = Answer { approved, by: holder.name().to_owned(), reason: words.reason, typed: words.typed };
    if words.for_session && !approved {
        return Err(Problem::bad_request("a no is for one call: leave `for_session` out".to_owned()));
    }
    let answered = match words.for_session {
        true => app.operator.approve_for_session(id, answer).await,
        false => app.operator.answer(id, answer).await,
    };
    answered.map(Json).map_err(problem)
}

fn problem(error: OperatorError) -> Problem {
    let message = error.to_string();
    match error {
        OperatorError::Store(StoreError::NotFound(_)) | OperatorError::NotUnsettled(_) => Problem::not_found(message),
        OperatorError::Store(StoreError::NotTyped { .. }) => {
            Problem::bad_request(message).with_hint("give it as `typed`")
        }
        OperatorError::Store(StoreError::Conflict(_)) => Problem::conflict(message),
        OperatorError::Store(_) | OperatorError::Ledger(_) => Problem::unavailable(message),
    }
}

/// The named parameters of a query. One that is not known, or there twice, is refused: it was meant to do something.
fn parameters<const N: usize>(uri: &Uri, names: [&str; N]) -> Result<[Option<String>; N], Problem> {
    let mut found = [const { None }; N];
    for (name, value) in form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes()) {
        let slot = names.iter().position(|known| *known == name).and_then(|place| found.get_mut(place));
        let Some(slot) = slot.filter(|slot: &&mut Option<String>| slot.is_none()) else {
            let message = format!("`{}` is not a parameter here, or is there twice", shortened(&name));
            return Err(Problem::bad_request(message));
        };
        *slot = Some(value.into_owned());
    }
    Ok(found)
}

fn shortened(name: &str) -> Cow<'_, str> {
    name.char_indices().nth(64).and_then(|(end, _)| name.get(..end)).map_or(Cow::Borrowed(name), Cow::Borrowed)
}
