//! No secret leaves the server: every byte of its answers, of its stream of events, of its metrics, of what it says on
//! standard error and of its data folder is searched for what was planted.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;

use serde_json::{Value, json};

use crate::http::key;
use crate::redact::{INJECTED, KEY, files, search, shop, token};
use crate::shop::Shop;

/// A server whose every byte is kept.
struct Heard {
    child: Child,
    address: String,
    stderr: Option<JoinHandle<Vec<u8>>>,
    seen: Vec<(String, Vec<u8>)>,
}

/// One request, and who asks.
struct Asked<'a> {
    method: &'a str,
    path: &'a str,
    headers: &'a [(&'a str, &'a str)],
    body: String,
}

impl Heard {
    fn start(shop: &Shop) -> Self {
        let mut command = shop.command(&["-vv", "serve", "--bind", "127.0.0.1:0", "--role", "developer"]);
        command.env("REAL_TOKEN", INJECTED).env("MODEL_KEY", KEY).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let (told, address) = sync_channel(1);
        let stderr = std::thread::spawn(move || {
            let mut all = Vec::new();
            while stderr.read_until(b'\n', &mut all).unwrap() > 0 {
                let text = String::from_utf8_lossy(&all).into_owned();
                if let Some((_, rest)) = text.split_once("tollgate: http://") {
                    // Only the first is waited for.
                    let _ = told.try_send(rest.split(' ').next().unwrap().to_owned());
                }
            }
            all
        });
        let address = address.recv().unwrap();
        Self { child, address, stderr: Some(stderr), seen: Vec::new() }
    }

    fn send(&self, asked: &Asked<'_>) -> TcpStream {
        let Asked { method, path, headers, body } = asked;
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n\
             accept: application/json, text/event-stream\r\n{headers}content-length: {length}\r\n\r\n{body}",
            self.address
        )
        .unwrap();
        stream
    }

    /// Asks, keeps all that comes back, and gives it.
    fn ask(&mut self, asked: &Asked<'_>) -> String {
        let close = [asked.headers, &[("connection", "close")]].concat();
        let mut stream = self.send(&Asked { headers: &close, body: asked.body.clone(), ..*asked });
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        let text = String::from_utf8_lossy(&bytes).into_owned();
        self.seen.push((format!("{} {}", asked.method, asked.path), bytes));
        text
    }

    /// The stream of events, which is open when this returns; word of what it told first, and all of it at its end.
    fn listen(&self, operator: &str) -> (Receiver<()>, JoinHandle<Vec<u8>>) {
        let headers = [("authorization", operator)];
        let asked = Asked { method: "GET", path: "/api/v1/events", headers: &headers, body: String::new() };
        let mut stream = self.send(&asked);
        let mut all = vec![0; 4096];
        let head = stream.read(&mut all).unwrap();
        all.truncate(head);
        let (told, is_told) = sync_channel(1);
        let listener = std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(read @ 1..) = stream.read(&mut part) {
                all.extend_from_slice(&part[..read]);
                if all.windows(10).any(|window| window == b"[redacted:") {
                    // One word is enough.
                    let _ = told.try_send(());
                }
            }
            all
        });
        (is_told, listener)
    }

    fn end(mut self) -> Vec<(String, Vec<u8>)> {
        use rustix::process::{Pid, Signal, kill_process};
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        let mut seen = std::mem::take(&mut self.seen);
        seen.push(("standard error".into(), self.stderr.take().unwrap().join().unwrap()));
        seen
    }
}

/// A test that fails leaves no server behind.
impl Drop for Heard {
    fn drop(&mut self) {
        // One that has ended is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Calls of REST that bring a secret in by each way, or make one come out.
fn calls(arguments: &Value) -> Vec<String> {
    let call = |tool: &str, arguments: &Value| json!({"tool": tool, "arguments": arguments}).to_string();
    vec![
        call("leak", arguments),
        call("fails", arguments),
        call("pay", arguments),
        call("ask", &json!({"q": "x"})),
        call("nothing_so_named", arguments),
        call("read_file", &json!({"path": "notes.txt"})),
        call("read_file", &json!({"path": "long.txt"})),
        call("search_files", &json!({"pattern": "secret"})),
        call("leak", &Value::from("{\"password\": \"zq-arg-secret-7\", oops")),
        "{\"tool\": \"leak\", \"arguments\": {\"password\": \"zq-arg-secret-7\"".to_owned(),
    ]
}

/// What an MCP client asks, the session of the older protocol included.
fn speak_mcp(server: &mut Heard, client: &str, arguments: &Value) {
    let message = |id: u64, method: &str, params: Value| {
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string()
    };
    let hello =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    let ask = |server: &mut Heard, headers: &[(&str, &str)], body: String| {
        let headers = [&[("authorization", client)], headers].concat();
        server.ask(&Asked { method: "POST", path: "/mcp", headers: &headers, body })
    };
    let greeted = ask(server, &[], message(1, "initialize", hello));
    let session = greeted.lines().find_map(|line| line.strip_prefix("mcp-session-id: ")).unwrap().to_owned();
    let headers = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2025-11-25")];
    ask(server, &headers, json!({"jsonrpc": "2.0", "method": "notifications/initialized"}).to_string());
    ask(server, &headers, message(2, "tools/list", json!({})));
    for tool in ["leak", "fails", "pay"] {
        let said = ask(server, &headers, message(3, "tools/call", json!({"name": tool, "arguments": arguments})));
        assert!(said.contains("\"jsonrpc\""), "{said}");
    }
}

#[test]
fn no_byte_of_the_server_holds_a_secret() {
    let shop = shop("http://127.0.0.1:9/v1");
    let mut server = Heard::start(&shop);
    let bearer = |name: &str| format!("Bearer {}", key(&shop, name));
    let (client, operator) = (bearer("client"), bearer("operator"));
    let (is_told, events) = server.listen(&operator);
    let arguments = json!({"token": "zq-arg-secret-7", "note": format!("{} and {INJECTED}", token())});
    let as_client = [("authorization", client.as_str())];
    for body in calls(&arguments) {
        server.ask(&Asked { method: "POST", path: "/api/v1/calls", headers: &as_client, body });
    }
    speak_mcp(&mut server, &client, &arguments);
    let stranger = format!("Bearer {}", token());
    for (who, path) in [
        (&client, "/api/v1/tools"),
        (&client, "/api/v1/tools?query=zq-arg-secret-7"),
        (&operator, "/api/v1/approvals"),
        (&client, "/api/v1/approvals"),
        (&operator, "/api/v1/audit?limit=1000"),
        (&operator, "/api/v1/audit?limit=1000&view=attempts"),
        (&operator, "/metrics"),
        (&client, "/metrics"),
        (&operator, "/api/v1/nothing?password=zq-arg-secret-7"),
        (&stranger, "/api/v1/tools"),
        (&client, "/healthz"),
        (&client, "/readyz"),
        (&client, "/openapi.json"),
    ] {
        let headers = [("authorization", who.as_str()), ("cookie", "session=zq-arg-secret-7")];
        server.ask(&Asked { method: "GET", path, headers: &headers, body: String::new() });
    }
    // Calls are told on the stream.
    is_told.recv().unwrap();
    let mut seen = server.end();
    let streamed = events.join().unwrap();
    seen.push(("events".into(), streamed));
    files(&shop.path().join(".tollgate"), &mut seen);
    let marks: usize = seen.iter().map(|(_, bytes)| bytes.windows(10).filter(|w| w == b"[redacted:").count()).sum();
    println!("{} places, {marks} marks", seen.len());
    assert!(seen.len() > 35 && marks > 80, "{marks} marks in {} places", seen.len());
    search(&seen);
    assert_eq!(shop.tollgate(&["audit", "verify"]).code, 0);
}
