//! What each provider takes, said once more and independently of the code: a schema of schemas for each, and what no schema
//! can say.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::Value;
use tollgate_catalog::schema::Schema;

macro_rules! subset {
    ($name:literal) => {
        (
            $name,
            Schema::compile(&serde_json::from_str(include_str!(concat!("../../subsets/", $name, ".json"))).unwrap())
                .unwrap(),
        )
    };
}

static SUBSETS: LazyLock<HashMap<&str, Schema>> = LazyLock::new(|| {
    HashMap::from([subset!("plain"), subset!("openai_strict"), subset!("anthropic_strict"), subset!("gemini_openapi")])
});

/// What is wrong with a schema for a target.
pub(super) fn faults(target: &str, schema: &Value, is_strict: bool) -> Vec<String> {
    let subset = match (target, is_strict) {
        ("gemini_openapi", _) => "gemini_openapi",
        ("anthropic_strict", true) => "anthropic_strict",
        ("chat_strict" | "responses_strict", true) => "openai_strict",
        _ => "plain",
    };
    let mut faults: Vec<_> =
        SUBSETS[subset].validate(schema).iter().map(|fault| format!("{}: {}", fault.path, fault.message)).collect();
    each(schema, &mut |part| {
        let names: Vec<&str> = keys(part, "properties");
        let required: Vec<&str> = part["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let are_known = required.iter().all(|name| names.contains(name));
        if subset == "openai_strict" && names != required || subset != "plain" && !are_known {
            faults.push(format!("required: {required:?} of {names:?}"));
        }
    });
    if subset == "anthropic_strict" && contains_itself(schema) {
        faults.push("it contains itself".to_owned());
    }
    faults
}

fn keys<'v>(part: &'v Value, key: &str) -> Vec<&'v str> {
    part[key].as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect()
}

/// Every subschema of a strict schema or of Gemini's.
fn each(schema: &Value, visit: &mut dyn FnMut(&Value)) {
    visit(schema);
    let named =
        ["properties", "$defs"].into_iter().filter_map(|key| schema[key].as_object()).flat_map(|map| map.values());
    let listed = schema["anyOf"].as_array().into_iter().flatten();
    for part in named.chain(listed).chain(schema.get("items").filter(|items| items.is_object())) {
        each(part, visit);
    }
}

/// Whether following references never ends.
fn contains_itself(schema: &Value) -> bool {
    fn follow(root: &Value, part: &Value, fuel: usize) -> bool {
        let mut references = Vec::new();
        each(part, &mut |part| references.extend(part["$ref"].as_str().map(str::to_owned)));
        let is_endless = |reference: &String| {
            let Some(fuel) = fuel.checked_sub(1) else { return true };
            follow(root, root.pointer(reference.trim_start_matches('#')).unwrap(), fuel)
        };
        references.iter().any(is_endless)
    }
    let mut root = schema.clone();
    let parts = root["$defs"].take();
    let start = root.clone();
    root["$defs"] = parts;
    follow(&root, &start, 16)
}
