//! Records of runs: one JSON file per run with everything that is needed to judge or repeat it, and a line in a table.
//!
//! A figure without its machine, its data set, its sync mode and its cache state says nothing, so a [`RunRecord`] has no
//! optional parts: what is not known is written as "unknown".

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use serde_json::Value;

use crate::calendar::format_rfc3339;
use crate::load::LoadReport;
use crate::queries::QueryTiming;
use crate::{Error, Result};

/// The table that every run adds a line to.
const TABLE_NAME: &str = "runs.md";
const TABLE_HEAD: &str = "\
| date | run | data set | points | sync mode | cache | machine | figures |
|---|---|---|---|---|---|---|---|
";

/// The computer a run took place on, as the system describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Machine {
    /// Model name of the processor.
    pub cpu: String,
    /// Processors the program may use.
    pub cores: usize,
    /// Main memory.
    pub memory_bytes: u64,
    /// Kernel and its version.
    pub kernel: String,
}

impl Machine {
    /// This machine.
    pub fn here() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let cpu_info = read("/proc/cpuinfo");
        let memory_info = read("/proc/meminfo");
        let or_unknown = |text: Option<&str>| {
            text.map(str::trim)
                .filter(|t| !t.is_empty())
                .unwrap_or("unknown")
                .to_owned()
        };
        let release = read("/proc/sys/kernel/osrelease");
        Self {
            // Processors of another make than x86 name their model in other lines, of which this is the usual one.
            cpu: or_unknown(
                value_of(&cpu_info, "model name").or_else(|| value_of(&cpu_info, "Model")),
            ),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: value_of(&memory_info, "MemTotal")
                .and_then(|value| value.trim().strip_suffix("kB"))
                .and_then(|kib| kib.trim().parse::<u64>().ok())
                .map_or(0, |kib| kib * 1024),
            kernel: format!("{} {}", std::env::consts::OS, or_unknown(Some(&release))),
        }
    }

    fn line(&self) -> String {
        let gib = self.memory_bytes as f64 / f64::from(1 << 30);
        format!(
            "{}, {} cores, {gib:.0} GiB, {}",
            self.cpu, self.cores, self.kernel
        )
    }
}

/// The value in the first line `name : value`.
fn value_of<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value)
}

/// One run and its circumstances.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunRecord {
    /// When it ended, RFC 3339 in UTC.
    pub date: String,
    /// Where it ran.
    pub machine: Machine,
    /// The data set, in words that suffice to make it again.
    pub data_set: String,
    /// Rows of the data set that took part.
    pub points: u64,
    /// What drove the database: program, workers, batches.
    pub loader: String,
    /// What an acknowledgement meant.
    pub sync_mode: String,
    /// Whether pages were cached when the run began.
    pub cache_state: String,
    /// The command that repeats the run.
    pub command: String,
    /// The measurements in short, for the table.
    pub summary: String,
    /// The measurements.
    pub figures: Value,
}

impl RunRecord {
    /// The record of a load. `command` is what was typed; `cache_state` is for the caller to know.
    pub fn of_load(report: &LoadReport, command: &str, cache_state: &str) -> Self {
        Self {
            date: now(),
            machine: Machine::here(),
            data_set: data_set_line(report),
            points: report.rows,
            loader: format!(
                "nilometer-bench {}, {} workers, batches of {} rows",
                env!("CARGO_PKG_VERSION"),
                report.workers,
                report.batch_rows
            ),
            sync_mode: report.sync_mode.clone(),
            cache_state: cache_state.to_owned(),
            command: command.to_owned(),
            summary: format!(
                "{:.0} rows/s, p99 {:.1} ms, loader {:.2} s CPU of {:.2} s",
                report.rows_per_second,
                report.latency_ms.p99,
                report.loader_cpu_seconds,
                report.seconds
            ),
            figures: to_value(report),
        }
    }

    /// The record of a round of queries over data that `load` brought in.
    pub fn of_queries(
        timings: &[QueryTiming],
        load: &LoadReport,
        command: &str,
        cache_state: &str,
    ) -> Self {
        let medians: Vec<String> = timings
            .iter()
            .map(|t| format!("{} {:.2} ms", t.name, t.median_ms))
            .collect();
        Self {
            summary: medians.join(", "),
            figures: to_value(timings),
            ..Self::of_load(load, command, cache_state)
        }
    }

    /// Writes `<name>.json` and adds a line to the table in `directory`; returns the path of the JSON file.
    pub fn write(&self, directory: &Path, name: &str) -> Result<PathBuf> {
        fs::create_dir_all(directory).map_err(Error::io("create", directory))?;
        let path = directory.join(format!("{name}.json"));
        let mut json =
            serde_json::to_vec_pretty(self).expect("a record is made of numbers and text");
        json.push(b'\n');
        fs::write(&path, json).map_err(Error::io("write", &path))?;
        let table = directory.join(TABLE_NAME);
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&table)
            .map_err(Error::io("open", &table))?;
        let is_new = file.metadata().map_err(Error::io("look at", &table))?.len() == 0;
        let head = if is_new { TABLE_HEAD } else { "" };
        file.write_all(format!("{head}{}", self.table_row(name)).as_bytes())
            .map_err(Error::io("write", &table))?;
        Ok(path)
    }

    fn table_row(&self, name: &str) -> String {
        let cells = [
            self.date.as_str(),
            name,
            &self.data_set,
            &self.points.to_string(),
            &self.sync_mode,
            &self.cache_state,
            &self.machine.line(),
            &self.summary,
        ];
        // A bar or a line end within a cell would break the table.
        let cells = cells.map(|cell| cell.replace('|', "\\|").replace('\n', " "));
        format!("| {} |\n", cells.join(" | "))
    }
}

fn to_value<T: Serialize + ?Sized>(figures: &T) -> Value {
    serde_json::to_value(figures).expect("figures are made of numbers and text")
}

fn data_set_line(report: &LoadReport) -> String {
    match &report.data_set {
        None => format!("line protocol from {}", report.file),
        Some(header) => format!(
            "{}, {} hosts, {} to {}, every {} s, seed {}",
            header.workload,
            header.hosts,
            format_rfc3339(header.start_ns),
            format_rfc3339(header.end_ns),
            Duration::from_nanos(header.interval_ns.unsigned_abs()).as_secs_f64(),
            header.seed
        ),
    }
}

/// This instant to the second.
fn now() -> String {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    format_rfc3339(
        i64::try_from(seconds)
            .unwrap_or(0)
            .saturating_mul(1_000_000_000),
    )
}

#[cfg(test)]
mod tests {
    use super::{Machine, RunRecord, value_of};
    use serde_json::json;

    fn record(summary: &str) -> RunRecord {
        RunRecord {
            date: "2026-01-02T03:04:05Z".to_owned(),
            machine: Machine {
                cpu: "Abacus".to_owned(),
                cores: 2,
                memory_bytes: 24 << 30,
                kernel: "linux 6".to_owned(),
            },
            data_set: "cpu-only".to_owned(),
            points: 7,
            loader: "test".to_owned(),
            sync_mode: "fsync".to_owned(),
            cache_state: "warm".to_owned(),
            command: "true".to_owned(),
            summary: summary.to_owned(),
            figures: json!({"rows_per_second": 1.5}),
        }
    }

    #[test]
    fn a_run_becomes_a_json_file_and_a_line_of_the_table() {
        let directory = tempfile::tempdir().unwrap();
        let path = record("fast").write(directory.path(), "one").unwrap();
        record("a|b").write(directory.path(), "two").unwrap();
        let json: serde_json::Value =
            serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        assert_eq!(json["figures"]["rows_per_second"], 1.5);
        assert_eq!(json["machine"]["cores"], 2);
        let table = std::fs::read_to_string(directory.path().join("runs.md")).unwrap();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 4, "{table}");
        assert_eq!(
            lines[2],
            "| 2026-01-02T03:04:05Z | one | cpu-only | 7 | fsync | warm | Abacus, 2 cores, 24 GiB, linux 6 | fast |"
        );
        assert!(lines[3].ends_with("| a\\|b |"), "{table}");
    }

    #[test]
    fn machine_facts_are_found_by_their_names() {
        let text = "processor\t: 0\nmodel name\t: Abacus 9\nmodel name\t: other\nMemTotal:       1024 kB\n";
        assert_eq!(value_of(text, "model name"), Some(" Abacus 9"));
        assert_eq!(value_of(text, "MemTotal"), Some("       1024 kB"));
        assert_eq!(value_of(text, "model"), None);
        let here = Machine::here();
        assert!(
            here.cores >= 1
                && !here.cpu.is_empty()
                && here.kernel.starts_with(std::env::consts::OS)
        );
    }
}
