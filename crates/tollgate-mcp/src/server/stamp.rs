//! What is said with every result, beside the result.

use serde::Serialize;
use tollgate_types::Outcome;

use super::{Revision, ServerInfo};
use crate::wire_name::Members;

/// A result with what its era adds to every result (MCP 2026-07-28, Base protocol: result type, per-response fields).
#[derive(Serialize)]
pub(super) struct Stamped<'a, R> {
    #[serde(flatten)]
    pub(super) stamp: Option<Stamp<'a>>,
    #[serde(flatten)]
    pub(super) result: &'a R,
}

#[derive(Serialize)]
pub(super) struct Stamp<'a> {
    #[serde(rename = "resultType", skip_serializing_if = "Option::is_none")]
    pub(super) result_type: Option<&'static str>,
    #[serde(rename = "_meta")]
    pub(super) meta: ResultMeta<'a>,
}

#[derive(Serialize)]
pub(super) struct ResultMeta<'a> {
    #[serde(rename = "io.modelcontextprotocol/serverInfo", skip_serializing_if = "Option::is_none")]
    pub(super) server_info: Option<Implementation<'a>>,
    /// The result may say what others wrote: data, and never instructions.
    #[serde(rename = "tollgate/outside", skip_serializing_if = "std::ops::Not::not")]
    pub(super) outside: bool,
    #[serde(rename = "tollgate/warnings", skip_serializing_if = "<[String]>::is_empty")]
    pub(super) warnings: &'a [String],
    /// What the server behind said there.
    #[serde(flatten)]
    pub(super) more: Members<'a>,
}

/// The members of two objects.
#[derive(Serialize)]
pub(super) struct Both<'a> {
    #[serde(flatten)]
    pub(super) one: &'a Members<'a>,
    #[serde(flatten)]
    pub(super) other: serde_json::Map<String, serde_json::Value>,
}

#[derive(Serialize)]
pub(super) struct Implementation<'a> {
    pub(super) name: &'a str,
    pub(super) version: &'a str,
}

impl<'a, R: Serialize> Stamped<'a, R> {
    pub(super) fn new(revision: Revision, info: &'a ServerInfo, result: &'a R) -> Self {
        let server_info = Some(Implementation { name: &info.name, version: &info.version });
        let meta = ResultMeta { server_info, outside: false, warnings: &[], more: Members::default() };
        let stamp = revision.is_stateless().then_some(Stamp { result_type: Some("complete"), meta });
        Self { stamp, result }
    }

    /// The same with what the gate says of the result.
    pub(super) fn telling(mut self, outcome: &'a Outcome) -> Self {
        let warnings = outcome.result().map(|told| told.warnings.as_slice()).unwrap_or_default();
        let is_outside =
            outcome.result().is_some_and(|told| told.outside) || outcome.end.error().is_some_and(|error| error.outside);
        if !is_outside && warnings.is_empty() {
            return self;
        }
        let meta = ResultMeta { server_info: None, outside: false, warnings: &[], more: Members::default() };
        let stamp = self.stamp.get_or_insert(Stamp { result_type: None, meta });
        stamp.meta.outside = is_outside;
        stamp.meta.warnings = warnings;
        self
    }

    /// The same with what the server behind said in its `_meta`.
    pub(super) fn keeping(mut self, more: Members<'a>) -> Self {
        if !more.0.is_empty() {
            let meta = ResultMeta { server_info: None, outside: false, warnings: &[], more: Members::default() };
            self.stamp.get_or_insert(Stamp { result_type: None, meta }).meta.more = more;
        }
        self
    }
}
