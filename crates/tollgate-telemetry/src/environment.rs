//! The variables that OpenTelemetry gives every program (Specification, Environment variables; OTLP exporter
//! configuration). They stand in for what the configuration does not say.

use std::time::Duration;

use percent_encoding::percent_decode_str;
use tollgate_types::{Secret, limits};

use crate::Sampler;

/// What the variables say. One that is not understood is left out, with a warning.
#[derive(Debug, Default)]
pub struct Environment {
    /// `OTEL_SDK_DISABLED`, or `OTEL_TRACES_EXPORTER=none`.
    pub is_disabled: bool,
    /// Where spans are posted, the path included.
    pub endpoint: Option<String>,
    /// `OTEL_EXPORTER_OTLP_HEADERS`: what goes along.
    pub headers: Vec<(String, Secret)>,
    /// `OTEL_TRACES_SAMPLER`.
    pub sampler: Option<Sampler>,
    /// `OTEL_EXPORTER_OTLP_TIMEOUT`.
    pub timeout: Option<Duration>,
    /// What was left out, and why.
    pub warnings: Vec<String>,
}

impl Environment {
    /// Reads what `look` finds under each name; an empty value is none (Specification, Environment variables).
    pub fn read(look: impl Fn(&str) -> Option<String>) -> Self {
        let look = |name: &str| look(name).filter(|value| !value.trim().is_empty());
        let of_traces = |name: &str| {
            let of_traces = format!("OTEL_EXPORTER_OTLP_TRACES_{name}");
            look(&of_traces).or_else(|| look(&format!("OTEL_EXPORTER_OTLP_{name}")))
        };
        let mut read = Self {
            is_disabled: look("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
                || look("OTEL_TRACES_EXPORTER").is_some_and(|value| value == "none"),
            endpoint: look("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
                .or_else(|| look("OTEL_EXPORTER_OTLP_ENDPOINT").map(|base| posted_to(&base))),
            headers: of_traces("HEADERS").map(|text| headers(&text)).unwrap_or_default(),
            ..Self::default()
        };
        if let Some(protocol) = of_traces("PROTOCOL").filter(|protocol| protocol != "http/protobuf") {
            read.warnings.push(format!(
                "OTEL_EXPORTER_OTLP_PROTOCOL is `{}`, and spans are sent by `http/protobuf`",
                protocol.escape_debug()
            ));
        }
        read.timeout = of_traces("TIMEOUT").and_then(|text| read.timeout_of(&text));
        read.sampler = look("OTEL_TRACES_SAMPLER").and_then(|name| {
            let argument = look("OTEL_TRACES_SAMPLER_ARG");
            read.sampler_of(&name, argument.as_deref())
        });
        read
    }

    fn timeout_of(&mut self, text: &str) -> Option<Duration> {
        let ms = text.trim().parse().ok().filter(|ms| (1..=limits::TELEMETRY_TIMEOUT_MS_MAX).contains(ms));
        if ms.is_none() {
            let (text, max) = (text.escape_debug(), limits::TELEMETRY_TIMEOUT_MS_MAX);
            self.warnings.push(format!("OTEL_EXPORTER_OTLP_TIMEOUT is `{text}`: milliseconds from 1 to {max} can be"));
        }
        ms.map(Duration::from_millis)
    }

    fn sampler_of(&mut self, name: &str, argument: Option<&str>) -> Option<Sampler> {
        let (kind, follows_asker) = match name.strip_prefix("parentbased_") {
            Some(kind) => (kind, true),
            None => (name, false),
        };
        let ratio = match kind {
            "always_on" => Some(1.0),
            "always_off" => Some(0.0),
            "traceidratio" => {
                argument.map_or(Some(1.0), |text| text.trim().parse().ok()).filter(|ratio| (0.0..=1.0).contains(ratio))
            }
            _ => None,
        };
        if ratio.is_none() {
            let said = argument.map(|argument| format!(" with `{}`", argument.escape_debug())).unwrap_or_default();
            self.warnings
                .push(format!("OTEL_TRACES_SAMPLER is `{}`{said}, which is no sampler here", name.escape_debug()));
        }
        ratio.map(|ratio| Sampler { ratio, follows_asker })
    }
}

/// The address of spans below a collector's (OTLP exporter, Endpoint URLs for OTLP/HTTP).
pub(crate) fn posted_to(base: &str) -> String {
    format!("{}/v1/traces", base.trim().trim_end_matches('/'))
}

/// `name=value,name=value`, the values percent-encoded.
fn headers(text: &str) -> Vec<(String, Secret)> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    let value = |text: &str| percent_decode_str(text.trim()).decode_utf8_lossy().into_owned();
    pairs.map(|(name, text)| (name.trim().to_ascii_lowercase(), Secret::new(value(text)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(said: &[(&str, &str)]) -> Environment {
        Environment::read(|name| said.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn where_spans_go_is_said_once_for_all_or_for_them_alone() {
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318/");
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://traces/take");
        assert_eq!(read(&[]).endpoint, None);
        assert_eq!(read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]).endpoint, None);
        assert_eq!(read(&[base]).endpoint.as_deref(), Some("http://collector:4318/v1/traces"));
        assert_eq!(read(&[base, own]).endpoint.as_deref(), Some("http://traces/take"));
        assert!(read(&[base, ("OTEL_SDK_DISABLED", "TRUE")]).is_disabled);
        assert!(read(&[base, ("OTEL_TRACES_EXPORTER", "none")]).is_disabled);
        assert!(!read(&[base, ("OTEL_SDK_DISABLED", "1"), ("OTEL_TRACES_EXPORTER", "otlp")]).is_disabled);
    }

    #[test]
    fn headers_are_secrets_and_decoded() {
        let read = read(&[("OTEL_EXPORTER_OTLP_HEADERS", "Api-Key=a%3Db, x = 1 ,nothing")]);
        let shown: Vec<(&str, &str)> =
            read.headers.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
        assert_eq!(shown, [("api-key", "a=b"), ("x", "1")]);
        assert!(!format!("{read:?}").contains("a=b"));
    }

    #[test]
    fn what_is_not_understood_is_said_and_left_out() {
        for (name, argument, sampler) in [
            ("always_on", None, Some((1.0, false))),
            ("always_off", None, Some((0.0, false))),
            ("traceidratio", Some("0.25"), Some((0.25, false))),
            ("parentbased_traceidratio", Some("0.5"), Some((0.5, true))),
            ("parentbased_always_off", None, Some((0.0, true))),
            ("traceidratio", Some("2"), None),
            ("traceidratio", Some("half"), None),
            ("jaeger_remote", None, None),
        ] {
            let mut said = vec![("OTEL_TRACES_SAMPLER", name)];
            said.extend(argument.map(|argument| ("OTEL_TRACES_SAMPLER_ARG", argument)));
            let read = read(&said);
            assert_eq!(read.sampler.map(|sampler| (sampler.ratio, sampler.follows_asker)), sampler, "{name}");
            assert_eq!(read.warnings.len(), usize::from(sampler.is_none()), "{:?}", read.warnings);
        }
        let said = read(&[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), ("OTEL_EXPORTER_OTLP_TIMEOUT", "soon")]);
        assert_eq!((said.timeout, said.warnings.len()), (None, 2));
        assert_eq!(read(&[("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "250")]).timeout, Some(Duration::from_millis(250)));
    }
}
