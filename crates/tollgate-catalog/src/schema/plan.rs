//! The schema as coercion, defaults and messages read it: subschemas as numbered nodes, `$ref` already followed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use jsonschema::Validator;
use serde_json::{Map, Value};
use tollgate_types::limits;

use super::SchemaError;

/// Different patterns of one schema.
const PATTERNS_MAX: usize = 128;

/// Keywords that say nothing beyond a type.
const PLAIN: [&str; 10] = [
    "type",
    "title",
    "description",
    "default",
    "examples",
    "$comment",
    "deprecated",
    "readOnly",
    "writeOnly",
    "$schema",
];

/// Keywords under which adding a property can make an object wrong.
const DELICATE: [&str; 12] = [
    "anyOf",
    "oneOf",
    "not",
    "if",
    "dependentSchemas",
    "dependentRequired",
    "dependencies",
    "maxProperties",
    "patternProperties",
    "propertyNames",
    "const",
    "enum",
];

/// Keywords about properties that are not named.
const OTHERS: [&str; 3] = ["additionalProperties", "patternProperties", "unevaluatedProperties"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeId(pub(super) usize);

/// All subschemas that the root reaches.
pub(super) struct Plan {
    nodes: Vec<Node>,
    pub(super) has_defaults: bool,
    pub(super) has_integers: bool,
    /// Whether adding a default can make a value wrong.
    pub(super) is_delicate: bool,
    /// Whether a property under a changed name could pass.
    pub(super) is_open: bool,
}

/// One subschema.
#[derive(Default)]
pub(super) struct Node {
    /// Where it stands: a JSON Pointer.
    pub(super) pointer: String,
    /// The types it allows; without `type`, those of its `enum` or `const`.
    pub(super) types: Types,
    /// Whether its type is all it asks for.
    pub(super) is_plain: bool,
    pub(super) properties: BTreeMap<String, NodeId>,
    pub(super) required: Vec<String>,
    /// Whether it says what becomes of properties that it does not name.
    pub(super) takes_others: bool,
    /// Of properties that are not named; none where patterns may name them.
    pub(super) additional: Option<NodeId>,
    pub(super) prefix: Vec<NodeId>,
    pub(super) items: Option<NodeId>,
    /// What applies as well: `$ref`, `allOf`.
    pub(super) also: Vec<NodeId>,
    /// Of each `anyOf` and `oneOf` the branches.
    pub(super) alternatives: Vec<Vec<NodeId>>,
    pub(super) default: Option<Value>,
    /// Compiled when first needed; none where that fails.
    pub(super) validator: OnceLock<Option<Validator>>,
    conditions: Vec<NodeId>,
    others: Vec<NodeId>,
}

impl Node {
    /// The subschemas that apply to the same value.
    pub(super) fn in_place(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.also.iter().chain(self.alternatives.iter().flatten()).chain(&self.conditions).copied()
    }

    /// The subschemas that apply to values within the value.
    pub(super) fn below(&self) -> impl Iterator<Item = NodeId> + '_ {
        let named = self.properties.values().copied();
        named
            .chain(self.additional)
            .chain(self.prefix.iter().copied())
            .chain(self.items)
            .chain(self.others.iter().copied())
    }

    /// The subschema of an item.
    pub(super) fn item(&self, index: usize) -> Option<NodeId> {
        self.prefix.get(index).copied().or(self.items)
    }
}

impl Plan {
    pub(super) fn compile(root: &Value) -> Result<Self, SchemaError> {
        let mut planner =
            Planner { root, nodes: Vec::new(), seen: BTreeMap::new(), patterns: BTreeSet::new(), anchors: None };
        planner.at(String::new())?;
        let mut next = 0;
        while let Some(pointer) = planner.nodes.get(next).map(|node| node.pointer.clone()) {
            let node = planner.read(pointer)?;
            if let Some(slot) = planner.nodes.get_mut(next) {
                *slot = node;
            }
            next += 1;
        }
        let nodes = planner.nodes;
        let is_delicate = |node: &Node| match root.pointer(&node.pointer) {
            Some(Value::Object(schema)) => DELICATE.iter().any(|keyword| schema.contains_key(*keyword)),
            _ => false,
        };
        Ok(Self {
            has_defaults: nodes.iter().any(|node| node.default.is_some()),
            has_integers: nodes.iter().any(|node| node.types.wants_integer()),
            is_delicate: nodes.iter().any(is_delicate),
            is_open: nodes.iter().any(|node| !node.properties.is_empty() && !node.takes_others),
            nodes,
        })
    }

    pub(super) const ROOT: NodeId = NodeId(0);

    #[expect(clippy::indexing_slicing, reason = "an id is only ever made for a node of its plan")]
    pub(super) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0]
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = NodeId> {
        (0..self.nodes.len()).map(NodeId)
    }

    /// The node at a JSON Pointer. For messages: it looks at every node.
    pub(super) fn find(&self, pointer: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.pointer == pointer)
    }
}

struct Planner<'a> {
    root: &'a Value,
    nodes: Vec<Node>,
    seen: BTreeMap<String, NodeId>,
    patterns: BTreeSet<&'a str>,
    anchors: Option<BTreeMap<&'a str, String>>,
}

impl<'a> Planner<'a> {
    /// The node at a pointer; a new one is read later.
    fn at(&mut self, pointer: String) -> Result<NodeId, SchemaError> {
        if let Some(id) = self.seen.get(&pointer) {
            return Ok(*id);
        }
        if self.nodes.len() >= limits::SCHEMA_NODES_MAX {
            return Err(SchemaError::too_large(format!("the schema has more than {} parts", limits::SCHEMA_NODES_MAX)));
        }
        let id = NodeId(self.nodes.len());
        self.seen.insert(pointer.clone(), id);
        self.nodes.push(Node { pointer, ..Node::default() });
        Ok(id)
    }

    fn each<'k>(&mut self, base: &str, keys: impl Iterator<Item = &'k str>) -> Result<Vec<NodeId>, SchemaError> {
        keys.map(|key| self.at(format!("{base}/{}", escape(key)))).collect()
    }

    fn list(&mut self, base: &str, value: &Value) -> Result<Vec<NodeId>, SchemaError> {
        (0..value.as_array().map_or(0, Vec::len)).map(|index| self.at(format!("{base}/{index}"))).collect()
    }

    fn read(&mut self, pointer: String) -> Result<Node, SchemaError> {
        let root = self.root;
        let schema = match root.pointer(&pointer) {
            Some(Value::Object(schema)) => schema,
            Some(Value::Bool(is_any)) => return Ok(Node { is_plain: *is_any, pointer, ..Node::default() }),
            Some(_) => return Err(SchemaError::invalid(pointer, "a schema is an object or a boolean")),
            None => return Err(SchemaError::invalid(pointer, "`$ref` leads nowhere")),
        };
        let mut node = Node {
            types: Types::of_schema(schema),
            is_plain: schema.keys().all(|key| PLAIN.contains(&key.as_str())),
            takes_others: OTHERS.iter().any(|key| schema.contains_key(*key)),
            ..Node::default()
        };
        for (key, value) in schema {
            let base = format!("{pointer}/{key}");
            match key.as_str() {
                "$id" if !pointer.is_empty() => {
                    return Err(SchemaError::invalid(base, "`$id` is only supported at the root"));
                }
                "$ref" | "$dynamicRef" | "$recursiveRef" => node.also.push(self.follow(&base, value)?),
                "allOf" => node.also.extend(self.list(&base, value)?),
                "anyOf" | "oneOf" => node.alternatives.push(self.list(&base, value)?),
                "required" => {
                    node.required =
                        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect();
                }
                "default" => node.default = Some(value.clone()),
                "pattern" => self.count_pattern(value.as_str())?,
                _ => self.read_children(&mut node, schema, &base, key, value)?,
            }
        }
        node.pointer = pointer;
        Ok(node)
    }

    fn read_children(
        &mut self,
        node: &mut Node,
        schema: &Map<String, Value>,
        base: &str,
        key: &str,
        value: &'a Value,
    ) -> Result<(), SchemaError> {
        let object = || value.as_object().into_iter().flatten();
        match key {
            "properties" => {
                let ids = self.each(base, object().map(|(key, _)| key.as_str()))?;
                node.properties = object().map(|(key, _)| key.clone()).zip(ids).collect();
            }
            "items" if value.is_array() => node.prefix = self.list(base, value)?,
            "prefixItems" => node.prefix = self.list(base, value)?,
            "items" => node.items = Some(self.at(base.to_owned())?),
            "additionalProperties" if !schema.contains_key("patternProperties") => {
                node.additional = Some(self.at(base.to_owned())?);
            }
            "patternProperties" => {
                for (pattern, _) in object() {
                    self.count_pattern(Some(pattern))?;
                }
                node.others.extend(self.each(base, object().map(|(key, _)| key.as_str()))?);
            }
            "not" | "if" | "then" | "else" => node.conditions.push(self.at(base.to_owned())?),
            "dependentSchemas" | "dependencies" => {
                let schemas = object().filter(|(_, value)| !value.is_array()).map(|(key, _)| key.as_str());
                node.conditions.extend(self.each(base, schemas)?);
            }
            "additionalProperties"
            | "additionalItems"
            | "unevaluatedItems"
            | "unevaluatedProperties"
            | "contains"
            | "propertyNames" => node.others.push(self.at(base.to_owned())?),
            _ => {}
        }
        Ok(())
    }

    fn count_pattern(&mut self, pattern: Option<&'a str>) -> Result<(), SchemaError> {
        self.patterns.extend(pattern);
        if self.patterns.len() > PATTERNS_MAX {
            return Err(SchemaError::too_large(format!("the schema has more than {PATTERNS_MAX} patterns")));
        }
        Ok(())
    }

    /// The node that a reference means. Only the schema itself can be meant: nothing is ever fetched.
    fn follow(&mut self, at: &str, reference: &Value) -> Result<NodeId, SchemaError> {
        let Some(reference) = reference.as_str() else {
            return Err(SchemaError::invalid(at, "a reference is text"));
        };
        let Some(fragment) = reference.strip_prefix('#') else {
            return Err(SchemaError::invalid(
                at,
                "only references within the schema are followed, such as `#/$defs/name`",
            ));
        };
        let root = self.root;
        let pointer = decode_fragment(fragment);
        if pointer.is_empty() || pointer.starts_with('/') {
            if root.pointer(&pointer).is_none() {
                return Err(SchemaError::invalid(at, "the reference leads nowhere"));
            }
            return self.at(pointer);
        }
        let anchors = self.anchors.get_or_insert_with(|| {
            let mut anchors = BTreeMap::new();
            gather_anchors(root, String::new(), &mut anchors);
            anchors
        });
        match anchors.get(pointer.as_str()).cloned() {
            Some(pointer) => self.at(pointer),
            None => Err(SchemaError::invalid(at, "the reference leads nowhere")),
        }
    }
}

fn gather_anchors<'a>(value: &'a Value, pointer: String, anchors: &mut BTreeMap<&'a str, String>) {
    match value {
        Value::Object(object) => {
            for keyword in ["$anchor", "$dynamicAnchor"] {
                if let Some(name) = object.get(keyword).and_then(Value::as_str) {
                    anchors.entry(name).or_insert_with(|| pointer.clone());
                }
            }
            for (key, value) in object {
                gather_anchors(value, format!("{pointer}/{}", escape(key)), anchors);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                gather_anchors(item, format!("{pointer}/{index}"), anchors);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A key as a segment of a JSON Pointer (RFC 6901 §3).
pub(super) fn escape(key: &str) -> String {
    if key.contains(['~', '/']) { key.replace('~', "~0").replace('/', "~1") } else { key.to_owned() }
}

/// A JSON Pointer as a URI fragment (RFC 6901 §6).
pub(super) fn encode_fragment(pointer: &str) -> String {
    let mut out = String::with_capacity(pointer.len());
    for byte in pointer.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn decode_fragment(fragment: &str) -> String {
    let mut out = Vec::with_capacity(fragment.len());
    let mut rest = fragment.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        let hex = tail.get(..2).filter(|_| byte == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(decoded) => {
                out.push(decoded);
                rest = tail.get(2..).unwrap_or_default();
            }
            None => {
                out.push(byte);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// A set of JSON types; empty means that nothing is said.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Types(u8);

impl Types {
    pub(super) const NULL: Self = Self(1);
    pub(super) const BOOLEAN: Self = Self(2);
    pub(super) const INTEGER: Self = Self(4);
    pub(super) const NUMBER: Self = Self(8);
    pub(super) const STRING: Self = Self(16);
    pub(super) const ARRAY: Self = Self(32);
    pub(super) const OBJECT: Self = Self(64);

    pub(super) fn is_unsaid(self) -> bool {
        self.0 == 0
    }

    pub(super) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn wants_integer(self) -> bool {
        self.has(Self::INTEGER) && !self.has(Self::NUMBER)
    }

    pub(super) fn accept(self, value: &Value) -> bool {
        self.is_unsaid()
            || match value {
                Value::Number(number) => {
                    let is_integral = number.as_f64().is_some_and(|number| number.fract() == 0.0);
                    self.has(Self::NUMBER) || (is_integral && self.has(Self::INTEGER))
                }
                _ => self.has(Self::of(value)),
            }
    }

    pub(super) fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::NULL,
            Value::Bool(_) => Self::BOOLEAN,
            Value::Number(number) if number.is_f64() => Self::NUMBER,
            Value::Number(_) => Self::INTEGER,
            Value::String(_) => Self::STRING,
            Value::Array(_) => Self::ARRAY,
            Value::Object(_) => Self::OBJECT,
        }
    }

    fn of_schema(schema: &Map<String, Value>) -> Self {
        let union = |all: Self, one: Self| Self(all.0 | one.0);
        match (schema.get("type"), schema.get("const"), schema.get("enum")) {
            (Some(Value::String(name)), _, _) => Self::named(name),
            (Some(Value::Array(names)), _, _) => {
                names.iter().filter_map(Value::as_str).map(Self::named).fold(Self::default(), union)
            }
            (None, Some(value), _) => Self::of(value),
            (None, None, Some(Value::Array(values))) => values.iter().map(Self::of).fold(Self::default(), union),
            _ => Self::default(),
        }
    }

    fn named(name: &str) -> Self {
        match name {
            "null" => Self::NULL,
            "boolean" => Self::BOOLEAN,
            "integer" => Self::INTEGER,
            "number" => Self::NUMBER,
            "string" => Self::STRING,
            "array" => Self::ARRAY,
            "object" => Self::OBJECT,
            _ => Self::default(),
        }
    }
}
