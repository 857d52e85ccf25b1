//! The webhook of the configuration. One whose secret cannot be had costs only itself, and says so: questions then wait for
//! the command line and the operator's key.

use std::sync::Arc;
use std::time::Duration;

use tollgate_gate::Gate;
use tollgate_guard::client::Origin;
use tollgate_guard::redact::Redactor;
use tollgate_store::Store;
use tollgate_types::{Clock, Secret};
use tollgate_webhook::{Webhook, WebhookConfig, check_secret};

use crate::Error;
use crate::config::{ApprovalWebhook, Loaded, SecretSource};
use crate::servers::values;

/// The webhook, when there is one.
pub(crate) async fn configured(
    loaded: &Loaded,
    store: &Store,
    clock: &Arc<dyn Clock>,
    redactor: &Redactor,
    warnings: &mut Vec<String>,
) -> Result<Option<Arc<Webhook>>, Error> {
    let Some(said) = loaded.webhook()? else { return Ok(None) };
    let made = match config(said, loaded, redactor).await {
        Ok(config) => Webhook::new(config, store.clone(), Arc::clone(clock)).map_err(|error| error.to_string()),
        Err(why) => Err(why),
    };
    match made {
        Ok(webhook) => {
            if Origin::of(&said.url).is_ok_and(|origin| origin.is_plain_to_afar()) {
                let text = "approvals are sent to another machine in plain text: use an https:// address";
                warnings.push(text.into());
            }
            Ok(Some(Arc::new(webhook)))
        }
        Err(why) => {
            warnings.push(format!("approvals are not sent by webhook: {why}"));
            Ok(None)
        }
    }
}

/// Has the webhook told of calls that were forbidden.
pub(crate) fn watching(webhook: Option<Arc<Webhook>>, gate: &Gate) -> Option<Arc<Webhook>> {
    webhook.inspect(|webhook| {
        gate.watched_by(Arc::clone(webhook) as _);
    })
}

async fn config(said: &ApprovalWebhook, loaded: &Loaded, redactor: &Redactor) -> Result<WebhookConfig, String> {
    let mut secrets = Vec::new();
    for source in said.secrets() {
        secrets.push(secret(source, loaded, redactor).await?);
    }
    Ok(WebhookConfig {
        url: said.url.clone(),
        secrets,
        headers: values(&said.headers, loaded, redactor).await?,
        timeout: Duration::from_millis(said.timeout_ms),
        retries: said.retries,
        alerts: said.alerts,
    })
}

async fn secret(source: &SecretSource, loaded: &Loaded, redactor: &Redactor) -> Result<Secret, String> {
    let secret = source.resolve(&loaded.folder).await?;
    redactor.add_secret(&secret);
    check_secret(&secret).map_err(|fault| {
        format!("what {} gives: {fault}; `echo whsec_$(openssl rand -base64 32)` makes one", source.describe())
    })?;
    Ok(secret)
}
