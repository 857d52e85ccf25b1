//! Every text of the table in every language, as models read it.

use std::fmt::Write as _;

use super::*;
use crate::Code;

/// The names in braces that a template wants; not those of an example in JSON.
fn places(template: &str) -> Vec<&str> {
    let names = template.split('{').skip(1).filter_map(|after| after.split_once('}').map(|(name, _)| name));
    let mut names: Vec<&str> = names.filter(|name| name.chars().all(|c| c.is_ascii_lowercase())).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn is_chinese(text: &str) -> bool {
    text.chars().any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c))
}

/// Every text in every language: a change of wording is seen.
#[test]
fn all_texts() {
    let mut page = String::new();
    for code in Code::ALL {
        let _ = writeln!(page, "{code}: {}", next::lead(*code));
        for language in Language::ALL {
            let _ = writeln!(page, "  -> {}", next::step(*code, language));
        }
        for text in Text::ALL.iter().filter(|text| text.code() == *code) {
            for language in Language::ALL {
                let (message, hint) = text.templates(language);
                let _ = writeln!(page, "  {message}\n    -> {hint}");
            }
        }
    }
    for flaw in Flaw::ALL {
        let _ = writeln!(page, "{}\n{}", flaw.template(Language::En), flaw.template(Language::Zh));
    }
    insta::assert_snapshot!(page);
}

#[test]
fn languages_say_the_same() {
    for text in Text::ALL {
        let ((en, en_hint), (zh, zh_hint)) = (text.templates(Language::En), text.templates(Language::Zh));
        assert_eq!((places(en), places(en_hint)), (places(zh), places(zh_hint)), "{text:?}");
        assert!(!en_hint.is_empty() && is_chinese(zh_hint), "{text:?} says what to do next");
        assert!(is_chinese(zh) || zh == "{first}", "{text:?}");
        assert!(!en.starts_with(char::is_uppercase) && !en.ends_with('.'), "{text:?} is a fragment");
    }
    for flaw in Flaw::ALL {
        let (en, zh) = (flaw.template(Language::En), flaw.template(Language::Zh));
        assert_eq!(places(en), places(zh), "{flaw:?}");
        assert!(is_chinese(zh), "{flaw:?}");
    }
    for code in Code::ALL {
        assert!(is_chinese(next::lead(*code)) && is_chinese(next::step(*code, Language::Zh)));
        assert!(!is_chinese(next::step(*code, Language::En)));
    }
}

#[test]
fn an_error_is_put_in_a_language_with_its_details() {
    let details = vec![
        Flaw::Missing.at("/path", &[("name", &"path")]),
        Flaw::Type.at("/a~1b", &[("types", &"integer or null"), ("got", &"`\"{first}\"`")]),
    ];
    let mut error = Text::MisfitMany.error(&[("tool", &"read_file"), ("more", &1)]).with_details(details);
    assert_eq!(error.message, "the arguments do not fit `read_file`: /path: `path` is required (and 1 more)");
    let english = error.clone();
    error.put_in(Language::Zh);
    assert_eq!(error.message, "参数不符合 `read_file` 的要求：/path: 缺少必填项 `path`（另有 1 处）");
    assert_eq!(error.details[1].message, "应为 integer or null，实际为 `\"{first}\"`");
    assert_eq!((error.error, &error.details[1].path), (english.error, &english.details[1].path), "contracts stay");
    let mut better = english.with_hint("give the path");
    better.put_in(Language::En);
    assert_eq!(better.hint.as_deref(), Some("give the path"), "what a stage knows better stays");
}

#[test]
fn the_words_of_a_tool_stay_its_own() {
    let mut error = ErrorObject::new(Code::ToolError, "no product has the SKU `A1O3`").with_hint("try `A103`");
    error.put_in(Language::Zh);
    assert_eq!(error.message, "工具报告失败：no product has the SKU `A1O3`");
    assert_eq!(error.hint.as_deref(), Some("try `A103`"));
    let mut silent = ErrorObject::new(Code::Timeout, "the tool did not finish within 10 ms");
    silent.put_in(Language::En);
    assert_eq!(silent.hint.as_deref(), Some("ask for less at once, or ask again later"));
}

#[test]
fn parameters_are_cleaned_before_they_are_put_anew() {
    let mut error = Text::Denied.error(&[("reason", &"the token is hunter2")]);
    error.clean(|text| text.replace("hunter2", "[…]"));
    error.put_in(Language::Zh);
    assert_eq!(error.message, "策略不允许此调用：the token is […]");
    let near = alternatives(["a", "b"]);
    let mut error = Text::UnknownToolNear.error(&[("name", &"c"), ("near", &near)]);
    assert_eq!(error.hint.as_deref(), Some("did you mean `a` or `b`?"));
    error.put_in(Language::Zh);
    assert_eq!(error.hint.as_deref(), Some("是否想用 `a` 或 `b`？"));
}
