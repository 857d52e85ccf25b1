//! What is done about which failure, by who says it.

use proptest::prelude::*;
use serde_json::{Value, json};
use tollgate_types::{Code, ToolError};

use super::*;

fn on_error(value: Value) -> OnError {
    serde_json::from_value(value).unwrap()
}

fn ladder(tool: Value, source: Value, house: Value) -> Ladder {
    let mut definition = ToolDefinition::new("look", "Looks.");
    definition.on_error = on_error(tool);
    Ladder::new(&definition, on_error(source), on_error(house))
}

fn at(retries: u32) -> Standing {
    Standing { is_repeatable: true, retries, left: None, chance: 0 }
}

/// What is done about an error: the pauses of its retries, then the other tool, then a human.
fn climbed(ladder: &Ladder, error: &ToolError) -> String {
    let failure = Failure::of(error);
    let pauses = (0..).map_while(|retries| ladder.again(&failure, at(retries))).take(9);
    let mut text: Vec<String> = pauses.map(|pause| pause.as_millis().to_string()).collect();
    let steps = ladder.steps(&failure);
    text.extend(steps.fallback.map(|other| other.what.tool.clone()));
    text.extend(steps.asks_human().then(|| "human".to_owned()));
    text.join(" ")
}

fn errors() -> [(&'static str, ToolError); 8] {
    let upstream = |code: &str| ToolError::with_code(Code::UpstreamError, "x").with_tool_code(code);
    [
        ("unreachable", upstream("UNREACHABLE")),
        ("http 503", upstream("HTTP_503")),
        ("timeout", ToolError::with_code(Code::Timeout, "x")),
        ("says no", ToolError::new("no")),
        ("says later", ToolError::new("no").with_tool_code("rate_limit").retryable()),
        ("login", upstream("HTTP_401")),
        ("denied", ToolError::with_code(Code::Denied, "x")),
        ("cancelled", ToolError::with_code(Code::Cancelled, "x")),
    ]
}

/// What it is, what the tool, its source and the house say, and what then is done about each of [`errors`].
type Setting = (&'static str, Value, Value, Value, [&'static str; 8]);

fn settings() -> Vec<Setting> {
    let none = || json!({});
    vec![
        ("nobody", none(), none(), none(), ["1000 2000 4000", "1000 2000 4000", "0", "", "", "", "", ""]),
        (
            "a default fallback, as the defaults ask for it",
            json!({"default": {"fallback": {"tool": "other"}}}),
            none(),
            none(),
            ["1000 2000 4000 other", "1000 2000 4000 other", "0 other", "other", "other", "other", "", ""],
        ),
        ("fail", json!({"default": "fail"}), none(), none(), ["", "", "", "", "", "", "", ""]),
        (
            "human",
            json!({"default": "human"}),
            none(),
            none(),
            ["human", "human", "human", "human", "human", "human", "", ""],
        ),
        (
            "one code fails, the rest is left to the others",
            json!({"timeout": "fail", "default": {}}),
            none(),
            none(),
            ["1000 2000 4000", "1000 2000 4000", "", "", "", "", "", ""],
        ),
        (
            "the closest key wins, rung by rung",
            json!({
                "HTTP_503": {"retry": {"max": 1, "pause_ms": 5}}, "network_error": {"fallback": {"tool": "mirror"}},
                "rate_limit": {"retry": {"max": 1, "pause_ms": 7}}, "default": {"human": true},
            }),
            none(),
            none(),
            ["1000 2000 4000 mirror human", "5 mirror human", "0 human", "human", "7 human", "human", "", ""],
        ),
        (
            "the tool before the source before the house",
            json!({"timeout": {"fallback": {"tool": "own"}}, "default": {}}),
            json!({"timeout": {"fallback": {"tool": "source"}, "retry": {"max": 2, "pause_ms": 9}}, "default": {}}),
            json!({"default": {"fallback": {"tool": "house"}, "retry": {"max": 1, "pause_ms": 3}}}),
            ["3 house", "3 house", "9 18 own", "house", "3 house", "house", "", ""],
        ),
        (
            "a default retry is only for what may be asked again",
            json!({"default": {"retry": {"max": 2, "pause_ms": 1}}}),
            none(),
            none(),
            ["1 2", "1 2", "1 2", "", "1 2", "", "", ""],
        ),
        (
            "a fallback that many tools have is not one to itself",
            none(),
            none(),
            json!({"default": {"fallback": {"tool": "look"}}}),
            ["1000 2000 4000", "1000 2000 4000", "0", "", "", "", "", ""],
        ),
    ]
}

/// Every setting crossed with every kind of failure.
#[test]
fn who_says_what_of_which_failure() {
    for (what, tool, source, house, wanted) in settings() {
        let ladder = ladder(tool, source, house);
        let found: Vec<_> = errors().iter().map(|(name, error)| (*name, climbed(&ladder, error))).collect();
        let wanted: Vec<_> = errors().iter().zip(wanted).map(|((name, _), text)| (*name, text.to_owned())).collect();
        assert_eq!(found, wanted, "{what}");
    }
}

#[test]
fn a_server_is_left_alone_as_long_as_it_asks_and_no_retry_outlives_the_call() {
    let ladder = ladder(json!({}), json!({}), json!({}));
    let busy = |ms: u64| {
        let wait = Some(Duration::from_millis(ms));
        ToolError::with_code(Code::UpstreamError, "x").with_tool_code("RATE_LIMITED").retry_after(wait)
    };
    let pause = |error: &ToolError, standing: Standing| {
        ladder.again(&Failure::of(error), standing).map(|pause| pause.as_millis())
    };
    assert_eq!(pause(&busy(10), at(0)), Some(1_000));
    assert_eq!(pause(&busy(5_000), at(0)), Some(5_000));
    assert_eq!(pause(&busy(limits::RETRY_PAUSE_MS_MAX + 1), at(0)), None);
    assert_eq!(pause(&busy(u64::MAX), at(0)), None);
    let left = |ms: u64| Standing { left: Some(Duration::from_millis(ms)), ..at(0) };
    assert_eq!((pause(&busy(500), left(1_001)), pause(&busy(500), left(1_000))), (Some(1_000), None));
}

#[test]
fn what_execution_lists_is_tried_again() {
    let mut definition = ToolDefinition::new("look", "Looks.");
    definition.execution.max_retries = 2;
    definition.execution.retryable_errors = vec!["SNEEZE".into(), "timeout".into()];
    let ladder = Ladder::new(&definition, OnError::default(), OnError::default());
    assert_eq!(climbed(&ladder, &ToolError::new("x").with_tool_code("SNEEZE")), "100 200");
    assert_eq!(climbed(&ladder, &ToolError::with_code(Code::Timeout, "x")), "100 200");
    assert_eq!(climbed(&ladder, &ToolError::new("x")), "");
}

fn any_error() -> impl Strategy_<Value = ToolError> {
    let codes = prop::sample::select(Code::ALL);
    let own = prop::sample::select(vec!["", "HTTP_401", "HTTP_403", "HTTP_503", "UNREACHABLE", "rate_limit"]);
    (codes, own, any::<bool>(), any::<bool>(), prop::option::of(0_u64..100_000)).prop_map(
        |(code, own, retryable, nothing_happened, retry_after_ms)| {
            let tool_code = (!own.is_empty()).then(|| own.to_owned());
            ToolError { tool_code, retryable, nothing_happened, retry_after_ms, ..ToolError::with_code(code, "x") }
        },
    )
}

use proptest::strategy::Strategy as Strategy_;

proptest! {
    /// However generous the ladder: what may have happened and may not happen twice is never made again, refusals and logins
    /// neither, and nothing more often than was said.
    #[test]
    fn retries_are_safe(error in any_error(), is_repeatable: bool, max in 0_u32..12, retries in 0_u32..12, chance: u64) {
        let every: serde_json::Map<String, Value> = Code::ALL
            .iter().map(|code| code.as_str())
            .chain(["HTTP_401", "HTTP_403", "HTTP_503", "UNREACHABLE", "rate_limit", "network_error", "default"])
            .map(|key| (key.to_owned(), json!({"retry": {"max": max, "pause_ms": 10}})))
            .collect();
        let ladder = ladder(Value::Object(every), json!({}), json!({}));
        let failure = Failure::of(&error);
        let again = ladder.again(&failure, Standing { is_repeatable, retries, left: None, chance });
        if again.is_some() {
            prop_assert!(is_repeatable || error.nothing_happened);
            prop_assert!(retries < max);
            prop_assert!(!matches!(failure.class, Class::Final | Class::Auth));
            prop_assert!(again.unwrap() >= Duration::from_millis(error.retry_after_ms.unwrap_or(0)));
        }
        if failure.class == Class::Final {
            let steps = ladder.steps(&failure);
            prop_assert!(steps.fallback.is_none() && !steps.asks_human());
        }
    }
}
