//! The client of MCP servers, for MCP's conformance suite to judge: it comes up at the address that is its last argument,
//! lists, and calls what it found, with the arguments that the suite hands it in `MCP_CONFORMANCE_CONTEXT` or with ones that
//! fit each tool's schema; its human accepts each form as it is filled in beforehand. Where the server wants a login it
//! follows the address that a human would be sent to. Exit status: 0 the server was up and every call was answered ·
//! 1 otherwise.

#![expect(clippy::indexing_slicing, reason = "an index into a JSON value that is not there gives null")]

use std::io::{Write as _, stderr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};
use tollgate_guard::client::{Client, Credentials, Origin, Request};
use tollgate_guard::redact::Redactor;
use tollgate_mcp::oauth::{
    Asked, AuthError, ClientIdentity, ClientProof, Grant, LoginFile, Oauth, OauthConfig, SigningKey, UserAgent,
};
use tollgate_mcp::upstream::{Limits, UpstreamConfig, UpstreamKind, UpstreamState, Upstreams};
use tollgate_testkit::{Folder, RecordingDoor, TestClock};
use tollgate_types::{
    BoxFuture, CallResult, ClientCapabilities, ClientCapability, Clock, Code, Cx, End, ErrorObject, LogMessage, Peer,
    PeerError, PeerQuestion, Secret, Tool, ToolDefinition,
};

const NAME: &str = "x";
const WAIT: Duration = Duration::from_secs(20);
/// A tool of the suite that wants to see what became of the schema of another.
const ECHO: &str = "mcp__x__json_schema_echo";
/// The suite's client metadata document.
const DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";
const REDIRECT: &str = "http://127.0.0.1:4711/callback";

#[tokio::main]
async fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let url = std::env::args().next_back().unwrap_or_default();
    let context: Value = match std::env::var("MCP_CONFORMANCE_CONTEXT") {
        Ok(text) => serde_json::from_str(&text)?,
        Err(_) => Value::Null,
    };
    let (clock, folder) = (clock(), Folder::new()?);
    let headers = credentials(&url, &context, &folder, Arc::clone(&clock))?;
    let config = UpstreamConfig::new(NAME, UpstreamKind::Http { url, headers });
    let upstreams = Upstreams::start(vec![config], Limits::default(), clock, Arc::new(|_| {}))?;
    upstreams.settle(WAIT).await;
    let mut is_well = upstreams.list().iter().all(|status| status.state == UpstreamState::Ready);
    let tools = upstreams.tools();
    for (name, arguments) in asked(&context, &tools) {
        let Some(tool) = tools.iter().find(|tool| tool.definition().name == name) else { continue };
        if let Err(error) = tool.call(arguments, cx()).await {
            writeln!(stderr(), "{name}: {}", error.message)?;
            is_well = false;
        }
    }
    writeln!(stderr(), "{:?}", upstreams.list())?;
    upstreams.stop().await;
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What each call knows: a client with a human, and a door that lets the human be asked.
fn cx() -> Cx {
    let form = ToolDefinition::new(format!("mcp__{NAME}__client/elicitation"), "Puts a question to the user.");
    let door = RecordingDoor::new().on(form, |call, arguments| {
        Box::pin(async move {
            let question = PeerQuestion::new(ClientCapability::Elicitation, &arguments);
            let asked = match &call.peer {
                Some(peer) => peer.ask(question).await,
                None => Err(PeerError::Lacks(question.kind)),
            };
            let answer = asked.ok().and_then(|answer| serde_json::from_str(answer.get()).ok());
            match answer {
                Some(answer) => End::Done(CallResult { structured: Some(answer), ..CallResult::default() }),
                None => End::Failed(ErrorObject::new(Code::ToolError, "nobody answered")),
            }
        })
    });
    let client = ClientCapabilities { elicitation: true, ..ClientCapabilities::default() };
    Cx { client, peer: Some(Arc::new(Human)), door: Arc::new(door), ..tollgate_testkit::cx("/") }
}

/// Who accepts every form as it is filled in beforehand, and says yes to what is not.
#[derive(Debug)]
struct Human;

impl Peer for Human {
    fn ask(&self, question: PeerQuestion) -> BoxFuture<'_, Result<Box<RawValue>, PeerError>> {
        let form: Value = serde_json::from_str(question.params.get()).unwrap_or_default();
        let fields = form["requestedSchema"]["properties"].as_object().into_iter().flatten();
        let filled =
            |(name, field): (&String, &Value)| (name.clone(), field.get("default").cloned().unwrap_or(json!(true)));
        let content: Map<String, Value> = fields.map(filled).collect();
        let answer = to_raw_value(&json!({ "action": "accept", "content": content }));
        Box::pin(std::future::ready(answer.map_err(|_| PeerError::Unanswered)))
    }

    fn log(&self, _: LogMessage) {}
}

#[expect(clippy::disallowed_methods, reason = "what a client signs holds for a minute of real time")]
fn clock() -> Arc<dyn Clock> {
    Arc::new(TestClock::new(jiff::Timestamp::now()))
}

/// A login, by what the suite hands over.
fn credentials(
    url: &str,
    context: &Value,
    folder: &Folder,
    clock: Arc<dyn Clock>,
) -> Result<Credentials, Box<dyn std::error::Error>> {
    let text = |name: &str| context[name].as_str();
    let proof = match (text("client_secret"), text("private_key_pem")) {
        (Some(secret), _) => ClientProof::Secret(Secret::new(secret)),
        (None, Some(pem)) => ClientProof::Key(Arc::new(SigningKey::from_pem(&Secret::new(pem))?)),
        (None, None) => ClientProof::Nothing,
    };
    let identity = match text("client_id") {
        Some(id) => ClientIdentity::Registered { id: id.to_owned(), proof },
        None => ClientIdentity::Document(DOCUMENT.to_owned()),
    };
    let scenario = std::env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
    let grant = if scenario.contains("client-credentials") { Grant::ClientCredentials } else { Grant::Code };
    let config = OauthConfig { url: url.to_owned(), identity, issuer: None, scopes: Vec::new(), grant };
    let (file, redactor) = (LoginFile::new(folder.path(), NAME), Redactor::new(b"conformance", []));
    let login = Oauth::new(config, file, Credentials::default(), redactor, clock)?;
    Ok(Arc::new(login.asking(Arc::new(Willing))).credentials())
}

/// A human who agrees to everything at once.
struct Willing;

impl UserAgent for Willing {
    fn redirect_uri(&self) -> String {
        REDIRECT.to_owned()
    }

    fn visit<'a>(&'a self, asked: &'a Asked) -> BoxFuture<'a, Result<String, AuthError>> {
        Box::pin(async {
            let url = asked.url().to_owned();
            let client = Client::new([Origin::of(&url)?]);
            let (method, headers, secret_headers) = ("GET".to_owned(), Vec::new(), Vec::new());
            let response =
                client.send(Request { method, url, headers, secret_headers, body: None, timeout: WAIT }).await?;
            let location = response.header("location").map(ToOwned::to_owned);
            location.ok_or_else(|| AuthError::Human(format!("HTTP {} is no redirect", response.status)))
        })
    }
}

/// What is called: what the suite says, or each tool once.
fn asked(context: &Value, tools: &[Arc<dyn Tool>]) -> Vec<(String, Value)> {
    if let Some(calls) = context.get("toolCalls").and_then(Value::as_array) {
        let name = |call: &Value| format!("mcp__{NAME}__{}", call["name"].as_str().unwrap_or_default());
        return calls.iter().map(|call| (name(call), call["arguments"].clone())).collect();
    }
    let definitions: Vec<_> = tools.iter().map(|tool| tool.definition()).collect();
    let other = definitions.iter().find(|definition| definition.name != ECHO);
    let arguments = |name: &str, schema: &Value| match other {
        Some(other) if name == ECHO => json!({ "schema": other.input_schema }),
        _ => fitting(schema),
    };
    definitions.iter().map(|it| (it.name.clone(), arguments(&it.name, &it.input_schema))).collect()
}

/// Arguments that have what a schema requires.
fn fitting(schema: &Value) -> Value {
    let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    let argument = |name: &Value| {
        let name = name.as_str().unwrap_or_default();
        let value = match schema["properties"][name]["type"].as_str() {
            Some("integer" | "number") => json!(5),
            Some("boolean") => json!(true),
            Some("object") => json!({}),
            Some("array") => json!([]),
            _ => json!("text"),
        };
        (name.to_owned(), value)
    };
    Value::Object(required.iter().map(argument).collect::<Map<_, _>>())
}
