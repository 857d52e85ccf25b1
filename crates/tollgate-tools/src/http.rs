//! An HTTP request as a tool: the arguments fill the path, then the query or a JSON body; the answer is the result.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value};
use tollgate_guard::client::{
    Client, ClientError, CredentialSource, Credentials, Current, NOT_ALLOWED_ADVICE, Renewal, Request, Response,
};
use tollgate_types::{
    BoxFuture, Code, Cx, HandedKey, Secret, SourceKind, Tool, ToolDefinition, ToolError, ToolOutput, limits,
};

use crate::fingerprint;
use crate::template::{Template, with_query};
use crate::text::{cut, head, visible};

const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];
/// What is read of an answer that is an error.
const ERROR_BODY_BYTES_MAX: usize = 64 * 1024;
const EXCERPT_CHARS_MAX: usize = 500;
const PREVIEW_CHARS_MAX: usize = 4_000;

/// A request as the configuration describes it.
#[derive(Clone)]
pub struct HttpSpec {
    /// `GET`, `POST`, `PUT`, `PATCH` or `DELETE`.
    pub method: String,
    /// The address, with places such as `{city}` after its host. What has no place becomes query parameters of `GET`
    /// and `DELETE`, and a JSON body otherwise.
    pub url: String,
    /// What is sent with it.
    pub headers: BTreeMap<String, HeaderValue>,
    /// Where the secrets among them are read anew, all of them in their order, when the server refuses them.
    pub source: Option<Arc<dyn CredentialSource>>,
}

/// The value of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderValue {
    /// One that may be seen.
    Plain(String),
    /// One that may not.
    Secret(Secret),
}

/// Why a request can not be a tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpToolError {
    /// Not a method for a tool.
    #[error("the method `{method}` is not one of GET, POST, PUT, PATCH, DELETE")]
    Method {
        /// As it was given.
        method: String,
    },
    /// Not an address for a tool.
    #[error("the url can not be used: {reason}")]
    Url {
        /// What is wrong.
        reason: String,
    },
    /// A place without a parameter.
    #[error("the url has a place `{{{name}}}`, but `input_schema` has no such property")]
    NoParameter {
        /// The place.
        name: String,
    },
    /// A place that may stay empty.
    #[error(
        "the url has a place `{{{name}}}`, so `input_schema` must have `{name}` in `required` or give it a default"
    )]
    Optional {
        /// The place.
        name: String,
    },
    /// Not a header.
    #[error("the header `{name}` has a name or a value that HTTP does not allow")]
    Header {
        /// Its name.
        name: String,
    },
}

/// An HTTP request from the configuration as a tool.
#[derive(Clone)]
pub struct HttpTool {
    definition: ToolDefinition,
    method: String,
    template: Template,
    headers: Vec<(String, String)>,
    secret_names: Vec<String>,
    credentials: Credentials,
    client: Client,
}

impl fmt::Debug for HttpTool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpTool").field("definition", &self.definition).finish_non_exhaustive()
    }
}

impl HttpTool {
    /// A tool that sends the request through `client`, which must know its origin.
    ///
    /// # Errors
    /// When the request could not be sent whatever the arguments, or an argument could choose its server.
    pub fn new(mut definition: ToolDefinition, spec: HttpSpec, client: Client) -> Result<Self, HttpToolError> {
        let method = spec.method.to_ascii_uppercase();
        if !METHODS.contains(&method.as_str()) {
            return Err(HttpToolError::Method { method: spec.method });
        }
        let template = Template::new(&spec.url).map_err(|reason| HttpToolError::Url { reason })?;
        for name in template.names() {
            let name = name.to_owned();
            let Some(property) = definition.input_schema.get("properties").and_then(|all| all.get(&name)) else {
                return Err(HttpToolError::NoParameter { name });
            };
            let required = definition.input_schema.get("required").and_then(Value::as_array);
            let is_required = required.is_some_and(|all| all.iter().any(|one| one.as_str() == Some(&name)));
            if !is_required && property.get("default").is_none() {
                return Err(HttpToolError::Optional { name });
            }
        }
        let headers = spec.headers.iter().flat_map(|(name, value)| match value {
            HeaderValue::Plain(text) => [name.as_bytes(), text.as_bytes()],
            // No plain value has this character; a secret may change without a new question.
            HeaderValue::Secret(_) => [name.as_bytes(), b"\0".as_slice()],
        });
        fingerprint::mark(&mut definition, [method.as_bytes(), spec.url.as_bytes()].into_iter().chain(headers));
        let (mut headers, mut secret_headers) = (Vec::new(), Vec::new());
        for (name, value) in spec.headers {
            let text = match &value {
                HeaderValue::Plain(text) => text,
                HeaderValue::Secret(secret) => secret.expose(),
            };
            if !is_header(&name, text) {
                return Err(HttpToolError::Header { name });
            }
            match value {
                HeaderValue::Plain(text) => headers.push((name, text)),
                HeaderValue::Secret(secret) => secret_headers.push((name, secret)),
            }
        }
        definition.source.kind = SourceKind::Http;
        let secret_names = secret_headers.iter().map(|(name, _)| name.clone()).collect();
        let credentials = match spec.source {
            Some(source) => Credentials::renewable(secret_headers, source),
            None => Credentials::fixed(secret_headers),
        };
        Ok(Self { definition, method, template, headers, secret_names, credentials, client })
    }

    /// The address and the body for these arguments.
    fn build(&self, arguments: &Value) -> Result<(String, Option<String>), ToolError> {
        let empty = Map::new();
        let arguments = arguments.as_object().unwrap_or(&empty);
        let address = self.template.fill(arguments)?;
        let names: Vec<&str> = self.template.names().collect();
        let rest: Map<String, Value> = arguments
            .iter()
            .filter(|(name, _)| !names.contains(&name.as_str()))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        Ok(match self.method.as_str() {
            "GET" | "DELETE" => (with_query(address, &rest), None),
            _ => (address, Some(Value::Object(rest).to_string())),
        })
    }

    fn request(&self, arguments: &Value, cx: &Cx, known_by: &Current) -> Result<Request, ToolError> {
        let (url, body) = self.build(arguments)?;
        let mut headers = self.headers.clone();
        let has = |name: &str| {
            let mut all = self.headers.iter().map(|(name, _)| name).chain(&self.secret_names);
            all.any(|header| header.eq_ignore_ascii_case(name))
        };
        if !has("accept") {
            headers.push(("accept".into(), "application/json, text/*;q=0.9".into()));
        }
        if body.is_some() && !has("content-type") {
            headers.push(("content-type".into(), "application/json".into()));
        }
        if let Some(HandedKey { name, value }) = &cx.handed_key {
            if has(name) {
                let message =
                    format!("the header `{name}` is in `http.headers`, and `idempotency.hand_on` names it too");
                let error = ToolError::new(message).nothing_happened().with_tool_code("NOT_CONFIGURED");
                return Err(error.with_hint("the operator must choose one of the two"));
            }
            headers.push((name.clone(), handed(name, value)));
        }
        // What the operator set there stays.
        let trace = cx.trace.iter().flat_map(|trace| trace.headers());
        headers.extend(trace.filter(|(name, _)| !has(name)).map(|(name, value)| (name.to_owned(), value)));
        Ok(Request {
            method: self.method.clone(),
            url,
            headers,
            secret_headers: known_by.headers().to_vec(),
            body: body.map(String::into_bytes),
            timeout: cx.deadline,
        })
    }

    /// Asks, and once more with credentials that were read anew where the server does not take those it was shown: it did
    /// nothing then.
    async fn exchange(&self, arguments: &Value, cx: &Cx) -> Result<ToolOutput, ToolError> {
        let known_by = self.credentials.current();
        let response = self.send(self.request(arguments, cx, &known_by)?).await?;
        if response.status != 401 {
            return answer(response, cx, Renewal::Fixed).await;
        }
        let renewal = self.credentials.renew(&known_by).await;
        if renewal != Renewal::Renewed {
            return answer(response, cx, renewal).await;
        }
        drop(response);
        let request = self.request(arguments, cx, &self.credentials.current())?;
        answer(self.send(request).await?, cx, renewal).await
    }

    async fn send(&self, request: Request) -> Result<Response, ToolError> {
        self.client.send(request).await.map_err(|error| explain(&error))
    }
}

impl Tool for HttpTool {
    fn definition(&self) -> ToolDefinition {
        self.definition.clone()
    }

    fn check(&self, arguments: &Value, _: &Cx) -> Result<(), ToolError> {
        self.build(arguments).map(drop)
    }

    fn preview(&self, arguments: &Value, _: &Cx) -> Option<String> {
        let (url, body) = self.build(arguments).ok()?;
        let body = body.map(|body| format!("\n{}", visible(&cut(&body, PREVIEW_CHARS_MAX)))).unwrap_or_default();
        Some(format!("{} {url}{body}", self.method))
    }

    fn call(&self, arguments: Value, cx: Cx) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        Box::pin(async move {
            let exchange = self.exchange(&arguments, &cx);
            let ended = cx.cancellation.run_until_cancelled(tokio::time::timeout(cx.deadline, exchange)).await;
            match ended {
                Some(Ok(result)) => result,
                Some(Err(_elapsed)) => {
                    let ms = cx.deadline.as_millis();
                    Err(ToolError::with_code(Code::Timeout, format!("no whole answer within {ms} ms")))
                }
                None => Err(ToolError::with_code(Code::Cancelled, "the asker stopped waiting")),
            }
        })
    }
}

async fn answer(response: Response, cx: &Cx, renewal: Renewal) -> Result<ToolOutput, ToolError> {
    let (status, idle) = (response.status, cx.deadline);
    cx.progress.alive();
    let media = response.header("content-type").unwrap_or_default().to_ascii_lowercase();
    let retry_after = response.retry_after(cx.clock.now());
    if !(200..300).contains(&status) {
        // The status is the answer; a body that can not be read adds nothing.
        let body = response.bytes_telling(ERROR_BODY_BYTES_MAX, idle, &cx.progress).await.unwrap_or_default();
        return Err(refusal(status, retry_after, &body, renewal).retry_after(retry_after));
    }
    let body = response.bytes_telling(limits::HTTP_BODY_BYTES_MAX, idle, &cx.progress).await;
    let body = body.map_err(|error| explain(&error))?;
    if body.trim_ascii().is_empty() {
        return Ok(ToolOutput::text(format!("(the server answered {status} with an empty body)")));
    }
    let media = media.split(';').next().unwrap_or_default().trim();
    let is_json = media == "application/json" || media.ends_with("+json");
    let text = String::from_utf8(body).map_err(|_| {
        ToolError::new(format!("the server answered with something that is not UTF-8 text (`{}`)", visible(media)))
            .with_tool_code("INVALID_UTF8")
            .with_hint("only text and JSON can be returned")
    })?;
    let trimmed = text.trim_start_matches('\u{feff}').trim();
    if !is_json && !trimmed.starts_with(['{', '[']) {
        return Ok(ToolOutput::text(text));
    }
    match serde_json::from_str::<Value>(trimmed) {
        Ok(value) if value.is_object() || value.is_array() => Ok(ToolOutput::text_and_structured(text, value)),
        Ok(_) => Ok(ToolOutput::text(text)),
        Err(_) if !is_json => Ok(ToolOutput::text(text)),
        Err(error) => {
            Err(ToolError::with_code(Code::UpstreamError, "the server says that it answers JSON, but does not")
                .with_tool_code("INVALID_JSON")
                .with_hint(format!("{error}; it begins: {}", excerpt(trimmed.as_bytes())))
                .from_outside())
        }
    }
}

/// The header of the IETF's draft is a string of structured fields, in quotes (draft-ietf-httpapi-idempotency-key-header,
/// RFC 9651 §3.3.3); those that services gave other names are plain.
fn handed(name: &str, value: &str) -> String {
    if name.eq_ignore_ascii_case("idempotency-key") { format!("\"{value}\"") } else { value.to_owned() }
}

fn refusal(status: u16, retry_after: Option<Duration>, body: &[u8], renewal: Renewal) -> ToolError {
    let said = excerpt(body);
    if !said.is_empty() {
        let message = format!("the server answered {status}: {said}");
        return explained(status, message, retry_after, renewal).from_outside();
    }
    explained(status, format!("the server answered {status}"), retry_after, renewal)
}

/// What a status means, and what can be done about it.
fn explained(status: u16, message: String, retry_after: Option<Duration>, renewal: Renewal) -> ToolError {
    let tool_code = format!("HTTP_{status}");
    match status {
        404 | 410 => {
            ToolError::new(message).with_tool_code("NOT_FOUND").with_hint("check the names and ids in the arguments")
        }
        429 => {
            let when = retry_after.map_or_else(|| "later".to_owned(), |wait| format!("in {} seconds", wait.as_secs()));
            ToolError::with_code(Code::UpstreamError, message)
                .nothing_happened()
                .with_tool_code("RATE_LIMITED")
                .with_hint(format!("the server asks for fewer calls; ask again {when}"))
        }
        500..=599 => ToolError::with_code(Code::UpstreamError, message)
            .with_tool_code(tool_code)
            .with_hint("the fault is the server's; ask again later"),
        300..=399 => ToolError::new(message)
            .with_tool_code("REDIRECT")
            .with_hint("redirects are not followed; the operator must configure the final address"),
        401 => ToolError::new(message)
            .nothing_happened()
            .with_tool_code(tool_code)
            .with_hint(format!("the server does not take the credentials in `headers`; {}", renewal.advice())),
        403 => ToolError::new(message).nothing_happened().with_tool_code(tool_code).with_hint(NOT_ALLOWED_ADVICE),
        _ => ToolError::new(message).with_tool_code(tool_code).with_hint("correct the arguments as the server says"),
    }
}

fn explain(error: &ClientError) -> ToolError {
    let message = error.to_string();
    match error {
        ClientError::TimedOut { .. } => ToolError::with_code(Code::Timeout, message),
        ClientError::Connect { .. } => ToolError::with_code(Code::UpstreamError, message)
            .nothing_happened()
            .with_tool_code("UNREACHABLE")
            .with_hint("ask again later"),
        ClientError::Closed { .. } => {
            ToolError::with_code(Code::UpstreamError, message).with_tool_code("BROKEN_OFF").with_hint("ask again later")
        }
        ClientError::TooLarge { .. } => ToolError::with_code(Code::ResultTooLarge, message).with_hint("ask for less"),
        ClientError::NotAllowed { .. } | ClientError::BadUrl { .. } | ClientError::BadRequest { .. } => {
            ToolError::new(message)
                .nothing_happened()
                .with_tool_code("NOT_CONFIGURED")
                .with_hint("the operator must check `http` of this tool in the configuration")
        }
    }
}

/// The beginning of what a server said, on one line.
fn excerpt(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    visible(&head(&line, EXCERPT_CHARS_MAX)).into_owned()
}

/// RFC 9110 §5.1 and §5.5.
fn is_header(name: &str, value: &str) -> bool {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    !name.is_empty() && name.chars().all(is_token) && !value.chars().any(|c| c.is_control() && c != '\t')
}
