//! What a program may know of the environment it was started from.

use std::collections::BTreeMap;

/// The variables that a program gets, beside `LC_*`.
const INHERITED: [&str; 7] = ["HOME", "LANG", "PATH", "TERM", "TMPDIR", "TZ", "USER"];

/// The environment a program gets unless told more: `PATH`, `HOME`, `USER`, `LANG`, `LC_*`, `TZ`, `TMPDIR` and `TERM`
/// of this process and nothing else, so that keys in the environment stay where they are.
///
/// A variable that is not UTF-8 is left out.
pub fn base_env() -> BTreeMap<String, String> {
    // Not `std::env::vars`: that one panics when any variable, also one nobody asked for, is not UTF-8.
    std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
        .filter(|(name, _)| INHERITED.contains(&name.as_str()) || name.starts_with("LC_"))
        .collect()
}
