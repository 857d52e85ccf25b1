//! Doubles and builders for tests: a scripted model server, MCP servers of every bad character, a recording door, the tools, resources and prompts of MCP's
//! conformance suite, the law that a gateway changes nothing, a clock that tests move, a disk that fails where they say so, a folder that goes away by itself, and
//! the reference gate with what makes houses and stories.
//!
//! A double checks the protocol on everything that reaches it, so that a test with a double also tests the contract.
//! Nothing here belongs in a product: a double that is used wrongly fails the test that uses it.

mod clock;
mod cx;
mod disk;
mod door;
mod entries;
pub mod faithful;
mod fixtures;
mod folder;
mod mirror;
pub mod model;
pub mod reference;
pub mod servers;

pub use clock::TestClock;
pub use cx::cx;
pub use disk::{Act, Fault, TestDisk};
pub use door::RecordingDoor;
pub use entries::{EntryFixture, entry_fixtures};
pub use fixtures::{Fixture, Trigger, fixtures};
pub use folder::Folder;
pub use mirror::Mirror;
