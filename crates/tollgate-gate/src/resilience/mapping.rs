//! The arguments of a fallback, made of those of the failed call. A template knows places, `for` and `if` and nothing else:
//! no functions, no variables of its own and no multiplication, so that what it reads bounds what it makes; steps and output
//! are limited all the same.

use std::io::{self, Write};

use minijinja::{Environment, UndefinedBehavior};
use serde_json::{Map, Value};
use tollgate_types::{Fallback, MappedArgument, limits};

/// The first words of the tags that a template may have.
const TAGS: [&str; 6] = ["for", "endfor", "if", "elif", "else", "endif"];

/// What is wrong with a fallback's `map_args`, where anything is.
pub(crate) fn check(fallback: &Fallback) -> Result<(), String> {
    for (name, mapped) in fallback.map_args.iter().flatten() {
        let fault = |problem: String| Err(format!("map_args.{name}: {problem}"));
        match mapped {
            MappedArgument::Pointer(from) if !is_pointer(&from.pointer) => {
                return fault(format!("`{}` is not a JSON Pointer: it begins with `/`, or is empty", from.pointer));
            }
            MappedArgument::Template(from) => {
                if let Err(problem) = check_template(&from.template) {
                    return fault(problem);
                }
            }
            MappedArgument::Pointer(_) | MappedArgument::Value(_) | MappedArgument::Plain(_) => {}
        }
    }
    Ok(())
}

/// The arguments of the other tool.
pub(crate) fn apply(fallback: &Fallback, arguments: &Value) -> Result<Value, String> {
    let Some(map_args) = &fallback.map_args else { return Ok(arguments.clone()) };
    let mut mapped = Map::new();
    for (name, from) in map_args {
        let value = match from {
            MappedArgument::Pointer(from) => arguments.pointer(&from.pointer).cloned(),
            MappedArgument::Template(from) => {
                let text = render(&from.template, arguments);
                Some(Value::from(text.map_err(|problem| format!("map_args.{name}: {problem}"))?))
            }
            MappedArgument::Value(literal) => Some(literal.value.clone()),
            MappedArgument::Plain(value) => Some(value.clone()),
        };
        mapped.extend(value.map(|value| (name.clone(), value)));
    }
    Ok(Value::Object(mapped))
}

/// RFC 6901 §3: `~` stands only before `0` or `1`.
fn is_pointer(text: &str) -> bool {
    let escapes_well = text.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
    (text.is_empty() || text.starts_with('/')) && escapes_well
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::empty();
    environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    environment.set_fuel(Some(limits::TEMPLATE_FUEL_MAX));
    environment.set_recursion_limit(16);
    environment
}

fn check_template(template: &str) -> Result<(), String> {
    if template.chars().count() > limits::TEMPLATE_CHARS_MAX {
        return Err(format!("a template has {} characters at most", limits::TEMPLATE_CHARS_MAX));
    }
    for tag in template.split("{%").skip(1) {
        let word = tag.trim_start_matches(['-', '+']).split_whitespace().next().unwrap_or_default();
        let word = word.trim_end_matches(['%', '}', '-', '+']);
        if !TAGS.contains(&word) {
            return Err(format!("a template has the tags for and if, not `{word}`"));
        }
    }
    let inside = template.split("{{").skip(1).chain(template.split("{%").skip(1));
    if inside.map(|rest| rest.split('}').next().unwrap_or_default()).any(|inside| inside.contains(['*', '|'])) {
        return Err("a template does not multiply, and has no filters".to_owned());
    }
    environment().template_from_str(template).map(drop).map_err(|error| told(&error))
}

fn render(template: &str, arguments: &Value) -> Result<String, String> {
    let size = arguments.to_string().len();
    if size > limits::TEMPLATE_INPUT_BYTES_MAX {
        return Err(format!("arguments of {size} bytes are too long for a template"));
    }
    let environment = environment();
    let template = environment.template_from_str(template).map_err(|error| told(&error))?;
    let mut text = Bounded(Vec::new());
    match template.render_captured_to(arguments, &mut text) {
        Ok(_) => String::from_utf8(text.0).map_err(|error| error.to_string()),
        Err(error) if text.0.len() >= limits::TEMPLATE_OUTPUT_BYTES_MAX => {
            Err(format!("its text is longer than {} bytes ({})", limits::TEMPLATE_OUTPUT_BYTES_MAX, error.kind()))
        }
        Err(error) => Err(told(&error)),
    }
}

fn told(error: &minijinja::Error) -> String {
    let detail = error.detail().map(|detail| format!(": {detail}")).unwrap_or_default();
    format!("the template: {}{detail}", error.kind())
}

/// Takes so many bytes and no more.
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = limits::TEMPLATE_OUTPUT_BYTES_MAX.saturating_sub(self.0.len());
        self.0.extend(bytes.iter().take(room));
        if room < bytes.len() { Err(io::Error::other("too long")) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn fallback(map_args: Value) -> Fallback {
        serde_json::from_value(json!({"tool": "other", "map_args": map_args})).unwrap()
    }

    #[test]
    fn arguments_are_mapped() {
        let arguments = json!({"city": "北京", "days": 3, "at": {"lat": 39.9}, "tags": ["a", "b"]});
        let fallback = fallback(json!({
            "place": {"pointer": "/city"}, "lat": {"pointer": "/at/lat"}, "gone": {"pointer": "/nothing"},
            "text": {"template": "{{ city }}: {{ days + 1 }} 天{% for tag in tags %} #{{ tag }}{% endfor %}{% if nothing %}!{% endif %}"},
            "limit": 5, "table": {"value": {"a": 1}}, "list": ["x"],
        }));
        check(&fallback).unwrap();
        let wanted = json!({
            "place": "北京", "lat": 39.9, "text": "北京: 4 天 #a #b", "limit": 5, "table": {"a": 1}, "list": ["x"],
        });
        assert_eq!(apply(&fallback, &arguments).unwrap(), wanted);
        let same: Fallback = serde_json::from_value(json!({"tool": "other"})).unwrap();
        assert_eq!(apply(&same, &arguments).unwrap(), arguments);
        let empty: Fallback = serde_json::from_value(json!({"tool": "other", "map_args": {}})).unwrap();
        assert_eq!(apply(&empty, &arguments).unwrap(), json!({}));
    }

    #[test]
    fn what_could_explode_is_refused_at_load() {
        let doubling = "{% set a = a ~ a %}".repeat(40);
        let long = "x".repeat(limits::TEMPLATE_CHARS_MAX + 1);
        for (mapped, problem) in [
            (json!({"template": doubling}), "not `set`"),
            (json!({"template": "{%- macro x() %}{% endmacro %}"}), "not `macro`"),
            (json!({"template": "{%with a=a~a%}{%endwith%}"}), "not `with`"),
            (json!({"template": "{% include 'x' %}"}), "not `include`"),
            (json!({"template": "{{ a * 1000000000 }}"}), "multiply"),
            (json!({"template": "{% if a ** 9 %}{% endif %}"}), "multiply"),
            (json!({"template": "{{ a|upper }}"}), "no filters"),
            (json!({"template": "{{ a"}), "the template"),
            (json!({"template": "{% for a in b %}"}), "the template"),
            (json!({"template": long}), "characters at most"),
            (json!({"pointer": "city"}), "JSON Pointer"),
            (json!({"pointer": "/a~2"}), "JSON Pointer"),
        ] {
            let error = check(&fallback(json!({"x": mapped}))).unwrap_err();
            assert!(error.contains(problem) && error.starts_with("map_args.x"), "{error}");
        }
    }

    #[test]
    fn what_loops_or_grows_ends() {
        let many: Vec<u32> = (0..2_000).collect();
        let (nested, growing) = (
            "{% for a in x %}{% for b in x %}{% for c in x %}{% endfor %}{% endfor %}{% endfor %}",
            "{% for a in x %}{{ s }}{% endfor %}",
        );
        let long = "字".repeat(1_000);
        for (template, arguments, problem) in [
            (nested, json!({"x": many}), "fuel"),
            (growing, json!({"x": many, "s": long}), "longer than"),
            ("{{ x.y }}", json!({}), "undefined"),
            ("{{ x }}", json!({"x": "a".repeat(limits::TEMPLATE_INPUT_BYTES_MAX)}), "too long for a template"),
        ] {
            let fallback = fallback(json!({"x": {"template": template}}));
            check(&fallback).unwrap();
            let error = apply(&fallback, &arguments).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }
}
