//! `tollgate doctor`: what is missing, and where a URL may lead.

use serde_json::{Value, json};

use crate::shop::Shop;

#[test]
fn urls_are_judged_as_the_shared_cases_say() {
    let shop = Shop::bare();
    let cases = include_str!("../../../tollgate-guard/tests/cases/ssrf.jsonl");
    let mut judged = 0;
    for line in cases.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let url = case["url"].as_str().unwrap();
        // What happens on the way (redirects, a second answer, a proxy) is the client's to judge.
        if ["redirects", "resolve_seq", "env"].iter().any(|key| case.get(*key).is_some()) || url.contains('\0') {
            continue;
        }
        let mut args = vec!["doctor".to_owned(), "url".to_owned()];
        for (host, addresses) in case.get("resolve").and_then(Value::as_object).into_iter().flatten() {
            for address in addresses.as_array().into_iter().flatten() {
                args.extend(["--resolve".to_owned(), format!("{host}={}", address.as_str().unwrap())]);
            }
        }
        args.extend(["--".to_owned(), url.to_owned()]);
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let done = shop.tollgate(&args);
        let allowed = case["expected"] == "allow";
        assert_eq!(done.code, if allowed { 0 } else { 3 }, "{line}: {} {}", done.stdout, done.stderr);
        assert_eq!(done.json()["allowed"], allowed);
        judged += 1;
    }
    assert!(judged > 50, "only {judged} cases were judged");
    assert!(!shop.path().join(".tollgate").exists(), "to look makes no data folder");
    assert_eq!(shop.tollgate(&["doctor", "url", "https://example.com", "--resolve", "nonsense"]).code, 2);
}

#[test]
fn what_is_missing_is_named_with_what_mends_it() {
    let shop = Shop::with(
        "[models.default]\nbase_url = \"http://127.0.0.1:9/v1\"\nmodel = \"m\"\napi_key = { env = \"NOT_SET_4711\" }\n\
         [[tool]]\nname = \"t\"\ndescription = \"d\"\ncommand = [\"no-such-program-4711\"]\n",
    );
    let done = shop.tollgate(&["doctor"]);
    assert_eq!(done.code, 1);
    let ailing: Vec<Value> =
        done.json().as_array().unwrap().iter().filter(|finding| finding["ok"] == false).cloned().collect();
    assert_eq!(ailing.len(), 2, "{ailing:?}");
    assert!(ailing[0]["found"].as_str().unwrap().contains("NOT_SET_4711"));
    assert!(ailing[1]["mend"].as_str().unwrap().contains("no-such-program-4711"));
    assert!(!shop.path().join(".tollgate").exists());
    let well = Shop::bare().tollgate(&["doctor"]);
    assert_eq!((well.code, well.json()[0]["ok"].clone()), (0, json!(true)));
}
