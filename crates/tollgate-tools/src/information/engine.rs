//! Search engines: how each is asked and how its answer is read, behind one trait. An engine is an origin that the
//! operator configured, and no other is asked.

mod brave;
mod searxng;

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tollgate_guard::client::{Client, ClientError, Origin, Request};
use tollgate_types::{Code, Secret, ToolError, limits};

use crate::text::head;

const TITLE_CHARS_MAX: usize = 200;
const SNIPPET_CHARS_MAX: usize = 600;

/// A kind of search engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SearchKind {
    /// SearXNG, with the format `json` turned on.
    Searxng,
    /// The web search of Brave.
    Brave,
}

/// A search engine.
#[derive(Clone)]
pub struct SearchConfig {
    kind: SearchKind,
    base_url: String,
    api_key: Option<Secret>,
    client: Client,
}

/// Why an engine can not be asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SearchError {
    /// The address is none.
    #[error(transparent)]
    Url(#[from] ClientError),
    /// It lets nobody in without a key.
    #[error("Brave answers only with a key")]
    NoKey,
}

impl SearchConfig {
    /// An engine at `base_url`, up to and without its own path.
    ///
    /// # Errors
    /// When the address is none, or a key is missing that the engine wants.
    pub fn new(kind: SearchKind, base_url: &str, api_key: Option<Secret>) -> Result<Self, SearchError> {
        if kind == SearchKind::Brave && api_key.is_none() {
            return Err(SearchError::NoKey);
        }
        let client = Client::new([Origin::of(base_url)?]);
        Ok(Self { kind, base_url: base_url.trim_end_matches('/').to_owned(), api_key, client })
    }

    /// Asks.
    pub(super) async fn search(&self, query: &Query, timeout: Duration) -> Result<Vec<Hit>, ToolError> {
        let wire: &dyn Wire = match self.kind {
            SearchKind::Searxng => &searxng::Searxng,
            SearchKind::Brave => &brave::Brave,
        };
        let parameters = wire.parameters(query);
        let url = url::Url::parse_with_params(&format!("{}{}", self.base_url, wire.path()), parameters)
            .map_err(|error| ToolError::with_code(Code::Internal, error.to_string()))?;
        let request = Request {
            method: "GET".into(),
            url: url.into(),
            headers: vec![("accept".into(), "application/json".into())],
            secret_headers: self.api_key.iter().map(|key| wire.key_header(key)).collect(),
            body: None,
            timeout,
        };
        let response = self.client.send(request).await.map_err(|error| explain(&error))?;
        let status = response.status;
        if !(200..300).contains(&status) {
            return Err(wire.explain_status(status).unwrap_or_else(|| explain_status(status)));
        }
        let body = response.bytes(limits::SEARCH_BYTES_MAX, timeout).await.map_err(|error| explain(&error))?;
        let hits = wire.read(&body).map_err(|error| {
            ToolError::with_code(Code::UpstreamError, "the search engine's answer can not be read")
                .with_tool_code("BAD_ANSWER")
                .with_hint(format!("{error}; the operator must check `[search]`"))
        })?;
        let is_page = |hit: &Hit| hit.url.starts_with("http://") || hit.url.starts_with("https://");
        Ok(hits.into_iter().filter(is_page).take(query.count).map(Hit::tidied).collect())
    }
}

impl fmt::Debug for SearchConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SearchConfig").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// What is looked for.
pub(super) struct Query {
    pub(super) words: String,
    /// How many results.
    pub(super) count: usize,
    /// Such as `zh` or `zh-CN`.
    pub(super) language: Option<String>,
    pub(super) freshness: Option<Freshness>,
}

/// How old a page may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Freshness {
    Day,
    Week,
    Month,
    Year,
}

/// One result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(super) struct Hit {
    /// The page's title.
    pub(super) title: String,
    /// Its address.
    pub(super) url: String,
    /// What of it fits the words.
    pub(super) snippet: String,
    /// When it was published, where the engine knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub(super) published: Option<String>,
}

impl Hit {
    fn tidied(self) -> Self {
        let short = |text: &str, chars_max: usize| head(&plain(text), chars_max).into_owned();
        Self {
            title: short(&self.title, TITLE_CHARS_MAX),
            snippet: short(&self.snippet, SNIPPET_CHARS_MAX),
            url: self.url,
            published: self.published.filter(|published| !published.is_empty()),
        }
    }
}

/// How one kind of engine speaks.
trait Wire {
    /// What follows the base address.
    fn path(&self) -> &'static str;
    fn parameters(&self, query: &Query) -> Vec<(&'static str, String)>;
    fn key_header(&self, key: &Secret) -> (String, Secret);
    fn read(&self, body: &[u8]) -> Result<Vec<Hit>, serde_json::Error>;
    /// What only this kind means by a status.
    fn explain_status(&self, status: u16) -> Option<ToolError>;
}

fn explain(error: &ClientError) -> ToolError {
    let message = error.to_string();
    match error {
        ClientError::TimedOut { .. } => ToolError::with_code(Code::Timeout, message).with_hint("ask again later"),
        ClientError::Connect { .. } | ClientError::Closed { .. } => ToolError::with_code(Code::UpstreamError, message)
            .with_tool_code("UNREACHABLE")
            .with_hint("ask again later")
            .retryable(),
        ClientError::TooLarge { .. }
        | ClientError::NotAllowed { .. }
        | ClientError::BadUrl { .. }
        | ClientError::BadRequest { .. } => ToolError::with_code(Code::UpstreamError, message)
            .with_tool_code("BAD_ANSWER")
            .with_hint("the operator must check `[search]`"),
    }
}

fn explain_status(status: u16) -> ToolError {
    let error = ToolError::with_code(Code::UpstreamError, format!("the search engine answered {status}"));
    match status {
        401 | 403 => error.with_tool_code("KEY_REFUSED").with_hint("the operator must check `api_key` of `[search]`"),
        429 => error.with_tool_code("RATE_LIMITED").with_hint("the engine asks for fewer calls; ask again later"),
        400 | 422 => error.with_tool_code("BAD_QUERY").with_hint("use other words, or leave language out"),
        500..=599 => error.with_tool_code("SERVER_ERROR").with_hint("the fault is the engine's; ask again later"),
        _ => error.with_tool_code("BAD_ANSWER").with_hint("the operator must check `base_url` of `[search]`"),
    }
}

/// Text on one line, without the marks that engines put around what fits.
fn plain(text: &str) -> String {
    const MARKS: [(&str, &str); 12] = [
        ("<strong>", ""),
        ("</strong>", ""),
        ("<b>", ""),
        ("</b>", ""),
        ("<em>", ""),
        ("</em>", ""),
        ("&quot;", "\""),
        ("&#x27;", "'"),
        ("&#39;", "'"),
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&amp;", "&"),
    ];
    let text = MARKS.iter().fold(text.to_owned(), |text, (mark, plain)| text.replace(mark, plain));
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(language: Option<&str>, freshness: Option<Freshness>) -> Query {
        Query { words: "无线 键盘".into(), count: 3, language: language.map(str::to_owned), freshness }
    }

    #[test]
    fn each_engine_is_asked_in_its_own_words() {
        let searxng = searxng::Searxng.parameters(&query(Some("zh-CN"), Some(Freshness::Week)));
        let pairs = |pairs: &[(&'static str, &str)]| -> Vec<(&'static str, String)> {
            pairs.iter().map(|(key, value)| (*key, (*value).to_owned())).collect()
        };
        let expected = pairs(&[("q", "无线 键盘"), ("format", "json"), ("language", "zh-CN"), ("time_range", "week")]);
        assert_eq!(searxng, expected);
        for (language, expected) in [
            ("zh", "zh-hans"),
            ("zh-CN", "zh-hans"),
            ("zh-TW", "zh-hant"),
            ("ja", "jp"),
            ("pt-BR", "pt-br"),
            ("de-AT", "de"),
        ] {
            let brave = brave::Brave.parameters(&query(Some(language), Some(Freshness::Day)));
            let wanted = pairs(&[
                ("q", "无线 键盘"),
                ("count", "3"),
                ("text_decorations", "false"),
                ("search_lang", expected),
                ("freshness", "pd"),
            ]);
            assert_eq!(brave, wanted, "{language}");
        }
    }

    #[test]
    fn answers_are_read_whatever_is_missing() {
        let body = r#"{"query":"x","results":[{"title":"键盘","url":"https://a.example/1","content":"a <b>b</b>",
            "publishedDate":"2026-01-02T00:00:00"},{"url":"https://a.example/2","title":null}],"unresponsive_engines":[]}"#;
        let hits = searxng::Searxng.read(body.as_bytes()).unwrap();
        assert_eq!((hits.len(), hits[0].published.as_deref()), (2, Some("2026-01-02T00:00:00")));
        assert_eq!((hits[1].title.as_str(), hits[1].snippet.as_str()), ("", ""));
        let body = r#"{"type":"search","web":{"results":[{"title":"T","url":"https://b.example/",
            "description":"<strong>x</strong> &amp; y","page_age":"2026-03-04T05:06:07"}]}}"#;
        let hits = brave::Brave.read(body.as_bytes()).unwrap();
        assert_eq!(hits[0].clone().tidied().snippet, "x & y");
        assert!(brave::Brave.read(br#"{"type":"search"}"#).unwrap().is_empty());
        assert!(searxng::Searxng.read(b"<html>").is_err());
    }

    #[test]
    fn an_engine_that_can_not_be_asked_is_refused() {
        assert_eq!(SearchConfig::new(SearchKind::Brave, "https://x.example", None).unwrap_err(), SearchError::NoKey);
        assert!(SearchConfig::new(SearchKind::Searxng, "x.example", None).is_err());
        let config =
            SearchConfig::new(SearchKind::Searxng, "https://x.example/s/", Some(Secret::new("zq-key"))).unwrap();
        assert!(!format!("{config:?}").contains("zq"));
    }
}
