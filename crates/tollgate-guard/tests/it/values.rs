//! Secrets that their form gives away, and what looks like one and is none. The tokens are put together here, so that no
//! scanner of repositories takes them for real ones.

use std::borrow::Cow;

use proptest::prelude::*;
use tollgate_guard::redact::{CustomRule, Examples, Options, Profile, Redactor, RuleFault};

const LETTERS: &[u8] = b"G7hJ9kL2mN4pQ6rS8tU0vW1xY3zA5bC7dE9fB2cD4eF6gH8i";

/// As many characters that look drawn at random.
fn random(count: usize) -> String {
    LETTERS.iter().cycle().take(count).map(|byte| char::from(*byte)).collect()
}

fn hex(count: usize) -> String {
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".chars().cycle().take(count).collect()
}

fn plain() -> Redactor {
    Redactor::new(b"install key", [])
}

fn with(profile: Profile, rules: Vec<CustomRule>) -> Result<Redactor, RuleFault> {
    Redactor::with_options(b"install key", &Options { profile, rules, ..Options::default() })
}

fn tokens() -> Vec<String> {
    let (hex, random) = (|n| hex(n), |n| random(n));
    let upper = |n: usize| random(n).to_uppercase();
    let mut tokens: Vec<String> =
        ["ghp_", "gho_", "ghu_", "ghs_", "ghr_"].map(|head| format!("{head}{}", random(36))).into();
    tokens.extend(["glpat-", "gldt-", "glrt-", "glsoat-"].map(|head| format!("{head}{}", random(20))));
    tokens.extend([
        format!("github_pat_{}_{}", random(22), random(59)),
        format!("AKIA{}", "QYLPMN5HHMJDEXAM".replace("EXAM", "7GH2")),
        format!("xoxb-{}-{}-{}", 123_456_789_012_u64, 123_456_789_012_u64, random(24)),
        format!("xoxp-{0}-{0}-{0}-{1}", 123_456_789_012_u64, random(32)),
        format!("xapp-1-A0{}-{}-{}", upper(9), 1_234_567_890_123_u64, hex(64)),
        format!("sk-{}", random(48)),
        format!("sk-proj-{}_{}", random(40), random(40)),
        format!("sk-ant-api03-{}AA", random(93)),
        format!("sk-or-v1-{}", hex(64)),
        format!("sk_live_{}", random(24)),
        format!("rk_test_{}", random(24)),
        format!("whsec_{}", random(32)),
        format!("AIza{}", random(35)),
        format!("ya29.{}", random(60)),
        format!("GOCSPX-{}", random(28)),
        format!("npm_{}", random(36)),
        format!("pypi-AgEIcHlwaS5vcmc{}", random(80)),
        format!("dckr_pat_{}", random(27)),
        format!("hf_{}", random(34)),
        format!("SG.{}.{}", random(22), random(43)),
        format!("dop_v1_{}", hex(64)),
        format!("shpat_{}", hex(32)),
        format!("lin_api_{}", random(40)),
        format!("SK{}", hex(32)),
        format!("LTAI{}", random(20)),
        format!("hvs.{}", random(95)),
        format!("glsa_{}_{}", random(32), hex(8)),
        format!("PMAK-{}-{}", hex(24), hex(34)),
        format!("ATATT3{}", random(186)),
        format!("dapi{}", hex(32)),
        format!("AGE-SECRET-KEY-1{}", "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L".repeat(2).get(..58).unwrap()),
        format!("nvapi-{}", random(64)),
        format!("gsk_{}", random(52)),
    ]);
    tokens
}

#[test]
fn tokens_go_wherever_they_stand() {
    let redactor = plain();
    for token in tokens() {
        let places = [
            token.clone(),
            format!("it is {token}."),
            format!("（{token}）"),
            format!("用 {token}，然后"),
            format!("x={token}&y=1"),
            format!("{{\"description\": \"{token}\", \"n\": 1}}"),
            format!("{{\\\"a\\\":\\\"{token}\\\"}}"),
            format!("log:\\n{token}\\n"),
            format!("https://h.test/{token}/x"),
            format!("<td>{token}</td>"),
            format!("`{token}`, '{token}'"),
            format!("[{token}]({token})"),
        ];
        for text in places {
            let clean = redactor.text(&text).into_owned();
            assert!(!clean.contains(&token), "{text} -> {clean}");
            assert!(clean.contains("[redacted:"), "{text} -> {clean}");
            assert!(!clean.contains(token.get(token.len() - 8..).unwrap()), "{text} -> {clean}");
            assert_eq!(redactor.text(&clean), clean, "twice: {text}");
        }
    }
}

#[test]
fn neighbours_go_too() {
    let (one, two) = (random(36), hex(36));
    let text = format!("{0}_{1}_mmk {2}_{1}_mmk", one.get(..6).unwrap(), one.get(..29).unwrap(), two.get(..6).unwrap());
    assert_eq!(plain().text(&text).matches("[redacted:maxmind").count(), 2, "{}", plain().text(&text));
    let text = format!("ghp_{one} ghp_{two},npm_{one}");
    assert_eq!(plain().text(&text).matches("[redacted:").count(), 3);
}

#[test]
fn a_vendors_key_goes_and_what_else_is_theirs_stays() {
    let gone = [
        format!("datadog_api: {}", random(40).to_lowercase()),
        format!("\"heroku\": \"{}-1234-4abc-8def-{}\"", hex(8), hex(12)),
        format!("DISCORD_CLIENT = '{}'", random(32)),
        format!("twitch -> x\ntwitch={}", random(30).to_lowercase()),
        format!("mailchimp key: {}-us12", hex(32)),
        format!("telegram_bot: 123456789:A{}", random(34)),
    ];
    for text in gone {
        assert!(plain().text(&text).contains("[redacted:"), "{text}");
    }
    let stays = [
        format!("datadog-agent commit: {}", hex(40)),
        format!("datadog sha = {}", hex(40)),
        format!("heroku request id: {}-1234-4abc-8def-{}", hex(8), hex(12)),
        "Confluent, interoperability and plaid, twitch, linear: recommendations".into(),
        "dropbox: recommendations; linkedin, responsibilities".into(),
        "linear algebra: eigenvalues; travis, kraken = monster".into(),
    ];
    for text in stays {
        assert_eq!(plain().text(&text), text);
    }
}

#[test]
fn what_looks_like_a_secret_and_is_none_stays() {
    let base64 = random(4000);
    let texts = [
        "550e8400-e29b-41d4-a716-446655440000".to_owned(),
        "01JD8ZK3M4N5P6Q7R8S9T0V1W2".into(),
        format!("commit {}", hex(40)),
        format!("\"hash\":\"{}\"", hex(64)),
        format!("sha256:{}", hex(64)),
        format!("\"integrity\": \"sha512-{}==\"", random(86)),
        format!("data:image/png;base64,iVBORw0KGgo{base64}=="),
        format!("{{\"type\":\"image\",\"data\":\"iVBORw0KGgo{base64}\",\"mimeType\":\"image/png\"}}"),
        "!function(t,e){for(var s=t.length,k=0;k<s;k++)e.push(t[k].key===s.token?sk[k]:ask_live(k))}(a,b);".into(),
        "git clone git@github.com:org/repo.git && npm_config_registry=https://registry.npmjs.org npm i".into(),
        "class=\"sk-loading-indicator sk-circle-fade-dot\" risk-assessment-of-tokens task-12345678".into(),
        "订单号 4111111111111111 已发货，快递单号 6222021234567890127，数量 12".into(),
        "token count 1532, 密码不能为空，请输入密码，密码长度至少八位".into(),
        "Pat. 1234, pats.example.com, api-gateway, intra-day, live_stream, test_case_with_a_long_name_1234567890"
            .into(),
        "AKIAIOSFODNN7EXAMPLE is the key of the documentation".into(),
        "eyJhbGciOi".into(),
        "1764495003123 1764495003.123456 2026-11-30T09:30:00.123456Z 3.14159265358979323846".into(),
        "sk-learn sk-SK sk_SK.UTF-8 hf_hub xai-tools fc-match fc-list r8_format".into(),
        "https://example.com/a/b/c?page=2&size=50#section-1".into(),
        "{\"id\": 4111111111111111, \"order\": \"4111111111111111\", \"port\": 8080}".into(),
    ];
    for text in texts {
        let clean = plain().text(&text).into_owned();
        assert!(matches!(plain().text(&text), Cow::Borrowed(_)), "{text} -> {clean}");
    }
}

#[test]
fn chinese_names_of_secrets_count() {
    for text in [
        "密码：hunter2-Zq",
        "密码是hunter2-Zq。",
        "数据库密码: hunter2-Zq",
        "口令为 hunter2-Zq，请保密",
        "访问令牌：hunter2-Zq",
    ] {
        let clean = plain().text(text).into_owned();
        assert!(!clean.contains("hunter2"), "{text} -> {clean}");
    }
    let mut value = serde_json::json!({"用户": "李雷", "密码": "zq-1", "登录密码": "zq-2", "密钥": {"a": "zq-3"}});
    plain().value(&mut value);
    assert!(!value.to_string().contains("zq-") && value.to_string().contains("李雷"), "{value}");
}

#[test]
fn digits_of_a_marker_do_not_betray() {
    let redactor = with(Profile::Pii, Vec::new()).unwrap();
    for text in
        ["13812345678", "4111 1111 1111 1111", "DE89370400440532013000", "password=aaaaaaaaaaaa", "a.b@example.com"]
    {
        let clean = redactor.text(text).into_owned();
        let marker = clean.split("[redacted").nth(1).unwrap();
        assert_eq!(marker.matches(':').count(), 1, "{text} -> {clean}");
    }
}

fn ticket_rule(change: impl FnOnce(&mut CustomRule)) -> CustomRule {
    let mut rule = CustomRule {
        name: "ticket".into(),
        pattern: "TCK-([0-9]{6})".into(),
        keywords: vec!["tck-".into()],
        entropy: 0.0,
        examples: Examples { hidden: vec!["see TCK-123456".into()], kept: vec!["see TCK-12".into()] },
    };
    change(&mut rule);
    rule
}

#[test]
fn the_operators_rules_hide_and_are_checked() {
    let redactor = with(Profile::Default, vec![ticket_rule(|_| {})]).unwrap();
    assert_eq!(redactor.text("on TCK-123456 and TCK-99"), "on TCK-[redacted:ticket] and TCK-99");
    let mut value = serde_json::json!({"note": ["TCK-123456"]});
    redactor.value(&mut value);
    assert_eq!(value.to_string(), r#"{"note":["TCK-[redacted:ticket]"]}"#);
    let long = format!("{}TCK-123456{}", "x".repeat(40_000), "y".repeat(40_000));
    assert!(redactor.text(&long).contains("TCK-[redacted:ticket]"));
    let faults: [(&str, CustomRule); 7] = [
        ("name", ticket_rule(|rule| rule.name = "Ticket 1".into())),
        ("pattern", ticket_rule(|rule| rule.pattern = "TCK-(".into())),
        ("pattern", ticket_rule(|rule| rule.pattern = "x*".into())),
        ("pattern", ticket_rule(|rule| rule.pattern = r"\w{1000}{1000}".into())),
        ("keywords", ticket_rule(|rule| rule.keywords = vec![String::new()])),
        ("match", ticket_rule(|rule| rule.examples.hidden.push("TCK-12345".into()))),
        ("not_match", ticket_rule(|rule| rule.examples.kept.push("TCK-654321".into()))),
    ];
    for (key, rule) in faults {
        let fault = with(Profile::Default, vec![rule]).err().unwrap();
        assert_eq!(fault.key, key, "{fault}");
        assert!(!fault.message.is_empty() && !fault.message.contains('\n'), "{fault}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn redacting_twice_changes_nothing_of_tokens(
        text in "(ghp_|sk-|AKIA|glpat-|eyJ|4111 1111 1111 1111|datadog|heroku|key|=|: |\"| |[A-Za-z0-9]{16,40}|[0-9]{4}|-|密码|@a.cn|\\[redacted:x\\]){0,30}"
    ) {
        for profile in [Profile::Default, Profile::Pii] {
            let redactor = with(profile, Vec::new()).unwrap();
            let once = redactor.text(&text).into_owned();
            let twice = redactor.text(&once).into_owned();
            prop_assert_eq!(twice, once);
        }
    }

    #[test]
    fn nothing_panics(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let text = String::from_utf8_lossy(&bytes);
        let _ = with(Profile::Pii, Vec::new()).unwrap().text(&text);
    }
}
