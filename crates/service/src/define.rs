//! Definitions: making, changing and dropping databases, schemas, tables, relations and views, whatever the language.
//!
//! Does: say what such a change is, look its names up and carry it out ([`run`]); keep views, whose queries are texts that
//! only their language understands. Does not: read a statement, or know where in one a name stands: [`Error::Define`]
//! says which of the change's names is meant, and the language knows where it is written.
//!
//! Next: `change.rs` for the values that a language builds; `run.rs` for what becomes of them.
//!
//! [`Error::Define`]: crate::Error::Define

mod change;
mod columns;
mod databases;
mod error;
mod hypertables;
mod indexes;
mod kept;
mod lookup;
pub(crate) mod own_relations;
mod payload;
mod place;
mod policies;
mod records;
mod run;
mod sequences;
mod views;

pub use change::name::{Path, TableName};
pub use change::{
    Change, Column, CompressionChange, EnumChange, NewCheck, OrderBy, SeenRows, TableChange,
    TableSetting,
};
pub use columns::{own_sequences, sequence_of};
pub use databases::create_database;
pub use error::{DefineError, Object, Part};
pub use hypertables::asked::{Asked, asked_by};
pub use hypertables::chunks::{
    CHUNK_SCHEMA, Chunk, ChunkRange, TimeBound, chunks_of, drop_chunks, table_by_id, table_bytes,
};
pub use hypertables::compression::{
    Compression, Conversion, Moved, bytes_before, compression_of, convert_chunk,
};
pub use hypertables::integer_now::{integer_now_of, set_integer_now};
pub use hypertables::policies::register as register_policies;
pub use hypertables::policies::{
    Age, NewPolicy, Policy, add_policy, parse_span, policy_of, remove_policy, span_text,
};
pub use hypertables::{
    ChunkInterval, Dimensions, Hypertable, NewDimension, NewHypertable, add_dimension,
    create_hypertable, dimensions_of, is_hypertable, set_chunk_interval,
};
pub use indexes::{Index, NewIndex, Owner, indexes, indexes_of};
pub use lookup::{
    INFORMATION_SCHEMA, PG_CATALOG, SYSTEM_SCHEMA, TIMESCALEDB_INFORMATION, find_column,
    find_database, find_relation, find_schema, find_table, is_reserved, relations, unknown_column,
    unknown_database, unknown_table,
};
pub use payload::{PayloadColumn, PayloadNumber, PayloadSchema, payload_schema};
pub use policies::shards::{Shard, shards_of};
pub use policies::{
    DEFAULT_POLICY, PolicySettings, policy_of_schema, policy_settings, schema_of_policy, shard_ns,
    write_window,
};
pub use records::{ACQUIRED, PAYLOAD, RECORD_IDS, lack_of_records, new_records};
pub use run::expression::mentions as names_column;
pub use run::{run, table_to_alter};
pub use sequences::{
    Counting, Numbered, NumberedBy, Sequence, SequenceChange, Sequences, sequences,
};
pub use views::aggregates::{
    NewAggregate, aggregate_to_change, check_refresh, create_aggregate, drop_aggregate, refreshed,
    set_stored_only, stored_column,
};
pub use views::enumerations::{Enumeration, enumeration, enumerations, missing_enumeration};
pub use views::kept::{
    Aggregate, aggregate, aggregates, aggregates_of_table, refuse_stored_answers,
    refuse_stored_table,
};
pub use views::kept_rows::rows_kept_from;
pub use views::policies::{
    NewRefreshPolicy, REFRESH_POLICY, RefreshWindow, add_refresh_policy, aggregate_of_job,
    check_refresh_policy, refresh_policy_of, refresh_window, remove_refresh_policy, tables_below,
};
pub use views::routine::{NewRoutine, Parameter, Routine};
pub use views::routines::{routine, routine_by_number, routines, unknown_routine};
pub use views::user_jobs::{NewUserJob, add_user_job};
pub use views::{view, views};

#[cfg(test)]
mod tests;
