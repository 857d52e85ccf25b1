//! `tollgate mcp login` and `logout`, from a server that lets nobody in to a call of its tool, with a person who follows the
//! address that is printed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

use crate::shop::{Done, Shop};

struct Remote {
    child: Child,
    port: String,
}

impl Remote {
    #[expect(clippy::disallowed_methods, reason = "a server to log in to is started, and no tool runs")]
    fn start() -> Self {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/logins/server.py");
        let mut command = Command::new("python3");
        let mut child = command.arg(script).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut port = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut port).unwrap();
        Self { child, port: port.trim().to_owned() }
    }
}

impl Drop for Remote {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One request: the head of the answer.
fn get(url: &str) -> String {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// Where a person is sent in the end who agrees at the address that is printed.
fn agreed(printed: &mut impl BufRead) -> String {
    let url = printed.lines().map(Result::unwrap).find(|line| line.trim().starts_with("http://")).unwrap();
    let head = get(url.trim());
    head.lines().find_map(|line| line.strip_prefix("Location: ")).unwrap().to_owned()
}

fn shop(remote: &Remote) -> Shop {
    Shop::with(&format!(
        "[mcp.docs]\nurl = \"http://127.0.0.1:{}/mcp\"\n[mcp.docs.tools.look]\nrisk = \"read\"\npermission = \"read\"\n",
        remote.port
    ))
}

fn ended(child: Child) -> Done {
    child.wait_with_output().unwrap().into()
}

#[test]
fn a_person_logs_in_and_out_and_no_token_is_seen() {
    let remote = Remote::start();
    let shop = shop(&remote);
    let before = shop.tollgate(&["--format", "text", "mcp", "list"]);
    assert_eq!(before.code, 1);
    assert!(
        before.stdout.contains("nobody is logged in") && before.stdout.contains("tollgate mcp login docs"),
        "{}",
        before.stdout
    );
    let doctor = shop.tollgate(&["--format", "text", "doctor"]);
    assert!(doctor.stdout.contains("tollgate mcp login docs"), "{}", doctor.stdout);

    let mut child = shop.start(&["mcp", "login", "docs"]);
    let mut printed = BufReader::new(child.stderr.take().unwrap());
    let address = agreed(&mut printed);
    assert!(get(&address.replace("code=", "code=&state=wrong&x=")).starts_with("HTTP/1.1 404"));
    assert!(get(&address.replace("/callback?", "/favicon.ico?")).starts_with("HTTP/1.1 404"));
    let page = get(&address);
    assert!(page.starts_with("HTTP/1.1 200") && page.contains("Referrer-Policy: no-referrer"), "{page}");
    let done = ended(child);
    assert_eq!(done.code, 0, "{}", done.stdout);
    assert_eq!((done.json()["server"].as_str(), done.json()["is_renewed"].as_bool()), (Some("docs"), Some(true)));

    let file = shop.path().join(".tollgate/logins/docs.json");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let list = shop.tollgate(&["mcp", "list"]);
    assert_eq!((list.code, list.json()[0]["state"].as_str()), (0, Some("ready")), "{}", list.stdout);
    let call = shop.tollgate(&["call", "mcp__docs__look"]);
    let text = format!("{}{}{}", call.stdout, call.stderr, shop.ledger().join("\n"));
    assert!(!text.contains("zq-4711") && text.contains("[redacted:secret"), "{text}");
    assert_eq!(shop.tollgate(&["--format", "text", "doctor"]).stdout.matches("mcp login").count(), 0);

    let out = shop.tollgate(&["mcp", "logout", "docs"]);
    assert_eq!((out.code, out.json()["was_logged_in"].as_bool()), (0, Some(true)), "{}", out.stderr);
    assert!(!file.exists());
    assert_eq!(shop.tollgate(&["mcp", "list"]).json()[0]["trouble"], "needs_login");
}

#[test]
fn an_address_is_pasted_where_there_is_no_browser() {
    let remote = Remote::start();
    let shop = shop(&remote);
    let mut child = shop.start(&["mcp", "login", "docs", "--no-browser"]);
    let mut printed = BufReader::new(child.stderr.take().unwrap());
    let address = agreed(&mut printed);
    let mut typed = child.stdin.take().unwrap();
    writeln!(typed, "http://127.0.0.1:1/callback?code=x&state=y\n{address}").unwrap();
    let done = ended(child);
    let mut rest = String::new();
    printed.read_to_string(&mut rest).unwrap();
    assert_eq!(done.code, 0, "{rest}");
    assert!(rest.contains("not the answer") && !rest.contains("code-zq-4711"), "{rest}");

    let child = shop.start(&["mcp", "login", "docs", "--no-browser"]);
    let done = ended(child);
    assert_eq!(done.code, 3, "{}", done.stderr);
    assert!(done.stderr.contains("nothing more stands on standard input"), "{}", done.stderr);
    let late = ended(shop.start(&["mcp", "login", "docs", "--wait", "1"]));
    assert!(late.code == 3 && late.stderr.contains("nobody agreed within 1 s"), "{}", late.stderr);
}

#[test]
fn there_is_nothing_to_log_in_to_where_a_key_or_a_program_is() {
    let shop = Shop::with(
        "[mcp.program]\ncommand = \"python3\"\n[mcp.keyed]\nurl = \"https://example.com/mcp\"\nheaders = { X-Key = \"1234\" }\n",
    );
    for name in ["program", "keyed"] {
        for action in ["login", "logout"] {
            let done = shop.tollgate(&["mcp", action, name]);
            assert_eq!(done.code, 2, "{}", done.stderr);
            assert!(done.stderr.contains("nothing to log in to"), "{}", done.stderr);
        }
    }
    assert_eq!(shop.tollgate(&["mcp", "login", "other"]).code, 2);
}

#[test]
fn what_a_configured_login_lacks_is_said_before_anything_is_asked() {
    let url = "url = \"https://a.example/mcp\"";
    let secret = "client_secret = { env = \"A\" }";
    let issuer = "issuer = \"https://as.example\"";
    for (server, oauth, part) in [
        ("command = \"python3\"", "", "goes with a `url`"),
        ("url = \"http://a.example/mcp\"", "", "in plain text"),
        (&format!("{url}\nheaders = {{ authorization = {{ env = \"A\" }} }}"), "", "say who asks already"),
        (url, secret, "without `client_id`"),
        (url, &format!("client_id = \"a\"\n{secret}"), "whose `client_id` that is"),
        (url, &format!("client_id = \"a\"\n{secret}\nprivate_key = {{ env = \"A\" }}\n{issuer}"), "keep one of them"),
        (url, "issuer = \"http://as.example\"", "no `https` address"),
        (url, "issuer = \"as.example\"", "no `https` address"),
        (url, &format!("client_id = \"a\"\n{issuer}\ngrant = \"client_credentials\""), "without a secret or key"),
        (
            url,
            &format!("client_id = \"a\"\n{secret}\n{issuer}\ngrant = \"client_credentials\"\nredirect_port = 1"),
            "a human's browser",
        ),
        (url, "client_secret = \"plain-zq-4711\"", "a text stands here"),
        (url, "odd = 1", "odd"),
    ] {
        let shop = Shop::with(&format!("[mcp.x]\n{server}\n[mcp.x.oauth]\n{oauth}\n"));
        let done = shop.tollgate(&["mcp", "list"]);
        assert_eq!(done.code, 2, "{server} {oauth}: {}", done.stderr);
        assert!(done.stderr.contains(part) && !done.stderr.contains("zq-4711"), "{part}: {}", done.stderr);
    }
}
