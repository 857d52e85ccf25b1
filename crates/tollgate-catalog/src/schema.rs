//! JSON Schema as the gate needs it: compile once, then coerce, fill defaults and validate every call.
//!
//! Schemas come from outside. Nothing is fetched, patterns run in linear time, and what would cost too much (a bomb of
//! `$ref`, a schema that contains itself in place) is refused when it is compiled. [`jsonschema`] is used here only.

mod bounds;
mod coerce;
mod explain;
mod fill;
mod misnamed;
mod plan;
mod right;
mod strict;

use std::fmt;

use jsonschema::{PatternOptions, Registry, ValidationOptions, Validator};
use serde_json::{Value, json};
use thiserror::Error;
use tollgate_types::{Repair, Violation};

use plan::{NodeId, Plan};

/// One compiled pattern.
const PATTERN_BYTES_MAX: usize = 1024 * 1024;
/// Where a schema's own document is known while a part of it is compiled.
const DOCUMENT_URI: &str = "urn:tollgate:schema";

/// Why a schema can not be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SchemaError {
    /// It is no schema, or uses what is not supported.
    #[error("{message} (at `{pointer}`)")]
    Invalid {
        /// Where in the schema: a JSON Pointer.
        pointer: String,
        /// What is wrong there.
        message: String,
    },
    /// It is too large, or becomes so when its `$ref` are followed.
    #[error("{message}")]
    TooLarge {
        /// What is too large.
        message: String,
    },
}

impl SchemaError {
    /// A stable code for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "bad_schema",
            Self::TooLarge { .. } => "schema_too_large",
        }
    }

    pub(crate) fn invalid(pointer: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid { pointer: pointer.into(), message: message.into() }
    }

    fn too_large(message: impl Into<String>) -> Self {
        Self::TooLarge { message: message.into() }
    }
}

/// A compiled schema.
pub struct Schema {
    document: Value,
    validator: Validator,
    plan: Plan,
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Schema").field(&self.document).finish()
    }
}

impl Schema {
    /// Compiles a schema: draft 2020-12 unless its `$schema` names another, asserting `format`.
    ///
    /// # Errors
    /// What is no schema, has a `$ref` out of itself or a pattern that is not regular, or is too large.
    pub fn compile(schema: &Value) -> Result<Self, SchemaError> {
        bounds::check_document(schema)?;
        let plan = Plan::compile(schema)?;
        bounds::check_plan(&plan)?;
        let validator = options().build(schema).map_err(|error| {
            let message = explain::shorten(&error.to_string());
            SchemaError::invalid(error.instance_path().as_str(), message)
        })?;
        Ok(Self { document: schema.clone(), validator, plan })
    }

    /// Converts what can be converted without loss, only where a value does not fit, and says what it did.
    ///
    /// A float without fraction becomes an integer where an integer is wanted, although it fits, so that a tool's typed
    /// reading of it does not fail. Where more than one conversion would fit, nothing is done.
    pub fn coerce(&self, value: &mut Value) -> Vec<Repair> {
        let is_done = self.validator.is_valid(value) && !(self.plan.has_integers && coerce::has_integral_float(value));
        if is_done { Vec::new() } else { coerce::coerce(self, value) }
    }

    /// Adds the defaults of absent properties to the objects that are there. A default that does not fit is left out,
    /// and a value that fits before still fits.
    pub fn fill_defaults(&self, value: &mut Value) {
        if self.plan.has_defaults {
            fill::fill(self, value);
        }
    }

    /// Everything that is wrong with a value, at most [`tollgate_types::limits::VIOLATIONS_MAX`]; empty when it fits.
    pub fn validate(&self, value: &Value) -> Vec<Violation> {
        if self.validator.is_valid(value) { Vec::new() } else { explain::violations(self, value) }
    }

    /// The properties of arguments that have a changed name, such as `Path` for `path`, where the schema itself would let
    /// them pass.
    pub fn misnamed(&self, arguments: &Value) -> Vec<Violation> {
        if self.plan.is_open { misnamed::misnamed(self, arguments) } else { Vec::new() }
    }

    /// Whether a value fits a part of the schema.
    fn fits(&self, id: NodeId, value: &Value) -> bool {
        let node = self.plan.node(id);
        if node.is_plain {
            return node.types.accept(value);
        }
        if node.pointer.is_empty() {
            return self.validator.is_valid(value);
        }
        let part = node.validator.get_or_init(|| self.compile_part(&node.pointer));
        part.as_ref().is_some_and(|part| part.is_valid(value))
    }

    /// Compiled when first needed: most calls fit at first sight.
    fn compile_part(&self, pointer: &str) -> Option<Validator> {
        let registry = Registry::new().add(DOCUMENT_URI, &self.document).ok()?.prepare().ok()?;
        let part = json!({ "$ref": format!("{DOCUMENT_URI}#{}", plan::encode_fragment(pointer)) });
        options().with_registry(&registry).build(&part).ok()
    }
}

fn options<'i>() -> ValidationOptions<'i> {
    let patterns = PatternOptions::regex().size_limit(PATTERN_BYTES_MAX).dfa_size_limit(PATTERN_BYTES_MAX);
    jsonschema::options().offline().should_validate_formats(true).with_pattern_options(patterns)
}

#[cfg(test)]
mod tests;
