//! The built-in tools, programs and HTTP requests as tools, and files and schemas as resources.
//!
//! One file a tool, in a folder by category. A tool is handed its arguments and a [`Cx`](tollgate_types::Cx); it knows
//! neither the gate nor another tool. What runs is always the same as what was checked and previewed.

use std::collections::BTreeMap;
use std::sync::Arc;

use tollgate_guard::public::PublicClient;
use tollgate_types::Tool;

mod compute {
    pub(crate) mod calculate;
}
mod data {
    mod cell;
    pub(crate) mod databases;
    pub(crate) mod describe_table;
    pub(crate) mod list_tables;
    pub(crate) mod postgres;
    pub(crate) mod query_database;
    pub(crate) mod schemas;
    mod sqlite;
}
mod environment {
    mod atomic;
    mod change;
    pub(crate) mod edit_file;
    pub(crate) mod files;
    mod image;
    mod lines;
    pub(crate) mod list_files;
    mod place;
    mod protected;
    pub(crate) mod read_file;
    pub(crate) mod restore_file;
    pub(crate) mod search_files;
    mod walk;
    mod workspace;
    pub(crate) mod write_file;
}
mod fingerprint;
mod follow;
mod http;
mod information {
    mod charset;
    pub(crate) mod engine;
    pub(crate) mod fetch_page;
    mod nesting;
    mod pages;
    mod readable;
    mod robots;
    mod robots_cache;
    pub(crate) mod search_web;
}
pub mod native;
mod program;
mod resource;
mod template;
mod text;
mod typed;

pub use data::databases::Database;
pub use data::postgres::{Postgres, PostgresError};
pub use data::schemas::schema_resources;
pub use environment::files::{FileGlobs, file_resources};
pub use follow::Followed;
pub use http::{HeaderValue, HttpSpec, HttpTool, HttpToolError};
pub use information::engine::{SearchConfig, SearchError, SearchKind};
pub use program::{ProgramTool, ProgramToolError, program_files};

/// What the built-in tools need to know of the configuration.
#[derive(Debug, Clone, Default)]
pub struct BaseOptions {
    /// The databases that may be read, by the name that the model uses.
    pub databases: BTreeMap<String, Database>,
    /// The search engine; without one there is no `search_web`.
    pub search: Option<SearchConfig>,
    /// The way to the open web.
    pub public: PublicClient,
}

/// The tools that every installation has: `calculate`, `read_file`, `write_file`, `edit_file`, `list_files`,
/// `search_files`, `query_database`, `list_tables`, `describe_table` and `fetch_page`; and `search_web` where a search
/// engine is configured. Their definitions do not change while they live.
///
/// ```
/// let tools = tollgate_tools::base(tollgate_tools::BaseOptions::default());
/// let names: Vec<String> = tools.iter().map(|tool| tool.definition().name).collect();
/// assert!(names.contains(&"calculate".to_owned()));
/// ```
pub fn base(options: BaseOptions) -> Vec<Arc<dyn Tool>> {
    let databases = data::databases::Databases::new(options.databases);
    let search = options.search.map(|config| typed::tool(information::search_web::SearchWeb::new(config)));
    let mut tools = vec![
        typed::tool(compute::calculate::Calculate),
        typed::tool(environment::read_file::ReadFile),
        typed::tool(environment::write_file::WriteFile),
        typed::tool(environment::edit_file::EditFile),
        typed::tool(environment::list_files::ListFiles),
        typed::tool(environment::search_files::SearchFiles),
        typed::tool(data::query_database::QueryDatabase::new(databases.clone())),
        typed::tool(data::list_tables::ListTables::new(databases.clone())),
        typed::tool(data::describe_table::DescribeTable::new(databases)),
        typed::tool(information::fetch_page::FetchPage::new(options.public)),
    ];
    tools.extend(search);
    tools
}

/// The tool that puts a file back as it was before `write_file` or `edit_file`. No model reads of it: only an undo calls it.
pub fn restore_file() -> Arc<dyn Tool> {
    typed::tool(environment::restore_file::RestoreFile)
}
