//! Names of servers, made fit for `[mcp.NAME]`: letters, digits, `-` and single `_`.

/// What a server's name may be long (`tollgate_mcp::upstream` refuses more).
const NAME_CHARS_MAX: usize = 32;

/// The name, or the nearest that is allowed.
pub(super) fn fit(name: &str) -> String {
    let mut fit = String::new();
    for c in name.chars() {
        let c = if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
        if c != '_' || !(fit.is_empty() || fit.ends_with('_')) {
            fit.push(c);
        }
    }
    cut(fit, NAME_CHARS_MAX)
}

/// The same with a number, for the second and later ones of one name.
pub(super) fn numbered(name: &str, number: usize) -> String {
    let number = format!("_{number}");
    cut(name.to_owned(), NAME_CHARS_MAX - number.len()) + &number
}

fn cut(mut name: String, chars_max: usize) -> String {
    name.truncate(chars_max);
    let length = name.trim_end_matches('_').len();
    name.truncate(length);
    if name.is_empty() { "server".into() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_one_that_the_configuration_takes() {
        use tollgate::mcp::upstream::{UpstreamConfig, UpstreamKind};
        let long = format!("{}_{}", "x".repeat(31), "y".repeat(40));
        for (name, expected) in [
            ("github", "github"),
            ("My Server.v2", "My_Server_v2"),
            ("a__b", "a_b"),
            ("_a_", "a"),
            ("@scope/pkg", "scope_pkg"),
            ("北京", "server"),
            ("", "server"),
            (&long, &"x".repeat(31)),
        ] {
            assert_eq!(fit(name), expected);
            for name in [fit(name), numbered(&fit(name), 2), numbered(&fit(name), 100)] {
                let kind = UpstreamKind::Http { url: "http://127.0.0.1/".into(), headers: Default::default() };
                assert_eq!(UpstreamConfig::new(&name, kind).check(), Ok(()), "{name}");
            }
        }
    }
}
