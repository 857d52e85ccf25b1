//! The log, on standard error: for people, or one JSON object a line. Each line says which attempt it is about, where it is
//! about one, and no secret.

use std::fmt;
use std::io::IsTerminal;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use serde_json::{Map, Value};
use tollgate::config::{Level, Logs, Telemetry};
use tollgate::{AttemptId, current_attempt};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, reload};

use crate::args::Global;
use crate::output;

const ATTEMPT: &str = "attempt";

static LEVEL: OnceLock<reload::Handle<LevelFilter, Registry>> = OnceLock::new();
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// Begins to log, before any configuration was read: warnings, and more with `-v`.
pub(crate) fn start(global: &Global) {
    let (level, handle) = reload::Layer::new(asked(global).unwrap_or(LevelFilter::WARN));
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(std::io::stderr().is_terminal())
        .event_format(Lines)
        .with_writer(|| output::Log { is_json: IS_JSON.load(Ordering::Relaxed) });
    tracing_subscriber::registry().with(level).with(lines).init();
    // INVARIANT: this is called once.
    let _ = LEVEL.set(handle);
}

/// Goes on as the configuration says; what the command line says counts more.
pub(crate) fn configure(global: &Global, telemetry: &Telemetry) {
    IS_JSON.store(telemetry.logs == Logs::Json, Ordering::Relaxed);
    let level = match telemetry.level {
        Level::Error => LevelFilter::ERROR,
        Level::Warn => LevelFilter::WARN,
        Level::Info => LevelFilter::INFO,
        Level::Debug => LevelFilter::DEBUG,
    };
    if let Some(handle) = LEVEL.get() {
        // Only a subscriber that is gone has none.
        let _ = handle.reload(asked(global).unwrap_or(level));
    }
}

fn asked(global: &Global) -> Option<LevelFilter> {
    match (global.quiet, global.verbose) {
        (true, _) => Some(LevelFilter::ERROR),
        (false, 0) => None,
        (false, 1) => Some(LevelFilter::INFO),
        (false, _) => Some(LevelFilter::DEBUG),
    }
}

struct Lines;

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let (time, level) = (now(), event.metadata().level().as_str());
        let mut said = Fields::default();
        event.record(&mut said);
        let mut fields = said.0;
        if let Some(attempt) = current_attempt().as_ref().map(AttemptId::as_str)
            && !fields.contains_key(ATTEMPT)
        {
            fields.insert(ATTEMPT.to_owned(), attempt.into());
        }
        let message = fields.shift_remove("message").unwrap_or_default();
        if IS_JSON.load(Ordering::Relaxed) {
            let head = [("time", time.into()), ("level", level.to_ascii_lowercase().into()), ("message", message)];
            let mut line: Map<String, Value> = head.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
            line.extend(fields);
            return writeln!(writer, "{}", output::hidden(Value::Object(line)));
        }
        let level = output::style(colour(event), level, writer.has_ansi_escapes());
        write!(writer, "{time} {level} {}", message.as_str().unwrap_or_default())?;
        fields.iter().try_for_each(|(name, value)| write!(writer, " {name}={value}"))?;
        writeln!(writer)
    }
}

fn colour(event: &Event<'_>) -> output::Style {
    match *event.metadata().level() {
        tracing::Level::ERROR => output::Style::Red,
        tracing::Level::WARN => output::Style::Yellow,
        tracing::Level::INFO => output::Style::Green,
        _ => output::Style::Dim,
    }
}

#[expect(clippy::disallowed_methods, reason = "a line of the log says when it was written, whoever wrote it")]
fn now() -> String {
    Timestamp::now().to_string()
}

/// What an event says, as JSON.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn put(&mut self, field: &Field, value: Value) {
        self.0.insert(field.name().to_owned(), value);
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, format!("{value:?}").into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value.into());
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value.into());
    }
}
