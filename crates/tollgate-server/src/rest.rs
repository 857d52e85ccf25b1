//! `/api/v1`: calls, tools, approvals and the ledger. A call is answered with its outcome object and the status 200, no
//! matter how it ended; other statuses are about the request itself.

mod approvals;
mod audit;
mod key;
mod servers;
mod undo;

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use axum::{Extension, Json};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tollgate::{Call, Outcome, Surface, ToolDefinition, TraceContext};
use url::form_urlencoded;

use crate::app::App;
use crate::body;
use crate::entrance::Holder;
use crate::problem::Problem;

/// What is said of a call that was cut off.
const WENT_DOWN: &str = "the server went down while the call ran: it may have happened in part; the ledger has it";

pub(crate) use approvals::{answer, approval, approvals, approve, reject};
pub(crate) use audit::{audit, events};
pub(crate) use servers::servers;
pub(crate) use undo::undo;

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
    let arguments = asked.arguments.map_or("{}", RawValue::get);
    let mut call = Call::raw(asked.tool, arguments);
    call.idempotency_key = key::given(&headers, asked.idempotency_key)?;
    call.trace = trace(&headers);
    let caller = holder.caller(Surface::Rest);
    let call = app.door.call(&caller, call);
    let outcome = tokio::select! {
        outcome = app.tasks.track_future(call) => outcome,
        () = app.cut.cancelled() => return Err(Problem::unavailable(WENT_DOWN)),
    };
    Ok(Json(outcome))
}

/// The client's place in a trace, where its headers say one (W3C Trace Context).
fn trace(headers: &HeaderMap) -> Option<TraceContext> {
    let all = |name| headers.get_all(name).iter().map(|value| value.to_str().unwrap_or_default());
    TraceContext::read(all("traceparent"), all("tracestate"))
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
