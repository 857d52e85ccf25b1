//! The command line as people and programs use it: real processes, real folders.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]
#![expect(clippy::indexing_slicing, reason = "a test may stop at the first surprise")]
#![expect(clippy::panic, reason = "a test may stop at the first surprise")]

mod approvals;
mod audit;
mod budgets;
mod call;
mod doctor;
mod erase;
mod eval;
mod explain;
mod failure;
mod http;
mod import;
mod intervention;
mod language;
mod log;
mod logins;
mod mcp;
mod once;
mod pages;
mod policies;
mod policy;
mod programs;
mod proof;
mod redact;
mod redact_http;
mod replicas;
mod run;
mod serve;
mod sessions;
mod shop;
mod shown;
mod story;
mod tidy;
mod undo;
