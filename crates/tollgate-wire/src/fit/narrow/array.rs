//! Lists.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use super::Narrower;
use crate::fit::kinds::Kind;
use crate::fit::{Refusal, Subset, at, words};

impl Narrower<'_> {
    pub(super) fn array(
        &mut self,
        map: &Map<String, Value>,
        told: &mut Vec<String>,
    ) -> Result<Option<Map<String, Value>>, Refusal> {
        let items = match (at(map, "prefixItems"), at(map, "items")) {
            (Some(Value::Array(places)), rest) => Cow::Owned(self.places(places, rest, told)),
            (_, Some(items)) => Cow::Borrowed(items),
            (_, None) => Cow::Owned(Value::Bool(true)),
        };
        let mut out = Kind::Array.schema();
        let item = self.below("*", |at| at.node(&items))?;
        let item = match item {
            Some(item) => item,
            None if self.subset == Subset::GeminiOpenApi => {
                self.lose("the list must be empty");
                Kind::String.schema()
            }
            None => return Err(self.refusal("the list must be empty")),
        };
        out.insert("items".to_owned(), item.into());
        self.keep(&["minItems", "maxItems", "uniqueItems"], map, &mut out, told);
        Ok(Some(out))
    }

    /// What may stand anywhere in a list whose places differ.
    fn places(&mut self, places: &[Value], rest: Option<&Value>, told: &mut Vec<String>) -> Value {
        told.push(words::rule("prefixItems", &json!(places)));
        self.lose("the places of a list cannot differ");
        let mut any: Vec<Value> = Vec::new();
        for place in places.iter().chain(rest.filter(|rest| !rest.is_boolean())) {
            if !any.contains(place) {
                any.push(place.clone());
            }
        }
        json!({ "anyOf": any })
    }
}
