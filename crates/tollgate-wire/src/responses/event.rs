//! The JSON of an event and of a reply, read with tolerance: what is not needed does no harm.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::chat::delta::scalar_text;
use crate::fault::{PREVIOUS_GONE, WireFault};
use crate::object::Object;
use crate::stream::error_text;

/// One event of a stream.
#[derive(Deserialize)]
pub(super) struct Event<'a> {
    #[serde(borrow, default, rename = "type")]
    pub(super) kind: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) output_index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) item_id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) content_index: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) delta: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) name: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) arguments: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) item: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) response: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

/// A reply, or what a stream says of it at its end.
#[derive(Deserialize)]
pub(super) struct Response<'a> {
    #[serde(borrow, default)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) status: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    incomplete_details: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) output: Option<Vec<&'a RawValue>>,
    #[serde(borrow, default)]
    pub(super) output_text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) usage: Option<&'a RawValue>,
}

impl Response<'_> {
    /// Why it is not whole.
    pub(super) fn reason(&self) -> String {
        let details = self.incomplete_details.map(RawValue::get).unwrap_or_default();
        let details: Option<Object<'_>> = serde_json::from_str(details).ok();
        details.and_then(|details| Some(details.text("reason")?.into_owned())).unwrap_or_default()
    }
}

/// An error that a server reports within a reply. The whole event is one where it has no object of its own.
pub(super) fn fault(error: &RawValue) -> WireFault {
    let message = error_text(error);
    let fields: Object<'_> = serde_json::from_str(error.get()).unwrap_or_default();
    match fields.text("code") {
        Some(code) if code == PREVIOUS_GONE => WireFault::PreviousGone { message },
        _ => WireFault::Server { message },
    }
}

/// The text of a scalar.
pub(super) fn text_of(raw: Option<&RawValue>) -> String {
    scalar_text(raw).into_owned()
}
