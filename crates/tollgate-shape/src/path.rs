//! Paths into values: JSON Pointers (RFC 6901) in which `*` is any member or item, and names with dots.

use tollgate_types::limits;

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// A member of this name, or the item of this number.
    Name(String),
    /// Any member or item.
    Any,
}

/// The steps of a path.
pub(crate) fn parse(path: &str) -> Result<Vec<Step>, String> {
    let steps: Vec<Step> = match path.strip_prefix('/') {
        Some(pointer) => pointer.split('/').map(|step| named(step.replace("~1", "/").replace("~0", "~"))).collect(),
        None => path.split('.').flat_map(dotted).collect(),
    };
    if steps.is_empty() || steps.iter().any(|step| matches!(step, Step::Name(name) if name.is_empty())) {
        return Err(format!("`{}` is no path: write /orders/*/id or orders.id", path.escape_debug()));
    }
    if steps.len() > limits::JSON_DEPTH_MAX {
        return Err(format!("a path has at most {} steps", limits::JSON_DEPTH_MAX));
    }
    Ok(steps)
}

fn named(name: String) -> Step {
    if name == "*" { Step::Any } else { Step::Name(name) }
}

/// `orders[]` is what `orders` is: a list is passed through.
fn dotted(step: &str) -> Option<Step> {
    match step.strip_suffix("[]") {
        Some("") => None,
        Some(name) => Some(named(name.to_owned())),
        None => Some(named(step.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read() {
        let name = |name: &str| Step::Name(name.into());
        assert_eq!(parse("/orders/*/a~1b~0c").unwrap(), [name("orders"), Step::Any, name("a/b~c")]);
        for path in ["orders.id", "orders[].id", "/orders/id"] {
            assert_eq!(parse(path).unwrap(), [name("orders"), name("id")]);
        }
        assert_eq!(parse("[].订单").unwrap(), [name("订单")]);
        for broken in ["", "/", "a..b", "/a//b"] {
            assert!(parse(broken).unwrap_err().contains("is no path"), "{broken}");
        }
    }
}
