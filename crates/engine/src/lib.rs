//! The database on disk: log, head, segments, manifest, catalogue, snapshots.
//!
//! Does: make batches durable, ordered and visible, find series, read tables as Arrow, recover from any crash.
//! Does not: spawn threads, open sockets, plan queries, parse SQL. Callers write and read from as many threads as they
//! like, and drive [`Engine::maintain`].
//!
//! Start at [`Engine`]; the write path goes through [`ingest::Session`], the read path through [`Snapshot::scan`].
//!
//! ```
//! use std::sync::Arc;
//! use nilometer_engine::{Engine, Options, ScanRequest, ingest::Session};
//! use nilometer_lineproto::Precision;
//!
//! # let scratch = tempfile::tempdir()?;
//! # let dir = scratch.path();
//! let engine = Arc::new(Engine::open_dir(dir, Options::default())?);
//! engine.create_database("d")?;
//! let mut session = Session::new(Arc::clone(&engine), "d")?;
//! let report = session.write_lines(b"m,host=a v=1.5 1\nm,host=b v=2.5 1", Precision::Second)?;
//! assert_eq!(report.rows, 2);
//!
//! let snapshot = engine.snapshot();
//! let table = snapshot.table("d", "public", "m").expect("written above");
//! let scan = snapshot.scan(&ScanRequest {
//!     table,
//!     projection: vec![0, 1, 2],
//!     time: i64::MIN..=i64::MAX,
//!     tags: Vec::new(),
//!     limit: None,
//! })?;
//! let rows: usize = scan.read(0).map(|batch| batch.map(|b| b.num_rows())).sum::<Result<_, _>>()?;
//! assert_eq!(rows, 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![cfg_attr(
    test,
    expect(
        clippy::cast_possible_truncation,
        reason = "what tests make up is small; the library itself is checked without this"
    )
)]

mod clock;
pub mod disk;
mod engine;
mod error;
mod files;
#[doc(hidden)]
pub mod hostile;
mod maintain;
mod memory;
mod names;
mod options;
mod ranked;
mod read;
mod relation;
mod sabotage;
mod write;

// Every module by its own name, wherever it lies.
pub(crate) use files::{
    checked_file, definitions_file, file_header, index, layout, log, manifest, segment,
};
pub(crate) use maintain::{compaction, retention};
pub(crate) use memory::{batch, budget, cast, head, kept_page, mask, order, state, tombstone};
pub(crate) use names::{catalogue, declared, definition, logical, parts, schema, shown, text_hash};
pub(crate) use read::{moment, nearest, predicate, scan, snapshot};
pub(crate) use write::{idempotency, record, replay_workers};

pub use budget::{Charge, MemoryBudget, MemoryUse};
pub use clock::{Clock, SystemClock};
pub use compaction::CompactionOptions;
pub use declared::{
    Check, Declarations, Declared, DeclaredTable, DeclaredTime, ENUM_LABEL, ROW_NUMBER, TimeKind,
    enum_of_check,
};
pub use engine::{
    AGGREGATE_SOURCES, AggregateKey, AggregateSource, BackupReport, Beside, Converted, Damage,
    DamagedSegment, DeleteRequest, Engine, INVALIDATIONS, Invalidation, JobsReport, Maintained,
    Metrics, NewColumn, NewRelation, OnDamage, Options, Quarantined, QuarantinedTable, Refreshing,
    RelationChange, Repaired, RestoreReport, RetentionPause, RewriteReport, RowKey, Savepoint,
    ScrubStep, Scrubbed, Sequenced, Swapped, TableOfRelation, Transaction, Unordered, Verified,
};
pub use error::{ConstraintKind, Error, Offence, RowWait, Transactions};
pub use logical::{
    Element, Json, LETTERS_MAX, LogicalType, NUMERIC_DIGITS_MAX, Spelled, SpelledZone,
    array_elements, array_text, spelled,
};
pub use nearest::nearest;
pub use nilometer_codec::stats::float_order;
pub use nilometer_codec::{ColumnRef, PhysicalType, ValuesRef};
pub use predicate::{FieldMatch, FieldPredicate, TagMatch, TagPredicate, TextRange};
#[cfg(any(test, feature = "lock-order"))]
pub use ranked::as_another_thread;
pub use read::inspect;
pub use read::latest::LastRows;
pub use read::pieces::TablePiece;
pub use read::slices::RowWeights;
pub use read::total::TableTotal;
pub use relation::{
    RelationBatches, RelationColumn, RelationId, RelationReader, RelationSchema, Value,
};
pub use replay_workers::ReplayWorkers;
pub use retention::RetentionTime;
#[doc(hidden)]
pub use sabotage::Sabotage;
pub use scan::{
    AggregateRequest, AggregateRow, AggregateSources, AggregateSum, AggregateValue, Aggregates,
    Aggregation, FieldAggregate, Fold, FoldBlock, FoldRows, FoldRun, MorselReader, Narrowing, Scan,
    ScanReport, ScanRequest, Stretch,
};
pub use schema::{
    ColumnDef, ColumnId, ColumnKind, ColumnSource, DEFAULT_SCHEMA, DatabaseId, Duplicates, Lsn,
    SchemaId, SeriesId, TIME_COLUMN, TableId, TableSchema, TableSettings,
};
pub use segment::{StoredField, StoredSums, StoredTotals, Tier};
pub use shown::{ENUM_TYPE, SQL_TYPE, ShownColumns, show_integers, show_time, shown_time_type};
pub use snapshot::{SegmentReport, SeriesTag, Snapshot};
pub use write::ingest;
