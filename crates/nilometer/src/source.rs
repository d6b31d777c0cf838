//! Sources of rows: a server, or an offline data directory.
//!
//! Does: choose between the two by the command line, run statements on either. Does not: print or format.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use clap::Args;
use nilometer::{Database, Options, Session};
use nilometer_engine::{Duplicates, OnDamage};

use crate::client::answers::ServerRows;
use crate::client::{Server, ServerArgs, place};
use crate::sql_text::literal;

/// A server or a directory.
#[derive(Debug, Clone, Args)]
pub(crate) struct SourceArgs {
    /// Open this offline data directory instead of connecting to a server.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    // Last, because what follows would stand under its heading in the help.
    #[command(flatten)]
    server: ServerArgs,
}

/// What the arguments meant.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    Server(Server),
    Store(Arc<Database>),
}

/// What a directory is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It must be there, and its files stay as they are.
    Read,
    /// It is made if it is not there.
    Write,
}

impl SourceArgs {
    pub(crate) fn open(&self, purpose: Purpose) -> anyhow::Result<Source> {
        let Some(dir) = &self.data else {
            return Ok(Source::Server(Server::new(&self.server)?));
        };
        let mut options = Options {
            create: purpose == Purpose::Write,
            maintain: purpose == Purpose::Write,
            ..Options::default()
        };
        if purpose == Purpose::Read {
            // Putting damaged files aside changes the directory; `nilometer check --repair` does it when asked to.
            options.store.on_damage = OnDamage::Refuse;
        }
        // Whoever sits before it can stop it.
        options.sql.query_ms_max = u64::MAX >> 16;
        Ok(Source::Store(Arc::new(Database::open(dir, options)?)))
    }
}

/// Rows of an answer as they are computed.
pub(crate) struct Answer<'a> {
    schema: SchemaRef,
    batches: Batches<'a>,
}

enum Batches<'a> {
    Server(Box<ServerRows>),
    Store(nilometer::Rows),
    Others(Box<dyn Iterator<Item = anyhow::Result<RecordBatch>> + 'a>),
}

impl Source {
    /// Runs a statement; names without a database are looked up in `database`.
    pub(crate) fn query(&self, database: &str, statement: &str) -> anyhow::Result<Answer<'static>> {
        self.query_in(database, None, statement)
    }

    /// As [`Source::query`], with times without an offset in this time zone.
    pub(crate) fn query_in(
        &self,
        database: &str,
        zone: Option<&str>,
        statement: &str,
    ) -> anyhow::Result<Answer<'static>> {
        match self {
            Self::Server(server) => {
                let rows = server.rows(database, zone, statement)?;
                Ok(Answer {
                    schema: rows.schema(),
                    batches: Batches::Server(Box::new(rows)),
                })
            }
            Self::Store(store) => {
                let session = session(store, database, zone);
                let rows = session.and_then(|mut session| session.sql(statement));
                let rows = rows.map_err(positioned)?;
                Ok(Answer {
                    schema: rows.schema(),
                    batches: Batches::Store(rows),
                })
            }
        }
    }

    /// The columns of a table of the default schema; `None` = there is no such table.
    pub(crate) fn columns(&self, database: &str, table: &str) -> anyhow::Result<Option<SchemaRef>> {
        match self {
            Self::Server(server) => server.columns(database, table),
            Self::Store(store) => {
                let snapshot = store.engine().snapshot();
                let schema = snapshot.default_schema(database);
                let found = schema.and_then(|schema| snapshot.table(database, &schema, table));
                Ok(found.map(|table| table.arrow_schema()))
            }
        }
    }

    /// What a table of the default schema does with rows of one series and time; `None` = there is no such table.
    pub(crate) fn duplicates(
        &self,
        database: &str,
        table: &str,
    ) -> anyhow::Result<Option<Duplicates>> {
        if let Self::Store(store) = self {
            let snapshot = store.engine().snapshot();
            let schema = snapshot.default_schema(database);
            let found = schema.and_then(|schema| snapshot.table(database, &schema, table));
            return Ok(found.map(|table| table.settings.duplicates));
        }
        let statement = format!(
            "SELECT duplicates FROM system.tables WHERE kind = 'table' AND table_name = {} AND database_name = {} ORDER BY schema_name <> 'public' LIMIT 1",
            literal(table),
            literal(database)
        );
        let found = self.query(database, &statement)?.texts()?;
        let found = found.first().map(String::as_str);
        Ok(match found {
            Some("last") => Some(Duplicates::Last),
            Some("keep") => Some(Duplicates::Keep),
            Some("unique") => Some(Duplicates::Unique),
            _ => None,
        })
    }

    /// The same for another thread, or after [`Source::break_off`].
    pub(crate) fn reconnected(&self) -> Self {
        match self {
            Self::Server(server) => Self::Server(server.reconnected()),
            Self::Store(store) => Self::Store(Arc::clone(store)),
        }
    }

    /// Ends all that waits for a server. What waits for a store is ended by dropping it.
    pub(crate) fn break_off(&self) {
        if let Self::Server(server) = self {
            server.disconnect();
        }
    }

    /// What it is, for people.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Server(server) => server.url().to_owned(),
            Self::Store(store) => store.engine().dir().display().to_string(),
        }
    }

    /// Names of the databases.
    pub(crate) fn databases(&self, database: &str) -> anyhow::Result<Vec<String>> {
        if let Self::Store(store) = self {
            return Ok(store.engine().snapshot().databases());
        }
        self.query(database, "SHOW DATABASES")?.texts()
    }

    /// Ends what was opened.
    pub(crate) fn close(self) -> anyhow::Result<()> {
        match self {
            Self::Server(_) => Ok(()),
            // Somebody who still reads closes it by ending.
            Self::Store(store) => match Arc::into_inner(store) {
                Some(store) => Ok(store.close()?),
                None => Ok(()),
            },
        }
    }
}

/// A session of a store for one statement.
pub(crate) fn session<'a>(
    store: &'a Database,
    database: &str,
    zone: Option<&str>,
) -> Result<Session<'a>, nilometer::Error> {
    let mut session = store.session(database);
    if let Some(zone) = zone {
        session.set_time_zone(zone)?;
    }
    Ok(session)
}

/// The error of a query with the place it names, as a server's error has it.
pub(crate) fn positioned(error: nilometer::Error) -> anyhow::Error {
    let position = match &error {
        nilometer::Error::Query(error) => error.position(),
        _ => None,
    };
    match position {
        Some(at) => {
            let said = error.to_string();
            let place = place(&said, at.line, at.column);
            anyhow::anyhow!("{said}{place}")
        }
        None => error.into(),
    }
}

impl<'a> Answer<'a> {
    /// Rows from elsewhere.
    pub(crate) fn new(
        schema: SchemaRef,
        batches: impl Iterator<Item = anyhow::Result<RecordBatch>> + 'a,
    ) -> Self {
        Self {
            schema,
            batches: Batches::Others(Box::new(batches)),
        }
    }

    pub(crate) fn schema(&self) -> SchemaRef {
        SchemaRef::clone(&self.schema)
    }

    /// The first column as text, for answers known to be small.
    pub(crate) fn texts(self) -> anyhow::Result<Vec<String>> {
        let mut texts = Vec::new();
        for batch in self {
            let batch = batch?;
            let column = batch
                .columns()
                .first()
                .context("the answer has no column")?;
            for row in 0..batch.num_rows() {
                texts.push(arrow::util::display::array_value_to_string(column, row)?);
            }
        }
        Ok(texts)
    }
}

impl Iterator for Answer<'_> {
    type Item = anyhow::Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.batches {
            Batches::Server(rows) => {
                let batch = rows.next()?;
                Some(batch.context("the connection closed before the answer was complete; the server's log says why"))
            }
            Batches::Store(rows) => Some(rows.next()?.map_err(positioned)),
            Batches::Others(batches) => batches.next(),
        }
    }
}
