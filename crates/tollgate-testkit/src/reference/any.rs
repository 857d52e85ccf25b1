//! Houses and stories for property tests. Names are chosen so that they tempt: they share their letters, look alike, or
//! stand in other scripts; each fit one ends with a number of its own, so that none is a part of another.

use std::num::NonZeroU32;
use std::time::Duration;

use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;
use tollgate_types::{Caller, Category, Permission, Risk, SourceKind, Surface, ToolDefinition};

use super::{Arguments, Ask, Asked, House, Limit, Question, Role, State, Word};

const STEMS: [&str; 8] =
    ["read_order", "write_order", "pay_order", "pay_orders", "list_pay", "wipe", "get_weather", "mcp__shop__pay"];
const MISFITS: [&str; 7] = ["р\u{430}y_order", "读取订单", "", "two words", "pay\u{200b}", "pay.order", "a/b"];
const GLOBS: [&str; 12] = [
    "*",
    "read_*",
    "*pay*",
    "pay_order*",
    "*_0?",
    "*_1?",
    "wipe_??",
    "mcp__*",
    "*order_*",
    "get_weather_0*",
    "list_pay_*",
    "*_?5",
];
const RISKS: [Risk; 3] = [Risk::Read, Risk::Write, Risk::Dangerous];
const PERMISSIONS: [Permission; 5] =
    [Permission::Read, Permission::Write, Permission::Execute, Permission::Network, Permission::System];
const ASKS: [Ask; 4] = [Ask::Never, Ask::Default, Ask::Write, Ask::Always];
const KINDS: [SourceKind; 5] =
    [SourceKind::Builtin, SourceKind::Native, SourceKind::Program, SourceKind::Http, SourceKind::Mcp];
const CATEGORIES: [Category; 5] =
    [Category::Information, Category::Data, Category::Compute, Category::Action, Category::Environment];
/// Stands for what a question wants to be typed.
const AS_WANTED: &str = "(as wanted)";
/// The word that a guarded tool forbids in `note`.
const FORBIDDEN_WORD: &str = "zap";

/// A house, who comes to it, and what they do there.
#[derive(Debug, Clone)]
pub struct Story {
    /// The house.
    pub house: House,
    /// Who asks.
    pub callers: Vec<Caller>,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

/// One thing that happens. Places are counted round: any number names a caller, a tool, a role, or by [`question`] a
/// question.
#[derive(Debug, Clone)]
pub enum Step {
    /// A caller looks at its tools.
    List(usize),
    /// A caller asks for a tool.
    Call(usize, Name, Arguments),
    /// The call of a question is asked for again, as it was or not quite.
    Again(usize, Twist),
    /// An operator answers a question.
    Word(usize, Word),
    /// Time passes.
    Pass(Duration),
    /// The clock on the wall is set back.
    Back(Duration),
    /// A role is changed, and the policy read again.
    Change(usize, Change),
    /// The process ends and another begins.
    Restart,
}

/// What a caller asks for.
#[derive(Debug, Clone)]
pub enum Name {
    /// A tool that is offered to the house.
    Tool(usize),
    /// Something like one.
    Like(usize, &'static str),
    /// Something else.
    Other(&'static str),
}

/// What is not as it was in the question.
#[derive(Debug, Clone)]
pub enum Twist {
    /// Nothing.
    None,
    /// The arguments.
    Number(i64),
    /// Who asks.
    Caller(usize),
    /// The conversation.
    Session(Option<&'static str>),
}

/// A change of one role.
#[derive(Debug, Clone)]
pub enum Change {
    /// One more glob that it may not use.
    Exclude(&'static str),
    /// One more glob that it may.
    Allow(&'static str),
    /// Nothing is excluded any more.
    ExcludeNothing,
    /// Another highest risk.
    Risk(Risk),
    /// Another highest permission.
    Permission(Permission),
    /// Another rule for asking.
    Ask(Ask),
}

impl Change {
    /// Makes it.
    pub fn apply(&self, role: &mut Role) {
        match self {
            Self::Exclude(glob) => role.exclude.push((*glob).into()),
            Self::Allow(glob) => role.tools.push((*glob).into()),
            Self::ExcludeNothing => role.exclude.clear(),
            Self::Risk(risk) => role.risk = Some(*risk),
            Self::Permission(permission) => role.permission = Some(*permission),
            Self::Ask(ask) => role.ask = Some(*ask),
        }
    }
}

/// The one of `all` that a place names, counted round.
pub fn at<T>(all: &[T], place: usize) -> Option<&T> {
    all.get(place.checked_rem(all.len())?)
}

/// The question that a place names, of so many: as often the newest as any.
pub fn question(place: usize, count: usize) -> Option<usize> {
    let any = (place / 2).checked_rem(count)?;
    Some(if place.is_multiple_of(2) { count - 1 } else { any })
}

impl Story {
    /// The call that a step is, if it is one.
    pub fn asked(&self, step: &Step, state: &State) -> Option<Asked> {
        match step {
            Step::Call(caller, name, arguments) => {
                let tool = |place: &usize| at(&self.house.tools, *place).map_or("", |tool| tool.name.as_str());
                let name = match name {
                    Name::Tool(place) => tool(place).to_owned(),
                    Name::Like(place, more) => format!("{}{more}", tool(place)),
                    Name::Other(name) => (*name).to_owned(),
                };
                Some(Asked { caller: at(&self.callers, *caller)?.clone(), name, arguments: arguments.clone() })
            }
            Step::Again(place, twist) => {
                let mut asked = state.questions.get(question(*place, state.questions.len())?)?.asked.clone();
                match twist {
                    Twist::None => {}
                    Twist::Number(n) => asked.arguments = Arguments::Fit { n: *n, note: String::new() },
                    Twist::Caller(caller) => asked.caller = at(&self.callers, *caller)?.clone(),
                    Twist::Session(session) => asked.caller.session = session.map(str::to_owned),
                }
                Some(asked)
            }
            _ => None,
        }
    }
}

/// An operator's word as it is said about a question.
pub fn said(word: &Word, about: &Question) -> Word {
    let is_as_wanted = word.typed.as_deref() == Some(AS_WANTED);
    Word { typed: if is_as_wanted { about.typed.clone() } else { word.typed.clone() }, ..word.clone() }
}

/// A story in a house.
pub fn story() -> impl Strategy<Value = Story> {
    (house(), callers(), vec(step(), 8..40)).prop_map(|(house, callers, steps)| Story { house, callers, steps })
}

/// A house of 5 to 30 tools and 1 to 6 roles.
pub fn house() -> impl Strategy<Value = House> {
    let limit =
        (1_u32..6, select(vec![1_u64, 60])).prop_map(|(calls, s)| Limit { calls, every: Duration::from_secs(s) });
    let environment = prop_oneof![Just(None), Just(Some("production".to_owned()))];
    (vec(tool(), 5..30), vec(role(), 1..=6), environment, weighted(0.3, limit)).prop_map(
        |(mut tools, mut roles, environment, limit)| {
            for (place, tool) in tools.iter_mut().enumerate().filter(|(_, tool)| STEMS.contains(&&*tool.name)) {
                tool.name = format!("{}_{place:02}", tool.name);
            }
            look_alikes(&mut tools);
            inherit(&mut roles);
            House { tools, roles, environment, limit }
        },
    )
}

/// The last tool takes the name of the first in other letters.
fn look_alikes(tools: &mut [ToolDefinition]) {
    if let [first, .., last] = tools
        && first.name.len() % 2 == 1
    {
        last.name = first.name.to_uppercase().replace('_', "-");
    }
}

/// Roles are named by their place, and may inherit from an earlier one.
fn inherit(roles: &mut [Role]) {
    for (place, role) in roles.iter_mut().enumerate() {
        role.name = format!("role{place}");
        // The place drawn is any; only what is earlier exists without a circle.
        role.inherits = role.inherits.take().and_then(|drawn| match drawn.parse::<usize>() {
            Ok(drawn) if drawn < place => Some(format!("role{drawn}")),
            Ok(_) => None,
            Err(_) => Some(drawn),
        });
        if role.tools.is_empty() && role.inherits.is_none() {
            role.tools.push("*".into());
        }
    }
}

fn texts(of: &'static [&'static str], count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<String>> {
    vec(select(of).prop_map(str::to_owned), count)
}

fn role() -> impl Strategy<Value = Role> {
    let parent = weighted(0.5, select(vec!["0", "1", "2", "3", "4", "reader", "developer"]).prop_map(str::to_owned));
    // As often the most as anything: what is refused at once says least.
    let permission = prop_oneof![Just(Permission::System), select(&PERMISSIONS[..])];
    let levels = (weighted(0.9, permission), weighted(0.9, prop_oneof![Just(Risk::Dangerous), select(&RISKS[..])]));
    let tools = prop_oneof![Just(vec!["*".to_owned()]), texts(&GLOBS, 0..4)];
    (tools, texts(&GLOBS[1..], 0..3), parent, levels, weighted(0.6, select(&ASKS[..]))).prop_map(
        |(tools, exclude, inherits, (permission, risk), ask)| Role {
            name: String::new(),
            tools,
            exclude,
            inherits,
            permission,
            risk,
            ask,
        },
    )
}

fn tool() -> impl Strategy<Value = ToolDefinition> {
    let name = prop_oneof![9 => select(&STEMS[..]), 1 => select(&MISFITS[..])];
    let levels = (select(&RISKS[..]), select(&PERMISSIONS[..]), select(&KINDS[..]), select(&CATEGORIES[..]));
    let tenants = prop_oneof![4 => Just(vec![]), 1 => Just(vec!["acme"]), 1 => Just(vec!["acme", "北京"])];
    let environments = prop_oneof![5 => Just(vec![]), 1 => Just(vec!["production"]), 1 => Just(vec!["test"])];
    let wants = (weighted(0.1, Just(())), weighted(0.1, select(vec!["", "/n", "/none"])), weighted(0.1, Just(2_u32)));
    (name, levels, tenants, environments, wants, any::<bool>()).prop_map(
        |(name, (risk, permission, kind, category), tenants, environments, (asks, typed, approvers), is_guarded)| {
            let mut tool = ToolDefinition::new(name, "Does what its name says. 做名字所说的事。");
            (tool.risk, tool.permission, tool.source.kind, tool.category) = (risk, permission, kind, category);
            tool.tenants = tenants.into_iter().map(str::to_owned).collect();
            tool.environments = environments.into_iter().map(str::to_owned).collect();
            tool.security.requires_confirmation = asks.is_some();
            tool.security.typed_confirmation = typed.map(str::to_owned);
            tool.security.approvers = approvers.and_then(NonZeroU32::new);
            if is_guarded {
                tool.security.blocked_patterns.push(FORBIDDEN_WORD.into());
            }
            tool.input_schema = json!({
                "type": "object",
                "properties": { "n": { "type": "integer" }, "note": { "type": "string" } },
                "required": ["n"],
                "additionalProperties": false,
            });
            tool
        },
    )
}

/// Two to five callers, some of whom differ in one thing only.
pub fn callers() -> impl Strategy<Value = Vec<Caller>> {
    let named = select(vec!["role1", "role2", "role3", "role4", "role5", "reader", "nobody"]);
    let role = prop_oneof![2 => Just("role0"), 1 => Just("developer"), 2 => named];
    let surface = select(vec![Surface::Library, Surface::Rest, Surface::McpStdio]);
    let (subject, tenant) =
        (select(vec!["ada", "李雷"]), select(vec![None, Some("acme"), Some("北京"), Some("nowhere")]));
    let caller =
        (subject, role, surface, tenant, session()).prop_map(|(subject, role, surface, tenant, session)| Caller {
            tenant: tenant.map(str::to_owned),
            session: session.map(str::to_owned),
            ..Caller::new(subject, role, surface)
        });
    vec(caller, 2..=5)
}

fn session() -> impl Strategy<Value = Option<&'static str>> {
    select(vec![None, Some("s1"), Some("s2")])
}

/// Arguments, most of which fit.
pub fn arguments() -> impl Strategy<Value = Arguments> {
    let note = select(vec!["", "", "备注", "please zap it"]);
    prop_oneof![
        8 => (1..4_i64, note).prop_map(|(n, note)| Arguments::Fit { n, note: note.into() }),
        1 => Just(Arguments::Missing),
        1 => Just(Arguments::Wrong),
        1 => Just(Arguments::NoJson),
    ]
}

/// A name that somebody may ask for.
pub fn name() -> impl Strategy<Value = Name> {
    let like = select(vec!["x", "_", "0", " ", "\u{200b}"]);
    prop_oneof![
        8 => any::<u8>().prop_map(|place| Name::Tool(place.into())),
        1 => (any::<u8>(), like).prop_map(|(place, more)| Name::Like(place.into(), more)),
        1 => select(vec!["", "pay", "functions.pay_order", "订单", "PAY_ORDER_00"]).prop_map(Name::Other),
    ]
}

/// A change of a role.
pub fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        select(&GLOBS[1..]).prop_map(Change::Exclude),
        select(&GLOBS[..]).prop_map(Change::Allow),
        Just(Change::ExcludeNothing),
        select(&RISKS[..]).prop_map(Change::Risk),
        select(&PERMISSIONS[..]).prop_map(Change::Permission),
        select(&ASKS[..]).prop_map(Change::Ask),
    ]
}

fn word() -> impl Strategy<Value = Word> {
    let typed = select(vec![None, Some("1"), Some(AS_WANTED), Some(AS_WANTED), Some(AS_WANTED)]);
    (select(vec!["alice", "bert"]), weighted(0.8, Just(())), typed, weighted(0.2, Just(()))).prop_map(
        |(by, yes, typed, session)| Word {
            by: by.into(),
            approved: yes.is_some(),
            typed: typed.map(str::to_owned),
            for_session: session.is_some() && yes.is_some(),
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let place = || any::<u8>().prop_map(usize::from);
    let hours = |of: &'static [u64]| select(of).prop_map(|minutes| Duration::from_secs(minutes * 60));
    let twist = prop_oneof![
        4 => Just(Twist::None),
        1 => (1..4_i64).prop_map(Twist::Number),
        1 => place().prop_map(Twist::Caller),
        1 => session().prop_map(Twist::Session),
    ];
    prop_oneof![
        2 => place().prop_map(Step::List),
        8 => (place(), name(), arguments()).prop_map(|(caller, name, arguments)| Step::Call(caller, name, arguments)),
        8 => (place(), twist).prop_map(|(place, twist)| Step::Again(place, twist)),
        6 => (place(), word()).prop_map(|(place, word)| Step::Word(place, word)),
        2 => hours(&[0, 1, 59, 61, 23 * 60, 25 * 60]).prop_map(Step::Pass),
        1 => hours(&[1, 2, 61, 24 * 60]).prop_map(Step::Back),
        2 => (place(), change()).prop_map(|(role, change)| Step::Change(role, change)),
        1 => Just(Step::Restart),
    ]
}

#[cfg(test)]
mod tests;
