//! `nilometer bench`: data, load, queries, TStorage's suite, that of hypertables, and that of the library for microcontrollers.

mod hypertable;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use nilometer_bench::calendar::parse_rfc3339;
use nilometer_bench::edge::edge;
use nilometer_bench::queries::{AnswerFormat, QueryOptions, QueryTiming};
use nilometer_bench::report::{Machine, RunRecord};
use nilometer_bench::tstorage::{TstorageOptions, tstorage};
use nilometer_bench::workload::{Spec, Workload};
use nilometer_bench::{FileFormat, LoadOptions, generate, load, queries};
use serde_json::json;

use crate::print;
use hypertable::HypertableBenchArgs;

/// Rows of a batch of plain line protocol that arrives slowly.
const BATCH_ROWS_SLOW: u32 = 100;

/// The benchmark's steps.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Generate a data set like the Time Series Benchmark Suite's, at any scale.
    #[command(
        after_help = "Examples:\n  nilometer bench generate --hosts 100 --duration 1h --out cpu.lpb\n  \
                      nilometer bench generate --workload devops --hosts 10 --duration 1h --out devops.lpb\n  \
                      nilometer bench generate --workload iot --hosts 10 --duration 1h --out iot.lpb\n  \
                      nilometer bench generate --hosts 100 --start 2016-01-01T01:00:00Z --duration 10m --batch-rows 500 --out later.lpb"
    )]
    Generate(GenerateArgs),
    /// Load a data set over HTTP, timed until every row is visible.
    #[command(
        after_help = "Examples:\n  nilometer bench load --file cpu.lpb -d bench\n  \
                      nilometer bench load --file iot.lpb -d iot --rate 100000"
    )]
    Load(LoadArgs),
    /// Time the suite's queries on a loaded data set.
    ///
    /// Workload, hosts, start and duration are those the data set was generated with. The clock of a query runs from its
    /// request until the whole answer has arrived, over a connection that is open before; rows are counted afterwards.
    #[command(
        after_help = "Examples:\n  nilometer bench queries -d bench --hosts 100 --duration 1h --repeats 2\n  \
                      nilometer bench queries -d iot --workload iot --hosts 10 --duration 1h --repeats 1 --format arrow\n  \
                      nilometer bench queries -d bench --hosts 100 --duration 1h --repeats 1 --clients 4 --json\n  \
                      nilometer bench queries -d bench --hosts 100 --duration 1h --repeats 1 --while-loading later.lpb --rate 5000"
    )]
    Queries(QueriesArgs),
    /// Load TStorage's data set over its protocol and time its three read scenarios.
    ///
    /// The data set is cpu-only, its records made in memory before the clock starts. Load into an empty table. Each query is asked twice
    /// and the second timed; the client averages, and the clock runs until it has.
    #[command(
        after_help = "Examples:\n  nilometer serve --data ./data --tstorage-bind 127.0.0.1:2025\n  \
                      nilometer bench tstorage --hosts 3000 --duration 2d\n  \
                      nilometer bench tstorage --hosts 3000 --duration 2d --loaded --json"
    )]
    Tstorage(TstorageBenchArgs),
    /// Run the library for microcontrollers on a simulated flash, beside the figures that `esp_idf_timeseries` publishes.
    ///
    /// Needs no server and no hardware: programs, erases and reads of the flash are counted, instructions were counted on RISC-V under
    /// QEMU, and times are modelled from both.
    #[command(after_help = "Examples:\n  nilometer bench edge\n  nilometer bench edge --json")]
    Edge(EdgeBenchArgs),
    /// Time single-row inserts and one-minute queries on a plain table, a hypertable and a compressed hypertable.
    ///
    /// Starts Nilometer, and PostgreSQL if it is installed, with their defaults in scratch folders, and asks both the same over
    /// PostgreSQL's protocol, one after the other; TimescaleDB too, if there is one. Each INSERT is durable when it is answered. The
    /// figures that the reference of this test publishes stand beside.
    #[command(
        after_help = "Examples:\n  nilometer bench hypertable --rows 3000 --requests 50 --settle-wait 1s\n  \
                      nilometer bench hypertable --rows 300 --requests 20 --settle-wait 0s --postgresql off --json\n  \
                      nilometer bench hypertable --timescaledb 'host=db.example.org user=postgres dbname=bench'"
    )]
    Hypertable(HypertableBenchArgs),
}

#[derive(Debug, Args)]
pub(crate) struct EdgeBenchArgs {
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TstorageBenchArgs {
    /// Address of the server's TStorage listener.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:2025")]
    address: String,
    /// Number of hosts: clients of TStorage.
    #[arg(long, default_value_t = 3000)]
    hosts: u32,
    /// Time of the first records.
    #[arg(long, value_name = "TIME", default_value = "2016-01-01T00:00:00Z", value_parser = parse_time)]
    start: i64,
    /// Time span of the records, as in 2d, 12h.
    #[arg(long, value_name = "SPAN", default_value = "2d", value_parser = parse_span)]
    duration: i64,
    /// Time between two records of a host.
    #[arg(long, value_name = "SPAN", default_value = "5m", value_parser = parse_span)]
    interval: i64,
    /// Random seed; the same seed gives the same records and queries.
    #[arg(long, default_value_t = 123)]
    seed: u64,
    /// Number of connections that load.
    #[arg(long, default_value_t = 2)]
    workers: u32,
    /// Records per PUT.
    #[arg(long, default_value_t = 100_000)]
    put_records: u32,
    /// Number of queries of each scenario.
    #[arg(long, default_value_t = 100)]
    queries: u32,
    /// The data set is there already: only ask.
    #[arg(long)]
    loaded: bool,
    /// Ask the scenarios through SQL too, at this URL of the server; the table has a payload schema of the ten metrics.
    #[arg(long, value_name = "URL")]
    sql: Option<String>,
    /// Table that SQL asks: database.table or database.schema.table.
    #[arg(long, value_name = "NAME", default_value = "tstorage.records")]
    table: String,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
}

/// Which data set.
#[derive(Debug, Args)]
pub(crate) struct SpecArgs {
    /// Kind of data: cpu-only, devops (nine tables) or iot (trucks; rows late, missing and incomplete).
    #[arg(long, value_name = "NAME", default_value = "cpu-only")]
    workload: Workload,
    /// Number of hosts, or of trucks.
    #[arg(long, default_value_t = 1000)]
    hosts: u32,
    /// Time of the first data points.
    #[arg(long, value_name = "TIME", default_value = "2016-01-01T00:00:00Z", value_parser = parse_time)]
    start: i64,
    /// Time span of the data, as in 12h, 90m, 600s.
    #[arg(long, value_name = "SPAN", default_value = "1h", value_parser = parse_span)]
    duration: i64,
    /// Time between two data points of a host.
    #[arg(long, value_name = "SPAN", default_value = "10s", value_parser = parse_span)]
    interval: i64,
    /// Random seed; the same seed gives the same data.
    #[arg(long, default_value_t = 123)]
    seed: u64,
}

impl SpecArgs {
    fn spec(&self) -> Spec {
        Spec {
            workload: self.workload,
            hosts: self.hosts,
            start_ns: self.start,
            end_ns: self.start.saturating_add(self.duration),
            interval_ns: self.interval,
            seed: self.seed,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct GenerateArgs {
    #[command(flatten)]
    spec: SpecArgs,
    /// Output file.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Output format.
    #[arg(long, value_enum, default_value_t = BatchFormat::Batches)]
    format: BatchFormat,
    /// Rows per batch.
    #[arg(long, default_value_t = 10_000)]
    batch_rows: u32,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum BatchFormat {
    /// Split into batches in advance, so that the loader takes little time.
    Batches,
    /// Plain line protocol, for other programs.
    LineProtocol,
}

#[derive(Debug, Args)]
pub(crate) struct LoadArgs {
    /// Server URL.
    #[arg(
        long,
        value_name = "URL",
        env = "NILOMETER_URL",
        default_value = "http://127.0.0.1:8086"
    )]
    url: String,
    /// Database to write to; created if it does not exist.
    #[arg(short, long, value_name = "NAME")]
    database: String,
    /// Input file: a batch file or line protocol.
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// Number of connections that send.
    #[arg(long, default_value_t = 2)]
    workers: u32,
    /// Rows per batch, for line protocol.
    #[arg(long, default_value_t = 10_000)]
    batch_rows: u32,
    /// Stop after this many rows.
    #[arg(long)]
    rows_max: Option<u64>,
    /// Rows to send per second; without it as fast as the server takes them.
    #[arg(long, value_name = "ROWS")]
    rate: Option<f64>,
    /// Table whose rows are counted, for line protocol; may be given several times.
    #[arg(long = "table", value_name = "NAME", default_value = "cpu")]
    tables: Vec<String>,
    /// Time limit for the store to settle after the load, to report its size and write amplification.
    #[arg(long, value_name = "SPAN", default_value = "0s", value_parser = parse_span)]
    settle_wait: i64,
    #[command(flatten)]
    record: RecordArgs,
}

/// Where to write the figures down.
#[derive(Debug, Args)]
pub(crate) struct RecordArgs {
    /// Folder to write a record of the run to.
    #[arg(long, value_name = "DIR", requires = "record_name")]
    record: Option<PathBuf>,
    /// Name of the record.
    #[arg(long, value_name = "NAME")]
    record_name: Option<String>,
    /// State of the caches when the run began, for the record.
    #[arg(long, value_name = "WORDS", default_value = "page cache warm")]
    cache_state: String,
}

impl RecordArgs {
    fn write(&self, make: impl FnOnce(&str, &str) -> RunRecord) -> anyhow::Result<()> {
        if let (Some(dir), Some(name)) = (&self.record, &self.record_name) {
            let mut command = std::env::args().skip(1);
            let command = std::iter::once("nilometer".to_owned()).chain(&mut command);
            let command: Vec<String> = command.collect();
            let record = make(&command.join(" "), &self.cache_state);
            let path = record.write(dir, name)?;
            print::line(format!("recorded in {}", path.display()));
        }
        Ok(())
    }
}

#[derive(Debug, Args)]
pub(crate) struct QueriesArgs {
    #[command(flatten)]
    spec: SpecArgs,
    /// Server URL.
    #[arg(
        long,
        value_name = "URL",
        env = "NILOMETER_URL",
        default_value = "http://127.0.0.1:8086"
    )]
    url: String,
    /// Database with the data set.
    #[arg(short, long, value_name = "NAME")]
    database: String,
    /// Number of different statements of each type.
    #[arg(long, default_value_t = 5)]
    instances: u32,
    /// How often each connection runs each statement.
    #[arg(long, default_value_t = 3)]
    repeats: u32,
    /// Format of the answers.
    #[arg(long, value_enum, default_value_t = Answers::Json)]
    format: Answers,
    /// Number of connections that ask at the same time.
    #[arg(long, default_value_t = 1)]
    clients: u32,
    /// Load this file meanwhile: a later part of the same data set.
    #[arg(long, value_name = "FILE")]
    while_loading: Option<PathBuf>,
    /// Rows per second to load meanwhile; without it as many as the server takes. Small batches arrive more evenly.
    #[arg(long, value_name = "ROWS", requires = "while_loading")]
    rate: Option<f64>,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Answers {
    /// An array of objects.
    Json,
    /// An Arrow IPC stream.
    Arrow,
}

pub(crate) fn run(command: BenchCommand) -> anyhow::Result<()> {
    match command {
        BenchCommand::Generate(args) => run_generate(&args),
        BenchCommand::Load(args) => run_load(&args),
        BenchCommand::Queries(args) => run_queries(&args),
        BenchCommand::Tstorage(args) => run_tstorage(&args),
        BenchCommand::Edge(args) => run_edge(&args),
        BenchCommand::Hypertable(args) => hypertable::run(&args),
    }
}

fn run_generate(args: &GenerateArgs) -> anyhow::Result<()> {
    let spec = args.spec.spec();
    let bar = print::row_bar("generate", spec.rows()?);
    let format = match args.format {
        BatchFormat::Batches => FileFormat::BatchFile,
        BatchFormat::LineProtocol => FileFormat::LineProtocol,
    };
    let done = generate(&spec, &args.out, format, args.batch_rows, |rows| {
        bar.set_position(rows);
    })?;
    bar.finish_and_clear();
    print::line(format!(
        "{}: {} rows, {} values, {} bytes of line protocol",
        args.out.display(),
        done.rows,
        done.values,
        done.text_bytes
    ));
    if done.replaced > 0 {
        print::line(format!(
            "{} rows have the table, tags and time of an earlier one and replace it",
            done.replaced
        ));
    }
    Ok(())
}

fn run_load(args: &LoadArgs) -> anyhow::Result<()> {
    let mut options = LoadOptions::new(&args.url, &args.database, &args.file);
    options.workers = args.workers;
    options.batch_rows = args.batch_rows;
    options.rows_max = args.rows_max;
    options.rows_per_second = args.rate;
    options.tables.clone_from(&args.tables);
    options.settle_wait = Duration::from_nanos(args.settle_wait.unsigned_abs());
    let bar = print::row_bar("load", 0);
    let report = load(&options, |rows| bar.set_position(rows))?;
    bar.finish_and_clear();
    print::line(report.table());
    args.record
        .write(|command, cache| RunRecord::of_load(&report, command, cache))
}

fn run_queries(args: &QueriesArgs) -> anyhow::Result<()> {
    let spec = args.spec.spec();
    let statements = queries::statements(&spec, args.spec.seed, args.instances)?;
    let options = QueryOptions {
        format: match args.format {
            Answers::Json => AnswerFormat::Json,
            Answers::Arrow => AnswerFormat::Arrow,
        },
        clients: args.clients,
        repeats: args.repeats,
    };
    let (timings, arrival) = match &args.while_loading {
        None => {
            let timings = queries::run_queries(&args.url, &args.database, &statements, &options)?;
            (timings, None)
        }
        Some(file) => {
            let mut arriving = LoadOptions::new(&args.url, &args.database, file);
            arriving.rows_per_second = args.rate;
            if args
                .rate
                .is_some_and(|rate| rate < f64::from(arriving.batch_rows))
            {
                // Smaller steps than one a second, for a file that leaves the choice.
                arriving.batch_rows = BATCH_ROWS_SLOW;
            }
            let (timings, arrival) = queries::run_while_loading(
                &arriving,
                &args.url,
                &args.database,
                &statements,
                &options,
            )?;
            (timings, Some(arrival))
        }
    };
    if args.json {
        return show_json(args, &spec, &options, &timings, arrival.as_ref());
    }
    print::line(queries::table(&timings));
    if let Some(arrival) = arrival {
        print::line(arrival.line());
    }
    Ok(())
}

fn run_tstorage(args: &TstorageBenchArgs) -> anyhow::Result<()> {
    let spec = Spec {
        workload: Workload::CpuOnly,
        hosts: args.hosts,
        start_ns: args.start,
        end_ns: args.start.saturating_add(args.duration),
        interval_ns: args.interval,
        seed: args.seed,
    };
    let options = TstorageOptions {
        address: args.address.clone(),
        spec,
        workers: args.workers,
        put_records: args.put_records,
        queries: args.queries,
        is_loaded: args.loaded,
        sql: args.sql.clone().map(|url| (url, args.table.clone())),
    };
    let (load, timings) = tstorage(&options)?;
    if args.json {
        let figures = json!({
            "data_set": spec,
            "machine": Machine::here(),
            "workers": args.workers,
            "put_records": args.put_records,
            "load": load,
            "queries": timings,
        });
        print::line(serde_json::to_string_pretty(&figures)?);
        return Ok(());
    }
    if let Some(load) = load {
        print::line(load.line());
    }
    print::line(queries::table(&timings));
    Ok(())
}

fn run_edge(args: &EdgeBenchArgs) -> anyhow::Result<()> {
    let report = edge()?;
    let text = if args.json {
        serde_json::to_string_pretty(&report)?
    } else {
        report.markdown()
    };
    print::line(text.trim_end());
    Ok(())
}

fn show_json(
    args: &QueriesArgs,
    spec: &Spec,
    options: &QueryOptions,
    timings: &[QueryTiming],
    arrival: Option<&queries::Arrival>,
) -> anyhow::Result<()> {
    let figures = json!({
        "data_set": spec,
        "url": args.url,
        "database": args.database,
        "machine": Machine::here(),
        "format": options.format,
        "clients": options.clients,
        "instances": args.instances,
        "repeats": options.repeats,
        "while_loading": arrival,
        "queries": timings,
    });
    print::line(serde_json::to_string_pretty(&figures)?);
    Ok(())
}

fn parse_time(text: &str) -> Result<i64, String> {
    parse_rfc3339(text).ok_or_else(|| "give a time such as 2016-01-01T00:00:00Z".to_owned())
}

/// `12h`, `90m`, `600s`, `2d` in nanoseconds.
fn parse_span(text: &str) -> Result<i64, String> {
    let wrong = || format!("{text:?} is no span of time; give one such as 12h, 90m, 600s or 2d");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit_s = match text.get(digits.len()..) {
        Some("s") => 1,
        Some("m") => 60,
        Some("h") => 3600,
        Some("d") => 86_400,
        _ => return Err(wrong()),
    };
    let count: i64 = digits.parse().map_err(|_| wrong())?;
    count
        .checked_mul(unit_s * 1_000_000_000)
        .with_context(wrong)
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::parse_span;

    #[test]
    fn spans_have_units_and_bounds() {
        assert_eq!(parse_span("90m"), Ok(5_400_000_000_000));
        assert_eq!(parse_span("2d"), Ok(172_800_000_000_000));
        for wrong in ["", "h", "12", "12 h", "1.5h", "999999999999d", "3w"] {
            assert!(parse_span(wrong).is_err(), "{wrong:?}");
        }
    }
}
