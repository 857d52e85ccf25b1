//! Rules read, refused and decided.

use serde_json::{Value, json};
use tollgate_types::{Caller, Permission, Risk, Surface, ToolDefinition};

mod laws;

use super::source::{Argument, ArgumentType};
use crate::{Ask, Circumstances, Effect, Policy, Provenance, Role, RuleSource, RulesError};

mod from;
const HERE: Circumstances<'static> = Circumstances {
    environment: None,
    now: jiff::Timestamp::UNIX_EPOCH,
    is_tainted: false,
    provenance: Provenance::Unknown,
};

fn argument(name: &str, pointer: &str, kind: ArgumentType) -> Argument {
    Argument { name: name.into(), tools: vec!["*".into()], pointer: pointer.into(), kind }
}

fn source(text: &str) -> RuleSource {
    RuleSource {
        file: "rules.cedar".into(),
        text: text.into(),
        arguments: vec![
            argument("amount", "/amount", ArgumentType::Long),
            argument("path", "/path", ArgumentType::String),
            argument("to", "/to", ArgumentType::Strings),
            argument("price", "/order/price", ArgumentType::Decimal),
            argument("due", "/due", ArgumentType::Datetime),
            argument("host", "/host", ArgumentType::Ip),
            argument("force", "/force", ArgumentType::Bool),
        ],
        sets: [("money".to_owned(), vec!["pay_*".to_owned(), "refund".to_owned()])].into(),
        utc_offset_minutes: 480,
    }
}

fn roles() -> [Role; 2] {
    let clerk = Role::new("clerk").allow("*").risk(Risk::Write).permission(Permission::Network).ask(Ask::Never);
    [clerk, Role::new("lead").inherits("clerk").risk(Risk::Dangerous)]
}

fn policy(text: &str) -> Policy {
    Policy::new(roles()).unwrap().with_rules(&source(text)).unwrap()
}

fn broken(text: &str) -> (usize, usize, String, String) {
    let error = Policy::new(roles()).unwrap().with_rules(&source(text)).unwrap_err();
    let RulesError::Text(faults) = error else { panic!("{error}") };
    let fault = faults.first().unwrap();
    (fault.line, fault.column, fault.message.clone(), fault.hint.clone().unwrap_or_default())
}

fn tool(name: &str, risk: Risk) -> ToolDefinition {
    let mut tool = ToolDefinition::new(name, "A tool.");
    (tool.risk, tool.permission) = (risk, Permission::Network);
    tool
}

fn caller(role: &str) -> Caller {
    Caller::new("ada", role, Surface::Cli)
}

fn call(policy: &Policy, role: &str, tool: &ToolDefinition, arguments: Value) -> (Effect, String) {
    let decision = policy.decide(&caller(role), tool, Some(&arguments), &HERE);
    (decision.effect, decision.rule)
}

fn list(policy: &Policy, role: &str, tool: &ToolDefinition) -> Effect {
    policy.decide(&caller(role), tool, None, &HERE).effect
}

const LIMIT: &str = r#"
@id("large") @reason("at most 100 at once")
forbid (principal, action, resource in Tollgate::ToolSet::"money")
when { context.args has amount && context.args.amount > 100 }
unless { context.approved && context.args.amount <= 1000 };
"#;

#[test]
fn an_argument_makes_a_call_ask_or_denies_it_and_hides_nothing() {
    let policy = policy(LIMIT);
    let refund = tool("refund", Risk::Write);
    let of = |arguments| call(&policy, "clerk", &refund, arguments);
    assert_eq!(of(json!({"amount": 100})), (Effect::Allow, "role:clerk:ask".into()));
    assert_eq!(of(json!({"amount": 101})), (Effect::Ask, "cedar:large".into()));
    assert_eq!(of(json!({"amount": 1001})), (Effect::Deny, "cedar:large".into()));
    assert_eq!(of(json!({})), (Effect::Allow, "role:clerk:ask".into()));
    assert_eq!(list(&policy, "clerk", &refund), Effect::Allow);
    assert_eq!(call(&policy, "clerk", &tool("ship", Risk::Write), json!({"amount": 5000})).0, Effect::Allow);
    let decision = policy.decide(&caller("clerk"), &refund, Some(&json!({"amount": 5000})), &HERE);
    assert_eq!(decision.for_model(), "at most 100 at once");
}

#[test]
fn a_value_that_is_not_of_its_type_denies_what_reads_it() {
    let policy = policy(&format!(
        "{LIMIT} @id(\"p\") forbid (principal, action, resource == Tollgate::Tool::\"pay_out\") when {{ context.args \
         has price && context.args.price.greaterThan(decimal(\"10.0\")) }};"
    ));
    let refund = tool("refund", Risk::Write);
    for amount in [json!("100"), json!(null), json!(9_223_372_036_854_775_808_u64), json!(1e300), json!(1.5)] {
        let decision = policy.decide(&caller("clerk"), &refund, Some(&json!({"amount": amount})), &HERE);
        assert_eq!((decision.effect, decision.rule.as_str()), (Effect::Deny, "cedar:large"), "{amount}");
        assert!(decision.reason.contains("`/amount` is not of the type Long"), "{}", decision.reason);
        assert_eq!(decision.for_model(), "a rule about this call could not be evaluated, and so it is denied");
    }
    assert_eq!(call(&policy, "clerk", &refund, json!({"amount": 1e2})).0, Effect::Allow, "1e2 is a whole number");
    // No rule of its slice reads it.
    assert_eq!(call(&policy, "clerk", &tool("ship", Risk::Write), json!({"amount": "x"})).0, Effect::Allow);
    let pay = tool("pay_out", Risk::Write);
    let price = |price: Value| call(&policy, "clerk", &pay, json!({"order": {"price": price}})).0;
    assert_eq!(
        (price(json!(10)), price(json!(10.01)), price(json!("9.5"))),
        (Effect::Allow, Effect::Deny, Effect::Allow)
    );
    assert_eq!(
        (price(json!(1e21)), price(json!(1.23456)), price(json!(true))),
        (Effect::Deny, Effect::Deny, Effect::Deny)
    );
}

#[test]
fn every_type_of_argument() {
    let rule =
        |condition: &str| policy(&format!("@id(\"r\") forbid (principal, action, resource) when {{ {condition} }};"));
    let cases = [
        (
            "context.args has path && context.args.path like \"/etc/*\"",
            json!({"path": "/etc/x"}),
            json!({"path": "/srv"}),
        ),
        ("context.args has to && context.args.to.contains(\"x\")", json!({"to": ["a", "x"]}), json!({"to": ["a"]})),
        ("context.args has force && context.args.force", json!({"force": true}), json!({"force": false})),
        (
            "context.args has due && context.args.due > datetime(\"2026-11-30\")",
            json!({"due": "2026-11-30T09:00:00+08:00"}),
            json!({"due": "2026-11-30"}),
        ),
        (
            "context.args has host && context.args.host.isInRange(ip(\"10.0.0.0/8\"))",
            json!({"host": "10.1.2.3"}),
            json!({"host": "11.1.2.3"}),
        ),
    ];
    let ship = tool("ship", Risk::Read);
    for (condition, yes, no) in cases {
        let policy = rule(condition);
        assert_eq!(call(&policy, "clerk", &ship, yes).0, Effect::Deny, "{condition}");
        assert_eq!(call(&policy, "clerk", &ship, no).0, Effect::Allow, "{condition}");
        let misfit = json!({"path": 1, "to": [1], "force": "yes", "due": "soon", "host": "example.com"});
        assert_eq!(call(&policy, "clerk", &ship, misfit).0, Effect::Deny, "{condition}");
    }
}

#[test]
fn time_place_and_taint() {
    let policy = policy(
        r#"
        @id("night") forbid (principal, action, resource) when { context.hour < 8 || context.weekday > 5 };
        @id("live") forbid (principal, action, resource == Tollgate::Tool::"ship")
        when { context has environment && context.environment == "production" };
        @id("taint") forbid (principal, action, resource)
        when { context.tainted && resource.risk_level > 1 } unless { context.approved };
    "#,
    );
    let at = |now: &str, tool: &ToolDefinition, environment, is_tainted| {
        let now = now.parse().unwrap();
        let here = Circumstances { environment, now, is_tainted, ..HERE };
        let decision = policy.decide(&caller("clerk"), tool, Some(&json!({})), &here);
        (decision.effect, decision.rule)
    };
    let (read, write) = (tool("look", Risk::Read), tool("ship", Risk::Write));
    // In the zone of +08:00: Monday 07:59, Monday 08:00, Saturday noon.
    assert_eq!(at("2026-11-29T23:59:00Z", &read, None, false).1, "cedar:night");
    assert_eq!(at("2026-11-30T00:00:00Z", &read, None, false).0, Effect::Allow);
    assert_eq!(at("2026-12-05T04:00:00Z", &read, None, false).1, "cedar:night");
    assert_eq!(at("2026-11-30T04:00:00Z", &write, Some("production"), false).1, "cedar:live");
    assert_eq!(at("2026-11-30T04:00:00Z", &write, None, true), (Effect::Ask, "cedar:taint".into()));
    assert_eq!(at("2026-11-30T04:00:00Z", &read, None, true).0, Effect::Allow);
    assert!(policy.reads_taint());
    assert_eq!(list(&policy, "clerk", &write), Effect::Allow, "neither time nor taint hides");
}

#[test]
fn a_permit_goes_beyond_the_role_and_a_forbid_wins() {
    let policy = policy(
        r#"
        @id("more") permit (principal in Tollgate::Role::"clerk", action, resource == Tollgate::Tool::"wipe")
        when { context.args has path && context.args.path like "/tmp/*" };
        @id("yes") permit (principal == Tollgate::User::"ada", action, resource == Tollgate::Tool::"drop")
        when { context.approved };
        @id("never") forbid (principal, action, resource) when { resource.tags.contains("secret") };
    "#,
    );
    let (wipe, drop) = (tool("wipe", Risk::Dangerous), tool("drop", Risk::Dangerous));
    assert_eq!(call(&policy, "clerk", &wipe, json!({"path": "/tmp/x"})), (Effect::Allow, "cedar:more".into()));
    assert_eq!(call(&policy, "clerk", &wipe, json!({"path": "/x"})), (Effect::Deny, "role:clerk:risk".into()));
    assert_eq!(list(&policy, "clerk", &wipe), Effect::Allow, "some call of it may be allowed");
    assert_eq!(call(&policy, "clerk", &drop, json!({})), (Effect::Ask, "cedar:yes".into()));
    assert_eq!(call(&policy, "lead", &drop, json!({})).0, Effect::Allow, "its role grants it");
    assert_eq!(list(&policy, "clerk", &tool("other", Risk::Dangerous)), Effect::Deny);
    assert_eq!(call(&policy, "nobody", &wipe, json!({"path": "/tmp/x"})).1, "role:unknown");
    let mut secret = wipe;
    secret.tags.push("secret".into());
    assert_eq!(call(&policy, "lead", &secret, json!({"path": "/tmp/x"})).1, "cedar:never");
    assert_eq!(list(&policy, "lead", &secret), Effect::Deny, "no call of it is ever allowed");
    secret.tags.clear();
    secret.tenants.push("acme".into());
    assert_eq!(call(&policy, "clerk", &secret, json!({"path": "/tmp/x"})).0, Effect::Deny, "what a tool says stands");
}

#[test]
fn a_rule_that_fails_denies() {
    let policy = policy(
        r#"
        @id("sum") permit (principal, action, resource == Tollgate::Tool::"add")
        when { context.args has amount && context.args.amount + 9223372036854775807 > 0 };
        @id("static") forbid (principal, action, resource == Tollgate::Tool::"odd")
        when { resource.risk_level * 9223372036854775807 > 0 };
    "#,
    );
    let add = tool("add", Risk::Read);
    let decision = policy.decide(&caller("clerk"), &add, Some(&json!({"amount": 1})), &HERE);
    assert_eq!((decision.effect, decision.rule.as_str()), (Effect::Deny, "cedar:sum"));
    assert!(decision.reason.contains("overflow"), "{}", decision.reason);
    assert!(!decision.for_model().contains("overflow"));
    assert_eq!(call(&policy, "clerk", &add, json!({"amount": -1})).0, Effect::Allow);
    assert_eq!(list(&policy, "clerk", &add), Effect::Allow);
    let odd = tool("odd", Risk::Write);
    assert_eq!(call(&policy, "clerk", &odd, json!({})), (Effect::Deny, "cedar:static".into()));
    assert_eq!(list(&policy, "clerk", &odd), Effect::Deny, "it fails for every call");
}

#[test]
fn what_is_wrong_has_a_place() {
    let head = "forbid (principal, action, resource)";
    let cases = [
        (format!("@id(\"a\")\n{head} when {{ context.args.amount > 1 }};"), 2, "amount"),
        (format!("@id(\"a\") {head}\nwhen {{ context.args has amuont }} ;\n  oops"), 3, "unexpected"),
        (format!("@id(\"a\") {head}\n  when {{ resource.risk > 1 }};"), 2, "unexpected type"),
        (format!("\n{head};"), 2, "has no usable name"),
        (format!("@id(\"a\") {head};\n@id(\"a\") {head};"), 2, "two rules are named `a`"),
        (format!("@id(\"a\")\n@reasn(\"x\") {head};"), 1, "there is no annotation `@reasn`"),
        (format!("@id(\"a\") @reason(\"\") {head};"), 1, "`@reason` has"),
        (
            "@id(\"a\")\nforbid (principal in Tollgate::Role::\"clrk\", action, resource);".into(),
            2,
            "no role is named `clrk`",
        ),
        ("@id(\"a\")\nforbid (principal, action, resource in Tollgate::ToolSet::\"cash\");".into(), 2, "`cash`"),
        ("@id(\"a\") forbid (principal == ?principal, action, resource);".into(), 1, "slot"),
        (format!("@id(\"a\") {head} when {{ principal.nix == 1 }};"), 1, "nix"),
        (format!("@id(\"a\") {head}\nwhen {{ false && context.approved }};"), 1, "impossible"),
    ];
    for (text, line, words) in cases {
        let (at, column, message, _) = broken(&text);
        assert!(message.contains(words), "{text}\n→ {message}");
        assert_eq!(at, line, "{text}\n→ {message}");
        assert!(column > 0);
    }
}

/// On the small stack of a test's thread: what is refused is refused, what is let through is read and asked.
#[test]
fn no_rule_is_too_deep_to_be_read() {
    let repeated = |part: &str, count: usize| part.repeat(count);
    let shapes: [&dyn Fn(usize) -> String; 8] = [
        &|n| format!("{}resource.risk_level > 1", repeated("resource.name == \"x\" || ", n)),
        &|n| format!("{}resource.risk_level > 1", repeated("resource.name != \"x\" && ", n)),
        &|n| format!("{}true{}", repeated("(", n), repeated(")", n)),
        &|n| format!("{}true{} != true", repeated("if context.tainted then ", n), repeated(" else false", n)),
        &|n| format!("resource.risk_level {} > 100", repeated("+ 1 ", n)),
        &|n| format!("{}1{} == [1]", repeated("[", n), repeated("]", n)),
        &|n| format!("context{}", repeated(".args", n)),
        &|n| format!("{}true{} == true", repeated("{a: ", n), repeated("}.a", n)),
    ];
    for (number, shape) in shapes.iter().enumerate() {
        for n in [10, 60, 95, 130, 190, 395, 1_000, 100_000] {
            let text = format!("@id(\"deep\") forbid (principal, action, resource) when {{ {} }};", shape(n));
            match Policy::new(roles()).unwrap().with_rules(&source(&text)) {
                Ok(policy) => {
                    let effect = call(&policy, "clerk", &tool("ship", Risk::Write), json!({})).0;
                    assert!(effect == Effect::Deny || number > 2, "{number} {n}");
                }
                Err(error) => assert!(n > 10 || number > 4, "{number} {n}: {error}"),
            }
        }
    }
    let long =
        format!("@id(\"a\")\nforbid (principal, action, resource) when {{ {} true }};", repeated("true && ", 500));
    assert!(broken(&long).2.contains("at most 200 operators"));
}

#[test]
fn declarations_are_checked() {
    let refused = |change: &dyn Fn(&mut RuleSource)| {
        let mut source = source(LIMIT);
        change(&mut source);
        Policy::new(roles()).unwrap().with_rules(&source).unwrap_err().to_string()
    };
    let add = |argument: Argument| refused(&|source: &mut RuleSource| source.arguments.push(argument.clone()));
    assert!(add(argument("amount", "/x", ArgumentType::String)).contains("two types"));
    assert!(add(argument("a-b", "/x", ArgumentType::String)).contains("a name has"));
    assert!(add(argument("ab", "x.y", ArgumentType::String)).contains("write `/x/y`"));
    let mut no_tools = argument("ab", "/x", ArgumentType::String);
    no_tools.tools.clear();
    assert!(add(no_tools).contains("names no tools"));
    assert!(refused(&|source| drop(source.sets.insert("x".into(), vec!["[".into()]))).contains("can not be read"));
    assert!(refused(&|source| source.utc_offset_minutes = 900).contains("14 hours"));
}

#[test]
fn examples_are_tried() {
    let with = |example: &str| {
        format!(
            "@id(\"large\")\n{example}\nforbid (principal, action, resource in \
        Tollgate::ToolSet::\"money\") when {{ context.args has amount && context.args.amount > 100 }} unless {{ context.approved }};"
        )
    };
    let good = with(
        r#"@match("{'role':'clerk','tool':'refund','args':{'amount':101}}")
           @match_2("{\"role\":\"lead\",\"tool\":{\"name\":\"pay_x\",\"risk\":\"read\"},\"args\":{\"amount\":101}}")
           @not_match("{'role':'clerk','tool':'refund','args':{'amount':101},'approved':true}")
           @not_match_2("{'role':'clerk','tool':'ship','args':{'amount':101}}")"#,
    );
    policy(&good);
    let cases = [
        (r#"@match("{'role':'clerk','tool':'refund'}")"#, "does not apply to its example `@match`"),
        (r#"@not_match("{'role':'clerk','tool':'refund','args':{'amount':101}}")"#, "applies to its example"),
        (r#"@match("{'role':'clerk','tool':'refund','args':{'amount':'x'}}")"#, "fails for"),
        (r#"@match("{'role':'clrk','tool':'refund'}")"#, "has the role `clrk`"),
        (r#"@match("{'role':'clerk','tools':'refund'}")"#, "unknown field `tools`"),
        (r#"@match("{'role':'clerk'")"#, "can not be read"),
    ];
    for (example, words) in cases {
        let (line, _, message, hint) = broken(&with(example));
        assert!(message.contains(words) && line == 2 && !hint.is_empty(), "{line}: {message}");
    }
}

#[test]
fn the_hash_covers_rules_and_declarations() {
    let hash = |source: &RuleSource| Policy::new(roles()).unwrap().with_rules(source).unwrap().hash().to_owned();
    let base = source(LIMIT);
    let mut changed = [base.clone(), base.clone(), base.clone(), base.clone()];
    changed[0].text = format!("{LIMIT}\n").into();
    changed[1].arguments[1].pointer = "/file".into();
    changed[2].sets.insert("more".into(), vec!["*".into()]);
    changed[3].utc_offset_minutes = 0;
    for other in &changed {
        assert_ne!(hash(&base), hash(other));
    }
    assert_eq!(hash(&base), hash(&RuleSource { file: "elsewhere.cedar".into(), ..base.clone() }));
    assert_ne!(Policy::new(roles()).unwrap().hash(), hash(&base));
}

#[test]
fn a_decision_is_explained() {
    let policy = policy(LIMIT);
    let refund = tool("refund", Risk::Write);
    let explained = policy.explain(&caller("clerk"), &refund, &json!({"amount": 5000}), &HERE);
    assert_eq!((explained.call.effect, explained.list.effect), ("deny", "allow"));
    assert_eq!(explained.changes, ["`amount` of at most 1000: ask"]);
    assert!(explained.rules[0].text.starts_with("forbid (principal"), "{}", explained.rules[0].text);
    assert_eq!(explained.rules[0].reads, ["amount"]);
    let explained = policy.explain(&caller("clerk"), &refund, &json!({"amount": 500}), &HERE);
    assert_eq!(explained.changes, ["a human's yes: then it runs", "`amount` of at most 100: allow"]);
    let wipe = tool("wipe", Risk::Dangerous);
    let explained = policy.explain(&caller("clerk"), &wipe, &json!({}), &HERE);
    assert_eq!(explained.changes, ["the role `developer`: ask", "the role `lead`: allow"]);
}

#[test]
fn unrelated_rules_are_not_asked() {
    let mut text = LIMIT.to_owned();
    for n in 0..1_000 {
        text.push_str(&format!(
            "@id(\"t{n}\") forbid (principal, action, resource == Tollgate::Tool::\"tool_{n}\");\n\
             @id(\"u{n}\") permit (principal == Tollgate::User::\"user_{n}\", action, resource);\n\
             @id(\"l{n}\") forbid (principal in Tollgate::Role::\"lead\", action, resource == Tollgate::Tool::\"refund\");\n"
        ));
    }
    let policy = policy(&text);
    let explained = policy.explain(&caller("clerk"), &tool("refund", Risk::Write), &json!({}), &HERE);
    assert_eq!(explained.rules.len(), 1);
    assert_eq!(explained.rules[0].id, "large");
    let explained = policy.explain(&caller("clerk"), &tool("tool_7", Risk::Write), &json!({}), &HERE);
    assert_eq!(explained.call.rule, "cedar:t7");
}
