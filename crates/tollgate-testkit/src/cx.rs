//! What a tool knows about its call, for tests of one tool without a gate.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tollgate_types::{
    AttemptId, CallKind, Caller, CancellationToken, ClientCapabilities, Cx, Progress, Surface, Workspace, limits,
};

use crate::{RecordingDoor, TestClock};

/// A [`Cx`] of a developer in the workspace `root`: nothing protected, no environment variables, a clock that stands
/// still, a door without tools. Change the fields that the test is about.
pub fn cx(root: impl AsRef<Path>) -> Cx {
    Cx {
        caller: Arc::new(Caller::new("tester", "developer", Surface::Library)),
        kind: CallKind::Tool,
        attempt: AttemptId::new("attempt-1"),
        workspace: Arc::new(Workspace { root: root.as_ref().to_owned(), protected: Vec::new(), read_only: vec![] }),
        env: Arc::new(BTreeMap::new()),
        handed_key: None,
        images: None,
        deadline: Duration::from_millis(limits::TOOL_TIMEOUT_MS),
        cancellation: CancellationToken::new(),
        progress: Progress::none(),
        client: ClientCapabilities::default(),
        peer: None,
        trace: None,
        clock: Arc::new(TestClock::default()),
        door: Arc::new(RecordingDoor::new()),
    }
}
