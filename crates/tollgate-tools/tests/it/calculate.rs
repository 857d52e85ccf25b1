//! `calculate`: exact, bounded, and clear about what it cannot read.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tollgate_types::Code;

use crate::support::{House, Ticking, call};

#[tokio::test]
async fn results_are_exact_or_say_that_they_are_not() {
    let house = House::new();
    for (expression, text, exact) in [
        ("34817 * 293", "10201381", true),
        ("2^64", "18446744073709551616", true),
        ("1/3*3", "1", true),
        ("0.1 + 0.2", "0.3", true),
        ("15% of 200", "30", true),
        ("1/7 to fraction", "1/7", true),
        ("5 feet 10 inches in cm", "177.8 cm", true),
        ("1,234,567 + 1", "1234568", true),
        ("１２＋３０", "42", true),
        ("３×４÷２", "6", true),
        ("（１０－４）＊２＝", "12", true),
        ("1，000 + 1", "1001", true),
        ("sqrt(2)", "approx. 1.4142135624", false),
        ("1/3", "approx. 0.3333333333", false),
    ] {
        let output = house.call("calculate", json!({"expression": expression})).await.unwrap();
        assert_eq!(crate::support::text(&output), text, "{expression}");
        let structured = output.structured.unwrap();
        assert_eq!(structured["exact"], exact, "{expression}");
        assert_eq!(structured["result"], text.trim_start_matches("approx. "), "{expression}");
    }
}

#[tokio::test]
async fn what_can_not_be_calculated_says_why_and_what_to_do() {
    let house = House::new();
    for (expression, code) in [
        ("1/0", "DIVISION_BY_ZERO"),
        ("5 mod 0", "DIVISION_BY_ZERO"),
        ("2 +", "SYNTAX"),
        ("(1 + 2", "SYNTAX"),
        ("1 + 2)", "SYNTAX"),
        ("((((", "SYNTAX"),
        ("   ", "SYNTAX"),
        ("max(1,2)", "SYNTAX"),
        ("mean(100,200)", "SYNTAX"),
        ("1,5 + 1", "SYNTAX"),
        ("1,2345", "SYNTAX"),
        ("x: x + 1", "SYNTAX"),
        ("x => x", "SYNTAX"),
        ("库存 + 1", "UNKNOWN_NAME"),
        ("1 kg + 1 m", "UNITS"),
        ("roll d20", "NOT_AVAILABLE"),
        ("1 USD to EUR", "NOT_AVAILABLE"),
        ("today", "NOT_AVAILABLE"),
        ("0^0", "UNDEFINED"),
    ] {
        let error = house.call("calculate", json!({"expression": expression})).await.unwrap_err();
        assert_eq!((error.code, error.tool_code.as_deref()), (Code::ToolError, Some(code)), "{expression}: {error:?}");
        assert!(error.hint.is_some(), "{expression}");
    }
    let long = "1+".repeat(500) + "1";
    assert_eq!(house.code("calculate", json!({"expression": long})).await, "invalid_arguments");
}

/// The evaluator recurses: each of these ended the whole process on an ordinary stack.
#[tokio::test]
async fn nothing_that_fits_overflows_the_stack() {
    let house = House::new();
    for expression in [
        "1".to_owned() + &"+1".repeat(499),
        "1".to_owned() + &"^1".repeat(499),
        "1".to_owned() + &"!".repeat(999),
        "1".to_owned() + &"%".repeat(999),
        "1".to_owned() + &" m".repeat(499),
        "-".repeat(999) + "1",
        "not ".repeat(249) + "1",
        "(".repeat(499) + "1" + &")".repeat(499),
        "sin(".repeat(199) + "1" + &")".repeat(199),
        "a=".repeat(499) + "1",
        "1;".repeat(499) + "1",
        r"(\x. x x)(\x. x x)".to_owned(),
    ] {
        match house.call("calculate", json!({"expression": expression})).await {
            Ok(_) => {}
            Err(error) => assert_eq!(error.code, Code::ToolError, "{error:?}"),
        }
    }
}

#[tokio::test]
async fn time_and_cancellation_end_a_calculation() {
    let mut house = House::new();
    house.cx.clock = Arc::new(Ticking::default());
    house.cx.deadline = Duration::from_millis(200);
    let tool = Arc::clone(house.tool("calculate"));
    let error = call(tool.as_ref(), json!({"expression": "9^9^9^9"}), &house.cx).await.unwrap_err();
    assert_eq!(error.code, Code::Timeout);
    let mut house = House::new();
    house.cx.cancellation = tollgate_types::CancellationToken::new();
    house.cx.cancellation.cancel();
    let error = house.call("calculate", json!({"expression": "9^9^9^9"})).await.unwrap_err();
    assert_eq!(error.code, Code::Cancelled);
}
