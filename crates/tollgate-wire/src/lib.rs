//! Model dialects without I/O, both directions, and the repair of what models write.
//!
//! Bytes go in and values come out, or the other way round; nobody here opens a socket, runs a tool or decides. The
//! raw text of a call's arguments travels untouched from the wire to the gate; only [`repair`] makes JSON of it.

pub mod chat;
mod dialect;
pub mod history;
pub mod lower;
pub mod repair;
pub mod stream;
mod turn;

pub use chat::{ChatRequest, EmptyContent, ToolChoice, WireFault};
pub use dialect::Dialect;
pub use history::{History, Message};
pub use lower::{Lowered, Names, lower};
pub use repair::{JsonFault, Parsed};
pub use stream::{ChatStream, Sse};
pub use turn::{Finish, ModelCall, Turn, Usage};
