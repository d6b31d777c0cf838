//! Options of the service: limits that all surfaces share, those of statements among them, and settings that are shown.

use crate::access::JwtSecret;
use crate::access::Token;
use crate::sabotage::Sabotage;

/// Options of a service. An error that a limit causes names the setting: the field's name with hyphens.
#[derive(Debug, Clone)]
pub struct ServiceOptions {
    /// The access token: whoever shows it may do everything. `None` = there is none.
    pub token: Option<Token>,
    /// The secret of signed tokens that name a user. `None` = there are none.
    pub jwt: Option<JwtSecret>,
    /// Whether clients have to say who they are. With a token they have to anyway.
    pub auth: bool,
    /// Writes that run at one time; others wait.
    pub writes_max: usize,
    /// How long a write may take.
    pub write_ms_max: u64,
    /// Queries that run at one time.
    pub queries_max: usize,
    /// Queries that wait for their turn.
    pub queries_waiting_max: usize,
    /// Bytes of all request bodies in memory at one time.
    pub bodies_bytes_max: usize,
    /// How long running requests may take to end after a stop was asked for, and a compaction after them.
    pub shutdown_ms_max: u64,
    /// How often the engine is asked whether there is maintenance to do.
    pub maintain_tick_ms: u64,
    /// How often the clock is looked at for statements that are due by it.
    pub schedule_tick_ms: u64,
    /// Limits of queries.
    pub query: QueryOptions,
    /// A planted bug, for the simulation only.
    #[doc(hidden)]
    pub sabotage: Option<Sabotage>,
}

impl Default for ServiceOptions {
    fn default() -> Self {
        Self {
            token: None,
            jwt: None,
            auth: false,
            writes_max: 256,
            write_ms_max: 60_000,
            queries_max: 64,
            queries_waiting_max: 256,
            bodies_bytes_max: 1 << 30,
            shutdown_ms_max: 10_000,
            maintain_tick_ms: 100,
            schedule_tick_ms: 1000,
            query: QueryOptions::default(),
            sabotage: None,
        }
    }
}

/// Limits of statements. Each is named in the error that it causes.
#[derive(Debug, Clone)]
pub struct QueryOptions {
    /// Threads one query is spread over.
    pub threads: usize,
    /// Memory of one query.
    pub query_memory_bytes_max: usize,
    /// Memory of all queries together.
    pub queries_memory_bytes_max: usize,
    /// How long a query may run, from planning to its last batch.
    pub query_ms_max: u64,
    /// Length of a statement.
    pub sql_bytes_max: usize,
    /// Operators in one chain (`a OR b OR c` has two).
    pub sql_operators_max: usize,
    /// Buckets that `time_bucket_gapfill` makes of a range, for each group.
    pub gapfill_buckets_max: usize,
    /// Refuse what changes something, whoever asks; see also [`crate::Session::is_read_only`].
    pub read_only: bool,
    /// Settings of the program around it, for SHOW SETTINGS; one of a name that is here too stands in its place.
    pub settings: Vec<ShownSetting>,
}

/// A setting as SHOW SETTINGS has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownSetting {
    /// Its name, as on the command line.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Where the value comes from, such as `default`, `flag` or a file.
    pub source: String,
}

impl Default for QueryOptions {
    fn default() -> Self {
        Self {
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            query_memory_bytes_max: 512 << 20,
            queries_memory_bytes_max: 1 << 30,
            query_ms_max: 60_000,
            sql_bytes_max: 1 << 20,
            sql_operators_max: 1000,
            gapfill_buckets_max: 1_000_000,
            read_only: false,
            settings: Vec::new(),
        }
    }
}
