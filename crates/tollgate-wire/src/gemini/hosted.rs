//! What the provider ran itself: code, searches, pages. Nobody is asked for these calls; they are told so that they can be
//! observed.

use serde_json::value::RawValue;

use super::assemble::{Fields, fields_of};
use crate::chat::delta::scalar_text;
use crate::turn::HostedCall;

const CODE: &str = "codeExecution";
const SEARCH: &str = "googleSearch";
const PAGES: &str = "urlContext";

/// The calls so far, named as their tools are in `tools`.
#[derive(Debug, Default)]
pub(super) struct Hosted {
    calls: Vec<HostedCall>,
    grounding: Option<String>,
    pages: Option<String>,
}

impl Hosted {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Takes a part that may be half of a call.
    pub(super) fn take_part(&mut self, part: &Fields<'_>) {
        let of = |name: &str| Some((part.get(name)?, fields_of(part.get(name)?)?));
        if let Some((raw, code)) = of("executableCode") {
            self.call(CODE, scalar(&code, "id"), raw);
        }
        if let Some((raw, result)) = of("codeExecutionResult") {
            self.answer(CODE, &scalar(&result, "id"), raw, scalar(&result, "outcome") != "OUTCOME_OK");
        }
        if let Some((raw, call)) = of("toolCall") {
            let args = call.get("args").copied().unwrap_or(raw);
            self.call(tool(&scalar(&call, "toolType")), scalar(&call, "id"), args);
        }
        if let Some((raw, answer)) = of("toolResponse") {
            let response = answer.get("response").copied().unwrap_or(raw);
            let is_error = fields_of(response).is_some_and(|response| response.contains_key("error"));
            self.answer(tool(&scalar(&answer, "toolType")), &scalar(&answer, "id"), response, is_error);
        }
    }

    /// Takes what stands beside the content; a later one holds all that an earlier one did.
    pub(super) fn take_metadata(&mut self, grounding: Option<&RawValue>, pages: Option<&RawValue>) {
        let text = |raw: &RawValue| raw.get().to_owned();
        self.grounding = grounding.map(text).or(self.grounding.take());
        self.pages = pages.map(text).or(self.pages.take());
    }

    /// All of them. Searches and pages that no part told are made from the metadata.
    pub(super) fn into_calls(self) -> Vec<HostedCall> {
        let Self { mut calls, grounding, pages } = self;
        let is_told = |calls: &[HostedCall], name: &str| calls.iter().any(|call| call.name == name);
        if !is_told(&calls, SEARCH) {
            calls.extend(grounding.and_then(|json| from_metadata(SEARCH, json, "webSearchQueries", "groundingChunks")));
        }
        if !is_told(&calls, PAGES) {
            calls.extend(pages.and_then(|json| from_metadata(PAGES, json, "urlMetadata", "urlMetadata")));
        }
        calls
    }

    fn call(&mut self, name: impl Into<String>, id: String, arguments: &RawValue) {
        let arguments = arguments.get().to_owned();
        self.calls.push(HostedCall { id, name: name.into(), arguments, ..HostedCall::default() });
    }

    fn answer(&mut self, name: impl Into<String>, id: &str, result: &RawValue, is_error: bool) {
        let name = name.into();
        let is_meant =
            |call: &HostedCall| call.name == name && call.result.is_none() && (id.is_empty() || call.id == id);
        let at = self.calls.iter().rposition(is_meant).unwrap_or_else(|| {
            self.calls.push(HostedCall { id: id.to_owned(), name: name.clone(), ..HostedCall::default() });
            self.calls.len() - 1
        });
        if let Some(call) = self.calls.get_mut(at) {
            call.result = Some(result.get().to_owned());
            call.is_error = is_error;
        }
    }
}

/// A call that only the metadata tells; nothing when it says that there was none.
fn from_metadata(name: &str, json: String, given: &str, found: &str) -> Option<HostedCall> {
    let raw: &RawValue = serde_json::from_str(&json).ok()?;
    let fields = fields_of(raw)?;
    let list = |name: &str| fields.get(name).map(|raw| raw.get()).filter(|text| !matches!(*text, "[]" | "null"));
    let (arguments, _) = (list(given).unwrap_or_default().to_owned(), list(given).or_else(|| list(found))?);
    let is_error = json.contains("URL_RETRIEVAL_STATUS_") && !json.contains("URL_RETRIEVAL_STATUS_SUCCESS");
    Some(HostedCall { name: name.to_owned(), arguments, result: Some(json), is_error, ..HostedCall::default() })
}

fn scalar(fields: &Fields<'_>, name: &str) -> String {
    scalar_text(fields.get(name).copied()).into_owned()
}

/// The tool that a `toolType` means, as `tools` names it.
fn tool(kind: &str) -> String {
    match kind {
        "GOOGLE_SEARCH_WEB" | "GOOGLE_SEARCH_IMAGE" => SEARCH,
        "URL_CONTEXT" => PAGES,
        "GOOGLE_MAPS" => "googleMaps",
        "FILE_SEARCH" => "fileSearch",
        other => other,
    }
    .to_owned()
}
