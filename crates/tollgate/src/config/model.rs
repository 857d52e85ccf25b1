//! `[models.NAME]`: the servers of models, how much they can read, and what they cost.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_types::{Permission, Risk, Units, limits};
use tollgate_wire::Dialect;
use toml::Spanned;

use super::{ConfigError, Loaded, SecretSource, TextOrSecret};

/// Where compaction may begin, in percent of what the model can read.
const COMPACT_AT_PERCENT: std::ops::RangeInclusive<u8> = 10..=95;
/// A currency's name.
const CURRENCY_CHARS_MAX: usize = 12;

/// `[models.NAME]`.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// The dialect.
    #[serde(default)]
    pub api: Api,
    /// Up to and without the dialect's own path: `/chat/completions`, `/responses`, `/messages` or `/models`.
    pub base_url: String,
    /// The model's name on that server.
    pub model: String,
    /// The key, never itself: `{ env = "NAME" }`, `{ file = "PATH" }` or `{ command = ["PROGRAM", …] }`.
    #[serde(default)]
    pub api_key: Option<SecretSource>,
    /// More headers.
    #[serde(default)]
    pub headers: BTreeMap<String, TextOrSecret>,
    /// The most tokens of one answer. Unsaid, the server decides; `anthropic`, which wants a number, is told 8192.
    #[serde(default)]
    pub max_tokens: Option<u32>,
    /// Whether the server shall keep each request for the next one, which then costs less (`anthropic`; others do so unasked).
    #[serde(default)]
    pub cache: bool,
    /// How many tokens it can read and write in one conversation. Unsaid, `tollgate run` sends a conversation whole, however
    /// long it is.
    #[serde(default)]
    pub context_tokens: Option<NonZeroU64>,
    /// From what share of `context_tokens` on a conversation is compacted, in percent: 10 to 95. Where `max_tokens` leaves
    /// less, that counts.
    #[serde(default = "compact_at_percent")]
    pub compact_at_percent: u8,
    /// What its tokens cost.
    #[serde(default)]
    pub price: Option<Price>,
    /// The sampling temperature.
    #[serde(default)]
    pub temperature: Option<f64>,
    /// Whether it may ask for several calls at once; unsaid, the server decides.
    #[serde(default)]
    pub parallel_tool_calls: Option<bool>,
    /// Whether the server is to hold the model to the schemas of tools, where it can. What it cannot is offered without.
    #[serde(default)]
    pub strict: bool,
    /// Whether tools whose only input is text go out as such (OpenAI's custom tools); unsaid, with `responses` only.
    #[serde(default)]
    pub custom_tools: Option<bool>,
    /// Whether Gemini is told schemas in its older form, `parameters`, as older models want.
    #[serde(default)]
    pub openapi_schemas: bool,
    /// Whether it can be shown the images of a result; unsaid, with every dialect but `chat`, which has no place for them.
    #[serde(default)]
    pub images: Option<bool>,
    /// Whether the server may keep its replies (`responses`); unsaid, the server decides.
    #[serde(default)]
    pub store: Option<bool>,
    /// Whether to go on from the last reply that the server keeps, by its id, instead of sending the whole conversation
    /// (`responses`). Where the server no longer has it, the whole conversation is sent.
    #[serde(default)]
    pub stateful: bool,
    /// Whether the server knows only the older `functions` and `function_call` (`chat`).
    #[serde(default)]
    pub legacy_functions: bool,
    /// Which ids of calls the server takes (`chat`); others are replaced by ids that fit.
    #[serde(default)]
    pub call_ids: CallIds,
    /// Whether `max_tokens` is sent as `max_completion_tokens`, as newer models of OpenAI insist (`chat`).
    #[serde(default)]
    pub max_completion_tokens: bool,
    /// More fields of each request's body, such as `reasoning = { effort = "low" }`. They replace none that Tollgate writes.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub extra: serde_json::Map<String, serde_json::Value>,
    /// Tools that the provider runs itself, by its name for them: `[models.NAME.hosted.web_search]`.
    #[serde(default)]
    pub hosted: BTreeMap<String, HostedTool>,
    /// Whether answers come in pieces.
    #[serde(default = "yes")]
    pub stream: bool,
    /// How often a failure that may pass is tried again.
    #[serde(default = "model_retries")]
    pub max_retries: u32,
    /// The longest time until there is a connection, in milliseconds.
    #[serde(default = "connect_timeout_ms")]
    pub connect_timeout_ms: u64,
    /// The longest time to the head of a reply, in milliseconds, for a server that has to load the model; unsaid: as
    /// `idle_timeout_ms`.
    #[serde(default)]
    pub first_byte_timeout_ms: Option<u64>,
    /// The longest silence within a reply, in milliseconds.
    #[serde(default = "idle_timeout_ms")]
    pub idle_timeout_ms: u64,
    /// The longest time for one turn with every try, in milliseconds.
    #[serde(default = "total_timeout_ms")]
    pub total_timeout_ms: u64,
}

/// `[models.NAME.price]`: what a million tokens cost.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// Read by the model.
    pub input: Units,
    /// Read by the model, and kept by its server from an earlier request; unsaid: as `input`.
    #[serde(default)]
    pub cached_input: Option<Units>,
    /// Written by the model, thoughts included.
    pub output: Units,
    /// The currency.
    #[serde(default = "usd")]
    pub currency: String,
}

impl Price {
    fn for_agent(&self) -> tollgate_agent::Price {
        let Self { input, cached_input, output, currency } = self.clone();
        tollgate_agent::Price { input, cached_input, output, currency }
    }
}

fn usd() -> String {
    "USD".into()
}

fn compact_at_percent() -> u8 {
    80
}

fn yes() -> bool {
    true
}

fn model_retries() -> u32 {
    limits::MODEL_RETRIES
}

fn connect_timeout_ms() -> u64 {
    limits::HTTP_CONNECT_TIMEOUT_MS
}

fn idle_timeout_ms() -> u64 {
    limits::MODEL_IDLE_TIMEOUT_MS
}

fn total_timeout_ms() -> u64 {
    limits::MODEL_TOTAL_TIMEOUT_MS
}

/// `[models.NAME.hosted.TOOL]`: a tool that the provider of a model runs itself. To policy and ledger it is `hosted__TOOL`;
/// it is offered only to roles that may use it without being asked.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostedTool {
    /// The tool as the provider wants it, such as `{ type = "web_search" }`.
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub tool: serde_json::Map<String, serde_json::Value>,
    /// What it does to the world: `read`, `write` or `dangerous`.
    #[serde(default = "dangerous")]
    pub risk: Risk,
    /// What it needs.
    #[serde(default = "network")]
    pub permission: Permission,
}

impl HostedTool {
    /// The type of a tool whose calls providers leave to whoever asks.
    fn handed_back(&self) -> Option<&str> {
        let kind = self.tool.get("type").and_then(serde_json::Value::as_str)?;
        let environment = self.tool.get("environment").and_then(|environment| environment.get("type"));
        let is_back = matches!(kind, "computer" | "local_shell" | "apply_patch")
            || kind.starts_with("computer_use")
            || kind == "shell" && environment.is_none_or(|kind| kind == "local")
            || kind == "tool_search" && self.tool.get("execution").is_some_and(|by| by == "client");
        is_back.then_some(kind)
    }
}

fn dangerous() -> Risk {
    Risk::Dangerous
}

fn network() -> Permission {
    Permission::Network
}

/// The dialects of model servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Api {
    /// OpenAI Chat Completions and what follows it.
    #[default]
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Anthropic,
    /// Gemini's `generateContent`.
    Gemini,
}

impl From<Api> for Dialect {
    fn from(api: Api) -> Self {
        match api {
            Api::Chat => Self::Chat,
            Api::Responses => Self::Responses,
            Api::Anthropic => Self::Anthropic,
            Api::Gemini => Self::Gemini,
        }
    }
}

/// Which ids of calls a server takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CallIds {
    /// Whatever they are.
    #[default]
    Any,
    /// Nine letters and digits, as Mistral insists.
    Mistral,
}

impl From<CallIds> for tollgate_wire::CallIds {
    fn from(ids: CallIds) -> Self {
        match ids {
            CallIds::Any => Self::Any,
            CallIds::Mistral => Self::Mistral,
        }
    }
}

impl Model {
    /// From how many tokens on a conversation is compacted.
    fn sent_tokens_max(&self) -> Option<u64> {
        let whole = self.context_tokens?.get();
        let share =
            whole / 100 * u64::from(self.compact_at_percent) + whole % 100 * u64::from(self.compact_at_percent) / 100;
        Some(share.min(whole.saturating_sub(self.max_tokens.unwrap_or_default().into())))
    }
}

impl Loaded {
    /// What a model costs, and from how many tokens on a conversation with it is compacted.
    pub(crate) fn facts(&self, name: &str) -> (Option<tollgate_agent::Price>, Option<u64>) {
        let Some(model) = self.config.models.get(name).map(Spanned::get_ref) else { return (None, None) };
        (model.price.as_ref().map(Price::for_agent), model.sent_tokens_max())
    }

    /// Whether what is said of models can be meant.
    pub(super) fn check_models(&self) -> Result<(), ConfigError> {
        self.config.models.iter().try_for_each(|(name, table)| self.check_model(name, table))
    }

    fn check_model(&self, name: &str, table: &Spanned<Model>) -> Result<(), ConfigError> {
        let model = table.get_ref();
        let fault = |key: &str, message: String, hint: &str| {
            Err(self.key_fault(table, &format!("models.{name}"), key, message, hint))
        };
        if !COMPACT_AT_PERCENT.contains(&model.compact_at_percent) {
            let message = format!("`{}` percent leave no room", model.compact_at_percent);
            return fault("compact_at_percent", message, "a number from 10 to 95, such as 80");
        }
        if model.sent_tokens_max() == Some(0) {
            let message = "`max_tokens` is as much as `context_tokens`, which leaves nothing to read".into();
            return fault("context_tokens", message, "context_tokens counts what the model reads and what it writes");
        }
        let times = [
            ("connect_timeout_ms", model.connect_timeout_ms),
            ("idle_timeout_ms", model.idle_timeout_ms),
            ("first_byte_timeout_ms", model.first_byte_timeout_ms.unwrap_or(model.idle_timeout_ms)),
            ("total_timeout_ms", model.total_timeout_ms),
        ];
        if let Some((key, ms)) = times.into_iter().find(|(_, ms)| !(1..=limits::MODEL_TIMEOUT_MS_MAX).contains(ms)) {
            let most = limits::MODEL_TIMEOUT_MS_MAX;
            return fault(key, format!("`{ms}` ms are no time to wait"), &format!("{key} = MS, from 1 to {most}"));
        }
        if model.max_retries > limits::MODEL_RETRIES_MAX {
            let message = format!("`{}` are too many", model.max_retries);
            return fault("max_retries", message, &format!("at most {}", limits::MODEL_RETRIES_MAX));
        }
        if let Some((tool, kind)) = model.hosted.iter().find_map(|(name, tool)| Some((name, tool.handed_back()?))) {
            let message =
                format!("the provider does not run `{kind}` (`{tool}`): it hands the calls back, and nobody runs them");
            return fault(
                "hosted",
                message,
                "take it out; `tollgate tools list` shows what the model can have instead",
            );
        }
        let is_word = |word: &str| {
            (1..=CURRENCY_CHARS_MAX).contains(&word.chars().count()) && word.chars().all(char::is_alphabetic)
        };
        match &model.price {
            Some(price) if !is_word(&price.currency) => fault(
                "currency",
                format!("`{}` names no currency", price.currency),
                "a word such as \"USD\" or \"CNY\"",
            ),
            Some(_) | None => Ok(()),
        }
    }
}
