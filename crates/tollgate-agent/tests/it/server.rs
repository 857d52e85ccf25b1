//! A model server that sends prepared bytes, one reply a connection, and keeps what it was asked.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tollgate_agent::{ModelClient, ModelConfig, Timeouts};

pub(crate) enum Reply {
    /// These bytes, then the connection ends.
    Bytes(String),
    /// These bytes, then nothing until the client goes.
    Hang(String),
    /// These bytes, then others again and again, with a pause between, until the client goes.
    Endless(String, String, Duration),
}

impl Reply {
    pub(crate) fn again(&self) -> Self {
        match self {
            Self::Bytes(bytes) => Self::Bytes(bytes.clone()),
            Self::Hang(bytes) => Self::Hang(bytes.clone()),
            Self::Endless(begin, more, pause) => Self::Endless(begin.clone(), more.clone(), *pause),
        }
    }
}

pub(crate) struct Server {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Server {
    pub(crate) fn start(replies: Vec<Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = asked.clone();
        std::thread::spawn(move || {
            for reply in replies {
                let (mut stream, _) = listener.accept().unwrap();
                let request = read(&stream);
                log.lock().unwrap().push(request);
                match reply {
                    Reply::Bytes(bytes) => stream.write_all(bytes.as_bytes()).unwrap(),
                    Reply::Hang(bytes) => {
                        stream.write_all(bytes.as_bytes()).unwrap();
                        let _ = stream.read_to_end(&mut Vec::new());
                    }
                    Reply::Endless(begin, more, pause) => {
                        stream.write_all(begin.as_bytes()).unwrap();
                        while stream.write_all(more.as_bytes()).is_ok() {
                            std::thread::sleep(pause);
                        }
                    }
                }
            }
        });
        Self { url, asked }
    }

    pub(crate) fn config(&self) -> ModelConfig {
        let patience = Duration::from_secs(20);
        let timeouts = Timeouts { first_byte: patience, idle: patience, ..Timeouts::default() };
        ModelConfig { timeouts, ..ModelConfig::new(&self.url, "scripted") }
    }

    pub(crate) fn model(&self) -> Arc<ModelClient> {
        Arc::new(ModelClient::new(self.config()).unwrap())
    }

    /// Head and body of each request so far.
    pub(crate) fn asked(&self) -> Vec<(String, Value)> {
        self.asked.lock().unwrap().clone()
    }
}

fn read(stream: &TcpStream) -> (String, Value) {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(reader.read_line(&mut head).unwrap(), 0, "the request ends in its head");
    }
    let head = head.to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap().parse().unwrap();
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    (head, serde_json::from_slice(&body).unwrap())
}

pub(crate) fn http(status: &str, headers: &str, body: &str) -> Reply {
    Reply::Bytes(head(status, &format!("{headers}content-length: {}\r\n", body.len())) + body)
}

pub(crate) fn head(status: &str, headers: &str) -> String {
    format!("HTTP/1.1 {status}\r\nconnection: close\r\n{headers}\r\n")
}

pub(crate) fn json_reply(message: Value, finish: &str) -> Reply {
    let body = json!({"choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 2}});
    http("200 OK", "content-type: application/json\r\n", &body.to_string())
}

/// The same without a word about tokens.
pub(crate) fn says_nothing_of_tokens(text: &str) -> Reply {
    let message = json!({"role": "assistant", "content": text});
    let body = json!({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]});
    http("200 OK", "content-type: application/json\r\n", &body.to_string())
}

pub(crate) fn says(text: &str) -> Reply {
    json_reply(json!({"role": "assistant", "content": text}), "stop")
}

/// A turn with calls, each `id`, `name`, `arguments`.
pub(crate) fn asks(calls: &[(&str, &str, &str)]) -> Reply {
    json_reply(calls_message(calls), "tool_calls")
}

pub(crate) fn calls_message(calls: &[(&str, &str, &str)]) -> Value {
    let call = |(id, name, arguments): &(&str, &str, &str)| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    json!({"role": "assistant", "content": null, "tool_calls": calls.iter().map(call).collect::<Vec<_>>()})
}
