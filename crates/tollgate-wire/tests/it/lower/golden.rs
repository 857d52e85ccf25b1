//! One input a case, one output a dialect; adding a case is adding a file to `tests/lower/cases`.

use std::path::Path;

use serde_json::{Value, json};
use tollgate_types::ToolDefinition;
use tollgate_wire::{Dialect, GeminiSchema, Target};

use super::lowered;

#[test]
fn each_case_in_each_dialect() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lower/cases");
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../../lower/golden");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let _guard = settings.bind_to_scope();
    let mut cases: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    for path in cases {
        let case = path.file_stem().unwrap().to_str().unwrap();
        let definition = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        for dialect in Dialect::ALL {
            insta::assert_json_snapshot!(format!("{case}.{dialect}"), shown(&definition, dialect));
        }
    }
}

/// The two forms that a dialect has.
fn shown(definition: &ToolDefinition, dialect: Dialect) -> Value {
    let target = Target::of(dialect);
    let (key, other) = match dialect {
        Dialect::Gemini => ("parameters", Target { gemini: GeminiSchema::OpenApi, ..target }),
        Dialect::Chat | Dialect::Responses | Dialect::Anthropic => ("strict", target.strictly()),
    };
    let told = |target| {
        let (tools, lowered) = lowered(definition, target);
        let notes: Vec<String> = lowered.notes().iter().map(ToString::to_string).collect();
        json!({ "tools": tools, "notes": notes })
    };
    json!({ "plain": told(target), key: told(other) })
}
