//! An open data directory with everything that it needs to run by itself.
//!
//! Does: open and close the store, with the service that surfaces stand on too. Does not: know line protocol or SQL; the
//! crates below do.

use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::Schema;
use nilometer_engine::ingest::{Missing, OnConflict, Target, TypedReport, WriteReport};
use nilometer_engine::{Engine, Error as EngineError, ingest};
use nilometer_lineproto::Precision;
use nilometer_service::{
    Params, Principal, QueryOptions, Scope, Service, ServiceOptions, Session as ServiceSession,
    Threads, WhenMissing, define, open_store,
};
use tokio::sync::oneshot;

use crate::library::error::Error;
use crate::library::languages::languages;
use crate::library::rows::{RowStream, Rows, begin};
use crate::library::session::Session;

/// How a database is opened.
#[derive(Debug, Clone)]
pub struct Options {
    /// Settings of the store.
    pub store: nilometer_engine::Options,
    /// Limits of queries.
    pub sql: QueryOptions,
    /// Make the data directory if there is none.
    pub create: bool,
    /// Run threads that turn rows in memory into files, and merge files. Without them, writers do the first when memory
    /// is full, and nobody does the second: right for a program that only reads.
    pub maintain: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            store: nilometer_engine::Options::default(),
            sql: QueryOptions::default(),
            create: true,
            maintain: true,
        }
    }
}

/// Opens the data directory `dir` with the default options, or makes it.
pub fn open(dir: impl AsRef<Path>) -> Result<Database, Error> {
    Database::open(dir, Options::default())
}

/// An open data directory. Share it by reference between as many threads as you like.
///
/// Dropping it stops its threads; rows that are in memory then are in the log too and are read from there at the next
/// start. [`Database::close`] writes them to a segment first, so that the next start has nothing to read.
///
/// ```
/// # let scratch = tempfile::tempdir()?;
/// # let database = nilometer::open(scratch.path().join("data"))?;
/// use nilometer::Precision;
///
/// std::thread::scope(|scope| {
///     for lines in ["m v=1 1", "m v=2 2"] {
///         let database = &database;
///         scope.spawn(move || database.write_line_protocol("d", lines.as_bytes(), Precision::Second));
///     }
/// });
/// assert_eq!(database.engine().metrics().rows_written, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Database {
    pub(crate) service: Arc<Service>,
    engine: Arc<Engine>,
}

impl Database {
    /// Opens the data directory `dir`. It stays locked for other processes until the database is dropped.
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Self, Error> {
        let dir = dir.as_ref();
        if !options.create && !dir.join("manifest").is_file() {
            return Err(Error::NoStore {
                path: dir.to_owned(),
            });
        }
        let engine = Arc::new(open_store(dir, options.store)?);
        let executor = Threads::start(options.sql.threads)?;
        let shared = ServiceOptions {
            query: options.sql,
            ..ServiceOptions::default()
        };
        let service = Service::new(Arc::clone(&engine), executor, shared, languages)?;
        if options.maintain {
            service.maintain()?;
        }
        Ok(Self { service, engine })
    }

    /// Makes a database in the store; `false` = it was there already. [`Database::write_line_protocol`] does it by
    /// itself.
    pub fn create_database(&self, name: &str) -> Result<bool, Error> {
        Ok(define::create_database(self.engine(), name)?)
    }

    /// Writes the points of `lines` to a database, which is made if there is none of that name. Tables, tags and fields
    /// that are new are made too.
    ///
    /// Returns when all points that can be kept are on stable storage and visible. The report names the lines that
    /// cannot; an `Err` means that nothing was kept.
    ///
    /// ```
    /// # let scratch = tempfile::tempdir()?;
    /// # let database = nilometer::open(scratch.path().join("data"))?;
    /// use nilometer::Precision;
    ///
    /// let report = database.write_line_protocol("d", b"m v=1.5 1\nm v=oops 2\n", Precision::Second)?;
    /// assert_eq!(report.rows, 1);
    /// assert_eq!(report.rejected[0].line_number, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_line_protocol(
        &self,
        database: &str,
        lines: &[u8],
        precision: Precision,
    ) -> Result<WriteReport, Error> {
        self.with_session(database, |session| session.write_lines(lines, precision))
    }

    /// As [`Database::write_line_protocol`], but lines that were kept under this key lately are not written again. So
    /// who does not know whether a write came through sends it again with the same key.
    ///
    /// ```
    /// # let scratch = tempfile::tempdir()?;
    /// # let database = nilometer::open(scratch.path().join("data"))?;
    /// use nilometer::Precision;
    ///
    /// let key = *b"sixteen bytes...";
    /// let first = database.write_line_protocol_once(key, "d", b"m v=1.5 1", Precision::Second)?;
    /// let second = database.write_line_protocol_once(key, "d", b"m v=1.5 1", Precision::Second)?;
    /// assert_eq!((first.repeated, second.repeated), (false, true));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_line_protocol_once(
        &self,
        key: [u8; 16],
        database: &str,
        lines: &[u8],
        precision: Precision,
    ) -> Result<WriteReport, Error> {
        self.with_session(database, |session| {
            session.write_lines_once(key, lines, precision)
        })
    }

    /// As [`Database::write_line_protocol_once`], to a schema of the database; `None` is the default one. A schema that is
    /// named is not made, and neither is its database.
    ///
    /// ```
    /// # let scratch = tempfile::tempdir()?;
    /// # let database = nilometer::open(scratch.path().join("data"))?;
    /// use nilometer::Precision;
    ///
    /// database.influxql("CREATE DATABASE d WITH NAME a_year")?;
    /// let (key, place) = (*b"sixteen bytes...", ("d", Some("a_year")));
    /// let report = database.write_line_protocol_to(key, place, b"m v=1.5 1", Precision::Second)?;
    /// assert_eq!(report.rows, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_line_protocol_to(
        &self,
        key: [u8; 16],
        (database, schema): (&str, Option<&str>),
        lines: &[u8],
        precision: Precision,
    ) -> Result<WriteReport, Error> {
        let scope = Scope {
            database: database.to_owned(),
            schema: schema.map(str::to_owned),
        };
        let when_missing = match schema {
            None => WhenMissing::Create(&|| Ok(())),
            Some(_) => WhenMissing::Refuse,
        };
        let sessions = self.service.sessions();
        let write = |session: &mut ingest::Session| session.write_lines_once(key, lines, precision);
        Ok(sessions.write(&scope, when_missing, write)?)
    }

    /// Runs one statement of `InfluxQL` that answers no rows, such as `CREATE DATABASE d WITH DURATION 30d`. Not to be
    /// called from a runtime's thread.
    pub fn influxql(&self, statement: &str) -> Result<(), Error> {
        let (tell, told) = oneshot::channel();
        let language = self.service.language("influxql").map(Arc::clone);
        let statement = statement.to_owned();
        self.service.spawn(async move {
            let session = ServiceSession::new("", Principal::anyone());
            let done = match language {
                Ok(language) => session.run(&*language, &statement, &Params::new()).await,
                Err(error) => Err(error),
            };
            // Whoever does not listen any more does not need it.
            let _ = tell.send(done.map(drop).map_err(Error::of_query));
        });
        told.blocking_recv().map_err(|_| Error::Stopped)?
    }

    /// Writes the rows of a record batch to a table, which must be there with all columns that are written: all rows, but
    /// for those that `on_conflict` leaves out, or none. Columns are found by their names, and `time` must be one of them.
    ///
    /// ```
    /// # let scratch = tempfile::tempdir()?;
    /// # let database = nilometer::open(scratch.path().join("data"))?;
    /// use std::sync::Arc;
    ///
    /// use nilometer::arrow::array::{Float64Array, RecordBatch, StringArray, TimestampNanosecondArray};
    /// use nilometer::{OnConflict, Precision, Target};
    ///
    /// // The first line makes the table and its columns.
    /// database.write_line_protocol("d", b"air,city=Cairo temperature=31.5 1", Precision::Second)?;
    /// let rows = RecordBatch::try_from_iter([
    ///     ("time", Arc::new(TimestampNanosecondArray::from(vec![2_000_000_000, 3_000_000_000])) as _),
    ///     ("city", Arc::new(StringArray::from(vec!["Cairo", "Aswan"])) as _),
    ///     ("temperature", Arc::new(Float64Array::from(vec![32.0, 36.5])) as _),
    /// ])?;
    /// let report = database.write_arrow("d", Target::table("air"), &rows, OnConflict::Replace)?;
    /// assert_eq!(report.written, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_arrow(
        &self,
        database: &str,
        target: Target<'_>,
        rows: &RecordBatch,
        on_conflict: OnConflict,
    ) -> Result<TypedReport, Error> {
        self.with_session(database, |session| {
            session.write_arrow(target, rows, on_conflict)
        })
    }

    /// As [`Self::write_arrow`], but a batch that was written under this key lately is not written again.
    pub fn write_arrow_once(
        &self,
        key: [u8; 16],
        database: &str,
        target: Target<'_>,
        rows: &RecordBatch,
        on_conflict: OnConflict,
    ) -> Result<TypedReport, Error> {
        self.with_session(database, |session| {
            session.write_arrow_once(key, target, rows, on_conflict)
        })
    }

    /// Makes the table that rows of these columns would go to, if it is not there, or the columns that it lacks, if that
    /// is wanted. The database is made if there is none of that name.
    ///
    /// ```
    /// # let scratch = tempfile::tempdir()?;
    /// # let database = nilometer::open(scratch.path().join("data"))?;
    /// use std::sync::Arc;
    ///
    /// use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringArray, TimestampSecondArray};
    /// use nilometer::{Missing, OnConflict, Target};
    ///
    /// let columns: [(&str, ArrayRef); 3] = [
    ///     ("time", Arc::new(TimestampSecondArray::from(vec![1_714_564_800, 1_714_564_860]))),
    ///     ("name", Arc::new(StringArray::from(vec!["kitchen", "attic"]))),
    ///     ("temperature", Arc::new(Float64Array::from(vec![21.5, 12.5]))),
    /// ];
    /// let rows = RecordBatch::try_from_iter(columns)?;
    /// let room = Target::table("room");
    /// let tags = ["name".to_owned()];
    /// let missing = Missing { tags: Some(&tags), ..Missing::default() };
    /// database.make_missing("house", room, rows.schema_ref(), missing)?;
    /// let report = database.write_arrow("house", room, &rows, OnConflict::Replace)?;
    /// assert_eq!(report.written, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn make_missing(
        &self,
        database: &str,
        target: Target<'_>,
        columns: &Schema,
        missing: Missing<'_>,
    ) -> Result<(), Error> {
        self.with_session(database, |session| {
            session.make_missing(target, columns, missing)
        })
    }

    /// Statements that share a time zone: what `SET TIME ZONE` sets holds for those that follow. Names without a database
    /// are looked up in `database`.
    pub fn session(&self, database: &str) -> Session<'_> {
        Session::new(self, database)
    }

    /// Runs one statement and waits for its first row. Names without a database are looked up in `database`.
    ///
    /// The rest is computed while the rows are read; dropping them stops the query. Not to be called from a runtime's
    /// thread: [`Database::sql_async`] is for that.
    ///
    /// ```
    /// # let scratch = tempfile::tempdir()?;
    /// # let database = nilometer::open(scratch.path().join("data"))?;
    /// use nilometer::arrow::array::AsArray;
    /// use nilometer::arrow::datatypes::Int64Type;
    ///
    /// database.create_database("d")?;
    /// let mut rows = database.sql("d", "select 6 * 7 as answer")?;
    /// assert_eq!(rows.schema().field(0).name(), "answer");
    /// let batch = rows.next().expect("one batch")?;
    /// assert_eq!(batch.column(0).as_primitive::<Int64Type>().value(0), 42);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn sql(&self, database: &str, statement: &str) -> Result<Rows, Error> {
        let begun = self.begin(database, statement);
        begun.wait()
    }

    /// As [`Database::sql`], for a program that is asynchronous itself, on whichever runtime.
    ///
    /// ```
    /// # let scratch = tempfile::tempdir()?;
    /// # let database = nilometer::open(scratch.path().join("data"))?;
    /// # database.create_database("d")?;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// # runtime.block_on(async {
    /// use futures::StreamExt;
    ///
    /// let mut rows = database.sql_async("d", "select 1 as one union all select 2").await?;
    /// let mut count = 0;
    /// while let Some(batch) = rows.next().await {
    ///     count += batch?.num_rows();
    /// }
    /// assert_eq!(count, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn sql_async(&self, database: &str, statement: &str) -> Result<RowStream, Error> {
        let begun = self.begin(database, statement);
        begun.wait_async().await
    }

    /// The engine below, for what has no method here: deletes, changes of the schema, backups, metrics.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Stops maintenance and writes what is in memory to a segment, so that the next start has nothing to read.
    pub fn close(self) -> Result<(), Error> {
        Ok(self.service.close()?)
    }

    fn begin(&self, database: &str, statement: &str) -> crate::library::rows::Begun {
        begin(
            &self.service,
            ServiceSession::new(database, Principal::anyone()),
            statement,
        )
    }

    fn with_session<T>(
        &self,
        database: &str,
        write: impl FnMut(&mut ingest::Session) -> Result<T, EngineError>,
    ) -> Result<T, Error> {
        let scope = Scope::of_database(database);
        let when_missing = WhenMissing::Create(&|| Ok(()));
        let sessions = self.service.sessions();
        Ok(sessions.write(&scope, when_missing, write)?)
    }
}

#[cfg(feature = "sql")]
#[cfg(test)]
mod tests {
    use super::*;

    fn rows(database: &Database, statement: &str) -> usize {
        let rows = database.sql("d", statement).unwrap();
        rows.map(|batch| batch.unwrap().num_rows()).sum()
    }

    #[test]
    fn a_database_that_was_dropped_is_made_anew_by_the_next_write() {
        // A program that wrote, dropped the database and wrote again was told that there is no such database, where the
        // server takes the same rows: the session kept from the first write knew the database that was gone.
        let scratch = tempfile::tempdir().unwrap();
        let database = open(scratch.path()).unwrap();
        let write = || database.write_line_protocol("d", b"m v=1 1", Precision::Second);
        write().unwrap();
        database.engine().drop_database("d").unwrap();
        assert_eq!(write().unwrap().rows, 1);
        assert_eq!(rows(&database, "select * from m"), 1);
    }

    #[test]
    fn a_directory_that_must_be_there_is_not_made() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("data");
        let options = Options {
            create: false,
            ..Options::default()
        };
        let error = Database::open(&dir, options.clone()).unwrap_err();
        assert!(matches!(error, Error::NoStore { .. }), "{error}");
        assert!(!dir.exists());
        open(&dir).unwrap().close().unwrap();
        Database::open(&dir, options).unwrap();
    }

    #[test]
    fn a_directory_is_open_once_and_what_was_written_outlives_it() {
        let scratch = tempfile::tempdir().unwrap();
        let database = open(scratch.path()).unwrap();
        let report = database.write_line_protocol("d", b"m v=1 1\nm v=2 2", Precision::Second);
        assert_eq!(report.unwrap().rows, 2);
        let error = open(scratch.path()).unwrap_err();
        assert!(error.to_string().contains("in use"), "{error}");
        // Without closing: the rows are in the log.
        drop(database);
        let database = open(scratch.path()).unwrap();
        assert_eq!(rows(&database, "select * from m"), 2);
    }

    #[test]
    fn rows_that_nobody_reads_to_the_end_stop_their_query() {
        let scratch = tempfile::tempdir().unwrap();
        // One thread: it would still be busy with the first, if that had not stopped.
        let sql = QueryOptions {
            threads: 1,
            ..QueryOptions::default()
        };
        let options = Options {
            sql,
            ..Options::default()
        };
        let database = Database::open(scratch.path(), options).unwrap();
        let lines = (0..5_000)
            .map(|n| format!("m v={n} {n}\n"))
            .collect::<Vec<_>>()
            .concat();
        let written = database.write_line_protocol("d", lines.as_bytes(), Precision::Second);
        assert_eq!(written.unwrap().rows, 5_000);
        for _ in 0..8 {
            let many = "select a.v from m a cross join m b";
            let mut rows = database.sql("d", many).unwrap();
            assert!(rows.next().unwrap().unwrap().num_rows() > 0);
        }
        assert_eq!(rows(&database, "select * from m limit 10"), 10);
    }

    #[test]
    fn a_wrong_statement_is_an_error_with_its_place() {
        let scratch = tempfile::tempdir().unwrap();
        let database = open(scratch.path()).unwrap();
        database.create_database("d").unwrap();
        let error = database.sql("d", "select 1 +").unwrap_err();
        assert!(matches!(error, Error::Query(_)), "{error}");
        let error = database.sql("nowhere", "select 1").unwrap_err();
        assert!(error.to_string().contains("nowhere"), "{error}");
    }

    #[test]
    fn an_error_on_the_way_is_the_last_item_and_not_a_silent_end() {
        let scratch = tempfile::tempdir().unwrap();
        let database = open(scratch.path()).unwrap();
        database
            .write_line_protocol("d", b"m v=0i 1", Precision::Second)
            .unwrap();
        let mut rows = database.sql("d", "select 1 / v from m").unwrap();
        assert!(rows.next().unwrap().is_err());
        assert!(rows.next().is_none());
    }
}
