//! The web search of Brave: `GET /res/v1/web/search`, with a key.

use serde::Deserialize;
use tollgate_types::{Secret, ToolError};

use super::{Freshness, Hit, Query, Wire};

pub(super) struct Brave;

#[derive(Deserialize)]
struct Answer {
    web: Option<Web>,
}

#[derive(Deserialize)]
struct Web {
    #[serde(default)]
    results: Vec<Found>,
}

#[derive(Deserialize)]
struct Found {
    url: Option<String>,
    title: Option<String>,
    description: Option<String>,
    page_age: Option<String>,
}

impl Wire for Brave {
    fn path(&self) -> &'static str {
        "/res/v1/web/search"
    }

    fn parameters(&self, query: &Query) -> Vec<(&'static str, String)> {
        let freshness = query.freshness.map(|freshness| match freshness {
            Freshness::Day => "pd",
            Freshness::Week => "pw",
            Freshness::Month => "pm",
            Freshness::Year => "py",
        });
        let mut parameters = vec![
            ("q", query.words.clone()),
            ("count", query.count.to_string()),
            ("text_decorations", "false".to_owned()),
        ];
        parameters.extend(query.language.as_deref().map(|language| ("search_lang", search_lang(language))));
        parameters.extend(freshness.map(|freshness| ("freshness", freshness.to_owned())));
        parameters
    }

    fn key_header(&self, key: &Secret) -> (String, Secret) {
        ("x-subscription-token".into(), key.clone())
    }

    fn read(&self, body: &[u8]) -> Result<Vec<Hit>, serde_json::Error> {
        let answer: Answer = serde_json::from_slice(body)?;
        let results = answer.web.map(|web| web.results).unwrap_or_default();
        let hits = results.into_iter().map(|found| Hit {
            title: found.title.unwrap_or_default(),
            url: found.url.unwrap_or_default(),
            snippet: found.description.unwrap_or_default(),
            published: found.page_age,
        });
        Ok(hits.collect())
    }

    fn explain_status(&self, _: u16) -> Option<ToolError> {
        None
    }
}

/// Brave has names of its own for some languages.
fn search_lang(language: &str) -> String {
    let language = language.to_ascii_lowercase();
    match language.as_str() {
        "zh-tw" | "zh-hk" | "zh-mo" | "zh-hant" => "zh-hant".to_owned(),
        "pt-br" | "pt-pt" | "en-gb" => language,
        other => match other.split('-').next().unwrap_or_default() {
            "zh" => "zh-hans".to_owned(),
            "ja" => "jp".to_owned(),
            primary => primary.to_owned(),
        },
    }
}
