//! `list_approvals` and `answer_approval`: open questions to humans, for clients in which an operator sits.
//!
//! INVARIANT: nobody answers a call of their own. Whoever answers is another subject than whoever asked, and the role of
//! the one who answers names the tool itself.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tollgate_gate::{Operator, OperatorError};
use tollgate_store::Answer;
use tollgate_tools::native::tool_fn;
use tollgate_types::{
    Annotations, Code, Cx, Permission, Risk, Tool, ToolDefinition, ToolError, limits::ANSWER_REASON_CHARS_MAX,
};

use super::{named_alone, tells};

#[derive(Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Which {
    /// Also those that are answered or closed.
    #[serde(default)]
    all: bool,
}

#[derive(Deserialize, JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Word {
    /// The question's whole id, as `list_approvals` tells it.
    #[schemars(length(min = 1, max = 200))]
    id: String,
    /// Yes or no.
    approve: bool,
    /// Why, in the operator's words.
    #[serde(default)]
    #[schemars(length(max = 2000))]
    reason: Option<String>,
    /// What must be typed with a yes, where the question wants it.
    #[serde(default)]
    #[schemars(length(max = 2000))]
    typed: Option<String>,
}

pub(super) fn list(operator: Operator) -> Arc<dyn Tool> {
    let list = move |which: Which, _: Cx| {
        let operator = operator.clone();
        async move {
            let approvals = operator.approvals(!which.all).await.map_err(unfit)?;
            Ok(json!({ "approvals": approvals }))
        }
    };
    let tool =
        tool_fn("list_approvals", "Lists the calls that wait for a human, newest first, with what would run.", list);
    let tool =
        tool.when("Use it to show an operator what is open.", "Do not use it for your own call: ask that again.");
    Arc::new(tool.define(tells))
}

pub(super) fn answer(operator: Operator) -> Arc<dyn Tool> {
    let answer = move |word: Word, cx: Cx| {
        let operator = operator.clone();
        async move { answered(&operator, word, &cx).await }
    };
    let tool = tool_fn("answer_approval", "Says an operator's yes or no to a call that waits for a human.", answer);
    let tool = tool.when(
        "Use it only with the operator's own word on this very question, after they saw what would run.",
        "Never decide by yourself, and never for a call of your own.",
    );
    Arc::new(tool.define(answers))
}

fn answers(tool: &mut ToolDefinition) {
    (tool.risk, tool.permission) = (Risk::Dangerous, Permission::System);
    tool.annotations = Annotations { read_only: Some(false), open_world: Some(false), ..Annotations::default() };
    tool.errors.insert("OWN_CALL".into(), "nobody answers a call of their own".into());
    tool.errors.insert("NOT_OPEN".into(), "no open question has this id".into());
    named_alone(tool);
}

async fn answered(operator: &Operator, word: Word, cx: &Cx) -> Result<serde_json::Value, ToolError> {
    let none = || ToolError::new("no open question has this id").with_tool_code("NOT_OPEN").with_hint("list_approvals");
    let open = operator.approval(&word.id).await.map_err(|_| none())?;
    if open.id.as_str() != word.id {
        return Err(none());
    }
    if open.subject == cx.caller.subject {
        return Err(ToolError::with_code(Code::Denied, "nobody answers a call of their own").with_tool_code("OWN_CALL"));
    }
    if word.reason.as_ref().is_some_and(|reason| reason.chars().count() > ANSWER_REASON_CHARS_MAX) {
        return Err(ToolError::invalid("/reason", format!("at most {ANSWER_REASON_CHARS_MAX} characters")));
    }
    let by = cx.caller.subject.clone();
    let answer = Answer { approved: word.approve, by, reason: word.reason, typed: word.typed };
    let answered = operator.answer(open.id.as_str(), answer).await.map_err(unfit)?;
    Ok(json!({ "approval": answered }))
}

fn unfit(error: OperatorError) -> ToolError {
    let is_ours = matches!(error, OperatorError::Ledger(_));
    let error = ToolError::new(error.to_string());
    if is_ours { error.retryable() } else { error }
}
