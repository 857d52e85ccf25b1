//! `calculate`: exact arithmetic. The evaluator recurses on its input, so a long expression runs on a thread whose stack
//! fits the longest; what it would silently misread (commas between values) is refused before it is asked.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tollgate_types::{Category, Code, Execution, Permission, Risk, ToolDefinition, ToolError};

use crate::text::visible;
use crate::typed::{READS, Run, Stop, Typed, codes, words};

const EXPRESSION_CHARS_MAX: usize = 1_000;
/// What takes longer will not fit a result either, and keeps a core busy.
const TIMEOUT_MS: u64 = 10_000;
const RESULT_CHARS_MAX: usize = 100_000;
/// Debug builds need about 32 KiB a nested character, so 1,000 characters fit four times.
const STACK_BYTES: usize = 128 * 1024 * 1024;
const STACK_BYTES_USED_MAX: usize = 96 * 1024 * 1024;
/// What needs no stack of its own: half of the 2 MiB that a thread has unless somebody says otherwise, at 32 KiB each.
const SHORT_BYTES_MAX: usize = 32;
const SHORT_STACK_BYTES_USED_MAX: usize = 1024 * 1024;
/// The evaluator asks very often; asking the clock each time would be most of the work.
const ASK_EVERY: u32 = 64;

/// The arguments of `calculate`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Args {
    /// The expression, at most 1,000 characters, such as `34817 * 293`, `15% of 200`, `5 feet 10 inches in cm` or
    /// `sqrt(2) to 30 dp`. One value; functions take one argument.
    #[schemars(length(min = 1, max = 1000))]
    expression: String,
}

/// What `calculate` found.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Output {
    /// The expression as it was evaluated.
    expression: String,
    /// The result, with its unit where it has one.
    result: String,
    /// Whether the result is exact; otherwise it was rounded.
    exact: bool,
}

pub(crate) struct Calculate;

impl Typed for Calculate {
    type Args = Args;
    type Output = Output;

    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            title: Some("Calculate".into()),
            when: Some("Use it for every calculation with more than a digit or two, and to convert units.".into()),
            when_not: Some(
                "Do not use it for sums over many rows (use query_database with SQL aggregates), dates, random numbers \
                 or exchange rates."
                    .into(),
            ),
            category: Category::Compute,
            tags: words(&["arithmetic", "math", "units", "percent", "计算", "算术", "单位换算"]),
            aliases: words(&["calculator", "eval_math"]),
            examples: vec![json!({"expression": "34817 * 293"}), json!({"expression": "72 km/h in m/s"})],
            annotations: READS,
            risk: Risk::Read,
            permission: Permission::Read,
            execution: Execution { timeout_ms: TIMEOUT_MS, ..Execution::default() },
            errors: codes(&[
                ("SYNTAX", "the expression can not be read"),
                ("DIVISION_BY_ZERO", "something is divided by zero"),
                ("UNKNOWN_NAME", "a function, constant or unit does not exist"),
                ("UNITS", "the units do not fit together"),
                ("NOT_AVAILABLE", "random numbers, the current date and exchange rates are not available"),
                ("TOO_LARGE", "the result has more than 100,000 characters"),
                ("UNDEFINED", "the result is not defined or not supported"),
            ]),
            ..ToolDefinition::new(
                "calculate",
                "Evaluates an arithmetic expression exactly (fractions and integers of any size, powers, roots, \
                 trigonometry, percentages, units) and returns the result alone; `approx.` marks a rounded one.",
            )
        }
    }

    fn check(&self, args: &Args, _: &tollgate_types::Cx) -> Result<(), ToolError> {
        if args.expression.chars().count() > EXPRESSION_CHARS_MAX {
            return Err(ToolError::invalid("/expression", "longer than 1000 characters")
                .with_hint("calculate the parts one after the other"));
        }
        Ok(())
    }

    fn run(&self, args: Args, run: &Run) -> Result<(String, Output), ToolError> {
        self.check(&args, &run.cx)?;
        let expression = normalise(&args.expression);
        refuse_misreadable(&expression)?;
        let expression = without_separators(&expression);
        let result = evaluate(&expression, &run.stop)?;
        if result.trim().is_empty() {
            return Err(syntax("there is nothing to calculate"));
        }
        if result.len() > RESULT_CHARS_MAX {
            return Err(ToolError::new(format!("the result has {} characters", result.len()))
                .with_tool_code("TOO_LARGE")
                .with_hint("ask for less, such as a logarithm or a remainder"));
        }
        let (shown, exact) = match result.strip_prefix("approx. ") {
            Some(rounded) => (rounded.to_owned(), false),
            None => (result.clone(), !result.contains("approx.")),
        };
        Ok((result, Output { expression, result: shown, exact }))
    }
}

/// Full-width forms and typographic operators as the plain ones.
fn normalise(expression: &str) -> String {
    expression
        .chars()
        .map(|c| match c {
            '\u{ff01}'..='\u{ff5e}' => char::from_u32(u32::from(c) - 0xfee0).unwrap_or(c),
            '\u{3000}' => ' ',
            '×' | '✕' | '∗' | '·' | '⋅' => '*',
            '÷' | '∕' => '/',
            '−' | '–' | '—' => '-',
            '【' | '〔' => '(',
            '】' | '〕' => ')',
            other => other,
        })
        .collect::<String>()
        .trim()
        .trim_end_matches('=')
        .trim_end()
        .to_owned()
}

/// Refuses what would not fail but be read as something else: `max(1,2)` as `max(12)`, a lambda as a value.
fn refuse_misreadable(expression: &str) -> Result<(), ToolError> {
    let chars: Vec<char> = expression.chars().collect();
    let at = |index: usize| chars.get(index).copied();
    let mut calls = Vec::new();
    for (index, &c) in chars.iter().enumerate() {
        match c {
            '(' => calls.push(index.checked_sub(1).and_then(at).is_some_and(|before| before.is_alphabetic())),
            ')' if calls.pop().is_none() => return Err(syntax("a `)` without its `(`")),
            ',' if calls.last() == Some(&true) => {
                return Err(syntax("a function takes one argument, and commas do not separate values here").with_hint(
                    "write a number without thousands separators, and calculate several values one by one",
                ));
            }
            ',' if !is_separator(&chars, index) => {
                return Err(syntax("a comma that does not separate thousands")
                    .with_hint("write decimals with a point, as in `1.5`, and thousands as `1,000` or `1000`"));
            }
            '\\' | 'λ' | ':' | '"' | '\'' | '@' => {
                return Err(syntax(format!("`{c}` is not part of arithmetic")));
            }
            '>' if index.checked_sub(1).and_then(at) == Some('=') => {
                return Err(syntax("`=>` is not part of arithmetic"));
            }
            _ => {}
        }
    }
    if calls.is_empty() { Ok(()) } else { Err(syntax("a `(` without its `)`")) }
}

/// Whether the comma at `index` has one to three digits before it, and exactly three after it.
fn is_separator(chars: &[char], index: usize) -> bool {
    let digits = |range: &[char]| range.iter().take_while(|c| c.is_ascii_digit()).count();
    let (before, after) = chars.split_at(index);
    let before: Vec<char> = before.iter().rev().copied().collect();
    let follows_comma = before.get(digits(&before)) == Some(&',');
    let leading = digits(&before);
    let fits_before = if follows_comma { leading == 3 } else { (1..=3).contains(&leading) };
    fits_before && digits(after.get(1..).unwrap_or_default()) == 3
}

/// Every comma left is a thousands separator.
fn without_separators(expression: &str) -> String {
    expression.chars().filter(|&c| c != ',').collect()
}

/// Stops the evaluator in time, and before its recursion leaves the stack.
struct Watch<'a> {
    stop: &'a Stop,
    asked: AtomicU32,
    stack_start: usize,
    stack_bytes_used_max: usize,
    reason: Mutex<Option<Unfinished>>,
}

/// Why an evaluation did not come to its end.
enum Unfinished {
    /// It would leave the stack.
    TooDeep,
    /// Anything that another stack would not change.
    Failed(ToolError),
}

impl fend_core::Interrupt for Watch<'_> {
    fn should_interrupt(&self) -> bool {
        let here = 0_u8;
        let used = self.stack_start.abs_diff(std::ptr::from_ref(&here).addr());
        let reason = if used > self.stack_bytes_used_max {
            Some(Unfinished::TooDeep)
        } else if self.asked.fetch_add(1, Ordering::Relaxed).is_multiple_of(ASK_EVERY) {
            let reason = self.stop.reason();
            reason.map(|it| Unfinished::Failed(it.with_hint("the numbers are too large: use logarithms or remainders")))
        } else {
            None
        };
        let ends = reason.is_some();
        if let (Some(reason), Ok(mut slot)) = (reason, self.reason.lock()) {
            slot.get_or_insert(reason);
        }
        ends
    }
}

fn evaluate(expression: &str, stop: &Stop) -> Result<String, ToolError> {
    let ended = if expression.len() <= SHORT_BYTES_MAX {
        evaluate_here(expression, stop, SHORT_STACK_BYTES_USED_MAX)
    } else {
        Err(Unfinished::TooDeep)
    };
    match ended {
        Err(Unfinished::TooDeep) => evaluate_on_large_stack(expression, stop),
        Err(Unfinished::Failed(error)) => Err(error),
        Ok(result) => Ok(result),
    }
}

fn evaluate_on_large_stack(expression: &str, stop: &Stop) -> Result<String, ToolError> {
    let ended = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("calculate".into())
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, || evaluate_here(expression, stop, STACK_BYTES_USED_MAX))
            .map_err(|error| ToolError::with_code(Code::Internal, format!("no thread to calculate on: {error}")))?;
        Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })?;
    ended.map_err(|why| match why {
        Unfinished::TooDeep => syntax("nested too deeply"),
        Unfinished::Failed(error) => error,
    })
}

fn evaluate_here(expression: &str, stop: &Stop, stack_bytes_used_max: usize) -> Result<String, Unfinished> {
    let start = 0_u8;
    let watch = Watch {
        stop,
        asked: AtomicU32::new(0),
        stack_start: std::ptr::from_ref(&start).addr(),
        stack_bytes_used_max,
        reason: Mutex::new(None),
    };
    let mut context = fend_core::Context::new();
    context.disable_rng();
    let result = fend_core::evaluate_with_interrupt(expression, &mut context, &watch);
    let reason = watch.reason.into_inner().ok().flatten();
    match (reason, result) {
        (Some(reason), _) => Err(reason),
        (None, Ok(result)) => Ok(result.get_main_result().to_owned()),
        (None, Err(message)) => Err(Unfinished::Failed(explain(&message))),
    }
}

fn explain(message: &str) -> ToolError {
    let is = |part: &str| message.contains(part);
    let (code, hint) = if is("division by zero") || is("modulo by zero") {
        ("DIVISION_BY_ZERO", "check the divisor")
    } else if is("unknown identifier") {
        ("UNKNOWN_NAME", "names are English: `sqrt`, `sin`, `ln`, `pi`, `km`, `kg`, `hour`; values must be numbers")
    } else if is("cannot convert from") || is("incompatible") || is("unitless") {
        ("UNITS", "convert between units of one kind, such as `3 km in miles`")
    } else if is("not available") || is("current date") {
        ("NOT_AVAILABLE", "give the number itself")
    } else if is("expected") || is("unexpected") || is("unterminated") || is("invalid") {
        ("SYNTAX", "write it as on a calculator, such as `(3 + 4) * 5`, `2^10`, `sqrt(2)` or `15% of 200`")
    } else {
        ("UNDEFINED", "check that the operation is defined for these values")
    };
    ToolError::new(visible(message).into_owned()).with_tool_code(code).with_hint(hint)
}

fn syntax(message: impl Into<String>) -> ToolError {
    ToolError::new(message)
        .with_tool_code("SYNTAX")
        .with_hint("write it as on a calculator, such as `(3 + 4) * 5`, `2^10`, `sqrt(2)` or `15% of 200`")
}

#[cfg(test)]
mod tests {
    use tollgate_types::{CancellationToken, Clock};

    use super::*;

    struct Standing;

    impl Clock for Standing {
        fn now(&self) -> jiff::Timestamp {
            jiff::Timestamp::UNIX_EPOCH
        }

        fn monotonic(&self) -> std::time::Duration {
            std::time::Duration::ZERO
        }
    }

    /// A test runs on a thread of 2 MiB, as a blocking thread of the runtime does.
    #[test]
    fn both_stacks_agree_on_every_short_expression() {
        let stop =
            Stop::of(CancellationToken::new(), std::sync::Arc::new(Standing), std::time::Duration::from_secs(30));
        let filled = |start: &str, part: &str, end: &str| {
            let times = (SHORT_BYTES_MAX - start.len() - end.len()) / (part.len() + usize::from(part.ends_with('(')));
            let close = if part.ends_with('(') { ")".repeat(times) } else { String::new() };
            format!("{start}{}{end}{close}", part.repeat(times))
        };
        let mut expressions: Vec<String> = [
            "34817 * 293",
            "1/0",
            "2 +",
            "5 feet 10 inches in cm",
            "72 km/h in m/s",
            "15% of 200",
            "1 lightyear to km",
            "sqrt(2) to 30 dp",
            "1 acre foot in liters",
            "100!",
            "1 kWh/day to W",
            "30 mpg to L/100 km",
            "nosuchunit",
        ]
        .map(str::to_owned)
        .into();
        for (start, part, end) in [
            ("", "(", "1"),
            ("", "-", "1"),
            ("1", "!", ""),
            ("1", "%", ""),
            ("1", "^1", ""),
            ("1", "+1", ""),
            ("1", " m", ""),
            ("", "not ", "1"),
            ("", "sin(", "1"),
            ("", "a=", "1"),
            ("", "1;", "1"),
            ("", "ln(", "9"),
            ("", "-(", "km"),
            ("1", " yd", ""),
            ("1", "/km", ""),
            ("2", "^2", ""),
            ("", "sqrt(", "1 acre"),
        ] {
            expressions.push(filled(start, part, end));
        }
        for expression in &expressions {
            assert!(expression.len() <= SHORT_BYTES_MAX, "{expression}");
            let large = evaluate_on_large_stack(expression, &stop);
            let Err(Unfinished::Failed(error)) = evaluate_here(expression, &stop, SHORT_STACK_BYTES_USED_MAX) else {
                assert_eq!(evaluate(expression, &stop), large, "{expression}");
                continue;
            };
            assert_eq!(Err(error), large, "{expression}");
        }
    }
}
