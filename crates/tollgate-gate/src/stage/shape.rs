//! Shape: what the model sees of a result. The whole is kept, errors are never cut away.

mod cut;
mod failure;
mod keep;

use std::borrow::Cow;

use serde_json::Value;
use tollgate_shape::{Plan, described, embedded_text, framed, is_media, neutral, neutral_value, table, usage_of_json};
use tollgate_types::{
    CallKind, CallResult, Content, ErrorObject, Flaw, Mismatch, OutsideMark, Raw, Risk, Surface, Text, ToolDefinition,
    ToolOutput, limits,
};

use super::run::Ran;
use super::validate::Valid;
use super::{Stop, presentable};
use crate::gate::{Inner, Trip};
use crate::memory::is_outside;
pub(super) use failure::own_failure;
use keep::keep;

pub(crate) async fn shape(trip: Trip<'_>, ran: Ran) -> Result<CallResult, Stop> {
    let (cleared, mut output) = ran.into_parts();
    let gate = trip.gate.inner();
    let entry = cleared.entry();
    let definition = &*entry.definition;
    too_large(definition.risk, &output)?;
    // A marker need not fit the schema that the secret fitted.
    let misfit = misfit(entry, &output);
    redact(gate, &mut output);
    if !definition.kind.is_tool() || trip.call.kind != CallKind::Tool {
        return Ok(CallResult {
            structured: output.structured,
            raw: output.raw,
            outside: is_outside(definition),
            ..CallResult::default()
        });
    }
    let mut warnings = Vec::new();
    if let Some(error) = misfit {
        let error = presentable(gate, error);
        if definition.output.mismatch_for(&trip.attempt.caller.role) == Mismatch::Refuse {
            // The caller is told what is wrong with it; the ledger keeps what it was.
            trip.attempt.record_result(gate, &output);
            return Err(Stop::Error(error));
        }
        warnings.push(error.message);
    }
    shown(trip, &cleared, output, warnings).await
}

/// What is shown of a result that is clean.
async fn shown(
    trip: Trip<'_>,
    valid: &Valid,
    mut output: ToolOutput,
    mut warnings: Vec<String>,
) -> Result<CallResult, Stop> {
    let definition = &*valid.entry().definition;
    let raw = output.raw.take().map(|raw| (raw, output.clone()));
    let is_json = is_json(&output);
    if definition.output.show_hidden {
        show_hidden(&mut output, is_json);
    }
    let view = reshape(trip, &valid.executor().plan, definition, output, is_json);
    let view = in_words(trip, definition, view).await?;
    let mut result = cut::cut(trip, definition, view, &mut warnings).await?;
    result.outside = is_outside(definition);
    if is_framed(definition, trip.attempt.caller.surface) {
        frame(&mut result, trip.attempt.id.as_str());
    }
    let is_unchanged = |before: &ToolOutput| before.content == result.content && before.structured == result.structured;
    result.raw = raw.filter(|(_, before)| is_unchanged(before)).map(|(raw, _)| raw);
    result.warnings = warnings;
    Ok(result)
}

/// A result on its way: its parts, and its value.
struct View {
    /// The parts.
    content: Vec<Content>,
    /// What goes to programs.
    structured: Option<Value>,
    /// What the text is written from, where it is.
    source: Option<Source>,
}

impl View {
    /// The text of the result.
    fn text(&self) -> Cow<'_, str> {
        let mut texts = self.content.iter().filter_map(|part| match part {
            Content::Text(text) => Some(text.as_str()),
            Content::Other(_) => None,
        });
        let first = texts.next().unwrap_or_default();
        texts.fold(Cow::Borrowed(first), |joined, text| Cow::Owned(format!("{joined}\n{text}")))
    }
}

/// A value that is the text.
struct Source {
    value: Value,
    written: Written,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Written {
    Json,
    Table(tollgate_types::TableForm),
}

impl Written {
    fn text(self, value: &Value) -> String {
        match self {
            Self::Json => value.to_string(),
            Self::Table(form) => table(value, form).unwrap_or_else(|| value.to_string()),
        }
    }
}

fn too_large(risk: Risk, output: &ToolOutput) -> Result<(), Stop> {
    let size = size_bytes(output);
    if size <= limits::RESULT_BYTES_MAX {
        return Ok(());
    }
    let text = if risk == Risk::Read { Text::TooLarge } else { Text::TooLargeDone };
    Err(Stop::Error(text.error(&[("size", &size), ("max", &limits::RESULT_BYTES_MAX)])))
}

/// The same for a result that a human gave: it was checked when it was given.
pub(super) async fn given(trip: Trip<'_>, valid: &Valid, mut output: ToolOutput) -> Result<CallResult, Stop> {
    redact(trip.gate.inner(), &mut output);
    shown(trip, valid, output, Vec::new()).await
}

fn size_bytes(output: &ToolOutput) -> usize {
    let text: usize = output
        .content
        .iter()
        .map(|part| match part {
            Content::Text(text) => text.len(),
            Content::Other(value) => usage_of_json(value).bytes,
        })
        .sum();
    // Most texts are their value, written.
    text.max(output.structured.as_ref().map_or(0, |value| usage_of_json(value).bytes))
}

/// Injected secrets leave by no door, and others by none that the operator did not open to them.
fn redact(gate: &Inner, output: &mut ToolOutput) {
    for part in &mut output.content {
        match part {
            Content::Text(text) => {
                if let Cow::Owned(clean) = gate.redactor.result(text) {
                    *text = clean;
                }
            }
            Content::Other(value) => gate.redactor.result_value(value),
        }
    }
    if let Some(value) = &mut output.structured {
        gate.redactor.result_value(value);
    }
    output.raw = output.raw.take().filter(|raw| is_clean(gate, raw));
}

/// Whether there is nothing in it that is not to leave, as it is or hidden from who reads.
fn is_clean(gate: &Inner, raw: &Raw) -> bool {
    let Ok(value) = serde_json::from_str::<Value>(raw.get()) else { return false };
    let mut clean = value.clone();
    gate.redactor.result_value(&mut clean);
    neutral_value(&mut clean);
    clean == value
}

pub(super) fn misfit(entry: &tollgate_catalog::Entry, output: &ToolOutput) -> Option<ErrorObject> {
    let schema = entry.output.as_ref()?;
    let violations = match &output.structured {
        Some(value) => schema.validate(value),
        None => vec![Flaw::NoValue.at("", &[])],
    };
    if violations.is_empty() {
        return None;
    }
    Some(Text::OutputMisfit.error(&[]).with_details(violations))
}

/// Whether the text is the value and nothing else.
fn is_json(output: &ToolOutput) -> bool {
    match (output.content.as_slice(), &output.structured) {
        ([Content::Text(text), rest @ ..], Some(value)) => {
            let has_more = rest.iter().any(|part| matches!(part, Content::Text(_)));
            let is_written = || {
                let written = value.to_string();
                written == *text
            };
            let is_as_long = usage_of_json(value).bytes == text.len();
            !has_more && (is_as_long && is_written() || read(text).is_some_and(|read| read == *value))
        }
        _ => false,
    }
}

/// The value that a text is, if it is more than a word or a number.
fn read(text: &str) -> Option<Value> {
    text.trim_start().starts_with(['{', '[']).then(|| serde_json::from_str(text).ok()).flatten()
}

/// Writes what is hidden as what it is, everywhere alike.
fn show_hidden(output: &mut ToolOutput, is_json: bool) {
    output.structured.iter_mut().for_each(neutral_value);
    for part in &mut output.content {
        match (part, &output.structured) {
            (Content::Text(text), structured) => {
                if let Cow::Owned(clean) = neutral(text) {
                    *text = if is_json { structured.as_ref().map_or(clean, Value::to_string) } else { clean };
                }
            }
            (Content::Other(value), _) => neutral_value(value),
        }
    }
}

/// The result as its `output` wants its value.
fn reshape(trip: Trip<'_>, plan: &Plan, definition: &ToolDefinition, output: ToolOutput, is_json: bool) -> View {
    let ToolOutput { content, structured, .. } = output;
    let form = definition.output.table;
    let wants_value = !plan.is_plain() || form.is_some();
    let value = match (&structured, content.as_slice()) {
        (Some(value), _) if wants_value || is_json => Some(value.clone()),
        // JSON that came as text is a value too: it is cut at an item.
        (None, [Content::Text(text)]) => read(text),
        _ => None,
    };
    let Some(value) = value else { return View { content, structured, source: None } };
    if !wants_value {
        return View { content, structured, source: Some(Source { value, written: Written::Json }) };
    }
    let value = plan.apply(value, trip.gate.inner().clock.now());
    let structured = structured.map(|_| value.clone());
    let (text, written) = match form.and_then(|form| Some((table(&value, form)?, Written::Table(form)))) {
        Some(found) => found,
        None => (value.to_string(), Written::Json),
    };
    let mut shown = vec![Content::Text(text)];
    shown.extend(others(content));
    View { content: shown, structured, source: Some(Source { value, written }) }
}

/// The parts that are not text.
fn others(content: Vec<Content>) -> impl Iterator<Item = Content> {
    content.into_iter().filter(|part| matches!(part, Content::Other(_)))
}

/// Where who asks cannot take images, audio and files, they are kept, and described in words.
async fn in_words(trip: Trip<'_>, definition: &ToolDefinition, mut view: View) -> Result<View, Stop> {
    if trip.attempt.caller.surface.takes_media() {
        return Ok(view);
    }
    let mut part = 0;
    for content in &mut view.content {
        let Content::Other(block) = &*content else { continue };
        if !is_media(block) || trip.call.client.images && is_image(block) {
            continue;
        }
        let words = match embedded_text(block) {
            Some(text) => text,
            None if block.get("type").is_some_and(|kind| kind == "resource_link") => described(block, None),
            None => {
                part += 1;
                let handle = keep(trip, definition, block.to_string(), part).await?;
                described(block, Some(&handle))
            }
        };
        let words = if definition.output.show_hidden { neutral(&words).into_owned() } else { words };
        *content = Content::Text(words);
        // A text with words behind it is no value any more.
        view.source = None;
    }
    Ok(view)
}

/// Whether a model that sees can be shown it.
fn is_image(block: &Value) -> bool {
    let text = |name| block.get(name).and_then(Value::as_str).unwrap_or_default();
    text("type") == "image"
        && matches!(text("mimeType"), "image/png" | "image/jpeg" | "image/gif" | "image/webp")
        && (1..=limits::IMAGE_BASE64_BYTES_MAX).contains(&text("data").len())
}

fn is_framed(definition: &ToolDefinition, surface: Surface) -> bool {
    let is_asked_for = match definition.output.outside {
        OutsideMark::Auto => surface == Surface::Agent,
        OutsideMark::Frame => true,
        OutsideMark::Never => false,
    };
    is_asked_for && is_outside(definition)
}

/// Frames the texts under a tag that no tool could know when it answered: the end of the attempt's id is random.
fn frame(result: &mut CallResult, attempt: &str) {
    let tag = attempt.get(attempt.len().saturating_sub(8)..).unwrap_or_default();
    for part in &mut result.content {
        if let Content::Text(text) = part
            && let Some(framed) = framed(text, tag)
        {
            *text = framed;
        }
    }
}
