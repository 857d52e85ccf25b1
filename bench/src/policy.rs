//! What a decision costs: by roles alone, by rules that concern the call, and beside thousands that do not. In process,
//! without gate and ledger.

use std::error::Error;
use std::fmt::Write as _;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Value, json};
use tollgate::policy::{Argument, ArgumentType, Circumstances, RuleSource};
use tollgate::{Ask, Caller, Clock, Permission, Policy, Risk, Role, Surface, SystemClock, ToolDefinition};

use crate::stats::{Aim, Row, median_us};

const DECISIONS: usize = 20_000;
/// Rules that concern the call.
const OWN: usize = 50;
/// Rules that do not.
const OTHERS: [usize; 5] = [0, 10, 100, 1_000, 10_000];
/// The widest bar of the plot, in characters.
const BAR_CHARS: f64 = 40.0;

type Failure = Box<dyn Error + Send + Sync>;

/// Every figure of this file.
#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) rows: Vec<Row>,
    /// A decision by rules that concern the call, beside rules that do not.
    pub(crate) curve: Vec<Point>,
}

/// One point of the curve.
#[derive(Serialize)]
pub(crate) struct Point {
    /// Rules that do not concern the call.
    pub(crate) others: usize,
    /// The decision's median, in microseconds.
    pub(crate) decide_us: f64,
    /// Reading all rules, in milliseconds.
    pub(crate) load_ms: f64,
}

/// Measures all of it.
pub(crate) fn measure() -> Result<Report, Failure> {
    let native = decide(&Policy::new([role()])?)?;
    let mut curve = Vec::new();
    for others in OTHERS {
        let (policy, load) = loaded(others)?;
        curve.push(Point { others, decide_us: decide(&policy)?, load_ms: load.as_secs_f64() * 1000.0 });
    }
    let (Some(first), Some(last)) = (curve.first(), curve.last()) else { return Err("no point was measured".into()) };
    let against = format!("p50 of {DECISIONS}");
    let row =
        |what: String, value, unit, aim| Row { what, value, unit, aim: Aim::AtMost(aim), against: against.clone() };
    let rows = vec![
        row("decision by roles alone".to_owned(), native, "µs", 5.0),
        row(format!("decision by {OWN} rules that concern the call"), first.decide_us, "µs", 150.0),
        Row {
            against: "the same without them".to_owned(),
            ..row(format!("the same beside {} that do not", last.others), last.decide_us / first.decide_us, "×", 1.5)
        },
        Row {
            against: "two examples each, tried".to_owned(),
            ..row(format!("{} rules read", last.others), last.load_ms, "ms", 1000.0)
        },
    ];
    Ok(Report { rows, curve })
}

fn role() -> Role {
    Role::new("clerk").allow("*").risk(Risk::Write).permission(Permission::Network).ask(Ask::Never)
}

/// A policy with the rules that concern the call and these that do not, read on a thread of its own, as a server does.
fn loaded(others: usize) -> Result<(Policy, Duration), Failure> {
    let mut text = String::new();
    for n in 0..others {
        rule(&mut text, "other", n, &format!("other_{n}"))?;
    }
    for n in 0..OWN {
        rule(&mut text, "own", n, "refund_order")?;
    }
    let argument = |name: &str, kind| Argument {
        name: name.to_owned(),
        tools: vec!["*".to_owned()],
        pointer: format!("/{name}"),
        kind,
    };
    let arguments = vec![argument("amount", ArgumentType::Long), argument("order", ArgumentType::String)];
    let source = RuleSource { file: "rules.cedar".into(), text: text.into(), arguments, ..RuleSource::default() };
    let clock = SystemClock::new();
    let read = || -> Result<(Policy, Duration), Failure> {
        let began = clock.monotonic();
        let policy = Policy::new([role()])?.with_rules(&source)?;
        Ok((policy, clock.monotonic() - began))
    };
    std::thread::scope(|scope| scope.spawn(read).join()).map_err(|_| "the thread that read rules died")?
}

/// A rule as one writes them, with two examples: half of them ask, half deny.
fn rule(text: &mut String, name: &str, n: usize, tool: &str) -> std::fmt::Result {
    let limit = 1_000 + n;
    let example = |amount: usize| format!("{{'role':'clerk', 'tool':'{tool}', 'args':{{'amount': {amount}}}}}");
    writeln!(
        text,
        "@id(\"{name}-{n}\")\n@reason(\"at most {limit} at once\")\n@match(\"{}\")\n@not_match(\"{}\")\n\
         forbid (principal, action, resource == Tollgate::Tool::\"{tool}\")\n\
         when {{ context.args has amount && context.args.amount > {limit} }}{};",
        example(limit + 1),
        example(limit),
        if n.is_multiple_of(2) { "\nunless { context.approved }" } else { "" },
    )
}

/// The median of many decisions, in microseconds.
fn decide(policy: &Policy) -> Result<f64, Failure> {
    let mut tool = ToolDefinition::new("refund_order", "Gives money back.");
    (tool.risk, tool.permission) = (Risk::Write, Permission::Network);
    tool.tags = vec!["money".into(), "orders".into()];
    let caller = Caller::new("ada", "clerk", Surface::Library);
    let arguments: Value = json!({ "amount": 500, "order": "A-1042", "note": "the parcel never arrived" });
    let (clock, here) = (SystemClock::new(), Circumstances::default());
    let mut times = Vec::with_capacity(DECISIONS);
    for round in 0..DECISIONS + DECISIONS / 10 {
        let began = clock.monotonic();
        let decision = std::hint::black_box(policy.decide(&caller, &tool, Some(&arguments), &here));
        let ended = clock.monotonic();
        if decision.effect != tollgate::policy::Effect::Allow {
            return Err(format!("it was not allowed: {}", decision.reason).into());
        }
        if round >= DECISIONS / 10 {
            times.push(ended - began);
        }
    }
    Ok(median_us(times))
}

impl Report {
    /// The page of the documentation.
    pub(crate) fn page(&self) -> Result<String, std::fmt::Error> {
        let mut page = String::from(
            "# What a decision costs\n\nGenerated by one run of `scripts/bench policy`, on a release build. The figures are of \
             the policy alone: what a call costs as a whole is in [benchmarks.md](benchmarks.md).\n\n\
             | what | measured | aim | against |\n|---|---|---|---|\n",
        );
        for row in &self.rows {
            writeln!(page, "{}", row.markdown())?;
        }
        write!(
            page,
            "\n## Beside rules that do not concern the call\n\nA decision by {OWN} rules that concern the call, and the time to \
             read all rules. Every rule has two examples, which are tried when it is read; half of the rules ask for a \
             human's yes.\n\n```text\n{}```\n",
            self.plot()?
        )?;
        Ok(page)
    }

    /// The curve, a bar for each point.
    pub(crate) fn plot(&self) -> Result<String, std::fmt::Error> {
        let most = self.curve.iter().map(|point| point.decide_us).fold(f64::MIN_POSITIVE, f64::max);
        let mut plot = String::from("others    decision, p50\n");
        for Point { others, decide_us, load_ms } in &self.curve {
            let bar: String =
                (0..40_u32).filter(|n| f64::from(*n) < decide_us / most * BAR_CHARS).map(|_| '█').collect();
            writeln!(plot, "{others:>6}    {bar:<40} {decide_us:>6.1} µs   read in {load_ms:>6.1} ms")?;
        }
        Ok(plot)
    }
}
