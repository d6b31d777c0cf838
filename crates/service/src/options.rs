//! Limits of statements, whatever their language, and settings that are shown.

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
