//! Redaction by table and by law: no secret stays, nothing else goes.

use std::borrow::Cow;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use proptest::prelude::*;
use serde_json::{Value, json};
use tollgate_guard::redact::{Options, Profile, Redactor};
use tollgate_types::Secret;

fn plain() -> Redactor {
    Redactor::new(b"install key", [])
}

#[test]
fn what_a_name_gives_away_goes() {
    // Each text holds `hunter2-Zq` or `swordfish` once; everything else must stay.
    let texts = [
        "password=hunter2-Zq",
        "password: hunter2-Zq, and more",
        "password: hunter2-Zq.",
        "Password: swordfish",
        "password: swordfish user: bob",
        "the password is: hunter2-Zq",
        "**Password:** hunter2-Zq",
        "**Password**: `hunter2-Zq`",
        "密码 password：hunter2-Zq，然后继续",
        "API key: hunter2-Zq",
        "session id: hunter2-Zq",
        "export DB_PASSWORD='hunter2-Zq' OTHER=1",
        "--password hunter2-Zq --verbose",
        "--pass hunter2-Zq",
        "tool --api-key=hunter2-Zq --x",
        "user=bob&pass=hunter2-Zq&x=1",
        "Authorization: Bearer hunter2-Zq failed with 401",
        "curl -H 'Authorization: Bearer hunter2-Zq' https://x.test",
        "curl -H \"Cookie: sid=hunter2-Zq; b=2\" https://x.test/a",
        "curl -s -u \"admin:hunter2-Zq\" https://x.test",
        "Proxy-Authorization: Basic hunter2-Zq",
        r#"{"a":1, "password": "hunter2-Zq""#,
        r#"error: {"token":"hunter2-Zq","n":5} (401)"#,
        r#"body was {\"client_secret\":\"hunter2-Zq\",\"x\":1}"#,
        r#"'api_key' => 'hunter2-Zq',"#,
        r#"headers["Authorization"] = "Bearer hunter2-Zq""#,
        "user[password]=hunter2-Zq&user[name]=bob",
        "<password>hunter2-Zq</password>",
        "mysql://root:hunter2-Zq@db:3306/x",
        "mysql://root:a/hunter2-Zq@db:3306/x",
        "grant_type=authorization_code&code=hunter2-Zq",
        "https://x.test/cb?code=hunter2-Zq&state=abcdefgh",
        "Server=x;Password=hunter2-Zq;Encrypt=1",
        "spring.datasource.password=hunter2-Zq",
        r"password: hunter2-Zq\nnext: line",
        "redis-cli (password=hunter2-Zq)",
        "a,password=hunter2-Zq,b=2",
    ];
    let redactor = plain();
    for text in texts {
        let clean = redactor.text(text);
        assert!(!clean.contains("hunter2") && !clean.contains("swordfish"), "{text} -> {clean}");
        assert_eq!(clean.matches("[redacted:").count(), 1, "{text} -> {clean}");
        assert_eq!(redactor.text(&clean), clean, "twice: {text}");
    }
    assert_eq!(redactor.text("GET /?token=abc&x=1 HTTP/1.1\nCookie: a=1; b=2\nHost: h").split("[redacted").count(), 3);
}

#[test]
fn what_only_talks_about_secrets_stays() {
    let texts = [
        "password: required",
        "password: must be at least 8 characters",
        "Authorization: required for all requests",
        "Authorization: Bearer <token>",
        "Authorization: Bearer $TOKEN",
        "cookie: a small file that a site leaves",
        "token: a unit of text; tokens used: 1532; max_tokens=4096; token count: 17",
        "next page token: abcdef123",
        "password=$PASSWORD token=${TOKEN} secret={{ secret }} pwd=$(cat pwd)",
        "password=None, token=null, secret=****",
        "def login(user: str, password: str, token: Optional[str] = None):",
        "let token = get_token(user); let secret = self.secret; password=user_password",
        "client = Client(api_key=os.environ[\"API_KEY\"])",
        "token: CancellationToken, pin: Pin<Box<T>>, cookie: CookieJar",
        "if token::is_valid() { secret::read() }",
        "secret://prod/db/password and password=secret://prod/db",
        "password=[redacted:password:0a1b2c3d] token: [redacted:token]",
        "Bearer authentication is used; the bearer of this token",
        "use --password to set it, or --token-url https://x.test/token",
        "https://x.test:8080/@scope/pkg?key=order-17&code=CA&state=open",
        "ssh://git@host/r.git http://[::1]:80/a@b https://host/a:b@c",
        "-----BEGIN PRIVATE KEY----- starts such a file, -----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "the key: it opens the door. author: Alice. compass: north. pin: 13",
        "passed: 12, failed: 3, pass: 12",
        "eyJhbGciOi and keyJ.a.b",
        r#"{"type":"object","properties":{"password":{"type":"string","description":"at least 8"}},"required":["password","email"]}"#,
        r#"{"password":null,"token":"","has_password":true,"api_key":{"env":"OPENAI_API_KEY"},"pin":13}"#,
        "pub passwd: CString, _pin: PhantomPinned, Secret: FromRef<S>, cred: libc::ucred",
        "let cred = ucred { uid }; let pwd = unsafe { read() }; let creds = UnixCredentials::new();",
        "headers[\"Authorization\"] = \"Bearer {}\".format(token); self.token = 'Bearer %s' % token",
        "prompt('Password: ') and list[title=\"Revoked credentials:\"] and f\"{password:?}\"",
        "credentials = service_account.Credentials.from_service_account_file(name)",
        "_refresh token: https://tools.ietf.org/html/rfc6749#section-6",
        "GOOGLE_APPLICATION_CREDENTIALS=key.json; cred._account = account; Pin `=3.11.0`; JWT: **jsonwebtoken 12**",
        "(\"-----BEGIN RSA PRIVATE KEY-----\", \"-----END RSA PRIVATE KEY-----\")",
        "Two credentials: `client` lists and calls; From<UnixCredentials> for libc::ucred",
        "把密码改成新的。token 的数量是 5。",
        "token = Keyword; if token == Punctuation.Marker and x: out_token = Name",
        "self.colon2_token == other.colon2_token && pub fn_token: Token![fn], pub lt_token: Token![<]",
        "($($token:tt) => {}); macro_rules! m { ($key:expr, $secret:ident) => {} }",
        "token_number = self.tokens_taken+len(self.tokens)",
        "private_key: CERTIFICATE_PRIVATE_KEY_TYPES, withCredentials:!1,crossDomain:!0",
        "headers[\"authorization\"] = 'Digest username=\"%s\", realm=\"%s\"' % (a, b)",
        "_START = b\"-----BEGIN OPENSSH PRIVATE KEY-----\"\n_END = b\"-----END OPENSSH PRIVATE KEY-----\"",
        "pub gr_passwd: *mut c_char, pub const TCP_COOKIE: ::c_int = 15, fn f(__cookie: c_int), let mut token = [0; 32];",
        "postgres://reader:PASSWORD@db.test/x shows where one goes",
        r#"{"packages":{"node_modules/cookie":{"version":"0.7.1"}},"dependencies":{"cookie":"^0.7.1"}}"#,
        "y=E||s.allowStaleOnFetchRejection,b=f;s.aVeryLongNameOfAFieldThere()",
    ];
    let redactor = plain();
    for text in texts {
        let clean = redactor.text(text);
        assert!(matches!(clean, Cow::Borrowed(_)), "{text} -> {clean}");
    }
}

#[test]
fn trees_lose_what_stands_under_a_name() {
    let cases = [
        (json!({"note": 1, "password": {"a": [1, "x"]}}), json!({"note": 1, "password": "*"})),
        (json!({"name": "X-Api-Key", "value": "zq"}), json!({"name": "X-Api-Key", "value": "*"})),
        (json!({"name": "colour", "value": "zq"}), json!({"name": "colour", "value": "zq"})),
        (json!([["Cookie", "a=b"], ["Host", "h"]]), json!([["Cookie", "*"], ["Host", "h"]])),
        (json!({"required": ["password", "email"]}), json!({"required": ["password", "email"]})),
        (json!({"args": ["--token", "zq", "-v", "x"]}), json!({"args": ["--token", "*", "-v", "x"]})),
        (json!({"args": ["--token", "--verbose"]}), json!({"args": ["--token", "--verbose"]})),
        (json!({"user": "u", "pass": "zq"}), json!({"user": "u", "pass": "*"})),
        (json!({"pass": 12, "fail": 3}), json!({"pass": 12, "fail": 3})),
        (json!({"token": 1532, "pin": 1234}), json!({"token": 1532, "pin": "*"})),
        (json!({"code": "NOT_FOUND", "state": "x"}), json!({"code": "NOT_FOUND", "state": "x"})),
        (
            json!({"properties": {"token": {"type": "string", "default": "zq"}}}),
            json!({"properties": {"token": {"type": "string", "default": "*"}}}),
        ),
        (json!({"properties": {"token": "zq"}}), json!({"properties": {"token": "*"}})),
        (json!({"vault": {"secret": "secret://db/pw"}}), json!({"vault": {"secret": "secret://db/pw"}})),
        (json!({"log": "got password=zq1 for bob"}), json!({"log": "got password=* for bob"})),
    ];
    let redactor = plain();
    for (mut value, expected) in cases {
        let before = value.clone();
        redactor.value(&mut value);
        let masked = starred(&value.to_string());
        assert_eq!(masked, expected.to_string(), "{before}");
    }
}

/// Each marker as a star.
fn starred(text: &str) -> String {
    let mut parts = text.split("[redacted:");
    let first = parts.next().unwrap().to_owned();
    parts.fold(first, |starred, part| starred + "*" + part.split_once(']').unwrap().1)
}

#[test]
fn json_in_texts_is_read_as_json() {
    let redactor = plain();
    let inner = json!({"headers": [["Cookie", "zq-1"]], "pass\u{200b}word": "zq-2", "n": 1.5}).to_string();
    let escaped = r#"{"pass\u0077ord":"zq-3"}"#;
    let outer = json!({"arguments": inner, "more": escaped, "name": "call"}).to_string();
    let clean = redactor.text(&outer);
    assert!(!clean.contains("zq-") && clean.contains("1.5") && clean.contains("\"name\":\"call\""), "{clean}");
    // Readers that keep the last of two keys would miss the first.
    assert!(!redactor.text(r#"{"a":{"password":"zq-4"},"a":1}"#).contains("zq-4"));
}

#[test]
fn markers_correlate_and_do_not_betray() {
    let (ours, theirs) = (plain(), Redactor::new(b"another key", []));
    let marker = |redactor: &Redactor, text: &str| redactor.text(text).into_owned();
    assert_eq!(marker(&ours, "token=abcdefgh12"), marker(&ours, "token=abcdefgh12"));
    assert_ne!(marker(&ours, "token=abcdefgh12"), marker(&ours, "token=abcdefgh13"));
    assert_ne!(marker(&ours, "token=abcdefgh12"), marker(&theirs, "token=abcdefgh12"));
    for guessable in ["pin=1234567890", "cvv=123", "password=short", "card_number=4111111111111111"] {
        assert!(marker(&ours, guessable).ends_with(']') && marker(&ours, guessable).matches(':').count() == 1);
    }
    let in_base64 = Redactor::new(b"install key", [Secret::new("zq-injected-secret")]);
    assert_eq!(marker(&in_base64, "zq-injected-secret"), marker(&in_base64, &STANDARD.encode("zq-injected-secret")));
}

#[test]
fn secrets_are_learned_and_shared() {
    let redactor = plain();
    let clone = redactor.clone();
    assert_eq!(redactor.secrets_only("zq-learned-later"), "zq-learned-later");
    clone.add_secret(&Secret::new("zq-learned-later\n"));
    clone.add_secret(&Secret::new("of"));
    assert!(redactor.secrets_only("a zq-learned-later b of c").ends_with(" b of c"));
    assert_eq!(redactor.secrets_only("password=abc"), "password=abc");
    clone.add_secret(&Secret::new("20261130"));
    let mut value = json!({"zq-learned-later": [20261130, {"k": "x zq-learned-later"}], "password": "p"});
    redactor.secrets_only_value(&mut value);
    assert!(!value.to_string().contains("zq-learned-later") && !value.to_string().contains("20261130"));
    assert_eq!(value.get("password"), Some(&json!("p")));
}

/// What is looked for has one form, some dozens, some hundreds, or more than a quick search takes.
#[test]
fn of_many_secrets_each_is_found_and_nothing_else() {
    for count in [1, 4, 12, 100] {
        let secret = |number: usize| format!("zq/secret={number}");
        let redactor = Redactor::new(b"install key", (0..count).map(|number| Secret::new(secret(number))));
        let clear = "a secret=17 of zq/secrets, ".repeat(50);
        assert_eq!(redactor.secrets_only(&clear), clear);
        for (number, how) in (0..count).flat_map(|number| [(number, 0), (number, 4), (number, 8)]) {
            let text = format!("{clear}{}{clear}", encoded(&secret(number), how, "", ""));
            let clean = redactor.secrets_only(&text);
            assert!(clean.starts_with(&format!("{clear}[redacted:secret:")) && clean.ends_with(&clear), "{clean}");
        }
    }
}

#[test]
fn a_secret_of_several_lines_is_known_line_by_line() {
    let redactor = plain();
    redactor.add_secret(&Secret::new("{\n  \"private\": \"zq-first-line-of-it\",\n  zq-second-line-of-it\n}"));
    let shown = redactor.secrets_only("account.json:3:   zq-second-line-of-it\n{\n}\n");
    assert!(!shown.contains("zq-second") && shown.contains("{\n}"), "{shown}");
}

#[test]
fn what_a_cut_leaves_of_a_secret_goes() {
    let redactor = Redactor::new(b"install key", [Secret::new("zq-injected/secret=4711")]);
    let base64 = STANDARD.encode("zq-injected/secret=4711");
    for (text, left) in [
        ("a zq-injected/sec… [12 more characters]", "zq-inj"),
        (&format!("x {}… [cut]", base64.get(..14).unwrap()), base64.get(..6).unwrap()),
        ("zq-injected%2Fsec… and zq-injected/secret=47…", "zq-inj"),
    ] {
        let clean = redactor.secrets_only(text);
        assert!(!clean.contains(left) && clean.contains('…'), "{text} -> {clean}");
    }
    for text in ["zq-in… is short", "…zq-inject", "a… b… c…", "zq-other…"] {
        assert_eq!(redactor.secrets_only(text), text);
    }
}

#[test]
fn hostile_texts_cost_linear_time() {
    let pieces = [
        "token=token(",
        "secret=secret://",
        "token=$(",
        "authorization: none ",
        "cookie:none&",
        "cookie: a ",
        "password:\"",
        "password:'a\n",
        "\"password\":{",
        "code=code=",
        "&code=aaaaaaaa",
        "://a:b/",
        "eyJ",
        "-----BEGIN PRIVATE KEY-----",
        "curl ",
        "pass=",
        "bearer ",
        "<password>",
        "{\"password\":",
        "[[\"token\",",
        "Authorization: Digest ${",
        "token: a ",
        "password",
        "a:b@",
        "aaaaaaaa…",
        "sk-",
        "glpat-",
        "_mmk",
        " xoxb-1",
        "4111 1111 ",
        "1 ",
        "DE89 3704 ",
        "a@b.c",
        "datadog=",
        " eyJaaaaaaaaaaaaaaaaaaaaaaaa.",
        "密码是",
        "\\\\\\\"token\\\\\\\":\\\\\\\"",
    ];
    let options = Options { profile: Profile::Pii, ..Options::default() };
    let redactor = Redactor::with_options(b"install key", &options).unwrap();
    redactor.add_secret(&Secret::new("aaaaaaaaaaaaaaaa"));
    for piece in pieces {
        let text = piece.repeat(300_000 / piece.len());
        let started = Duration::from_nanos(cpu_time_ns());
        let clean = redactor.text(&text);
        let spent = Duration::from_nanos(cpu_time_ns()) - started;
        println!("{piece:?}: {spent:?}");
        // Quadratic time would be minutes.
        assert!(spent < Duration::from_secs(10), "{piece}: {spent:?}, {} bytes", clean.len());
    }
}

/// The processor time of this thread: a busy machine does not change it.
fn cpu_time_ns() -> u64 {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    schedstat.split(' ').next().unwrap().parse().unwrap()
}

fn encoded(secret: &str, how: usize, before: &str, after: &str) -> String {
    let surrounded = format!("{before}{secret}{after}");
    let hex = || secret.bytes().map(|byte| format!("{byte:02x}")).collect::<String>();
    match how {
        0 => STANDARD.encode(surrounded),
        1 => URL_SAFE.encode(surrounded),
        2 => hex(),
        3 => hex().to_uppercase(),
        4 => utf8_percent_encode(secret, NON_ALPHANUMERIC).to_string(),
        5 => json!({ "k": surrounded }).to_string(),
        6 => json!({ "k": json!({ "k": surrounded }).to_string() }).to_string(),
        7 => url_form(secret),
        _ => surrounded,
    }
}

fn url_form(secret: &str) -> String {
    secret
        .bytes()
        .map(|byte| match byte {
            b' ' => "+".to_owned(),
            _ if byte.is_ascii_alphanumeric() || b"-._*".contains(&byte) => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_injected_secret_survives(
        secret in "[!-~é密]([ -~é密]{4,30})[!-~]", how in 0_usize..9, before in "[a-z ]{0,5}", after in "[a-z ]{0,5}",
    ) {
        let redactor = Redactor::new(b"install key", [Secret::new(secret.clone())]);
        let text = format!("= {} =", encoded(&secret, how, &before, &after));
        let clean = redactor.secrets_only(&text).into_owned();
        prop_assert!(clean.contains("[redacted:secret"), "{} -> {}", text, clean);
        if how < 2 {
            // Of what is left of the base64 no four bytes of the secret can be read.
            let left = clean.split("[redacted").next().unwrap().trim_start_matches("= ").to_owned();
            let readable = STANDARD.decode(left.get(..left.len() / 4 * 4).unwrap()).unwrap_or_default();
            prop_assert!(readable.len() <= before.len());
        }
    }

    #[test]
    fn redacting_twice_changes_nothing(text in "(password|token|key|Cookie|auth|://|=|: |\"|'|\\{|\\}|\\[|\\]|,|;|&| |\n|\\\\|a|Zq7|-|@|密|secret){0,40}") {
        let redactor = plain();
        let once = redactor.text(&text).into_owned();
        let twice = redactor.text(&once).into_owned();
        prop_assert_eq!(twice, once);
    }

    #[test]
    fn words_alone_give_nothing_away(text in "((the|a|password|token|secret|policy|of|session|cookie|pin|key|bucket)[ .?!]){0,30}") {
        prop_assert!(matches!(plain().text(&text), Cow::Borrowed(_)));
    }

    #[test]
    fn nothing_under_a_secret_name_survives(secret in "zq[a-z0-9]{6,12}", depth in 0_usize..5, name in "(api_key|password|refreshToken|Set-Cookie)") {
        let mut value: Value = json!({ name: secret.clone() });
        for level in 0..depth {
            value = match level % 3 {
                0 => json!([1, value]),
                1 => json!({ "k": value }),
                _ => json!({ "k": value.to_string() }),
            };
        }
        let redactor = plain();
        prop_assert!(!redactor.text(&value.to_string()).contains(&secret));
        redactor.value(&mut value);
        prop_assert!(!value.to_string().contains(&secret));
    }
}
