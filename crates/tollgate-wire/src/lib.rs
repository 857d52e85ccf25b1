//! Model dialects without I/O, both directions, and the repair of what models write.
//!
//! Bytes go in and values come out, or the other way round; nobody here opens a socket, runs a tool or decides. The
//! raw text of a call's arguments travels untouched from the wire to the gate; only [`repair`] makes JSON of it.

mod anthropic;
mod calls;
mod carry;
mod chat;
mod dialect;
mod fault;
mod fit;
mod gemini;
pub mod history;
mod ids;
pub mod lower;
mod object;
mod received;
pub mod repair;
mod reply;
mod request;
mod responses;
pub mod stream;
mod turn;

pub use carry::{Carry, Feature, dialects_page};
pub use dialect::Dialect;
pub use fault::{PREVIOUS_GONE, WireFault};
pub use history::{Content, History, Image, Message, Piece};
pub use ids::CallIds;
pub use lower::{Change, GeminiSchema, Lowered, Lowerings, Names, Note, Target, lower};
pub use received::{Offered, Received, TEXT_PROPERTY, read_request};
pub use repair::{JsonFault, Parsed};
pub use reply::{Heading, write_reply};
pub use request::{EmptyContent, Quirks, Request, ToolChoice};
pub use stream::{Event, Sse, Stream, read_reply};
pub use turn::{Finish, HostedCall, Kept, ModelCall, Part, Turn, Usage};
