//! Gets pages of the open web, hop by hop, and keeps the last few, so that the parts of one agree.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tollgate_guard::address::Refusal;
use tollgate_guard::client::ClientError;
use tollgate_guard::public::{Hop, PublicClient, PublicError, PublicRequest, PublicResponse, REDIRECTS_MAX};
use tollgate_types::{Code, ToolError, limits};

use super::charset;
use super::readable::{self, Part};
use super::robots_cache::RobotsCache;
use crate::text::{bytes, visible};
use crate::typed::{Run, Stop};

const ACCEPTED: &str =
    "text/html, application/xhtml+xml;q=0.9, text/*;q=0.8, application/json;q=0.8, application/xml;q=0.7, */*;q=0.1";

/// A page as text.
#[derive(Debug)]
pub(super) struct Page {
    /// Where it was found, after all redirects.
    pub(super) url: String,
    pub(super) title: Option<String>,
    /// Without parameters, in lower case.
    pub(super) media_type: String,
    /// The encoding it came in.
    pub(super) charset: &'static str,
    pub(super) text: String,
    /// Of its text.
    pub(super) digest: String,
}

/// The way to pages, and those that were read last.
pub(super) struct Pages {
    client: PublicClient,
    robots: RobotsCache,
    kept: Mutex<VecDeque<Kept>>,
}

struct Kept {
    asked: String,
    part: Part,
    until: Duration,
    page: Arc<Page>,
}

impl Pages {
    pub(super) fn new(client: PublicClient) -> Self {
        Self { client, robots: RobotsCache::default(), kept: Mutex::default() }
    }

    /// Whether an address may be asked, as far as its text says.
    pub(super) fn judge(&self, url: &str) -> Result<(), Refusal> {
        self.client.judge(url).map(drop)
    }

    /// Reads a page anew.
    pub(super) fn fetch(&self, url: &str, part: Part, run: &Run) -> Result<Arc<Page>, ToolError> {
        let response = run.wait(self.follow(url, &run.stop))?;
        let page = Arc::new(read(response, part)?);
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|kept| kept.asked != url || kept.part != part);
        let until = run.stop.now().saturating_add(Duration::from_millis(limits::PAGE_KEPT_MS));
        kept.push_back(Kept { asked: url.to_owned(), part, until, page: Arc::clone(&page) });
        let is_over = |kept: &VecDeque<Kept>| {
            let bytes: usize = kept.iter().map(|kept| kept.page.text.len()).sum();
            kept.len() > limits::PAGES_KEPT_MAX || bytes > limits::PAGES_KEPT_BYTES_MAX
        };
        while kept.len() > 1 && is_over(&kept) {
            kept.pop_front();
        }
        Ok(page)
    }

    /// The page that was read before, if it is still there and the same.
    pub(super) fn kept(&self, url: &str, part: Part, digest: &str, now: Duration) -> Option<Arc<Page>> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it =
            |kept: &&Kept| kept.asked == url && kept.part == part && kept.page.digest == digest && now < kept.until;
        kept.iter().find(is_it).map(|kept| Arc::clone(&kept.page))
    }

    /// Asks each address on the way only after its site was asked whether it may be.
    async fn follow(&self, url: &str, stop: &Stop) -> Result<PublicResponse, ToolError> {
        let mut url = url.to_owned();
        for _ in 0..=REDIRECTS_MAX {
            let target = self.client.judge(&url).map_err(|refusal| explain(&refusal.into()))?;
            self.robots.check(&self.client, &target, stop).await?;
            let request = PublicRequest {
                url,
                headers: vec![("accept".into(), ACCEPTED.into())],
                body_bytes_max: limits::PAGE_BYTES_MAX,
                timeout: stop.left(),
            };
            match self.client.hop(request).await.map_err(|error| explain(&error))? {
                Hop::Page(response) => return Ok(response),
                Hop::Redirect { url: next } => url = next,
            }
        }
        Err(explain(&PublicError::TooManyRedirects { limit: REDIRECTS_MAX }))
    }
}

/// What became of a page that did not come.
pub(super) fn explain(error: &PublicError) -> ToolError {
    let message = error.to_string();
    match error {
        PublicError::Refused(Refusal::Unresolved { .. }) => {
            ToolError::new(message).with_tool_code("NO_SUCH_HOST").with_hint("check the host's name in the url")
        }
        PublicError::Refused(_) => ToolError::with_code(Code::Denied, message).with_hint("only public pages are read"),
        PublicError::RedirectRefused { .. } => ToolError::new(message)
            .with_tool_code("REDIRECT_REFUSED")
            .with_hint("the page leads to where nothing is read; look for the same elsewhere"),
        PublicError::TooManyRedirects { .. } => ToolError::new(message)
            .with_tool_code("TOO_MANY_REDIRECTS")
            .with_hint("the site may want a login or cookies; look for the same elsewhere"),
        PublicError::BadRequest { .. } => ToolError::with_code(Code::Internal, message),
        PublicError::TimedOut { .. } | PublicError::Exchange(ClientError::TimedOut { .. }) => {
            ToolError::with_code(Code::Timeout, message).with_hint("ask again later")
        }
        PublicError::Exchange(ClientError::TooLarge { limit_bytes }) => {
            ToolError::new(format!("the page is larger than {}", bytes(*limit_bytes as u64)))
                .with_tool_code("TOO_LARGE")
                .with_hint("look for a smaller page on the same matter")
        }
        PublicError::Exchange(_) => ToolError::with_code(Code::UpstreamError, message)
            .with_tool_code("UNREACHABLE")
            .with_hint("ask again later")
            .retryable(),
    }
}

/// What a status says that is no success.
fn explain_status(response: &PublicResponse) -> ToolError {
    let status = response.status;
    let message = format!("the server answered {status}");
    match status {
        404 | 410 => ToolError::new(message)
            .with_tool_code("NOT_FOUND")
            .with_hint("there is no such page; check the url, or search for another"),
        401 | 403 | 407 | 451 => ToolError::new(message)
            .with_tool_code("FORBIDDEN")
            .with_hint("the page needs a login or is not given to programs; look for the same elsewhere"),
        429 => ToolError::with_code(Code::UpstreamError, message)
            .with_tool_code("RATE_LIMITED")
            .with_hint("the site asks for fewer calls; ask again later"),
        500..=599 => ToolError::with_code(Code::UpstreamError, message)
            .with_tool_code("SERVER_ERROR")
            .with_hint("the fault is the site's; ask again later"),
        _ => ToolError::new(message).with_tool_code("NO_PAGE").with_hint("look for the same elsewhere"),
    }
}

/// Makes text of an answer.
fn read(response: PublicResponse, part: Part) -> Result<Page, ToolError> {
    if !(200..300).contains(&response.status) {
        return Err(explain_status(&response));
    }
    let header = response.headers.iter().find(|(name, _)| name == "content-type").map(|(_, value)| value.as_str());
    let (media_type, charset) = content_type(header.unwrap_or_default());
    let media_type = if media_type.is_empty() { guessed(&response.body).to_owned() } else { media_type };
    let kind = Kind::of(&media_type).ok_or_else(|| {
        ToolError::new(format!("the page is `{}`, which is no text", visible(&media_type)))
            .with_tool_code("UNSUPPORTED_TYPE")
            .with_hint("only HTML, plain text, JSON and XML are read; look for the same as a web page")
    })?;
    let url =
        url::Url::parse(&response.url).map_err(|error| ToolError::with_code(Code::Internal, error.to_string()))?;
    let top_level = url.domain().and_then(|domain| domain.rsplit('.').next());
    let said = charset::Said { charset: charset.as_deref(), is_markup: kind != Kind::Text, top_level };
    let (text, charset) = charset::decode(&response.body, &said);
    drop(response.body);
    if text.contains('\0') {
        return Err(ToolError::new("the page says that it is text, but is not")
            .with_tool_code("UNSUPPORTED_TYPE")
            .with_hint("look for the same as a web page"));
    }
    let (title, text) = match kind {
        Kind::Html => readable::markdown(text, &url, part)?,
        Kind::Xml | Kind::Text => (None, text),
    };
    let digest = Sha256::digest(&text).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    Ok(Page { url: response.url, title, media_type, charset, text, digest })
}

/// What a page is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Html,
    Xml,
    Text,
}

impl Kind {
    fn of(media_type: &str) -> Option<Self> {
        match media_type {
            "text/html" | "application/xhtml+xml" => Some(Self::Html),
            "application/xml" | "text/xml" => Some(Self::Xml),
            "application/json"
            | "application/javascript"
            | "application/yaml"
            | "application/x-yaml"
            | "application/toml"
            | "application/x-ndjson"
            | "application/sql" => Some(Self::Text),
            "image/svg+xml" => None,
            other if other.starts_with("text/") || other.ends_with("+json") => Some(Self::Text),
            other if other.ends_with("+xml") => Some(Self::Xml),
            _ => None,
        }
    }
}

/// The media type in lower case, and what its `charset` says.
fn content_type(header: &str) -> (String, Option<String>) {
    let mut parts = header.split(';');
    let media_type = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
    let charset =
        parts.filter_map(|part| part.split_once('=')).find(|(key, _)| key.trim().eq_ignore_ascii_case("charset"));
    (media_type, charset.map(|(_, value)| value.trim().trim_matches(['"', '\'']).to_owned()))
}

/// What a body without a type looks like.
fn guessed(body: &[u8]) -> &'static str {
    let head = String::from_utf8_lossy(body.get(..1_024).unwrap_or(body)).to_ascii_lowercase();
    if head.contains("<!doctype html") || head.contains("<html") || head.contains("<body") {
        "text/html"
    } else if head.contains('\0') {
        "application/octet-stream"
    } else {
        "text/plain"
    }
}
