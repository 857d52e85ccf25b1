//! What is shown of a tool's result. Everything here takes a text or a value and gives another: nothing waits, reads a
//! clock or keeps anything, and the time that it takes grows with the result and no faster.
//!
//! A [`Plan`] is what a tool's `output` says, read once: which fields stay and how they are written. [`cut_text`] and
//! [`cut_value`] show what fits into [`Limits`]; [`neutral`] makes visible what is hidden; [`Filter`] and [`Search`] look
//! into a whole result.

mod depth;
mod filter;
mod human;
mod items;
mod measure;
mod media;
mod neutral;
mod outside;
mod path;
mod plan;
mod search;
mod table;
mod text;

pub use depth::{dismantle, is_deeper};
pub use filter::{Filter, FilterError};
pub use items::{ItemCut, Listing, cut_value};
pub use measure::{Limits, Usage, usage_of_json, usage_of_text};
pub use media::{described, embedded_text, is_media};
pub use neutral::{neutral, neutral_value};
pub use outside::framed;
pub use plan::{Plan, PlanError};
pub use search::{Search, SearchError};
pub use table::table;
pub use text::{TextCut, cut_text};
