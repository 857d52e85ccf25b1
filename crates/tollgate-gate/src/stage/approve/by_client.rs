//! Asks for an approval where the caller's own human is: by a form that the caller's client shows. Only where the operator
//! trusts the clients of the caller's role to ask a human, and never where one human is not enough.

use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollgate_types::{
    APPROVAL_QUESTION, ApprovalAnswer, ApprovalQuestion, ClientCapability, GoesOn, PeerQuestion, visible,
};

use crate::gate::Trip;

/// What a form shows of a call.
const SHOWN_CHARS_MAX: usize = 4_000;

#[derive(Deserialize)]
struct Answered {
    action: String,
    #[serde(default)]
    content: Option<Form>,
}

#[derive(Deserialize)]
struct Form {
    decision: String,
    #[serde(default)]
    reason: Option<String>,
    #[serde(default)]
    typed: Option<String>,
}

/// Whether the caller's client may be asked.
pub(super) fn may_ask(trip: Trip<'_>, approvers: u32) -> bool {
    let role = &trip.attempt.caller.role;
    let is_trusted = trip.gate.inner().clients_approve.iter().any(|trusted| trusted == role);
    is_trusted && approvers == 1 && trip.call.client.elicitation && trip.call.peer.is_some()
}

/// Asks. Whatever is no clear answer leaves the question open.
pub(super) async fn ask(trip: Trip<'_>, question: &ApprovalQuestion) -> ApprovalAnswer {
    let Some(peer) = &trip.call.peer else { return ApprovalAnswer::Later };
    let name = format!("{APPROVAL_QUESTION}{}", question.id);
    let mut form = PeerQuestion::new(ClientCapability::Elicitation, &form(question)).named(name);
    if trip.depth == 0 {
        form.goes_on = GoesOn::Anew; // nothing was done, and the store knows the question
    }
    let asked = peer.ask(form).await;
    let answered = asked.ok().and_then(|answer| serde_json::from_str::<Answered>(answer.get()).ok());
    let by = format!("{} (in their client)", trip.attempt.caller.subject);
    match answered.map(|Answered { action, content }| (action, content)) {
        Some((action, Some(Form { decision, reason, typed }))) if action == "accept" => match decision.as_str() {
            "approve" => ApprovalAnswer::Approved { by, typed },
            "reject" => ApprovalAnswer::Rejected { by, reason: reason.filter(|reason| !reason.trim().is_empty()) },
            _ => ApprovalAnswer::Later,
        },
        Some((action, _)) if action == "decline" => ApprovalAnswer::Rejected { by, reason: None },
        _ => ApprovalAnswer::Later,
    }
}

fn form(question: &ApprovalQuestion) -> Value {
    let decision = json!({
        "type": "string",
        "title": "Decision",
        "oneOf": [{ "const": "approve", "title": "Approve once" }, { "const": "reject", "title": "Reject" }],
    });
    let why = json!({ "type": "string", "title": "Why", "description": "Told to the model where you reject." });
    let mut properties = Map::from_iter([("decision".to_owned(), decision), ("reason".to_owned(), why)]);
    let mut required = vec!["decision"];
    if let Some(typed) = &question.typed {
        let wanted = format!("Type `{}` to approve.", visible::line(typed));
        let typed = json!({ "type": "string", "title": "Confirmation", "description": wanted });
        properties.insert("typed".to_owned(), typed);
        required.push("typed");
    }
    json!({
        "mode": "form",
        "message": message(question),
        "requestedSchema": { "type": "object", "properties": properties, "required": required },
    })
}

fn message(question: &ApprovalQuestion) -> String {
    let ApprovalQuestion { id, tool, risk, permission, arguments, preview, reason, expires, .. } = question;
    let mut text =
        format!("May `{tool}` run? Its risk is {risk}, and it needs {permission}.\n{}\n", visible::block(reason));
    let shown = preview.as_deref().map_or_else(|| visible::pretty(arguments), visible::block);
    let cut: String = shown.chars().take(SHOWN_CHARS_MAX).collect();
    // Writing to a string does not fail.
    let _ = write!(text, "\n{cut}\n");
    if cut.len() < shown.len() {
        let _ = writeln!(text, "… the rest is shown by `tollgate approvals show {id}`");
    }
    let _ = write!(text, "\nThe question stays open until {expires}: {id}");
    text
}
