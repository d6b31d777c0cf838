//! Recognised questions: a series query, the table that it reads, and where a plan's columns are among its own.
//!
//! Does: hold it, for those who recognise, keep and run it. Does not: any of these.

use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::SchemaRef;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::LogicalPlan;
use nilometer_engine::{
    LogicalType, Narrowing, ScanRequest, Snapshot, TableSchema, TimeKind, show_integers, show_time,
};
use nilometer_series::{Limits, SeriesQuery, Shape, TagExpr};

use crate::planning::filter::{FieldCondition, Pushdown};
use crate::statement::name::TableName;

/// A plan that is one series query.
#[derive(Debug, Clone)]
pub(crate) struct Recognised {
    pub(crate) table: TableRead,
    pub(crate) shape: Shape,
    /// By column of the plan.
    pub(crate) outputs: Vec<Output>,
    /// Columns of the plan.
    pub(crate) schema: SchemaRef,
    /// Times that the query is about, but for the filters that were left out.
    pub(crate) time: RangeInclusive<i64>,
    /// Its conditions on tags, all of which have to hold.
    pub(crate) tags: Vec<TagExpr>,
    /// Filters that were left out, and how many conditions on tags come before each.
    pub(crate) holes: Vec<(usize, usize)>,
    /// A tag whose values another query chooses.
    pub(crate) chosen: Option<Chosen>,
}

/// A column of the plan, which a column of the query answers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Output {
    /// The place of that column.
    pub(crate) place: usize,
    pub(crate) shown: Shown,
}

/// How values of the query, which are as the store has them, become those that SQL shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Shown {
    /// They are the same.
    AsStored,
    /// Texts of a tag become integers.
    Integers,
    /// Values become those of a declared type.
    Type(LogicalType),
    /// Times become those of a declared time column.
    Time(TimeKind),
}

impl Shown {
    fn of(self, stored: &ArrayRef) -> ArrayRef {
        match self {
            Self::AsStored => Arc::clone(stored),
            Self::Integers => show_integers(stored),
            Self::Type(of) => of.show(stored),
            Self::Time(kind) => show_time(kind, stored),
        }
    }
}

/// The table that is read, and what is read of it.
#[derive(Debug, Clone)]
pub(crate) struct TableRead {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) schema: Arc<TableSchema>,
    pub(crate) threads: usize,
    pub(crate) name: TableName,
    pub(crate) pushdown: Pushdown,
    /// Positions of its columns that the plan names.
    pub(crate) columns: Vec<usize>,
    /// How its scan is narrowed.
    pub(crate) narrowing: Narrowing,
    /// Rows after which the scan may stop.
    pub(crate) limit: Option<usize>,
}

impl TableRead {
    /// The scan that reads what the query needs, if all of it has to be read, and how it is narrowed.
    pub(crate) fn scan(&self) -> (ScanRequest, Narrowing) {
        let request = ScanRequest {
            table: Arc::clone(&self.schema),
            projection: self.columns.clone(),
            time: self.pushdown.time.clone(),
            tags: self.pushdown.tags.clone(),
            limit: self.limit,
        };
        let fields = &self.pushdown.fields;
        let narrowing = match &self.narrowing {
            Narrowing::None if !fields.is_empty() => {
                Narrowing::Fields(fields.iter().map(FieldCondition::predicate).collect())
            }
            narrowing => narrowing.clone(),
        };
        (request, narrowing)
    }
}

/// A table that is to be read, in whichever snapshot.
#[derive(Debug, Clone)]
pub(crate) struct Unpinned {
    pub(crate) schema: Arc<TableSchema>,
    threads: usize,
    pub(crate) name: TableName,
    pub(crate) pushdown: Pushdown,
    columns: Vec<usize>,
    narrowing: Narrowing,
    limit: Option<usize>,
}

impl TableRead {
    /// The same without its snapshot.
    pub(crate) fn unpinned(&self) -> Unpinned {
        Unpinned {
            schema: Arc::clone(&self.schema),
            threads: self.threads,
            name: self.name.clone(),
            pushdown: self.pushdown.clone(),
            columns: self.columns.clone(),
            narrowing: self.narrowing.clone(),
            limit: self.limit,
        }
    }
}

impl Unpinned {
    pub(crate) fn read(&self, snapshot: &Arc<Snapshot>) -> TableRead {
        TableRead {
            snapshot: Arc::clone(snapshot),
            schema: Arc::clone(&self.schema),
            threads: self.threads,
            name: self.name.clone(),
            pushdown: self.pushdown.clone(),
            columns: self.columns.clone(),
            narrowing: self.narrowing.clone(),
            limit: self.limit,
        }
    }
}

/// What chooses.
#[derive(Debug, Clone)]
pub(crate) struct Chosen {
    /// The tag.
    pub(crate) tag: String,
    /// The query.
    pub(crate) plan: Arc<LogicalPlan>,
    /// Which of its columns.
    pub(crate) column: usize,
    /// That its values can be those of the tag is known of the values that there are now.
    pub(crate) is_of_now: bool,
}

/// A series query, and what is answered of it.
#[derive(Debug)]
pub(crate) struct BoundSeries {
    pub(crate) query: Arc<SeriesQuery>,
    pub(crate) columns: Columns,
    pub(crate) threads: usize,
}

/// The columns of a plan, and where they are in the answer.
#[derive(Debug, Clone)]
pub(crate) struct Columns {
    pub(crate) schema: SchemaRef,
    pub(crate) outputs: Arc<[Output]>,
}

impl Columns {
    /// Some of the columns.
    pub(crate) fn project(&self, projection: &[usize]) -> Result<Self> {
        let outputs = projection.iter().map(|at| self.outputs.get(*at).copied());
        let Some(outputs) = outputs.collect::<Option<Vec<Output>>>() else {
            return internal_err!("a column that a series query does not have");
        };
        Ok(Self {
            schema: Arc::new(self.schema.project(projection)?),
            outputs: outputs.into(),
        })
    }

    /// The plan's columns of a batch of the query's.
    pub(crate) fn of(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let columns = self.outputs.iter().map(|output| {
            let stored = batch.columns().get(output.place)?;
            Some(output.shown.of(stored))
        });
        let Some(columns) = columns.collect::<Option<Vec<_>>>() else {
            return internal_err!("a column that a series query does not have");
        };
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(
            Arc::clone(&self.schema),
            columns,
            &options,
        )?)
    }
}

/// Groups may be as many as there is memory for.
pub(crate) fn limits() -> Limits {
    Limits { buckets: u64::MAX }
}
