//! Plan of a run, as data: drawn from a seed before it starts, printed as it is when it fails, shortened step by step.

use std::fmt;

use nilometer_engine::CompactionOptions;
use nilometer_engine::Options;
use nilometer_engine::disk::CrashPlan;
use nilometer_http::HttpConfig;
use nilometer_native::NativeConfig;
use nilometer_service::{QueryOptions, Sabotage, ServiceOptions};

use crate::client::Ending;
use crate::influx::{Deed, How};
use crate::model::{OpId, Tables};

/// Bytes that writes leave free on the disk.
pub(crate) const RESERVE_BYTES: u64 = 256 << 10;

/// The route of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// `/write`
    V1,
    /// `/api/v2/write`
    V2,
    /// `/api/v3/write_lp`
    V3,
    /// `/api/v3/write_arrow`, in so many batches, each of them a request of its own to the model.
    Arrow(u32),
    /// INSERT through `/api/v3/query_sql`.
    Insert,
    /// A page of a microcontroller, through `/api/edge/v1/pages`.
    Pages,
}

/// How a body is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// It is not.
    Identity,
    /// gzip
    Gzip,
    /// Zstandard
    Zstd,
}

/// A request that writes rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Its number, which its rows carry; an Arrow stream's batches have those after it.
    pub op: OpId,
    /// Its route.
    pub route: Route,
    /// Where the rows go.
    pub tables: Tables,
    /// Rows for each table.
    pub rows: u32,
    /// Lines that are none.
    pub bad_lines: u32,
    /// Whether it has a key, and may be sent again under it.
    pub keyed: bool,
    /// How the body is compressed.
    pub encoding: Encoding,
    /// Bytes of comments besides.
    pub padding: usize,
    /// In how many pieces the body goes.
    pub pieces: usize,
    /// How it ends.
    pub ending: Ending,
}

/// How an answer is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// CSV
    Csv,
    /// A JSON object a line.
    JsonLines,
    /// A JSON array.
    Json,
    /// An Arrow stream.
    Arrow,
    /// A Parquet file.
    Parquet,
    /// A table for people.
    Pretty,
    /// InfluxQL's, one document.
    InfluxJson,
    /// InfluxQL's, a document for each few rows.
    InfluxChunks,
    /// InfluxQL's CSV.
    InfluxCsv,
}

impl Format {
    /// Whether it is asked for in InfluxQL.
    pub(crate) fn is_influx(self) -> bool {
        matches!(
            self,
            Self::InfluxJson | Self::InfluxChunks | Self::InfluxCsv
        )
    }
}

/// The language of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tongue {
    /// SQL
    Sql,
    /// InfluxQL, where it has such a statement.
    InfluxQl,
}

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Question {
    /// All rows of the first database.
    All,
    /// The same, in order, which needs memory.
    Sorted,
    /// All rows of the other database.
    Aside,
    /// Names that definitions have made, and what a table's retention is.
    Defined,
    /// Much work for one row.
    Long,
}

/// Which statement of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Gives the rows of a request another version.
    Update(OpId, u32),
    /// Deletes the rows of a request from the first table.
    DeleteLast(OpId),
    /// Deletes them from the second table.
    DeleteKept(OpId),
    /// Drops the first table.
    Drop,
    /// The table whose rows are kept for a while keeps them for so many days; 0 = for ever.
    Retain(u32),
    /// Adds a column.
    Add(u32),
    /// Drops it.
    Remove(u32),
    /// Makes a table.
    Make(u32),
    /// Drops it.
    Unmake(u32),
    /// Makes the other database.
    MakeAside,
    /// Drops it with all that it has.
    DropAside,
}

/// How a life ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Requests are let end, and the store is closed.
    Stop,
    /// The process dies.
    Kill,
    /// The machine loses power; the number drives what is left of what was not synced.
    PowerCut(u64),
}

/// A step. `which` counts among the requests that are on their way, beginning again at the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Sends a request that writes.
    Write(Write),
    /// Sends it again, if it has a key or no answer; whole this time.
    Again(OpId),
    /// Sends a statement of change.
    Change(Change, Tongue),
    /// Sends a question; so many chunks of the answer are taken at once.
    Ask(Question, Format, u64),
    /// Tells or asks one of the databases of clients of InfluxDB.
    Tell(usize, Deed, How),
    /// A request ends a statement that runs: the newest one.
    KillStatement,
    /// So many tasks have their turn, in an order that the number chooses.
    Run(u32, u64),
    /// More pieces of a body go.
    Release(usize, u64),
    /// More chunks of an answer are taken.
    Take(usize, u64),
    /// The client goes.
    Cancel(usize),
    /// Time passes.
    Advance(u64),
    /// The wall clock jumps ahead, and no other.
    Jump,
    /// Somebody says that the clock is right.
    Accept,
    /// So much time passes; everything is let end, becomes a segment, and maintenance has nothing left to do.
    Age(u64),
    /// So many jobs of maintenance.
    Maintain(u32),
    /// The head becomes a segment.
    Flush,
    /// Leaves so many bytes free on the disk; `None` = as many as anybody wants.
    Room(Option<u64>),
    /// What goes wrong on the disk from here on, and how the life ends if it crashes.
    Faults(CrashPlan, End),
    /// Nobody sends or reads for as long as a query may take; then every turn must be free.
    Patience,
    /// Everything is let end; then everything is read and compared, and nothing may be held any more.
    Settle,
    /// The life ends, and the next one begins.
    Restart(End),
}

/// Settings of the server and its store that a plan chooses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// [`ServiceOptions::queries_max`]
    pub queries_max: usize,
    /// [`ServiceOptions::queries_waiting_max`]
    pub queries_waiting_max: usize,
    /// [`ServiceOptions::writes_max`]
    pub writes_max: usize,
    /// [`HttpConfig::body_bytes_max`]
    pub body_bytes_max: usize,
    /// [`ServiceOptions::bodies_bytes_max`]
    pub bodies_bytes_max: usize,
    /// [`NativeConfig::answer_rows_max`]
    pub answer_rows_max: usize,
    /// [`NativeConfig::answer_pretty_rows_max`]
    pub answer_pretty_rows_max: usize,
    /// Bytes of an answer that leave together.
    pub answer_chunk_bytes: usize,
    /// [`QueryOptions::query_memory_bytes_max`]
    pub query_memory_bytes_max: usize,
    /// [`Options::flush_rows`]
    pub flush_rows: u64,
    /// [`Options::log_bytes_max`]
    pub log_bytes_max: u64,
    /// [`CompactionOptions::fan_in`]
    pub fan_in: usize,
}

/// How long a client may take to send a body, in planned time.
pub const BODY_READ_MS_MAX: u64 = 10_000;
/// How long a write may take.
pub const WRITE_MS_MAX: u64 = 5_000;
/// How long a query may take, its client's part included.
pub const QUERY_MS_MAX: u64 = 20_000;

impl Limits {
    /// The store's options; the rest as a server has it.
    pub(crate) fn options(&self) -> Options {
        Options {
            flush_rows: self.flush_rows,
            flush_idle_rows_min: 1,
            log_bytes_max: self.log_bytes_max,
            compaction: CompactionOptions {
                fan_in: self.fan_in,
                partition_rows_min: 64,
                ..CompactionOptions::default()
            },
            // Not the machine's: a seed runs the same everywhere.
            memory_bytes_max: 4 << 30,
            disk_reserve_bytes: Some(RESERVE_BYTES),
            key_age_ns: i64::MAX / 2,
            ..Options::default()
        }
    }

    /// The service's.
    pub(crate) fn service(&self, sabotage: Option<Sabotage>) -> ServiceOptions {
        ServiceOptions {
            queries_max: self.queries_max,
            queries_waiting_max: self.queries_waiting_max,
            writes_max: self.writes_max,
            write_ms_max: WRITE_MS_MAX,
            bodies_bytes_max: self.bodies_bytes_max,
            query: QueryOptions {
                threads: 1,
                query_memory_bytes_max: self.query_memory_bytes_max,
                query_ms_max: QUERY_MS_MAX,
                ..QueryOptions::default()
            },
            sabotage,
            ..ServiceOptions::default()
        }
    }

    /// The listener's.
    pub(crate) fn http(&self) -> HttpConfig {
        HttpConfig {
            body_bytes_max: self.body_bytes_max,
            body_compressed_bytes_max: self.body_bytes_max,
            body_read_ms_max: BODY_READ_MS_MAX,
            ..HttpConfig::default()
        }
    }

    /// Those of answers.
    pub(crate) fn native(&self) -> NativeConfig {
        NativeConfig {
            answer_rows_max: self.answer_rows_max,
            answer_pretty_rows_max: self.answer_pretty_rows_max,
            answer_chunk_bytes: self.answer_chunk_bytes,
        }
    }
}

/// A run, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// Where it came from.
    pub seed: u64,
    /// Settings.
    pub limits: Limits,
    /// What happens, in order, each with its number in the plan as it was drawn.
    pub steps: Vec<(usize, Step)>,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:?}", self.limits)?;
        for (number, step) in &self.steps {
            writeln!(f, "{number:4}  {step:?}")?;
        }
        Ok(())
    }
}
