//! A model server over HTTP, in whichever dialect. A reply is read as what it is, a stream or one object, whatever was
//! asked for. What may pass is tried again, as long as no text was shown yet.

use std::borrow::Cow;
use std::sync::OnceLock;
use std::time::Duration;

use jiff::fmt::rfc2822::DateTimeParser;
use tollgate_guard::client::{Client, Origin, Request, Response};
use tollgate_types::{BoxFuture, Secret, limits};
use tollgate_wire::{
    Dialect, Finish, Message, Names, PREVIOUS_GONE, Request as Asked, Stream, Target, Turn, read_reply,
};

use super::hide::{self, Secrets};
use super::{Model, ModelConfig, ModelError, ModelRequest};
use crate::hosted::Hosted;

/// What is read of a refusal.
const REFUSAL_BYTES_MAX: usize = 64 * 1024;
const EXCERPT_CHARS_MAX: usize = 200;
/// How much of a stream is kept to say what it was instead of one.
const HEAD_BYTES: usize = 256;
const BACKOFF_MS: u64 = 500;
/// How long a server may take to hang up once its turn is whole.
const HANG_UP_MS_MAX: u64 = 2_000;
/// The longest wait that a server can ask for; beyond it the run ends with its refusal.
const RETRY_AFTER_MS_MAX: u64 = 30_000;

/// The version of Anthropic's API that is spoken.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// A model behind an HTTP server.
#[derive(Debug, Clone)]
pub struct ModelClient {
    config: ModelConfig,
    url: String,
    origin: Origin,
    client: Client,
    /// Made at the first error, because starting should cost nothing.
    secrets: OnceLock<Secrets>,
}

/// Reads on until there is another event; false at the end of the body.
async fn next_event(
    stream: &mut Stream,
    head: &mut Vec<u8>,
    response: &mut Response,
    patience: Duration,
    on_text: &mut (dyn FnMut(&str) + Send),
) -> Result<bool, ModelError> {
    let before = stream.events();
    while stream.events() == before {
        let Some(chunk) = response.next_chunk(patience).await? else { return Ok(false) };
        if before == 0 && head.len() < HEAD_BYTES {
            head.extend_from_slice(&chunk);
        }
        stream.push(&chunk, &mut |text| on_text(text))?;
    }
    Ok(true)
}

impl ModelClient {
    /// A model at the server of the configuration. Nothing is asked yet.
    ///
    /// # Errors
    /// When the address cannot work.
    pub fn new(config: ModelConfig) -> Result<Self, ModelError> {
        if config.stateful && (config.target.dialect != Dialect::Responses || config.store == Some(false)) {
            let reason = "`stateful` goes on from replies that the server keeps: it needs `api = \"responses\"`, and `store` must \
                not be false";
            return Err(ModelError::Config { reason: reason.to_owned() });
        }
        let url = url(&config);
        let origin = Origin::of(&url)?;
        let client = Client::new([origin.clone()]).connecting_within(config.timeouts.connect);
        Ok(Self { config, url, origin, client, secrets: OnceLock::new() })
    }

    async fn ask(&self, request: ModelRequest<'_>, on_text: &mut (dyn FnMut(&str) + Send)) -> Result<Turn, ModelError> {
        let messages = match &self.config.redactor {
            Some(redactor) => hide::in_messages(redactor, request.messages),
            None => Cow::Borrowed(request.messages),
        };
        let goes_on = self.config.stateful && !request.is_shortened;
        let mut previous = if goes_on { last_reply(&messages) } else { None };
        let mut body = self.body(&request, &messages, previous, false)?;
        let (mut tries, mut waited) = (0, Duration::ZERO);
        loop {
            let mut has_shown = false;
            let mut shown = |text: &str| {
                has_shown = true;
                on_text(text);
            };
            let result = self.ask_once(body.clone(), request.tools.names(), &mut shown).await;
            let error = match result {
                Ok(mut turn) => {
                    if let Finish::Other(word) = &mut turn.finish {
                        *word = excerpt(&self.secrets().hide(word));
                    }
                    return Ok(turn);
                }
                Err(ModelError::PreviousGone { .. } | ModelError::Status { status: 404, .. })
                    if previous.is_some() && !has_shown =>
                {
                    previous = None;
                    body = self.body(&request, &messages, previous, true)?;
                    continue;
                }
                // Text that was shown cannot be taken back, so that a second try would say it twice.
                Err(error) if has_shown || tries == self.config.max_retries || !error.is_retryable() => {
                    return Err(self.secrets().hide_in(error));
                }
                Err(error) => error,
            };
            let wait_ms = match &error {
                ModelError::Status { retry_after_ms: Some(ms), .. } => *ms,
                _ => BACKOFF_MS << tries.min(6),
            };
            let wait = Duration::from_millis(wait_ms);
            // The server's words say more than that the time was up while it was waited for.
            if wait_ms > RETRY_AFTER_MS_MAX || waited + wait >= self.config.timeouts.total {
                return Err(self.secrets().hide_in(error));
            }
            waited += wait;
            tokio::time::sleep(wait).await;
            tries += 1;
        }
    }

    fn body(
        &self,
        request: &ModelRequest<'_>,
        messages: &[Message],
        previous: Option<&str>,
        is_forgotten: bool,
    ) -> Result<Vec<u8>, ModelError> {
        let asked = Asked {
            hosted: request.hosted,
            tool_choice: request.tool_choice,
            parallel: self.config.parallel,
            max_tokens: self.config.max_tokens,
            temperature: self.config.temperature,
            stream: self.config.stream,
            cache: self.config.cache,
            quirks: self.config.quirks,
            store: self.config.store,
            previous,
            is_forgotten,
            extra: Some(&self.config.extra),
            ..Asked::new(&self.config.model, messages, request.tools)
        };
        asked.to_body(self.config.target.dialect).map_err(|e| ModelError::Config { reason: e.to_string() })
    }

    async fn ask_once(
        &self,
        body: Vec<u8>,
        names: &Names,
        on_text: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Turn, ModelError> {
        let accept = if self.config.stream { "text/event-stream, application/json" } else { "application/json" };
        let request = Request {
            method: "POST".to_owned(),
            url: self.url.clone(),
            headers: self.headers(accept),
            secret_headers: self.key().into_iter().chain(self.config.headers.iter().cloned()).collect(),
            body: Some(body),
            timeout: self.config.timeouts.first_byte,
        };
        let response = self.client.send(request).await?;
        let content_type = response.header("content-type").unwrap_or_default().to_ascii_lowercase();
        if response.status != 200 {
            return Err(self.refusal(response).await);
        }
        if content_type.starts_with("text/event-stream") {
            return self.read_stream(response, names, on_text).await;
        }
        let body = response.bytes(limits::HTTP_BODY_BYTES_MAX, self.config.timeouts.idle).await?;
        let turn = match body.trim_ascii_start() {
            [b'{', ..] => read_reply(self.config.target.dialect, &body, names)?,
            // A stream of this dialect whose address lost its `alt=sse`.
            [b'[', ..] if self.config.target.dialect == Dialect::Gemini => {
                read_reply(self.config.target.dialect, &body, names)?
            }
            // A proxy may lose the content type of a stream.
            [b':' | b'd' | b'e', ..] if looks_like_events(&body) => {
                let mut stream = Stream::new(self.config.target.dialect);
                stream.push(&body, &mut |_| {})?;
                stream.finish(names)?
            }
            _ => return Err(ModelError::NotJson { content_type, excerpt: self.excerpt(&body) }),
        };
        if !turn.text.is_empty() {
            on_text(&turn.text);
        }
        Ok(turn)
    }

    async fn read_stream(
        &self,
        mut response: Response,
        names: &Names,
        on_text: &mut (dyn FnMut(&str) + Send),
    ) -> Result<Turn, ModelError> {
        let (mut stream, mut head) = (Stream::new(self.config.target.dialect), Vec::new());
        while !stream.is_done() {
            let idle = self.config.timeouts.idle;
            let patience = if stream.is_complete() { idle.min(Duration::from_millis(HANG_UP_MS_MAX)) } else { idle };
            // The whole silence is limited, whatever the server does to keep the connection warm.
            match tokio::time::timeout(patience, next_event(&mut stream, &mut head, &mut response, patience, on_text))
                .await
            {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => break,
                // Some servers neither say `[DONE]` nor hang up properly after the last chunk.
                Ok(Err(ModelError::Closed { .. } | ModelError::TimedOut { .. } | ModelError::Unreachable { .. }))
                | Err(_)
                    if stream.is_complete() =>
                {
                    break;
                }
                Ok(Err(error)) => return Err(error),
                Err(_) => {
                    return Err(ModelError::TimedOut { origin: self.origin.to_string(), ms: ms(patience) });
                }
            }
        }
        if stream.events() == 0 && head.trim_ascii_start().starts_with(b"<") {
            let content_type = "text/event-stream".to_owned();
            return Err(ModelError::NotJson { content_type, excerpt: self.excerpt(&head) });
        }
        Ok(stream.finish(names)?)
    }

    fn headers(&self, accept: &str) -> Vec<(String, String)> {
        let version =
            (self.config.target.dialect == Dialect::Anthropic).then_some(("anthropic-version", ANTHROPIC_VERSION));
        let mine = [("content-type", "application/json"), ("accept", accept)].into_iter().chain(version);
        let is_set = |name: &str| self.config.headers.iter().any(|(known, _)| known.eq_ignore_ascii_case(name));
        mine.filter(|(name, _)| !is_set(name)).map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// The header that carries the key.
    fn key(&self) -> Option<(String, Secret)> {
        let key = self.config.api_key.as_ref()?;
        Some(match self.config.target.dialect {
            Dialect::Chat | Dialect::Responses => {
                ("authorization".to_owned(), Secret::new(format!("Bearer {}", key.expose())))
            }
            Dialect::Anthropic => ("x-api-key".to_owned(), key.clone()),
            Dialect::Gemini => ("x-goog-api-key".to_owned(), key.clone()),
        })
    }

    async fn refusal(&self, response: Response) -> ModelError {
        let status = response.status;
        let retry_after_ms = retry_after_ms(&response);
        let request_id = ["request-id", "x-request-id"].into_iter().find_map(|name| response.header(name));
        let request_id = request_id.map(|id| self.excerpt(id.as_bytes()));
        let body = response.bytes(REFUSAL_BYTES_MAX, self.config.timeouts.idle).await.unwrap_or_default();
        let mut is_gone = false;
        let message = match serde_json::from_slice::<serde_json::Value>(&body) {
            Ok(value) => {
                // Gemini lists what its streams say, errors too.
                let value = value.get(0).unwrap_or(&value);
                let error = value.get("error").unwrap_or(value);
                // Some servers name the parameter and no code.
                let is_of = |name: &str, word: &str| error.get(name).is_some_and(|said| said == word);
                is_gone = is_of("code", PREVIOUS_GONE) || status < 500 && is_of("param", "previous_response_id");
                let message = error.get("message").unwrap_or(error);
                self.excerpt(message.as_str().map_or_else(|| message.to_string(), str::to_owned).as_bytes())
            }
            Err(_) => self.excerpt(&body),
        };
        let message = match request_id {
            Some(id) => format!("{message} (request `{id}`)"),
            None => message,
        };
        if is_gone {
            ModelError::PreviousGone { message }
        } else {
            ModelError::Status { status, message, retry_after_ms }
        }
    }

    /// How a body begins, without secrets.
    fn excerpt(&self, body: &[u8]) -> String {
        excerpt(&self.secrets().hide(&String::from_utf8_lossy(body)))
    }

    fn secrets(&self) -> &Secrets {
        self.secrets.get_or_init(|| Secrets::of(&self.config))
    }
}

impl Model for ModelClient {
    fn name(&self) -> &str {
        &self.config.model
    }

    fn target(&self) -> Target {
        self.config.target
    }

    fn takes_images(&self) -> bool {
        // Chat Completions has no place for an image in a result.
        self.config.target.dialect != Dialect::Chat && self.config.images != Some(false)
    }

    fn hosted(&self) -> &[Hosted] {
        &self.config.hosted
    }

    fn turn<'a>(
        &'a self,
        request: ModelRequest<'a>,
        on_text: &'a mut (dyn FnMut(&str) + Send),
    ) -> BoxFuture<'a, Result<Turn, ModelError>> {
        let total = self.config.timeouts.total;
        Box::pin(async move {
            let asked = tokio::time::timeout(total, self.ask(request, on_text)).await;
            asked.unwrap_or_else(|_| Err(ModelError::TooLong { origin: self.origin.to_string(), ms: ms(total) }))
        })
    }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The last reply in a conversation that the server may still have.
fn last_reply(messages: &[Message]) -> Option<&str> {
    messages.iter().rev().find_map(|message| match message {
        Message::Assistant { kept: Some(kept), .. } if kept.dialect == Dialect::Responses => {
            kept.response_id.as_deref()
        }
        Message::System(_) | Message::User(_) | Message::Assistant { .. } | Message::Tool { .. } => None,
    })
}

fn url(config: &ModelConfig) -> String {
    let base = config.base_url.trim_end_matches('/');
    match config.target.dialect {
        Dialect::Chat => format!("{base}/chat/completions"),
        Dialect::Responses => format!("{base}/responses"),
        Dialect::Anthropic => format!("{base}/messages"),
        Dialect::Gemini if config.stream => format!("{base}/models/{}:streamGenerateContent?alt=sse", config.model),
        Dialect::Gemini => format!("{base}/models/{}:generateContent", config.model),
    }
}

fn looks_like_events(body: &[u8]) -> bool {
    [":", "data:", "event:"].iter().any(|field| body.trim_ascii_start().starts_with(field.as_bytes()))
}

/// Seconds, or a date (RFC 9110 §10.2.3). A date counts from the server's own `Date`, so that no clock here matters.
fn retry_after_ms(response: &Response) -> Option<u64> {
    let date = |name| DateTimeParser::new().parse_timestamp(response.header(name)?.trim()).ok();
    let wait = match response.header("retry-after")?.trim().parse() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok()?,
        Err(_) => Duration::try_from(date("retry-after")?.duration_since(date("date")?)).unwrap_or_default(),
    };
    Some(ms(wait))
}

/// One line of the text, cut.
fn excerpt(text: &str) -> String {
    let mut out = String::new();
    for word in text.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.extend(word.chars().filter(|c| !c.is_control()).take(EXCERPT_CHARS_MAX));
        if out.chars().count() > EXCERPT_CHARS_MAX {
            return out.chars().take(EXCERPT_CHARS_MAX).chain(['…']).collect();
        }
    }
    out
}
