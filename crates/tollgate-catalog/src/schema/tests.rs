//! What fits, what is mended, what is reported, and how hostile schemas end.

use proptest::prelude::*;
use serde_json::json;
use tollgate_types::limits;

use super::*;

mod coercion;

fn compile(schema: Value) -> Schema {
    Schema::compile(&schema).unwrap()
}

#[test]
fn unknown_properties() {
    let schema =
        compile(json!({"type": "object", "properties": {"id": {"type": "string"}, "dry_run": {"type": "boolean"}},
        "required": ["id"], "additionalProperties": false}));
    let arguments = json!({"id": "7", "dryRun": true});
    let [violation] = schema.validate(&arguments).try_into().unwrap();
    let mut expected = Violation::new("", "unknown property `dryRun` (did you mean `dry_run`?)");
    (expected.unknown, expected.accepted) = (vec!["dryRun".into()], vec!["id".into(), "dry_run".into()]);
    assert_eq!(violation, expected);

    let open = compile(json!({"type": "object", "properties": {"q": {}}, "additionalProperties": {"type": "string"}}));
    let mut extra = json!({"q": "x", "region": "eu"});
    assert!(open.coerce(&mut extra).is_empty() && open.validate(&extra).is_empty());

    let unevaluated = compile(json!({"type": "object", "unevaluatedProperties": false, "properties": {"a": {}},
        "allOf": [{"$ref": "#/$defs/B"}], "$defs": {"B": {"properties": {"bee": {}}}}}));
    let [violation] = unevaluated.validate(&json!({"a": 1, "Bee": 2})).try_into().unwrap();
    assert_eq!(violation.accepted, ["a", "bee"]);
}

#[test]
fn violations_say_where_and_what() {
    let schema = compile(json!({"type": "object", "required": ["q", "n"], "properties": {
        "q": {"type": "string", "description": "text"}, "n": {"type": "integer", "minimum": 1, "maximum": 9},
        "unit": {"enum": ["c", "f"]}, "day": {"type": "string", "format": "date"}, "code": {"type": "string", "pattern": "^[A-Z]+$"},
        "list": {"type": "array", "maxItems": 1, "items": {"type": ["string", "null"]}}, "a/b": {"type": "boolean"}}}));
    let arguments =
        json!({"n": 12, "unit": "k", "day": "tomorrow", "code": "a".repeat(500), "list": [1, "x"], "a/b": "maybe"});
    let mut found = schema.validate(&arguments);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    let found: Vec<String> = found
        .into_iter()
        .map(|violation| format!("{} {} {}", violation.path, violation.message, violation.expected.unwrap_or_default()))
        .collect();
    let cut = format!("\"{}…", "a".repeat(58));
    assert_eq!(
        found,
        [
            r#"/a~1b expected boolean, got `"maybe"` {"type":"boolean"}"#,
            &format!(r#"/code `{cut}` does not match the pattern {{"pattern":"^[A-Z]+$"}}"#),
            r#"/day `"tomorrow"` is not a date {"format":"date"}"#,
            r#"/list there are more than 1 items {"maxItems":1}"#,
            r#"/list/0 expected null or string, got `1` {"type":["null","string"]}"#,
            r#"/n `12` is more than 9 {"maximum":9}"#,
            r#"/q `q` is required {"type":"string"}"#,
            r#"/unit `"k"` is not one of the allowed values {"enum":["c","f"]}"#,
        ]
    );
    let many = compile(json!({"type": "object", "additionalProperties": {"type": "string"}}));
    let wrong: serde_json::Map<String, Value> = (0..1000).map(|n| (n.to_string(), json!(n))).collect();
    assert_eq!(many.validate(&Value::Object(wrong)).len(), limits::VIOLATIONS_MAX);
}

#[test]
fn defaults() {
    let schema = compile(json!({"type": "object", "properties": {
        "limit": {"type": "integer", "default": 10},
        "wrong": {"type": "integer", "default": null},
        "worse": {"type": "string", "maxLength": 1, "default": "long"},
        "sort": {"$ref": "#/$defs/Sort"},
        "page": {"type": "object", "properties": {"size": {"type": "integer", "default": 20}}},
        "made": {"type": "object", "default": {}, "properties": {"x": {"type": "integer", "default": 1}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"n": {"default": 0}}}},
        "one": {"anyOf": [{"type": "object", "required": ["a"], "properties": {"a": {}, "d": {"default": 1}}},
                          {"type": "object", "required": ["b"], "properties": {"b": {}, "d": {"default": 2}}}]},
    }, "$defs": {"Sort": {"type": "string", "default": "asc"}}}));
    let fill = |mut value: Value| {
        schema.fill_defaults(&mut value);
        value
    };
    assert_eq!(fill(json!({})), json!({"limit": 10, "sort": "asc", "made": {"x": 1}}));
    let given = json!({"limit": 5, "sort": "desc", "made": {"x": 3}, "page": {}, "list": [{}, {"n": 2}]});
    assert_eq!(
        fill(given),
        json!({"limit": 5, "sort": "desc", "made": {"x": 3}, "page": {"size": 20}, "list": [{"n": 0}, {"n": 2}]})
    );
    assert_eq!(fill(json!({"one": {"b": 1}}))["one"], json!({"b": 1, "d": 2}));
    assert_eq!(fill(json!({"one": {"a": 1, "b": 1}}))["one"], json!({"a": 1, "b": 1}), "ambiguous");

    let exclusive = compile(json!({"type": "object", "properties": {"a": {"default": 1}, "b": {}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}]}));
    let mut value = json!({"b": 1});
    exclusive.fill_defaults(&mut value);
    assert_eq!(value, json!({"b": 1}), "a default never makes a call wrong");
}

#[test]
fn schemas_that_are_refused() {
    let object = |properties: Value| json!({"type": "object", "properties": properties});
    let cases = [
        (json!("text"), "bad_schema"),
        (object(json!({"a": 1})), "bad_schema"),
        (object(json!({"a": {"type": "text"}})), "bad_schema"),
        (object(json!({"a": {"$ref": "https://example.com/s.json"}})), "bad_schema"),
        (object(json!({"a": {"$ref": "file:///etc/passwd"}})), "bad_schema"),
        (object(json!({"a": {"$ref": "other.json#/x"}})), "bad_schema"),
        (object(json!({"a": {"$ref": "#/$defs/none"}})), "bad_schema"),
        (object(json!({"a": {"$ref": "#none"}})), "bad_schema"),
        (object(json!({"a": {"$id": "https://example.com/", "$ref": "#"}})), "bad_schema"),
        (json!({"$defs": {"a": {"$ref": "https://example.com/s.json"}}}), "bad_schema"),
        (json!({"$schema": "https://example.com/own", "type": "object"}), "bad_schema"),
        (object(json!({"a": {"pattern": "(?=a)*"}})), "bad_schema"),
        (object(json!({"a": {"pattern": "(a)\\1"}})), "bad_schema"),
        (object(json!({"a": {"pattern": "(a\\p{L}{1,100000}b)+"}})), "bad_schema"),
        (json!({"$ref": "#"}), "bad_schema"),
        (json!({"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}}), "bad_schema"),
        (object(json!({"a": {"enum": vec!["x".repeat(100); 3000]}})), "schema_too_large"),
        ((0..100).fold(json!({}), |inner, _| json!({"properties": {"a": inner}})), "schema_too_large"),
        ((0..20).fold(json!({}), |inner, _| json!({"allOf": [inner]})), "schema_too_large"),
        (object((0..200).map(|n| (n.to_string(), json!({"pattern": format!("^{n}$")}))).collect()), "schema_too_large"),
    ];
    for (schema, code) in cases {
        let error = Schema::compile(&schema).err().unwrap_or_else(|| panic!("accepted: {schema}"));
        assert_eq!(error.code(), code, "{schema}: {error}");
        assert!(error.to_string().chars().count() < 300, "{error}");
    }
}

#[test]
fn references_within() {
    let schema = compile(json!({"$id": "https://example.com/root.json", "type": "object",
        "properties": {"a": {"$ref": "#/$defs/with%20space~1"}, "b": {"$ref": "#here"}, "c": {"anyOf": [{"$ref": "#/$defs/n"}, {"type": "null"}]}},
        "$defs": {"with space/": {"type": "integer"}, "x": {"$anchor": "here", "type": "boolean"}, "n": {"type": "integer", "minimum": 3}}}));
    let mut arguments = json!({"a": "1", "b": "true", "c": "5"});
    assert_eq!(schema.coerce(&mut arguments).len(), 3);
    assert_eq!(arguments, json!({"a": 1, "b": true, "c": 5}));
    assert!(schema.validate(&arguments).is_empty());
    assert_eq!(schema.coerce(&mut json!({"c": "2"})), [], "fits no branch after all");
    let seven = compile(json!({"$schema": "http://json-schema.org/draft-07/schema#", "type": "object",
        "definitions": {"P": {"type": "integer"}}, "properties": {"p": {"$ref": "#/definitions/P"}, "t": {"items": [{"type": "integer"}]}}}));
    assert_eq!(seven.coerce(&mut json!({"p": "1", "t": ["2"]})).len(), 2);
}

#[test]
fn a_recursive_schema_is_fine() {
    let schema = compile(json!({"type": "object", "properties": {"root": {"$ref": "#/$defs/Node"}},
        "$defs": {"Node": {"type": "object", "properties": {"v": {"type": "string"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/Node"}}}}}}));
    let tree = |leaf: Value| (0..5).fold(leaf, |inner, _| json!({"v": "x", "kids": [inner]}));
    assert!(schema.validate(&json!({"root": tree(json!({}))})).is_empty());
    assert_eq!(
        schema.validate(&json!({"root": tree(json!({"v": 1}))}))[0].path,
        format!("/root{}/v", "/kids/0".repeat(5))
    );
}

/// Runs on a thread with the stack of a runtime's worker, and fails when it takes long.
fn within(ms_max: u64, work: impl FnOnce() + Send + 'static) {
    let (done, wait) = std::sync::mpsc::channel();
    let worker = std::thread::Builder::new().stack_size(2 * 1024 * 1024).spawn(move || {
        work();
        done.send(()).unwrap();
    });
    let arrived = wait.recv_timeout(std::time::Duration::from_millis(ms_max));
    assert!(arrived.is_ok(), "more than {ms_max} ms, or a panic: {arrived:?}");
    worker.unwrap().join().unwrap();
}

#[test]
fn a_bomb_of_references_is_refused_at_once() {
    within(200, || {
        let mut defs: serde_json::Map<String, Value> = (0..30)
            .map(|n| {
                let next = json!({"$ref": format!("#/$defs/A{}", n + 1)});
                (format!("A{n}"), json!({"properties": {"l": next, "r": next}}))
            })
            .collect();
        defs.insert("A30".into(), json!({"type": "string"}));
        let bomb = json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/A0"}}, "$defs": defs});
        assert_eq!(Schema::compile(&bomb).unwrap_err().code(), "schema_too_large");
    });
    within(5_000, || {
        let defs: serde_json::Map<String, Value> = (0..3000)
            .map(|n| (format!("A{n}"), json!({"items": {"$ref": format!("#/$defs/A{}", (n + 1) % 3000)}})))
            .collect();
        compile(json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/A0"}}, "$defs": defs}));
    });
}

#[test]
fn branches_that_multiply_cost_little() {
    within(20_000, || {
        let branch = |kind: &str| json!({"type": "object", "properties": {"kind": {"type": "string", "minLength": kind.len()}, "kid": {"$ref": "#/$defs/N"}}});
        let schema = compile(json!({"type": "object", "properties": {"x": {"$ref": "#/$defs/N"}},
            "$defs": {"N": {"anyOf": [branch("a"), branch("bb"), branch("ccc")]}}}));
        let mut deep =
            (0..limits::JSON_DEPTH_MAX - 4).fold(json!({"kind": 1}), |inner, _| json!({"kind": "abc", "kid": inner}));
        deep = json!({"x": deep});
        assert_eq!(schema.validate(&deep)[0].path, "/x");
        schema.coerce(&mut deep);
        schema.fill_defaults(&mut deep);
    });
}

#[test]
fn the_deepest_schema_fits_a_workers_stack() {
    within(20_000, || {
        let last = json!({"type": "object", "properties": {"kid": {"$ref": "#/$defs/N"}, "n": {"type": "integer", "default": 1}}});
        let chain = (0..14).fold(last, |inner, _| json!({"allOf": [inner]}));
        let schema =
            compile(json!({"type": "object", "properties": {"kid": {"$ref": "#/$defs/N"}}, "$defs": {"N": chain}}));
        let mut deep = (0..limits::JSON_DEPTH_MAX - 2).fold(json!({"n": "1"}), |inner, _| json!({ "kid": inner }));
        assert_eq!(schema.validate(&deep).len(), 1);
        assert_eq!(schema.coerce(&mut deep).len(), 1);
        schema.fill_defaults(&mut deep);
        assert!(schema.validate(&deep).is_empty());
    });
}

#[test]
fn hostile_patterns_run_in_linear_time() {
    within(5_000, || {
        let schema = compile(json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}));
        let text = "a".repeat(100_000) + "!";
        assert_eq!(schema.validate(&json!({ "a": text })).len(), 1);
    });
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1000..1000_i32).prop_map(|n| json!(f64::from(n) / 2.0)),
        "[0-9]{1,3}|true|null|\\{\"n\":\"1\"\\}|\\[1,\"2\"\\]|[a-z]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((proptest::sample::select(vec!["n", "s", "o", "u", "x"]), inner), 0..4).prop_map(
                |entries| Value::Object(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
            ),
        ]
    })
}

proptest! {
    #[test]
    fn coercion_and_defaults_are_stable_and_never_harm(value in any_value()) {
        let schema = compile(json!({"$ref": "#/$defs/T", "$defs": {"T": {"type": "object", "required": ["n"], "properties": {
            "n": {"type": "integer"}, "s": {"type": "string", "default": "d"}, "o": {"$ref": "#/$defs/T"},
            "u": {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "integer"}}, {"$ref": "#/$defs/T"}]}}}}}));
        let fits = schema.validate(&value).is_empty();
        let mut coerced = value.clone();
        let repairs = schema.coerce(&mut coerced);
        prop_assert_eq!(repairs.is_empty(), coerced == value, "a change is recorded");
        prop_assert!(!fits || repairs.iter().all(|repair| repair.rule == "integral_float"));
        prop_assert!(!fits || schema.validate(&coerced).is_empty(), "what fits still fits");
        let mut again = coerced.clone();
        prop_assert!(schema.coerce(&mut again).is_empty(), "once is enough: {} {}", coerced, again);
        let fits = schema.validate(&coerced).is_empty();
        schema.fill_defaults(&mut coerced);
        prop_assert!(!fits || schema.validate(&coerced).is_empty());
        let mut again = coerced.clone();
        schema.fill_defaults(&mut again);
        prop_assert_eq!(again, coerced);
    }
}

/// Schemas of every shape that says types.
fn any_schema() -> impl Strategy<Value = Value> {
    let name = || proptest::sample::select(vec!["null", "boolean", "integer", "number", "string", "array", "object"]);
    let leaf = prop_oneof![
        name().prop_map(|name| json!({ "type": name })),
        proptest::sample::select(vec![
            json!(["string", "integer"]),
            json!(["null", "number"]),
            json!(["array", "string"])
        ])
        .prop_map(|names| json!({ "type": names })),
        Just(json!({})),
        Just(json!({"enum": ["1", "a", 2, null]})),
        Just(json!({"const": 1})),
        Just(json!({"type": "string", "maxLength": 1})),
    ];
    leaf.prop_recursive(4, 24, 3, |inner| {
        let list = || proptest::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            (inner.clone(), inner.clone(), any::<bool>()).prop_map(|(n, s, is_needed)| {
                let required: &[&str] = if is_needed { &["n"] } else { &[] };
                json!({"type": "object", "properties": {"n": n, "s": s}, "required": required})
            }),
            inner.clone().prop_map(|items| json!({"type": "array", "items": items})),
            list().prop_map(|branches| json!({ "anyOf": branches })),
            list().prop_map(|branches| json!({ "oneOf": branches })),
            inner.prop_map(|part| json!({"allOf": [part, {}]})),
        ]
    })
}

/// Every type that a schema says for a place, in whatever part of it.
fn said(schema: &Value, segments: &[&str], found: &mut Vec<String>) {
    for keyword in ["anyOf", "oneOf", "allOf"] {
        schema
            .get(keyword)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .for_each(|part| said(part, segments, found));
    }
    match segments {
        [] => {
            let types = schema.get("type").into_iter();
            let types = types.flat_map(|name| name.as_array().cloned().unwrap_or_else(|| vec![name.clone()]));
            found.extend(types.map(|name| name.as_str().unwrap().to_owned()));
            let values = schema.get("enum").and_then(Value::as_array).into_iter().flatten();
            found.extend(values.chain(schema.get("const")).map(|value| kind(value).to_owned()));
        }
        [first, rest @ ..] => {
            schema.pointer(&format!("/properties/{first}")).into_iter().for_each(|child| said(child, rest, found));
            let items = schema.get("items").filter(|_| first.parse::<usize>().is_ok());
            items.into_iter().for_each(|child| said(child, rest, found));
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(ProptestConfig::default().cases.max(2_000)))]

    /// The law of this file, for schemas of any shape: what has a right type is never touched, what is touched is told,
    /// and once is enough.
    #[test]
    fn what_has_a_right_type_is_never_touched(schema in any_schema(), value in any_value()) {
        let document = json!({"type": "object", "properties": {"v": schema}});
        let compiled = compile(document.clone());
        let before = json!({ "v": value });
        let mut after = before.clone();
        let repairs = compiled.coerce(&mut after);
        prop_assert_eq!(repairs.is_empty(), after == before, "{} {}", before, after);
        if compiled.validate(&before).is_empty() {
            prop_assert!(repairs.iter().all(|repair| repair.rule == "integral_float"), "{:?}", repairs);
            prop_assert!(compiled.validate(&after).is_empty(), "{} {}", before, after);
        }
        for repair in repairs.iter().filter(|repair| repair.rule != "integral_float") {
            // What stands within a text that was read as JSON was nowhere before.
            let Some(old) = before.pointer(&repair.path) else { continue };
            let segments: Vec<&str> = repair.path.split('/').skip(1).collect();
            let mut found = Vec::new();
            said(&document, &segments, &mut found);
            let is_all = found.is_empty();
            prop_assert!(!is_all && !found.iter().any(|name| name == kind(old)), "{:?} {} {}", repair, before, document);
        }
        let mut again = after.clone();
        prop_assert!(compiled.coerce(&mut again).is_empty(), "once is enough: {} {} {}", document, after, again);
    }

    /// JSON within text is read as `serde_json` prints it, or not at all.
    #[test]
    fn json_within_text_keeps_its_values(value in any_value(), float in any::<f64>()) {
        let value = json!([value, float]);
        if let Some(read) = strict::parse(&value.to_string()) {
            prop_assert_eq!(read, value);
        }
    }
}
