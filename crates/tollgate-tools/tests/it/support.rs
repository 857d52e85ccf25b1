//! A call as the gate makes it, without the gate: check, then run, and both sides held to their schemas.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tollgate_tools::BaseOptions;
use tollgate_types::{
    AttemptId, BoxFuture, Call, CallKind, Caller, CancellationToken, ClientCapabilities, Clock, Content, Cx, Door,
    Outcome, Progress, Surface, Tool, ToolDefinition, ToolError, ToolOutput, Workspace,
};

/// A door that no built-in tool may open.
struct Closed;

impl Door for Closed {
    fn list<'a>(&'a self, _: &'a Caller) -> BoxFuture<'a, Vec<Arc<ToolDefinition>>> {
        panic!("a built-in tool reaches for other tools");
    }

    fn call<'a>(&'a self, _: &'a Caller, _: Call) -> BoxFuture<'a, Outcome> {
        panic!("a built-in tool calls another");
    }
}

/// A clock that goes on by a millisecond each time it is asked, so that every deadline comes without waiting.
#[derive(Default)]
pub(crate) struct Ticking(AtomicU64);

impl Clock for Ticking {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::UNIX_EPOCH
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// A clock that stands.
struct Standing;

impl Clock for Standing {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::UNIX_EPOCH
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }
}

/// What a run knows.
pub(crate) fn cx(root: &Path, protected: Vec<PathBuf>) -> Cx {
    Cx {
        caller: Arc::new(Caller::new("tester", "developer", Surface::Library)),
        kind: CallKind::Tool,
        attempt: AttemptId::new("0192f0c1-0000-7000-8000-000000000001"),
        workspace: Arc::new(Workspace { root: root.to_owned(), protected, read_only: vec![] }),
        env: Arc::new(tollgate_sandbox::base_env()),
        handed_key: None,
        images: None,
        deadline: Duration::from_secs(30),
        cancellation: CancellationToken::new(),
        progress: Progress::none(),
        client: ClientCapabilities::default(),
        peer: None,
        trace: None,
        clock: Arc::new(Standing),
        door: Arc::new(Closed),
    }
}

/// The built-in tools over a workspace of their own, with `.tollgate` and `tollgate.toml` protected in it.
pub(crate) struct House {
    _dir: TempDir,
    /// The workspace.
    pub(crate) root: PathBuf,
    /// A folder beside it.
    pub(crate) outside: PathBuf,
    /// What a run knows.
    pub(crate) cx: Cx,
    tools: BTreeMap<String, Arc<dyn Tool>>,
}

impl House {
    pub(crate) fn new() -> Self {
        Self::with(BaseOptions::default())
    }

    pub(crate) fn with(options: BaseOptions) -> Self {
        let dir = TempDir::new().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let (root, outside) = (base.join("ws"), base.join("outside"));
        std::fs::create_dir_all(root.join(".tollgate/audit")).unwrap();
        std::fs::create_dir(&outside).unwrap();
        let house = Self {
            cx: cx(&root, vec![root.join(".tollgate"), root.join("tollgate.toml")]),
            tools: tollgate_tools::base(options).into_iter().map(|tool| (tool.definition().name, tool)).collect(),
            _dir: dir,
            root,
            outside,
        };
        house.put(".tollgate/audit/segment-1.jsonl", "SECRET record\n");
        house.put("tollgate.toml", "SECRET = true\n");
        std::fs::write(house.outside.join("key.txt"), "SECRET key\n").unwrap();
        house
    }

    pub(crate) fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn get(&self, path: &str) -> String {
        std::fs::read_to_string(self.root.join(path)).unwrap()
    }

    pub(crate) fn link(&self, target: impl AsRef<Path>, path: &str) {
        let path = self.root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
    }

    pub(crate) fn tool(&self, name: &str) -> &Arc<dyn Tool> {
        self.tools.get(name).unwrap()
    }

    pub(crate) fn check(&self, name: &str, arguments: &Value) -> Result<(), ToolError> {
        self.tool(name).check(arguments, &self.cx)
    }

    pub(crate) async fn call(&self, name: &str, arguments: Value) -> Result<ToolOutput, ToolError> {
        call(self.tool(name).as_ref(), arguments, &self.cx).await
    }

    /// The text of a call that works.
    pub(crate) async fn text(&self, name: &str, arguments: Value) -> String {
        let shown = arguments.to_string();
        text(&self.call(name, arguments).await.unwrap_or_else(|error| panic!("{name} {shown}: {error:?}")))
    }

    /// The structured result of a call that works.
    pub(crate) async fn value(&self, name: &str, arguments: Value) -> Value {
        self.call(name, arguments).await.unwrap().structured.unwrap()
    }

    /// The tool's own code of a call that does not, or the gate's.
    pub(crate) async fn code(&self, name: &str, arguments: Value) -> String {
        code(&self.call(name, arguments).await.unwrap_err())
    }
}

/// As the gate: arguments that fit the schema, the tool's own check, the run, and a result that fits.
pub(crate) async fn call(tool: &dyn Tool, arguments: Value, cx: &Cx) -> Result<ToolOutput, ToolError> {
    let definition = tool.definition();
    let schema = jsonschema::validator_for(&definition.input_schema).unwrap();
    if let Err(error) = schema.validate(&arguments) {
        return Err(ToolError::invalid(error.instance_path().to_string(), error.to_string()));
    }
    tool.check(&arguments, cx)?;
    let output = tool.call(arguments, cx.clone()).await?;
    if let (Some(schema), Some(value)) = (&definition.output_schema, &output.structured) {
        jsonschema::validate(schema, value).unwrap();
    }
    Ok(output)
}

pub(crate) fn text(output: &ToolOutput) -> String {
    match output.content.as_slice() {
        [Content::Text(text)] => text.clone(),
        other => panic!("one text expected: {other:?}"),
    }
}

pub(crate) fn code(error: &ToolError) -> String {
    error.tool_code.clone().unwrap_or_else(|| error.code.to_string())
}
