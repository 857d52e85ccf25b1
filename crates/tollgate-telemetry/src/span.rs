//! A call that ended as spans: the call itself, and one below it for each stage. The names are those of the GenAI and MCP
//! conventions of OpenTelemetry (open-telemetry/semantic-conventions-genai 0.1.0, Development); what they have no name for
//! is called `tollgate.…`.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status as SpanStatus, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use tollgate_types::{CallKind, Category, Observed, SourceKind, Stage, Staged, Status, Surface, TraceContext};

/// The longest name or id that an asker can bring into an attribute.
const NAME_CHARS_MAX: usize = 256;
/// The longest description of a tool.
const DESCRIPTION_CHARS_MAX: usize = 1_024;
const MCP_CALL: &str = "tools/call";

/// Who says it, for every span.
pub(crate) fn scope() -> InstrumentationScope {
    InstrumentationScope::builder("tollgate").with_version(env!("CARGO_PKG_VERSION")).build()
}

/// The spans of one call; none when it has no place in a trace.
pub(crate) fn of(call: &Observed, scope: &InstrumentationScope) -> Vec<SpanData> {
    let Some(trace) = &call.trace else { return Vec::new() };
    let mut spans = Vec::with_capacity(1 + call.stages.len());
    let mut root = span(call, trace, (Duration::ZERO, call.took), scope);
    root.name = name(call);
    root.attributes = attributes(call);
    root.status = status(call);
    if let Some(above) = call.above {
        root.parent_span_id = SpanId::from_bytes(above.0);
        // A call of a tool's own stands below the span of that tool's run, which is ours.
        root.parent_span_is_remote = call.parent.is_none();
    }
    spans.push(root);
    let ended_in = call.ended_in();
    spans.extend(call.stages.iter().map(|staged| stage(call, trace, staged, ended_in, scope)));
    spans
}

fn stage(
    call: &Observed,
    trace: &TraceContext,
    staged: &Staged,
    ended_in: Option<Stage>,
    scope: &InstrumentationScope,
) -> SpanData {
    let mut span = span(call, &trace.child(staged.stage.place()), (staged.began, staged.took), scope);
    span.name = staged.stage.as_str().into();
    span.parent_span_id = SpanId::from_bytes(trace.span.0);
    span.attributes = vec![text("tollgate.attempt", call.attempt.as_str())];
    let source = call.definition.as_ref().map(|definition| definition.source.kind);
    if staged.stage == Stage::Run && matches!(source, Some(SourceKind::Http | SourceKind::Mcp)) {
        span.span_kind = SpanKind::Client;
    }
    if ended_in == Some(staged.stage) {
        span.status = status(call);
        span.attributes.extend(error_type(call));
    }
    span
}

fn span(
    call: &Observed,
    place: &TraceContext,
    (from, took): (Duration, Duration),
    scope: &InstrumentationScope,
) -> SpanData {
    let since = Duration::from_nanos(u64::try_from(call.began.as_nanosecond()).unwrap_or_default());
    let start_time = SystemTime::UNIX_EPOCH + since + from;
    let state: TraceState = place.tracestate().and_then(|state| state.parse().ok()).unwrap_or_default();
    let flags = if place.is_sampled { TraceFlags::SAMPLED } else { TraceFlags::default() };
    let (trace, span) = (TraceId::from_bytes(place.trace.0), SpanId::from_bytes(place.span.0));
    SpanData {
        span_context: SpanContext::new(trace, span, flags, false, state),
        parent_span_id: SpanId::INVALID,
        parent_span_is_remote: false,
        span_kind: SpanKind::Internal,
        name: Cow::Borrowed(""),
        start_time,
        end_time: start_time + took,
        attributes: Vec::new(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: SpanStatus::Unset,
        instrumentation_scope: scope.clone(),
    }
}

/// A name that nobody has would make as many names of spans as askers can think of.
fn name(call: &Observed) -> Cow<'static, str> {
    match &call.definition {
        Some(definition) => format!("execute_tool {}", definition.name).into(),
        None => "execute_tool".into(),
    }
}

/// What waits for a human has not failed.
fn status(call: &Observed) -> SpanStatus {
    match call.status {
        Status::Done | Status::Waiting => SpanStatus::Unset,
        Status::Refused | Status::Failed | Status::Unknown => {
            SpanStatus::error(call.code.map_or(call.status.as_str(), |code| code.as_str()))
        }
    }
}

fn error_type(call: &Observed) -> Option<KeyValue> {
    let code = call.code.filter(|_| matches!(status(call), SpanStatus::Error { .. }))?;
    Some(text("error.type", code.as_str()))
}

fn attributes(call: &Observed) -> Vec<KeyValue> {
    let mut all = vec![
        text("gen_ai.operation.name", "execute_tool"),
        text("gen_ai.tool.name", &cut(&call.tool, NAME_CHARS_MAX)),
        text("gen_ai.tool.call.id", &cut(call.call_id.as_str(), NAME_CHARS_MAX)),
    ];
    all.extend(error_type(call));
    let session = call.caller.session.as_deref().map(|session| cut(session, NAME_CHARS_MAX));
    all.extend(session.map(|session| text("gen_ai.conversation.id", &session)));
    all.extend(call.arguments.as_deref().map(|content| text("gen_ai.tool.call.arguments", content)));
    all.extend(call.result.as_deref().map(|content| text("gen_ai.tool.call.result", content)));
    of_tool(call, &mut all);
    of_mcp(call, &mut all);
    of_gate(call, &mut all);
    all
}

fn of_tool(call: &Observed, all: &mut Vec<KeyValue>) {
    let Some(tool) = &call.definition else { return };
    let kind = match (tool.source.kind, tool.category) {
        (_, Category::Data) => "datastore",
        (SourceKind::Http | SourceKind::Mcp | SourceKind::Provider, _) => "extension",
        (SourceKind::Builtin | SourceKind::Native | SourceKind::Program, _) => "function",
    };
    all.push(text("gen_ai.tool.type", kind));
    all.push(text("gen_ai.tool.description", &cut(&tool.description, DESCRIPTION_CHARS_MAX)));
    all.push(text("tollgate.tool.source", tool.source.kind.as_str()));
    all.extend(tool.source.server.as_deref().map(|server| text("tollgate.tool.server", server)));
    all.push(text("tollgate.tool.risk", tool.risk.as_str()));
    all.push(text("tollgate.tool.permission", tool.permission.as_str()));
}

/// Of the MCP client that asked; without one, that the tool is an MCP server's.
fn of_mcp(call: &Observed, all: &mut Vec<KeyValue>) {
    let transport = match call.caller.surface {
        Surface::McpStdio => Some("pipe"),
        Surface::McpHttp => Some("tcp"),
        Surface::Cli | Surface::Agent | Surface::Rest | Surface::Library => None,
    };
    let is_upstream = call.definition.as_ref().is_some_and(|tool| tool.source.kind == SourceKind::Mcp);
    if (transport.is_some() || is_upstream) && call.kind == CallKind::Tool {
        all.push(text("mcp.method.name", MCP_CALL));
    }
    let Some(transport) = transport else { return };
    // A call of a tool's own is nobody's request.
    if call.parent.is_none() {
        all.push(text("jsonrpc.request.id", &cut(call.call_id.as_str(), NAME_CHARS_MAX)));
    }
    all.push(text("network.transport", transport));
    all.extend(call.protocol.map(|revision| text("mcp.protocol.version", revision)));
    let session = call.caller.session.as_deref().map(|session| cut(session, NAME_CHARS_MAX));
    all.extend(session.map(|session| text("mcp.session.id", &session)));
}

fn of_gate(call: &Observed, all: &mut Vec<KeyValue>) {
    all.push(text("tollgate.attempt", call.attempt.as_str()));
    all.extend(call.parent.as_ref().map(|parent| text("tollgate.parent_attempt", parent.as_str())));
    all.push(text("tollgate.surface", call.caller.surface.as_str()));
    all.push(text("tollgate.role", &call.caller.role));
    all.extend(call.caller.tenant.as_deref().map(|tenant| text("tollgate.tenant", tenant)));
    all.push(text("tollgate.status", call.status.as_str()));
    all.extend(call.code.map(|code| text("tollgate.code", code.as_str())));
    all.extend(call.tool_code.as_deref().map(|code| text("tollgate.tool_code", code)));
    if let Some((effect, rule)) = &call.decision {
        all.push(text("tollgate.decision", effect));
        all.push(text("tollgate.rule", rule));
    }
    all.extend(call.approval.as_ref().map(|approval| text("tollgate.approval", approval.as_str())));
    if call.retries > 0 {
        all.push(KeyValue::new("tollgate.retries", i64::from(call.retries)));
    }
    if call.is_replayed {
        all.push(KeyValue::new("tollgate.replayed", true));
    }
    all.push(text("tollgate.sandbox", call.sandbox));
}

fn text(name: &'static str, value: &str) -> KeyValue {
    KeyValue::new(name, Value::from(value.to_owned()))
}

fn cut(text: &str, chars: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars) {
        Some((end, _)) => Cow::Owned(format!("{}…", text.get(..end).unwrap_or_default())),
        None => Cow::Borrowed(text),
    }
}
