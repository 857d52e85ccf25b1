//! What fits of a result, with what is said of the rest; or a summary of it.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tollgate_shape::{ItemCut, Limits, Listing, cut_text, cut_value, neutral, usage_of_json, usage_of_text};
use tollgate_types::{CallResult, Content, CutAt, Output, Surface, ToolDefinition, Truncated, limits};

use super::keep::{keep, may_read_on};
use super::{Source, Stop, View, Written, others};
use crate::gate::Trip;
use crate::memory::is_outside;
use crate::meta::READ_RESULT;

/// How much wider than the text a value for programs may be.
const WIDER: usize = 4;

/// What is shown of a result of which not all is.
struct Part {
    text: String,
    /// The value that the text is, where it is one.
    value: Option<Value>,
    shown: usize,
    total: usize,
    /// Of what.
    unit: &'static str,
    /// How to read on, for `read_result`.
    next: String,
}

pub(super) async fn cut(
    trip: Trip<'_>,
    definition: &ToolDefinition,
    view: View,
    warnings: &mut Vec<String>,
) -> Result<CallResult, Stop> {
    let output = &definition.output;
    let limits = limits_of(output, trip.attempt.caller.surface);
    // A page is never cut again.
    let is_page = definition.name == READ_RESULT;
    if !is_page && let Some(summary) = summary(trip, definition, &view, warnings).await {
        return summarised(trip, definition, view, summary).await;
    }
    let part = if is_page { None } else { part(&view, &limits, output) };
    let is_wide = |value: &Value| !is_page && usage_of_json(value).chars > limits.chars.saturating_mul(WIDER);
    let is_wide = view.structured.as_ref().is_some_and(is_wide);
    let whole = match (&part, &view.structured) {
        (None, Some(value)) if is_wide => value.to_string(),
        (None, _) => return Ok(all_of(trip, definition, view)),
        (Some(_), _) => view.text().into_owned(),
    };
    let part = part.unwrap_or_else(|| all_lines(&view.text()));
    let handle = keep(trip, definition, whole, 0).await?;
    let note = note(trip, definition, &part, &handle);
    let structured = view.structured.and_then(|value| narrowed(value, &limits, definition));
    let text = if trip.gate.inner().envelope {
        match (&part.value, &structured) {
            (Some(value), _) => enveloped(definition, value.clone(), &[("note", note.into())]),
            (None, Some(value)) => {
                let more = [("text", part.text.as_str().into()), ("note", note.into())];
                enveloped(definition, value.clone(), &more)
            }
            (None, None) => enveloped(definition, part.text.as_str().into(), &[("note", note.into())]),
        }
    } else {
        format!("{}\n[{note}]", part.text.trim_end_matches('\n'))
    };
    let mut content = vec![Content::Text(text)];
    content.extend(others(view.content));
    let truncated = Some(Truncated { shown: part.shown, total: part.total, handle });
    Ok(CallResult { content, structured, truncated, ..CallResult::default() })
}

fn limits_of(output: &Output, surface: Surface) -> Limits {
    let tighter = output.surfaces.get(&surface).copied().unwrap_or_default();
    let least = |one: Option<usize>, other: Option<usize>| match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    };
    Limits {
        chars: tighter.max_length.map_or(output.max_length, |chars| chars.min(output.max_length)),
        bytes: least(tighter.max_bytes, output.max_bytes).unwrap_or(usize::MAX),
        tokens: least(tighter.max_tokens, output.max_tokens),
    }
}

/// All of it, as it is.
fn all_of(trip: Trip<'_>, definition: &ToolDefinition, view: View) -> CallResult {
    let View { structured, source, .. } = &view;
    if !trip.gate.inner().envelope {
        return CallResult { content: view.content, structured: view.structured, ..CallResult::default() };
    }
    let text = view.text().into_owned();
    let is_json = source.as_ref().is_some_and(|source| source.written == Written::Json);
    let text = match structured {
        Some(value) if is_json || text.is_empty() => enveloped(definition, value.clone(), &[]),
        // What is for programs does not say what the text says.
        Some(value) => enveloped(definition, value.clone(), &[("text", text.into())]),
        None => enveloped(definition, text.into(), &[]),
    };
    let mut content = vec![Content::Text(text)];
    content.extend(others(view.content));
    CallResult { content, structured: view.structured, ..CallResult::default() }
}

fn enveloped(definition: &ToolDefinition, data: Value, more: &[(&str, Value)]) -> String {
    let mut envelope = Map::from_iter([("ok".to_owned(), json!(true)), ("data".to_owned(), data)]);
    envelope.extend(more.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
    if is_outside(definition) {
        envelope.insert("from".into(), "outside".into());
    }
    Value::Object(envelope).to_string()
}

/// What fits; none when that is all.
fn part(view: &View, limits: &Limits, output: &Output) -> Option<Part> {
    let listing = Listing { head: output.head, tail: output.tail, most: output.max_items };
    let at = output.cut.unwrap_or(CutAt::Item);
    let text = view.text();
    let source = view.source.as_ref().filter(|_| at == CutAt::Item);
    if let Some(source) = source {
        if limits.hold_text(&text) && listing.is_open() {
            return None;
        }
        match cut_value(&source.value, limits, listing) {
            None if limits.hold_text(&text) => return None,
            Some(cut) if cut.fits && limits.hold_text(&source.written.text(&cut.value)) => {
                return Some(items_part(source, cut));
            }
            // One thing that is too long, or a table wider than its value.
            Some(_) | None => {}
        }
    }
    let listing = Listing { most: None, ..listing };
    let cut = cut_text(&text, limits, listing, at)?;
    let text = if cut.tail.is_empty() {
        cut.head.to_owned()
    } else {
        let left = cut.total - cut.shown.min(cut.total);
        format!("{}\n[{left} {} left out]\n{}", cut.head.trim_end_matches('\n'), cut.unit, cut.tail)
    };
    let next = format!(", offset {}", cut.head.chars().count());
    Some(Part { text, value: None, shown: cut.shown, total: cut.total, unit: cut.unit, next })
}

fn items_part(source: &Source, cut: ItemCut) -> Part {
    let text = source.written.text(&cut.value);
    let from = cut.shown - cut.shown_of_end;
    let to = if cut.shown_of_end == 0 { String::new() } else { (cut.total - cut.shown_of_end).to_string() };
    let next = match source.written {
        Written::Json => format!(", filter {}", json!(format!("{}[{from}:{to}]", member(cut.key.as_deref())))),
        Written::Table(_) => String::new(),
    };
    let value = (source.written == Written::Json).then_some(cut.value);
    Part { text, value, shown: cut.shown, total: cut.total, unit: "items", next }
}

/// The list as a filter names it.
fn member(key: Option<&str>) -> String {
    let is_word = |key: &str| {
        key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') && !key.starts_with(|c: char| c.is_ascii_digit())
    };
    match key {
        None => ".".into(),
        Some(key) if is_word(key) => format!(".{key}"),
        Some(key) => format!(".[{}]", Value::from(key)),
    }
}

/// A text that fits, of a result whose value does not.
fn all_lines(text: &str) -> Part {
    let total = text.lines().count();
    Part { text: text.to_owned(), value: None, shown: total, total, unit: "lines", next: String::new() }
}

fn note(trip: Trip<'_>, definition: &ToolDefinition, part: &Part, handle: &str) -> String {
    if let Some(message) = &definition.output.truncation_message {
        return format!("{message} Handle: {handle}");
    }
    let Part { shown, total, unit, next, .. } = part;
    let estimate = match limits_of(&definition.output, trip.attempt.caller.surface).tokens {
        Some(_) => format!(" (about {} tokens, estimated)", usage_of_text(&part.text).tokens()),
        None => String::new(),
    };
    if may_read_on(trip) {
        format!("shown {shown} of {total} {unit}{estimate}; the rest: read_result with handle \"{handle}\"{next}")
    } else {
        format!("shown {shown} of {total} {unit}{estimate}; ask for less to see the rest")
    }
}

/// The value for programs, cut as the text is. What cannot be made to fit is left out, but where the tool promises a value
/// by an output schema: then it stays as it is.
fn narrowed(value: Value, limits: &Limits, definition: &ToolDefinition) -> Option<Value> {
    let output = &definition.output;
    let has_promise = definition.output_schema.is_some() && !output.changes_value();
    let listing = Listing { head: output.head, tail: output.tail, most: output.max_items };
    match cut_value(&value, limits, listing) {
        None => Some(value),
        Some(cut) => (cut.fits || has_promise).then_some(cut.value),
    }
}

/// What a model says in short of a long text, where the tool wants that and the model can be asked.
async fn summary(
    trip: Trip<'_>,
    definition: &ToolDefinition,
    view: &View,
    warnings: &mut Vec<String>,
) -> Option<String> {
    let wanted = definition.output.summary.as_ref()?;
    let whole = view.text();
    let chars = usage_of_text(&whole).chars;
    if chars <= wanted.over {
        return None;
    }
    let gate = trip.gate.inner();
    let asked = match &gate.summaries {
        None => Err("no model can be asked here".to_owned()),
        Some(summaries) => {
            let end = whole.char_indices().nth(limits::SUMMARY_CHARS_MAX).map_or(whole.len(), |(at, _)| at);
            let text = whole.get(..end).unwrap_or_default();
            let wait = Duration::from_millis(limits::SUMMARY_TIMEOUT_MS);
            tokio::select! {
                asked = tokio::time::timeout(wait, summaries.summarize(&wanted.model, text)) => {
                    asked.unwrap_or_else(|_| Err(format!("it took longer than {} ms", limits::SUMMARY_TIMEOUT_MS)))
                }
                () = trip.cancellation.cancelled() => Err("nobody waited for it".to_owned()),
            }
        }
    };
    match asked {
        Ok(summary) if !summary.trim().is_empty() => {
            trip.attempt.noted(format!("summarised by the model `{}` from {chars} characters", wanted.model));
            let clean = gate.redactor.result(summary.trim()).into_owned();
            Some(neutral(&clean).into_owned())
        }
        Ok(_) => {
            warnings.push(format!("the model `{}` had nothing to say in short", wanted.model));
            None
        }
        Err(why) => {
            let why = gate.redactor.text(&why).into_owned();
            warnings.push(format!("there is no summary by the model `{}`: {why}", wanted.model));
            None
        }
    }
}

async fn summarised(
    trip: Trip<'_>,
    definition: &ToolDefinition,
    view: View,
    summary: String,
) -> Result<CallResult, Stop> {
    let limits = limits_of(&definition.output, trip.attempt.caller.surface);
    let whole = view.text().into_owned();
    let (total, chars) = (whole.lines().count(), usage_of_text(&whole).chars);
    let handle = keep(trip, definition, whole, 0).await?;
    let model = definition.output.summary.as_ref().map_or("", |wanted| &wanted.model);
    let given = if chars > limits::SUMMARY_CHARS_MAX {
        format!("the first {} of {chars} characters", limits::SUMMARY_CHARS_MAX)
    } else {
        format!("{chars} characters")
    };
    let short = cut_text(&summary, &limits, Listing::default(), CutAt::Sentence).map_or(&*summary, |cut| cut.head);
    let note = format!("a summary by the model `{model}` of {given}; the whole: read_result with handle \"{handle}\"");
    let text = if trip.gate.inner().envelope {
        enveloped(definition, short.into(), &[("note", note.into())])
    } else {
        format!("{short}\n[{note}]")
    };
    let mut content = vec![Content::Text(text)];
    content.extend(others(view.content));
    let structured = view.structured.and_then(|value| narrowed(value, &limits, definition));
    let truncated = Some(Truncated { shown: 0, total, handle });
    Ok(CallResult { content, structured, truncated, ..CallResult::default() })
}
