//! Decimal amounts: what is one, what is none, and what arguments come to.

use serde_json::json;

use super::*;

fn units(text: &str) -> Units {
    text.parse().unwrap()
}

#[test]
fn an_amount_reads_back_as_it_was_written() {
    for text in ["0", "1", "0.000001", "12.5", "999999999999.999999", "1000000000000"] {
        assert_eq!(units(text).to_string(), text);
        assert_eq!(serde_json::to_value(units(text)).unwrap(), json!(text));
    }
    assert_eq!(units("007.50").to_string(), "7.5");
    assert_eq!(units("0.1000000000"), units("0.1"), "zeros at the end say nothing");
    // A thousand times a tenth is a hundred, as it is not in binary.
    let sum = (0..1_000).try_fold(Units::ZERO, |sum, _| sum.plus(units("0.1")));
    assert_eq!(sum, Some(units("100")));
}

#[test]
fn what_is_no_amount_says_why() {
    let cases = [
        ("", UnitsError::NotANumber),
        ("-", UnitsError::NotANumber),
        (".5", UnitsError::NotANumber),
        ("5.", UnitsError::NotANumber),
        ("1.2.3", UnitsError::NotANumber),
        ("1e3", UnitsError::NotANumber),
        ("+1", UnitsError::NotANumber),
        ("1,5", UnitsError::NotANumber),
        ("一百", UnitsError::NotANumber),
        ("１２", UnitsError::NotANumber),
        ("-1", UnitsError::Negative),
        ("-0.5", UnitsError::Negative),
        ("0.0000001", UnitsError::TooFine),
        ("1000000000000.000001", UnitsError::TooLarge),
        ("99999999999999999999999999", UnitsError::TooLarge),
    ];
    for (text, expected) in cases {
        assert_eq!(text.parse::<Units>(), Err(expected), "{text:?}");
    }
}

#[test]
fn numbers_of_a_configuration_mean_what_was_written() {
    let read = |value: Value| serde_json::from_value::<Cost>(value).map_err(|error| error.to_string());
    for (value, text) in [(json!(3), "3"), (json!(0.1), "0.1"), (json!(0), "0"), (json!("0.123456"), "0.123456")] {
        assert_eq!(read(value), Ok(Cost::Fixed(units(text))));
    }
    assert_eq!(read(json!(123_456_789.123_456)), Ok(Cost::Fixed(units("123456789.123456"))));
    for (value, part) in [
        (json!(-1), "`-1` is less than 0"),
        (json!(-0.5), "less than 0"),
        (json!(1e300), "more than 1000000000000 units"),
        (json!(u64::MAX), "more than 1000000000000 units"),
        (json!(0.000_000_1), "digits after the point"),
        (json!(1_234_567_890_123.123_4 / 10.0), "write it as a text"),
        (json!(true), "expected an amount of units"),
        (json!({ "argument": "amount" }), "not a JSON Pointer"),
        (json!({ "argument": "/amount", "per": 1 }), "unknown field `per`"),
        (json!({ "per_unit": 1 }), "neither `argument` nor `result`"),
        (json!({ "argument": "/a", "result": "/b", "at_most": 1 }), "both `argument` and `result`"),
        (json!({ "argument": "/a", "at_most": 1 }), "goes with `result`"),
        (json!({ "result": "/b" }), "say what a call costs `at_most`"),
    ] {
        let error = read(value.clone()).unwrap_err();
        assert!(error.contains(part), "{value}: {error}");
    }
}

#[test]
fn an_argument_names_the_price_and_never_too_little() {
    let cost =
        |per_unit: &str| Cost::Argument(ArgumentCost { argument: "/order/amount".into(), per_unit: units(per_unit) });
    let of = |per_unit: &str, amount: Value| cost(per_unit).of(&json!({ "order": { "amount": amount } }));
    for (per_unit, amount, expected) in [
        ("1", json!(120), "120"),
        ("1", json!(0.1), "0.1"),
        ("1", json!("12.50"), "12.5"),
        ("1", json!(0.300_000_000_000_000_04), "0.300001"),
        ("0.000001", json!(0.5), "0.000001"),
        ("0.03", json!(7), "0.21"),
        ("0", json!(5), "0"),
        ("1", json!(1e12), "1000000000000"),
    ] {
        assert_eq!(of(per_unit, amount.clone()), Ok(units(expected)), "{per_unit} × {amount}");
    }
    for amount in [json!(-1), json!(null), json!("ten"), json!([1]), json!(1e13), json!(u64::MAX), json!("1e2")] {
        let error = of("1", amount.clone()).unwrap_err();
        assert!(error.contains("/order/amount"), "{amount}: {error}");
    }
    assert!(of("10", json!(1e12)).unwrap_err().contains("more than 1000000000000 units"));
    assert_eq!(cost("1").of(&json!({})), Err("there is nothing at `/order/amount`".into()));
}

#[test]
fn a_result_names_the_price_where_it_can() {
    let written = json!({ "result": "/usage/tokens", "per_unit": 0.001, "at_most": 5 });
    let cost: Cost = serde_json::from_value(written).unwrap();
    assert_eq!(cost.of(&json!({})), Ok(units("5")), "what it may cost at most is held");
    for (tokens, expected) in [(json!(1_200), Some("1.2")), (json!("7"), Some("0.007")), (json!(9_000), Some("9"))] {
        assert_eq!(cost.after(&json!({ "usage": { "tokens": tokens } })), expected.map(units));
    }
    for result in
        [json!({}), json!({ "usage": { "tokens": -1 } }), json!({ "usage": { "tokens": "many" } }), json!(null)]
    {
        assert_eq!(cost.after(&result), None, "{result}");
    }
    let read: Cost = serde_json::from_value(serde_json::to_value(&cost).unwrap()).unwrap();
    assert_eq!(read, cost);
}
