//! A schema for servers that know a part of JSON Schema and refuse the rest. What is joined from several places (`$ref`,
//! `allOf`) becomes one, what is a choice becomes `anyOf`, and each value has a type. What the server does not know goes
//! into words and is noted; what would have to be guessed is refused.

mod array;
mod choice;
mod object;
mod reference;
mod scalar;

use std::borrow::Cow;
use std::collections::HashMap;

use serde_json::{Map, Value, json};
use tollgate_types::limits;

use super::count::{self, Counts};
use super::kinds::{self, Kind};
use super::{Fitted, Refusal, Subset, at, at_mut, gemini, words};

/// What a model reads beside the rules.
const ANNOTATIONS: &[&str] = &["title", "description", "default", "examples"];
/// Keywords beyond those of a single type that say which values fit.
const COMMON_RULES: &[&str] = &["type", "enum", "const", "anyOf", "oneOf", "allOf", "if", "then", "else"];
/// Rules that no subset has: told as they are.
const RULES: &[&str] = &[
    "not",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
    "contains",
    "minContains",
    "maxContains",
    "propertyNames",
    "unevaluatedItems",
];

/// Fits a schema of arguments into a narrow subset.
pub(super) fn fit(document: &Value, subset: Subset) -> Result<Fitted<'_>, Refusal> {
    let mut narrower = Narrower {
        subset,
        document,
        path: String::new(),
        parts_left: limits::SCHEMA_NODES_MAX,
        losses: Vec::new(),
        open: vec![String::new()],
        named: HashMap::from([(String::new(), "#".to_owned())]),
        parts: Map::new(),
    };
    let mut told = Vec::new();
    let mut schema = narrower.root(&mut told)?;
    if !narrower.parts.is_empty() {
        schema.insert("$defs".to_owned(), Value::Object(narrower.parts));
    }
    let mut counts = Counts::default();
    match subset {
        Subset::OpenAiStrict => count::check_openai(&schema)?,
        Subset::AnthropicStrict => counts = count::counts(&schema),
        Subset::GeminiOpenApi => gemini::translate(&mut schema),
        Subset::Plain => {}
    }
    let is_strict = subset != Subset::GeminiOpenApi;
    Ok(Fitted { schema: Cow::Owned(schema), words: told, losses: narrower.losses, is_strict, counts })
}

struct Narrower<'s> {
    subset: Subset,
    document: &'s Value,
    /// Where in the arguments.
    path: String,
    parts_left: usize,
    losses: Vec<Refusal>,
    /// The references that are being followed, as JSON Pointers.
    open: Vec<String>,
    /// The reference that stands for a part, by the part's JSON Pointer.
    named: HashMap<String, String>,
    parts: Map<String, Value>,
}

impl Narrower<'_> {
    /// The root is an object whatever else it says, and has no choices: their properties are all there, none of them
    /// required for it.
    fn root(&mut self, told: &mut Vec<String>) -> Result<Map<String, Value>, Refusal> {
        let document = self.document.as_object().map_or_else(Cow::default, Cow::Borrowed);
        let mut root = self.flatten(document, told)?;
        if is_never(&root) {
            return Err(self.refusal("no arguments fit"));
        }
        for keyword in ["anyOf", "oneOf", "enum"] {
            let Some(rule) = root.get(keyword).cloned() else { continue };
            told.push(words::rule(keyword, &rule));
            self.lose(format!("`{keyword}` cannot stand at the root of a schema"));
            for branch in rule.as_array().into_iter().flatten().filter_map(Value::as_object) {
                let opened = self.open.len();
                let branch = self.flatten(Cow::Borrowed(branch), &mut Vec::new())?;
                self.open.truncate(opened);
                let Some(Value::Object(named)) = branch.get("properties") else { continue };
                if let Value::Object(properties) = root.to_mut().entry("properties").or_insert_with(|| json!({})) {
                    for (name, property) in named {
                        properties.entry(name.as_str()).or_insert_with(|| property.clone());
                    }
                }
            }
        }
        self.tell_rules(&root, told);
        if !root.contains_key("properties") {
            root.to_mut().insert("properties".to_owned(), json!({}));
        }
        let mut out = self.object(&root, told, Place::Root)?.ok_or_else(|| self.refusal("no arguments fit"))?;
        if let Some(description) = root.get("description") {
            out.insert("description".to_owned(), description.clone());
        }
        Ok(out)
    }

    /// A subschema; none where no value fits it.
    fn node(&mut self, schema: &Value) -> Result<Option<Map<String, Value>>, Refusal> {
        self.count()?;
        let map = match schema {
            Value::Object(map) if self.is_ready(map) => return Ok(Some(map.clone())),
            Value::Object(map) => unwrapped(map),
            Value::Bool(false) => return Ok(None),
            _ => Cow::default(),
        };
        if is_never(&map) {
            return Ok(None);
        }
        let opened = self.open.len();
        let fitted = self.read(map);
        self.open.truncate(opened);
        fitted
    }

    fn read(&mut self, map: Cow<'_, Map<String, Value>>) -> Result<Option<Map<String, Value>>, Refusal> {
        if self.has_references()
            && let Some(reference) = at(&map, "$ref")
        {
            let pointer = self.resolve(reference)?.0;
            let has_rules = map.keys().any(|key| is_rule(key));
            if !has_rules || self.open.contains(&pointer) {
                return self.reference(pointer, &map).map(Some);
            }
        }
        let mut told = Vec::new();
        let map = self.flatten(map, &mut told)?;
        if is_never(&map) {
            return Ok(None);
        }
        self.tell_rules(&map, &mut told);
        let about = About::of(&map, told);
        let mut told = Vec::new();
        let choice = map.iter().find_map(|(keyword, branches)| {
            let is_choice = matches!(keyword.as_str(), "anyOf" | "oneOf");
            Some((keyword.as_str(), branches.as_array().filter(|_| is_choice)?))
        });
        let fitted = match choice {
            Some((keyword, branches)) => self.choice(keyword, branches, beside(&map, keyword))?,
            None => self.typed(&map, &mut told)?,
        };
        Ok(fitted.map(|fitted| about.write(fitted, told)))
    }

    /// What says its types: one schema for each, because the rules of one are not those of another.
    fn typed(
        &mut self,
        map: &Map<String, Value>,
        told: &mut Vec<String>,
    ) -> Result<Option<Map<String, Value>>, Refusal> {
        let values = at(map, "enum").and_then(Value::as_array);
        let Some(all) = kinds::of(map) else { return self.anything().map(Some) };
        let mut fitted: Option<Map<String, Value>> = None;
        let mut others = Vec::new();
        for kind in all.without(Kind::Null).iter() {
            let values = values.map(|values| values.iter().filter(|value| kind.has(value)).cloned().collect());
            match self.one(kind, values, map, told)? {
                Some(other) if fitted.is_some() => others.push(other),
                one => fitted = fitted.or(one),
            }
        }
        if !others.is_empty() {
            fitted = Some(any_of(fitted.into_iter().chain(others).collect()));
        }
        Ok(match fitted {
            Some(fitted) if all.has(Kind::Null) => Some(nullable(fitted)),
            None if all.has(Kind::Null) => Some(Kind::Null.schema()),
            fitted => fitted,
        })
    }

    fn one(
        &mut self,
        kind: Kind,
        values: Option<Vec<Value>>,
        map: &Map<String, Value>,
        told: &mut Vec<String>,
    ) -> Result<Option<Map<String, Value>>, Refusal> {
        match kind {
            Kind::Object | Kind::Array => {
                if let Some(values) = values {
                    told.push(words::limit("enum", &Value::Array(values)));
                    self.lose("`enum` holds more than plain values");
                }
                if kind == Kind::Array { self.array(map, told) } else { self.object(map, told, Place::Below) }
            }
            Kind::Null | Kind::Boolean | Kind::Integer | Kind::Number | Kind::String => {
                Ok(Some(self.scalar(kind, values, map, told)))
            }
        }
    }

    /// Where any value may stand.
    fn anything(&mut self) -> Result<Map<String, Value>, Refusal> {
        if self.subset != Subset::GeminiOpenApi {
            return Err(self.refusal("any value may stand here"));
        }
        self.lose("only plain values can stand here");
        let kinds = [Kind::String, Kind::Number, Kind::Boolean, Kind::Null];
        Ok(any_of(kinds.into_iter().map(Kind::schema).collect()))
    }

    /// Tells the rules that no subset has.
    fn tell_rules(&mut self, map: &Map<String, Value>, told: &mut Vec<String>) {
        for (keyword, rule) in map {
            if RULES.contains(&keyword.as_str()) {
                told.push(words::rule(keyword, rule));
                self.lose(format!("`{keyword}` is not known there"));
            } else if keyword == "if" {
                told.extend(words::condition(map));
                self.lose("`if` is not known there");
            }
        }
    }

    /// Does something one step deeper in the arguments.
    fn below<T>(&mut self, segment: &str, work: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        self.path.push('/');
        if segment.contains(['~', '/']) {
            self.path.push_str(&segment.replace('~', "~0").replace('/', "~1"));
        } else {
            self.path.push_str(segment);
        }
        let done = work(self);
        self.path.truncate(length);
        done
    }

    fn count(&mut self) -> Result<(), Refusal> {
        let why =
            || format!("the schema has more than {} parts once each `$ref` is followed", limits::SCHEMA_NODES_MAX);
        self.parts_left = self.parts_left.checked_sub(1).ok_or_else(|| Refusal::new("", why()))?;
        Ok(())
    }

    fn lose(&mut self, why: impl Into<String>) {
        let loss = self.refusal(why);
        self.losses.push(loss);
    }

    fn refusal(&self, why: impl Into<String>) -> Refusal {
        Refusal::new(self.path.clone(), why)
    }

    fn has_references(&self) -> bool {
        self.subset != Subset::GeminiOpenApi
    }
}

/// Where an object stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Below,
}

/// What a model reads beside the rules.
struct About {
    title: Option<Value>,
    description: String,
    told: Vec<String>,
}

impl About {
    fn of(map: &Map<String, Value>, told: Vec<String>) -> Self {
        let mut about = Self { title: None, description: String::new(), told };
        for (key, value) in map {
            match (key.as_str(), value) {
                ("title", Value::String(_)) => about.title = Some(value.clone()),
                ("description", Value::String(text)) => about.description.clone_from(text),
                ("default", default) if !default.is_null() => {
                    about.told.push(format!("Default: {}.", words::json(default)));
                }
                ("examples", Value::Array(examples)) => {
                    let examples: Vec<_> = examples.iter().map(words::json).collect();
                    about.told.push(format!("For example: {}.", examples.join(", ")));
                }
                _ => {}
            }
        }
        about
    }

    fn write(self, mut fitted: Map<String, Value>, told: Vec<String>) -> Map<String, Value> {
        let mut description = self.description;
        for word in self.told.iter().chain(&told) {
            if !description.is_empty() {
                description.push(' ');
            }
            description.push_str(word);
        }
        // Beside a reference nothing may stand.
        if at(&fitted, "$ref").is_some() && (self.title.is_some() || !description.is_empty()) {
            fitted = any_of(vec![fitted]);
        }
        if let Some(Value::String(inner)) = at(&fitted, "description") {
            description = if description.is_empty() { inner.clone() } else { format!("{description} {inner}") };
        }
        fitted.extend(self.title.map(|title| ("title".to_owned(), title)));
        if !description.is_empty() {
            fitted.insert("description".to_owned(), description.into());
        }
        fitted
    }
}

/// A schema that is nothing but one part of `allOf`, as that part.
fn unwrapped(map: &Map<String, Value>) -> Cow<'_, Map<String, Value>> {
    let mut map = Cow::Borrowed(map);
    for _ in 0..limits::JSON_DEPTH_MAX {
        let Some([Value::Object(only)]) = at(&map, "allOf").and_then(Value::as_array).map(Vec::as_slice) else { break };
        if map.keys().any(|key| key == "$ref" || key != "allOf" && is_rule(key)) {
            break;
        }
        let mut inner = only.clone();
        inner.extend(map.iter().filter(|(key, _)| *key != "allOf").map(|(key, value)| (key.clone(), value.clone())));
        map = Cow::Owned(inner);
    }
    map
}

/// The rules that stand beside one, but for those that are told.
fn beside(map: &Map<String, Value>, keyword: &str) -> Map<String, Value> {
    let is_told = |key: &str| RULES.contains(&key) || matches!(key, "if" | "then" | "else");
    let rules = map.iter().filter(|(key, _)| *key != keyword && is_rule(key) && !is_told(key));
    rules.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Whether a keyword says which values fit.
fn is_rule(keyword: &str) -> bool {
    COMMON_RULES.contains(&keyword) || RULES.contains(&keyword) || kinds::is_of_one(keyword)
}

/// Whether a schema is written so that nothing fits.
fn is_never(map: &Map<String, Value>) -> bool {
    at(map, "not").is_some_and(|not| *not == Value::Bool(true) || not.as_object().is_some_and(Map::is_empty))
}

fn any_of(branches: Vec<Map<String, Value>>) -> Map<String, Value> {
    let branches = branches.into_iter().map(Value::Object).collect();
    Map::from_iter([("anyOf".to_owned(), Value::Array(branches))])
}

/// The same schema, which null fits too.
fn nullable(mut schema: Map<String, Value>) -> Map<String, Value> {
    if takes_null(&schema) {
        return schema;
    }
    if let Some(kind) = at_mut(&mut schema, "type") {
        *kind = Value::Array(vec![kind.take(), Kind::Null.as_str().into()]);
        if let Some(Value::Array(values)) = at_mut(&mut schema, "enum") {
            values.push(Value::Null);
        }
        return schema;
    }
    if let Some(Value::Array(branches)) = at_mut(&mut schema, "anyOf") {
        branches.push(Kind::Null.schema().into());
        return schema;
    }
    any_of(vec![schema, Kind::Null.schema()])
}

/// Whether null fits a schema that was fitted.
fn takes_null(schema: &Map<String, Value>) -> bool {
    let is_null = |kind: &Value| kind == Kind::Null.as_str();
    match at(schema, "type") {
        Some(Value::Array(kinds)) => kinds.iter().any(is_null),
        Some(kind) => is_null(kind),
        None => {
            let branches = at(schema, "anyOf").and_then(Value::as_array);
            branches.into_iter().flatten().filter_map(Value::as_object).any(takes_null)
        }
    }
}
