//! `tollgate serve` over HTTP and `tollgate keys`, as a client without any library sees them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Child;

use serde_json::{Value, json};

use crate::shop::{Done, Shop};

pub(crate) struct Server {
    child: Child,
    pub(crate) address: String,
}

impl Server {
    pub(crate) fn start(shop: &Shop, args: &[&str]) -> Self {
        let mut child = shop.start(&[&["serve", "--bind", "127.0.0.1:0"], args].concat());
        let mut line = String::new();
        BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).and_then(|rest| rest.split(' ').next());
        Self { address: address.unwrap_or_else(|| panic!("{line}")).to_owned(), child }
    }

    /// One request on a connection of its own: the status and the body.
    pub(crate) fn ask(&self, method: &str, path: &str, key: &str, body: &str) -> (u16, Value) {
        self.ask_saying(method, path, key, "", body)
    }

    /// The same with more headers, each with its line's end.
    pub(crate) fn ask_saying(&self, method: &str, path: &str, key: &str, more: &str, body: &str) -> (u16, Value) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\n\
             content-length: {length}\r\nconnection: close\r\n{more}\r\n{body}",
            self.address
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or_else(|_| Value::from(body)))
    }

    #[cfg(unix)]
    pub(crate) fn end(mut self) -> Option<i32> {
        use rustix::process::{Pid, Signal, kill_process};
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        self.child.wait().unwrap().code()
    }
}

/// A test that fails leaves no server behind.
impl Drop for Server {
    fn drop(&mut self) {
        // One that has ended is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn key(shop: &Shop, name: &str) -> String {
    std::fs::read_to_string(shop.path().join(format!(".tollgate/keys/{name}.key"))).unwrap().trim().to_owned()
}

#[test]
fn a_team_calls_waits_and_approves() {
    let shop = Shop::with("[[tool]]\nname = \"deploy\"\ndescription = \"d\"\ncommand = [\"echo\", \"deployed\"]\n");
    let server = Server::start(&shop, &["--role", "developer"]);
    let (client, operator) = (key(&shop, "client"), key(&shop, "operator"));
    assert_eq!(server.ask("GET", "/api/v1/tools", "nonsense", "").0, 401);
    let (status, tools) = server.ask("GET", "/api/v1/tools", &client, "");
    assert_eq!((status, tools["tools"].as_array().unwrap().len()), (200, 12));
    let deploy = || server.ask("POST", "/api/v1/calls", &client, r#"{"tool":"deploy","arguments":{}}"#);
    let (status, waiting) = deploy();
    assert_eq!((status, &waiting["status"]), (200, &json!("waiting")));
    let approve = format!("/api/v1/approvals/{}/approve", waiting["waiting"]["id"].as_str().unwrap());
    assert_eq!(server.ask("POST", &approve, &client, "{}").0, 403, "never the asker");
    assert_eq!(server.ask("POST", &approve, &operator, "{}").0, 200);
    assert_eq!(deploy().1["result"]["content"][0]["text"], "deployed");
    assert_eq!(deploy().1["status"], "waiting", "once");
    assert_eq!(server.ask("GET", "/api/v1/audit?limit=1", &client, "").0, 403);
    assert_eq!(server.ask("GET", "/api/v1/audit?limit=1", &operator, "").0, 200);
    assert_eq!(server.ask("GET", "/readyz", "", "").0, 200);
    #[cfg(unix)]
    assert_eq!(server.end(), Some(0));
    assert_eq!(shop.tollgate(&["audit", "verify"]).code, 0);
}

#[test]
fn keys_are_made_listed_and_revoked() {
    let shop = Shop::bare();
    let made = shop.tollgate(&["--role", "developer", "keys", "create", "laptop"]);
    let secret = made.json()["key"].as_str().unwrap().to_owned();
    assert_eq!(shop.tollgate(&["keys", "create", "laptop"]).code, 2, "a name is given once");
    assert_eq!(shop.tollgate(&["--role", "nobody", "keys", "create", "x"]).code, 2);
    assert_eq!(shop.tollgate(&["keys", "create", "bad name"]).code, 2);
    let listed = shop.tollgate(&["keys", "list"]);
    assert_eq!(listed.json()[0]["role"], "developer");
    assert!(!listed.stdout.contains(&secret) && !listed.stdout.contains("hash"));
    let server = Server::start(&shop, &[]);
    assert_eq!(server.ask("GET", "/api/v1/tools", &secret, "").1["tools"].as_array().unwrap().len(), 11);
    assert_eq!(shop.tollgate(&["keys", "revoke", "laptop"]).code, 0);
    #[cfg(unix)]
    assert_eq!(server.end(), Some(0));
    let again = Server::start(&shop, &[]);
    assert_eq!(again.ask("GET", "/api/v1/tools", &secret, "").0, 401);
    #[cfg(unix)]
    again.end();
}

#[test]
fn a_start_that_would_be_wrong_says_so() {
    let shop = Shop::bare();
    let exposed: Done = shop.tollgate(&["serve", "--bind", "0.0.0.0:0"]);
    assert_eq!(exposed.code, 2);
    assert!(exposed.stderr.contains("tollgate keys create"), "{}", exposed.stderr);
    assert_eq!(shop.tollgate(&["serve", "--bind", "nowhere"]).code, 2);
    let taken = Server::start(&shop, &[]);
    let second = shop.tollgate(&["serve", "--bind", &taken.address]);
    assert_eq!(second.code, 2);
    assert!(second.stderr.contains("cannot be listened on"), "{}", second.stderr);
    #[cfg(unix)]
    taken.end();
    let role = shop.tollgate(&["--role", "developer", "serve", "--bind", "127.0.0.1:0"]);
    assert!(role.code == 2 && role.stderr.contains("keys create NAME --role ROLE"), "{}", role.stderr);
}
