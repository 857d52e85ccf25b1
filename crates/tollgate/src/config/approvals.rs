//! `[approvals]`: where people are told of open questions, beside the terminal and `tollgate approvals`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use tollgate_guard::client::Origin;
use tollgate_types::limits;
use toml::Spanned;

use super::{ConfigError, Loaded, SecretSource, TextOrSecret};

/// `[approvals]`.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Approvals {
    /// Roles whose callers may approve their own calls, where their MCP client can ask its human (elicitation, or input
    /// required). A client that answers by itself, without a human, approves by itself: name only roles of clients that you
    /// trust to ask. Calls that want more than one person are never asked so.
    pub clients: Vec<String>,
    /// Where open questions are sent, signed. docs/policy.md says what is sent and how it is answered.
    #[schemars(with = "Option<ApprovalWebhook>")]
    pub webhook: Option<Spanned<ApprovalWebhook>>,
}

/// `[approvals.webhook]`: each open question is sent to `url`, signed after Standard Webhooks, by `tollgate serve` and by the
/// process that asked; `POST /api/v1/approvals/ID/answer` takes answers that are signed with the same secret.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalWebhook {
    /// The address. No other origin is asked. Put no secret into it.
    pub url: String,
    /// What signs questions and answers, never itself: `{ env = "NAME" }`, `{ file = "PATH" }` or
    /// `{ command = ["PROGRAM", …] }`. It is `whsec_` and then 24 to 64 bytes in base64.
    pub secret: SecretSource,
    /// Secrets that count too while one takes the place of another; three at most. Questions are signed with all of them.
    #[serde(default)]
    pub more_secrets: Vec<SecretSource>,
    /// More headers.
    #[serde(default)]
    pub headers: BTreeMap<String, TextOrSecret>,
    /// How long the receiver may take to answer, in milliseconds.
    #[serde(default = "timeout_ms")]
    pub timeout_ms: u64,
    /// How often a question is sent again while it is open, after pauses that grow from a second to an hour.
    #[serde(default = "retries")]
    pub retries: u32,
    /// Whether it is told too that somebody called a tool that is kept from them (`forbidden` in the ledger).
    #[serde(default = "alerts")]
    pub alerts: bool,
}

fn timeout_ms() -> u64 {
    limits::WEBHOOK_TIMEOUT_MS
}

fn retries() -> u32 {
    limits::WEBHOOK_RETRIES
}

fn alerts() -> bool {
    true
}

impl ApprovalWebhook {
    /// The sources of its secrets, the current one first.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretSource> {
        std::iter::once(&self.secret).chain(&self.more_secrets)
    }
}

impl Loaded {
    /// Where open questions are sent, when they are.
    ///
    /// # Errors
    /// When the address is none, or a number or the secrets are too many.
    pub fn webhook(&self) -> Result<Option<&ApprovalWebhook>, ConfigError> {
        let Some(table) = &self.config.approvals.webhook else { return Ok(None) };
        let webhook = table.get_ref();
        let fault = |key: &str, message: String, hint: &str| {
            Err(self.key_fault(table, "approvals.webhook", key, message, hint))
        };
        if let Err(error) = Origin::of(&webhook.url) {
            return fault("url", error.to_string(), "url = \"https://approvals.example.com/tollgate\"");
        }
        let (count, max) = (webhook.secrets().count(), limits::WEBHOOK_SECRETS_MAX);
        if count > max {
            return fault("more_secrets", format!("{count} secrets, and {max} count at most"), "leave out the oldest");
        }
        if !(1..=limits::WEBHOOK_TIMEOUT_MS_MAX).contains(&webhook.timeout_ms) {
            let hint = format!("between 1 and {}", limits::WEBHOOK_TIMEOUT_MS_MAX);
            return fault("timeout_ms", format!("`{}` ms cannot be waited", webhook.timeout_ms), &hint);
        }
        if webhook.retries > limits::WEBHOOK_RETRIES_MAX {
            let hint = format!("{} at most", limits::WEBHOOK_RETRIES_MAX);
            return fault("retries", format!("`{}` is too often", webhook.retries), &hint);
        }
        Ok(Some(webhook))
    }
}
