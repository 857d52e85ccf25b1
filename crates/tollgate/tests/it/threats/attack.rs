//! Names, arguments, schemas and keys that are meant to mislead.

use serde_json::{Value, json};
use tollgate::{Call, Code, Risk, Status};

use super::world::{World, caller, input, objects, quoted, run, tool};

/// T008: a name with characters that nobody sees is none.
pub(super) fn invisible_characters(entry: &Value) {
    run(async {
        let world = World::new("", "").await;
        for hidden in ["\u{e0049}", "\u{202e}", "\u{200b}", "\u{feff}"] {
            assert!(!world.echo(tool(&format!("read{hidden}file"), Risk::Read)));
        }
        let [path] = &quoted(input(entry))[..] else { panic!("one path: {entry}") };
        assert!(path.contains('\u{202e}'), "{path:?}");
        // Asked for by such a name, the answer shows what is in it.
        let outcome = world.raw(&caller("free"), path, "{}").await;
        let message = &outcome.end.error().unwrap().message;
        assert!(message.contains("\\u{202e}") && !message.contains('\u{202e}'), "{message:?}");
    });
}

/// T009: tools of two servers keep their servers' names, and the bare name is neither's.
pub(super) fn a_bare_name_is_nobodys(entry: &Value) {
    run(async {
        let world = World::new("", "").await;
        let name = input(entry).rsplit(' ').next().unwrap();
        assert!(["a", "b"].iter().all(|server| world.echo(tool(&format!("mcp__{server}__{name}"), Risk::Read))));
        let outcome = world.raw(&caller("free"), name, "{}").await;
        assert_eq!(outcome.code(), Some(Code::UnknownTool));
        let hint = outcome.end.error().unwrap().hint.clone().unwrap();
        assert!(["a", "b"].iter().all(|server| hint.contains(&format!("mcp__{server}__{name}"))), "{hint}");
        assert!(world.reached().is_empty());
    });
}

/// T010: what looks like a tool that is there is not registered, and calls nothing.
pub(super) fn look_alike_names(entry: &Value) {
    run(async {
        let world = World::new("", "").await;
        assert!(world.echo(tool("read_file", Risk::Read)));
        let mut names = quoted(input(entry));
        names.extend(
            ["re\u{301}ad_file", "READ-FILE", "readfile", "\u{ff52}ead_file", "read\u{2010}file"].map(str::to_owned),
        );
        assert!(names.len() >= 8, "{names:?}");
        for name in names {
            assert!(!world.echo(tool(&name, Risk::Read)), "{name:?}");
            assert_eq!(world.raw(&caller("free"), &name, "{}").await.code(), Some(Code::UnknownTool), "{name:?}");
        }
        assert!(world.reached().is_empty());
    });
}

/// T013: what a tool says of itself is no reason to run it.
pub(super) fn annotations_are_not_believed(entry: &Value) {
    run(async {
        let world = World::new("", "").await;
        let name = input(entry).rsplit(' ').next().unwrap();
        let mut lying = tollgate::ToolDefinition::new(name, "Reads.");
        lying.annotations.read_only = Some(true);
        lying.annotations.destructive = Some(false);
        assert!(world.echo(lying));
        assert_eq!(world.raw(&caller("reader"), name, "{}").await.code(), Some(Code::UnknownTool));
        assert_eq!(world.raw(&caller("asking"), name, "{}").await.code(), Some(Code::ApprovalRequired));
        assert!(world.reached().is_empty());
    });
}

/// T015: two values under one key, at any depth, are none.
pub(super) fn duplicate_keys(entry: &Value) {
    run(async {
        let world = World::new("", "").await;
        world.echo(tool("open", Risk::Read));
        // The first is a request of the protocol, and an ellipsis stands in it; the second are arguments.
        let arguments = *objects(input(entry)).last().unwrap();
        let more = [
            arguments.to_owned(),
            format!("{{\"deep\": [{{\"in\": {arguments}}}]}}"),
            r#"{"path": "/ok", "p\u0061th": "/etc/passwd"}"#.to_owned(),
            r#"{"a": {"b": 1, "b": 1}}"#.to_owned(),
        ];
        for arguments in more {
            let outcome = world.raw(&caller("free"), "open", &arguments).await;
            assert_eq!(outcome.code(), Some(Code::InvalidJson), "{arguments}: {:?}", outcome.end);
        }
        assert!(world.reached().is_empty());
    });
}

/// T016: nesting is limited, and what is nested deeper is refused whole.
pub(super) fn deep_nesting(entry: &Value) {
    run(async {
        let world = World::new("", "").await;
        world.echo(tool("open", Risk::Read));
        let depth: usize = input(entry).split(['*', '+']).nth(1).unwrap().parse().unwrap();
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let inner = if open == "[" { "" } else { "1" };
            let nested = format!("{}{inner}{}", open.repeat(depth), close.repeat(depth));
            for arguments in
                [nested.clone(), format!("{{\"a\": {nested}}}"), nested.get(..nested.len() / 2).unwrap().to_owned()]
            {
                let code = world.raw(&caller("free"), "open", &arguments).await.code();
                assert!(matches!(code, Some(Code::InvalidJson | Code::InvalidArguments)), "{code:?}");
            }
        }
        assert!(world.reached().is_empty());
        assert_eq!(world.raw(&caller("free"), "open", "{}").await.status(), Status::Done, "it lives");
    });
}

/// T018: a number reaches the tool as it was written, or not at all.
pub(super) fn numbers_and_surrogates(entry: &Value) {
    run(async {
        let world = World::new("", "").await;
        world.echo(tool("open", Risk::Read));
        let mut cases = objects(input(entry));
        assert!(cases.len() >= 3, "{cases:?}");
        cases.extend([
            r#"{"amount": NaN}"#,
            r#"{"amount": -1e999}"#,
            r#"{"amount": 123456789012345678901234567890}"#,
            r#"{"amount": 18446744073709551615}"#,
            r#"{"amount": 0.1}"#,
            r#"{"s": "\udc00\ud800"}"#,
        ]);
        for arguments in cases {
            let before = world.reached().len();
            let outcome = world.raw(&caller("free"), "open", arguments).await;
            let reached = world.reached();
            match reached.get(before) {
                Some(value) => {
                    let squeezed = |text: &str| text.replace(' ', "");
                    assert_eq!(squeezed(&value.to_string()), squeezed(arguments), "it was changed on its way");
                }
                None => assert_eq!(outcome.status(), Status::Refused, "{arguments}: {:?}", outcome.end),
            }
        }
    });
}

/// T048: a schema does not reach out of itself.
pub(super) fn schemas_that_reach_outside(entry: &Value) {
    run(async {
        let world = World::new("", "").await;
        let schemas = objects(input(entry));
        assert!(schemas.len() >= 3);
        for schema in schemas {
            let schema: Value = serde_json::from_str(schema).unwrap();
            let mut inner = tool("reach", Risk::Read);
            inner.input_schema = json!({"type": "object", "properties": {"a": schema.clone()}});
            let mut whole = tool("reach", Risk::Read);
            whole.input_schema = schema.clone();
            assert!(!world.echo(whole), "{schema}");
            // Below the root, `$schema` is a word without meaning (JSON Schema 2020-12, 8.1.1): only a `$ref` leads out.
            assert!(schema.get("$ref").is_none() || !world.echo(inner), "{schema}");
        }
    });
}

/// T059: a model writes no references to secrets: what looks like one is text.
pub(super) fn references_are_plain_text(entry: &Value) {
    run(async {
        let world = World::new("", "").await;
        world.echo(tool("open", Risk::Read));
        let arguments = *objects(input(entry)).first().unwrap();
        assert_eq!(world.raw(&caller("free"), "open", arguments).await.status(), Status::Done);
        assert_eq!(world.reached(), [serde_json::from_str::<Value>(arguments).unwrap()]);
        for arguments in [r#"{"a": {"env": "HOME"}}"#, r#"{"a": "${HOME}"}"#, r#"{"a": {"file": "/etc/passwd"}}"#] {
            world.raw(&caller("free"), "open", arguments).await;
            assert_eq!(world.reached().last(), Some(&serde_json::from_str::<Value>(arguments).unwrap()));
        }
    });
}

/// T070: it ran, nobody heard of it, and it is asked for again: it does not run again.
pub(super) fn a_retry_after_a_timeout(_: &Value) {
    run(async {
        let world = World::new("", "").await;
        let mut slow = tool("pay", Risk::Write);
        slow.execution.timeout_ms = 20;
        slow.execution.max_retries = 3;
        slow.execution.retryable_errors = vec!["timeout".into()];
        world.stalling(slow);
        let pay = || Call::tool("pay", json!({"amount": 1})).with_idempotency_key("k");
        let first = world.house.call(&caller("free"), pay()).await;
        assert_eq!(first.code(), Some(Code::Timeout));
        let again = world.house.call(&caller("free"), pay()).await;
        assert_eq!((again.code(), again.replayed), (Some(Code::Timeout), true));
        assert_eq!(world.reached().len(), 1);
    });
}

/// T073: what is called instead is judged as any call is, and a no is final, whether it is said to the first or the other.
pub(super) fn a_fallback_with_a_weaker_policy(_: &Value) {
    run(async {
        let narrow =
            "[roles.narrow]\ntools = [\"look\"]\nrisk = \"dangerous\"\npermission = \"system\"\nask = \"never\"\n";
        let world = World::new(narrow, "").await;
        let mut look = tool("look", Risk::Read);
        look.execution.timeout_ms = 20;
        look.security.blocked_patterns = vec!["secret".into()];
        look.on_error =
            serde_json::from_value(json!({"default": {"retry": {"max": 0}, "fallback": {"tool": "other"}}})).unwrap();
        world.stalling(look);
        world.echo(tool("other", Risk::Read));
        let look = |role: &str, text: &str| {
            let (caller, call) = (caller(role), Call::tool("look", json!({ "q": text })));
            let house = &world.house;
            async move { house.call(&caller, call).await }
        };
        let of_other = || world.reached().len();
        assert_eq!((look("free", "a secret").await.code(), of_other()), (Some(Code::Denied), 0));
        assert_eq!((look("narrow", "news").await.code(), of_other()), (Some(Code::Timeout), 1));
        let done = look("free", "news").await;
        assert_eq!((done.status(), of_other()), (Status::Done, 3), "{:?}", done.end);
    });
}

/// T071: a key is for one call of one caller.
pub(super) fn one_key_for_two_calls(_: &Value) {
    run(async {
        let world = World::new("", "").await;
        world.echo(tool("pay", Risk::Write));
        let pay = |amount: i64| Call::tool("pay", json!({ "amount": amount })).with_idempotency_key("k");
        let ada = caller("free");
        let eve = tollgate::Caller { subject: "eve".into(), ..ada.clone() };
        let elsewhere = ada.clone().with_tenant("acme");
        assert_eq!(world.house.call(&ada, pay(1)).await.status(), Status::Done);
        assert_eq!(world.house.call(&ada, pay(2)).await.code(), Some(Code::Conflict));
        let again = world.house.call(&ada, pay(1)).await;
        assert!(again.replayed && again.status() == Status::Done);
        for other in [eve, elsewhere] {
            let outcome = world.house.call(&other, pay(2)).await;
            assert!(!outcome.replayed && outcome.status() == Status::Done, "{:?}", outcome.end);
        }
        assert_eq!(world.reached().len(), 3);
    });
}
