//! An open question as it is sent: complete, redacted as it was stored, and with everything that an answer needs.

use serde_json::json;
use tollgate_store::Approval;
use tollgate_types::visible;

use crate::answer::ANSWERED;

/// The type of a question.
const REQUESTED: &str = "approval.requested";

/// The body. Hidden characters are escapes in it, so that it may be looked at; `text` may be shown to people as it is.
pub(crate) fn body(approval: &Approval) -> serde_json::Result<Vec<u8>> {
    let id = &approval.id;
    let message = json!({
        "type": REQUESTED,
        "timestamp": approval.created,
        "data": {
            "id": id,
            "kind": approval.kind,
            "tool": approval.tool,
            "risk": approval.risk,
            "permission": approval.permission,
            "reason": approval.reason,
            "caller": {
                "subject": approval.subject,
                "role": approval.role,
                "tenant": approval.tenant,
                "surface": approval.surface,
                "session": approval.session,
            },
            "arguments": approval.arguments,
            "preview": approval.preview,
            "text": approval.shown(),
            "typed": approval.typed,
            "approvers": approval.approvers,
            "yes_by": approval.yes_by,
            "tried": approval.tried,
            "expects": approval.expects,
            "attempt": approval.attempt,
            "pin": approval.pin,
            "digest": approval.digest,
            "created": approval.created,
            "expires": approval.expires,
            "answer": {
                "method": "POST",
                "path": format!("/api/v1/approvals/{id}/answer"),
                "type": ANSWERED,
                "command": format!("tollgate approvals approve {id}"),
            },
        },
    });
    visible::json(&message).map(String::into_bytes)
}
