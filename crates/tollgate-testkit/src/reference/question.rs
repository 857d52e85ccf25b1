//! Questions to humans: what a yes is worth, for whom, for how long and how often.

use std::time::Duration;

use tollgate_types::{Caller, Code, ToolDefinition};

use super::{Arguments, Asked, State};

/// How long a question, and the yes to it, stands.
const STANDS: Duration = Duration::from_secs(24 * 60 * 60);
/// How long a yes for a session stands, and for how many calls.
const GRANT_STANDS: Duration = Duration::from_secs(60 * 60);
const GRANT_CALLS: u32 = 100;
/// A clock that goes back further than this makes ages unknown.
const CLOCK_BACK: Duration = Duration::from_secs(60);

/// A question that was put to humans.
#[derive(Debug, Clone)]
pub struct Question {
    /// The call that it is about.
    pub asked: Asked,
    /// How many persons must say yes.
    pub approvers: u32,
    /// What must be typed.
    pub typed: Option<String>,
    created: Duration,
    yes_by: Vec<String>,
    standing: Standing,
    grant: Option<Grant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Standing {
    Open,
    Yes,
    No,
    /// Nobody answered, or nobody used the yes, in time.
    Over,
    /// It was used up, or told.
    Used,
}

#[derive(Debug, Clone, Copy)]
struct Grant {
    begins: Duration,
    left: u32,
}

/// A human's word.
#[derive(Debug, Clone)]
pub struct Word {
    /// Whose.
    pub by: String,
    /// Yes or no.
    pub approved: bool,
    /// What they typed.
    pub typed: Option<String>,
    /// A yes for the rest of the session.
    pub for_session: bool,
}

fn is_over(wall: Duration, begins: Duration, stands: Duration) -> bool {
    wall >= begins + stands || begins > wall + CLOCK_BACK
}

/// What is seen to be over stays so, whatever the clock says later.
fn close(state: &mut State) {
    for question in &mut state.questions {
        let is_waiting = matches!(question.standing, Standing::Open | Standing::Yes);
        if is_waiting && is_over(state.wall, question.created, STANDS) {
            question.standing = Standing::Over;
        }
    }
}

/// Everything of a caller but the session.
fn is_same(one: &Caller, other: &Caller) -> bool {
    (&one.subject, &one.role, &one.tenant, one.surface) == (&other.subject, &other.role, &other.tenant, other.surface)
}

/// The question that a call has, and why it may not run, if so. A yes and a no are used up by this.
pub(super) fn claim(state: &mut State, asked: &Asked, tool: &ToolDefinition) -> (usize, Option<Code>) {
    close(state);
    let fits = |question: &Question| {
        question.standing != Standing::Used
            && is_same(&question.asked.caller, &asked.caller)
            && question.asked.name == asked.name
            && question.asked.arguments == asked.arguments
    };
    let Some((place, question)) = state.questions.iter_mut().enumerate().find(|(_, question)| fits(question)) else {
        state.questions.push(put(state.wall, asked, tool));
        return (state.questions.len() - 1, Some(Code::ApprovalRequired));
    };
    let refusal = match question.standing {
        Standing::Open => return (place, Some(Code::ApprovalRequired)),
        Standing::Yes | Standing::Used => None,
        Standing::No => Some(Code::ApprovalRejected),
        Standing::Over => Some(Code::ApprovalExpired),
    };
    question.standing = Standing::Used;
    (place, refusal)
}

fn put(wall: Duration, asked: &Asked, tool: &ToolDefinition) -> Question {
    let value = |pointer: &str| match (&asked.arguments, pointer) {
        (Arguments::Fit { n, .. }, "/n") => n.to_string(),
        _ => tool.name.clone(),
    };
    Question {
        asked: asked.clone(),
        approvers: tool.security.approvers.map_or(1, std::num::NonZeroU32::get),
        typed: tool.security.typed_confirmation.as_deref().map(value),
        created: wall,
        yes_by: Vec::new(),
        standing: Standing::Open,
        grant: None,
    }
}

/// Whether a yes for the session covers the call. It is used by this.
pub(super) fn granted(state: &mut State, asked: &Asked, tool: &ToolDefinition) -> bool {
    let wants_more = tool.security.typed_confirmation.is_some() || tool.security.approvers.is_some_and(|n| n.get() > 1);
    if wants_more || asked.caller.session.is_none() {
        return false;
    }
    let wall = state.wall;
    for question in &mut state.questions {
        let fits = question.asked.caller == asked.caller && question.asked.name == asked.name;
        let Some(grant) = question.grant.as_mut().filter(|_| fits) else { continue };
        if is_over(wall, grant.begins, GRANT_STANDS) {
            grant.left = 0;
        }
        if grant.left > 0 {
            grant.left -= 1;
            return true;
        }
    }
    false
}

/// Whether an operator's word on a question is taken, and what has happened then.
pub fn answer(before: &State, place: usize, word: &Word) -> (bool, State) {
    let mut state = before.clone();
    close(&mut state);
    let wall = state.wall;
    let Some(question) = state.questions.get_mut(place) else { return (false, state) };
    let is_plain = question.typed.is_none() && question.approvers == 1;
    let is_enough = !word.approved || question.typed.is_none() || question.typed == word.typed;
    let is_taken = question.standing == Standing::Open
        && is_enough
        && !(word.approved && question.yes_by.contains(&word.by))
        && !(word.for_session && !(is_plain && question.asked.caller.session.is_some()));
    if !is_taken {
        return (false, state);
    }
    if !word.approved {
        question.standing = Standing::No;
        return (true, state);
    }
    question.yes_by.push(word.by.clone());
    if question.yes_by.len() >= question.approvers as usize {
        question.standing = Standing::Yes;
    }
    if word.for_session {
        question.standing = Standing::Used;
        question.grant = Some(Grant { begins: wall, left: GRANT_CALLS });
    }
    (true, state)
}
