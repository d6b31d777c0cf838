//! `nilometer sql`: one statement, a script, or a conversation.
//!
//! Does: carry out statements and commands one after the other and show what comes of them. Does not: touch the
//! terminal; [`terminal`] reads lines from it, and everything else works without one.

pub(crate) mod chart;
pub(crate) mod command;
pub(crate) mod complete;
pub(crate) mod describe;
pub(crate) mod split;
pub(crate) mod terminal;

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, bail};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

use self::command::Command;
use self::split::{Item, split_all};
use crate::output::destination::is_closed_pipe;
use crate::output::{self, Compression, Format};
use crate::source::{Answer, Source};

/// Rows of the last answer that are kept for `\chart`.
const ROWS_KEPT_MAX: usize = 100_000;

/// How deep files may include files.
const INCLUDES_MAX: usize = 16;

/// Where a conversation stands.
pub(crate) struct Shell {
    pub(crate) source: Source,
    pub(crate) database: String,
    pub(crate) format: Format,
    pub(crate) timing: bool,
    last: Option<(SchemaRef, Vec<RecordBatch>)>,
    includes: usize,
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
            format,
            timing: false,
            last: None,
            includes: 0,
        }
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

    /// Carries out one thing.
    pub(crate) fn run(
        &mut self,
        item: &Item,
        out: &mut (dyn Write + Send),
    ) -> anyhow::Result<Next> {
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
        let answer = self.source.query(&self.database, statement)?;
        let schema = answer.schema();
        // A statement that only does something answers without columns.
        if schema.fields().is_empty() {
            for batch in answer {
                batch?;
            }
            return Ok(writeln!(out, "done")?);
        }
        let (mut kept, mut rows) = (Vec::new(), 0);
        let kept_too = answer.inspect(|batch| {
            if let Ok(batch) = batch
                && rows < ROWS_KEPT_MAX
            {
                rows += batch.num_rows();
                kept.push(batch.clone());
            }
        });
        let shown = Answer::new(SchemaRef::clone(&schema), kept_too);
        output::write(shown, self.format, Compression::default(), out, &mut |_| {})?;
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
                format!("timing is {}\n", if self.timing { "on" } else { "off" })
            }
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
        Ok(format!("this is database {name} now\n"))
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
            let answer = self.source.query(&self.database, statement)?;
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
            Some((schema, batches)) => chart::chart(schema, batches),
            None => bail!(
                "there is no answer yet; run a query first, or give one: \\chart SELECT time, ..."
            ),
        }
    }
}

fn took(begun: Instant) -> String {
    format!("took {:.1} ms", begun.elapsed().as_secs_f64() * 1e3)
}
