//! The reference gate: what the gate must answer, as a function from a house, what has happened, and a call. It runs no
//! tool, keeps no record and shares nothing with the product but the words of `tollgate-types`.
//!
//! Use it to check the product step by step: [`pass`] for a call, [`answer`] for an operator's word, [`listed`] for a
//! listing. [`any`] makes houses and steps for property tests. What it leaves out is out of its language: rules in Cedar,
//! idempotency keys, taint, and what a tool itself makes of a call; here every tool takes [`Arguments`] and succeeds.
//!
//! ```
//! use std::time::Duration;
//! use tollgate_testkit::reference::{Arguments, Asked, House, State, pass};
//! use tollgate_types::{Caller, Code, Surface, ToolDefinition};
//!
//! let house = House { tools: vec![ToolDefinition::new("pay", "Pays.")], ..House::default() };
//! let arguments = Arguments::Fit { n: 1, note: String::new() };
//! let asked = Asked { caller: Caller::new("ada", "developer", Surface::Cli), name: "pay".into(), arguments };
//! let (answer, state) = pass(&house, &State::default(), &asked);
//! assert_eq!((answer.code, answer.question), (Some(Code::ApprovalRequired), Some(0)));
//! let nobody = Caller::new("ada", "reader", Surface::Cli);
//! assert_eq!(pass(&house, &state, &Asked { caller: nobody, ..asked }).0.code, Some(Code::UnknownTool));
//! ```

pub mod any;
mod question;

use std::collections::BTreeMap;
use std::time::Duration;

use tollgate_types::{Caller, Code, Permission, Risk, SourceKind, ToolDefinition};

pub use question::{Question, Word, answer};
use question::{claim, granted};

/// What is configured.
#[derive(Debug, Clone, Default)]
pub struct House {
    /// The tools that are offered, in the order in which they are registered.
    pub tools: Vec<ToolDefinition>,
    /// The roles beside `developer` and `reader`, or instead of them.
    pub roles: Vec<Role>,
    /// The environment that is served.
    pub environment: Option<String>,
    /// How often each subject may ask.
    pub limit: Option<Limit>,
}

/// What a kind of caller may do; see `tollgate_policy::Role`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Role {
    /// Its name.
    pub name: String,
    /// Globs of its tools; `*`, `?` and literal characters.
    pub tools: Vec<String>,
    /// Globs that win over them.
    pub exclude: Vec<String>,
    /// The role that says what this one does not.
    pub inherits: Option<String>,
    /// The highest permission.
    pub permission: Option<Permission>,
    /// The highest risk.
    pub risk: Option<Risk>,
    /// When a human is asked.
    pub ask: Option<Ask>,
}

/// When a human is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ask {
    /// Only where the tool wants it.
    Never,
    /// For all but reads and the workspace's own write tools.
    Default,
    /// For all but reads.
    Write,
    /// For every call.
    Always,
}

/// So many calls of one subject in a period, and at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// How many.
    pub calls: u32,
    /// In which time.
    pub every: Duration,
}

/// The arguments of a call, as every tool of a reference house takes them: `{"n": 1, "note": "…"}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arguments {
    /// They fit.
    Fit {
        /// A number.
        n: i64,
        /// A text, in which the tool may forbid some.
        note: String,
    },
    /// `n` is missing.
    Missing,
    /// `n` is no number.
    Wrong,
    /// They are not JSON.
    NoJson,
}

/// A call.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Who asks.
    pub caller: Caller,
    /// For what.
    pub name: String,
    /// With what.
    pub arguments: Arguments,
}

/// What has happened.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// What the clock on the wall shows.
    pub wall: Duration,
    /// How much time has passed.
    pub passed: Duration,
    /// Every question that was put, in order.
    pub questions: Vec<Question>,
    /// How often a tool ran.
    pub runs: usize,
    /// When each subject's credit was last counted, and how much it was then: a call costs a share of the period.
    credits: BTreeMap<String, (Duration, Duration)>,
}

impl State {
    /// What is left when the process ends and another begins: counts of calls do not outlive it.
    #[must_use]
    pub fn restarted(mut self) -> Self {
        self.credits.clear();
        self
    }
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// What the asker is told; none when it ran.
    pub code: Option<Code>,
    /// What the ledger says.
    pub recorded: Option<Code>,
    /// The question that the call waits for, runs under, or is refused by: its place in [`State::questions`].
    pub question: Option<usize>,
}

impl Answer {
    fn told(code: Code) -> Self {
        Self { code: Some(code), recorded: Some(code), question: None }
    }
}

/// What becomes of a call, and what has happened then.
pub fn pass(house: &House, before: &State, asked: &Asked) -> (Answer, State) {
    let mut state = before.clone();
    let answer = stages(house, &mut state, asked);
    (answer, state)
}

fn stages(house: &House, state: &mut State, asked: &Asked) -> Answer {
    let Some(tool) = registered(house).into_iter().find(|tool| tool.name == asked.name) else {
        return Answer::told(Code::UnknownTool);
    };
    if !may_list(house, &asked.caller, tool) {
        // As if it did not exist; the ledger knows better.
        return Answer { recorded: Some(Code::Forbidden), ..Answer::told(Code::UnknownTool) };
    }
    if !takes_a_turn(house, state, &asked.caller) {
        return Answer::told(Code::RateLimited);
    }
    let Arguments::Fit { note, .. } = &asked.arguments else {
        let is_json = asked.arguments != Arguments::NoJson;
        return Answer::told(if is_json { Code::InvalidArguments } else { Code::InvalidJson });
    };
    if tool.security.blocked_patterns.iter().any(|word| note.contains(word)) {
        return Answer::told(Code::Denied);
    }
    let mut question = None;
    if asks(house, &asked.caller, tool) && !granted(state, asked, tool) {
        let (place, refusal) = claim(state, asked, tool);
        if let Some(code) = refusal {
            return Answer { question: Some(place), ..Answer::told(code) };
        }
        question = Some(place);
    }
    state.runs += 1;
    Answer { code: None, recorded: None, question }
}

/// The names that a caller may see, in order.
pub fn listed(house: &House, caller: &Caller) -> Vec<String> {
    let tools = registered(house).into_iter().filter(|tool| may_list(house, caller, tool));
    let mut names: Vec<String> = tools.map(|tool| tool.name.clone()).collect();
    names.sort();
    names
}

/// The tools that are fit: with a name that stands on every wire, and unlike every one before it.
pub fn registered(house: &House) -> Vec<&ToolDefinition> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let looks = |name: &str| name.replace(['_', '-'], "").to_lowercase();
    let mut fit: Vec<&ToolDefinition> = Vec::new();
    for tool in &house.tools {
        let is_name = (1..=64).contains(&tool.name.chars().count()) && tool.name.chars().all(is_plain);
        if is_name && !fit.iter().any(|other| looks(&other.name) == looks(&tool.name)) {
            fit.push(tool);
        }
    }
    fit
}

fn may_list(house: &House, caller: &Caller, tool: &ToolDefinition) -> bool {
    let chain = chain(house, &caller.role);
    let matches = |globs: fn(&Role) -> &[String]| {
        chain.iter().flat_map(globs).any(|glob| is_match(glob.as_bytes(), tool.name.as_bytes()))
    };
    let (permission, risk, _) = reach(house, &caller.role);
    let is_here = |places: &[String], here: &Option<String>| {
        places.is_empty() || here.as_ref().is_some_and(|here| places.contains(here))
    };
    matches(|role| &role.tools)
        && !matches(|role| &role.exclude)
        && tool.permission <= permission
        && tool.risk <= risk
        && is_here(&tool.tenants, &caller.tenant)
        && is_here(&tool.environments, &house.environment)
}

/// How far a role reaches: what it does not say is said by the role it inherits from, or is the least.
pub fn reach(house: &House, role: &str) -> (Permission, Risk, Ask) {
    let chain = chain(house, role);
    let permission = chain.iter().find_map(|role| role.permission).unwrap_or(Permission::Read);
    let risk = chain.iter().find_map(|role| role.risk).unwrap_or(Risk::Read);
    (permission, risk, chain.iter().find_map(|role| role.ask).unwrap_or(Ask::Default))
}

/// The role and those it inherits from; nothing for a role that does not exist.
fn chain(house: &House, name: &str) -> Vec<Role> {
    let all = |name: &str, risk, permission| Role {
        name: name.into(),
        tools: vec!["*".into()],
        risk: Some(risk),
        permission: Some(permission),
        ask: Some(Ask::Default),
        ..Role::default()
    };
    let built_in =
        [all("developer", Risk::Dangerous, Permission::System), all("reader", Risk::Read, Permission::Network)];
    let Some(role) = house.roles.iter().chain(&built_in).find(|role| role.name == name).cloned() else {
        return Vec::new();
    };
    let rest = role.inherits.as_ref().map(|parent| chain(house, parent)).unwrap_or_default();
    [vec![role], rest].concat()
}

fn asks(house: &House, caller: &Caller, tool: &ToolDefinition) -> bool {
    let is_read = tool.risk == Risk::Read;
    let is_own_write =
        tool.risk == Risk::Write && tool.permission <= Permission::Write && tool.source.kind == SourceKind::Builtin;
    let (_, _, ask) = reach(house, &caller.role);
    tool.security.requires_confirmation
        || match ask {
            Ask::Never => false,
            Ask::Default => !is_read && !is_own_write,
            Ask::Write => !is_read,
            Ask::Always => true,
        }
}

/// A bucket that holds one period: each call takes its share, and time gives it back.
fn takes_a_turn(house: &House, state: &mut State, caller: &Caller) -> bool {
    let Some(limit) = house.limit else { return true };
    let share = limit.every / limit.calls;
    let (last, left) = state.credits.get(&caller.subject).copied().unwrap_or((state.passed, limit.every));
    let credit = (left + (state.passed - last)).min(share * limit.calls);
    let is_enough = credit >= share;
    let rest = if is_enough { credit - share } else { credit };
    state.credits.insert(caller.subject.clone(), (state.passed, rest));
    is_enough
}

/// `*` is any text, `?` any one character.
fn is_match(glob: &[u8], name: &[u8]) -> bool {
    match (glob.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', glob)), None) => is_match(glob, name),
        (Some((b'*', rest)), Some((_, tail))) => is_match(rest, name) || is_match(glob, tail),
        (Some((g, glob)), Some((n, name))) => (*g == b'?' || g == n) && is_match(glob, name),
        (None, Some(_)) | (Some(_), None) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::is_match;

    #[test]
    fn globs() {
        let cases = [
            ("*", "", true),
            ("*", "a", true),
            ("a*c", "abbc", true),
            ("a*c", "abb", false),
            ("?", "", false),
            ("a?*", "ab", true),
            ("*_a", "x_a", true),
            ("a", "ab", false),
        ];
        for (glob, name, expected) in cases {
            assert_eq!(is_match(glob.as_bytes(), name.as_bytes()), expected, "{glob} {name}");
        }
    }
}
