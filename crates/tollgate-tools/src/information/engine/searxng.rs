//! SearXNG: `GET /search?format=json`, a format that its operator has to turn on.

use serde::Deserialize;
use tollgate_types::{Secret, ToolError};

use super::{Freshness, Hit, Query, Wire};

pub(super) struct Searxng;

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    results: Vec<Found>,
}

#[derive(Deserialize)]
struct Found {
    url: Option<String>,
    title: Option<String>,
    content: Option<String>,
    #[serde(rename = "publishedDate")]
    published: Option<String>,
}

impl Wire for Searxng {
    fn path(&self) -> &'static str {
        "/search"
    }

    fn parameters(&self, query: &Query) -> Vec<(&'static str, String)> {
        let range = query.freshness.map(|freshness| match freshness {
            Freshness::Day => "day",
            Freshness::Week => "week",
            Freshness::Month => "month",
            Freshness::Year => "year",
        });
        let mut parameters = vec![("q", query.words.clone()), ("format", "json".to_owned())];
        parameters.extend(query.language.clone().map(|language| ("language", language)));
        parameters.extend(range.map(|range| ("time_range", range.to_owned())));
        parameters
    }

    fn key_header(&self, key: &Secret) -> (String, Secret) {
        ("authorization".into(), Secret::new(format!("Bearer {}", key.expose())))
    }

    fn read(&self, body: &[u8]) -> Result<Vec<Hit>, serde_json::Error> {
        let answer: Answer = serde_json::from_slice(body)?;
        let hits = answer.results.into_iter().map(|found| Hit {
            title: found.title.unwrap_or_default(),
            url: found.url.unwrap_or_default(),
            snippet: found.content.unwrap_or_default(),
            published: found.published,
        });
        Ok(hits.collect())
    }

    fn explain_status(&self, status: u16) -> Option<ToolError> {
        (status == 403).then(|| {
            ToolError::new("the search engine gives no JSON")
                .with_tool_code("NOT_CONFIGURED")
                .with_hint("the operator must add `json` to `search.formats` in SearXNG's settings.yml")
        })
    }
}
