//! `nilometer import`: files to rows, at the pace of whoever takes them.
//!
//! One thread reads and cuts, a few send, and this one keeps the account: what is in, what was rejected, from where an
//! interrupted import goes on. Line protocol is cut into batches without being parsed; the server parses it anyway. CSV
//! and Parquet become Arrow columns, so that every value arrives with its type and nothing is read twice.

mod account;
mod advice;
mod batch;
mod columns;
mod cut;
mod duplicates;
mod format;
mod input;
mod keys;
mod plan;
mod rejects;
mod rewrite;
mod rows;
mod schema;
mod send;
mod state;
mod stop;
mod times;

use std::cell::RefCell;
use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use encoding_rs::Encoding;
use nilometer::Precision;

use self::account::{Account, Event};
use self::batch::{Batch, Content, Outlet, Start, Stopped, parse_type};
use self::columns::{Absent, ColumnWishes};
use self::cut::{Cutter, Piece};
use self::duplicates::{DuplicatesArg, Tables};
use self::format::csv::{CsvFile, CsvOptions};
use self::format::encoding::parse_encoding;
use self::format::exported::{Definition, Export, Part};
use self::format::parquet::ParquetFile;
use self::input::{FileFormat, Input};
use self::keys::Keys;
use self::plan::Plan;
use self::rejects::Rejects;
use self::schema::{InputReading, Look, parquet_path};
use self::send::{Sink, new_import};
use self::state::State;
use self::stop::stop_on_signal;
use self::times::TimeFormatArg;
use crate::lines::{FieldType, Wishes};
use crate::print::{self, thousands};
use crate::source::{Purpose, Source, SourceArgs};

/// What `--resume` without a file means: a name that no file has.
const BESIDE: &str = "/";

/// What to import, and to where.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  nilometer import -d weather measurements.csv\n  nilometer import -d weather --table air --tags city,station --time when --dry-run measurements.csv\n  nilometer import -d d points.lp.gz\n  nilometer import -d d --data ./data exported/\n  nilometer import influx_inspect-export.gz\n  gzip -dc points.lp.gz | nilometer import -d d -"
)]
pub(crate) struct ImportArgs {
    /// Files, folders (their .lp, .csv, .tsv and .parquet files, also with .gz or .zst), or - for standard input.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Database; created if it does not exist. An export of `InfluxDB` 1 says itself where its rows go; with this, those of
    /// its one database go here.
    #[arg(short, long, value_name = "NAME", env = "NILOMETER_DATABASE")]
    database: Option<String>,
    #[command(flatten)]
    source: SourceArgs,
    /// Format of the files [default: by their names, or their first bytes]
    #[arg(long, value_enum)]
    format: Option<FileFormat>,
    /// Table for CSV and Parquet rows [default: the name of the file]
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
    /// Column with the time, or DATE+TIME for two CSV columns [default: one named time, timestamp, ts, datetime or date, or
    /// one that contains dates]
    #[arg(long, value_name = "COLUMN")]
    time: Option<String>,
    /// Format of times in CSV: auto, rfc3339, s, ms, us, ns, or a format such as "%d.%m.%Y %H:%M:%S".
    #[arg(long, value_name = "FORMAT", default_value = "auto")]
    time_format: TimeFormatArg,
    /// Comma-separated columns that become tags; '' for none [default: texts that repeat]
    #[arg(long, value_name = "COLUMNS", value_delimiter = ',')]
    tags: Option<Vec<String>>,
    /// Type of a CSV column, as in temperature=float; may be given several times [default: guessed from the first rows]
    #[arg(long = "type", value_name = "COLUMN=TYPE", value_parser = parse_type)]
    types: Vec<(String, FieldType)>,
    /// How a new table treats rows with the same time and tags [default: keep, or last if all rows differ and for line
    /// protocol]
    #[arg(long, value_enum, value_name = "KIND")]
    duplicates: Option<DuplicatesArg>,
    /// Text of a CSV cell that means NULL, in addition to the empty cell; may be given several times [default: NULL, null,
    /// NA, N/A, n/a, \N, - and similar]
    #[arg(long = "null", value_name = "TEXT", allow_hyphen_values = true)]
    nulls: Option<Vec<String>>,
    /// Encoding of CSV files, such as windows-1252 (Latin-1), utf-16le or gbk [default: UTF-8, or by the byte order
    /// mark]
    #[arg(long, value_name = "NAME", value_parser = parse_encoding)]
    encoding: Option<&'static Encoding>,
    /// Comma-separated column names, for CSV files without a header line.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    columns: Option<Vec<String>>,
    /// Column separator of CSV files [default: detected from the first line]
    #[arg(long, value_name = "CHARACTER", value_parser = parse_separator)]
    separator: Option<u8>,
    /// Leave out blanks at the ends of CSV cells; without it, those of texts are part of them.
    #[arg(long)]
    trim: bool,
    /// Unit of times in line protocol: auto, s, ms, us or ns; auto takes the unit that the first line of the file says, as
    /// in `# precision: ns`, and decides by the size of each time where it says none.
    #[arg(long, value_name = "UNIT", default_value = "auto", value_parser = parse_precision)]
    precision: Precision,
    /// Show how the files would be imported, and stop.
    #[arg(long)]
    dry_run: bool,
    /// Start without asking for confirmation.
    #[arg(short, long)]
    yes: bool,
    /// Continue an interrupted import of the same files. Its state is in this file, or beside the first input.
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = BESIDE)]
    resume: Option<PathBuf>,
    /// Write rejected lines to this file, to be corrected and imported again. The reasons are comments in line protocol,
    /// and in FILE.reasons for CSV and Parquet.
    #[arg(long, value_name = "FILE")]
    rejects: Option<PathBuf>,
    /// Number of batches that are sent at the same time.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=64))]
    senders: u8,
}

fn parse_separator(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"\\t" | b"tab" => Ok(b'\t'),
        [byte] => Ok(*byte),
        _ => Err("give one character, or \\t".to_owned()),
    }
}

fn parse_precision(text: &str) -> Result<Precision, String> {
    Precision::from_v3(text).ok_or_else(|| "give auto, s, ms, us or ns".to_owned())
}

pub(crate) fn run(args: &ImportArgs) -> anyhow::Result<()> {
    let inputs = input::find(&args.paths, args.format)?;
    let (csv, wishes) = (args.csv_options(), args.wishes());
    let mut reading = InputReading {
        database: args.database.as_deref(),
        table: args.table.as_deref(),
        precision: args.precision,
        csv: &csv,
        wishes: &wishes,
        plan: Plan::default(),
    };
    let looks: anyhow::Result<Vec<Look>> = inputs.iter().map(|it| reading.look(it)).collect();
    for (input, look) in inputs.iter().zip(&looks?) {
        print::note(reading.describe(input, look));
    }
    if args.dry_run {
        return Ok(());
    }
    if !args.agreed(&inputs)? {
        bail!("nothing was imported");
    }
    let source = args.source.open(Purpose::Write)?;
    send::check(&source)?;
    let database = args.database.as_deref().unwrap_or_default();
    let tables = follow_tables(&mut reading, &inputs, &source, args)?;
    let target = source.name();
    let (state, state_path) = args.state(&inputs, &target)?;
    let goes_on = state.as_ref().is_some_and(|state| state.rows > 0);
    if !goes_on {
        check_merging(&inputs, &reading, &tables)?;
    }
    let import = state.as_ref().map_or_else(new_import, State::import);
    let tables = Arc::new(tables);
    let sink = Sink::new(source.clone(), database, import, Arc::clone(&tables));
    let rejects = Rejects::open(args.rejects.as_deref(), args.resume.is_some())?;
    let wants_state = args.resume.is_some();
    let mut account = Account::new(&inputs, state, state_path, wants_state, rejects);
    account.begin()?;
    let begun = Instant::now();
    let work = Work {
        inputs: &inputs,
        reading: &reading,
        sink: &sink,
        tables: &tables,
        stop: stop_on_signal(),
    };
    let keys = work.run(usize::from(args.senders), &mut account);
    drop(sink);
    // Of what was written before it broke off nothing is known here.
    if account.is_done() && !goes_on {
        tables.settle(&source, database, &keys);
    }
    let closed = source.close();
    account.finish(begun, &tables.report(&keys))?;
    closed
}

/// Refuses an import of which many rows would merge without anybody having said so, before any of it is sent.
fn check_merging(
    inputs: &[Input],
    reading: &InputReading<'_>,
    tables: &Tables,
) -> anyhow::Result<()> {
    let unasked = tables.unasked();
    let keys = RefCell::<Keys>::default();
    let stop = AtomicBool::new(false);
    for (at, input) in inputs.iter().enumerate() {
        let is_unasked = input.format != FileFormat::LineProtocol
            && unasked.contains_key(&reading.table_of(input)?);
        // Standard input is read once, and looked at while it is.
        if is_unasked && input.path.is_some() {
            let outlet = Outlet::new(None, &keys, &stop);
            // What cannot be read is said when it is read to be sent.
            let (start, read) = (Start::default(), Arc::default());
            let define = |_: &Definition| Ok(());
            drop(read_input(
                at, input, start, reading, &outlet, &define, &read,
            ));
        }
    }
    let keys = keys.into_inner();
    for (table, why) in &unasked {
        if let Some(of) = keys.of(table).filter(|of| of.merges_many()) {
            bail!("{}; nothing was imported", keys::refusal(of, why));
        }
    }
    Ok(())
}

/// Lets columns be what they are in tables that are there.
fn follow_tables(
    reading: &mut InputReading<'_>,
    inputs: &[Input],
    source: &Source,
    args: &ImportArgs,
) -> anyhow::Result<Tables> {
    let has_lines = inputs
        .iter()
        .any(|it| it.format == FileFormat::LineProtocol);
    if let (true, Some(kind)) = (has_lines, args.duplicates) {
        let kind = clap::ValueEnum::to_possible_value(&kind);
        let kind = kind.as_ref().map_or("", |kind| kind.get_name());
        bail!(
            "--duplicates is for CSV and Parquet; line protocol makes tables that merge, so make the table first: CREATE TABLE ... WITH (duplicates = '{kind}')"
        );
    }
    let mut names = reading.plan.tables();
    // Standard input was not looked at.
    for input in inputs.iter().filter(|it| it.format == FileFormat::Csv) {
        let table = reading.table_of(input)?;
        if !names.contains(&table) {
            names.push(table);
        }
    }
    let mut tables = Tables::new(args.duplicates);
    let database = args.database.as_deref().unwrap_or_default();
    for table in names {
        let there = source.columns(database, &table)?;
        let duplicates = match &there {
            Some(_) => source.duplicates(database, &table)?,
            None => None,
        };
        tables.add(&table, duplicates)?;
        if let Some(there) = there {
            for note in reading.plan.follow(&table, &there)? {
                print::note(format!("{note}\n"));
            }
        }
    }
    Ok(tables)
}

impl ImportArgs {
    fn csv_options(&self) -> CsvOptions {
        CsvOptions {
            names: self.columns.clone(),
            separator: self.separator,
            encoding: self.encoding,
            trims: self.trim,
            wishes: ColumnWishes {
                time: self.time.clone(),
                time_format: self.time_format.0.clone(),
                tags: self.tag_names(),
                types: self.types.clone(),
                absent: Absent {
                    texts: self.nulls.clone(),
                },
            },
        }
    }

    fn wishes(&self) -> Wishes {
        Wishes {
            time: self.time.clone(),
            tags: self.tag_names(),
        }
    }

    /// An empty name is what `--tags ''` leaves.
    fn tag_names(&self) -> Option<Vec<String>> {
        let names = self.tags.as_ref()?.iter().map(|name| name.trim());
        Some(
            names
                .filter(|name| !name.is_empty())
                .map(str::to_owned)
                .collect(),
        )
    }

    /// Asks, where there is somebody to ask.
    fn agreed(&self, inputs: &[Input]) -> anyhow::Result<bool> {
        let can_ask = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        if self.yes || !can_ask || inputs.iter().any(|input| input.path.is_none()) {
            return Ok(true);
        }
        let target = match &self.database {
            Some(name) => format!("database {name}"),
            None => "the databases that the files name".to_owned(),
        };
        print::files::ask(&format!("import into {target}? [Y/n] "));
        let mut answer = String::new();
        std::io::stdin().read_line(&mut answer)?;
        Ok(matches!(answer.trim(), "" | "y" | "Y" | "yes"))
    }

    /// Where an import goes on or begins, and the file that says so.
    fn state(
        &self,
        inputs: &[Input],
        target: &str,
    ) -> anyhow::Result<(Option<State>, Option<PathBuf>)> {
        let database = self.database.as_deref().unwrap_or_default();
        let Some(fresh) = State::new(inputs, new_import(), database, target) else {
            if self.resume.is_some() {
                bail!(
                    "standard input cannot be read twice; import from a file to be able to go on"
                );
            }
            return Ok((None, None));
        };
        let named = self
            .resume
            .clone()
            .filter(|path| path.as_os_str() != BESIDE);
        let path = named.or_else(|| state::default_path(inputs));
        let (Some(path), true) = (&path, self.resume.is_some()) else {
            if let Some(path) = &path
                && let Ok(Some(_)) = State::resume(path, &fresh)
            {
                print::note(
                    "note: an import of these files broke off, and this one starts again; a table that keeps duplicates gets rows twice that are in already\n",
                );
            }
            return Ok((Some(fresh), path));
        };
        let earlier = State::resume(path, &fresh)?;
        if earlier.is_some() && state::is_old(path) {
            print::note(
                "note: the import broke off more than a day ago, and a server remembers batches for a day (key-age-ms): of a table that keeps duplicates, compare the rows that were sent last\n",
            );
        }
        print::note(match &earlier {
            Some(earlier) => format!(
                "going on after {} rows of the import that broke off\n",
                thousands(earlier.rows)
            ),
            None => format!("there is no {}; importing from the start\n", path.display()),
        });
        Ok((Some(earlier.unwrap_or(fresh)), Some(path.clone())))
    }
}

/// What an import works with.
struct Work<'a> {
    inputs: &'a [Input],
    reading: &'a InputReading<'a>,
    sink: &'a Sink,
    tables: &'a Tables,
    /// Nothing more is to be done.
    stop: Arc<AtomicBool>,
}

impl Work<'_> {
    /// Reads, sends and keeps the account until all is done or nothing goes any more.
    fn run(&self, senders: usize, account: &mut Account) -> Keys {
        let (batches, waiting) = sync_channel::<Batch>(senders);
        let waiting = Mutex::new(waiting);
        let (events, happened) = sync_channel::<Event>(senders * 2);
        let starts: Vec<Option<Start>> =
            (0..self.inputs.len()).map(|at| account.start(at)).collect();
        let read = account.read();
        std::thread::scope(|scope| {
            for _ in 0..senders {
                let events = events.clone();
                let waiting = &waiting;
                scope.spawn(move || send_all(self.sink, waiting, &self.stop, &events));
            }
            let reader = scope.spawn(move || self.read_all(&starts, &batches, &read, &events));
            // What comes before the end of the last thread is all that there is.
            for event in happened {
                if !account.note(event) {
                    self.stop.store(true, Ordering::Relaxed);
                }
            }
            // A reader that panicked has said so.
            reader.join().unwrap_or_default()
        })
    }

    /// Reads all inputs, and counts their keys.
    fn read_all(
        &self,
        starts: &[Option<Start>],
        batches: &SyncSender<Batch>,
        read: &Arc<AtomicU64>,
        events: &SyncSender<Event>,
    ) -> Keys {
        let keys = RefCell::<Keys>::default();
        let mut before = 0;
        for (at, (input, start)) in self.inputs.iter().zip(starts).enumerate() {
            let once = input.path.is_none();
            let limits = once.then(|| self.tables.unasked());
            keys.borrow_mut().limit(limits.unwrap_or_default());
            let outlet = Outlet::new(Some(batches.clone()), &keys, &self.stop);
            let done = match start {
                Some(start) => {
                    let define = |it: &Definition| self.sink.define(it);
                    read_input(at, input, *start, self.reading, &outlet, &define, read)
                        .with_context(|| input.name())
                }
                None => Ok(()),
            };
            before += input.bytes;
            // Whatever was skipped counts as read.
            read.store(before.max(read.load(Ordering::Relaxed)), Ordering::Relaxed);
            let stopped = done.as_ref().is_err_and(anyhow::Error::is::<Stopped>);
            let sent = outlet.sent();
            if events.send(Event::Read(at, sent, done)).is_err() || stopped {
                break;
            }
        }
        keys.into_inner()
    }
}

fn send_all(
    sink: &Sink,
    waiting: &Mutex<Receiver<Batch>>,
    stop: &AtomicBool,
    events: &SyncSender<Event>,
) {
    loop {
        let next = waiting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .recv();
        let Ok(batch) = next else { return };
        let written = if stop.load(Ordering::Relaxed) {
            Err(Stopped.into())
        } else {
            sink.write(&batch, stop)
        };
        if events.send(Event::Sent(batch, written)).is_err() {
            return;
        }
    }
}

fn read_input(
    at: usize,
    input: &Input,
    start: Start,
    reading: &InputReading<'_>,
    outlet: &Outlet<'_>,
    define: &dyn Fn(&Definition) -> anyhow::Result<()>,
    read: &Arc<AtomicU64>,
) -> anyhow::Result<()> {
    match input.format {
        FileFormat::LineProtocol => read_lines(at, input, start, reading, outlet, define, read),
        FileFormat::Csv => {
            let table = reading.table_of(input)?;
            let mut file = CsvFile::open(input::open(input, read)?, reading.csv)?;
            file.follow(&reading.plan, &table);
            file.send(at, &table, start, outlet)
        }
        FileFormat::Parquet => {
            let table = reading.table_of(input)?;
            let mut file = ParquetFile::open(parquet_path(input)?, reading.wishes)?;
            file.follow(&reading.plan, &table);
            let (all, before) = (file.rows().max(1), read.load(Ordering::Relaxed));
            file.send(at, &table, start, outlet, &|rows| {
                let share = input.bytes as f64 * rows as f64 / all as f64;
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "at most the bytes of the file"
                )]
                read.store(before + share as u64, Ordering::Relaxed);
            })
        }
    }
}

/// Reads line protocol; `define` runs what stands between the lines of an export, before the rows after it are sent.
fn read_lines(
    at: usize,
    input: &Input,
    start: Start,
    reading: &InputReading<'_>,
    outlet: &Outlet<'_>,
    define: &dyn Fn(&Definition) -> anyhow::Result<()>,
    read: &Arc<AtomicU64>,
) -> anyhow::Result<()> {
    let (head, mut text) = input::open_lines(input, read)?;
    let precision = reading.unit_of(head.unit);
    reading.check_database(input, head)?;
    let send = |piece: Piece, place| {
        outlet.send(Batch {
            input: at,
            begin: piece.begin,
            end: piece.begin + piece.text.len() as u64,
            rows: piece.rows,
            content: Content::Lines {
                text: piece.text,
                first: piece.line,
                precision,
                place,
            },
            rejected: Vec::new(),
        })
    };
    let shorter = || anyhow!("the file has become shorter since the import broke off");
    if head.is_export {
        // From the start: what stands before the place where it goes on says where the rows after it belong.
        let mut cutter = Cutter::new(text, 0, 1);
        let mut export = Export::new(reading.database);
        let mut end = 0;
        while let Some(piece) = cutter.next()? {
            end = piece.begin + piece.text.len() as u64;
            let is_new = end > start.at;
            for part in export.take(piece)? {
                match part {
                    Part::Define(definition) if is_new && start.at == 0 => define(&definition)?,
                    Part::Lines(piece, place) if piece.begin >= start.at => send(piece, place)?,
                    Part::Define(_) | Part::Lines(..) => {}
                }
            }
        }
        return if end < start.at {
            Err(shorter())
        } else {
            Ok(())
        };
    }
    let skipped = std::io::copy(&mut (&mut text).take(start.at), &mut std::io::sink())?;
    if skipped < start.at {
        return Err(shorter());
    }
    let mut cutter = Cutter::new(text, start.at, start.line.max(1));
    while let Some(piece) = cutter.next()? {
        send(piece, None)?;
    }
    Ok(())
}
