//! What a model reads of the built-in tools.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tollgate_tools::{BaseOptions, Database, Postgres, SearchConfig, SearchKind};
use tollgate_types::{Secret, SourceKind};

fn definitions() -> Vec<tollgate_types::ToolDefinition> {
    let orders = Postgres::new(&Secret::new("postgres://reader:zq@db.example/orders"), ".".as_ref()).unwrap();
    let databases = BTreeMap::from([
        ("orders".to_owned(), Database::Postgres(Box::new(orders))),
        ("shop".to_owned(), Database::Sqlite("shop.db".into())),
    ]);
    let search = Some(SearchConfig::new(SearchKind::Searxng, "https://search.example", None).unwrap());
    let options = BaseOptions { databases, search, ..BaseOptions::default() };
    tollgate_tools::base(options).iter().map(|tool| tool.definition()).collect()
}

/// What a model reads: a change of wording is a change of behaviour.
#[test]
fn what_a_model_reads() {
    let tools: Vec<Value> = definitions()
        .iter()
        .map(|tool| {
            json!({"type": "function", "function": {
                "name": tool.name, "description": tool.full_description(), "parameters": tool.input_schema,
            }})
        })
        .collect();
    insta::assert_json_snapshot!(tools);
}

#[test]
fn without_an_engine_nothing_is_searched() {
    let tools = tollgate_tools::base(BaseOptions::default());
    let names: Vec<String> = tools.iter().map(|tool| tool.definition().name).collect();
    assert!(names.contains(&"fetch_page".to_owned()) && !names.contains(&"search_web".to_owned()), "{names:?}");
}

#[test]
fn every_definition_says_everything() {
    let definitions = definitions();
    let names: Vec<&str> = definitions.iter().map(|tool| tool.name.as_str()).collect();
    for tool in &definitions {
        let name = &tool.name;
        assert!(tool.full_description().chars().count() <= 1_024, "{name}");
        let when_not = tool.when_not.as_deref().unwrap();
        assert!(names.iter().any(|other| other != name && when_not.contains(other)), "{name} names its neighbour");
        assert!(tool.when.is_some() && tool.title.is_some() && !tool.tags.is_empty() && !tool.errors.is_empty());
        assert_eq!(tool.source.kind, SourceKind::Builtin);
        let annotations = tool.annotations;
        for hint in [annotations.read_only, annotations.destructive, annotations.idempotent, annotations.open_world] {
            assert!(hint.is_some(), "{name}");
        }
        assert_eq!(tool.input_schema["type"], "object", "{name}");
        assert_eq!(tool.input_schema["additionalProperties"], false, "{name}");
        for (parameter, schema) in tool.input_schema["properties"].as_object().unwrap() {
            assert!(schema["description"].as_str().is_some_and(|text| text.len() > 10), "{name}.{parameter}");
            assert!(schema.get("type").is_some(), "{name}.{parameter}");
        }
        assert_eq!(tool.output_schema.as_ref().unwrap()["type"], "object", "{name}");
        assert!(!tool.examples.is_empty(), "{name}");
        for example in &tool.examples {
            jsonschema::validate(&tool.input_schema, example).unwrap();
        }
    }
}
