//! The table of decisions, and the laws that hold for all of them.

use proptest::prelude::*;
use serde_json::json;
use tollgate_types::{Security, Source, Surface};

use super::*;
use crate::Provenance;

/// No circumstances to speak of.
const HERE: Circumstances<'static> = Circumstances {
    environment: None,
    now: jiff::Timestamp::UNIX_EPOCH,
    is_tainted: false,
    provenance: Provenance::Unknown,
};

fn tool(name: &str, risk: Risk, permission: Permission) -> ToolDefinition {
    let mut tool = ToolDefinition::new(name, "A tool.");
    (tool.risk, tool.permission) = (risk, permission);
    tool
}

fn caller(role: &str) -> Caller {
    Caller::new("ada", role, Surface::Cli)
}

fn rule(policy: &Policy, role: &str, tool: &ToolDefinition) -> (Effect, String) {
    let decision = policy.decide(&caller(role), tool, None, &HERE);
    (decision.effect, decision.rule)
}

#[test]
fn the_default_table() {
    let policy = Policy::new([]).unwrap();
    let mut own_write = tool("write_file", Risk::Write, Permission::Write);
    own_write.source = Source::of(SourceKind::Builtin);
    let mut own_execute = own_write.clone();
    own_execute.permission = Permission::Execute;
    let mut confirm = tool("read_it", Risk::Read, Permission::Read);
    confirm.security.requires_confirmation = true;
    let cases = [
        ("developer", tool("r", Risk::Read, Permission::Network), Effect::Allow, "default:read"),
        ("developer", own_write.clone(), Effect::Allow, "default:workspace"),
        ("developer", own_execute, Effect::Ask, "default:ask"),
        ("developer", tool("w", Risk::Write, Permission::Write), Effect::Ask, "default:ask"),
        ("developer", tool("d", Risk::Dangerous, Permission::System), Effect::Ask, "default:ask"),
        ("developer", confirm, Effect::Ask, "tool:requires_confirmation"),
        ("reader", tool("r", Risk::Read, Permission::Network), Effect::Allow, "default:read"),
        ("reader", tool("r", Risk::Read, Permission::System), Effect::Deny, "role:reader:permission"),
        ("reader", own_write, Effect::Deny, "role:reader:risk"),
        ("nobody", tool("r", Risk::Read, Permission::Read), Effect::Deny, "role:unknown"),
    ];
    for (role, tool, effect, name) in cases {
        assert_eq!(rule(&policy, role, &tool), (effect, name.to_owned()), "{role} {}", tool.name);
    }
    let decision = policy.decide(&caller("developer"), &tool("d", Risk::Dangerous, Permission::Execute), None, &HERE);
    assert_eq!(decision.reason, "`d` has risk dangerous and needs execute: for the role `developer` it asks first");
}

#[test]
fn asking_by_role() {
    let base = || Role::new("x").allow("*").risk(Risk::Dangerous).permission(Permission::System);
    let (read, write) = (tool("r", Risk::Read, Permission::Read), tool("w", Risk::Write, Permission::Write));
    for (ask, on_read, on_write) in [
        (Ask::Never, Effect::Allow, Effect::Allow),
        (Ask::Write, Effect::Allow, Effect::Ask),
        (Ask::Always, Effect::Ask, Effect::Ask),
    ] {
        let policy = Policy::new([base().ask(ask)]).unwrap();
        assert_eq!((rule(&policy, "x", &read).0, rule(&policy, "x", &write).0), (on_read, on_write), "{ask:?}");
    }
    let mut confirm = read;
    confirm.security.requires_confirmation = true;
    assert_eq!(rule(&Policy::new([base().ask(Ask::Never)]).unwrap(), "x", &confirm).0, Effect::Ask);
}

#[test]
fn inheritance_adds_globs_and_takes_what_is_unsaid() {
    let policy = Policy::new([
        Role::new("base").allow("read_*").exclude("*_secret").permission(Permission::Network).ask(Ask::Always),
        Role::new("mid").inherits("base").risk(Risk::Write),
        Role::new("top").inherits("mid").allow("write_*").allow("get_secret").ask(Ask::Never),
    ])
    .unwrap();
    let write = tool("write_note", Risk::Write, Permission::Network);
    assert_eq!(rule(&policy, "top", &write), (Effect::Allow, "role:top:ask".into()));
    assert_eq!(rule(&policy, "mid", &write), (Effect::Deny, "role:mid:tools".into()));
    assert_eq!(rule(&policy, "mid", &tool("read_x", Risk::Write, Permission::Read)).0, Effect::Ask);
    assert_eq!(rule(&policy, "base", &tool("read_x", Risk::Write, Permission::Read)).1, "role:base:risk");
    assert_eq!(rule(&policy, "top", &tool("get_secret", Risk::Read, Permission::Read)).1, "role:top:tools");
    assert!(policy.has_role("mid") && !policy.has_role("no"));
    assert_eq!(policy.role_names(), ["base", "developer", "mid", "reader", "top"]);
}

#[test]
fn what_is_wrong_is_named() {
    let role = |name: &str| Role::new(name).allow("*");
    let cases = [
        (vec![role("a").inherits("b"), role("b").inherits("a")], "roles inherit in a circle (`a -> b -> a`)"),
        (vec![role("a").inherits("a")], "roles inherit in a circle (`a -> a`)"),
        (vec![role("a").inherits("nix")], "the role `nix` does not exist (`a -> nix`)"),
        (vec![Role::new("a")], "the role `a` names no tools"),
        (vec![role("a"), role("a")], "the role `a` is defined twice"),
        (vec![role("")], "`` is not a role name"),
        (vec![Role::new("a").allow("")], "the role `a` has a glob that can not be read: ``"),
        (vec![role("a").exclude("x_[a")], "the role `a` has a glob that can not be read: `x_[a`"),
    ];
    for (roles, text) in cases {
        let error = Policy::new(roles).expect_err(text);
        assert!(error.to_string().starts_with(text), "{error}");
        assert!(!error.hint().is_empty());
    }
}

#[test]
fn place() {
    let policy = Policy::new([]).unwrap();
    let mut here = tool("r", Risk::Read, Permission::Read);
    here.tenants = vec!["acme".into()];
    here.environments = vec!["production".into()];
    let of = |tenant: Option<&str>, environment| {
        let mut caller = caller("reader");
        caller.tenant = tenant.map(str::to_owned);
        policy.decide(&caller, &here, None, &Circumstances { environment, ..HERE }).rule
    };
    assert_eq!(of(None, Some("production")), "tool:tenants");
    assert_eq!(of(Some("other"), Some("production")), "tool:tenants");
    assert_eq!(of(Some("acme"), None), "tool:environments");
    assert_eq!(of(Some("acme"), Some("staging")), "tool:environments");
    assert_eq!(of(Some("acme"), Some("production")), "default:read");
}

fn guarded(paths: &[&str], patterns: &[&str]) -> ToolDefinition {
    let mut tool = tool("read_it", Risk::Read, Permission::Read);
    let owned = |list: &[&str]| list.iter().map(|&text| text.to_owned()).collect();
    tool.security = Security { allowed_paths: owned(paths), blocked_patterns: owned(patterns), ..Security::default() };
    tool
}

#[test]
fn paths_among_the_arguments() {
    let policy = Policy::new([]).unwrap();
    let tool = guarded(&["./data/**", "/srv/*.txt"], &[]);
    policy.compile(&tool).unwrap();
    let good = [
        json!({"path": "data/a/b.txt"}),
        json!({"path": "./data//a"}),
        json!({"file": "data"}),
        json!({"paths": ["data/a", "/srv/x.txt"]}),
        json!({"path": "data\\a"}),
        json!({"text": "/etc/passwd", "xpath": "/a/b", "profile": "x"}),
        json!({"path": 1}),
    ];
    let bad = [
        json!({"path": "/etc/passwd"}),
        json!({"path": "data/../etc"}),
        json!({"path": "data\\..\\etc"}),
        json!({"path": "~/data/x"}),
        json!({"path": "data/a\u{0}"}),
        json!({"path": ""}),
        json!({"PATH": "etc"}),
        json!({"file_path": "etc"}),
        json!({"filePath": "etc"}),
        json!({"to-file": "etc"}),
        json!({"paths": ["data/a", ["etc"]]}),
        json!({"paths": {"from": "etc"}}),
        json!({"deep": [{"source_path": "/srv/a/b.txt"}]}),
    ];
    let decide = |arguments: &Value| policy.decide(&caller("reader"), &tool, Some(arguments), &HERE);
    for arguments in &good {
        assert_eq!(decide(arguments).effect, Effect::Allow, "{arguments}");
    }
    for arguments in &bad {
        assert_eq!(decide(arguments).rule, "tool:allowed_paths", "{arguments}");
    }
    assert_eq!(policy.decide(&caller("reader"), &tool, None, &HERE).effect, Effect::Allow);
}

/// How a path or a word can be written so that it looks like another.
#[test]
fn tricks_with_paths_and_patterns() {
    let policy = Policy::new([]).unwrap();
    let tool = guarded(&["data/**", "文档/**"], &["(?i)password", "机密"]);
    policy.compile(&tool).unwrap();
    let decide = |arguments: &Value| policy.decide(&caller("reader"), &tool, Some(arguments), &HERE).rule;
    let paths = [
        json!({"path": "data/./../etc"}),
        json!({"path": "data/..//etc"}),
        json!({"path": "/data/a"}),
        json!({"path": "//data/a"}),
        json!({"path": "DATA/a"}),
        json!({"path": "data\u{200b}/a"}),
        json!({"path": "ｄａｔａ/a"}),
        json!({"path": "d\u{430}ta/a"}),
        json!({"path": " data/a"}),
        json!({"path": "file:///data/a"}),
        json!({"path": "~root/a"}),
        json!({"path": "C:\\data\\a"}),
        json!({"path": "文\u{301}档/a"}),
        json!({"files": ["data/a", {"name": "etc/a"}]}),
        json!({"batch": [[{"targetFile": "etc/a"}]]}),
        json!({"FILE_PATH": "etc/a"}),
        json!({"directories": ["etc"]}),
        json!({"源文件": "etc/a"}),
        json!({"保存路径": "etc/a"}),
        json!({"data": {"path": {"value": ["data/a", "etc"]}}}),
    ];
    for arguments in &paths {
        assert_eq!(decide(arguments), "tool:allowed_paths", "{arguments}");
    }
    let blocked = [
        json!({"text": "PassWord"}),
        json!({"a": [["x", {"b": "my password"}]]}),
        json!({"password": 1}),
        json!({"说明": "这是机密文件"}),
        json!({"text": "ｐａｓｓｗｏｒｄ"}),
        json!({"text": "pass\u{200b}word"}),
        json!({"text": "机\u{2060}密"}),
        json!({"path": "data/passwords.txt"}),
    ];
    for arguments in &blocked {
        assert_eq!(decide(arguments), "tool:blocked_patterns", "{arguments}");
    }
    for arguments in [json!({"path": "data/..a/b..c"}), json!({"path": "文档/报告.md"}), json!({"text": "pass word"})]
    {
        assert_eq!(decide(&arguments), "default:read", "{arguments}");
    }
}

#[test]
fn where_a_path_leads_counts() {
    let policy = Policy::new([]).unwrap();
    let tool = guarded(&["data/**"], &[]);
    policy.compile(&tool).unwrap();
    let arguments = json!({"items": [{"path": "data/link/a"}], "text": "data/link/b"});
    let lead = |place: Option<&str>| {
        let places = place.map(|place| vec![place.to_owned(), format!("/elsewhere/{place}")]);
        let refused = policy.refuses_lead(&tool, &arguments, |path| {
            assert_eq!(path, "data/link/a", "only what means a path is followed");
            places.clone()
        });
        refused.map(|decision| (decision.effect, decision.rule))
    };
    assert_eq!(lead(Some("data/deep/a")), None);
    assert_eq!(lead(Some("secret/a")), Some((Effect::Deny, "tool:allowed_paths".into())));
    assert_eq!(lead(None), Some((Effect::Deny, "tool:allowed_paths".into())), "nobody knows where");
    let free = guarded(&[], &["x"]);
    policy.compile(&free).unwrap();
    assert_eq!(policy.refuses_lead(&free, &arguments, |_| None), None, "a tool that names no paths is not followed");
}

#[test]
fn patterns_among_the_arguments() {
    let policy = Policy::new([]).unwrap();
    let tool = guarded(&[], &["(?i)drop\\s+table", "^rm "]);
    policy.compile(&tool).unwrap();
    let decide = |arguments: Value| policy.decide(&caller("reader"), &tool, Some(&arguments), &HERE);
    assert_eq!(decide(json!({"sql": "select 1"})).effect, Effect::Allow);
    let decision = decide(json!({"a": [{"sql": "x; DROP  TABLE y"}]}));
    assert_eq!((decision.effect, decision.rule.as_str()), (Effect::Deny, "tool:blocked_patterns"));
    assert!(decision.reason.contains("drop\\s+table"), "{}", decision.reason);
    assert_eq!(decide(json!({"rm -rf": 1})).effect, Effect::Deny);
}

#[test]
fn rules_that_were_not_compiled_deny() {
    let policy = Policy::new([]).unwrap();
    let mut tool = guarded(&["data/**"], &[]);
    let arguments = json!({"path": "data/a"});
    let decide = |tool: &ToolDefinition| policy.decide(&caller("reader"), tool, Some(&arguments), &HERE).effect;
    assert_eq!(decide(&tool), Effect::Deny);
    policy.compile(&tool).unwrap();
    assert_eq!(decide(&tool), Effect::Allow);
    tool.security.allowed_paths.push("other/**".into());
    assert_eq!(decide(&tool), Effect::Deny, "compiled from an older definition");
}

#[test]
fn bad_rules_are_found_at_registration() {
    let policy = Policy::new([]).unwrap();
    for (tool, text) in [
        (guarded(&[], &["ok", "a(?=b)"]), "blocked pattern that can not be read: `a(?=b)`"),
        (guarded(&[], &["\\p{L}{1,100000}"]), "blocked pattern"),
        (guarded(&["a/["], &[]), "allowed path that can not be read: `a/[`"),
        (guarded(&["../x"], &[]), "allowed path that can not be read: `../x`"),
    ] {
        let error = policy.compile(&tool).unwrap_err().to_string();
        assert!(error.contains(text) && !error.contains('\n'), "{error}");
    }
}

#[test]
fn the_same_roles_have_the_same_hash() {
    let hash = |roles: Vec<Role>| Policy::new(roles).unwrap().hash().to_owned();
    let one = hash(vec![Role::new("a").allow("x").allow("y"), Role::new("b").allow("z")]);
    assert_eq!(one, hash(vec![Role::new("b").allow("z"), Role::new("a").allow("y").allow("x")]));
    assert_ne!(one, hash(vec![Role::new("a").allow("x"), Role::new("b").allow("z")]));
    assert_eq!(one.len(), 64);
}

#[test]
fn roles_come_from_configuration() {
    let role: Role = serde_json::from_value(
        json!({"tools": ["a_*"], "inherits": "reader", "permission": "admin", "risk": "write", "ask": "always"}),
    )
    .unwrap();
    let wanted = Role::new("x").allow("a_*").inherits("reader").permission(Permission::System).risk(Risk::Write);
    assert_eq!(role.named("x"), wanted.ask(Ask::Always));
    assert!(serde_json::from_value::<Role>(json!({"tool": ["a"]})).is_err());
}

const NAMES: [&str; 5] = ["read_a", "read_b", "write_a", "run", "read_secret"];
const GLOBS: [&str; 6] = ["*", "read_*", "*_a", "run", "nothing", "read_secret"];
const RISKS: [Risk; 3] = [Risk::Read, Risk::Write, Risk::Dangerous];
const PERMISSIONS: [Permission; 5] =
    [Permission::Read, Permission::Write, Permission::Execute, Permission::Network, Permission::System];
const ASKS: [Ask; 4] = [Ask::Never, Ask::Default, Ask::Write, Ask::Always];

fn any_role() -> impl Strategy<Value = Role> {
    let globs = || proptest::collection::vec(proptest::sample::select(&GLOBS[..]), 0..3);
    let levels = (0..RISKS.len(), 0..PERMISSIONS.len(), 0..ASKS.len());
    (globs(), globs(), levels).prop_map(|(tools, exclude, (risk, permission, ask))| {
        let role = Role::new("x").allow("*_b").risk(RISKS[risk]).permission(PERMISSIONS[permission]).ask(ASKS[ask]);
        let role = tools.into_iter().fold(role, Role::allow);
        exclude.into_iter().fold(role, Role::exclude)
    })
}

fn any_tool() -> impl Strategy<Value = ToolDefinition> {
    let kinds = proptest::sample::select(vec![SourceKind::Builtin, SourceKind::Native, SourceKind::Mcp]);
    let name = proptest::sample::select(&NAMES[..]);
    (name, 0..RISKS.len(), 0..PERMISSIONS.len(), kinds, any::<bool>(), any::<bool>()).prop_map(
        |(name, risk, permission, kind, confirm, guarded)| {
            let mut tool = tool(name, RISKS[risk], PERMISSIONS[permission]);
            tool.source = Source::of(kind);
            tool.security.requires_confirmation = confirm;
            if guarded {
                tool.security.allowed_paths.push("data/**".into());
            }
            tool
        },
    )
}

/// One step that makes a role stricter.
fn stricter(role: &Role, step: usize, pick: usize) -> Role {
    let mut role = role.clone();
    match step {
        0 => role.risk = role.risk.min(Some(RISKS[pick % RISKS.len()])),
        1 => role.permission = role.permission.min(Some(PERMISSIONS[pick % PERMISSIONS.len()])),
        2 => role.ask = role.ask.max(Some(ASKS[pick % ASKS.len()])),
        3 => role.exclude.push(GLOBS[pick % GLOBS.len()].to_owned()),
        _ => role.tools.truncate(1 + pick % role.tools.len()),
    }
    role
}

proptest! {
    #[test]
    fn a_stricter_role_never_loosens(role in any_role(), tool in any_tool(), step in 0..5_usize, pick in 0..60_usize) {
        let effect = |role: Role, arguments: Option<&Value>| {
            let policy = Policy::new([role]).unwrap();
            policy.compile(&tool).unwrap();
            policy.decide(&caller("x"), &tool, arguments, &HERE).effect
        };
        let arguments = json!({"path": "data/a"});
        for arguments in [None, Some(&arguments)] {
            prop_assert!(effect(stricter(&role, step, pick), arguments) >= effect(role.clone(), arguments));
        }
    }

    #[test]
    fn what_may_be_called_is_listed(role in any_role(), tool in any_tool(), is_inside in any::<bool>()) {
        let policy = Policy::new([role]).unwrap();
        policy.compile(&tool).unwrap();
        let listed = policy.decide(&caller("x"), &tool, None, &HERE).effect;
        let arguments = json!({"path": if is_inside { "data/a" } else { "etc" }});
        let called = policy.decide(&caller("x"), &tool, Some(&arguments), &HERE).effect;
        prop_assert!(called >= listed, "arguments only ever restrict");
        if is_inside {
            prop_assert_eq!(called, listed, "and what is listed can be called");
        }
    }

    #[test]
    fn the_strictest_effect_wins(effects in proptest::collection::vec(
        proptest::sample::select(vec![Effect::Allow, Effect::Ask, Effect::Deny]), 1..5)) {
        let max = effects.iter().copied().max().unwrap();
        prop_assert_eq!(max == Effect::Deny, effects.contains(&Effect::Deny));
        prop_assert_eq!(max == Effect::Allow, effects.iter().all(|&effect| effect == Effect::Allow));
    }
}
