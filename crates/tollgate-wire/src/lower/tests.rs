//! What goes out for odd names and schemas, and that names come back.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn lowered(schema: Value) -> (String, Value) {
    let tool = ToolDefinition { input_schema: schema, ..ToolDefinition::new("t", "Does it.") };
    let lowered = lower(&[Arc::new(tool)]).unwrap();
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
            r##"Does it. The arguments must also satisfy `oneOf`: [{"$ref":"#/$defs/A"},{"properties":{"b":{"type":"array"}}}]"##,
        ),
        (
            json!({"$ref": "#/$defs/A", "$defs": {"A": {"type": "object", "properties": {"n": {"$ref": "#/$defs/A"}}}}}),
            json!({"type": "object", "properties": {"n": {"$ref": "#/$defs/A"}},
                   "$defs": {"A": {"type": "object", "properties": {"n": {"$ref": "#/$defs/A"}}}}}),
            "Does it.",
        ),
        (json!({"$ref": "#"}), json!({"type": "object", "properties": {}}), "Does it."),
    ];
    for (schema, parameters, description) in cases {
        assert_eq!(lowered(schema.clone()), (description.to_owned(), parameters), "{schema}");
    }
}

#[test]
fn a_property_called_like_a_keyword_is_left_alone() {
    let schema = json!({"type": "object", "properties": {"items": {"type": "array", "items": {"type": "string"}},
        "anyOf": {"type": "string"}, "kind": {"const": {"type": "array"}}}});
    assert_eq!(lowered(schema.clone()).1, schema);
}

#[test]
fn names_that_become_equal_stay_apart() {
    let long = "x".repeat(100);
    let tools = ["a.b", "a_b", "a/b", "天气", "天汽", "", long.as_str()];
    let names = Names::of(tools);
    let wires: Vec<_> = tools.iter().map(|tool| names.on_wire(tool).into_owned()).collect();
    for (tool, wire) in tools.iter().zip(&wires) {
        assert!(
            (1..=64).contains(&wire.len()) && wire.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
        );
        assert_eq!(names.resolve(wire), (*tool, None));
        assert_eq!(wires.iter().filter(|other| *other == wire).count(), 1, "{wire}");
    }
    assert_eq!(names.on_wire("a_b"), "a_b");
    let taken = names.on_wire("a.b").into_owned();
    let names = Names::of(["a.b", taken.as_str()]);
    assert_eq!(names.resolve(&taken), (taken.as_str(), None));
    assert_eq!(names.resolve(&names.on_wire("a.b")), ("a.b", None));
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
    fn every_name_comes_back(tools in prop::collection::btree_set("[a-c._/é]{0,5}|[a-z]{70,80}", 0..12)) {
        let names = Names::of(tools.iter().map(String::as_str));
        for tool in &tools {
            let wire = names.on_wire(tool).into_owned();
            prop_assert_eq!(names.resolve(&wire), (tool.as_str(), None));
        }
    }
}
