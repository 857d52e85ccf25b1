//! Objects.

use serde_json::{Map, Value};

use super::{Narrower, Place, nullable};
use crate::fit::kinds::Kind;
use crate::fit::{Refusal, Subset, at, words};

const FREE: &str = "its keys are free";

impl Narrower<'_> {
    pub(super) fn object(
        &mut self,
        map: &Map<String, Value>,
        told: &mut Vec<String>,
        place: Place,
    ) -> Result<Option<Map<String, Value>>, Refusal> {
        let required: Vec<&str> =
            at(map, "required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
        let described = at(map, "properties").and_then(Value::as_object);
        if described.is_none_or(Map::is_empty) && place == Place::Below && self.subset == Subset::GeminiOpenApi {
            return Ok(Some(self.written_out(map, told)));
        }
        self.close(map, told)?;
        let mut properties = Map::with_capacity(described.map_or(0, Map::len));
        for (name, schema) in described.into_iter().flatten() {
            let is_required = required.contains(&name.as_str());
            match self.below(name, |at| at.node(schema))? {
                Some(fitted) if !is_required && self.subset == Subset::OpenAiStrict => {
                    properties.insert(name.clone(), nullable(fitted).into());
                }
                Some(fitted) => {
                    properties.insert(name.clone(), fitted.into());
                }
                None if is_required => return Ok(None),
                None => {}
            }
        }
        if properties.is_empty() && place == Place::Below && self.subset == Subset::GeminiOpenApi {
            return Ok(Some(self.written_out(map, told)));
        }
        let (named, unknown): (Vec<&str>, Vec<&str>) =
            required.iter().partition(|name| properties.contains_key(**name));
        if !unknown.is_empty() {
            let names = unknown.join("`, `");
            self.open_to(
                told,
                format!("Also required: `{names}`."),
                &format!("`{names}` is required, but not described"),
            )?;
        }
        let required: Vec<Value> = match self.subset {
            Subset::OpenAiStrict => properties.keys().map(|name| name.as_str().into()).collect(),
            _ => named.into_iter().map(Value::from).collect(),
        };
        let mut out = Kind::Object.schema();
        out.insert("properties".to_owned(), properties.into());
        if !required.is_empty() || self.subset == Subset::OpenAiStrict {
            out.insert("required".to_owned(), required.into());
        }
        if self.subset != Subset::GeminiOpenApi {
            out.insert("additionalProperties".to_owned(), false.into());
        }
        self.keep(&["minProperties", "maxProperties"], map, &mut out, told);
        Ok(Some(out))
    }

    /// Sees to it that the object has no keys but those that are described.
    fn close(&mut self, map: &Map<String, Value>, told: &mut Vec<String>) -> Result<(), Refusal> {
        let others = at(map, "additionalProperties").or_else(|| at(map, "unevaluatedProperties"));
        match others {
            Some(Value::Bool(false)) if self.subset == Subset::GeminiOpenApi => {
                self.lose("`additionalProperties` is not known there");
            }
            Some(Value::Bool(false)) => {}
            None if at(map, "properties").is_some() => {}
            Some(Value::Bool(true)) | None => self.open_to(told, "Other keys may be given.".into(), FREE)?,
            Some(rule) => self.open_to(told, words::rule("additionalProperties", rule), FREE)?,
        }
        let patterns = at(map, "patternProperties").filter(|rule| rule.as_object().is_some_and(|map| !map.is_empty()));
        patterns.map_or(Ok(()), |rule| self.open_to(told, words::rule("patternProperties", rule), FREE))
    }

    /// What a model that is held to a schema could never say.
    fn open_to(&mut self, told: &mut Vec<String>, words: String, why: &str) -> Result<(), Refusal> {
        if self.subset != Subset::GeminiOpenApi {
            return Err(self.refusal(why));
        }
        self.lose(why);
        told.push(words);
        Ok(())
    }

    /// An object without properties, which Gemini refuses: as text, of which the gate makes the object again.
    fn written_out(&mut self, map: &Map<String, Value>, told: &mut Vec<String>) -> Map<String, Value> {
        told.push("A JSON object, written as text.".to_owned());
        for keyword in ["additionalProperties", "patternProperties", "minProperties", "maxProperties"] {
            if let Some(rule) = map.get(keyword).filter(|rule| !rule.is_boolean()) {
                told.push(words::rule(keyword, rule));
            }
        }
        self.lose("an object without properties is asked for as text");
        Kind::String.schema()
    }
}
