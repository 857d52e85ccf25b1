//! Whether a tool's schema lets an argument be null. A model that must name every property, as strict modes demand, says
//! with null that it leaves one out.

use serde_json::Value;

/// References of a schema that are followed, and choices that are looked into, on the way to one property.
const STEPS_MAX: usize = 64;

/// Whether the schema says that what stands at `pointer` may be null. What it does not say is not so: a schema that
/// takes anything says nothing.
pub(super) fn may_be_null(schema: &Value, pointer: &str) -> bool {
    let mut walk = Walk { root: schema, steps: STEPS_MAX };
    let property = pointer
        .split('/')
        .skip(1)
        .try_fold(schema, |schema, name| walk.property(schema, &name.replace("~1", "/").replace("~0", "~")));
    property.is_some_and(|property| walk.says_null(property))
}

struct Walk<'a> {
    root: &'a Value,
    /// How many are left: references may go in a circle.
    steps: usize,
}

impl<'a> Walk<'a> {
    fn step(&mut self) -> Option<()> {
        self.steps = self.steps.checked_sub(1)?;
        Some(())
    }

    /// What a local reference means, or the schema itself.
    fn resolved(&mut self, mut schema: &'a Value) -> Option<&'a Value> {
        while let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            self.step()?;
            schema = self.root.pointer(reference.strip_prefix('#')?)?;
        }
        Some(schema)
    }

    /// The schema of a property, or of an element where the name is a number; also of an object that may be null itself.
    fn property(&mut self, schema: &'a Value, name: &str) -> Option<&'a Value> {
        self.step()?;
        let schema = self.resolved(schema)?;
        let own = schema.get("properties").and_then(|properties| properties.get(name));
        let element = || schema.get("items").filter(|_| name.parse::<usize>().is_ok());
        own.or_else(element).or_else(|| choices(schema).find_map(|choice| self.property(choice, name)))
    }

    fn says_null(&mut self, schema: &'a Value) -> bool {
        if self.step().is_none() {
            return false;
        }
        // Beside a reference stand words of the property itself, such as its default.
        let is_default = schema.get("default").is_some_and(Value::is_null);
        let Some(schema) = self.resolved(schema) else { return is_default };
        let of = |key: &str| schema.get(key);
        let is_word = |value: &Value| value == "null";
        let is_type = of("type")
            .is_some_and(|kind| is_word(kind) || kind.as_array().is_some_and(|kinds| kinds.iter().any(is_word)));
        let is_listed = of("enum").and_then(Value::as_array).is_some_and(|values| values.iter().any(Value::is_null));
        let is_const = of("const").is_some_and(Value::is_null);
        is_default
            || is_type
            || is_listed
            || is_const
            || of("default").is_some_and(Value::is_null)
            || choices(schema).any(|choice| self.says_null(choice))
    }
}

fn choices(schema: &Value) -> impl Iterator<Item = &Value> {
    ["anyOf", "oneOf"].into_iter().filter_map(|key| schema.get(key)?.as_array()).flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn null_is_what_the_schema_says_it_is() {
        let property = |schema: Value| json!({"type": "object", "properties": {"a": schema}});
        let yes = [
            json!({"type": ["string", "null"]}),
            json!({"type": "null"}),
            json!({"default": null}),
            json!({"type": "string", "default": null}),
            json!({"enum": ["x", null]}),
            json!({"const": null}),
            json!({"anyOf": [{"type": "integer"}, {"type": "null"}]}),
            json!({"oneOf": [{"type": "integer"}, {"anyOf": [{"const": null}]}]}),
        ];
        for schema in yes {
            assert!(may_be_null(&property(schema.clone()), "/a"), "{schema}");
        }
        let no = [
            json!({}),
            json!(true),
            json!({"type": "string"}),
            json!({"type": ["string", "integer"]}),
            json!({"enum": ["null"]}),
            json!({"default": "null"}),
            json!({"anyOf": [{"type": "integer"}, {}]}),
            json!({"not": {"type": "null"}}),
            json!({"$ref": "#/properties/a"}),
            json!({"$ref": "https://example.com/schema"}),
        ];
        for schema in no {
            assert!(!may_be_null(&property(schema.clone()), "/a"), "{schema}");
        }
        assert!(!may_be_null(&property(json!({"type": "null"})), "/b"));
    }

    #[test]
    fn the_property_is_found_where_the_pointer_leads() {
        let schema = json!({
            "$defs": {
                "Payee": {"type": "object", "properties": {"country": {"type": ["string", "null"]}, "a/b": {"const": null}}},
                "Maybe": {"anyOf": [{"$ref": "#/$defs/Payee"}, {"type": "null"}]},
            },
            "type": "object",
            "properties": {
                "to": {"$ref": "#/$defs/Payee"},
                "maybe": {"$ref": "#/$defs/Maybe"},
                "items": {"type": "array", "items": {"$ref": "#/$defs/Payee"}},
            },
        });
        for pointer in ["/to/country", "/to/a~1b", "/maybe", "/maybe/country", "/items/0/country"] {
            assert!(may_be_null(&schema, pointer), "{pointer}");
        }
        for pointer in ["/to", "/items", "/items/0", "/items/x/country", "/to/country/more", "/items/country"] {
            assert!(!may_be_null(&schema, pointer), "{pointer}");
        }
    }
}
