//! Names, look-alikes, pins and lookups.

use serde_json::json;
use tollgate_types::{Surface, SurfaceLimits, limits};

use super::*;
use crate::pin;

fn tool(name: &str) -> ToolDefinition {
    ToolDefinition::new(name, "A tool.")
}

fn error(result: Result<Arc<Entry>, RegisterError>) -> RegisterError {
    result.expect_err("a refusal")
}

#[test]
fn what_is_registered_is_found() {
    let catalog = Catalog::base([tool("b"), tool("a")]).unwrap();
    let entry = catalog.register(tool("c")).unwrap();
    assert_eq!(entry.pin, pin(&entry.definition));
    assert!(catalog.has("a") && !catalog.has("A"));
    let names: Vec<String> = catalog.all().iter().map(|entry| entry.definition.name.clone()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    let resolved = catalog.resolve_names(["c", "x", "a"]);
    assert_eq!(resolved.found.len(), 2);
    assert_eq!(resolved.missing, ["x"]);
    assert_eq!(catalog.to_definitions(Dialect::Mcp).len(), 3);
    assert!(catalog.remove("b") && !catalog.remove("b") && !catalog.remove("C"));
    assert!(catalog.get("b").is_none());
    catalog.register(tool("B")).expect("free again");
}

#[test]
fn names_that_are_none() {
    let long = "x".repeat(limits::TOOL_NAME_CHARS_MAX + 1);
    for name in ["", "a.b", "a b", "re\u{430}d_file", "read_file\u{200b}", "a/b", &long] {
        let error = error(Catalog::new().register(tool(name)));
        assert_eq!(error.code(), "invalid_name", "{name}");
        assert!(error.to_string().is_ascii(), "{error}");
    }
    Catalog::new().register(tool(&"x".repeat(limits::TOOL_NAME_CHARS_MAX))).unwrap();
}

#[test]
fn neighbours() {
    let catalog = Catalog::base([tool("read_file")]).unwrap();
    assert_eq!(error(catalog.register(tool("read_file"))), RegisterError::Duplicate { name: "read_file".into() });
    for name in ["Read_File", "read-file", "readFile"] {
        let expected = RegisterError::LookAlike { name: name.into(), existing: "read_file".into() };
        assert_eq!(error(catalog.register(tool(name))), expected);
    }
}

#[test]
fn all_or_nothing() {
    let catalog = Catalog::base([tool("a")]).unwrap();
    assert!(catalog.register_all([tool("b"), tool("A")]).is_err());
    assert!(catalog.register_all([tool("b"), tool("b")]).is_err());
    assert!(!catalog.has("b"));
    catalog.register_all([tool("b"), tool("c")]).unwrap();
    assert!(Catalog::base([tool("a"), tool("a")]).is_err());
}

#[test]
fn the_root_is_an_object() {
    let with = |schema: Value| {
        let mut tool = tool("t");
        tool.input_schema = schema;
        Catalog::new().register(tool)
    };
    for schema in [
        json!({"properties": {"a": {}}}),
        json!({"type": ["object"]}),
        json!({"$ref": "#/$defs/A", "$defs": {"A": {}}}),
    ] {
        let entry = with(schema).unwrap();
        assert_eq!(entry.definition.input_schema["type"], "object");
        assert_eq!(entry.input.validate(&json!([1]))[0].path, "");
    }
    for schema in [json!(true), json!(null), json!([]), json!({"type": "string"}), json!({"type": ["object", "null"]})]
    {
        assert_eq!(error(with(schema)).code(), "bad_schema");
    }
    let nested = error(with(json!({"type": "object", "properties": {"a": {"type": "text"}}})));
    assert!(
        matches!(&nested, RegisterError::BadSchema { pointer, schema: "input", .. } if pointer == "/properties/a/type"),
        "{nested}"
    );
}

#[test]
fn numbers_out_of_range() {
    let with = |change: fn(&mut ToolDefinition)| {
        let mut tool = tool("t");
        change(&mut tool);
        error(Catalog::new().register(tool)).to_string()
    };
    assert_eq!(
        with(|tool| tool.execution.timeout_ms = 0),
        "`t` has `execution.timeout_ms = 0`, which must be between 1 and 86400000"
    );
    assert!(with(|tool| tool.execution.timeout_ms = limits::TOOL_TIMEOUT_MS_MAX + 1).contains("timeout_ms"));
    assert!(with(|tool| tool.execution.max_concurrent = 0).contains("max_concurrent"));
    assert!(with(|tool| tool.execution.resources = vec!["path".to_owned()]).contains("no JSON Pointer"));
    assert!(with(|tool| tool.output.max_length = 0).contains("max_length"));
    assert!(with(|tool| tool.output.max_tokens = Some(0)).contains("output.max_tokens"));
    assert!(
        with(|tool| {
            let nothing = SurfaceLimits { max_bytes: Some(0), ..SurfaceLimits::default() };
            tool.output.surfaces.insert(Surface::Cli, nothing);
        })
        .contains("max_bytes")
    );
    assert!(with(|tool| tool.description = "x".repeat(2_000_000)).contains("too large"));
}

#[test]
fn a_free_text_is_the_only_input() {
    let with = |schema: Value, input: Value| {
        let mut tool = tool("t");
        tool.input_schema = schema;
        tool.text_input = Some(serde_json::from_value(input).unwrap());
        Catalog::new().register(tool)
    };
    let code = || json!({"properties": {"code": {"type": "string"}}, "required": ["code"]});
    let regex =
        |definition: &str| json!({"property": "code", "grammar": {"syntax": "regex", "definition": definition}});
    let lark = json!({"property": "code", "grammar": {"syntax": "lark", "definition": "start: /a+/"}});
    for input in [json!({"property": "code"}), regex("^SELECT .+$"), lark] {
        with(code(), input).unwrap();
    }
    let two = json!({"properties": {"code": {"type": "string"}, "n": {}}, "required": ["code"]});
    let optional = json!({"properties": {"code": {"type": "string"}}});
    let number = json!({"properties": {"code": {"type": "number"}}, "required": ["code"]});
    for (schema, input, said) in [
        (code(), json!({"property": "text"}), "`text` as its only property"),
        (two, json!({"property": "code"}), "`code` as its only property"),
        (optional, json!({"property": "code"}), "`required = [\"code\"]`"),
        (number, json!({"property": "code"}), "the type `string`"),
        (code(), regex(" "), "`grammar.definition` is empty"),
        (code(), regex("(a"), "is no regular expression"),
        (code(), regex("(?=a)b"), "is no regular expression"),
        (code(), regex(&"a".repeat(limits::GRAMMAR_CHARS_MAX + 1)), "more than 65536 characters"),
    ] {
        let error = error(with(schema, input));
        assert_eq!(error.code(), "bad_text_input");
        assert!(error.to_string().contains(said), "{error}");
    }
}

#[test]
fn a_pin_is_the_definition_and_nothing_else() {
    let (mut one, mut two) = (tool("t"), tool("t"));
    one.input_schema = json!({"type": "object", "properties": {"a": {}, "b": {}}});
    two.input_schema = json!({"properties": {"b": {}, "a": {}}, "type": "object"});
    assert_eq!(pin(&one), pin(&two), "the order of keys is no part of it");
    two.description.push('!');
    assert_ne!(pin(&one), pin(&two));
    assert_eq!(pin(&one).as_str().len(), 64);
}
