//! The server's log on standard error: lines for people, or an object a line for machines.

use std::fmt;
use std::io::IsTerminal;

use clap::ValueEnum;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

/// How lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// One JSON object per line.
    Json,
}

/// What is logged: a list of levels, whole or by target, that was read once.
#[derive(Debug, Clone)]
pub(crate) struct Filter(String);

pub(crate) fn parse_filter(text: &str) -> Result<Filter, String> {
    match EnvFilter::try_new(text) {
        Ok(_) => Ok(Filter(text.to_owned())),
        Err(error) => Err(format!(
            "{error}; use error, warn, info, debug, trace, or a list such as info,nilometer_http=debug"
        )),
    }
}

/// Sends what is logged from here on to standard error.
pub(crate) fn start(format: Format, filter: &Filter) {
    let log = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(EnvFilter::new(&filter.0));
    match format {
        Format::Text => log.with_ansi(std::io::stderr().is_terminal()).init(),
        Format::Json => log.with_ansi(false).event_format(JsonLines).init(),
    }
}

/// An event as an object: time, level, target, message, then its fields.
struct JsonLines;

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        let mut members = Members(Map::new());
        members.put("time", time.into());
        members.put("level", event.metadata().level().as_str().into());
        members.put("target", event.metadata().target().into());
        event.record(&mut members);
        writeln!(writer, "{}", Value::Object(members.0))
    }
}

struct Members(Map<String, Value>);

impl Members {
    fn put(&mut self, name: &str, value: Value) {
        self.0.insert(name.to_owned(), value);
    }
}

impl Visit for Members {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field.name(), value.into());
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field.name(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field.name(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field.name(), value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field.name(), value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field.name(), format!("{value:?}").into());
    }
}
