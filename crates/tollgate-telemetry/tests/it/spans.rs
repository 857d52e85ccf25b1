//! What spans say of a call.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use tollgate_telemetry::{Sampler, Settings, Telemetry};
use tollgate_types::{
    AttemptId, CallId, CallKind, Caller, Code, Observed, Observer, SourceKind, Stage, Staged, Status, Surface,
    ToolDefinition, TraceContext, uuid_v7,
};

use crate::collector::{Collector, Taken, map};

/// A call of a tool that ended well, at its place in the trace that its asker said.
pub(crate) fn call(telemetry: &Telemetry, asked: Option<&TraceContext>) -> Observed {
    let attempt = AttemptId::new(uuid_v7("2026-11-30T12:00:00Z".parse().unwrap()));
    let mut tool = ToolDefinition::new("look_up", "Looks something up.");
    tool.source.kind = SourceKind::Mcp;
    tool.source.server = Some("papers".into());
    let stage = |stage: Stage, from: u64, took: u64| Staged {
        stage,
        began: Duration::from_millis(from),
        took: Duration::from_millis(took),
    };
    Observed {
        trace: telemetry.place(&attempt, asked),
        above: asked.map(|asked| asked.span),
        attempt,
        call_id: CallId::new("7"),
        parent: None,
        caller: Arc::new(Caller::new("bob", "reader", Surface::McpHttp).with_session("s-1")),
        kind: CallKind::Tool,
        protocol: Some("2026-07-28"),
        tool: tool.name.clone(),
        definition: Some(Arc::new(tool)),
        began: "2026-11-30T12:00:00.5Z".parse().unwrap(),
        took: Duration::from_millis(30),
        stages: vec![stage(Stage::Open, 0, 5), stage(Stage::Run, 5, 20), stage(Stage::Close, 25, 5)],
        status: Status::Done,
        code: None,
        tool_code: None,
        decision: Some(("allow", "role:reader".into())),
        approval: None,
        retries: 0,
        is_replayed: false,
        sandbox: "none",
        arguments: None,
        result: None,
    }
}

fn asked(flags: &str) -> TraceContext {
    let parent = format!("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0b5902b7-{flags}");
    TraceContext::read([parent.as_str()], ["vendor=1"]).unwrap()
}

/// What a collector gets of these calls.
async fn sent(settings: impl FnOnce(&mut Settings), calls: impl FnOnce(&Telemetry) -> Vec<Observed>) -> Taken {
    let mut collector = Collector::start([]).await;
    let mut all = Settings::below(&collector.base());
    settings(&mut all);
    let telemetry = Telemetry::start(&all).unwrap();
    for call in calls(&telemetry) {
        telemetry.seen(&Arc::new(call));
    }
    telemetry.stop().await;
    collector.taken.recv().await.unwrap()
}

fn named<'a>(taken: &'a Taken, name: &str) -> &'a Span {
    taken.spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("{name} is not in {:?}", taken.spans))
}

#[tokio::test]
async fn a_call_is_a_span_of_the_conventions_with_its_stages_below() {
    let mut attempt = None;
    let taken = sent(
        |settings| settings.service_name = Some("house".into()),
        |telemetry| {
            let call = call(telemetry, None);
            attempt = Some(call.attempt.as_str().to_owned());
            vec![call]
        },
    )
    .await;
    let attempt = attempt.unwrap();
    assert_eq!(taken.headers["content-type"], "application/x-protobuf");
    assert_eq!(taken.resource["service.name"], "house");
    assert_eq!(taken.spans.len(), 4);
    let root = named(&taken, "execute_tool look_up");
    assert_eq!((root.kind, root.parent_span_id.len()), (SpanKind::Internal as i32, 0));
    assert_eq!(root.status.as_ref().map_or(0, |status| status.code), StatusCode::Unset as i32);
    let trace: String = root.trace_id.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(trace, attempt.replace('-', ""), "a trace that begins here is named after its attempt");
    assert_eq!((root.end_time_unix_nano - root.start_time_unix_nano) / 1_000_000, 30);
    let attributes = map(&root.attributes);
    for (name, value) in [
        ("gen_ai.operation.name", "execute_tool"),
        ("gen_ai.tool.name", "look_up"),
        ("gen_ai.tool.type", "extension"),
        ("gen_ai.tool.description", "Looks something up."),
        ("gen_ai.tool.call.id", "7"),
        ("gen_ai.conversation.id", "s-1"),
        ("mcp.method.name", "tools/call"),
        ("mcp.session.id", "s-1"),
        ("mcp.protocol.version", "2026-07-28"),
        ("jsonrpc.request.id", "7"),
        ("network.transport", "tcp"),
        ("tollgate.attempt", &attempt),
        ("tollgate.status", "done"),
        ("tollgate.decision", "allow"),
        ("tollgate.rule", "role:reader"),
        ("tollgate.role", "reader"),
        ("tollgate.tool.server", "papers"),
    ] {
        assert_eq!(attributes.get(name).map(String::as_str), Some(value), "{name} of {attributes:?}");
    }
    assert!(!attributes.keys().any(|name| name.ends_with("arguments") || name.ends_with("result")));
    assert!(!attributes.values().any(|value| value == "bob"), "who asked is in the ledger");
    for (name, kind, ms) in
        [("open", SpanKind::Internal, 5), ("run", SpanKind::Client, 20), ("close", SpanKind::Internal, 5)]
    {
        let stage = named(&taken, name);
        assert_eq!((stage.kind, &stage.parent_span_id), (kind as i32, &root.span_id), "{name}");
        assert_eq!((stage.end_time_unix_nano - stage.start_time_unix_nano) / 1_000_000, ms, "{name}");
        assert_eq!(map(&stage.attributes)["tollgate.attempt"], attempt);
    }
}

#[tokio::test]
async fn a_call_stands_below_its_asker_in_the_asker_s_trace() {
    let taken = sent(|_| (), |telemetry| vec![call(telemetry, Some(&asked("01")))]).await;
    let root = named(&taken, "execute_tool look_up");
    assert_eq!(root.trace_id, 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736_u128.to_be_bytes());
    assert_eq!(root.parent_span_id, 0x00f0_67aa_0b59_02b7_u64.to_be_bytes());
    assert_eq!(root.trace_state, "vendor=1");
    // OTLP, Span flags: it is known, and the parent is elsewhere.
    assert_eq!(root.flags & 0x300, 0x300);
}

#[tokio::test]
async fn an_end_that_is_an_error_says_which_and_where() {
    let end = |mut call: Observed, status: Status, code: Code| {
        (call.status, call.code) = (status, Some(code));
        call
    };
    for (status, code, is_error) in [
        (Status::Failed, Code::Timeout, true),
        (Status::Refused, Code::Denied, true),
        (Status::Unknown, Code::OutcomeUnknown, true),
        (Status::Waiting, Code::ApprovalRequired, false),
    ] {
        let taken = sent(|_| (), |telemetry| vec![end(call(telemetry, None), status, code)]).await;
        for name in ["execute_tool look_up", "run"] {
            let span = named(&taken, name);
            let said = span.status.as_ref().map_or(0, |status| status.code);
            assert_eq!(said == StatusCode::Error as i32, is_error, "{name} {code:?}");
            let error = map(&span.attributes).remove("error.type");
            assert_eq!(error, is_error.then(|| code.as_str().to_owned()), "{name}");
        }
        assert!(!map(&named(&taken, "open").attributes).contains_key("error.type"));
    }
}

#[tokio::test]
async fn names_that_nobody_has_make_no_names_of_spans() {
    let odd = "n".repeat(1_000);
    let taken = sent(
        |_| (),
        |telemetry| {
            let mut call = call(telemetry, None);
            (call.definition, call.tool) = (None, odd.clone());
            (call.status, call.code) = (Status::Refused, Some(Code::UnknownTool));
            vec![call]
        },
    )
    .await;
    let attributes = map(&named(&taken, "execute_tool").attributes);
    assert_eq!(attributes["gen_ai.tool.name"], format!("{}…", "n".repeat(256)));
}

#[tokio::test]
async fn content_is_there_when_the_gate_gives_it_and_it_is_asked_for() {
    let taken = sent(
        |settings| settings.has_content = true,
        |telemetry| {
            assert!(telemetry.wants_content());
            let mut call = call(telemetry, None);
            call.arguments = Some(r#"{"q":"北京"}"#.into());
            call.result = Some("[]".into());
            vec![call]
        },
    )
    .await;
    let attributes = map(&named(&taken, "execute_tool look_up").attributes);
    assert_eq!(attributes["gen_ai.tool.call.arguments"], r#"{"q":"北京"}"#);
    assert_eq!(attributes["gen_ai.tool.call.result"], "[]");
}

#[tokio::test]
async fn what_is_not_sampled_is_not_sent_but_has_its_place() {
    let taken = sent(
        |settings| settings.sampler = Sampler { ratio: 0.0, follows_asker: true },
        |telemetry| {
            let own = call(telemetry, None);
            assert!(!own.trace.as_ref().unwrap().is_sampled);
            let others = [asked("00"), asked("01")].map(|asked| call(telemetry, Some(&asked)));
            std::iter::once(own).chain(others).collect()
        },
    )
    .await;
    assert_eq!(taken.spans.len(), 4, "only the one whose asker keeps it");
}
