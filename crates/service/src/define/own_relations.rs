//! Names of the relations in which the store keeps what is its own.
//!
//! They begin with "system ", so that no statement names one by accident, and are hidden from every statement.

use nilometer_engine::{AGGREGATE_SOURCES, INVALIDATIONS};

/// Users.
pub(crate) const USERS: &str = "system users";
/// What users may do.
pub(crate) const GRANTS: &str = "system grants";
/// Views, in each schema.
pub(crate) const VIEWS: &str = "system views";
/// Retention and the like, in each schema.
pub(crate) const POLICIES: &str = "system policy";
/// How payloads of a table are divided into columns.
pub(crate) const PAYLOAD_SCHEMAS: &str = "system payload schemas";
/// Statements that run by themselves.
pub(crate) const SCHEDULED: &str = "system scheduled";
/// Up to when these have run. Apart from them, so that the end of a run never brings a statement back that was dropped meanwhile.
pub(crate) const SCHEDULED_RUNS: &str = "system scheduled runs";
/// Settings of the compression of hypertables, in each schema.
pub(crate) const COMPRESSION: &str = "system compression";
/// What chunks took before they were moved to the cold tier, in each schema.
pub(crate) const CHUNK_SIZES: &str = "system chunk sizes";

/// Background jobs.
pub(crate) const JOBS: &str = "system jobs";
/// How these ran. Apart from them, so that the end of a run never brings a job back that was deleted meanwhile.
pub(crate) const JOB_STATISTICS: &str = "system job statistics";
/// Their last runs.
pub(crate) const JOB_HISTORY: &str = "system job history";
/// The bound of acquisition times.
pub(crate) const ACQUISITION: &str = "system acquisition";
/// How far the pages of devices have been taken in.
pub(crate) const DEVICES: &str = "system devices";

/// Sequences, in each schema.
pub(crate) const SEQUENCES: &str = "system sequences";
/// How sequences count that do not count from one by ones, in each schema.
pub(crate) const SEQUENCE_OPTIONS: &str = "system sequence options";
/// Indexes, in each schema.
pub(crate) const INDEXES: &str = "system indexes";
/// Continuous aggregates, in each schema. Beside it the engine keeps what they read and where they may be wrong.
pub(crate) const AGGREGATES: &str = "system aggregates";
/// Up to when retention has taken rows of tables that continuous aggregates are made of, in each schema.
pub(crate) const ROWS_KEPT: &str = "system aggregate retention";
/// Enumerations, in each schema.
pub(crate) const ENUMERATIONS: &str = "system enumerations";
/// Hypertables, in each schema.
pub(crate) const HYPERTABLES: &str = "system hypertables";
/// What is now in those whose time is an integer, in each schema.
pub(crate) const INTEGER_NOW: &str = "system integer now";
/// Functions and procedures, in each schema.
pub(crate) const ROUTINES: &str = "system routines";

const ALL: [&str; 25] = [
    INTEGER_NOW,
    ROUTINES,
    ROWS_KEPT,
    ENUMERATIONS,
    COMPRESSION,
    CHUNK_SIZES,
    JOBS,
    JOB_STATISTICS,
    JOB_HISTORY,
    AGGREGATES,
    AGGREGATE_SOURCES,
    INVALIDATIONS,
    SEQUENCES,
    SEQUENCE_OPTIONS,
    INDEXES,
    HYPERTABLES,
    USERS,
    GRANTS,
    VIEWS,
    POLICIES,
    PAYLOAD_SCHEMAS,
    SCHEDULED,
    SCHEDULED_RUNS,
    ACQUISITION,
    DEVICES,
];

/// Whether a relation is the store's own, and nobody else's.
pub(super) fn is_hidden(name: &str) -> bool {
    ALL.contains(&name)
}
