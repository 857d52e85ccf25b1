//! Another tool instead: a call of its own through the whole gate.

use std::sync::Arc;

use serde_json::{Value, json};
use tollgate_policy::{Ask, Role};
use tollgate_types::{
    Call, Caller, Code, Door, End, HandedKey, Mismatch, Outcome, Permission, Risk, SourceKind, Status, Surface, Tool,
    ToolError, ToolOutput,
};

use super::double::{Deeds, Fault, double, on_error, world};
use crate::world::{Setup, TestTool, World, developer, tool};

/// A tool that fails so, and asks `other` instead.
fn failing(risk: Risk, fault: Fault, ladder: Value) -> TestTool {
    double("look", risk, [fault], &Arc::default()).define(|d| {
        d.output_schema = None;
        d.source.kind = SourceKind::Builtin;
        d.on_error = on_error(ladder);
    })
}

fn to_other() -> Value {
    json!({"default": {"retry": {"max": 0}, "fallback": {"tool": "other"}}})
}

/// A tool that says what it was asked.
fn other(name: &str, risk: Risk) -> TestTool {
    tool(name, risk, |arguments, _| async move { Ok(ToolOutput::structured(json!({"heard": arguments}))) })
        .define(|d| d.source.kind = SourceKind::Builtin)
}

fn house(tools: Vec<Arc<dyn Tool>>) -> World {
    world(Setup { tools, ..Setup::default() }).0
}

#[tokio::test(start_paused = true)]
async fn it_is_an_attempt_of_its_own_and_both_are_on_record() {
    let mapped = json!({"default": {"retry": {"max": 0}, "fallback": {"tool": "other", "map_args": {
        "place": {"pointer": "/city"}, "text": {"template": "{{ city }}?"}, "quick": true,
    }}}});
    let world = house(vec![failing(Risk::Read, Fault::Reset, mapped).arc(), other("other", Risk::Read).arc()]);
    let outcome = world.call("look", json!({"city": "北京"})).await;
    assert_eq!((outcome.status(), outcome.tool.as_str()), (Status::Done, "look"));
    let heard = json!({"heard": {"place": "北京", "text": "北京?", "quick": true}});
    assert_eq!(outcome.result().unwrap().structured.as_ref(), Some(&heard));
    assert!(
        outcome.model_text().ends_with("[the tool that was asked for failed (BROKEN_OFF); this is what `other` says]")
    );
    let records = world.records();
    let child = records.iter().find(|r| r["event"] == "received" && r["tool"]["name"] == "other").unwrap();
    assert_eq!(child["parent"], outcome.attempt.as_ref().unwrap().as_str());
    let events: Vec<&str> =
        records.iter().filter(|r| r["attempt"] == child["attempt"]).filter_map(|r| r["event"].as_str()).collect();
    assert_eq!(events, ["received", "decided", "started", "finished"]);
    let note = format!("attempt {} was made instead", child["attempt"].as_str().unwrap());
    assert_eq!(world.record(&outcome, "finished")["note"], note);
}

#[tokio::test(start_paused = true)]
async fn without_map_args_the_arguments_are_the_same() {
    let world = house(vec![failing(Risk::Read, Fault::Login, to_other()).arc(), other("other", Risk::Read).arc()]);
    let outcome = world.call("look", json!({"a": [1, {"b": "c"}]})).await;
    assert_eq!(outcome.result().unwrap().structured, Some(json!({"heard": {"a": [1, {"b": "c"}]}})));
}

/// What the caller is told when the other way brings nothing either, and that nobody goes on from there.
#[tokio::test(start_paused = true)]
async fn a_fallback_that_fails_is_the_end() {
    let deaf = || {
        double("other", Risk::Read, [Fault::Reset], &Arc::default()).define(|d| {
            d.on_error = on_error(json!({"default": "fail"}));
        })
    };
    let templated = json!({"default": {"retry": {"max": 0}, "fallback": {"tool": "other", "map_args": {"x": {"template": "{{ nothing.at.all }}"}}}}});
    let typed = |d: &mut tollgate_types::ToolDefinition| {
        d.output_schema = Some(json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}));
    };
    let strict = other("other", Risk::Read)
        .schema(json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}));
    let cases: Vec<(&str, TestTool, Option<TestTool>, &str)> = vec![
        ("no such tool", failing(Risk::Read, Fault::Reset, to_other()), None, ""),
        ("wrong arguments", failing(Risk::Read, Fault::Reset, to_other()), Some(strict), "invalid_arguments"),
        (
            "it fails as well",
            failing(Risk::Read, Fault::Reset, to_other()),
            Some(deaf()),
            "upstream_error: the server sneezed",
        ),
        (
            "no arguments can be made",
            failing(Risk::Read, Fault::Reset, templated),
            Some(other("other", Risk::Read)),
            "map_args.x",
        ),
        (
            "its answer does not fit",
            failing(Risk::Read, Fault::Reset, to_other()).define(typed),
            Some(other("other", Risk::Read)),
            "invalid_output",
        ),
    ];
    for (what, look, instead, wanted) in cases {
        let world = house([Some(look), instead].into_iter().flatten().map(TestTool::arc).collect());
        let outcome = world.call("look", json!({})).await;
        let error = outcome.end.error().unwrap();
        let hint = error.hint.as_deref().unwrap_or_default();
        assert_eq!(error.error, Code::UpstreamError, "{what}: {error:?}");
        assert_eq!(hint.contains("instead `other` was asked"), !wanted.is_empty(), "{what}: {hint}");
        assert!(hint.contains(wanted), "{what}: {hint}");
        let ended = world.records().iter().filter(|r| r["event"] == "finished").count();
        assert_eq!(ended, world.records().iter().filter(|r| r["event"] == "received").count(), "{what}");
    }
}

/// T073: the other tool is judged as any is, and a no is final.
#[tokio::test(start_paused = true)]
async fn a_fallback_is_judged_for_the_same_caller() {
    let narrow = Role::new("narrow").allow("look").allow("third").permission(Permission::System).risk(Risk::Dangerous);
    let third = json!({"default": {"retry": {"max": 0}, "fallback": {"tool": "third"}}});
    let hidden = other("other", Risk::Read).define(|d| d.on_error = on_error(third));
    let tools =
        vec![failing(Risk::Read, Fault::Reset, to_other()).arc(), hidden.arc(), other("third", Risk::Read).arc()];
    let (world, _clock) = world(Setup { tools, roles: vec![narrow], ..Setup::default() });
    let caller = Caller::new("eve", "narrow", Surface::Library);
    let outcome = world.gate.call(&caller, Call::tool("look", json!({}))).await;
    assert_eq!(outcome.code(), Some(Code::UpstreamError));
    let text = outcome.model_text();
    assert!(!text.contains("heard") && !text.contains("`other`"), "what it may not call does not exist for it: {text}");
    let codes: Vec<Value> =
        world.records().iter().filter(|r| r["event"] == "finished").map(|r| r["outcome"]["code"].clone()).collect();
    assert_eq!(codes, ["forbidden", "upstream_error"], "no third way is tried after a no");
}

#[tokio::test(start_paused = true)]
async fn a_fallback_that_needs_a_yes_says_where_it_waits() {
    let asks = other("other", Risk::Dangerous).define(|d| d.source.kind = SourceKind::Program);
    let world = house(vec![failing(Risk::Read, Fault::Reset, to_other()).arc(), asks.arc()]);
    let outcome = world.call("look", json!({})).await;
    assert_eq!(outcome.code(), Some(Code::UpstreamError));
    let open = world.operator.approvals(true).await.unwrap();
    let hint = outcome.end.error().unwrap().hint.clone().unwrap();
    assert!(hint.contains("approval_required") && hint.contains(open[0].id.as_str()), "{hint}");
    let yes = tollgate_store::Answer { approved: true, by: "alice".into(), reason: None, typed: None };
    world.operator.answer(open[0].id.as_str(), yes).await.unwrap();
    let again = world.call("look", json!({})).await;
    assert_eq!(again.status(), Status::Done, "{:?}", again.end);
}

/// What may have happened does not happen once more by another way.
#[tokio::test(start_paused = true)]
async fn a_change_that_may_have_happened_has_only_fallbacks_that_read() {
    let named = json!({"rate_limit": {"retry": {"max": 0}, "fallback": {"tool": "other"}}, "default": {"retry": {"max": 0}, "fallback": {"tool": "other"}}});
    for (fault, ladder, other_risk, is_asked) in [
        (Fault::Reset, to_other(), Risk::Write, false),
        (Fault::Hang, to_other(), Risk::Write, false),
        (Fault::Half, to_other(), Risk::Write, false),
        (Fault::Lie, to_other(), Risk::Write, false),
        (Fault::Lie, named, Risk::Write, true),
        (Fault::Refused, to_other(), Risk::Write, true),
        (Fault::Login, to_other(), Risk::Write, true),
        (Fault::Busy, to_other(), Risk::Write, true),
        (Fault::Hang, to_other(), Risk::Read, true),
    ] {
        let world = house(vec![failing(Risk::Write, fault, ladder).arc(), other("other", other_risk).arc()]);
        let outcome = world.call("look", json!({})).await;
        assert_eq!(outcome.status() == Status::Done, is_asked, "{fault:?} {other_risk:?} {:?}", outcome.end);
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_that_does_not_fit_goes_on_with_a_warning_where_the_operator_says_so() {
    for (mismatch, role, wanted) in [
        (Mismatch::Refuse, None, Err(Code::UpstreamError)),
        (Mismatch::Warn, None, Ok(1)),
        (Mismatch::Refuse, Some(Mismatch::Warn), Ok(1)),
        (Mismatch::Warn, Some(Mismatch::Refuse), Err(Code::UpstreamError)),
    ] {
        let look = failing(Risk::Read, Fault::Reset, to_other()).define(|d| {
            d.output_schema =
                Some(json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}));
            d.output.mismatch = mismatch;
            d.output.mismatch_roles.extend(role.map(|said| (developer().role.clone(), said)));
        });
        let world = house(vec![look.arc(), other("other", Risk::Read).arc()]);
        let outcome = world.call("look", json!({})).await;
        let got = outcome.result().map(|result| result.warnings.len()).ok_or(outcome.code().unwrap_or(Code::Internal));
        assert_eq!(got, wanted, "{mismatch:?} {role:?}: {:?}", outcome.end);
    }
}

/// What others wrote of a failure is data: it is said to be, and nothing in it is hidden.
#[tokio::test(start_paused = true)]
async fn the_words_of_others_are_marked_and_made_visible() {
    let words = "no\u{1b}[31m such\u{202e} order\u{e0041} 订单";
    let shown = "no\\u{1b}[31m such\\u{202e} order\\u{e0041} 订单";
    let says = |kind: SourceKind, is_outside: bool| {
        let error = ToolError::new(words).with_hint(words).with_tool_code("A\u{202e}B");
        let error = if is_outside { error.from_outside() } else { error };
        tool("look", Risk::Read, move |_, _| std::future::ready(Err(error.clone()))).define(|d| d.source.kind = kind)
    };
    let reports = |kind: SourceKind| {
        let report = json!({"ok": false, "error": words});
        tool("look", Risk::Read, move |_, _| std::future::ready(Ok(ToolOutput::structured(report.clone()))))
            .define(|d| d.source.kind = kind)
    };
    for (look, is_outside) in [
        (says(SourceKind::Native, false), false),
        (says(SourceKind::Mcp, true), true),
        (reports(SourceKind::Native), false),
        (reports(SourceKind::Program), true),
        (reports(SourceKind::Http), true),
    ] {
        let world = house(vec![look.arc()]);
        let outcome = world.call("look", json!({})).await;
        let error = outcome.end.error().unwrap();
        assert_eq!((error.message.as_str(), error.outside), (shown, is_outside));
        assert_eq!(outcome.model_text().contains("\"outside\":true"), is_outside, "{}", outcome.model_text());
        assert!(!format!("{}{:?}{:?}", error.message, error.hint, error.tool_code).contains('\u{1b}'));
        assert!(error.tool_code.as_deref().is_none_or(|code| code == "A\\u{202e}B"));
    }
}

/// A house where nobody is asked.
fn free(tools: Vec<Arc<dyn Tool>>) -> (World, Caller) {
    let role = Role::new("free").allow("*").risk(Risk::Dangerous).permission(Permission::System).ask(Ask::Never);
    let (world, _clock) = world(Setup { tools, roles: vec![role], ..Setup::default() });
    (world, Caller::new("bob", "free", Surface::Library))
}

async fn keyed(world: &World) -> Outcome {
    world.gate.call(&developer(), Call::tool("look", json!({})).with_idempotency_key("k")).await
}

/// What the other tool did under a key is not done again, by either of the two.
#[tokio::test(start_paused = true)]
async fn a_key_counts_for_both() {
    let deeds = Arc::new(Deeds::default());
    let look = double("look", Risk::Write, [Fault::Refused, Fault::Answer], &deeds).define(|d| {
        d.output_schema = None;
        d.source.kind = SourceKind::Builtin;
        d.on_error = on_error(to_other());
    });
    let runs = Arc::new(Deeds::default());
    let send = double("other", Risk::Write, [Fault::Answer], &runs).define(|d| d.source.kind = SourceKind::Builtin);
    let world = house(vec![look.arc(), send.arc()]);
    let (first, again) = (keyed(&world).await, keyed(&world).await);
    assert_eq!((first.status(), again.status(), again.replayed), (Status::Done, Status::Done, true), "{:?}", again.end);
    assert_eq!((deeds.count(), runs.count()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn circles_are_refused_at_load() {
    let to = |name: &str, next: &str| {
        let ladder = json!({"timeout": {"fallback": {"tool": next}}, "default": "fail"});
        other(name, Risk::Read).define(|d| d.on_error = on_error(ladder)).arc()
    };
    let world = house(vec![to("a", "b"), to("b", "c")]);
    let error = world.gate.register(to("c", "a")).unwrap_err().to_string();
    assert_eq!(error, "its fallbacks go in a circle: c → a → b → c");
    assert_eq!(world.gate.register(to("d", "d")).unwrap_err().to_string(), "its fallbacks go in a circle: d → d");
    assert!(!world.gate.catalog().has("c") && !world.gate.catalog().has("d"));
    world.gate.register(to("c", "nowhere")).unwrap();
    let broken = other("e", Risk::Read).define(|d| d.on_error = on_error(json!({"timeout": "fail"})));
    let error = world.gate.register(broken.arc()).unwrap_err().to_string();
    assert!(error.starts_with("`on_error`: it needs a `default`"), "{error}");
}

/// A change is made again where the system behind it knows the key, and nowhere else.
#[tokio::test(start_paused = true)]
async fn a_key_that_is_handed_on_makes_repeating_safe() {
    for (hand_on, wanted) in [(None, 1), (Some("Idempotency-Key"), 2)] {
        let keys: Arc<std::sync::Mutex<Vec<Option<HandedKey>>>> = Arc::default();
        let seen = Arc::clone(&keys);
        let send = tool("look", Risk::Write, move |_, cx| {
            let mut seen = seen.lock().unwrap();
            seen.push(cx.handed_key);
            let first = seen.len() == 1;
            async move {
                let broken = ToolError::with_code(Code::UpstreamError, "x").with_tool_code("BROKEN_OFF");
                if first { Err(broken) } else { Ok(ToolOutput::text("sent")) }
            }
        });
        let send = send.define(|d| {
            d.idempotency.hand_on = hand_on.map(str::to_owned);
        });
        let (world, caller) = free(vec![send.arc()]);
        let outcome = world.gate.call(&caller, Call::tool("look", json!({})).with_idempotency_key("k")).await;
        let keys = keys.lock().unwrap();
        assert_eq!((keys.len(), matches!(outcome.end, End::Done(_))), (wanted, wanted == 2));
        assert!(keys.windows(2).all(|pair| pair[0] == pair[1]), "every try has the same key");
    }
}

/// An MCP server's word that its tool is idempotent, or did nothing, does not make repeating safe; the operator's does.
#[tokio::test(start_paused = true)]
async fn the_word_of_a_server_does_not_count() {
    let ladder =
        json!({"default": {"retry": {"max": 2, "pause_ms": 1}}, "rate_limit": {"retry": {"max": 2, "pause_ms": 1}}});
    for (kind, repeatable, hint, fault, wanted) in [
        (SourceKind::Mcp, false, true, Fault::Reset, 1),
        (SourceKind::Mcp, true, false, Fault::Reset, 3),
        (SourceKind::Native, false, true, Fault::Reset, 3),
        (SourceKind::Mcp, false, true, Fault::Lie, 1),
        (SourceKind::Native, false, false, Fault::Lie, 3),
        (SourceKind::Mcp, false, true, Fault::Refused, 3),
    ] {
        let deeds = Arc::new(Deeds::default());
        let send = double("look", Risk::Write, [fault], &deeds).define(|d| {
            d.source.kind = kind;
            d.annotations.idempotent = Some(hint);
            d.idempotency.repeatable = repeatable;
            d.on_error = on_error(ladder.clone());
        });
        let (world, caller) = free(vec![send.arc()]);
        world.gate.call(&caller, Call::tool("look", json!({}))).await;
        assert_eq!(deeds.count(), wanted, "{kind:?} {repeatable} {hint} {fault:?}");
    }
}
