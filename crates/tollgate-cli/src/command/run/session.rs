//! The session of a run: a new one, or one that is gone on with as it was begun.

use tollgate::agent::{Progress, Session, SessionError, Start};
use tollgate::{Caller, Tollgate};

use crate::args::{Global, RunArgs};
use crate::command::user;
use crate::failure::Failure;

/// The session that is meant, where it is there already, and this person may go on with it in this way.
pub(super) async fn known(house: &Tollgate, global: &Global, args: &RunArgs) -> Result<Option<Session>, Failure> {
    let desk = house.sessions();
    let session = match (&args.resume, &args.session) {
        (Some(wanted), _) => Some(desk.resume(wanted).await?),
        (None, Some(name)) => desk.resume_named(name).await?,
        (None, None) => None,
    };
    if let Some(session) = &session {
        check(session, global, args)?;
    }
    Ok(session)
}

fn check(session: &Session, global: &Global, args: &RunArgs) -> Result<(), SessionError> {
    let (meta, label) = (session.meta(), session.label().to_owned());
    if meta.caller.subject != user() {
        return Err(SessionError::NotYours { session: label, owner: meta.caller.subject.clone() });
    }
    if global.role.as_ref().is_some_and(|role| *role != meta.caller.role) {
        // An approval is bound to the role.
        return Err(SessionError::Other { session: label, was: format!("in the role `{}`", meta.caller.role) });
    }
    if args.system.as_ref().is_some_and(|system| Some(system) != meta.system.as_ref()) {
        return Err(SessionError::Other { session: label, was: "with other instructions".into() });
    }
    if args.resume.is_some() && args.prompt.is_none() {
        return Ok(());
    }
    let what = match session.progress() {
        Progress::New | Progress::Told | Progress::Answered => return Ok(()),
        Progress::Asked => "a prompt".to_owned(),
        Progress::Open(1) => "a call".to_owned(),
        Progress::Open(count) => format!("{count} calls"),
    };
    Err(SessionError::Unanswered { session: label, what })
}

/// The same session, with the model that was asked for now.
pub(super) async fn under(house: &Tollgate, session: Session, model: &str) -> Result<Session, Failure> {
    if session.meta().model != model {
        house.sessions().set_model(&session, model).await?;
    }
    Ok(session)
}

/// A new one.
pub(super) async fn begin(house: &Tollgate, args: &RunArgs, caller: Caller, model: String) -> Result<Session, Failure> {
    let start = Start { name: args.session.clone(), caller, model, system: args.system.clone() };
    Ok(house.sessions().begin(start).await?)
}
