//! Requests of calls that change a table.
//!
//! Does: name each with its arguments, read. Does not: read them (`arguments.rs` and those beside it do).

use nilometer_service::JobChange;
use nilometer_service::define::{
    ChunkInterval, Conversion, NewDimension, NewHypertable, NewPolicy, NewRefreshPolicy,
    NewUserJob, Path, Policy,
};

use super::arguments::Bound;
use super::together::Together;

/// What is called.
#[derive(Debug, Clone)]
pub(crate) enum What {
    Create(NewHypertable),
    Dimension(NewDimension),
    Interval(Path, ChunkInterval),
    /// Those older than the one bound, and newer than the other.
    DropChunks(Path, Option<Bound>, Option<Bound>),
    Convert(Conversion),
    /// With its first start.
    AddPolicy(NewPolicy, Option<Bound>),
    /// A missing one may be no error.
    RemovePolicy(Path, Policy, bool),
    /// Of a continuous aggregate, with its first start.
    AddRefresh(Path, NewRefreshPolicy, Option<Bound>),
    /// A missing one may be no error.
    RemoveRefresh(Path, bool),
    AlterJob {
        id: i64,
        change: JobChange,
        next: Option<Bound>,
        initial: Option<Bound>,
        if_exists: bool,
    },
    RunJob(i64),
    DeleteJob(i64),
    /// Of a procedure, with its first start.
    AddJob(NewUserJob, Option<Bound>),
    /// A hypertable, the function that answers what is now in it, and whether it may take the place of another.
    IntegerNow(Path, Path, bool),
    /// All policies of a continuous aggregate.
    Together(Path, Together),
}
