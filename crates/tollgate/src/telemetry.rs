//! The telemetry of the configuration, and of OpenTelemetry's own variables where it says nothing. What cannot be had costs
//! only spans, and says so.

use std::sync::Arc;
use std::time::Duration;

use tollgate_gate::Gate;
use tollgate_guard::client::Origin;
use tollgate_guard::redact::Redactor;
use tollgate_telemetry::{Environment, Sampler, Settings, Telemetry};

use crate::Error;
use crate::config::{self, Loaded};
use crate::servers::values;

/// Has the gate watched by what sends spans, when somebody said where to.
pub(crate) async fn watch(
    gate: &Gate,
    loaded: &Loaded,
    redactor: &Redactor,
    warnings: &mut Vec<String>,
) -> Result<Option<Arc<Telemetry>>, Error> {
    let said = loaded.telemetry()?;
    let environment = Environment::read(|name| std::env::var(name).ok());
    let Some(mut settings) = settings(said, &environment) else { return Ok(None) };
    warnings.extend(environment.warnings);
    environment.headers.iter().for_each(|(_, value)| redactor.add_secret(value));
    let started = match values(&said.headers, loaded, redactor).await {
        Ok(headers) => {
            settings.headers = headers;
            Telemetry::start(&settings).map_err(|error| error.to_string())
        }
        Err(why) => Err(why),
    };
    match started {
        Ok(telemetry) => {
            if Origin::of(&settings.endpoint).is_ok_and(|origin| origin.is_plain_to_afar()) {
                warnings.push("spans are sent to another machine in plain text: use an https:// address".into());
            }
            let telemetry = Arc::new(telemetry);
            gate.watched_by(Arc::clone(&telemetry) as _);
            Ok(Some(telemetry))
        }
        Err(why) => {
            warnings.push(format!("no spans are sent: {why}"));
            Ok(None)
        }
    }
}

/// None when nobody said where spans go, or the environment wants none.
fn settings(said: &config::Telemetry, environment: &Environment) -> Option<Settings> {
    if environment.is_disabled {
        return None;
    }
    let mut settings = match (&said.endpoint, &environment.endpoint) {
        (Some(base), _) => Settings::below(base),
        (None, Some(endpoint)) => Settings::at(endpoint),
        (None, None) => return None,
    };
    settings.service_name = said.service_name.clone().or_else(|| {
        // The SDK's own name for those who say none is no name.
        let is_named = |name: &str| std::env::var(name).is_ok_and(|value| !value.is_empty());
        let is_said = is_named("OTEL_SERVICE_NAME")
            || std::env::var("OTEL_RESOURCE_ATTRIBUTES").is_ok_and(|all| all.contains("service.name="));
        (!is_said).then(|| "tollgate".to_owned())
    });
    settings.sampler = match said.sample_ratio {
        Some(ratio) => Sampler { ratio, ..Sampler::default() },
        None => environment.sampler.unwrap_or_default(),
    };
    settings.has_content = said.content;
    let timeout = said.timeout_ms.map(Duration::from_millis).or(environment.timeout);
    settings.timeout = timeout.unwrap_or(settings.timeout);
    Some(settings)
}
