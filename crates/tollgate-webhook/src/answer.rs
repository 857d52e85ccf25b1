//! A signed answer: whether it is genuine, in time, and reads as one. What it does is not decided here.

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use tollgate_store::{Answer, Message};
use tollgate_types::{ApprovalId, Digest, limits, visible};

use crate::signature::Keys;

/// The type of an answer. It differs from that of a question: what we sent is no answer when it comes back.
pub(crate) const ANSWERED: &str = "approval.answered";

/// The longest id of a message.
const ID_CHARS_MAX: usize = 128;

/// What the three headers of a message say; none where a header is not there, is there twice, or is no text.
#[derive(Debug, Clone, Copy, Default)]
pub struct Headers<'a> {
    /// `webhook-id`.
    pub id: Option<&'a str>,
    /// `webhook-timestamp`, in seconds since 1970.
    pub timestamp: Option<&'a str>,
    /// `webhook-signature`.
    pub signature: Option<&'a str>,
}

/// An answer that is genuine.
#[derive(Debug, Clone)]
pub struct Received {
    /// The message, which counts once, and what it is about.
    pub message: Message,
    /// What the person said.
    pub answer: Answer,
}

/// Why an answer is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It is not signed.
    #[error("`{header}` is not there, is there twice, or is none")]
    Unsigned {
        /// The header that is amiss.
        header: &'static str,
    },
    /// Nobody who has a secret signed this.
    #[error("no signature of this message is right")]
    WrongSignature,
    /// It was signed too long ago, or not yet.
    #[error("the message is {seconds} s {direction}, and {max} s are allowed", max = limits::ANSWER_TOLERANCE_SECONDS)]
    Stale {
        /// How far it is away.
        seconds: i64,
        /// Where to.
        direction: &'static str,
    },
    /// It is signed, and no answer.
    #[error("the body is not an answer: {0}")]
    Malformed(String),
    /// It is signed, and for another question.
    #[error("the answer is to approval `{0}`, and was sent to another one")]
    Elsewhere(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    r#type: String,
    #[serde(default, rename = "timestamp")]
    _timestamp: Option<String>,
    data: Data,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Data {
    id: String,
    digest: String,
    decision: Decision,
    by: String,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    typed: Option<String>,
    /// The result of the call, where the question wants it.
    #[serde(default)]
    result: Option<Value>,
}

#[derive(Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Decision {
    Approve,
    Reject,
}

/// Reads an answer that was sent to the question `approval`.
pub(crate) fn read(
    keys: &Keys,
    approval: &str,
    headers: Headers<'_>,
    body: &[u8],
    now: Timestamp,
) -> Result<Received, Refusal> {
    let id = present(headers.id.filter(|id| is_id(id)), "webhook-id")?;
    let timestamp = present(headers.timestamp, "webhook-timestamp")?;
    let seconds = present(seconds(timestamp), "webhook-timestamp")?;
    let signature = present(headers.signature, "webhook-signature")?;
    // Whoever has no secret learns nothing but this.
    if !keys.has_signed(signature, id, timestamp, body) {
        return Err(Refusal::WrongSignature);
    }
    let age = now.as_second().saturating_sub(seconds);
    if age.abs() > limits::ANSWER_TOLERANCE_SECONDS {
        let direction = if age > 0 { "old" } else { "ahead of this server's clock" };
        return Err(Refusal::Stale { seconds: age.abs(), direction });
    }
    let body: Body = serde_json::from_slice(body).map_err(|error| Refusal::Malformed(error.to_string()))?;
    if body.r#type != ANSWERED {
        return Err(Refusal::Malformed(format!("its `type` is not `{ANSWERED}`")));
    }
    if body.data.id != approval {
        return Err(Refusal::Elsewhere(visible::line(&body.data.id)));
    }
    received(id, body.data)
}

fn received(id: &str, data: Data) -> Result<Received, Refusal> {
    let malformed = |what: String| Err(Refusal::Malformed(what));
    let by = data.by.trim();
    if !(1..=limits::APPROVER_CHARS_MAX).contains(&by.chars().count()) || by.chars().any(visible::is_hidden) {
        let max = limits::APPROVER_CHARS_MAX;
        return malformed(format!("`by` must name a person, in 1 to {max} characters that can be seen"));
    }
    if data.reason.as_ref().is_some_and(|reason| reason.chars().count() > limits::ANSWER_REASON_CHARS_MAX) {
        return malformed(format!("`reason` may have {} characters", limits::ANSWER_REASON_CHARS_MAX));
    }
    let approved = data.decision == Decision::Approve;
    if data.result.is_some() && !approved {
        return malformed("a no comes without a `result`".into());
    }
    let (approval, digest) = (ApprovalId::new(data.id), Digest::new(data.digest));
    Ok(Received {
        message: Message { id: id.to_owned(), approval, digest, result: data.result },
        answer: Answer { approved, by: by.to_owned(), reason: data.reason, typed: data.typed },
    })
}

fn present<T>(value: Option<T>, header: &'static str) -> Result<T, Refusal> {
    value.ok_or(Refusal::Unsigned { header })
}

/// A full stop would let one signature stand for another split of id and time.
fn is_id(id: &str) -> bool {
    (1..=ID_CHARS_MAX).contains(&id.len()) && id.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'.')
}

fn seconds(timestamp: &str) -> Option<i64> {
    timestamp.bytes().all(|byte| byte.is_ascii_digit()).then(|| timestamp.parse().ok()).flatten()
}
