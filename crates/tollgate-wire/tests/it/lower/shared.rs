//! The shared cases of schemas and names that have gone wrong elsewhere.

use serde_json::{Value, json};
use tollgate_catalog::schema::Schema;
use tollgate_wire::{Change, Dialect, GeminiSchema, Names, Target};

use super::{lowered, sent, tool};
use crate::cases;

fn case(id: &str) -> Value {
    cases(include_str!("../../cases/lower.jsonl")).into_iter().find(|case| case["id"] == id).unwrap()
}

/// What goes out for the schema of a case.
fn out(case: &Value, target: Target) -> Option<Value> {
    sent(&lowered(&tool(case["input"]["input_schema"].clone()), target).0).map(|(schema, _)| schema)
}

fn openapi() -> Target {
    Target { gemini: GeminiSchema::OpenApi, ..Target::of(Dialect::Gemini) }
}

#[test]
fn tc_069_names_that_become_equal() {
    let names = case("TC-069")["input"]["names_same_server"].clone();
    let names: Vec<&str> = names.as_array().unwrap().iter().filter_map(Value::as_str).collect();
    for dialect in Dialect::ALL {
        let table = Names::in_dialect(dialect, names.iter().copied());
        let wires: Vec<String> = names.iter().map(|name| table.on_wire(name).into_owned()).collect();
        assert_ne!(wires[0], wires[1]);
        assert_eq!([table.resolve(&wires[0]).0, table.resolve(&wires[1]).0], names[..]);
    }
}

#[test]
fn tc_100_no_properties() {
    let case = case("TC-100");
    assert_eq!(out(&case, Target::default()), Some(case["expected"]["openai"].clone()));
    for target in [Target::of(Dialect::Gemini), openapi()] {
        assert_eq!(out(&case, target), None, "parameters are omitted");
    }
}

#[test]
fn tc_103_a_schema_that_contains_itself() {
    let case = case("TC-103");
    let schema = &case["input"]["input_schema"];
    for target in [Target::default(), Target::default().strictly(), Target::of(Dialect::Gemini)] {
        let out = out(&case, target).unwrap();
        assert!(out.to_string().contains("$ref"), "{out}");
    }
    let (_, anthropic) = lowered(&tool(schema.clone()), Target::of(Dialect::Anthropic).strictly());
    let note = &anthropic.notes()[0];
    assert_eq!((note.change, note.why.as_str()), (Change::NotStrict, "the schema contains itself"));
    // Gemini refuses an object without properties: where the tree is cut, the object is asked for as text.
    let out = out(&case, openapi()).unwrap();
    assert!(!out.to_string().contains("$ref"));
    let kids = "/properties/root/properties/kids/items/properties/kids/items";
    assert_eq!(out.pointer(kids).unwrap()["type"], "STRING", "{out}");
    let mut tree = json!({"v": "5"});
    for depth in 0..4 {
        tree = json!({"v": depth.to_string(), "kids": [tree]});
    }
    let original = Schema::compile(schema).unwrap();
    assert!(original.validate(&json!({ "root": tree })).is_empty());
    let mut written = json!({"root": {"v": "1", "kids": [{"v": "2", "kids": [tree.to_string()]}]}});
    original.coerce(&mut written);
    assert!(original.validate(&written).is_empty(), "{written}");
}

#[test]
fn tc_104_a_bomb_of_references() {
    let part = |n: usize| {
        let next = json!({"$ref": format!("#/$defs/A{}", n + 1)});
        json!({"type": "object", "properties": {"l": next, "r": next}})
    };
    let mut parts: serde_json::Map<_, _> = (0..30).map(|n| (format!("A{n}"), part(n))).collect();
    parts.insert("A30".to_owned(), json!({"type": "string"}));
    let bomb = json!({"type": "object", "properties": {"a": {"$ref": "#/$defs/A0"}}, "$defs": parts});
    assert_eq!(Schema::compile(&bomb).unwrap_err().code(), case("TC-104")["expected"]["code"]);
    let (_, lowered) = lowered(&tool(bomb), openapi());
    assert!(lowered.is_empty() && lowered.notes()[0].why.contains("more than 10000 parts"), "{:?}", lowered.notes());
}

#[test]
fn tc_105_a_choice_at_the_root() {
    let case = case("TC-105");
    let (tools, lowered) = lowered(&tool(case["input"]["input_schema"].clone()), Target::of(Dialect::Anthropic));
    let (out, _) = sent(&tools).unwrap();
    let keys: Vec<&String> = out.as_object().unwrap().keys().collect();
    assert_eq!(json!(keys), case["expected"]["root_keywords"]);
    assert_eq!(tools[0]["description"], "Does it. Give at least one of: `a`, `b`.");
    assert_eq!(lowered.notes()[0].change, Change::Loosened);
    let original = Schema::compile(&case["input"]["input_schema"]).unwrap();
    assert!(!original.validate(&json!({})).is_empty(), "the gate still asks for one");
}

#[test]
fn tc_106_integers_to_choose_from() {
    let case = case("TC-106");
    let level = out(&case, openapi()).unwrap()["properties"]["level"].clone();
    assert_eq!(level, json!({"type": "INTEGER", "description": "One of [1,2,3]."}));
    let newer = out(&case, Target::of(Dialect::Gemini)).unwrap();
    assert_eq!(newer["properties"]["level"], json!({"type": "integer", "enum": [1, 2, 3]}));
}

#[test]
fn tc_107_a_keyword_that_gemini_refuses() {
    let case = case("TC-107");
    for target in [openapi(), Target::of(Dialect::Gemini), Target::default()] {
        assert!(!out(&case, target).unwrap().to_string().contains("$schema"));
    }
}

#[test]
fn tc_109_an_object_of_any_keys_is_not_strict() {
    let case = case("TC-109");
    for dialect in [Dialect::Chat, Dialect::Responses, Dialect::Anthropic] {
        let (tools, lowered) = lowered(&tool(case["input"]["input_schema"].clone()), Target::of(dialect).strictly());
        assert!(!sent(&tools).unwrap().1);
        let note = &lowered.notes()[0];
        assert_eq!((note.change, &json!(note.pointer)), (Change::NotStrict, &case["expected"]["path"]));
    }
}
