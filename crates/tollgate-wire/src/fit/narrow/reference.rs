//! What stands elsewhere in the schema, and what is joined from several places.

use std::borrow::Cow;

use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};

use super::{ANNOTATIONS, About, Narrower, beside, is_never, is_rule};
use crate::fit::join::{self, Joined};
use crate::fit::{Refusal, Subset, drafts, words};

/// How often a part may stand within itself where references are written out.
const WITHIN_ITSELF_MAX: usize = 2;
const NAME_CHARS_MAX: usize = 64;

impl<'s> Narrower<'s> {
    /// Where a reference leads: a JSON Pointer, and what stands there.
    pub(super) fn resolve(&self, reference: &Value) -> Result<(String, &'s Value), Refusal> {
        let found = reference.as_str().and_then(|text| text.strip_prefix('#')).and_then(|fragment| {
            let pointer = percent_decode_str(fragment).decode_utf8().ok()?.into_owned();
            let target = self.document.pointer(&pointer)?;
            Some((pointer, target))
        });
        found.ok_or_else(|| self.refusal(format!("`$ref` leads nowhere: {}", words::json(reference))))
    }

    /// What a schema says, itself or where it refers to, without following further.
    pub(super) fn look<'v>(&self, schema: &'v Value) -> &'v Value
    where
        's: 'v,
    {
        let target = schema.get("$ref").and_then(|reference| self.resolve(reference).ok());
        target.map_or(schema, |(_, target)| target)
    }

    /// A reference that stays one. What is asked beside it is told.
    pub(super) fn reference(
        &mut self,
        pointer: String,
        map: &Map<String, Value>,
    ) -> Result<Map<String, Value>, Refusal> {
        if self.subset == Subset::AnthropicStrict && self.open.contains(&pointer) {
            return Err(self.refusal("the schema contains itself"));
        }
        let mut told = Vec::new();
        self.tell_rules(map, &mut told);
        let about = About::of(map, told);
        let mut told = Vec::new();
        let rules = beside(map, "$ref");
        if !rules.is_empty() {
            told.push(words::rule("allOf", &Value::Object(rules)));
            self.lose("nothing can be asked beside a `$ref`");
        }
        let reference = match self.named.get(&pointer) {
            Some(reference) => reference.clone(),
            None => self.define(pointer)?,
        };
        Ok(about.write(Map::from_iter([("$ref".to_owned(), reference.into())]), told))
    }

    fn define(&mut self, pointer: String) -> Result<String, Refusal> {
        let name = self.free_name(&pointer);
        let reference = format!("#/$defs/{name}");
        let target = self.document.pointer(&pointer).unwrap_or(&Value::Null);
        // The place is taken before the part is read: it may refer to itself.
        self.parts.insert(name.clone(), Value::Null);
        self.named.insert(pointer.clone(), reference.clone());
        self.open.push(pointer);
        let part = self.node(target)?;
        self.open.pop();
        let part = part.ok_or_else(|| self.refusal("no value fits here"))?;
        self.parts.insert(name, part.into());
        Ok(reference)
    }

    fn free_name(&self, pointer: &str) -> String {
        let last = pointer.rsplit('/').next().unwrap_or_default();
        let legal = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
        let name: String = last.chars().map(legal).take(NAME_CHARS_MAX).collect();
        let name = if name.is_empty() { "part".to_owned() } else { name };
        let numbered = (2..).map(|number| format!("{name}_{number}"));
        let free = std::iter::once(name.clone()).chain(numbered).find(|name| !self.parts.contains_key(name));
        free.unwrap_or(name)
    }

    /// What a schema asks itself, by `$ref` and by `allOf`, as one. What cannot be joined is told.
    pub(super) fn flatten<'v>(
        &mut self,
        map: Cow<'v, Map<String, Value>>,
        told: &mut Vec<String>,
    ) -> Result<Cow<'v, Map<String, Value>>, Refusal> {
        self.count()?;
        let has = |keywords: &[&str]| map.keys().any(|key| keywords.contains(&key.as_str()));
        if has(&["$dynamicRef", "$recursiveRef"]) {
            return Err(self.refusal("a reference depends on where it is read from"));
        }
        if !has(&["$ref", "allOf", "const"]) && !drafts::is_old(&map) {
            return Ok(map);
        }
        let mut map = asking(map.into_owned());
        drafts::renew(&mut map);
        let mut others = Vec::new();
        others.extend(map.remove("const").map(|value| json!({ "enum": [value] })));
        if let Some(reference) = map.remove("$ref") {
            others.push(self.enter(&reference)?);
        }
        if let Some(Value::Array(all)) = map.remove("allOf") {
            others.extend(all);
        }
        for other in others {
            let other = match other {
                Value::Object(other) => asking(self.flatten(Cow::Owned(other), told)?.into_owned()),
                Value::Bool(false) => return Ok(never()),
                _ => continue,
            };
            if is_never(&other) {
                return Ok(never());
            }
            map = match join::join(map, other.clone()) {
                Joined::Whole(map) => map,
                Joined::Never => return Ok(never()),
                Joined::Apart(map) => {
                    told.push(words::rule("allOf", &Value::Object(other)));
                    self.lose("`allOf` cannot be joined");
                    map
                }
            };
        }
        Ok(Cow::Owned(map))
    }

    /// What a reference means, to be written in its place. Where that would never end it is cut.
    fn enter(&mut self, reference: &Value) -> Result<Value, Refusal> {
        let (pointer, target) = self.resolve(reference)?;
        let times = self.open.iter().filter(|open| **open == pointer).count();
        let is_bounded = self.subset == Subset::GeminiOpenApi;
        if times < if is_bounded { WITHIN_ITSELF_MAX } else { 1 } {
            self.open.push(pointer);
            return Ok(target.clone());
        }
        if !is_bounded {
            return Err(self.refusal("the schema contains itself, joined with more"));
        }
        self.lose("the schema contains itself, and ends here");
        let kind = target.get("type").filter(|kind| kind.is_string()).cloned();
        Ok(json!({ "type": kind.unwrap_or_else(|| "object".into()) }))
    }
}

/// A schema without what neither asks nor tells anything.
fn asking(mut map: Map<String, Value>) -> Map<String, Value> {
    let is_read = |key: &str| key == "$ref" || is_rule(key) || ANNOTATIONS.contains(&key);
    map.retain(|key, _| is_read(key));
    map
}

/// A schema that nothing fits.
fn never() -> Cow<'static, Map<String, Value>> {
    Cow::Owned(Map::from_iter([("not".to_owned(), json!({}))]))
}
