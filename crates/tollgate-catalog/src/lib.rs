//! The directory of tool definitions: register, look up, validate.
//!
//! A [`Catalog`] holds definitions with their compiled schemas and runs nothing. What is registered was checked: its
//! name, its limits and its schemas are sound, so that nothing about a definition can fail when a call comes.
//!
//! ```
//! use serde_json::json;
//! use tollgate_catalog::Catalog;
//! use tollgate_types::ToolDefinition;
//!
//! let catalog = Catalog::new();
//! let mut tool = ToolDefinition::new("wait", "Waits.");
//! tool.input_schema = json!({"type": "object", "properties": {"seconds": {"type": "integer", "default": 1}}});
//! let entry = catalog.register(tool)?;
//!
//! let mut arguments = json!({"seconds": "5"});
//! assert_eq!(entry.input.coerce(&mut arguments)[0].rule, "string_to_integer");
//! entry.input.fill_defaults(&mut arguments);
//! assert!(entry.input.validate(&arguments).is_empty());
//! assert_eq!(arguments, json!({"seconds": 5}));
//! # Ok::<(), tollgate_catalog::RegisterError>(())
//! ```

mod dialect;
mod idempotency;
mod nearest;
mod register;
mod registry;
mod schedule;
pub mod schema;
mod search;
mod template;
mod text_input;

pub use dialect::to_definition;
pub use nearest::{nearest, unknown_tool};
pub use register::{RegisterError, pin};
pub use registry::{Catalog, Entry, Resolved};
pub use schedule::{Lanes, Schedule};
pub use search::search;
