//! Tables of what is read, mended and refused, and the laws of the strict parser.

use proptest::prelude::*;
use serde_json::json;
use tollgate_types::RepairLevel::{Lenient, Lossless, Off};
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
        (r#"{"q":1} That should do."#, json!({"q":1}), &["trailing_text"]),
        (r#"{"q":"}"} 就这些。"#, json!({"q":"}"}), &["trailing_text"]),
        ("{'q':1}\n// done", json!({"q":1}), &["single_quotes", "comment"]),
        (r#"{"url":"http://a/b","c":"/* no */"}"#, json!({"url":"http://a/b","c":"/* no */"}), &[]),
        (r#"{"e":"\ud83d\ude00é\u00e9"}"#, json!({"e":"😀éé"}), &[]),
    ];
    for (text, value, rules) in cases {
        let parsed = arguments(text, Lenient).unwrap_or_else(|fault| panic!("{text}: {fault}"));
        assert_eq!(&parsed.value, value, "{text}");
        assert_eq!(parsed.repairs.iter().map(|repair| repair.rule.as_str()).collect::<Vec<_>>(), *rules, "{text}");
    }
}

#[test]
fn a_repair_names_its_place() {
    let parsed = arguments(
        r#"{"a":{"b/c":[0,"x
y"]}}"#,
        Lossless,
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
        (r#"{"q":1}, 2"#, Code::InvalidJson, "unexpected text after"),
        (r#"{"q":1} 2"#, Code::InvalidJson, "unexpected text after"),
        (r#"{"q":1} null"#, Code::InvalidJson, "unexpected text after"),
        (r#"{"q":1} "thanks""#, Code::InvalidJson, "unexpected text after"),
        (r#"{"q":{"a":1}}, "b": 2}"#, Code::InvalidJson, "unexpected text after"),
        (r#""tea" thanks"#, Code::InvalidJson, "unexpected text after"),
        (r#"Here it is: {"q":1}"#, Code::InvalidJson, "expected a value"),
        ("```json\n{\"q\":1}\n``` thanks", Code::InvalidJson, "expected a value"),
        (r#"{"q":1}}"#, Code::InvalidJson, "unexpected text after"),
        ("{\"q\":1,,}", Code::InvalidJson, "expected a key"),
        (r#"["tea"]"#, Code::InvalidArguments, "arguments must be a JSON object, not an array"),
        ("17", Code::InvalidArguments, "arguments must be a JSON object, not a number"),
        ("true", Code::InvalidArguments, "arguments must be a JSON object, not a boolean"),
        (r#""{hello world}""#, Code::InvalidArguments, "arguments must be a JSON object, not a string"),
        (r#""\"{}\"""#, Code::InvalidArguments, "arguments must be a JSON object, not a string"),
        // Rounded, it would be another integer, or one where there was none.
        (r#"{"n":9007199254740993.0}"#, Code::InvalidJson, "more digits than can be kept"),
        (r#"{"n":9007199254740992.5}"#, Code::InvalidJson, "more digits than can be kept"),
        (r#"{"n":4503599627370497.25}"#, Code::InvalidJson, "more digits than can be kept"),
        (r#"{"n":5.00000000000000001}"#, Code::InvalidJson, "more digits than can be kept"),
        (r#"{"n":-0.99999999999999999}"#, Code::InvalidJson, "more digits than can be kept"),
        (r#"{"n":50000000000000001e-16}"#, Code::InvalidJson, "more digits than can be kept"),
    ];
    for (text, code, message) in cases {
        let fault = arguments(text, Lenient).unwrap_err();
        assert_eq!(fault.code, *code, "{text}");
        assert!(fault.message.contains(message), "{text}: {}", fault.message);
    }
}

#[test]
fn numbers_that_a_float_holds_are_kept() {
    for text in [
        "5.0",
        "-0.0",
        "0.10",
        "1e23",
        "1.5e300",
        "100e-2",
        "0e-5",
        "9007199254740992.0",
        "123.456",
        "1e-300",
        "-7.50E+1",
    ] {
        let arguments =
            arguments(&format!(r#"{{"n":{text}}}"#), Lossless).unwrap_or_else(|fault| panic!("{text}: {fault:?}"));
        assert_eq!(arguments.value["n"].as_f64(), text.parse().ok(), "{text}");
    }
}

#[test]
fn an_unfinished_text_is_never_closed() {
    let whole = r#"{"path":"a.md","n":[1,{"t":true}],"u":"\u00e9\ud83d\ude00","f":-1.5e3}"#;
    for end in (1..whole.len()).filter(|end| whole.is_char_boundary(*end)) {
        let head = whole.get(..end).unwrap();
        let fault = arguments(head, Lenient).unwrap_err();
        assert_eq!(fault.code, Code::InvalidJson, "{head}");
        let hint = fault.hint.unwrap_or_else(|| panic!("{head}: {}", fault.message));
        assert!(hint.starts_with("possibly truncated"), "{hint}");
    }
    assert!(arguments(whole, Off).is_ok());
}

#[test]
fn nesting_and_size_are_limited() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(strict(&nested(limits::JSON_DEPTH_MAX)).is_ok());
    assert!(strict(&nested(limits::JSON_DEPTH_MAX + 1)).unwrap_err().message.contains("nested deeper"));
    for open in ["[", "{\"a\":", "{'a':["] {
        assert!(arguments(&open.repeat(200_000 / open.len()), Lenient).unwrap_err().message.contains("nested deeper"));
    }
    let large = format!("{{\"a\":\"{}\"}}", "x".repeat(limits::ARGUMENTS_BYTES_MAX));
    assert_eq!(arguments(&large, Lenient).unwrap_err().code, Code::InvalidArguments);
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
    fn any_text_is_answered_and_what_was_mended_stays_as_it_is(text in any::<String>()) {
        check_rungs(&text);
    }

    #[test]
    fn texts_that_are_nearly_json_keep_the_laws(text in r#"[{}\[\]:,'"`a/* 1-9.\\nTrueNone]{0,40}"#) {
        check_rungs(&text);
    }

    /// Whatever way it is written that a rung allows: it is read as what it is.
    #[test]
    fn what_is_written_badly_is_read_as_it_is_meant(value in object(), style in styles()) {
        let text = style.print(&value);
        let level = style.level();
        let parsed = arguments(&text, level).unwrap_or_else(|fault| panic!("{text}: {fault}"));
        prop_assert_eq!(&parsed.value, &value, "{}", text);
        check_rungs(&text);
    }
}

/// The laws of one text on every rung.
fn check_rungs(text: &str) {
    let [off, lossless, lenient] = [Off, Lossless, Lenient].map(|level| arguments(text, level));
    if let Ok(value @ Value::Object(_)) = strict(text) {
        assert_eq!(off, Ok(Parsed { value, repairs: Vec::new() }), "{text}");
    }
    // A higher rung reads what a lower one reads, and as the same.
    assert!(off.is_err() || off == lossless, "{text}");
    assert!(lossless.is_err() || lossless == lenient, "{text}");
    if let Ok(parsed) = &lenient {
        let level = |repair: &Repair| RepairRule::ALL.iter().find(|rule| rule.as_str() == repair.rule).unwrap().level();
        let needed = parsed.repairs.iter().map(level).max().unwrap_or(Off);
        assert_eq!((off.is_ok(), lossless.is_ok()), (needed == Off, needed <= Lossless), "{text}");
    }
    for parsed in [off, lossless, lenient].into_iter().flatten() {
        assert!(parsed.value.is_object(), "{text}");
        let again = arguments(&parsed.value.to_string(), Off);
        assert_eq!(again, Ok(Parsed { value: parsed.value, repairs: Vec::new() }), "{text}");
    }
}

fn object() -> impl Strategy<Value = Value> {
    prop::collection::hash_map("[a-z_]{1,6}|.{0,4}", json(), 0..5)
        .prop_map(|map| Value::Object(map.into_iter().collect()))
}

/// A way of writing JSON that is not quite right.
#[derive(Debug, Clone)]
struct Style {
    is_single_quoted: bool,
    is_python: bool,
    has_bare_keys: bool,
    has_raw_controls: bool,
    has_trailing_commas: bool,
    has_comments: bool,
    is_doubled: bool,
    is_fenced: bool,
    has_words_after: bool,
}

fn styles() -> impl Strategy<Value = Style> {
    any::<[bool; 9]>().prop_map(|on| Style {
        is_single_quoted: on[0],
        is_python: on[1],
        has_bare_keys: on[2],
        has_raw_controls: on[3],
        has_trailing_commas: on[4],
        has_comments: on[5],
        is_doubled: on[6],
        // Each of these is only a repair around the object itself.
        is_fenced: on[7] && !on[6],
        has_words_after: on[8] && !on[7] && !on[6],
    })
}

impl Style {
    fn level(&self) -> RepairLevel {
        match self {
            Self { has_comments: true, .. } | Self { has_words_after: true, .. } => Lenient,
            Self {
                is_single_quoted: false,
                is_python: false,
                has_bare_keys: false,
                has_raw_controls: false,
                has_trailing_commas: false,
                is_doubled: false,
                is_fenced: false,
                ..
            } => Off,
            Self { .. } => Lossless,
        }
    }

    fn print(&self, value: &Value) -> String {
        let mut out = String::new();
        self.value(value, &mut out);
        if self.is_doubled {
            out = Value::from(out).to_string();
        }
        if self.is_fenced {
            out = format!("```json\n{out}\n```");
        }
        if self.has_words_after {
            out.push_str("\nI hope this helps! 就这些。");
        }
        out
    }

    fn value(&self, value: &Value, out: &mut String) {
        let word = |python, json| if self.is_python { python } else { json };
        match value {
            Value::Null => out.push_str(word("None", "null")),
            Value::Bool(true) => out.push_str(word("True", "true")),
            Value::Bool(false) => out.push_str(word("False", "false")),
            Value::Number(number) => out.push_str(&number.to_string()),
            Value::String(text) => self.text(text, out),
            Value::Array(items) => self.list(['[', ']'], items.iter().map(|item| (None, item)), out),
            Value::Object(map) => self.list(['{', '}'], map.iter().map(|(key, item)| (Some(key), item)), out),
        }
    }

    fn list<'v>(
        &self,
        [open, close]: [char; 2],
        items: impl Iterator<Item = (Option<&'v String>, &'v Value)>,
        out: &mut String,
    ) {
        out.push(open);
        let mut count = 0;
        for (key, item) in items {
            if count > 0 {
                out.push(',');
            }
            count += 1;
            if self.has_comments {
                out.push_str(if count % 2 == 0 { " /* so */ " } else { "// so\n" });
            }
            if let Some(key) = key {
                let is_word = !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
                if self.has_bare_keys && is_word {
                    out.push_str(key)
                } else {
                    self.text(key, out)
                }
                out.push(':');
            }
            self.value(item, out);
        }
        if self.has_trailing_commas && count > 0 {
            out.push(',');
        }
        out.push(close);
    }

    fn text(&self, text: &str, out: &mut String) {
        let quote = if self.is_single_quoted { '\'' } else { '"' };
        out.push(quote);
        for c in text.chars() {
            match c {
                _ if c == quote || c == '\\' => out.extend(['\\', c]),
                _ if c < ' ' && !self.has_raw_controls => out.push_str(&format!("\\u{:04x}", u32::from(c))),
                _ => out.push(c),
            }
        }
        out.push(quote);
    }
}
