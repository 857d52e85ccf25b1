//! Canonical to wire to canonical is the identity on what the table says that a dialect carries whole.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use tollgate_types::{Grammar, GrammarSyntax, TextInput, ToolDefinition};
use tollgate_wire::{
    Carry, Content, Dialect, Feature, Finish, Heading, Image, Kept, Message, ModelCall, Part, Piece, Request,
    TEXT_PROPERTY, Target, ToolChoice, Turn, Usage, lower, read_reply, read_request, write_reply,
};

const TOOLS: [&str; 3] = ["lookup", "ping", "write_file"];
/// A tool that takes a text.
const TEXT_TOOL: &str = "run_sql";

fn carries(dialect: Dialect, feature: Feature) -> bool {
    dialect.carries(feature) == Carry::Whole
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("库存还有 37 件，够吗？🙂".to_owned()),
        Just("a \"quoted\" \\ line\nand\u{2028}more".to_owned()),
        // Not blank: some servers refuse text with nothing to read in it.
        "[a-zA-Z0-9][a-zA-Z0-9 ,.äß汉字]{0,23}",
    ]
}

fn image() -> impl Strategy<Value = Image> {
    prop_oneof![
        Just(Image::Data { mime_type: "image/png".to_owned(), base64: "iVBORw0KGgo=".to_owned() }),
        Just(Image::Data { mime_type: "image/jpeg".to_owned(), base64: "/9j/4AA=".to_owned() }),
        Just(Image::Url("https://example.com/a.png?x=1".to_owned())),
    ]
}

/// Text alone, or text and images with no two texts side by side; where the order does not arrive, the text is first.
fn content(has_images: bool, has_order: bool) -> BoxedStrategy<Content> {
    let alone = text().prop_map(Content::from);
    if !has_images {
        return alone.boxed();
    }
    let mixed = (text(), prop::collection::vec(image(), 1..3), prop::option::of(text())).prop_map(
        move |(first, images, last)| -> Content {
            let last = last.filter(|_| has_order);
            let images = images.into_iter().map(Piece::Image);
            [Piece::Text(first)].into_iter().chain(images).chain(last.map(Piece::Text)).collect::<Vec<_>>().into()
        },
    );
    prop_oneof![2 => alone, 1 => mixed].boxed()
}

/// Fields that nobody here knows.
fn meta() -> impl Strategy<Value = Map<String, Value>> {
    let value = prop_oneof![
        text().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        text().prop_map(|text| json!({ "signature": [text, 1.5, true] })),
    ];
    prop::collection::vec(("x_[a-z]{1,4}", value), 1..3).prop_map(|fields| fields.into_iter().collect())
}

fn call(dialect: Dialect) -> impl Strategy<Value = ModelCall> {
    let meta = if carries(dialect, Feature::CallMeta) { prop::option::of(meta()).boxed() } else { Just(None).boxed() };
    let names: Vec<_> = TOOLS.into_iter().chain([TEXT_TOOL]).collect();
    (prop::sample::select(names), text(), any::<i64>(), meta).prop_map(|(name, text, number, meta)| ModelCall {
        name: name.to_owned(),
        arguments: match name {
            TEXT_TOOL => json!({ TEXT_PROPERTY: text }).to_string(),
            _ => json!({ "q": text, "n": number }).to_string(),
        },
        provider_meta: meta.map(Value::Object),
        ..ModelCall::default()
    })
}

/// What a provider of this dialect wants back byte for byte, odd spaces included.
fn raw_part(dialect: Dialect) -> Option<BoxedStrategy<String>> {
    let thought = match dialect {
        Dialect::Chat => return None,
        Dialect::Responses => |text: String| {
            format!(r#"{{"type": "reasoning", "id":"rs_1","summary":[],"encrypted_content":{}}}"#, json!(text))
        },
        Dialect::Anthropic => {
            |text: String| format!(r#"{{"type": "thinking", "thinking":{},"signature":"s=="}}"#, json!(text))
        }
        Dialect::Gemini => {
            |text: String| format!(r#"{{"thought": true, "text":{},"thoughtSignature":"s=="}}"#, json!(text))
        }
    };
    Some(text().prop_map(thought).boxed())
}

/// What a turn says, as its provider writes it.
fn text_part(dialect: Dialect, text: &str) -> Part {
    match dialect {
        // There a message has an id.
        Dialect::Responses => Part::Raw(format!(
            r#"{{"type":"message","id":"msg_1","role": "assistant","status":"completed","content":[{{"type":"output_text","text":{},"annotations":[]}}]}}"#,
            json!(text)
        )),
        Dialect::Chat | Dialect::Anthropic | Dialect::Gemini => Part::Text(text.to_owned()),
    }
}

fn turn(dialect: Dialect) -> impl Strategy<Value = Turn> {
    let raw = match raw_part(dialect).filter(|_| carries(dialect, Feature::RawParts)) {
        Some(raw) => prop::option::of(raw).boxed(),
        None => Just(None).boxed(),
    };
    let meta =
        if carries(dialect, Feature::MessageMeta) { prop::option::of(meta()).boxed() } else { Just(None).boxed() };
    (prop::option::of(text()), prop::collection::vec(call(dialect), 0..4), raw, meta)
        .prop_filter("a turn says something", |(text, calls, _, _)| text.is_some() || !calls.is_empty())
        .prop_map(move |(text, calls, raw, meta)| {
            let texts = text.iter().map(|text| text_part(dialect, text));
            // What goes back with a call goes back to its provider alone, so that the turn must say whose it is; Gemini's ids too.
            let is_kept = raw.is_some()
                || match dialect {
                    Dialect::Gemini => !calls.is_empty(),
                    Dialect::Anthropic => calls.iter().any(|call| call.provider_meta.is_some()),
                    Dialect::Chat | Dialect::Responses => false,
                };
            let parts = raw.into_iter().map(Part::Raw).chain(texts).chain((0..calls.len()).map(Part::Call));
            let kept = Kept { dialect, response_id: None, parts: parts.collect() };
            let kept = is_kept.then(|| Box::new(kept));
            let provider_meta = meta.unwrap_or_default();
            Turn { text: text.unwrap_or_default(), calls, kept, provider_meta, ..Turn::default() }
        })
}

/// A sound conversation: each turn with the results of its calls behind it, and somebody between two turns.
fn messages(dialect: Dialect) -> impl Strategy<Value = Vec<Message>> {
    let result =
        (content(carries(dialect, Feature::ResultImages), carries(dialect, Feature::ResultOrder)), any::<bool>());
    let results = prop::collection::vec(result, 4);
    let later =
        if carries(dialect, Feature::LaterSystem) { prop::option::of(text()).boxed() } else { Just(None).boxed() };
    let round = (content(carries(dialect, Feature::UserImages), true), turn(dialect), results, later);
    (prop::option::of(text()), prop::collection::vec(round, 1..4), text()).prop_map(move |(system, rounds, last)| {
        let mut messages: Vec<Message> = system.into_iter().map(Message::System).collect();
        for (at, (user, mut turn, results, later)) in rounds.into_iter().enumerate() {
            messages.push(Message::User(user));
            for (position, call) in turn.calls.iter_mut().enumerate() {
                call.id = format!("call_{at}_{position}");
                call.wire_id.clone_from(&call.id);
            }
            messages.push(Message::assistant(&turn));
            for (call, (content, is_error)) in turn.calls.iter().zip(results) {
                // An error is told in words.
                let is_text = content.pieces().iter().all(|piece| piece.as_text().is_some());
                let is_error = is_error && is_text && carries(dialect, Feature::ResultErrors);
                messages.push(Message::tool(&call.id, content, is_error));
            }
            messages.extend(later.map(Message::System));
        }
        messages.push(Message::user(last));
        messages
    })
}

fn choice(dialect: Dialect) -> impl Strategy<Value = ToolChoice> {
    let named = ToolChoice::Named("ping".to_owned());
    let allowed = |required| ToolChoice::Allowed { required, tools: vec!["ping".to_owned(), "lookup".to_owned()] };
    let mut choices = vec![ToolChoice::Auto, ToolChoice::Required];
    choices.extend(Some(ToolChoice::None).filter(|_| carries(dialect, Feature::ChoiceNone)));
    choices.extend(Some(named).filter(|_| carries(dialect, Feature::ChoiceNamed)));
    if carries(dialect, Feature::ChoiceAllowed) {
        choices.extend([allowed(true), allowed(false)]);
    }
    prop::sample::select(choices)
}

fn definitions() -> Vec<Arc<ToolDefinition>> {
    let mut definitions = TOOLS.map(|name| ToolDefinition::new(name, "Does it. 做事。")).to_vec();
    let grammar = Grammar { syntax: GrammarSyntax::Regex, definition: "SELECT .*".to_owned() };
    definitions.push(ToolDefinition {
        input_schema: json!({ "type": "object", "properties": { TEXT_PROPERTY: { "type": "string" } },
            "required": [TEXT_PROPERTY] }),
        text_input: Some(TextInput { property: TEXT_PROPERTY.to_owned(), grammar: Some(grammar) }),
        ..ToolDefinition::new(TEXT_TOOL, "Runs it.")
    });
    definitions.into_iter().map(Arc::new).collect()
}

fn check_request(
    dialect: Dialect,
    messages: &[Message],
    tool_choice: &ToolChoice,
    parallel: Option<bool>,
    store: Option<bool>,
) -> Result<(), TestCaseError> {
    let definitions = definitions();
    let tools = lower(&definitions, &Target::of(dialect)).unwrap();
    // Where nothing may be called, not every dialect has a place for how.
    let parallel = parallel.filter(|_| carries(dialect, Feature::Parallel) && *tool_choice != ToolChoice::None);
    // A server that keeps nothing is sent less: see `responses::tests`.
    let store = store.filter(|store| *store && carries(dialect, Feature::Store));
    let max_tokens = Some(4096);
    let request = Request { tool_choice, parallel, store, max_tokens, ..Request::new("m", messages, &tools) };
    let body = request.to_body(dialect).unwrap();
    let received = read_request(dialect, &body).unwrap();
    prop_assert_eq!(&received.messages, messages, "{}", String::from_utf8_lossy(&body));
    prop_assert_eq!(&received.tool_choice, tool_choice);
    prop_assert_eq!((received.parallel, received.store, received.max_tokens), (parallel, store, max_tokens));
    let names: Vec<&str> = received.tools.iter().map(|tool| tool.name.as_str()).collect();
    prop_assert_eq!(&names[..3], TOOLS);
    prop_assert_eq!(&names[3..], [TEXT_TOOL]);
    for (read, definition) in received.tools.iter().zip(&definitions) {
        let description = read.description.as_deref().unwrap_or_default();
        prop_assert!(description.starts_with(&definition.description));
        let is_text = carries(dialect, Feature::CustomTools) && definition.text_input.is_some();
        prop_assert_eq!(read.custom.is_some(), is_text);
        prop_assert_eq!(read.input_schema.get("type"), Some(&json!("object")));
    }
    Ok(())
}

fn check_reply(dialect: Dialect, mut turn: Turn) -> Result<(), TestCaseError> {
    for (at, call) in turn.calls.iter_mut().enumerate() {
        call.id = format!("call_{at}");
        call.wire_id.clone_from(&call.id);
    }
    turn.finish = if turn.calls.is_empty() { Finish::Stop } else { Finish::ToolCalls };
    let count = |feature, count| if carries(dialect, feature) { count } else { 0 };
    turn.usage = Some(Usage {
        input_tokens: 12,
        output_tokens: 7,
        cached_input_tokens: count(Feature::CachedTokens, 8),
        reasoning_tokens: count(Feature::ReasoningTokens, 3),
    });
    let tools = lower(&definitions(), &Target::of(dialect)).unwrap();
    let heading = Heading { id: "id_1", model: "m", created: 1_767_323_045, names: tools.names() };
    let written = write_reply(dialect, &turn, &heading).unwrap();
    let mut read = read_reply(dialect, &written, tools.names()).unwrap();
    // Where a server keeps its replies, what was read knows the reply's id and its parts.
    if let Some(kept) = &mut read.kept {
        kept.response_id = None;
    }
    if turn.kept.is_none() {
        read.kept = None;
    }
    prop_assert_eq!(read, turn, "{}", String::from_utf8_lossy(&written));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn requests_come_back(
        (dialect, messages, choice) in prop::sample::select(&Dialect::ALL[..])
            .prop_flat_map(|dialect| (Just(dialect), messages(dialect), choice(dialect))),
        parallel in any::<Option<bool>>(),
        store in any::<Option<bool>>(),
    ) {
        check_request(dialect, &messages, &choice, parallel, store)?;
    }

    #[test]
    fn replies_come_back(
        (dialect, turn) in prop::sample::select(&Dialect::ALL[..]).prop_flat_map(|dialect| (Just(dialect), turn(dialect))),
    ) {
        check_reply(dialect, turn)?;
    }
}
