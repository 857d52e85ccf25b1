//! Tables of what is read, mended and refused, and the laws of the strict parser.

use proptest::prelude::*;
use serde_json::json;
use tollgate_types::limits;

use super::*;

#[test]
fn lossless_defects_are_mended_and_reported() {
    let cases: &[(&str, Value, &[&str])] = &[
        (r#"{"q":"a"}"#, json!({"q":"a"}), &[]),
        (" \n\t", json!({}), &["empty_arguments"]),
        ("", json!({}), &["empty_arguments"]),
        ("null", json!({}), &["empty_arguments"]),
        ("None", json!({}), &["empty_arguments"]),
        (r#""{\"q\":\"tea\"}""#, json!({"q":"tea"}), &["double_encoded"]),
        (r#""{\"q\":\"a\nb\"}""#, json!({"q":"a\nb"}), &["double_encoded", "control_chars_escaped"]),
        ("{\"t\":\"a\nb\tc\u{1}\"}", json!({"t":"a\nb\tc\u{1}"}), &["control_chars_escaped"]),
        ("```json\n{\"q\":1}\n```", json!({"q":1}), &["code_fence"]),
        ("```{\"q\":1}```", json!({"q":1}), &["code_fence"]),
        ("{\"q\":[1,2,],}", json!({"q":[1,2]}), &["trailing_comma"]),
        (
            "{'q': 'say \"hi\"', 'n': None, 't': True}",
            json!({"q":"say \"hi\"","n":null,"t":true}),
            &["single_quotes", "python_literal"],
        ),
        (r"{'q': 'it\'s'}", json!({"q":"it's"}), &["single_quotes"]),
        ("{q: 1, dry-run: false}", json!({"q":1,"dry-run":false}), &["unquoted_key"]),
        ("{\"q\": 1 // one\n, /* two */ \"r\": 2}", json!({"q":1,"r":2}), &["comment"]),
        (r#"{"url":"http://a/b","c":"/* no */"}"#, json!({"url":"http://a/b","c":"/* no */"}), &[]),
        (r#"{"e":"\ud83d\ude00é\u00e9"}"#, json!({"e":"😀éé"}), &[]),
    ];
    for (text, value, rules) in cases {
        let parsed = arguments(text).unwrap_or_else(|fault| panic!("{text}: {fault}"));
        assert_eq!(&parsed.value, value, "{text}");
        assert_eq!(parsed.repairs.iter().map(|repair| repair.rule.as_str()).collect::<Vec<_>>(), *rules, "{text}");
    }
}

#[test]
fn a_repair_names_its_place() {
    let parsed = arguments(
        r#"{"a":{"b/c":[0,"x
y"]}}"#,
    )
    .unwrap();
    assert_eq!(parsed.repairs, vec![Repair::new("/a/b~1c/1", "control_chars_escaped")]);
}

#[test]
fn what_would_be_a_guess_is_refused() {
    let cases: &[(&str, Code, &str)] = &[
        (r#"{"path":"C:\data\reports"}"#, Code::InvalidJson, "a backslash that escapes nothing at line 1 column 12"),
        (r#"{"re":"it\'s"}"#, Code::InvalidJson, "a backslash that escapes nothing"),
        (r#"{"q": tea}"#, Code::InvalidJson, "expected a value at line 1 column 7: `tea}`"),
        (r#"{"q":}"#, Code::InvalidJson, "expected a value"),
        ("{'q': 'it's'}", Code::InvalidJson, "expected `,` or `}`"),
        (r#"{"q":NaN}"#, Code::InvalidJson, "expected a value"),
        (r#"{"a":1,"b":{"x":1,"x":2}}"#, Code::InvalidJson, "the key `x` stands twice"),
        (r#"{"a":1,"\u0061":2}"#, Code::InvalidJson, "the key `a` stands twice"),
        (r#"{"t":"\ud83dA"}"#, Code::InvalidJson, "half of a surrogate pair"),
        (r#"{"t":"\ude00"}"#, Code::InvalidJson, "half of a surrogate pair"),
        (r#"{"t":"\ud83d\u0041"}"#, Code::InvalidJson, "half of a surrogate pair"),
        (r#"{"n":123456789012345678901}"#, Code::InvalidJson, "more digits than can be kept"),
        (r#"{"n":-9223372036854775809}"#, Code::InvalidJson, "more digits than can be kept"),
        (r#"{"n":1e400}"#, Code::InvalidJson, "range of a 64-bit float"),
        (r#"{"n":1e-400}"#, Code::InvalidJson, "range of a 64-bit float"),
        (r#"{"n":012}"#, Code::InvalidJson, "a number that JSON does not know"),
        (r#"{"n":0x1F}"#, Code::InvalidJson, "a number that JSON does not know"),
        (r#"{"q":1}{"q":2}"#, Code::InvalidJson, "a second JSON value"),
        (r#"{"q":1} thanks"#, Code::InvalidJson, "unexpected text after"),
        (r#"{"q":1}}"#, Code::InvalidJson, "unexpected text after"),
        ("{\"q\":1,,}", Code::InvalidJson, "expected a key"),
        (r#"["tea"]"#, Code::InvalidArguments, "arguments must be a JSON object, not an array"),
        ("17", Code::InvalidArguments, "arguments must be a JSON object, not a number"),
        ("true", Code::InvalidArguments, "arguments must be a JSON object, not a boolean"),
        (r#""{hello world}""#, Code::InvalidArguments, "arguments must be a JSON object, not a string"),
        (r#""\"{}\"""#, Code::InvalidArguments, "arguments must be a JSON object, not a string"),
    ];
    for (text, code, message) in cases {
        let fault = arguments(text).unwrap_err();
        assert_eq!(fault.code, *code, "{text}");
        assert!(fault.message.contains(message), "{text}: {}", fault.message);
    }
}

#[test]
fn an_unfinished_text_is_never_closed() {
    let whole = r#"{"path":"a.md","n":[1,{"t":true}],"u":"\u00e9\ud83d\ude00","f":-1.5e3}"#;
    for end in (1..whole.len()).filter(|end| whole.is_char_boundary(*end)) {
        let head = whole.get(..end).unwrap();
        let fault = arguments(head).unwrap_err();
        assert_eq!(fault.code, Code::InvalidJson, "{head}");
        let hint = fault.hint.unwrap_or_else(|| panic!("{head}: {}", fault.message));
        assert!(hint.starts_with("possibly truncated"), "{hint}");
    }
    assert!(arguments(whole).is_ok());
}

#[test]
fn nesting_and_size_are_limited() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(strict(&nested(limits::JSON_DEPTH_MAX)).is_ok());
    assert!(strict(&nested(limits::JSON_DEPTH_MAX + 1)).unwrap_err().message.contains("nested deeper"));
    for open in ["[", "{\"a\":", "{'a':["] {
        assert!(arguments(&open.repeat(200_000 / open.len())).unwrap_err().message.contains("nested deeper"));
    }
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(limits::ARGUMENTS_BYTES_MAX));
    assert_eq!(arguments(&large).unwrap_err().code, Code::InvalidArguments);
}

#[test]
fn integers_keep_every_digit() {
    for text in ["7512292042121000001", "18446744073709551615", "-9223372036854775808", "0", "-7"] {
        assert_eq!(strict(text).unwrap().to_string(), text);
    }
}

#[test]
fn objects_in_a_row_are_told_apart() {
    assert_eq!(objects(r#"{"q":"}{"} {"q":"b"}"#), Some(vec![r#"{"q":"}{"}"#, r#"{"q":"b"}"#]));
    for text in [r#"{"q":"a"}"#, r#"{"q":"a"}{"q":"a"}"#, r#"{"q":"a"}{"q":"#, r#"{"q":1}[2]"#, "{q}{r}"] {
        assert_eq!(objects(text), None, "{text}");
    }
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::hash_map(any::<String>(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn strict_reads_back_what_serde_json_prints(value in json()) {
        prop_assert_eq!(strict(&value.to_string()).unwrap(), value.clone());
        prop_assert_eq!(strict(&serde_json::to_string_pretty(&value).unwrap()).unwrap(), value);
    }

    #[test]
    fn strict_accepts_nothing_that_serde_json_refuses(text in r#"[\[\]{}:,"\\a-fu0-9 .eE+\-tn]{0,24}"#) {
        if strict(&text).is_ok() {
            prop_assert!(serde_json::from_str::<Value>(&text).is_ok(), "{}", text);
        }
    }

    #[test]
    fn any_text_is_answered(text in any::<String>()) {
        if let Ok(parsed) = arguments(&text) {
            prop_assert!(parsed.value.is_object());
        }
    }
}
