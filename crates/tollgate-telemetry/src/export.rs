//! How spans go out: the exporter of `opentelemetry-otlp` over the guard's client, which asks the one origin that was
//! configured. Waiting between tries is done here, because the exporter would do it on the thread that serves.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{Protocol, RetryPolicy, SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SpanExporter as _;
use tollgate_guard::client::{Client, ClientError, Origin, Request};
use tollgate_types::{CancellationToken, Secret, limits};

use crate::{Settings, TelemetryError};

/// Between the first try and the second; each later pause is twice as long.
const PAUSE: Duration = Duration::from_millis(200);
/// How long a collector may ask us to wait.
const PAUSE_MAX: Duration = Duration::from_secs(30);
const TRIES_MAX: u32 = 5;

/// The exporter, and what it says when it fails.
pub(crate) fn exporter(settings: &Settings, stop: &CancellationToken) -> Result<(SpanExporter, Fault), TelemetryError> {
    let origin = Origin::of(&settings.endpoint)?;
    let fault = Fault::default();
    let transport = Transport {
        client: Client::new([origin]),
        headers: settings.headers.clone(),
        timeout: settings.timeout,
        stop: stop.clone(),
        fault: fault.clone(),
    };
    let mut exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(transport)
        .with_protocol(Protocol::HttpBinary)
        .with_endpoint(&settings.endpoint)
        .with_retry_policy(RetryPolicy::disabled())
        .build()
        .map_err(|error| TelemetryError::Exporter(error.to_string()))?;
    // OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES are read here; what is said counts more.
    let resource =
        Resource::builder().with_attribute(opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    let resource = match &settings.service_name {
        Some(name) => resource.with_service_name(name.clone()).build(),
        None => resource.build(),
    };
    exporter.set_resource(&resource);
    Ok((exporter, fault))
}

/// Why the last delivery failed, in words for people.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fault(Arc<Mutex<Option<String>>>);

impl Fault {
    fn set(&self, why: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(why);
    }

    pub(crate) fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

#[derive(Debug)]
struct Transport {
    client: Client,
    headers: Vec<(String, Secret)>,
    timeout: Duration,
    /// There is no time for another try.
    stop: CancellationToken,
    fault: Fault,
}

/// How one try ended.
enum Tried {
    Taken(http::Response<Bytes>),
    /// It may be taken later, after this long where the collector says so.
    Later(String, Option<Duration>),
    Never(String),
}

#[async_trait]
impl HttpClient for Transport {
    async fn send_bytes(&self, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, HttpError> {
        let delivered = tokio::time::timeout(self.timeout, self.deliver(request)).await;
        let delivered = delivered
            .unwrap_or_else(|_| Err(format!("the collector did not take them within {} ms", self.timeout.as_millis())));
        delivered.map_err(|why| {
            self.fault.set(why.clone());
            HttpError::from(why)
        })
    }
}

impl Transport {
    async fn deliver(&self, request: http::Request<Bytes>) -> Result<http::Response<Bytes>, String> {
        let mut pause = PAUSE;
        for tries in 1.. {
            let (why, wait) = match self.once(&request).await {
                Tried::Taken(response) => return Ok(response),
                Tried::Never(why) => return Err(why),
                Tried::Later(why, wait) => (why, wait.unwrap_or(pause).min(PAUSE_MAX)),
            };
            if tries == TRIES_MAX || self.stop.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
                return Err(why);
            }
            pause *= 2;
        }
        Err("it was never tried".to_owned())
    }

    async fn once(&self, request: &http::Request<Bytes>) -> Tried {
        let response = match self.client.send(self.guarded(request)).await {
            Ok(response) => response,
            Err(error @ (ClientError::Connect { .. } | ClientError::Closed { .. } | ClientError::TimedOut { .. })) => {
                return Tried::Later(error.to_string(), None);
            }
            Err(error) => return Tried::Never(error.to_string()),
        };
        let status = response.status;
        let why = || format!("the collector answered {status}");
        match status {
            200..=299 => {}
            // OTLP, Failures: what may be tried again.
            429 | 502..=504 => {
                let wait = response.header("retry-after").and_then(|text| text.trim().parse().ok());
                return Tried::Later(why(), wait.map(Duration::from_secs));
            }
            _ => return Tried::Never(why()),
        }
        match response.bytes(limits::TELEMETRY_ANSWER_BYTES_MAX, self.timeout).await {
            Ok(body) => Tried::Taken(http::Response::new(body.into())),
            Err(error) => Tried::Never(error.to_string()),
        }
    }

    /// The request as the guard sends it. Headers of the environment come with it, and may be secret; those of the
    /// configuration take their place.
    fn guarded(&self, request: &http::Request<Bytes>) -> Request {
        let mut headers = Vec::new();
        let mut secret_headers = self.headers.clone();
        for (name, value) in request.headers() {
            let Ok(value) = value.to_str() else { continue };
            if name == CONTENT_TYPE || name == CONTENT_ENCODING {
                headers.push((name.as_str().to_owned(), value.to_owned()));
            } else if name != http::header::USER_AGENT
                && !self.headers.iter().any(|(own, _)| own.eq_ignore_ascii_case(name.as_str()))
            {
                secret_headers.push((name.as_str().to_owned(), Secret::new(value.to_owned())));
            }
        }
        Request {
            method: request.method().as_str().to_owned(),
            url: request.uri().to_string(),
            headers,
            secret_headers,
            body: Some(request.body().to_vec()),
            timeout: self.timeout,
        }
    }
}
