//! The built-in tools, and programs and HTTP requests as tools.
//!
//! One file a tool, in a folder by category. A tool is handed its arguments and a [`Cx`](tollgate_types::Cx); it knows
//! neither the gate nor another tool. What runs is always the same as what was checked and previewed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use tollgate_types::Tool;

mod compute {
    pub(crate) mod calculate;
}
mod data {
    pub(crate) mod query_database;
    mod sqlite;
}
mod environment {
    mod atomic;
    mod change;
    pub(crate) mod edit_file;
    mod lines;
    pub(crate) mod list_files;
    mod place;
    mod protected;
    pub(crate) mod read_file;
    pub(crate) mod search_files;
    mod walk;
    mod workspace;
    pub(crate) mod write_file;
}
mod fingerprint;
mod http;
pub mod native;
mod program;
mod template;
mod text;
mod typed;

pub use http::{HeaderValue, HttpSpec, HttpTool, HttpToolError};
pub use program::{ProgramTool, ProgramToolError, program_files};

/// What the built-in tools need to know of the configuration.
#[derive(Debug, Clone, Default)]
pub struct BaseOptions {
    /// The SQLite files that `query_database` may read, by the name that the model uses.
    pub databases: BTreeMap<String, PathBuf>,
}

/// The tools that every installation has: `calculate`, `read_file`, `write_file`, `edit_file`, `list_files`,
/// `search_files` and `query_database`. Their definitions do not change while they live.
///
/// ```
/// let tools = tollgate_tools::base(tollgate_tools::BaseOptions::default());
/// let names: Vec<String> = tools.iter().map(|tool| tool.definition().name).collect();
/// assert!(names.contains(&"calculate".to_owned()));
/// ```
pub fn base(options: BaseOptions) -> Vec<Arc<dyn Tool>> {
    vec![
        typed::tool(compute::calculate::Calculate),
        typed::tool(environment::read_file::ReadFile),
        typed::tool(environment::write_file::WriteFile),
        typed::tool(environment::edit_file::EditFile),
        typed::tool(environment::list_files::ListFiles),
        typed::tool(environment::search_files::SearchFiles),
        typed::tool(data::query_database::QueryDatabase::new(options.databases)),
    ]
}
