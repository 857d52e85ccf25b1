//! Secrets in JSON values: known ones in keys, strings and numbers, and whole subtrees under a secret's name.

use serde_json::{Map, Value};

use super::secrets::Secrets;
use super::{Redactor, keys, placeholder};

/// Fields that name, and fields that hold what is named: `{"name": "Authorization", "value": "…"}`.
const NAME_FIELDS: [&str; 8] = ["name", "key", "header", "field", "param", "variable", "Name", "Key"];
const VALUE_FIELDS: [&str; 5] = ["value", "values", "val", "Value", "Values"];
/// Beside one of these a `pass` is a password.
const USER_FIELDS: [&str; 7] = ["user", "username", "login", "email", "userName", "user_name", "User"];
/// Below one of these a `pass` is a password.
const LOGIN_FIELDS: [&str; 8] = ["auth", "basic", "login", "smtp", "ftp", "proxy", "db", "database"];
/// Beside one of these a `code` is an authorization code (RFC 6749 §4.1.3, RFC 7636 §4.5).
const OAUTH_FIELDS: [&str; 3] = ["grant_type", "code_verifier", "redirect_uri"];
/// Keywords of JSON Schema whose values are values of what is described.
const SAMPLE_KEYWORDS: [&str; 5] = ["default", "const", "enum", "example", "examples"];
const SCHEMA_KEYWORDS: [&str; 7] = ["type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const"];

/// Puts markers in the place of known secrets, wherever in the tree they are.
pub(super) fn replace_secrets(secrets: &Secrets, value: &mut Value) {
    match value {
        Value::Null | Value::Bool(_) => {}
        Value::Number(number) => {
            let text = number.to_string();
            if let std::borrow::Cow::Owned(clean) = secrets.replace(&text) {
                *value = Value::String(clean);
            }
        }
        Value::String(text) => {
            if let std::borrow::Cow::Owned(clean) = secrets.replace(text) {
                *text = clean;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace_secrets(secrets, item)),
        Value::Object(map) => {
            if map.keys().any(|key| secrets.replace(key) != key.as_str()) {
                for (key, item) in std::mem::take(map) {
                    let mut clean = secrets.replace(&key).into_owned();
                    while map.contains_key(&clean) {
                        clean.push('\'');
                    }
                    map.insert(clean, item);
                }
            }
            map.values_mut().for_each(|item| replace_secrets(secrets, item));
        }
    }
}

/// Where in a tree we are.
#[derive(Clone, Copy)]
struct Place {
    /// How many texts the tree is inside of.
    texts: usize,
    /// Below a field that is about logging in.
    login: bool,
}

impl Redactor {
    /// Hides what names give away; says whether anything was hidden. `texts`: how many texts this is inside of.
    pub(super) fn named_in_value(&self, value: &mut Value, texts: usize) -> bool {
        self.walk(value, Place { texts, login: false })
    }

    fn walk(&self, value: &mut Value, place: Place) -> bool {
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
            Value::String(text) => match self.named_in_text(text, place.texts) {
                Some(clean) => {
                    *text = clean;
                    true
                }
                None => false,
            },
            Value::Array(items) => self.walk_array(items, place),
            Value::Object(map) => self.walk_object(map, place),
        }
    }

    fn walk_object(&self, map: &mut Map<String, Value>, place: Place) -> bool {
        let has = |fields: &[&str]| fields.iter().any(|field| map.contains_key(*field));
        let is_oauth = has(&OAUTH_FIELDS);
        let is_login = place.login || has(&USER_FIELDS);
        let named = NAME_FIELDS.iter().find_map(|field| map.get(*field)?.as_str()).and_then(name_rule);
        let mut changed = false;
        for (key, item) in map.iter_mut() {
            let rule = match key.as_str() {
                "properties" if item.is_object() => {
                    changed |= self.walk_properties(item, place);
                    continue;
                }
                "code" if is_oauth => Some("authorization_code"),
                key if VALUE_FIELDS.contains(&key) && named.is_some() => named,
                key if is_login && keys::is_bare_pass(key) => Some("password"),
                key => keys::key_rule(key, item.is_object()),
            };
            changed |= match rule {
                Some(rule) => self.hide(item, rule),
                None => {
                    let login = place.login || LOGIN_FIELDS.contains(&key.to_ascii_lowercase().as_str());
                    self.walk(item, Place { login, ..place })
                }
            };
        }
        changed
    }

    /// The keys here are names of fields, and what stands under them describes the fields.
    fn walk_properties(&self, properties: &mut Value, place: Place) -> bool {
        let mut changed = false;
        for (key, item) in properties.as_object_mut().into_iter().flatten() {
            let rule = keys::rule(key);
            changed |= match (rule, item) {
                (Some(rule), Value::Object(schema)) if is_schema(schema) => {
                    let samples = schema.iter_mut().filter(|(key, _)| SAMPLE_KEYWORDS.contains(&key.as_str()));
                    samples.fold(false, |changed, (_, sample)| self.hide(sample, rule) || changed)
                }
                (Some(rule), item) => self.hide(item, rule),
                (None, item) => self.walk(item, place),
            };
        }
        changed
    }

    fn walk_array(&self, items: &mut [Value], place: Place) -> bool {
        let is_pair = |item: &Value| matches!(item.as_array().map(Vec::as_slice), Some([Value::String(_), _]));
        let are_pairs = items.iter().all(is_pair);
        let mut changed = false;
        let mut flag = None;
        for item in items {
            let is_value = item.as_str().is_some_and(|text| !text.starts_with('-'));
            if let Some(rule) = flag.take().filter(|_| is_value) {
                changed |= self.hide(item, rule);
                continue;
            }
            flag = item.as_str().and_then(flag_rule);
            let pair = item.as_array_mut().filter(|_| are_pairs).map(Vec::as_mut_slice);
            changed |= match pair {
                Some([Value::String(name), held]) => match keys::rule(name) {
                    Some(rule) => self.hide(held, rule),
                    None => self.walk(held, place),
                },
                _ => self.walk(item, place),
            };
        }
        changed
    }

    /// Puts a marker in the place of a whole subtree, unless it says nothing.
    fn hide(&self, value: &mut Value, rule: &str) -> bool {
        if placeholder::is_harmless(value, rule) {
            return false;
        }
        let marker = match &*value {
            Value::String(text) => self.marker(rule, text),
            other => self.marker(rule, &other.to_string()),
        };
        *value = Value::String(marker);
        true
    }
}

/// A name of at most two words: a longer one is a sentence.
fn name_rule(name: &str) -> Option<&'static str> {
    (name.split_whitespace().nth(2).is_none()).then(|| keys::rule(name)).flatten()
}

/// `--password`, whose value is the next argument.
fn flag_rule(argument: &str) -> Option<&'static str> {
    let name = argument.strip_prefix('-')?.trim_start_matches('-');
    if name.contains(|c: char| c == '=' || c.is_whitespace()) {
        return None;
    }
    keys::rule(name).or_else(|| keys::is_bare_pass(name).then_some("password"))
}

fn is_schema(map: &Map<String, Value>) -> bool {
    SCHEMA_KEYWORDS.iter().any(|keyword| map.contains_key(*keyword)) && !map.contains_key("value")
}
