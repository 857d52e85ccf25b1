//! `tollgate approvals`: the operator's answers.

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
            let answered = match args.for_session {
                true => operator.approve_for_session(&args.id, answer(true, &args)).await?,
                false => operator.answer(&args.id, answer(true, &args)).await?,
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
        ApprovalsAction::Reject(args) => show(global, &operator.answer(&args.id, answer(false, &args)).await?)?,
    }
    Ok(0)
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
            status(approval),
            one_line(&approval.tool),
            one_line(&approval.arguments.to_string()).chars().take(80).collect(),
            one_line(&format!("{} ({})", approval.subject, approval.role)),
            approval.expires.strftime("%Y-%m-%d %H:%M UTC").to_string(),
        ]
    });
    output::out(&output::table(&["approval", "status", "tool", "arguments", "asker", "expires"], rows))
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
