//! `tollgate approvals`: the operator's answers.

use serde_json::Value;
use tollgate::WaitingKind;
use tollgate::store::{Answer, Approval, Grant};
use tollgate::visible::line as one_line;

use super::{configuration, open, user};
use crate::args::{AnswerArgs, ApprovalsAction, Format, Global};
use crate::failure::Failure;
use crate::output;
use crate::terminal;

pub(crate) async fn run(global: &Global, action: ApprovalsAction) -> Result<u8, Failure> {
    let loaded = configuration(global)?;
    if matches!(action, ApprovalsAction::List { .. }) && !loaded.data_dir().exists() {
        // To look makes no data folder.
        list(global, &[])?;
        return Ok(0);
    }
    let house = open(global, loaded).await?;
    let operator = house.operator();
    match action {
        ApprovalsAction::List { all } => {
            list(global, &operator.approvals(!all).await?)?;
        }
        ApprovalsAction::Show { id } => show(global, &operator.approval(&id).await?)?,
        ApprovalsAction::Approve(mut args) => {
            let open = operator.approval(&args.id).await?;
            if let (Some(expected), None) = (&open.typed, &args.typed) {
                args.typed = terminal::typed(&open.tool, expected);
            }
            let answered = match (&args.result, args.for_session) {
                (Some(result), _) => operator.give_result(&args.id, answer(true, &args), read(result)?).await?,
                (None, true) => operator.approve_for_session(&args.id, answer(true, &args)).await?,
                (None, false) => operator.answer(&args.id, answer(true, &args)).await?,
            };
            show(global, &answered)?;
        }
        ApprovalsAction::Grants => grants(global, &operator.grants().await?)?,
        ApprovalsAction::Revoke { id } => {
            let grant = operator.revoke(&id, &user()).await?;
            match output::format(global) {
                Format::Json => output::json(&grant)?,
                Format::Text => output::line(&format!("{} is asked for again: `{}`", grant.id, grant.tool))?,
            }
        }
        ApprovalsAction::Reject(args) if args.for_session => {
            return Err(Failure::usage("a no is for one call: leave --for-session out"));
        }
        ApprovalsAction::Reject(args) if args.result.is_some() => {
            return Err(Failure::usage("a no has no result: leave --result out, or approve with it"));
        }
        ApprovalsAction::Reject(args) => show(global, &operator.answer(&args.id, answer(false, &args)).await?)?,
    }
    Ok(0)
}

/// The result of a call, as the operator gives it.
fn read(given: &str) -> Result<Value, Failure> {
    serde_json::from_str(&super::call::read(given)?).map_err(|error| {
        Failure::usage(format!("--result is not JSON: {error}")).hint("a text is written with quotes: '\"sold out\"'")
    })
}

fn answer(approved: bool, args: &AnswerArgs) -> Answer {
    Answer { approved, by: user(), reason: args.reason.clone(), typed: args.typed.clone() }
}

fn list(global: &Global, approvals: &[Approval]) -> Result<(), Failure> {
    if output::format(global) == Format::Json {
        return output::json(&approvals);
    }
    if approvals.is_empty() {
        return output::line("no approvals are open");
    }
    let rows = approvals.iter().map(|approval| {
        vec![
            approval.id.to_string(),
            if approval.kind == WaitingKind::Approval { "a yes" } else { "a result" }.to_owned(),
            status(approval),
            one_line(&approval.tool),
            one_line(&approval.arguments.to_string()).chars().take(80).collect(),
            one_line(&format!("{} ({})", approval.subject, approval.role)),
            approval.expires.strftime("%Y-%m-%d %H:%M UTC").to_string(),
        ]
    });
    output::out(&output::table(&["approval", "asks for", "status", "tool", "arguments", "asker", "expires"], rows))
}

fn grants(global: &Global, grants: &[Grant]) -> Result<(), Failure> {
    if output::format(global) == Format::Json {
        return output::json(&grants);
    }
    if grants.is_empty() {
        return output::line("nothing is approved for the rest of a session");
    }
    let rows = grants.iter().map(|grant| {
        vec![
            grant.id.to_string(),
            one_line(&grant.tool),
            one_line(&format!("{} ({})", grant.subject, grant.role)),
            one_line(&grant.session),
            grant.left.to_string(),
            grant.expires.strftime("%Y-%m-%d %H:%M UTC").to_string(),
            one_line(&grant.by),
        ]
    });
    output::out(&output::table(&["grant", "tool", "caller", "session", "calls left", "until", "by"], rows))
}

fn status(approval: &Approval) -> String {
    serde_json::to_value(approval.status).ok().and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

fn show(global: &Global, approval: &Approval) -> Result<(), Failure> {
    if output::format(global) == Format::Json {
        return output::json(approval);
    }
    output::line(&approval.shown())
}
