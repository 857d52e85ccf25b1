//! A POST of streamable HTTP, headers and body: whatever is asked, what runs is what both say, and what does not is answered
//! by one JSON text.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;
use tollgate_mcp::ServerInfo;
use tollgate_mcp::http::{Endpoint, Reply, SESSION_ID};

/// Lines of headers, an empty line, and the body; the same is asked again in the session that it may open.
pub fn headers(data: &[u8]) {
    let end = data.windows(2).position(|pair| pair == b"\n\n").unwrap_or(data.len());
    let mut headers = HeaderMap::new();
    for line in data[..end].split(|byte| *byte == b'\n') {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = (HeaderName::from_bytes(&line[..colon]), HeaderValue::from_bytes(&line[colon + 1..]));
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    let body = data.get(end + 2..).unwrap_or_default();
    let endpoint = Endpoint::new(ServerInfo { name: "t".into(), version: "1".into(), instructions: None });
    if let Some(session) = check(&endpoint, &headers, body) {
        headers.insert(SESSION_ID, HeaderValue::try_from(session).unwrap());
        check(&endpoint, &headers, body);
    }
    assert!(matches!(endpoint.delete(&headers, "another", Duration::ZERO), Reply::Empty(404 | 405)));
}

/// The session that was opened.
fn check(endpoint: &Endpoint, headers: &HeaderMap, body: &[u8]) -> Option<String> {
    match endpoint.post(headers, body, "owner", Duration::ZERO) {
        Reply::Empty(status) => {
            assert!(matches!(status, 202 | 404 | 405), "{status}");
            None
        }
        Reply::Json { status, body: answer, session } => {
            assert!(matches!(status, 200 | 400 | 404 | 429), "{status}");
            assert!(!answer.contains(&b'\n'));
            let answer: std::collections::BTreeMap<String, Box<serde_json::value::RawValue>> =
                serde_json::from_slice(&answer).unwrap();
            assert!(answer.contains_key("result") != answer.contains_key("error"));
            session
        }
        Reply::Run(run) => {
            let asked: Value = serde_json::from_slice(body).unwrap();
            let version = &asked["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"];
            assert_eq!(run.session.is_none(), version == "2026-07-28", "{asked}");
            if run.session.is_none() {
                let said = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
                assert_eq!(said("mcp-protocol-version"), version.as_str());
                assert_eq!(said("mcp-method"), asked["method"].as_str());
            }
            None
        }
        Reply::Hear(_) => panic!("a POST is answered, and opens nothing to listen to"),
    }
}
