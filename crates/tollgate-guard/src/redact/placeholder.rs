//! Values that stand where a secret would and are none: references, masks, types, words of prose, counters.

use serde_json::Value;

use super::keys;

/// What may stand under a secret's name and say nothing: in a tree, where names and values cannot be confused.
pub(super) fn is_harmless(value: &Value, rule: &str) -> bool {
    match value {
        Value::Null | Value::Bool(_) => true,
        Value::Number(number) => is_counter(&number.to_string(), rule),
        Value::String(text) => {
            text.trim().is_empty()
                || is_reference(text)
                || is_counter(text, rule)
                || is_path(text, rule)
                || is_version(text, rule)
        }
        Value::Array(items) => items.iter().all(|item| is_harmless(item, rule)),
        Value::Object(map) => {
            let is_env = map.len() == 1 && map.get("env").and_then(Value::as_str).is_some_and(is_env_name);
            is_env || map.values().all(|item| is_harmless(item, rule))
        }
    }
}

/// A longer value is taken for what it is; it keeps every look at a text short.
pub(super) const PLACEHOLDER_BYTES_MAX: usize = 256;

/// A reference to a secret, a mask over one, or a marker where one was.
pub(super) fn is_reference(value: &str) -> bool {
    if value.len() > PLACEHOLDER_BYTES_MAX {
        return false;
    }
    let value = value.trim();
    let between = |open: &str, close: &str| value.strip_prefix(open).and_then(|rest| rest.strip_suffix(close));
    let mask = value.chars().next().filter(|c| matches!(c, '*' | 'x' | 'X' | '•' | '.' | '_' | '-'));
    let is_mask = mask.is_some_and(|mask| value.chars().all(|c| c == mask));
    let is_marker = between("[redacted", "]").is_some_and(|inner| !inner.contains([']', '[']))
        || between("<", ">").is_some_and(|inner| !inner.contains(['<', '>']))
        || value.eq_ignore_ascii_case("redacted");
    let is_variable = between("${", "}").is_some_and(|name| !name.contains('}'))
        || between("{{", "}}").is_some_and(|name| !name.contains('}'))
        || between("{", "}").is_some_and(|name| name.chars().all(|c| c.is_alphanumeric() || " _.!:".contains(c)))
        || value.starts_with("$(")
        || value.strip_prefix('$').is_some_and(is_env_name)
        || between("%", "%").is_some_and(is_env_name)
        || matches!(value, "%s" | "%d" | "?" | "!0" | "!1");
    is_mask || is_marker || is_variable || value.starts_with("secret://")
}

/// `token: 1532` counts tokens, `pin: 13` is a pin of a chip.
pub(super) fn is_counter(value: &str, rule: &str) -> bool {
    let digits_max = match rule {
        "token" => 7,
        "pin" => 3,
        _ => return false,
    };
    value.len() <= digits_max && value.bytes().all(|byte| byte.is_ascii_digit())
}

/// `"cookie": "^0.7.1"` is a package.
fn is_version(value: &str, rule: &str) -> bool {
    let number = value.trim_start_matches(['^', '~', '=', '>', '<', ' ', 'v']);
    let is_part = |part: &str| !part.is_empty() && part.len() <= 4 && part.bytes().all(|byte| byte.is_ascii_digit());
    matches!(rule, "cookie" | "token" | "session" | "credentials")
        && number.split('.').count() == 3
        && number.split('.').all(is_part)
}

/// `"Digest username=\"%s\""`: a text that somebody else fills in.
pub(super) fn is_template(value: &str) -> bool {
    value.len() <= PLACEHOLDER_BYTES_MAX && ["%s", "%(", "{}", "{0}"].iter().any(|blank| value.contains(blank))
}

/// A word that no secret is, in a text or in code: `password: required`, `token=None`, `secret: str`.
const STOP_WORDS: &str = "none null nil undefined nan true false yes no required optional empty missing unset set hidden masked \
    redacted removed invalid expired incorrect wrong unknown enabled disabled string str text int integer number \
    bool boolean any object bytes char void u8 u16 u32 u64 usize i32 i64 f32 f64 the a an to for of in on with \
    from by is are was not must should may can and or if as at see flag option options parameter argument env \
    n/a match unsafe new await yield lambda const this self key auth value signature bearer basic digest";

/// Whether a value is one of the words that no secret is, perhaps in brackets.
pub(super) fn is_stop_word(value: &str) -> bool {
    let value = value.trim_matches(['(', ')', ' ']);
    STOP_WORDS.split(' ').any(|word| value.eq_ignore_ascii_case(word))
}

/// Code that gets the value from elsewhere, names its type or where to read: `get_token(`, `os.environ[`, `self.token`,
/// `access_token`, `libc::passwd`, `https://…`.
pub(super) fn is_code(value: &str) -> bool {
    if value.starts_with("https://") || value.starts_with("http://") {
        return true;
    }
    if is_foreign_type(value) {
        return true;
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    let (head, rest) = value.split_at(value.find(|c| !is_name(c)).unwrap_or(value.len()));
    let has_digit = head.bytes().any(|byte| byte.is_ascii_digit());
    let is_path = head.contains(['_', '.']) && !head.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    if is_access(head) && !rest.is_empty() {
        return true;
    }
    match rest.chars().next() {
        // `other.colon2_token`, `Token![fn]`
        None if head.contains('.') && head.ends_with("_token") => true,
        Some('!') => !has_digit && (rest.starts_with("![") || rest.starts_with("!(")),
        None => !has_digit && !head.is_empty() && !head.starts_with('.') && names_value(head),
        Some('(' | '[') => head.len() > 2 && (is_path || !has_digit),
        Some(':') => rest.starts_with("::") && !head.starts_with(|c: char| c.is_ascii_digit()),
        Some(_) => false,
    }
}

/// `*mut c_char`, `::c_int`, `status_t`, and the beginning of `[0; 32]`.
fn is_foreign_type(value: &str) -> bool {
    let is_letters = value.bytes().all(|byte| byte.is_ascii_lowercase() || matches!(byte, b'_' | b')'));
    matches!(value, "*mut" | "*const" | "[0" | "[0u8" | "[b")
        || value.starts_with("::")
        || (is_letters && (value.starts_with("c_") || value.ends_with("_t")))
}

/// A variable or field that holds a secret, or something that is not one.
fn names_value(name: &str) -> bool {
    is_access(name) || keys::mentions_secret(name)
}

/// A field of what code has at hand.
fn is_access(name: &str) -> bool {
    const OWNERS: [&str; 10] =
        ["self.", "this.", "args.", "config.", "settings.", "os.", "process.", "env.", "request.", "req."];
    OWNERS.iter().any(|owner| name.starts_with(owner))
}

/// `token = Keyword`: tokens and credentials have digits, and what names them in code often has none.
pub(super) fn is_identifier(value: &str, rule: &str) -> bool {
    const WORD_BYTES_MAX: usize = 24;
    matches!(rule, "token" | "credentials")
        && value.len() <= WORD_BYTES_MAX
        && value.bytes().all(|byte| byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'.'))
}

/// `CString`, `PhantomPinned`: the type of a field.
pub(super) fn is_type(value: &str) -> bool {
    let is_letters = value.bytes().all(|byte| byte.is_ascii_alphabetic());
    let capitals = value.bytes().filter(u8::is_ascii_uppercase).count();
    is_letters && value.starts_with(|c: char| c.is_ascii_uppercase()) && capitals >= 2 && capitals < value.len()
}

/// A file that holds what the rule is about: `GOOGLE_APPLICATION_CREDENTIALS=key.json`.
fn is_path(value: &str, rule: &str) -> bool {
    const ENDINGS: [&str; 9] = [".json", ".pem", ".key", ".p12", ".pfx", ".crt", ".toml", ".yaml", ".txt"];
    matches!(rule, "credentials" | "private_key")
        && (["/", "./", "../", "~/"].iter().any(|root| value.starts_with(root))
            || ENDINGS.iter().any(|ending| value.ends_with(ending)))
}

/// Whether a text says nothing, whatever stands around it.
pub(super) fn is_empty(value: &str, rule: &str) -> bool {
    is_reference(value)
        || is_counter(value, rule)
        || is_version(value, rule)
        || (value.len() <= PLACEHOLDER_BYTES_MAX && (is_path(value, rule) || !value.contains(char::is_alphanumeric)))
}

fn is_env_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_uppercase() || c == '_')
        && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
}
