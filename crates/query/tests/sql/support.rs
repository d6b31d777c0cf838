//! A store in memory, and answers as text.

use std::path::Path;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use nilometer_engine::disk::MemoryDisk;
use nilometer_engine::ingest::Session;
use nilometer_engine::{CompactionOptions, Engine, Options, SystemClock};
use nilometer_lineproto::Precision;
use nilometer_query::{Answer, Error, Params, Sql, SqlOptions};

/// A plan without the numbers of what the planner has named in passing, which a second round of rules goes on counting.
fn without_numbers(plan: &str) -> String {
    let mut parts = plan.split("__common_expr_");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str("__common_expr_N");
        text.push_str(part.trim_start_matches(|c: char| c.is_ascii_digit()));
    }
    text
}

/// The same statement with other digits in its texts. Not all of them mean something then.
fn with_other_texts(sql: &str) -> String {
    let mut is_text = false;
    // Whether a number that is compared with begins here, or goes on.
    let mut is_compared = false;
    let other = |c: char| {
        is_text ^= c == '\'';
        is_compared = match c {
            '=' => !is_text,
            ' ' | '0'..='9' => is_compared,
            _ => false,
        };
        match c {
            '0' if is_text || is_compared => '1',
            '1'..='9' if is_text || is_compared => char::from(c as u8 - 1),
            _ => c,
        }
    };
    sql.chars().map(other).collect()
}

/// An engine on a disk in memory, with SQL over it.
pub(crate) struct Store {
    pub(crate) engine: Arc<Engine>,
    sql: Sql,
    disk: Arc<MemoryDisk>,
}

impl Store {
    pub(crate) fn new() -> Self {
        Self::with(SqlOptions::default())
    }

    pub(crate) fn with(options: SqlOptions) -> Self {
        Self::open(options, Options::default())
    }

    /// A store that merges whatever it has when it is told to, however little and however new that is.
    pub(crate) fn that_compacts() -> Self {
        let compaction = CompactionOptions {
            fan_in: 2,
            partition_rows_min: 1,
            widen_rows_max: 0,
            settle_ms: 0,
            ..CompactionOptions::default()
        };
        let options = Options {
            compaction,
            ..Options::default()
        };
        Self::open(SqlOptions::default(), options)
    }

    /// Rows become a segment, and segments partitions, until there is nothing left to do.
    pub(crate) fn compact(&self) {
        self.engine.settle().unwrap();
    }

    fn open(options: SqlOptions, store: Options) -> Self {
        let disk = Arc::new(MemoryDisk::default());
        let engine = Engine::open(
            Arc::clone(&disk) as _,
            Arc::new(SystemClock),
            Path::new("/data"),
            store,
        )
        .unwrap();
        let engine = Arc::new(engine);
        engine.create_database("d").unwrap();
        let sql = Sql::new(Arc::clone(&engine), options).unwrap();
        Self { engine, sql, disk }
    }

    /// The same store after its process has ended without a word.
    pub(crate) fn reopened(self) -> Self {
        let Self { engine, sql, disk } = self;
        drop((engine, sql));
        let engine = Engine::open(
            Arc::clone(&disk) as _,
            Arc::new(SystemClock),
            Path::new("/data"),
            Options::default(),
        );
        let engine = Arc::new(engine.unwrap());
        let sql = Sql::new(Arc::clone(&engine), SqlOptions::default()).unwrap();
        Self { engine, sql, disk }
    }

    /// The way in, for what only it can do.
    pub(crate) fn sql(&self) -> &Sql {
        &self.sql
    }

    /// Whether a query counts as plain.
    pub(crate) async fn is_plain(&self, sql: &str) -> bool {
        self.sql.plans("d", sql).await.unwrap().is_some()
    }

    /// Plain queries are planned with few rules, or from templates; what comes out is what all rules would have made. So it is
    /// for the same query with other literals, whose template is then that of the first.
    async fn assert_planned_as_with_all_rules(&self, sql: &str) {
        // Two plans of one statement are of two moments.
        if sql.contains("now()") {
            return;
        }
        for sql in [sql, &with_other_texts(sql)] {
            if let Ok(Some(plans)) = self.sql.plans("d", sql).await {
                let [plain, all, by_template] = plans.map(|plan| without_numbers(&plan));
                assert_eq!(plain, all, "planned with few rules and with all: {sql}");
                assert_eq!(
                    plain, by_template,
                    "planned afresh and from a template: {sql}"
                );
            }
        }
    }

    /// An answer that is not read yet.
    pub(crate) async fn start(&self, sql: &str) -> Answer {
        self.sql.query("d", sql).await.unwrap()
    }

    /// As [`Self::rows`], with parameters.
    pub(crate) async fn rows_with(&self, sql: &str, params: &Params) -> Vec<String> {
        let answer = self.sql.query_with("d", sql, params).await;
        let answer = answer.unwrap_or_else(|error| panic!("{sql}: {error}"));
        rows(&answer.collect().await.unwrap())
    }

    /// As [`Self::error`], with parameters.
    pub(crate) async fn error_with(&self, sql: &str, params: &Params) -> Error {
        self.sql.query_with("d", sql, params).await.unwrap_err()
    }

    /// Writes lines with times in nanoseconds into a database, which is created if need be.
    pub(crate) fn write_to(&self, database: &str, lines: &str) {
        self.write_with(database, lines, Precision::Nanosecond);
    }

    /// Writes lines with times in seconds into the database `d`.
    pub(crate) fn write_seconds(&self, lines: &str) {
        self.write_with("d", lines, Precision::Second);
    }

    fn write_with(&self, database: &str, lines: &str, precision: Precision) {
        self.engine.create_database(database).unwrap();
        let mut session = Session::new(Arc::clone(&self.engine), database).unwrap();
        let report = session.write_lines(lines.as_bytes(), precision).unwrap();
        assert_eq!(report.rejected_total, 0, "{:?}", report.rejected);
    }

    /// Names of the columns of an answer, and its batches.
    pub(crate) async fn answer(&self, sql: &str) -> Result<(Vec<String>, Vec<RecordBatch>), Error> {
        self.assert_planned_as_with_all_rules(sql).await;
        let answer = self.sql.query("d", sql).await?;
        let schema = answer.schema();
        let names = schema.fields().iter().map(|field| field.name().clone());
        Ok((names.collect(), answer.collect().await?))
    }

    /// Writes lines into the database `d`.
    pub(crate) fn write(&self, lines: &str) {
        self.write_to("d", lines);
    }

    pub(crate) async fn batches(&self, sql: &str) -> Result<Vec<RecordBatch>, Error> {
        self.assert_planned_as_with_all_rules(sql).await;
        self.sql.query("d", sql).await?.collect().await
    }

    /// The rows of an answer, each as its values with `|` between; NULL is `-`.
    pub(crate) async fn rows(&self, sql: &str) -> Vec<String> {
        rows(
            &self
                .batches(sql)
                .await
                .unwrap_or_else(|error| panic!("{sql}: {error}")),
        )
    }

    /// The rows of an answer without an order.
    pub(crate) async fn set(&self, sql: &str) -> Vec<String> {
        let mut rows = self.rows(sql).await;
        rows.sort();
        rows
    }

    /// What is wrong with a statement.
    pub(crate) async fn error(&self, sql: &str) -> Error {
        match self.batches(sql).await {
            Err(error) => error,
            Ok(batches) => panic!("{sql}: answered {:?}", rows(&batches)),
        }
    }
}

pub(crate) fn rows(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default().with_null("-");
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<ArrayFormatter<'_>> = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column, &options).unwrap())
            .collect();
        rows.extend((0..batch.num_rows()).map(|row| {
            columns
                .iter()
                .map(|column| column.value(row).to_string())
                .collect::<Vec<_>>()
                .join("|")
        }));
    }
    rows
}
