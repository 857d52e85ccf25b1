//! What is converted, and what is left alone.

use super::*;

/// Coerces one property `v` under a schema; gives the value and the rules.
fn coerce_one(schema: Value, value: Value) -> (Value, Vec<String>) {
    let schema = compile(json!({"type": "object", "properties": {"v": schema}}));
    let mut arguments = json!({ "v": value });
    let repairs = schema.coerce(&mut arguments);
    assert!(repairs.iter().all(|repair| repair.path.starts_with("/v")), "{repairs:?}");
    (arguments["v"].take(), repairs.into_iter().map(|repair| repair.rule).collect())
}

/// Both branches would do without nulls, one of them without fewer: no more is dropped than has to be.
#[test]
fn of_branches_that_only_drop_nulls_the_one_that_drops_fewer_is_taken() {
    let branch = |properties: Value| json!({"type": "object", "properties": properties});
    let one = branch(json!({"c": {"type": "integer"}}));
    let other = branch(json!({"c": {"enum": ["a"]}, "a": {"type": "string"}}));
    for schema in [json!({"anyOf": [one, other]}), json!({"anyOf": [other, one]})] {
        let (value, rules) = coerce_one(schema, json!({"c": null, "a": null}));
        assert_eq!((value, rules), (json!({"a": null}), vec!["null_dropped".to_owned()]));
    }
}

#[test]
fn lossless_conversions() {
    let nested = json!({"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}});
    let cases = [
        (json!({"type": "integer"}), json!("5"), json!(5), "string_to_integer"),
        (json!({"type": "integer"}), json!("-7"), json!(-7), "string_to_integer"),
        (json!({"type": "integer"}), json!("18446744073709551615"), json!(u64::MAX), "string_to_integer"),
        (json!({"type": "integer"}), json!(3.0), json!(3), "integral_float"),
        (json!({"type": "integer", "minimum": 2}), json!(3.0), json!(3), "integral_float"),
        (json!({"type": ["integer", "null"]}), json!(3.0), json!(3), "integral_float"),
        (json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}), json!(3.0), json!(3), "integral_float"),
        (json!({"type": "number"}), json!("0.5"), json!(0.5), "string_to_number"),
        (json!({"type": "number"}), json!("12"), json!(12), "string_to_number"),
        (json!({"type": "boolean"}), json!("true"), json!(true), "string_to_boolean"),
        (json!({"type": "boolean"}), json!("False"), json!(false), "string_to_boolean"),
        (json!({"type": "string"}), json!(1234567890123456789_i64), json!("1234567890123456789"), "number_to_string"),
        (json!({"enum": [1, 2, 3]}), json!("2"), json!(2), "string_to_integer"),
        (json!({"type": "object"}), json!("{\"a\":1}"), json!({"a": 1}), "json_string_parsed"),
        (json!({"type": "array"}), json!(" [1]"), json!([1]), "json_string_parsed"),
        (json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}), json!("5"), json!(5), "string_to_integer"),
        (json!({"anyOf": [{"type": "integer"}, {"type": "number"}]}), json!("5"), json!(5), "string_to_integer"),
        (json!({"allOf": [{"minimum": 1}, {"type": "integer"}]}), json!("5"), json!(5), "string_to_integer"),
        (nested, json!("[{\"n\":1}]"), json!([{"n": 1}]), "json_string_parsed"),
    ];
    for (schema, value, expected, rule) in cases {
        assert_eq!(coerce_one(schema.clone(), value.clone()), (expected, vec![rule.to_owned()]), "{schema} {value}");
    }
}

#[test]
fn what_is_left_alone() {
    let cases = [
        (json!({"type": "integer"}), json!(0.5)),
        (json!({"type": "integer"}), json!("0.5")),
        (json!({"type": "integer"}), json!("05")),
        (json!({"type": "integer"}), json!("+5")),
        (json!({"type": "integer"}), json!(" 5")),
        (json!({"type": "integer"}), json!("")),
        (json!({"type": "integer"}), json!("99999999999999999999")),
        (json!({"type": "integer"}), json!(true)),
        (json!({"type": "integer"}), json!(1e300)),
        (json!({"type": "number"}), json!("0.12345678901234567")),
        (json!({"type": "number"}), json!("NaN")),
        (json!({"type": "number"}), json!(3.0)),
        (json!({"type": "boolean"}), json!("yes")),
        (json!({"type": "boolean"}), json!(1)),
        (json!({"type": "string"}), json!(1.1)),
        (json!({"type": "string"}), json!("5")),
        (json!({"type": ["string", "integer"]}), json!("5")),
        (json!({"type": ["string", "object"]}), json!("{}")),
        (json!({"anyOf": [{"type": "string"}, {"type": "object"}]}), json!("{}")),
        (json!({"anyOf": [{"type": "string", "format": "date"}, {"type": "integer"}]}), json!("5")),
        (json!({"anyOf": [{"enum": ["a", "b"]}, {"type": "integer"}]}), json!("5")),
        (json!({"oneOf": [{"const": "5a"}, {"type": "number"}]}), json!("5")),
        (json!({"anyOf": [{"anyOf": [{"type": "string", "maxLength": 0}]}, {"type": "integer"}]}), json!("5")),
        (json!({"type": ["string", "integer"], "enum": ["a", 5]}), json!("5")),
        (json!({"enum": ["a", 5]}), json!("5")),
        (json!({"const": "x"}), json!(5.5)),
        (json!({"type": "array", "items": {"type": ["integer", "string"], "maxLength": 0}}), json!(["5"])),
        (json!({"type": "array"}), json!("[1e-400]")),
        (json!({"type": "array"}), json!("[1e400]")),
        (json!({"type": "number"}), json!("1e-400")),
        (json!({"type": "number"}), json!("1e400")),
        (json!({"type": "integer"}), json!("-0")),
        (json!({"type": "object"}), json!("{hello world}")),
        (json!({"type": "object"}), json!("[1]")),
        (json!({"type": "object"}), json!("{\"a\":1,\"a\":2}")),
        (json!({"type": "object"}), json!("{\"a\":123456789012345678901234567890}")),
        (json!({"type": "array"}), json!("[".repeat(200) + &"]".repeat(200))),
        (json!({"anyOf": [{"const": 1}, {"const": true}]}), json!("x")),
        (
            json!({"oneOf": [{"type": "object", "properties": {"n": {"type": "string"}}, "required": ["n"]},
                          {"type": "object", "properties": {"n": {"const": true}}, "required": ["n"]}]}),
            json!({"n": {}}),
        ),
        (json!({}), json!(3.0)),
        (json!(true), json!("5")),
    ];
    for (schema, value) in cases {
        assert_eq!(coerce_one(schema.clone(), value.clone()), (value.clone(), vec![]), "{schema} {value}");
    }
}

#[test]
fn two_conversions_are_one_too_many() {
    let branches = json!({"anyOf": [
        {"type": "object", "properties": {"n": {"type": "integer"}, "m": {"const": "1"}}, "required": ["n"]},
        {"type": "object", "properties": {"n": {"const": "1"}, "m": {"type": "integer"}}, "required": ["m"]},
    ]});
    for value in [json!({"n": "1", "m": "1"}), json!({"n": "2", "m": "1"})] {
        assert_eq!(coerce_one(branches.clone(), value.clone()), (value, vec![]));
    }
}

/// Where branches are told apart by a constant, the types of the others do not count; otherwise they do.
#[test]
fn what_has_a_right_type_in_a_branch_that_may_be_meant_is_left_alone() {
    let kinds = json!({"oneOf": [
        {"type": "object", "properties": {"kind": {"const": "order"}, "id": {"type": "integer"}}, "required": ["kind", "id"]},
        {"type": "object", "properties": {"kind": {"const": "note"}, "id": {"type": "string"}}, "required": ["kind", "id"]},
    ]});
    let order = json!({"kind": "order", "id": "7"});
    let repaired = (json!({"kind": "order", "id": 7}), vec!["string_to_integer".to_owned()]);
    assert_eq!(coerce_one(kinds.clone(), order), repaired);
    let note = json!({"kind": "note", "id": "7"});
    assert_eq!(coerce_one(kinds.clone(), note.clone()), (note, vec![]));
    let unknown = json!({"kind": "else", "id": "7"});
    assert_eq!(coerce_one(kinds, unknown.clone()), (unknown, vec![]));
    let shapes = json!({"anyOf": [
        {"type": "object", "properties": {"id": {"type": "integer"}, "a": {}}, "required": ["id", "a"]},
        {"type": "object", "properties": {"id": {"type": "string"}, "b": {}}, "required": ["id", "b"]},
    ]});
    let either = json!({"id": "7", "a": 1});
    assert_eq!(coerce_one(shapes, either.clone()), (either, vec![]), "`b` may be what is missing");
    let null = json!({"anyOf": [
        {"type": "object", "properties": {"id": {"type": ["integer", "null"]}, "b": {"type": "string"}}, "required": ["b"]},
        {"type": "object", "properties": {"id": {"type": "integer"}, "a": {"type": "string"}}, "required": ["a"]},
    ]});
    let nothing = json!({"id": null, "a": "x"});
    assert_eq!(coerce_one(null, nothing.clone()), (nothing, vec![]));
}

#[test]
fn names_in_another_case_are_refused() {
    let schema = compile(json!({"type": "object", "required": ["path"], "properties": {
        "path": {"type": "string"}, "dry_run": {"type": "boolean"}, "to": {"$ref": "#/$defs/To"},
        "list": {"type": "array", "items": {"$ref": "#/$defs/To"}}, "open": {"type": "object",
            "properties": {"limit": {}}, "additionalProperties": true}},
        "$defs": {"To": {"type": "object", "properties": {"host": {}}, "allOf": [{"properties": {"port_nr": {}}}]}}}));
    let cases = [
        (json!({"path": "a", "dryRun": true}), vec!["", "dryRun", "dry_run"]),
        (json!({"Path": "a"}), vec!["", "Path", "path"]),
        (json!({"path": "a", "to": {"HOST": 1}}), vec!["/to", "HOST", "host"]),
        (json!({"path": "a", "list": [{}, {"portNr": 1}]}), vec!["/list/1", "portNr", "port_nr"]),
        (json!({"path": "a", "Path": "b"}), vec![]),
        (json!({"path": "a", "region": "eu"}), vec![]),
        (json!({"path": "a", "open": {"Limit": 1}}), vec![]),
        (json!({"path": "a", "to": {"host": 1, "port_nr": 2}}), vec![]),
    ];
    for (arguments, expected) in cases {
        let found = schema.misnamed(&arguments);
        match (found.as_slice(), expected.as_slice()) {
            ([], []) => {}
            ([violation], [path, name, near]) => {
                assert_eq!(
                    (violation.path.as_str(), violation.unknown.as_slice()),
                    (*path, [(*name).to_owned()].as_slice())
                );
                assert_eq!(
                    violation.message,
                    format!("unknown property `{name}` (did you mean `{near}`?)"),
                    "{arguments}"
                );
            }
            (found, expected) => panic!("{arguments}: {found:?}, not {expected:?}"),
        }
    }
}

#[test]
fn an_object_as_text_is_seen_through_one_of() {
    let schema = compile(json!({"type": "object", "required": ["target"], "properties": {"target": {"oneOf": [
        {"type": "object", "properties": {"kind": {"const": "agent"}, "name": {"type": "string"}}, "required": ["kind", "name"]},
        {"type": "object", "properties": {"kind": {"const": "tool"}}, "required": ["kind"]},
    ]}}}));
    let mut arguments = json!({"target": "{\"kind\":\"agent\",\"name\":\"rae\"}"});
    assert_eq!(schema.coerce(&mut arguments), [Repair::new("/target", "json_string_parsed")]);
    assert_eq!(arguments, json!({"target": {"kind": "agent", "name": "rae"}}));
    assert!(schema.validate(&arguments).is_empty());

    let wrong = schema.validate(&json!({"target": {"kind": "agent"}}));
    assert_eq!(wrong.len(), 1, "one for all branches: {wrong:?}");
    assert!(
        wrong[0].message.contains("fits none of 2 alternatives") && wrong[0].message.contains("`name` is required")
    );
    assert_eq!(wrong[0].expected.as_ref().unwrap()["oneOf"][1]["properties"]["kind"]["const"], "tool");
}

#[test]
fn null() {
    let schema =
        compile(json!({"type": "object", "required": ["q"], "$defs": {"Int": {"type": "integer"}}, "properties": {
            "q": {"type": "string"}, "limit": {"type": "integer"}, "page": {"$ref": "#/$defs/Int"},
            "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]}, "any": {}, "a/b": {"type": "string"},
        }}));
    let mut arguments =
        json!({"limit": null, "q": "x", "page": null, "maybe": null, "any": null, "a/b": null, "other": null});
    let repairs = schema.coerce(&mut arguments);
    assert_eq!(arguments.to_string(), r#"{"q":"x","maybe":null,"any":null,"other":null}"#);
    let paths: Vec<&str> = repairs.iter().map(|repair| repair.path.as_str()).collect();
    assert_eq!(paths, ["/a~1b", "/limit", "/page"]);
    assert!(repairs.iter().all(|repair| repair.rule == "null_dropped"));

    let mut required = json!({"q": null});
    assert!(schema.coerce(&mut required).is_empty());
    assert_eq!(schema.validate(&required)[0].path, "/q");

    let elsewhere =
        compile(json!({"type": "object", "properties": {"q": {"type": "string"}}, "allOf": [{"required": ["q"]}]}));
    assert!(elsewhere.coerce(&mut required).is_empty(), "required in a neighbour");
}

#[test]
fn repairs_are_placed() {
    let schema = compile(json!({"type": "object", "properties": {
        "list": {"type": "array", "prefixItems": [{"type": "string"}], "items": {"$ref": "#/$defs/Node"}}},
        "additionalProperties": {"type": "boolean"},
        "$defs": {"Node": {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/Node"}}}}}));
    let mut arguments = json!({"list": ["1", {"v": "1", "next": {"v": "2"}}], "extra": "true"});
    let repairs = schema.coerce(&mut arguments);
    assert_eq!(arguments, json!({"list": ["1", {"v": 1, "next": {"v": 2}}], "extra": true}));
    let places: Vec<&str> = repairs.iter().map(|repair| repair.path.as_str()).collect();
    assert_eq!(places, ["/list/1/next/v", "/list/1/v", "/extra"]);
}
