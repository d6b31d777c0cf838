//! `nilometer sql`: one statement, a script, or an interactive shell.
//!
//! Does: carry out statements and commands one after the other and show what comes of them. Does not: touch the
//! terminal; [`terminal`] reads lines from it, and everything else works without one.

pub(crate) mod chart;
pub(crate) mod command;
pub(crate) mod complete;
pub(crate) mod describe;
pub(crate) mod interrupt;
pub(crate) mod split;
mod tag;
pub(crate) mod terminal;

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{DataType, Int64Type, SchemaRef};
use nilometer::session_change;
use nilometer_service::SessionChange;

use self::command::Command;
use self::interrupt::{Cancelled, Interrupt};
use self::split::{Item, split_all};
use self::tag::{Tag, tag};
use crate::output::destination::{Destination, is_closed_pipe};
use crate::output::zone::in_zone;
use crate::output::{self, Compression, Format};
use crate::source::{Answer, Source, positioned};

/// Rows of the last answer that are kept for `\chart`.
const ROWS_KEPT_MAX: usize = 100_000;

/// How deep files may include files.
const INCLUDES_MAX: usize = 16;

/// What the shell knows between two statements.
pub(crate) struct Shell {
    pub(crate) source: Source,
    pub(crate) database: String,
    /// The time zone that SET TIME ZONE has set; `None` = UTC.
    zone: Option<String>,
    pub(crate) format: Format,
    pub(crate) timing: bool,
    pub(crate) pager: bool,
    pub(crate) interrupt: Interrupt,
    /// Where answers go instead of the terminal.
    file: Option<OutputFile>,
    last: Option<(SchemaRef, Vec<RecordBatch>)>,
    last_statement: Option<String>,
    includes: usize,
}

/// A file that answers are written to.
struct OutputFile {
    format: Format,
    destination: Destination,
    name: String,
}

/// Whether there is more to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    GoOn,
    Leave,
}

impl Shell {
    pub(crate) fn new(source: Source, database: &str, format: Format) -> Self {
        Self {
            source,
            database: database.to_owned(),
            zone: None,
            format,
            timing: false,
            pager: true,
            interrupt: Interrupt::default(),
            file: None,
            last: None,
            last_statement: None,
            includes: 0,
        }
    }

    /// Ends what is open.
    pub(crate) fn close(&mut self) -> anyhow::Result<()> {
        self.write_to(None)
    }

    /// The statement that ran last, without its semicolon.
    pub(crate) fn last_statement(&self) -> Option<&str> {
        self.last_statement.as_deref()
    }

    /// Carries out a script, up to its first error, which is named by its number.
    pub(crate) fn run_script(
        &mut self,
        text: &str,
        out: &mut (dyn Write + Send),
    ) -> anyhow::Result<Next> {
        let items = split_all(text);
        let is_one = items.len() == 1;
        for (at, item) in items.iter().enumerate() {
            match self.run(item, out) {
                Ok(Next::GoOn) => {}
                Ok(Next::Leave) => return Ok(Next::Leave),
                Err(error) if is_one || is_closed_pipe(&error) => return Err(error),
                Err(error) => {
                    return Err(error.context(format!(
                        "statement {} failed, and nothing after it ran",
                        at + 1
                    )));
                }
            }
        }
        Ok(Next::GoOn)
    }

    /// Runs one thing. Ctrl-C ends it with [`Cancelled`].
    pub(crate) fn run(
        &mut self,
        item: &Item,
        out: &mut (dyn Write + Send),
    ) -> anyhow::Result<Next> {
        if self.includes > 0 {
            // The statement that includes this one is what Ctrl-C ends.
            return self.run_through(item, out);
        }
        let source = self.source.clone();
        self.interrupt.begin(move || source.break_off());
        let ran = self.run_through(item, out);
        if self.interrupt.end() {
            self.source = self.source.reconnected();
            return ran.map_err(|_| Cancelled.into());
        }
        ran
    }

    fn run_through(&mut self, item: &Item, out: &mut (dyn Write + Send)) -> anyhow::Result<Next> {
        let begun = Instant::now();
        match item {
            Item::Statement(statement) => self.statement(statement, out)?,
            Item::Command(text) => {
                let command = command::parse(text).map_err(|error| anyhow::anyhow!(error))?;
                if command == Command::Quit {
                    return Ok(Next::Leave);
                }
                self.command(command, out)?;
                return Ok(Next::GoOn);
            }
        }
        if self.timing {
            writeln!(out, "{}", took(begun))?;
        }
        Ok(Next::GoOn)
    }

    fn statement(&mut self, statement: &str, out: &mut (dyn Write + Send)) -> anyhow::Result<()> {
        if let Some(change) = session_change(statement).map_err(wrong_setting)? {
            return self.set(statement, change, out);
        }
        self.last_statement = Some(statement.to_owned());
        let answer = self.query(statement)?;
        let Some(mut file) = self.file.take() else {
            return self.show(statement, answer, self.format, out);
        };
        let shown = self.show(statement, answer, file.format, file.destination.writer());
        if !file.format.is_binary() {
            self.file = Some(file);
            return shown;
        }
        // In these formats a file has one answer.
        shown?;
        let name = file.name;
        file.destination.finish()?;
        Ok(writeln!(
            out,
            "wrote {name}; answers go to the terminal again"
        )?)
    }

    /// Keeps what a statement sets of the session. Each statement goes to the server by itself, so what is set goes along.
    fn set(
        &mut self,
        statement: &str,
        change: SessionChange,
        out: &mut (dyn Write + Send),
    ) -> anyhow::Result<()> {
        match change {
            SessionChange::Zone(zone) => self.zone = zone,
        }
        // Rows for programs have nothing between them.
        match tag(statement).filter(|_| self.format.is_for_people()) {
            Some(tag) => Ok(writeln!(out, "{}", tag.text(0))?),
            None => Ok(()),
        }
    }

    fn query(&self, statement: &str) -> anyhow::Result<Answer<'static>> {
        let zone = self.zone.as_deref();
        self.interrupt
            .query(&self.source, &self.database, zone, statement)
    }

    fn show(
        &mut self,
        statement: &str,
        answer: Answer<'_>,
        format: Format,
        out: &mut (dyn Write + Send),
    ) -> anyhow::Result<()> {
        let schema = answer.schema();
        // A statement that only does something answers without columns.
        if schema.fields().is_empty() {
            for batch in answer {
                batch?;
            }
            return Ok(writeln!(out, "done")?);
        }
        if let Some(tag) = tag(statement).filter(|_| format.is_for_people() && is_count(&schema)) {
            return done(&tag, answer, out);
        }
        let interrupt = self.interrupt.clone();
        let (mut kept, mut rows) = (Vec::new(), 0);
        let kept_too = answer.map(|batch| {
            interrupt.check()?;
            let batch = batch?;
            if rows < ROWS_KEPT_MAX {
                rows += batch.num_rows();
                kept.push(batch.clone());
            }
            Ok(batch)
        });
        let mut shown = Answer::new(SchemaRef::clone(&schema), kept_too);
        if let Some(zone) = self.zone.as_deref().filter(|_| !format.is_binary()) {
            shown = in_zone(shown, zone);
        }
        output::write(shown, format, Compression::default(), out, &mut |_| {})?;
        self.last = Some((schema, kept));
        Ok(())
    }

    fn command(&mut self, command: Command, out: &mut (dyn Write + Send)) -> anyhow::Result<()> {
        let (source, database) = (&self.source, self.database.as_str());
        let text = match command {
            Command::Quit => String::new(),
            Command::Help => command::help(),
            Command::Databases => {
                let names = source.databases(database)?;
                names.into_iter().map(|name| name + "\n").collect()
            }
            Command::Schemas => describe::schemas(source, database)?,
            Command::Tables => describe::tables(source, database)?,
            Command::Describe(table) => describe::table(source, database, &table)?,
            Command::Functions(word) => describe::functions(source, database, word.as_deref())?,
            Command::Connect(name) => self.connect(&name)?,
            Command::Timing(wish) => {
                self.timing = wish.unwrap_or(!self.timing);
                format!("timing is {}\n", on_or_off(self.timing))
            }
            Command::Pager(wish) => {
                self.pager = wish.unwrap_or(!self.pager);
                format!("the pager is {}\n", on_or_off(self.pager))
            }
            Command::Expanded(wish) => {
                let is_on = wish.unwrap_or(self.format != Format::Expanded);
                self.format = if is_on {
                    Format::Expanded
                } else {
                    Format::Table
                };
                format!("expanded display is {}\n", on_or_off(is_on))
            }
            Command::Output(path) => {
                self.write_to(path.as_deref())?;
                String::new()
            }
            Command::Watch { pause, count } => return self.watch(pause, count, out),
            Command::Edit => bail!(
                "\\e needs the shell at a terminal; put the statement in a file and run it with \\i FILE"
            ),
            Command::Format(wish) => {
                self.format = wish.unwrap_or(self.format);
                format!("rows are shown as {}\n", self.format.name())
            }
            Command::Include(path) => return self.include(&path, out),
            Command::Chart(statement) => self.chart(statement.as_deref())?,
        };
        Ok(out.write_all(text.as_bytes())?)
    }

    fn connect(&mut self, name: &str) -> anyhow::Result<String> {
        // A query that needs nothing but the database tells whether there is one.
        for batch in self.source.query(name, "SELECT 1")? {
            batch?;
        }
        name.clone_into(&mut self.database);
        Ok(format!("connected to database {name}\n"))
    }

    /// Ends the file that answers go to, and opens another, or none.
    fn write_to(&mut self, path: Option<&Path>) -> anyhow::Result<()> {
        if let Some(file) = self.file.take() {
            file.destination.finish()?;
        }
        if let Some(path) = path {
            let format = Format::of_file(path)?;
            self.file = Some(OutputFile {
                format,
                destination: Destination::open(Some(path), format)?,
                name: path.display().to_string(),
            });
        }
        Ok(())
    }

    fn watch(
        &mut self,
        pause: Duration,
        count: Option<u64>,
        out: &mut (dyn Write + Send),
    ) -> anyhow::Result<()> {
        let Some(statement) = self.last_statement.clone() else {
            bail!("there is no statement to repeat yet; run one first");
        };
        let mut runs = 0;
        loop {
            if self.format.is_for_people() {
                let now = chrono::Utc::now().format("%Y-%m-%d %H:%M:%S UTC");
                writeln!(out, "{now} (every {} s)", pause.as_secs_f64())?;
            }
            self.statement(&statement, out)?;
            out.flush()?;
            runs += 1;
            if Some(runs) == count {
                return Ok(());
            }
            // Ctrl-C is how it ends, unless a query runs just then.
            if self.interrupt.sleep(pause).is_err() {
                return Ok(());
            }
        }
    }

    fn include(&mut self, path: &Path, out: &mut (dyn Write + Send)) -> anyhow::Result<()> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        if self.includes >= INCLUDES_MAX {
            bail!(
                "{} is included {INCLUDES_MAX} files deep; does a file include itself?",
                path.display()
            );
        }
        self.includes += 1;
        let ran = self.run_script(&text, out);
        self.includes -= 1;
        ran.with_context(|| path.display().to_string())?;
        Ok(())
    }

    fn chart(&mut self, statement: Option<&str>) -> anyhow::Result<String> {
        if let Some(statement) = statement {
            let answer = self.query(statement)?;
            let schema = answer.schema();
            let mut batches = Vec::new();
            let mut rows = 0;
            for batch in answer {
                let batch = batch?;
                rows += batch.num_rows();
                if rows > ROWS_KEPT_MAX {
                    bail!(
                        "the answer has more than {ROWS_KEPT_MAX} rows, too many for a chart; group them, as in SELECT time_bucket('1 hour', time) AS t, avg(v) ... GROUP BY t"
                    );
                }
                batches.push(batch);
            }
            self.last = Some((schema, batches));
        }
        match &self.last {
            Some((schema, batches)) => chart::chart(schema, batches, self.zone.as_deref()),
            None => bail!(
                "there is no answer yet; run a query first, or give one: \\chart SELECT time, ..."
            ),
        }
    }
}

fn wrong_setting(error: nilometer_service::Error) -> anyhow::Error {
    positioned(nilometer::Error::Query(error))
}

/// Whether an answer is a number and nothing else, as that of a statement that writes is.
fn is_count(schema: &SchemaRef) -> bool {
    matches!(schema.fields().as_ref(), [field] if field.data_type() == &DataType::Int64)
}

fn done(tag: &Tag, answer: Answer<'_>, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut rows = 0;
    for batch in answer {
        let batch = batch?;
        let column = batch.columns().first();
        let counts = column.and_then(|column| column.as_primitive_opt::<Int64Type>());
        rows += counts.map_or(0, |counts| counts.iter().flatten().sum::<i64>());
    }
    Ok(writeln!(out, "{}", tag.text(rows))?)
}

fn on_or_off(is_on: bool) -> &'static str {
    if is_on { "on" } else { "off" }
}

fn took(begun: Instant) -> String {
    format!("took {:.1} ms", begun.elapsed().as_secs_f64() * 1e3)
}
