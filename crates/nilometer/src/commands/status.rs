//! `nilometer status`: server status on one screen.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Value, json};

use crate::client::{Refused, Server, ServerArgs};
use crate::print::{self, Table, grouped, thousands};

/// Between two looks at the counters, for rates.
const LOOK_MS: u64 = 1_000;

/// The server to ask.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nilometer status\n  nilometer status --url https://db.example.org:8086 --ca ca.pem\n  nilometer status --json"
)]
pub(crate) struct StatusArgs {
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Metrics by name, those of several label sets added up.
type Metrics = BTreeMap<String, f64>;

pub(crate) fn run(args: &StatusArgs) -> anyhow::Result<()> {
    let server = Server::new(&args.server)?;
    let health = health(&server)?;
    let before = metrics(&server)?;
    let begun = Instant::now();
    std::thread::sleep(Duration::from_millis(LOOK_MS));
    let after = metrics(&server)?;
    let seconds = begun.elapsed().as_secs_f64();
    let rate = |name: &str| {
        let value = |metrics: &Metrics| metrics.get(name).copied().unwrap_or(0.0);
        (value(&after) - value(&before)) / seconds
    };
    let status = text(&health, "status");
    let (written, read) = (rate("rows_written_total"), rate("query_rows_total"));
    if args.json {
        let shown = json!({
            "url": server.url(),
            "health": health,
            "rows_written_per_second": written,
            "rows_read_per_second": read,
            "metrics": after,
        });
        print::line(format!("{shown:#}"));
    } else {
        print::raw(shown(&server, &health, &after, written, read).as_bytes())?;
    }
    if status != "pass" {
        bail!("the server reports: {}", text(&health, "message"));
    }
    Ok(())
}

fn shown(server: &Server, health: &Value, metrics: &Metrics, written: f64, read: f64) -> String {
    let value = |name: &str| metrics.get(name).copied();
    let mut table = Table::new(&["what", "value"]);
    let mut row = |what: &str, value: Option<String>| {
        if let Some(value) = value {
            table.row([what.to_owned(), value]);
        }
    };
    let count = |name: &str| value(name).map(|number| grouped(&format!("{number:.0}")));
    let size = |name: &str| value(name).map(megabytes);
    row("server", Some(server.url().to_owned()));
    row(
        "health",
        Some(format!(
            "{}: {}",
            text(health, "status"),
            text(health, "message")
        )),
    );
    row("version", Some(text(health, "version").to_owned()));
    let uptime = value("uptime_seconds");
    let started = value("process_start_time_seconds").map(|started| now_s() - started);
    row("uptime", uptime.or(started).map(span));
    row(
        "rows written per second",
        Some(grouped(&format!("{written:.0}"))),
    );
    row("rows read per second", Some(grouped(&format!("{read:.0}"))));
    row("databases", count("databases"));
    row("tables", count("tables"));
    row("series", count("series"));
    row("segments", count("segments"));
    row("segment size", size("segment_bytes"));
    row("rows in segments", count("segment_rows"));
    row("rows in memory", count("head_rows"));
    row("log size", size("log_bytes"));
    let used = value("memory_bytes");
    let budget = value("memory_budget_bytes");
    row(
        "memory used",
        used.zip(budget)
            .map(|(used, budget)| format!("{} of {}", megabytes(used), megabytes(budget))),
    );
    row("resident memory", size("process_resident_memory_bytes"));
    row("free disk space", size("disk_free_bytes"));
    row("damaged segments", count("segments_damaged"));
    row("quarantined files", count("quarantined_files"));
    table.to_string()
}

fn health(server: &Server) -> anyhow::Result<Value> {
    let mut response = server.get("/health", &[])?;
    // Bad health is an answer too.
    if !matches!(response.status().as_u16(), 200 | 503) {
        bail!("{}", Refused::of(response).sentence(server));
    }
    let text = response.body_mut().read_to_string()?;
    let health = serde_json::from_str(&text);
    health.with_context(|| format!("{} is no Nilometer server", server.url()))
}

fn metrics(server: &Server) -> anyhow::Result<Metrics> {
    let mut response = server.get("/metrics", &[])?;
    if response.status() != 200 {
        bail!("{}", Refused::of(response).sentence(server));
    }
    Ok(parse(&response.body_mut().read_to_string()?))
}

/// The text format of Prometheus, without our prefix.
fn parse(text: &str) -> Metrics {
    let mut metrics = Metrics::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((name, value)) = line.rsplit_once(' ') else {
            continue;
        };
        let name = name.split('{').next().unwrap_or_default();
        let name = name.strip_prefix("nilometer_").unwrap_or(name);
        if let Ok(value) = value.parse::<f64>() {
            *metrics.entry(name.to_owned()).or_default() += value;
        }
    }
    metrics
}

fn text<'a>(value: &'a Value, member: &str) -> &'a str {
    value.get(member).and_then(Value::as_str).unwrap_or("-")
}

fn megabytes(bytes: f64) -> String {
    format!("{:.1} MB", bytes / 1e6)
}

fn span(seconds: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "a time since a start")]
    let seconds = seconds.max(0.0) as u64;
    let (days, hours) = (seconds / 86_400, seconds / 3600 % 24);
    let (minutes, seconds) = (seconds / 60 % 60, seconds % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes} min {seconds} s"),
        (0, _) => format!("{hours} h {minutes} min"),
        _ => format!("{} days {hours} h", thousands(days)),
    }
}

fn now_s() -> f64 {
    let now = std::time::SystemTime::now();
    let since = now.duration_since(std::time::UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::{parse, span};

    #[test]
    fn metrics_of_several_labels_are_added_up() {
        let text = "# HELP nilometer_a x\nnilometer_a 1\nnilometer_b{use=\"x\"} 2\nnilometer_b{use=\"y\"} 3.5\nother 7\nbad\n";
        let metrics = parse(text);
        let pairs: Vec<(&str, f64)> = metrics
            .iter()
            .map(|(name, value)| (name.as_str(), *value))
            .collect();
        assert_eq!(pairs, [("a", 1.0), ("b", 5.5), ("other", 7.0)]);
    }

    #[test]
    fn spans_are_told_in_two_units() {
        for (seconds, want) in [
            (59.9, "0 min 59 s"),
            (3_700.0, "1 h 1 min"),
            (90_000.0, "1 days 1 h"),
        ] {
            assert_eq!(span(seconds), want);
        }
    }
}
