//! `nilometer export`: rows to a file, in a format that others read.
//!
//! Does: make the statement from a table and a range, stream the answer, tell how far it is. Does not: hold more than a
//! few batches, whatever the table's size.

mod windows;

use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use indicatif::ProgressBar;
use nilometer::Precision;

use self::windows::{Window, Windows};
use crate::lines::{LinePrinter, Printed, Wishes, unit_line, unit_name};
use crate::output::destination::{Destination, unless_closed};
use crate::output::{self, Compression, Format};
use crate::print::{self, thousands};
use crate::source::{Answer, Purpose, Source, SourceArgs};
use crate::sql_text::{identifier, literal};

/// What to export, and to where.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nilometer export -d weather air --output air.parquet\n  nilometer export -d weather air --from 2024-01-01T00:00:00Z --to 2024-02-01T00:00:00Z --output january.csv\n  nilometer export -d weather air --output air.lp\n  nilometer export -d weather --query \"select city, avg(temperature) from air group by city\" --format csv"
)]
pub(crate) struct ExportArgs {
    /// Table to export, spelled exactly as it is named.
    #[arg(value_name = "TABLE", required_unless_present = "query")]
    table: Option<String>,
    /// Schema of the table.
    #[arg(long, value_name = "NAME", default_value = "public")]
    schema: String,
    /// Database.
    #[arg(short, long, value_name = "NAME", env = "NILOMETER_DATABASE")]
    database: String,
    /// Export the rows of this statement instead of a table.
    #[arg(long, value_name = "SQL", conflicts_with_all = ["from", "to"])]
    query: Option<String>,
    /// Start time (inclusive), as in 2024-01-01T00:00:00Z.
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// End time (exclusive).
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// File to write; - is standard output.
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
    /// Output format [default: the ending of --output]
    #[arg(long, value_enum)]
    format: Option<ExportFormat>,
    /// Compression of a Parquet file.
    #[arg(long, value_enum, default_value_t)]
    compression: Compression,
    #[command(flatten)]
    source: SourceArgs,
}

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    /// A Parquet file.
    Parquet,
    /// A header line, then one line per row.
    Csv,
    /// `InfluxDB` line protocol, which `nilometer import` reads back as the same rows. Times are in nanoseconds, as the
    /// first line says. It cannot represent NaN, infinities and rows without any value: they are left out and counted.
    #[value(name = "lp", alias = "line-protocol")]
    LineProtocol,
    /// One object per line.
    Jsonl,
    /// An Arrow IPC stream.
    Arrow,
}

pub(crate) fn run(args: &ExportArgs) -> anyhow::Result<()> {
    let format = args.format()?;
    if format == ExportFormat::LineProtocol && args.table.is_none() {
        bail!(
            "line protocol needs the name of a table; give TABLE too, to name the rows of --query"
        );
    }
    let source = args.source.open(Purpose::Read)?;
    let begun = Instant::now();
    let (answer, bar) = if let (Source::Server(_), None) = (&source, &args.query) {
        let windows = Windows::of(&source, args)?;
        let bar = print::row_bar("export", windows.rows);
        let parts = windows.open()?;
        (Answer::new(parts.schema(), parts), bar)
    } else {
        let statement = args.statement(None)?;
        let answer = source.query(&args.database, &statement)?;
        (answer, print::files::row_counter("export"))
    };
    let mut destination = Destination::open(Some(&args.output), format.shown())?;
    let mut printed = Printed::default();
    let written = match format.rows() {
        Some(format) => output::write(
            answer,
            format,
            args.compression,
            destination.writer(),
            &mut |rows| bar.set_position(rows),
        )
        .map(|rows| printed.rows = rows),
        None => lines(answer, &source, args, destination.writer(), &bar)
            .map(|counted| printed = counted),
    };
    let written = written.and_then(|()| destination.finish());
    bar.finish_and_clear();
    unless_closed(written)?;
    let seconds = begun.elapsed().as_secs_f64();
    let rate = format!("{:.0}", printed.rows as f64 / seconds.max(1e-9));
    print::note(format!(
        "exported {} rows in {seconds:.1} s ({} rows/s)\n",
        thousands(printed.rows),
        print::grouped(&rate)
    ));
    if printed.values_left_out + printed.rows_left_out > 0 {
        print::note(format!(
            "left out, because line protocol cannot represent them: {} values (NaN, infinity), {} rows without any value\n",
            thousands(printed.values_left_out),
            thousands(printed.rows_left_out)
        ));
    }
    Ok(())
}

impl ExportArgs {
    fn format(&self) -> anyhow::Result<ExportFormat> {
        if let Some(format) = self.format {
            return Ok(format);
        }
        let ending = self.output.extension().and_then(|ending| ending.to_str());
        Ok(
            match ending.unwrap_or_default().to_ascii_lowercase().as_str() {
                "parquet" => ExportFormat::Parquet,
                "csv" => ExportFormat::Csv,
                "lp" => ExportFormat::LineProtocol,
                "jsonl" | "ndjson" => ExportFormat::Jsonl,
                "arrow" | "arrows" => ExportFormat::Arrow,
                _ if self.output.as_os_str() == "-" => ExportFormat::Csv,
                _ => bail!(
                    "the name {} does not say in which format to write; use the ending .parquet, .csv, .lp, .jsonl or .arrow, or add --format",
                    self.output.display()
                ),
            },
        )
    }

    /// All rows, or those of a window.
    fn statement(&self, window: Option<Window>) -> anyhow::Result<String> {
        match &self.query {
            Some(query) => Ok(query.clone()),
            None => self.select("*", window),
        }
    }

    /// What is asked for of the rows in the range of the arguments and in the window.
    fn select(&self, what: &str, window: Option<Window>) -> anyhow::Result<String> {
        let table = self.table.as_deref().context("give a table or a query")?;
        let (schema, table) = (identifier(&self.schema), identifier(table));
        let mut statement = format!("SELECT {what} FROM {schema}.{table}");
        let bounds = [("time >=", &self.from), ("time <", &self.to)];
        let bounds = bounds.into_iter().filter_map(|(what, time)| {
            let time = time.as_ref()?;
            Some(format!("{what} TIMESTAMP {}", literal(time)))
        });
        let mut bounds: Vec<String> = bounds.collect();
        if let Some(Window { first, last }) = window {
            for (what, time) in [(">=", first), ("<=", last)] {
                let time = chrono::DateTime::from_timestamp_nanos(time);
                let time = time.to_rfc3339_opts(chrono::SecondsFormat::Nanos, true);
                bounds.push(format!("time {what} TIMESTAMP {}", literal(&time)));
            }
        }
        if !bounds.is_empty() {
            statement.push_str(" WHERE ");
            statement.push_str(&bounds.join(" AND "));
        }
        Ok(statement)
    }
}

impl ExportFormat {
    /// The format of rows, which line protocol is not.
    fn rows(self) -> Option<Format> {
        match self {
            Self::Parquet => Some(Format::Parquet),
            Self::Csv => Some(Format::Csv),
            Self::LineProtocol => None,
            Self::Jsonl => Some(Format::Jsonl),
            Self::Arrow => Some(Format::Arrow),
        }
    }

    /// A terminal shows line protocol as it shows lines.
    fn shown(self) -> Format {
        self.rows().unwrap_or(Format::Jsonl)
    }
}

/// Writes rows as line protocol.
fn lines(
    answer: Answer<'_>,
    source: &Source,
    args: &ExportArgs,
    out: &mut (dyn Write + Send),
    bar: &ProgressBar,
) -> anyhow::Result<Printed> {
    let schema = answer.schema();
    let table = args.table.as_deref().unwrap_or_default();
    let mut printer = LinePrinter::new(&schema, table, &Wishes::default())?;
    if let (Source::Store(store), None) = (source, &args.query) {
        rename_shown(&mut printer, store, args);
    }
    // Times near 1970 in nanoseconds look like others in seconds.
    let unit = unit_line(unit_name(Precision::Nanosecond));
    writeln!(out, "{unit}").context("cannot write the lines")?;
    let mut all = Printed::default();
    let mut text = Vec::new();
    for batch in answer {
        let batch = batch?;
        text.clear();
        let counted = printer.print(&batch, &mut text, &mut |_, _| {})?;
        out.write_all(&text).context("cannot write the lines")?;
        all.rows += counted.rows;
        all.rows_left_out += counted.rows_left_out;
        all.values_left_out += counted.values_left_out;
        bar.set_position(all.rows);
    }
    Ok(all)
}

/// SQL shows a field that is called like a tag under another name; line protocol has it under its own.
fn rename_shown(printer: &mut LinePrinter, store: &nilometer::Database, args: &ExportArgs) {
    let snapshot = store.engine().snapshot();
    let table = args.table.as_deref().unwrap_or_default();
    let Some(table) = snapshot.table(&args.database, &args.schema, table) else {
        return;
    };
    let names = printer.columns().iter().map(|(shown, _)| {
        let column = table.shown(shown);
        column.map_or_else(|| shown.clone(), |column| column.name.clone())
    });
    let names: Vec<String> = names.collect();
    printer.rename(names);
}
