//! A limit on everything, each with its unit last in the name.

/// Rounds of the agent loop before it must answer.
pub const ROUNDS_MAX: u32 = 10;
/// The most that can be said.
pub const ROUNDS_MAX_MAX: u32 = 1_000;
/// Calls of one round that run at once.
pub const CALLS_AT_ONCE_MAX: usize = 5;
/// Calls that one model turn may ask for.
pub const CALLS_PER_TURN_MAX: usize = 128;
/// Raw arguments of one call.
pub const ARGUMENTS_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Nesting of arguments and of protocol messages.
pub const JSON_DEPTH_MAX: usize = 64;
/// The name of a resource, a template or a prompt.
pub const ENTRY_NAME_BYTES_MAX: usize = 4 * 1024;

/// A tool's name on every wire.
pub const TOOL_NAME_CHARS_MAX: usize = 64;
/// A schema's canonical JSON.
pub const SCHEMA_BYTES_MAX: usize = 256 * 1024;
/// Subschemas of one schema after following each `$ref` once.
pub const SCHEMA_NODES_MAX: usize = 10_000;
/// A grammar of free text.
pub const GRAMMAR_CHARS_MAX: usize = 64 * 1024;
/// Violations reported for one call.
pub const VIOLATIONS_MAX: usize = 32;
/// How long a tool may run unless its definition says otherwise.
pub const TOOL_TIMEOUT_MS: u64 = 30_000;
/// The longest timeout a definition may ask for.
pub const TOOL_TIMEOUT_MS_MAX: u64 = 24 * 60 * 60 * 1000;
/// Calls of one tool that run at once unless its definition says otherwise.
pub const TOOL_CONCURRENT_MAX: usize = 5;
/// How often a failed call is made again where that is declared without a number.
pub const RETRIES: u32 = 3;
/// The most that can be said.
pub const RETRIES_MAX: u32 = 10;
/// Between the first try and the second; each later pause is twice as long.
pub const RETRY_PAUSE_MS: u64 = 1_000;
/// The longest pause, unless it is said; a server's `Retry-After` is waited for as long at most.
pub const RETRY_PAUSE_MS_MAX: u64 = 60_000;
/// Retries in a hundred calls of one source, unless it is said.
pub const RETRY_BUDGET_PERCENT: u32 = 20;
/// Retries of one source beyond that, unless it is said.
pub const RETRY_BUDGET_RESERVE: u32 = 20;
/// The most that can be said.
pub const RETRY_BUDGET_RESERVE_MAX: u32 = 10_000;
/// Failures in a row after which a source is left alone, unless it is said.
pub const BREAKER_FAILURES: u32 = 5;
/// For how long, unless it is said.
pub const BREAKER_OPEN_MS: u64 = 30_000;
/// The longest that can be said.
pub const BREAKER_OPEN_MS_MAX: u64 = 60 * 60 * 1000;
/// Calls of one source that run at once, unless it is said.
pub const SOURCE_CONCURRENT_MAX: u32 = 64;
/// Calls of one source that wait for their turn, unless it is said.
pub const SOURCE_WAITING_MAX: u32 = 256;
/// How long calls under way may go on when Tollgate is told to stop, unless it is said.
pub const DRAIN_MS: u64 = 10_000;
/// The longest that can be said.
pub const DRAIN_MS_MAX: u64 = 60 * 60 * 1000;
/// A template of a fallback's argument.
pub const TEMPLATE_CHARS_MAX: usize = 1_000;
/// Steps that rendering one takes.
pub const TEMPLATE_FUEL_MAX: u64 = 10_000;
/// The arguments that it reads, as JSON.
pub const TEMPLATE_INPUT_BYTES_MAX: usize = 64 * 1024;
/// What it makes.
pub const TEMPLATE_OUTPUT_BYTES_MAX: usize = 64 * 1024;
/// Calls under way in one gate, those that tools make included; more are told to come back.
pub const CALLS_UNDER_WAY_MAX: usize = 1_024;
/// Calls of one batch that are under way at once.
pub const BATCH_CALLS_AT_ONCE_MAX: usize = 16;
/// Calls of one batch; those beyond it are refused.
pub const BATCH_CALLS_MAX: usize = 10_000;
/// How deep calls may be nested that tools make.
pub const CALL_DEPTH_MAX: u32 = 8;
/// What a call may cost, and a budget hold.
pub const UNITS_MAX: u64 = 1_000_000_000_000;
/// Counts of budgets in one data folder; beyond it those go that were not used for [`SPENDING_KEPT_MS`].
pub const SPENDING_COUNTS_MAX: u32 = 100_000;
/// How long a count of a budget is kept at least.
pub const SPENDING_KEPT_MS: u64 = 7 * 24 * 60 * 60 * 1000;
/// What the model sees of a result unless the definition says otherwise.
pub const OUTPUT_CHARS_MAX: usize = 10_000;
/// A tool's words on its failure, and the advice with it.
pub const ERROR_CHARS_MAX: usize = 4_000;
/// How long a yes for the rest of a session stands.
pub const GRANT_TTL_MS: u64 = 60 * 60 * 1000;
/// How many calls may run under such a yes.
pub const GRANT_CALLS_MAX: u32 = 100;
/// What an approver has to type.
pub const TYPED_CHARS_MAX: usize = 200;
/// A tool's own code.
pub const TOOL_CODE_CHARS_MAX: usize = 64;
/// What is kept of a result; beyond it the call fails with `result_too_large`.
pub const RESULT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// What a program may print on standard output.
pub const PROGRAM_STDOUT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// What is kept of a program's standard error: its end.
pub const PROGRAM_STDERR_BYTES_MAX: usize = 8 * 1024;
/// Between asking a process group to stop and killing it.
pub const PROGRAM_GRACE_MS: u64 = 500;
/// Listing an upstream's tools.
pub const UPSTREAM_LIST_TIMEOUT_MS: u64 = 5_000;
/// One body of an HTTP response.
pub const HTTP_BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Opening a connection.
pub const HTTP_CONNECT_TIMEOUT_MS: u64 = 10_000;
/// One page of the open web, decoded from its transfer.
pub const PAGE_BYTES_MAX: usize = 5 * 1024 * 1024;
/// What one call shows of a page.
pub const PAGE_CHARS_MAX: usize = 20_000;
/// Nesting of a page's elements.
pub const PAGE_DEPTH_MAX: usize = 400;
/// Pages kept so that their parts agree.
pub const PAGES_KEPT_MAX: usize = 16;
/// Their texts together; the one that was read last is kept in any case.
pub const PAGES_KEPT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How long a page is kept.
pub const PAGE_KEPT_MS: u64 = 10 * 60 * 1000;
/// What is read of a `robots.txt`; RFC 9309 §2.5 asks for 500 KiB at least.
pub const ROBOTS_BYTES_MAX: usize = 512 * 1024;
/// How long a `robots.txt` is believed; RFC 9309 §2.4 allows a day.
pub const ROBOTS_KEPT_MS: u64 = 60 * 60 * 1000;
/// Hosts whose `robots.txt` is remembered.
pub const ROBOTS_KEPT_MAX: usize = 128;
/// The answer of a search engine.
pub const SEARCH_BYTES_MAX: usize = 2 * 1024 * 1024;
/// What a database's answer may hold; it ends early there.
pub const DATABASE_ANSWER_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Waiting for a lock in a database.
pub const DATABASE_LOCK_TIMEOUT_MS: u64 = 5_000;
/// Tables that one listing shows.
pub const TABLES_LISTED_MAX: usize = 500;
/// Tables that the schema of a database describes.
pub const TABLES_DESCRIBED_MAX: usize = 200;
/// Files of the workspace that are listed as resources.
pub const FILES_LISTED_MAX: usize = 5_000;
/// How long looking for them may take.
pub const FILES_LISTED_TIMEOUT_MS: u64 = 5_000;
/// A file of the workspace as a resource.
pub const FILE_RESOURCE_BYTES_MAX: u64 = 8 * 1024 * 1024;
/// How often a model server is asked again where nothing else is configured.
pub const MODEL_RETRIES: u32 = 2;
/// How often it may be asked again.
pub const MODEL_RETRIES_MAX: u32 = 10;
/// A model server's silence: time to the head of its reply, and between two chunks.
pub const MODEL_IDLE_TIMEOUT_MS: u64 = 120_000;
/// The longest that anybody may be told to wait for a model server.
pub const MODEL_TIMEOUT_MS_MAX: u64 = 24 * 60 * 60 * 1000;
/// One turn of a model, with every try.
pub const MODEL_TOTAL_TIMEOUT_MS: u64 = 1_800_000;
/// An image in a result that a model is shown, in base64: what the providers take at most.
pub const IMAGE_BASE64_BYTES_MAX: usize = 5 * 1024 * 1024;
/// Tokens that a model may write in one turn, unless it is said, where the server wants a number (Anthropic).
pub const MODEL_TURN_TOKENS: u32 = 8_192;
/// One event of a model's stream.
pub const SSE_EVENT_BYTES_MAX: usize = 16 * 1024 * 1024;
/// One protocol message on standard input.
pub const FRAME_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Requests of one stdio connection under way at once.
pub const STDIO_IN_FLIGHT_MAX: usize = 64;
/// Resources that one client follows.
pub const FOLLOWED_MAX: usize = 1_000;
/// Resources that all clients of a house follow, counted for each.
pub const FOLLOWED_BY_ALL_MAX: usize = 16 * 1024;
/// Arguments and results longer than this are recorded as length and SHA-256.
pub const RECORD_TEXT_CHARS_MAX: usize = 2_000;
/// A segment of the ledger before the next one begins.
pub const SEGMENT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Records of reads reach the disk within this time.
pub const LEDGER_SYNC_MS: u64 = 50;
/// Space that the ledger keeps back on the disk, so that the ends of calls under way can be written when it is full: room
/// for those of some hundred calls. No call begins without it; it is made once there is space for it twice.
pub const LEDGER_RESERVE_BYTES: u64 = 1024 * 1024;
/// Waiting for another process's turn at the ledger.
pub const LEDGER_LOCK_WAIT_MS: u64 = 5_000;
/// Appends that wait for one.
pub const LEDGER_WAITING_MAX: usize = 4_096;
/// A record of the ledger is covered by a signed checkpoint within this time.
pub const CHECKPOINT_MS: u64 = 1_000;
/// Or as soon as so many records are not covered.
pub const CHECKPOINT_RECORDS: u64 = 1_000;
/// While nothing happens, a checkpoint says this often that nothing did.
pub const CHECKPOINT_IDLE_MS: u64 = 60_000;
/// How long records are taken while no checkpoint can be written.
pub const CHECKPOINT_LAG_MS: u64 = 60_000;
/// How long an unanswered approval stays open.
pub const APPROVAL_TTL_MS: u64 = 24 * 60 * 60 * 1000;
/// How long a question to the client of a call, and so to its human, may stand.
pub const CLIENT_ANSWER_TIMEOUT_MS: u64 = 10 * 60 * 1000;
/// How long a call may take before a client that knows tasks is given one, unless it is said.
pub const TASK_AFTER_MS: u64 = 10_000;
/// How long a task is kept after its end, unless it is said.
pub const TASK_KEPT_MS: u64 = 60 * 60 * 1000;
/// How long a task is kept of which nobody says how it ended.
pub const TASK_UNENDED_MS: u64 = 7 * 24 * 60 * 60 * 1000;
/// How often a client should ask how a task does.
pub const TASK_POLL_MS: u64 = 1_000;
/// Tasks of one process that have not ended; calls of more are waited for. Fewer than calls may be under way.
pub const TASKS_OPEN_MAX: usize = 512;
/// The same of one caller.
pub const TASKS_OPEN_BY_ONE_MAX: usize = 64;
/// Tasks of one caller that are kept, ended ones included.
pub const TASKS_KEPT_MAX: u32 = 1_024;
/// What is kept of their results before no more are made.
pub const TASKS_KEPT_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// What a task says of where it is.
pub const TASK_MESSAGE_CHARS_MAX: usize = 500;
/// How often a call is made again because a human answered: a call may need several answers.
pub const TASK_ANSWERS_MAX: u32 = 8;
/// Between two looks whether a human answered.
pub const TASK_LOOK_MS: u64 = 1_000;
/// How long the end of a process waits for what its last tasks came to.
pub const TASK_STOP_MS: u64 = 2_000;
/// How far the clock may go back before what was asked or granted counts as over: its age is not known any more.
pub const CLOCK_BACK_MS_MAX: u64 = 60 * 1000;
/// A person's name in a signed answer.
pub const APPROVER_CHARS_MAX: usize = 128;
/// The words of who answers.
pub const ANSWER_REASON_CHARS_MAX: usize = 2_000;
/// The body of a signed answer.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// How far the time of a signed answer may be from ours, both ways.
pub const ANSWER_TOLERANCE_SECONDS: i64 = 5 * 60;
/// How long the id of a signed answer is remembered: longer than its time could be believed, and than its question lives.
pub const ANSWER_ID_TTL_MS: u64 = 2 * APPROVAL_TTL_MS;
/// Ids of signed answers that are remembered; beyond them no more are taken.
pub const ANSWER_IDS_MAX: u32 = 100_000;
/// The secrets of one webhook, those that are going out of use included.
pub const WEBHOOK_SECRETS_MAX: usize = 4;
/// One question as it is sent.
pub const WEBHOOK_BODY_BYTES_MAX: usize = 16 * 1024 * 1024;
/// How long the receiver of a webhook may take, unless it is said.
pub const WEBHOOK_TIMEOUT_MS: u64 = 10_000;
/// The longest that can be said.
pub const WEBHOOK_TIMEOUT_MS_MAX: u64 = 60_000;
/// How often a question is sent again, unless it is said; about as long as it lives.
pub const WEBHOOK_RETRIES: u32 = 35;
/// The most that can be said.
pub const WEBHOOK_RETRIES_MAX: u32 = 100;
/// Between the first try and the second; each later pause is twice as long.
pub const WEBHOOK_PAUSE_MS: u64 = 1_000;
/// The longest pause between two tries.
pub const WEBHOOK_PAUSE_MS_MAX: u64 = 60 * 60 * 1000;
/// Calls that were forbidden that one message tells of; of more it says how many.
pub const ALERT_CALLS_MAX: usize = 100;
/// How often such a message is sent again.
pub const ALERT_RETRIES_MAX: u32 = 8;
/// Questions that are sent at once.
pub const WEBHOOKS_AT_ONCE_MAX: u32 = 8;
/// Between two looks for questions that other processes put.
pub const WEBHOOK_LOOK_MS: u64 = 1_000;
/// How long the end of a process waits for what is being sent.
pub const WEBHOOK_STOP_MS: u64 = 3_000;
/// Calls whose spans wait for the collector; those of more are dropped and counted.
pub const TELEMETRY_QUEUE_CALLS_MAX: usize = 1_024;
/// Calls whose spans are sent at once.
pub const TELEMETRY_BATCH_CALLS_MAX: usize = 64;
/// How long a batch waits to be filled.
pub const TELEMETRY_BATCH_MS: u64 = 1_000;
/// How long a collector may take for one batch, tries again included, unless it is said.
pub const TELEMETRY_TIMEOUT_MS: u64 = 10_000;
/// The longest that can be said.
pub const TELEMETRY_TIMEOUT_MS_MAX: u64 = 60_000;
/// What a collector may answer.
pub const TELEMETRY_ANSWER_BYTES_MAX: usize = 64 * 1024;
/// How long the end of a process waits for its last spans to be taken.
pub const TELEMETRY_STOP_MS: u64 = 2_000;
/// A result that a human gives.
pub const INTERVENTION_RESULT_BYTES_MAX: usize = 1024 * 1024;
/// Open approvals of one data folder.
pub const APPROVALS_OPEN_MAX: usize = 1_000;
/// How long an idempotency key is remembered after its first call ended, unless the tool says otherwise.
pub const IDEMPOTENCY_TTL_MS: u64 = 24 * 60 * 60 * 1000;
/// How long a key that has grown old still counts for calls that were asked for before that, and the longest that such a
/// call may wait for it, as on a machine that slept.
pub const IDEMPOTENCY_GRACE_MS: u64 = 24 * 60 * 60 * 1000;
/// The shortest time that a tool may ask for.
pub const IDEMPOTENCY_TTL_MS_MIN: u64 = 1_000;
/// The longest: what was kept of a long result can be read for as long.
pub const IDEMPOTENCY_TTL_MS_MAX: u64 = RESULT_TTL_MS;
/// Keys of one caller and tool that are remembered; a call under one more is told to come back.
pub const IDEMPOTENCY_KEYS_MAX: u32 = 100_000;
/// What is stored of an answer under its key; beyond it, its text is kept as a whole result.
pub const IDEMPOTENCY_ANSWER_BYTES_MAX: usize = 1024 * 1024;
/// When to come back to a key whose first call is still under way.
pub const IDEMPOTENCY_WAIT_MS: u64 = 1_000;
/// The name under which a key is handed on.
pub const HANDED_NAME_CHARS_MAX: usize = 128;
/// An idempotency key.
pub const IDEMPOTENCY_KEY_CHARS_MAX: usize = 256;
/// Sessions of one data folder; beyond it the one that was not used for longest goes, if nothing in it is open.
pub const SESSIONS_KEPT_MAX: u32 = 1_000;
/// One session. What a call brought is stored beyond it, a new prompt or turn is not.
pub const SESSION_BYTES_MAX: u32 = 16 * 1024 * 1024;
/// The name of a session.
pub const SESSION_NAME_CHARS_MAX: usize = 64;
/// How long a whole result stays readable through its handle.
pub const RESULT_TTL_MS: u64 = 7 * 24 * 60 * 60 * 1000;
/// How long it stays possible to undo a call.
pub const UNDO_TTL_MS: u64 = RESULT_TTL_MS;
/// Calls that can be undone; beyond them the oldest cannot any more.
pub const UNDOS_KEPT_MAX: u32 = 10_000;
/// A file that is kept before a call changes it; a larger one cannot be put back.
pub const UNDO_IMAGE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Files that are kept so, together; beyond it the oldest go.
pub const UNDO_IMAGES_BYTES_MAX: u64 = 128 * 1024 * 1024;
/// Whole results of one data folder, unless the configuration says otherwise; beyond it the oldest go.
pub const RESULTS_BYTES_MAX: u64 = 1024 * 1024 * 1024;
/// Whole results of one caller, unless the configuration says otherwise; beyond it the caller's oldest go.
pub const RESULTS_CALLER_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// A file among the whole results that no handle names is removed after this time: its call may still be under way.
pub const RESULT_ORPHAN_MS: u64 = 60 * 60 * 1000;
/// Nesting of a result: what is deeper could not be read back as JSON.
pub const RESULT_DEPTH_MAX: usize = 100;
/// Paths in `output` of a tool.
pub const OUTPUT_PATHS_MAX: usize = 200;
/// Columns of a table.
pub const TABLE_COLUMNS_MAX: usize = 100;
/// What a model is given of a text to summarise; its end is left out, which is said.
pub const SUMMARY_CHARS_MAX: usize = 200_000;
/// How long a summary may take.
pub const SUMMARY_TIMEOUT_MS: u64 = 30_000;
/// A filter of `read_result`.
pub const FILTER_CHARS_MAX: usize = 1_000;
/// Steps of a filter: values that it looks at or makes.
pub const FILTER_STEPS_MAX: u64 = 20_000_000;
/// A pattern of `read_result`.
pub const SEARCH_CHARS_MAX: usize = 1_000;
/// A line that is searched as one; a longer one is searched in parts.
pub const SEARCH_LINE_BYTES_MAX: usize = 1024 * 1024;
/// A configuration file.
pub const CONFIG_BYTES_MAX: usize = 1024 * 1024;
/// A file of rules.
pub const RULES_BYTES_MAX: usize = 16 * 1024 * 1024;
/// A list of servers that another MCP client keeps. Some keep their history in the same file.
pub const CLIENT_LIST_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// Free space below which `doctor` speaks up: a record that cannot be written is a call that cannot be made.
pub const DISK_FREE_BYTES_MIN: u64 = 256 * 1024 * 1024;
/// A ledger up to which `doctor` verifies the whole; of a longer one it reads the end.
pub const DOCTOR_LEDGER_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Names suggested for an unknown tool.
pub const SUGGESTIONS_MAX: usize = 3;
