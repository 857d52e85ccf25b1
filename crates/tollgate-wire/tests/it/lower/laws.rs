//! What holds of every schema.

use proptest::prelude::*;
use serde_json::{Value, json};
use tollgate_catalog::schema::Schema;
use tollgate_wire::{Change, Dialect, Target};

use super::schemas::{any_root, value};
use super::subset::faults;
use super::{lowered, sent, targets, tool};

proptest! {
    #[test]
    fn what_goes_out_is_what_the_provider_takes(schema in any_root()) {
        for (name, target) in targets() {
            let (tools, lowered) = lowered(&tool(schema.clone()), target);
            let is_left_out = lowered.notes().iter().any(|note| note.change == Change::LeftOut);
            prop_assert_eq!(lowered.is_empty(), is_left_out);
            if let Some((sent, is_strict)) = sent(&tools) {
                let faults = faults(name, &sent, is_strict);
                prop_assert!(faults.is_empty(), "{}: {:?}\n{}", name, faults, sent);
                let is_noted = lowered.notes().iter().any(|note| note.change == Change::NotStrict);
                prop_assert_eq!(target.strict, is_strict || is_noted);
            }
        }
    }

    #[test]
    fn what_fits_a_strict_schema_fits_the_original(schema in any_root(), seed in any::<u64>()) {
        let Ok(original) = Schema::compile(&schema) else { return Ok(()) };
        for dialect in [Dialect::Chat, Dialect::Anthropic] {
            let (tools, lowered) = lowered(&tool(schema.clone()), Target::of(dialect).strictly());
            let Some((sent, true)) = sent(&tools) else { continue };
            if !lowered.notes().is_empty() {
                continue;
            }
            let compiled = Schema::compile(&sent).unwrap();
            let mut dice = dice(seed);
            for _ in 0..16 {
                let arguments = value(&sent, &sent, &mut dice, 0);
                if !compiled.validate(&arguments).is_empty() {
                    continue;
                }
                check(&original, &arguments, &sent)?;
            }
        }
    }
}

/// After the nulls of optional properties are taken away, and nothing else is changed, it fits.
fn check(original: &Schema, arguments: &Value, sent: &Value) -> Result<(), TestCaseError> {
    let mut taken = arguments.clone();
    let repairs = original.coerce(&mut taken);
    let are_nulls = repairs.iter().all(|repair| ["null_dropped", "integral_float"].contains(&repair.rule.as_str()));
    prop_assert!(are_nulls, "{:?}", repairs);
    let violations = original.validate(&taken);
    prop_assert!(violations.is_empty(), "{:?}\n{}\n{}\n{}", violations, arguments, taken, sent);
    Ok(())
}

/// Numbers below a limit, by xorshift.
fn dice(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed | 1;
    move |sides| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % sides as u64) as usize
    }
}

#[test]
fn null_for_an_optional_property_is_none_at_all() {
    let schema = json!({"type": "object", "required": ["room"], "properties": {
        "room": {"type": "string"}, "view": {"type": "string", "enum": ["sea", "yard"], "default": "yard"},
        "size": {"type": ["integer", "null"]},
        "guest": {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}},
    }});
    let (tools, _) = lowered(&tool(schema.clone()), Target::of(Dialect::Chat).strictly());
    let (sent, is_strict) = sent(&tools).unwrap();
    let mut arguments = json!({"room": "7", "view": null, "size": null, "guest": {"name": "An", "age": null}});
    assert!(is_strict && Schema::compile(&sent).unwrap().validate(&arguments).is_empty(), "{sent}");
    let original = Schema::compile(&schema).unwrap();
    original.coerce(&mut arguments);
    original.fill_defaults(&mut arguments);
    assert!(original.validate(&arguments).is_empty());
    assert_eq!(arguments, json!({"room": "7", "size": null, "guest": {"name": "An"}, "view": "yard"}));
}
