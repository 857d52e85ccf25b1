//! Why a request itself is not served, as it goes out: never the outcome of a call, which is a 200.

use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// What a request is told instead of an answer.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    error: &'static str,
    message: String,
    hint: Option<&'static str>,
}

macro_rules! problems {
    ($($(#[doc = $doc:literal])+ $name:ident = $status:ident, $error:literal;)+) => {
        impl Problem {
            $($(#[doc = $doc])+ pub(crate) fn $name(message: impl Into<String>) -> Self {
                Self { status: StatusCode::$status, error: $error, message: message.into(), hint: None }
            })+
        }
    };
}

problems! {
    /// The request cannot be read.
    bad_request = BAD_REQUEST, "bad_request";
    /// Nobody may come in without a key.
    unauthorized = UNAUTHORIZED, "unauthorized";
    /// Nobody whom we know signed this.
    unsigned = UNAUTHORIZED, "unsigned";
    /// It was signed with another secret.
    wrong_signature = FORBIDDEN, "wrong_signature";
    /// It was signed at another time.
    stale = PRECONDITION_FAILED, "stale";
    /// It came before.
    replayed = CONFLICT, "replayed";
    /// It is about something else.
    mismatch = UNPROCESSABLE_ENTITY, "mismatch";
    /// Who asks says yes.
    own_call = FORBIDDEN, "own_call";
    /// This key, host or origin may not.
    forbidden = FORBIDDEN, "forbidden";
    /// There is nothing of this name.
    not_found = NOT_FOUND, "not_found";
    /// It was answered before.
    conflict = CONFLICT, "conflict";
    /// The body did not come in time.
    timeout = REQUEST_TIMEOUT, "timeout";
    /// The body is too long.
    too_large = PAYLOAD_TOO_LARGE, "too_large";
    /// The body is not JSON.
    unsupported = UNSUPPORTED_MEDIA_TYPE, "unsupported_media_type";
    /// More at once than can be.
    too_many = TOO_MANY_REQUESTS, "too_many_requests";
    /// What is needed cannot be had now.
    unavailable = SERVICE_UNAVAILABLE, "unavailable";
}

impl Problem {
    pub(crate) fn with_hint(mut self, hint: &'static str) -> Self {
        self.hint = Some(hint);
        self
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let body = json!({ "ok": false, "error": self.error, "message": self.message, "hint": self.hint });
        let mut response = (self.status, axum::Json(body)).into_response();
        let headers = response.headers_mut();
        match self.status {
            // RFC 6750 §3.
            StatusCode::UNAUTHORIZED => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"tollgate\""));
            }
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            _ => {}
        }
        response
    }
}
