//! What goes out for odd names and schemas, and that names come back.

use proptest::prelude::*;
use serde_json::{Value, json};
use tollgate_types::{Grammar, GrammarSyntax, TextInput};

use super::*;

fn lowered(schema: Value) -> (String, Value) {
    let tool = ToolDefinition { input_schema: schema, ..ToolDefinition::new("t", "Does it.") };
    let lowered = lower(&[Arc::new(tool)], &Target::default()).unwrap();
    let tools: Value = serde_json::from_str(lowered.tools().get()).unwrap();
    let function = &tools[0]["function"];
    (function["description"].as_str().unwrap().to_owned(), function["parameters"].clone())
}

#[test]
fn a_root_is_an_object_with_properties_and_nothing_composed() {
    let ab = json!({"a": {"type": "string"}, "b": {"type": "string"}});
    let cases = [
        (json!({"type": "object"}), json!({"type": "object", "properties": {}}), "Does it."),
        (json!(true), json!({"type": "object", "properties": {}}), "Does it."),
        (
            json!({"type": "object", "properties": ab, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
            json!({"type": "object", "properties": ab}),
            "Does it. Give at least one of: `a`, `b`.",
        ),
        (
            json!({"$schema": "x", "oneOf": [{"$ref": "#/$defs/A"}, {"properties": {"b": {"type": "array"}}}],
                   "$defs": {"A": {"properties": {"a": {"type": "integer"}}}}}),
            json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "array", "items": {}}},
                   "$defs": {"A": {"properties": {"a": {"type": "integer"}}}}}),
            r##"Does it. Must also satisfy `oneOf`: [{"$ref":"#/$defs/A"},{"properties":{"b":{"type":"array"}}}]."##,
        ),
        (
            json!({"$ref": "#/$defs/A", "$defs": {"A": {"type": "object", "properties": {"n": {"$ref": "#/$defs/A"}}}}}),
            json!({"type": "object", "properties": {"n": {"$ref": "#/$defs/A"}},
                   "$defs": {"A": {"type": "object", "properties": {"n": {"$ref": "#/$defs/A"}}}}}),
            "Does it.",
        ),
        (
            json!({"allOf": [{"$ref": "#/$defs/A"}, {"required": ["a"]}], "$defs": {"A": {"properties": ab}}}),
            json!({"type": "object", "properties": ab, "required": ["a"], "$defs": {"A": {"properties": ab}}}),
            "Does it.",
        ),
        (
            json!({"properties": ab, "if": {"required": ["a"]}, "then": {"required": ["b"]}}),
            json!({"type": "object", "properties": ab}),
            r#"Does it. Must also satisfy {"if":{"required":["a"]},"then":{"required":["b"]}}."#,
        ),
        (json!({"$ref": "#"}), json!({"type": "object", "properties": {}}), "Does it."),
    ];
    for (schema, parameters, description) in cases {
        assert_eq!(lowered(schema.clone()), (description.to_owned(), parameters), "{schema}");
    }
}

#[test]
fn a_reference_into_what_is_not_told_leaves_one_tool_out() {
    let lost = json!({"anyOf": [{"properties": {"a": {"type": "string"}}}],
        "properties": {"b": {"$ref": "#/anyOf/0/properties/a"}}});
    let bad = ToolDefinition { input_schema: lost, ..ToolDefinition::new("bad", "Does it.") };
    let (printed, lowered) = all(Target::default(), &[bad, ToolDefinition::new("good", "Does it.")]);
    assert_eq!(printed.as_array().unwrap().len(), 1);
    let note = "`bad` is not offered: `$ref` leads to what cannot be told: #/anyOf/0/properties/a";
    assert_eq!(lowered.notes()[0].to_string(), note);
}

#[test]
fn a_property_called_like_a_keyword_is_left_alone() {
    let schema = json!({"type": "object", "properties": {"items": {"type": "array", "items": {"type": "string"}},
        "anyOf": {"type": "string"}, "kind": {"const": {"type": "array"}}}});
    assert_eq!(lowered(schema.clone()).1, schema);
}

fn is_fit(dialect: Dialect, wire: &str) -> bool {
    let (max, others) = match dialect {
        Dialect::Chat | Dialect::Anthropic => (64, "_-"),
        Dialect::Responses => (128, "_-"),
        Dialect::Gemini => (128, "_-.:"),
    };
    (1..=max).contains(&wire.len())
        && wire.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c))
        && (dialect != Dialect::Gemini || wire.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
}

#[test]
fn names_that_become_equal_stay_apart() {
    let (long, longer) = ("x".repeat(100), "x".repeat(200));
    let tools = ["a.b", "a_b", "a/b", "天气", "天汽", "", "7 wonders", "-", long.as_str(), longer.as_str()];
    for dialect in Dialect::ALL {
        let names = Names::in_dialect(dialect, tools);
        let reversed = Names::in_dialect(dialect, tools.into_iter().rev());
        let wires: Vec<_> = tools.iter().map(|tool| names.on_wire(tool).into_owned()).collect();
        for (tool, wire) in tools.iter().zip(&wires) {
            assert!(is_fit(dialect, wire), "{dialect} {wire}");
            assert_eq!(names.resolve(wire), (*tool, None));
            assert_eq!(wires.iter().filter(|other| *other == wire).count(), 1, "{dialect} {wire}");
            assert_eq!(reversed.on_wire(tool), *wire);
            assert_eq!(Names::in_dialect(dialect, [*tool]).on_wire(tool), *wire, "alone as among others");
            assert_eq!(Names::in_dialect(dialect, []).on_wire(tool), *wire, "in a history as among tools");
        }
        assert_eq!(names.on_wire("a_b"), "a_b");
        assert!(names.on_wire("天气").starts_with("tool_"));
    }
    let names = Names::of(tools);
    let taken = names.on_wire("a.b").into_owned();
    let names = Names::of(["a.b", taken.as_str()]);
    assert_eq!(names.resolve(&taken), (taken.as_str(), None));
    assert_eq!(names.resolve(&names.on_wire("a.b")), ("a.b", None));
}

fn all(target: Target, tools: &[ToolDefinition]) -> (Value, Lowered) {
    let tools: Vec<_> = tools.iter().cloned().map(Arc::new).collect();
    let lowered = lower(&tools, &target).unwrap();
    (serde_json::from_str(lowered.tools().get()).unwrap(), lowered)
}

#[test]
fn a_tool_in_each_dialect() {
    let mut tool = ToolDefinition::new("maps.search", "Finds a place.");
    let schema = json!({"type": "object", "properties": {"q": {"type": "string"}}});
    tool.input_schema = schema.clone();
    let said = "Finds a place.";
    let name = Names::of(["maps.search"]).on_wire("maps.search").into_owned();
    let cases = [
        (
            Dialect::Chat,
            json!({"type": "function", "function": {"name": name, "description": said, "parameters": schema}}),
        ),
        (
            Dialect::Responses,
            json!({"type": "function", "name": name, "description": said, "parameters": schema, "strict": false}),
        ),
        (Dialect::Anthropic, json!({"name": name, "description": said, "input_schema": schema})),
        (
            Dialect::Gemini,
            json!({"functionDeclarations": [{"name": "maps.search", "description": said, "parametersJsonSchema": schema}]}),
        ),
    ];
    for (dialect, expected) in cases {
        let (tools, lowered) = all(Target::of(dialect), &[tool.clone()]);
        assert_eq!((tools, lowered.notes()), (json!([expected]), &[][..]), "{dialect}");
        assert_eq!(all(Target::of(dialect), &[]).0, json!([]), "{dialect}");
    }
}

#[test]
fn what_an_older_draft_wrote_goes_out_as_the_newest_has_it() {
    let mut tool = ToolDefinition::new("count", "Counts.");
    let limited = json!({"type": "integer", "minimum": 0, "exclusiveMinimum": true});
    tool.input_schema = json!({"$schema": "http://json-schema.org/draft-04/schema#", "type": "object",
        "properties": {"n": limited}, "required": ["n"], "additionalProperties": false});
    for dialect in [Dialect::Chat, Dialect::Responses] {
        let (tools, _) = all(Target::of(dialect).strictly(), &[tool.clone()]);
        let own = tools[0].get("function").unwrap_or(&tools[0]);
        let property = &own["parameters"]["properties"]["n"];
        assert_eq!((&own["strict"], &property["exclusiveMinimum"]), (&json!(true), &json!(0)), "{own}");
        assert!(property.get("minimum").is_none(), "{own}");
    }
}

#[test]
fn free_text_goes_out_as_it_is_where_the_wire_has_it() {
    let mut tool = ToolDefinition::new("run.code", "Runs it.");
    tool.input_schema = json!({"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]});
    let grammar = Grammar { syntax: GrammarSyntax::Lark, definition: "start: /a+/".to_owned() };
    tool.text_input = Some(TextInput { property: "code".to_owned(), grammar: Some(grammar) });
    let name = Names::of(["run.code"]).on_wire("run.code").into_owned();

    let (tools, lowered) = all(Target::of(Dialect::Chat), &[tool.clone()]);
    let grammar = json!({"syntax": "lark", "definition": "start: /a+/"});
    let custom = json!({"name": name, "description": "Runs it.", "format": {"type": "grammar", "grammar": grammar}});
    assert_eq!(tools, json!([{"type": "custom", "custom": custom}]));
    assert_eq!(lowered.names().text_property(&name), Some("code"));
    assert_eq!(lowered.names().text_property("run.code"), Some("code"));
    assert_eq!(lowered.names().text_property("other"), None);

    let format = json!({"type": "grammar", "syntax": "lark", "definition": "start: /a+/"});
    let (tools, _) = all(Target::of(Dialect::Responses), &[tool.clone()]);
    assert_eq!(tools, json!([{"type": "custom", "name": name, "description": "Runs it.", "format": format}]));

    let without = Target { custom: false, ..Target::default() };
    for target in [Target::of(Dialect::Anthropic), Target::of(Dialect::Gemini), without] {
        let (tools, lowered) = all(target, &[tool.clone()]);
        assert_eq!(lowered.names().text_property("run.code"), None);
        let told = tools.to_string();
        assert!(told.contains("The text must follow this grammar (lark): start: /a+/") && told.contains("properties"));
    }
}

#[test]
fn what_exceeds_is_left_out_and_said() {
    let tools: Vec<_> = (0..131).map(|n| ToolDefinition::new(format!("t{n}"), "Does it.")).collect();
    let (printed, lowered) = all(Target::default(), &tools);
    assert_eq!(printed.as_array().unwrap().len(), 128);
    assert!(!lowered.names().is_offered("t128"));
    let notes: Vec<_> = lowered.notes().iter().map(ToString::to_string).collect();
    assert_eq!(notes[0], "`t128` is not offered: the server takes at most 128 tools");
    assert_eq!(notes.len(), 3);
    let twice = [ToolDefinition::new("t", "One."), ToolDefinition::new("t", "Two.")];
    let (printed, lowered) = all(Target::default(), &twice);
    assert_eq!((printed.as_array().unwrap().len(), lowered.notes()[0].change), (1, Change::LeftOut));
}

#[test]
fn a_name_of_a_property_that_fails_whole_requests_leaves_one_tool_out() {
    for (key, is_taken) in [("city", true), ("a.b-c_d", true), ("城市", false), ("filter[id]", false), ("$top", false)]
    {
        let mut tool = ToolDefinition::new("t", "Does it.");
        tool.input_schema = json!({"type": "object", "properties": {key: {"type": "string"}}});
        let (_, lowered) = all(Target::of(Dialect::Anthropic), &[tool.clone()]);
        assert_eq!(!lowered.is_empty(), is_taken, "{key}");
        let notes: Vec<_> = lowered.notes().iter().map(|note| note.pointer.clone()).collect();
        assert_eq!(notes, if is_taken { vec![] } else { vec![format!("/{key}")] });
        assert!(!all(Target::default(), &[tool]).1.is_empty(), "others take it");
    }
}

#[test]
fn equal_tools_are_lowered_once() {
    let lowerings = Lowerings::default();
    let tools = [Arc::new(ToolDefinition::new("t", "Does it."))];
    let text = |target: &Target, tools: &[_]| lowerings.lower(tools, target).unwrap().tools().get().as_ptr();
    let first = text(&Target::default(), &tools);
    assert_eq!(text(&Target::default(), &tools), first);
    let gemini = Target::of(Dialect::Gemini);
    assert_ne!(text(&gemini, &tools), first);
    assert_eq!(text(&gemini, &tools), text(&gemini, &tools));
    assert_eq!(text(&Target::default(), &tools), first);
    assert_ne!(
        text(&Target::default(), &[Arc::new(ToolDefinition::new("t", "Does it."))]),
        first,
        "another definition"
    );
}

#[test]
fn prefixes_go_only_before_an_exact_name() {
    let names = Names::of(["lookup", "admin__delete", "functions.raw"]);
    let cases = [
        ("lookup", "lookup", None),
        ("functions.lookup", "lookup", Some("name_prefix_stripped")),
        ("default_api:lookup", "lookup", Some("name_prefix_stripped")),
        ("tools/lookup", "lookup", Some("name_prefix_stripped")),
        ("default.delete", "default.delete", None),
        ("functions.Lookup", "functions.Lookup", None),
        ("other.lookup", "other.lookup", None),
        ("functions.raw", "functions.raw", None),
    ];
    for (asked, tool, diagnostic) in cases {
        assert_eq!(names.resolve(asked), (tool, diagnostic), "{asked}");
    }
}

proptest! {
    #[test]
    fn every_name_comes_back(tools in prop::collection::btree_set("[a-c._/é]{0,5}|[a-z]{70,80}|[天气 .]{1,3}|[-0-9:.]{1,3}", 0..12)) {
        for dialect in Dialect::ALL {
            let names = Names::in_dialect(dialect, tools.iter().map(String::as_str));
            let mut wires = std::collections::HashSet::new();
            for tool in &tools {
                let wire = names.on_wire(tool).into_owned();
                prop_assert!(is_fit(dialect, &wire), "{} {}", dialect, wire);
                prop_assert_eq!(names.resolve(&wire), (tool.as_str(), None));
                prop_assert!(wires.insert(wire));
            }
        }
    }
}
