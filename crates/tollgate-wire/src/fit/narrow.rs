//! A schema for servers that know a part of JSON Schema and refuse the rest. What is joined from several places (`$ref`,
//! `allOf`) becomes one, what is a choice becomes `anyOf`, and each value has a type. What the server does not know goes
//! into words and is noted; what would have to be guessed is refused.

mod array;
mod choice;
mod object;
mod reference;
mod scalar;

use std::collections::HashMap;

use serde_json::{Map, Value};
use tollgate_types::limits;

use super::kinds::{self, Kind};
use super::{Fitted, Refusal, Subset, count, gemini, words};

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
pub(super) fn fit(document: &Value, subset: Subset) -> Result<Fitted, Refusal> {
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
    let is_strict = subset != Subset::GeminiOpenApi;
    if subset == Subset::OpenAiStrict {
        count::check_openai(&schema)?;
    }
    let counts = if is_strict { count::counts(&schema) } else { count::Counts::default() };
    if !is_strict {
        gemini::translate(&mut schema);
    }
    Ok(Fitted { schema, words: told, losses: narrower.losses, is_strict, counts })
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
        let root = self.document.as_object().cloned().unwrap_or_default();
        let mut root = self.flatten(root, told)?;
        if is_never(&root) {
            return Err(self.refusal("no arguments fit"));
        }
        for keyword in ["anyOf", "oneOf", "enum"] {
            let Some(rule) = root.remove(keyword) else { continue };
            told.push(words::rule(keyword, &rule));
            self.lose(format!("`{keyword}` cannot stand at the root of a schema"));
            for branch in rule.as_array().into_iter().flatten().filter_map(Value::as_object) {
                let opened = self.open.len();
                let mut branch = self.flatten(branch.clone(), &mut Vec::new())?;
                self.open.truncate(opened);
                let Some(Value::Object(named)) = branch.remove("properties") else { continue };
                if let Value::Object(properties) = root.entry("properties").or_insert_with(|| Map::new().into()) {
                    for (name, property) in named {
                        properties.entry(name).or_insert(property);
                    }
                }
            }
        }
        self.tell_rules(&mut root, told);
        root.entry("properties").or_insert_with(|| Map::new().into());
        let mut out = self.object(&root, told, Place::Root)?.ok_or_else(|| self.refusal("no arguments fit"))?;
        if let Some(description) = root.remove("description") {
            out.insert("description".to_owned(), description);
        }
        Ok(out)
    }

    /// A subschema; none where no value fits it.
    fn node(&mut self, schema: &Value) -> Result<Option<Map<String, Value>>, Refusal> {
        self.count()?;
        let map = match schema {
            Value::Object(map) => unwrapped(map),
            Value::Bool(false) => return Ok(None),
            _ => Map::new(),
        };
        if is_never(&map) {
            return Ok(None);
        }
        let opened = self.open.len();
        let fitted = self.read(map);
        self.open.truncate(opened);
        fitted
    }

    fn read(&mut self, map: Map<String, Value>) -> Result<Option<Map<String, Value>>, Refusal> {
        if self.has_references()
            && let Some(reference) = map.get("$ref")
        {
            let pointer = self.resolve(reference)?.0;
            let has_rules = map.keys().any(|key| is_rule(key));
            if !has_rules || self.open.contains(&pointer) {
                return self.reference(pointer, map).map(Some);
            }
        }
        let mut told = Vec::new();
        let mut map = self.flatten(map, &mut told)?;
        if is_never(&map) {
            return Ok(None);
        }
        self.tell_rules(&mut map, &mut told);
        let about = About::take(&mut map, told);
        let mut told = Vec::new();
        let choice = ["anyOf", "oneOf"].into_iter().find_map(|keyword| Some((keyword, map.remove(keyword)?)));
        let fitted = match choice {
            Some((keyword, Value::Array(branches))) => self.choice(keyword, &branches, map)?,
            _ => self.typed(&map, &mut told)?,
        };
        Ok(fitted.map(|fitted| about.write(fitted, told)))
    }

    /// What says its types: one schema for each, because the rules of one are not those of another.
    fn typed(
        &mut self,
        map: &Map<String, Value>,
        told: &mut Vec<String>,
    ) -> Result<Option<Map<String, Value>>, Refusal> {
        let values = map.get("enum").and_then(Value::as_array);
        let Some(mut all) = kinds::of(map) else { return self.anything().map(Some) };
        let is_nullable = all.contains(&Kind::Null);
        all.retain(|kind| *kind != Kind::Null);
        let mut fitted = Vec::new();
        for kind in &all {
            let values = values.map(|values| values.iter().filter(|value| kind.has(value)).cloned().collect());
            fitted.extend(self.one(*kind, values, map, told)?);
        }
        let null = || Kind::Null.schema();
        Ok(match (fitted.len(), is_nullable) {
            (0, false) => None,
            (0, true) => Some(null()),
            (1, false) => fitted.pop(),
            (1, true) => fitted.pop().map(nullable),
            (_, false) => Some(any_of(fitted)),
            (_, true) => Some(any_of(fitted.into_iter().chain([null()]).collect())),
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

    /// Takes the rules that the subset does not have.
    fn tell_rules(&mut self, map: &mut Map<String, Value>, told: &mut Vec<String>) {
        if let Some(told_so) = words::condition(map) {
            told.push(told_so);
            self.lose("`if` is not known there");
        }
        for keyword in RULES {
            if let Some(rule) = map.remove(*keyword) {
                told.push(words::rule(keyword, &rule));
                self.lose(format!("`{keyword}` is not known there"));
            }
        }
    }

    /// Does something one step deeper in the arguments.
    fn below<T>(&mut self, segment: &str, work: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        self.path.push('/');
        self.path.push_str(&segment.replace('~', "~0").replace('/', "~1"));
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
    fn take(map: &mut Map<String, Value>, told: Vec<String>) -> Self {
        let description = map.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut about = Self { title: map.remove("title"), description, told };
        if let Some(default) = map.get("default").filter(|default| !default.is_null()) {
            about.told.push(format!("Default: {}.", words::json(default)));
        }
        if let Some(Value::Array(examples)) = map.get("examples") {
            let examples: Vec<_> = examples.iter().map(words::json).collect();
            about.told.push(format!("For example: {}.", examples.join(", ")));
        }
        map.retain(|key, _| is_rule(key));
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
        if fitted.contains_key("$ref") && (self.title.is_some() || !description.is_empty()) {
            fitted = any_of(vec![fitted]);
        }
        if let Some(Value::String(inner)) = fitted.get("description") {
            description = if description.is_empty() { inner.clone() } else { format!("{description} {inner}") };
        }
        fitted.extend(self.title.filter(Value::is_string).map(|title| ("title".to_owned(), title)));
        if !description.is_empty() {
            fitted.insert("description".to_owned(), description.into());
        }
        fitted
    }
}

/// A schema that is nothing but one part of `allOf`, as that part.
fn unwrapped(map: &Map<String, Value>) -> Map<String, Value> {
    let mut map = map.clone();
    for _ in 0..limits::JSON_DEPTH_MAX {
        let is_alone = !map.keys().any(|key| key == "$ref" || key != "allOf" && is_rule(key));
        match map.get("allOf").and_then(Value::as_array).map(Vec::as_slice) {
            Some([Value::Object(only)]) if is_alone => {
                let mut inner = only.clone();
                map.remove("allOf");
                inner.append(&mut map);
                map = inner;
            }
            _ => break,
        }
    }
    map
}

/// Whether a keyword says which values fit.
fn is_rule(keyword: &str) -> bool {
    COMMON_RULES.contains(&keyword) || RULES.contains(&keyword) || kinds::is_of_one(keyword)
}

/// Whether a schema is written so that nothing fits.
fn is_never(map: &Map<String, Value>) -> bool {
    map.get("not").is_some_and(|not| *not == Value::Bool(true) || not.as_object().is_some_and(Map::is_empty))
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
    if let Some(kind) = schema.get_mut("type") {
        *kind = Value::Array(vec![kind.take(), Kind::Null.as_str().into()]);
        if let Some(Value::Array(values)) = schema.get_mut("enum") {
            values.push(Value::Null);
        }
        return schema;
    }
    if let Some(Value::Array(branches)) = schema.get_mut("anyOf") {
        branches.push(Kind::Null.schema().into());
        return schema;
    }
    any_of(vec![schema, Kind::Null.schema()])
}

/// Whether null fits a schema that was fitted.
fn takes_null(schema: &Map<String, Value>) -> bool {
    let is_null = |kind: &Value| kind == Kind::Null.as_str();
    match (schema.get("type"), schema.get("anyOf")) {
        (Some(Value::Array(kinds)), _) => kinds.iter().any(is_null),
        (Some(kind), _) => is_null(kind),
        (None, Some(Value::Array(branches))) => branches.iter().filter_map(Value::as_object).any(takes_null),
        _ => false,
    }
}
