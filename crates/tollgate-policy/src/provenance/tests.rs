//! Where values are found, and where they must not be.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn user(text: &str) -> Origins {
    Origins { user: vec![Heard::new(text)], ..Origins::default() }
}

fn origin(origins: &Origins, value: Value) -> Vec<&'static str> {
    origins.of(&value).into_iter().map(Origin::as_str).collect()
}

#[test]
fn a_value_is_found_as_a_whole_word_or_not_at_all() {
    let cases = [
        ("send it to bob@example.com, please", "bob@example.com", true),
        ("SEND IT TO Bob@Example.com.", "bob@example.com", true),
        ("send it to bob@example.company", "bob@example.com", false),
        ("send it to bob@example.com.evil.org", "bob@example.com", false),
        ("send it to jim.bob@example.com", "bob@example.com", false),
        ("see notevil.com", "evil.com", false),
        ("see https://evil.com/path", "evil.com", false),
        ("see 'evil.com'", "evil.com", true),
        ("see evil.com:8443", "evil.com", false),
        ("invite\n  Sarah   Baker", "sarah baker", true),
        ("\u{ff42}\u{ff4f}\u{ff42}\u{ff20}example.com", "bob@example.com", true),
        ("write to Bob!", "Bob", true),
        ("write to Bobby", "Bob", false),
        ("on May 13", "13", false),
        ("the account 12345", "12345", true),
        ("an a in it", "a", false),
        ("\u{53d1}\u{7ed9}\u{738b}\u{660e}\u{7684}\u{90ae}\u{4ef6}", "\u{738b}\u{660e}", true),
        ("\u{53d1}\u{7ed9}\u{738b}\u{660e}", "\u{738b}", false),
    ];
    for (text, value, is_found) in cases {
        let wanted = if is_found { "user" } else { "model" };
        assert_eq!(origin(&user(text), json!(value)), [wanted], "`{value}` in `{text}`");
    }
}

#[test]
fn numbers_are_compared_by_value() {
    let cases = [
        ("pay 1,200.50 now", json!(1200.5), true),
        ("pay $1200", json!(1200.0), true),
        ("refund that 10.00", json!(10), true),
        ("refund 10", json!(10), false),
        ("pay 1200 or less", json!(200), false),
        ("on 2024-05-15", json!(2024), false),
        ("version 1.200.5", json!(1.2), false),
        ("lower it to -150", json!(-150), true),
        ("lower it to -150", json!(150), false),
        ("12,00", json!(1200), false),
        ("true", json!(true), false),
    ];
    for (text, value, is_found) in cases {
        let wanted = if is_found { "user" } else { "model" };
        assert_eq!(origin(&user(text), value.clone()), [wanted], "{value} in `{text}`");
    }
}

#[test]
fn each_element_of_a_list_has_its_origin_and_the_most_trusted_counts() {
    let origins = Origins {
        user: vec![Heard::new("invite ann@example.com")],
        operator: vec![Heard::new("the office is office@example.com")],
        outside: vec![Heard::new("write to eve@example.com and ann@example.com and dan@example.com")],
        tool: vec![Heard::new("contacts: dan@example.com, kim@example.com")],
        is_partial: false,
    };
    let all = ["ann", "office", "eve", "dan", "kim", "zoe"].map(|name| format!("{name}@example.com"));
    let each: Vec<_> = all.iter().map(|one| origin(&origins, json!(one)).concat()).collect();
    assert_eq!(each, ["user", "operator", "outside", "outside", "tool", "model"]);
    assert_eq!(origin(&origins, json!(all)), ["user", "operator", "outside", "tool", "model"]);
    assert!(origin(&origins, json!([])).is_empty());
    assert_eq!(origin(&origins, json!(vec!["ann@example.com"; PARTS_MAX + 1])), ["model"]);
    let partial = Origins { is_partial: true, ..origins };
    assert_eq!(origin(&partial, json!("zoe@example.com")), ["outside"]);
    assert_eq!(origin(&partial, json!("ann@example.com")), ["user"]);
}

#[test]
fn what_a_tool_only_repeats_is_not_its_own() {
    let result = Heard::new("no contact is named Eve@Example.com; there is kim@example.com");
    let echo = result.without_echo(&json!({"query": "eve@example.com", "limit": 5}));
    let origins = Origins { tool: vec![echo], ..Origins::default() };
    assert_eq!(origin(&origins, json!("eve@example.com")), ["model"]);
    assert_eq!(origin(&origins, json!("kim@example.com")), ["tool"]);
}

#[test]
fn a_text_beyond_the_limit_is_cut_and_says_so() {
    let text = format!("{} ann@example.com", "x ".repeat(TEXT_BYTES_MAX));
    let heard = Heard::new(&text);
    assert!(!heard.is_whole() && heard.len() <= TEXT_BYTES_MAX + 4);
    assert_eq!(origin(&Origins { user: vec![heard], ..Origins::default() }, json!("ann@example.com")), ["model"]);
}

proptest! {
    #[test]
    fn a_word_that_was_said_is_found(before in "[ a-z]{0,20}", word in "[a-z]{3,12}@[a-z]{3,8}", after in "[ a-z]{0,20}") {
        let text = format!("{before} {} {after}", word.to_uppercase());
        prop_assert_eq!(origin(&user(&text), json!(word)), ["user"]);
    }

    #[test]
    fn part_of_a_word_is_not(word in "[a-z0-9]{6,12}", cut in 1_usize..5) {
        let (begin, end) = (word.chars().take(word.len() - cut), word.chars().skip(cut));
        prop_assert_eq!(origin(&user(&word), json!(begin.collect::<String>())), ["model"]);
        prop_assert_eq!(origin(&user(&word), json!(end.collect::<String>())), ["model"]);
    }

    #[test]
    fn any_text_and_any_value_are_judged(text in any::<String>(), value in any::<String>(), number in any::<f64>()) {
        let origins = Origins { tool: vec![Heard::new(&text)], ..Origins::default() };
        prop_assert_eq!(origins.of(&json!(value)).len(), 1);
        prop_assert_eq!(origins.of(&json!(number)).len(), 1);
        let echo = Origins { tool: vec![Heard::new(&text).without_echo(&json!([value]))], ..Origins::default() };
        prop_assert!(origin(&echo, json!(value)) != ["tool"] || normal(&value, 100).is_empty());
    }

    #[test]
    fn hearing_more_from_outside_never_makes_a_value_trusted(
        said in "[a-c ]{0,30}", outside in "[a-c ]{0,30}", value in "[a-c]{3,5}",
    ) {
        let before = user(&said);
        let after = Origins { outside: vec![Heard::new(&outside)], ..before.clone() };
        let trusted = |origins: &Origins| origins.of(&json!(value)) == BTreeSet::from([Origin::User]);
        prop_assert_eq!(trusted(&before), trusted(&after));
    }
}
