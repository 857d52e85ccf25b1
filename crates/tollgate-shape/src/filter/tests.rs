//! What filters find, what is told of those that are wrong, and that each of them ends.

use proptest::prelude::*;
use serde_json::json;

use super::*;

const STEPS: u64 = 200_000;

fn found(filter: &str, input: &Value) -> Result<Vec<Value>, FilterError> {
    let mut values = Vec::new();
    Filter::read(filter)?.run_within(STEPS, input, &|| false, &mut |value| {
        values.push(value);
        true
    })?;
    Ok(values)
}

fn shop() -> Value {
    json!({
        "orders": [
            {"id": "A1", "amount": 120, "customer": {"name": "王芳"}, "tags": ["new"]},
            {"id": "A2", "amount": 80.5, "customer": {"name": "Ann"}, "tags": []},
            {"id": "A3", "amount": 120, "customer": null, "tags": ["new", "急"]},
        ],
        "total": 3, "a key": true,
    })
}

#[test]
fn what_jq_finds_is_found() {
    for (filter, expected) in [
        (".total", "3"),
        (".\"a key\", .[\"total\"]", "true 3"),
        (".orders[0].id", r#""A1""#),
        (".orders[-1].id", r#""A3""#),
        (".orders[1:] | map(.id)", r#"["A2","A3"]"#),
        (".orders[:1][].id", r#""A1""#),
        (".orders[].customer.name", r#""王芳" "Ann" null"#),
        (".orders[] | select(.tags | contains([\"急\"])) | .id", r#""A3""#),
        (
            ".orders[] | select(.amount >= 100 and .customer != null) | {id, name: .customer.name}",
            r#"{"id":"A1","name":"王芳"}"#,
        ),
        ("[.orders[] | .amount] | add, length, min, max", "320.5 3 80.5 120"),
        (".orders | sort_by(.amount, .id) | map(.id)", r#"["A2","A1","A3"]"#),
        (
            ".orders | group_by(.amount) | map({amount: .[0].amount, n: length})",
            r#"[{"amount":80.5,"n":1},{"amount":120,"n":2}]"#,
        ),
        (".orders | max_by(.amount).id", r#""A3""#),
        (".orders | unique_by(.amount) | length", "2"),
        (".orders | map(.tags[]) | unique", r#"["new","急"]"#),
        ("first(.orders[] | select(.amount < 100)).id", r#""A2""#),
        ("[limit(2; .orders[].id)]", r#"["A1","A2"]"#),
        (".orders[2].customer.name // \"nobody\"", r#""nobody""#),
        (".orders[].missing?", "null null null"),
        (".total[]?", ""),
        ("if .total > 2 then \"many\" else \"few\" end", r#""many""#),
        (".orders | any(.amount < 100), all(.amount > 1)", "true true"),
        ("keys, (.orders | keys)", r#"["a key","orders","total"] [0,1,2]"#),
        (".orders[0] | to_entries | map(.key) | join(\", \")", r#""id, amount, customer, tags""#),
        ("{total} | with_entries({key: (.key | ascii_upcase), value: .value})", r#"{"TOTAL":3}"#),
        ("[..|select(type == \"number\")] | length", "4"),
        (".orders | map(select(.id | test(\"^A[12]$\"))) | length", "2"),
        ("1 + 2 * 3 - -4, 7 / 2, 7 % 4, \"a\" + \"北\", [1] + [2]", r#"11 3.5 3 "a北" [1,2]"#),
        ("[3, null, true, \"x\", [0], {\"a\": 1}, false] | sort", r#"[null,false,true,3,"x",[0],{"a":1}]"#),
        ("[[1, [2]], 3] | flatten | reverse", "[3,2,1]"),
        ("\"1.50\" | tonumber | ., floor, round, tostring", r#"1.5 1 2 "1.5""#),
        ("{(\"a\", \"b\"): 1}", r#"{"a":1} {"b":1}"#),
        ("[.[] | not] | length", "3"),
        (".total as_is", "syntax"),
    ] {
        if expected == "syntax" {
            assert!(matches!(found(filter, &shop()), Err(FilterError::Syntax { .. })));
            continue;
        }
        let values = found(filter, &shop()).unwrap_or_else(|error| panic!("{filter}: {error}"));
        let text: Vec<String> = values.iter().map(Value::to_string).collect();
        let expected: Vec<Value> =
            serde_json::Deserializer::from_str(expected).into_iter().map(|value| value.unwrap()).collect();
        assert_eq!(values.len(), expected.len(), "{filter}: {text:?}");
        for (value, expected) in values.iter().zip(&expected) {
            assert!(values::order(value, expected).is_eq(), "{filter}: {text:?}");
        }
    }
}

#[test]
fn what_is_wrong_is_told_where_it_is() {
    for (filter, at) in [
        ("", 1),
        (".orders[", 9),
        (".orders[] |", 12),
        ("select(", 8),
        (".a ~ .b", 4),
        ("\"open", 1),
        ("nope(1)", 1),
        ("{a", 3),
        (".a)", 3),
        ("def f: f; f", 1),
        ("range(10)", 1),
        ("input", 1),
        ("env", 1),
        ("halt", 1),
        ("$ENV", 1),
        ("if . then 1", 12),
        (".[:]", 5),
        ("1x", 1),
        (". .", 4),
    ] {
        match found(filter, &shop()) {
            Err(FilterError::Syntax { at: told, message }) => assert_eq!(told, at, "{filter}: {message}"),
            other => panic!("{filter}: {other:?}"),
        }
    }
    for filter in [
        ".total[]",
        ".orders.id",
        ".orders[\"x\"]",
        "1 + \"a\"",
        "1 / 0",
        "{(1): 2}",
        ".total | map(.)",
        "\"x\" | tonumber",
    ] {
        assert!(matches!(found(filter, &shop()), Err(FilterError::Value(_))), "{filter}");
    }
}

/// Whatever the nesting, the steps end it.
#[test]
fn what_would_take_too_long_is_ended() {
    let numbers: Value = (0..2_000).collect();
    for filter in [
        "[.[] as_pairs]",
        "[(.[] , .[]) + (.[], .[]) + .[]] | length",
        &vec!["(., .)"; 40].join(" | "),
        &format!("[{} | empty]", vec!["(., .)"; 40].join(" | ")),
        &vec![". + ."; 40].join(" | "),
        &format!("\"x\" | {}", vec![". + ."; 60].join(" | ")),
    ] {
        let ended = found(filter, &numbers);
        assert!(matches!(ended, Err(FilterError::Steps | FilterError::Syntax { .. })), "{filter}");
    }
    let stopped = Filter::read("[.[] + .[]]").unwrap().run(&numbers, &|| true, &mut |_| true);
    assert_eq!(stopped, Err(FilterError::Stopped));
    for long in ["(".repeat(500), "-".repeat(500), "[".repeat(900), vec!["."; 300].join("|")] {
        assert!(matches!(Filter::read(&long), Err(FilterError::Syntax { .. })));
    }
    Filter::read(&vec!["."; 128].join("|")).unwrap().run(&numbers, &|| false, &mut |_| true).unwrap();
}

proptest! {
    #[test]
    fn no_text_brings_it_down(text in r#"[\.\[\]\(\)\{\}|,:;?"a-c0-2 +\-*/%<>=]{0,30}"#, word in "(select|map|first|limit|sort_by|test|if|not)") {
        for filter in [text.clone(), format!("{word}({text})"), format!(".orders[] | {text}")] {
            let _ = found(&filter, &shop());
        }
    }
}
