//! The body of a request: JSON, within its size and time.

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use futures_util::StreamExt;
use tokio::time::timeout;
use tollgate::limits::{ANSWER_BYTES_MAX, FRAME_BYTES_MAX};

use crate::limits::BODY_TIMEOUT;
use crate::problem::Problem;

/// The body, which must say that it is JSON.
pub(crate) async fn json(headers: &HeaderMap, body: Body) -> Result<Vec<u8>, Problem> {
    only_json(headers, body, FRAME_BYTES_MAX).await
}

/// The same for a signed answer, of which little is expected.
pub(crate) async fn answer(headers: &HeaderMap, body: Body) -> Result<Vec<u8>, Problem> {
    only_json(headers, body, ANSWER_BYTES_MAX).await
}

async fn only_json(headers: &HeaderMap, body: Body, bytes_max: usize) -> Result<Vec<u8>, Problem> {
    if !is_json(headers) {
        return Err(Problem::unsupported("the body must be JSON").with_hint("send `Content-Type: application/json`"));
    }
    read(headers, body, bytes_max).await
}

/// The body, JSON if there is one.
pub(crate) async fn optional_json(headers: &HeaderMap, body: Body) -> Result<Option<Vec<u8>>, Problem> {
    let body = read(headers, body, FRAME_BYTES_MAX).await?;
    match (body.trim_ascii().is_empty(), is_json(headers)) {
        (true, _) => Ok(None),
        (false, true) => Ok(Some(body)),
        (false, false) => Err(Problem::unsupported("the body must be JSON")),
    }
}

/// A form or a plain text could be sent by any page without asking; `application/json` cannot (Fetch, CORS-safelisted
/// request headers).
fn is_json(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(CONTENT_TYPE).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return false };
    let essence = value.to_str().unwrap_or_default().split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

async fn read(headers: &HeaderMap, body: Body, bytes_max: usize) -> Result<Vec<u8>, Problem> {
    let too_large = || Problem::too_large(format!("a body may have {bytes_max} bytes"));
    let declared = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if declared.is_some_and(|declared| declared > bytes_max) {
        return Err(too_large());
    }
    let reading = async {
        let mut whole = Vec::with_capacity(declared.unwrap_or_default());
        let mut chunks = body.into_data_stream();
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(|_| Problem::bad_request("the body broke off"))?;
            if whole.len() + chunk.len() > bytes_max {
                return Err(too_large());
            }
            whole.extend_from_slice(&chunk);
        }
        Ok(whole)
    };
    timeout(BODY_TIMEOUT, reading).await.unwrap_or_else(|_| Err(Problem::timeout("the body did not come in time")))
}
