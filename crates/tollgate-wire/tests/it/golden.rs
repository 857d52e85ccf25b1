//! One input for each case, and for each dialect the body that it becomes: `golden/<case>.json` and
//! `golden/<case>.<dialect>.json`. Adding a case is adding a file; `TOLLGATE_GOLDEN=write` writes the bodies that are missing.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tollgate_wire::Dialect;

use crate::canonical::Input;

#[test]
fn bodies_are_what_they_were() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let may_write = std::env::var_os("TOLLGATE_GOLDEN").is_some_and(|word| word == "write");
    let mut names: Vec<String> =
        fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let stems: Vec<&str> = names.iter().map(|name| name.strip_suffix(".json").unwrap()).collect();
    let cases: Vec<&str> = stems.iter().copied().filter(|stem| !stem.contains('.')).collect();
    assert!(cases.len() >= 10, "the golden files are gone: {cases:?}");
    for stem in &stems {
        let case = stem.split('.').next().unwrap();
        assert!(cases.contains(&case), "`{stem}.json` has no input `{case}.json`");
    }
    for case in cases {
        let text = fs::read_to_string(folder.join(format!("{case}.json"))).unwrap();
        for dialect in Dialect::ALL {
            let input: Input = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{case}: {e}"));
            let body = input.body(dialect).unwrap_or_else(|e| panic!("{case}, {dialect}: {e}"));
            let body: Value = serde_json::from_slice(&body).unwrap();
            let body = format!("{}\n", serde_json::to_string_pretty(&body).unwrap());
            let path = folder.join(format!("{case}.{dialect}.json"));
            match fs::read_to_string(&path) {
                Ok(expected) => {
                    assert_eq!(body, expected, "`{}`: if the new body is right, delete the file", path.display());
                }
                Err(_) if may_write => fs::write(&path, body).unwrap(),
                Err(e) => panic!("`{}`: {e}; TOLLGATE_GOLDEN=write writes it", path.display()),
            }
        }
    }
}
