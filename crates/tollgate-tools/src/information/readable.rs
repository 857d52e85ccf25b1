//! From HTML to Markdown: the part of a page that somebody wrote to be read, or all of it.

use dom_smoothie::{Config, Readability, TextMode};
use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_types::{Code, ToolError, limits};
use url::Url;

use super::nesting;

/// More elements than anybody wrote by hand.
const ELEMENTS_MAX: usize = 100_000;
/// Paragraphs shorter than this tell nothing about a page; in Chinese a sentence is short.
const PARAGRAPH_CHARS_MIN: usize = 50;
/// What is not text, or not to be seen.
const NOT_SHOWN: &str = "script, style, noscript, template, svg, iframe, object, embed, canvas, [hidden], \
                         [aria-hidden='true'], [style*='display:none'], [style*='display: none'], \
                         [style*='visibility:hidden'], [style*='visibility: hidden'], img[src^='data:'], \
                         a[href^='javascript:']";
const SKIPPED: [&str; 4] = ["head", "meta", "script", "style"];

/// Which part of a page.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Part {
    /// What somebody wrote to be read, without menus and margins; all of it where no such part stands out.
    #[default]
    Main,
    /// All of it.
    Whole,
}

/// The title, and the text as Markdown.
pub(super) fn markdown(html: String, url: &Url, part: Part) -> Result<(Option<String>, String), ToolError> {
    let page = opened(&html, url)?;
    let title = Some(page.get_article_title().trim().to_owned()).filter(|title| !title.is_empty());
    if part == Part::Main && page.is_probably_readable() {
        let mut page = page;
        if let Ok(article) = page.parse()
            && !article.text_content.trim().is_empty()
        {
            let title = Some(article.title.trim().to_owned()).filter(|title| !title.is_empty()).or(title);
            return Ok((title, tidied(&article.text_content)));
        }
        // What was tried has changed the page.
        return Ok((title, whole(&opened(&html, url)?, url)));
    }
    Ok((title, whole(&page, url)))
}

/// The page without what is not to be seen.
fn opened(html: &str, url: &Url) -> Result<Readability, ToolError> {
    // What is very deep takes the parser the square of its depth.
    if !nesting::is_bearable(html, limits::PAGE_DEPTH_MAX, ELEMENTS_MAX) {
        return Err(too_large());
    }
    let config = Config {
        max_elements_to_parse: ELEMENTS_MAX,
        readable_min_content_length: PARAGRAPH_CHARS_MIN,
        text_mode: TextMode::Markdown,
        ..Config::default()
    };
    let page = Readability::new(html, Some(url.as_str()), Some(config))
        .map_err(|error| ToolError::with_code(Code::Internal, error.to_string()))?;
    check_shape(&page)?;
    page.doc.select(NOT_SHOWN).remove();
    Ok(page)
}

/// INVARIANT: no page is so deep that walking through it ends the stack, nor so large that it takes minutes.
fn check_shape(page: &Readability) -> Result<(), ToolError> {
    let mut open = vec![(page.doc.root(), 0)];
    let mut elements = 0;
    while let Some((node, depth)) = open.pop() {
        elements += usize::from(node.is_element());
        if depth > limits::PAGE_DEPTH_MAX || elements > ELEMENTS_MAX {
            return Err(too_large());
        }
        open.extend(node.children_it(false).map(|child| (child, depth + 1)));
    }
    Ok(())
}

fn too_large() -> ToolError {
    ToolError::new("the page is built too deep or of too many parts to be read")
        .with_tool_code("TOO_LARGE")
        .with_hint("look for the same elsewhere")
}

fn whole(page: &Readability, url: &Url) -> String {
    let base = page.doc.select("base[href]").attr("href").and_then(|base| url.join(&base).ok());
    let base = base.as_ref().unwrap_or(url);
    for (selector, attribute) in [("a[href]", "href"), ("img[src]", "src")] {
        for element in page.doc.select(selector).iter() {
            if let Some(to) = element.attr(attribute).and_then(|to| base.join(&to).ok()) {
                element.set_attr(attribute, to.as_str());
            }
        }
    }
    tidied(&page.doc.md(Some(&SKIPPED)))
}

/// Without white space at the ends of lines, and without more than one empty line in a row.
fn tidied(text: &str) -> String {
    let mut tidy = String::with_capacity(text.len());
    let mut empty = 0;
    for line in text.trim().lines() {
        let line = line.trim_end();
        empty = if line.is_empty() { empty + 1 } else { 0 };
        if empty <= 1 {
            tidy.push_str(line);
            tidy.push('\n');
        }
    }
    tidy.truncate(tidy.trim_end().len());
    tidy
}
