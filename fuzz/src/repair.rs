//! Arguments: read on each rung, and converted under a schema. Valid JSON is never touched, a higher rung reads what a lower one
//! reads, what fits stays as it is, and what was mended needs it no more.

use std::sync::OnceLock;

use serde_json::{Value, json};
use tollgate_catalog::schema::Schema;
use tollgate_types::{Repair, RepairLevel, RepairRule};
use tollgate_wire::repair;

const RUNGS: [RepairLevel; 3] = [RepairLevel::Off, RepairLevel::Lossless, RepairLevel::Lenient];

fn schemas() -> &'static [Schema] {
    static SCHEMAS: OnceLock<Vec<Schema>> = OnceLock::new();
    let int = json!({ "type": "integer" });
    let kind = |name: &str, id: &str| json!({"type": "object", "properties": {"kind": {"const": name}, "id": {"type": id}}, "required": ["kind", "id"]});
    let properties = [
        json!({"a": int, "b": {"type": "string"}, "c": {"type": "boolean"}, "d": {"type": "number"}}),
        json!({"a": {"type": ["integer", "null"]}, "b": {"anyOf": [{"type": "string", "maxLength": 2}, int]}}),
        json!({"a": {"type": "array", "items": int}, "b": {"type": "object", "properties": {"a": int}}}),
        json!({"a": {"oneOf": [kind("x", "integer"), kind("y", "string")]}, "b": {"enum": [1, "2", null]}}),
        json!({"a": {"allOf": [int, {"minimum": 3}]}, "b": {"const": 5}, "c": {"$ref": "#"}}),
    ];
    SCHEMAS.get_or_init(|| {
        let one = |properties: &Value| json!({"type": "object", "properties": properties, "required": ["a"]});
        properties.iter().map(|properties| Schema::compile(&one(properties)).unwrap()).collect()
    })
}

/// The first byte says under which schema the rest is read.
pub fn repair(data: &[u8]) {
    let Some((which, rest)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let read = RUNGS.map(|level| repair::arguments(text, level));
    if let Ok(value @ Value::Object(_)) = repair::strict(text) {
        let exact = read[0].as_ref().unwrap_or_else(|fault| panic!("valid JSON is refused: {fault}: {text}"));
        assert_eq!((&exact.value, exact.repairs.len()), (&value, 0), "valid JSON is mended: {text}");
    }
    for (lower, higher) in read.iter().zip(read.iter().skip(1)) {
        assert!(lower.is_err() || lower == higher, "a higher rung reads something else: {text}");
    }
    for (level, parsed) in RUNGS.into_iter().zip(read) {
        let Ok(parsed) = parsed else { continue };
        assert!(parsed.repairs.iter().all(|repair| rule(repair).level() <= level), "{level}: {:?}", parsed.repairs);
        let again = repair::arguments(&parsed.value.to_string(), RepairLevel::Off).unwrap();
        assert_eq!((&again.value, again.repairs.len()), (&parsed.value, 0), "what was mended needs it again: {text}");
        let all = schemas();
        convert(&all[usize::from(*which) % all.len()], parsed.value);
    }
}

fn convert(schema: &Schema, value: Value) {
    let fits = schema.validate(&value).is_empty();
    let mut converted = value.clone();
    let repairs = schema.coerce(&mut converted);
    assert_eq!(repairs.is_empty(), converted == value, "a change is told: {value} {converted}");
    for repair in &repairs {
        let is_integral = rule(repair) == RepairRule::IntegralFloat;
        assert!(!fits || is_integral, "what fits is touched: {value}");
    }
    assert!(!fits || schema.validate(&converted).is_empty(), "what fits does not fit any more: {value}");
    let mut again = converted.clone();
    assert!(schema.coerce(&mut again).is_empty(), "once is not enough: {value}");
    // What came out reads as itself.
    assert_eq!(repair::strict(&converted.to_string()).unwrap(), converted);
    let _ = schema.misnamed(&converted);
}

fn rule(repair: &Repair) -> RepairRule {
    let known = RepairRule::ALL.iter().find(|rule| rule.as_str() == repair.rule);
    *known.unwrap_or_else(|| panic!("no rule is named {}", repair.rule))
}
