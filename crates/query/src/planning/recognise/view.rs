//! View of a question while its plan is looked through, from the scan upwards.
//!
//! Does: take in one node after the other. Does not: write the question down (`finish.rs`).

use std::ops::RangeInclusive;
use std::sync::Arc;

use datafusion::common::{DFSchema, Result};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::expr::Sort;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, FetchType, LogicalPlan, SkipType, TableScan};
use nilometer_engine::{
    ColumnKind, ColumnSource, Duplicates, LogicalType, PhysicalType, TableSchema, TimeKind,
};
use nilometer_series::{Bucket, Expr as SeriesExpr, OrderBy, TagExpr, Type};

use super::group::{self, Ends};
use super::{chosen, condition};
use crate::planning::filter::{Coverage, Pushdown};
use crate::planning::recognised::{Chosen, Recognised};
use crate::tables::table::Table;

/// A column of a node.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Column {
    Time,
    /// The place of a tag among those of the source.
    Tag(usize),
    /// The place of a field among those of the source.
    Field(usize),
    /// The start of the bucket of the time.
    Bucket(Bucket),
    /// Of groups: aggregates, and what is calculated of them.
    Aggregate(SeriesExpr),
    /// The number of a row in its group, which a condition bounds and nobody may look at.
    Number,
}

/// The columns that a question may name.
#[derive(Debug)]
pub(super) struct Names {
    /// What SQL shows the time as.
    pub(super) time: TimeKind,
    pub(super) tags: Vec<Tag>,
    pub(super) fields: Vec<Field>,
}

/// A tag of the source.
#[derive(Debug)]
pub(super) struct Tag {
    pub(super) name: String,
    /// SQL shows its texts as integers, and compares and orders those.
    pub(super) is_integer: bool,
}

/// A field of the source.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) kind: Type,
    /// The declared type that its values are shown as, where that makes others of them.
    pub(super) shown: Option<LogicalType>,
}

impl Names {
    /// A field that may be compared, added up and calculated with: SQL and the store mean the same by its values. Bytes and
    /// counts are values of no query.
    pub(super) fn value(&self, field: usize) -> Option<(&str, Type)> {
        let field = self.fields.get(field)?;
        let is_value = field.shown.is_none() && !matches!(field.kind, Type::Bytes | Type::Counts);
        is_value.then_some((field.name.as_str(), field.kind))
    }
}

/// Rows that became groups.
#[derive(Debug)]
pub(super) struct Grouped {
    /// Places of tags in the source.
    pub(super) tags: Vec<usize>,
    pub(super) bucket: Option<Bucket>,
    /// Each group is so many of its first or last rows.
    pub(super) ends: Option<Ends>,
}

/// The order of the rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ordered {
    pub(super) by: OrderBy,
    pub(super) descending: bool,
    /// The tags that are ordered by, in their order.
    pub(super) tags: Vec<usize>,
}

/// Some of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Limited {
    pub(super) skip: u64,
    /// `None` = all that are left.
    pub(super) rows: Option<u64>,
}

/// What is known.
#[derive(Debug)]
pub(super) struct View {
    pub(super) table: Arc<Table>,
    /// Of the table, or of the question below.
    pub(super) names: Names,
    /// The question that this one is around.
    pub(super) below: Option<Box<Recognised>>,
    pub(super) pushdown: Pushdown,
    pub(super) tags: Vec<TagExpr>,
    /// Filters of the scan that are left out, and how many conditions on tags come before each.
    pub(super) holes: Vec<(usize, usize)>,
    pub(super) rows: Vec<SeriesExpr>,
    pub(super) grouped: Option<Grouped>,
    pub(super) order: Option<Ordered>,
    pub(super) limit: Option<Limited>,
    /// With all rows of the time at which the last of them stands.
    pub(super) with_ties: bool,
    /// A tag whose values another query chooses.
    pub(super) chosen: Option<Chosen>,
    /// Of the node that was taken in last.
    pub(super) columns: Vec<Column>,
}

fn names_of(schema: &TableSchema) -> Names {
    let kind = |kind: &ColumnKind| match kind {
        ColumnKind::Field(kind) => match kind {
            PhysicalType::I64 => Type::Int,
            PhysicalType::U64 => Type::Unsigned,
            PhysicalType::F64 => Type::Float,
            PhysicalType::Bool => Type::Bool,
            PhysicalType::Text => Type::Text,
            PhysicalType::Bytes => Type::Bytes,
        },
        // Of no field.
        ColumnKind::Tag => Type::Text,
    };
    let tags = schema.tags.iter().map(|tag| Tag {
        name: tag.name.clone(),
        is_integer: tag.of().is_some(),
    });
    let fields = schema.fields.iter().map(|field| Field {
        name: field.name.clone(),
        kind: kind(&field.kind),
        shown: field.of().filter(|of| !of.is_shown_as_stored()),
    });
    Names {
        time: schema.time().1,
        tags: tags.collect(),
        fields: fields.collect(),
    }
}

/// The table of a scan, if it is one of series.
pub(super) fn table_of(scan: &TableScan) -> Option<Arc<Table>> {
    // What is no provider's is nothing that is read.
    let provider = source_as_provider(&scan.source).ok()?;
    let table = provider.downcast_ref::<Table>();
    table.map(|table| Arc::new(table.clone()))
}

impl View {
    /// What a plan asks; `None` = no series query is known to answer the same.
    pub(super) fn of(plan: &LogicalPlan, left_out: &[usize]) -> Result<Option<Self>> {
        Ok(match plan {
            LogicalPlan::TableScan(scan) => Self::scan(scan, left_out),
            LogicalPlan::SubqueryAlias(alias) => Self::of(&alias.input, left_out)?,
            LogicalPlan::Projection(projection) => {
                let below = Self::of(&projection.input, left_out)?;
                below.and_then(|view| view.project(&projection.expr, projection.input.schema()))
            }
            LogicalPlan::Filter(filter) => {
                if let Some((window, between)) = group::window_below(&filter.input) {
                    let below = Self::of(&window.input, left_out)?;
                    return Ok(below.and_then(|view| {
                        group::numbered(view, window, between, &filter.predicate)
                    }));
                }
                let below = Self::of(&filter.input, left_out)?;
                below.and_then(|view| view.filter(&filter.predicate, filter.input.schema()))
            }
            LogicalPlan::Aggregate(aggregate) => {
                let below = Self::of(&aggregate.input, left_out)?;
                below.and_then(|view| group::grouped(view, aggregate))
            }
            LogicalPlan::Sort(sort) => {
                let below = Self::of(&sort.input, left_out)?;
                below.and_then(|view| view.sort(&sort.expr, sort.fetch, sort.input.schema()))
            }
            LogicalPlan::Limit(limit) => {
                let (SkipType::Literal(skip), FetchType::Literal(fetch)) =
                    (limit.get_skip_type()?, limit.get_fetch_type()?)
                else {
                    return Ok(None);
                };
                let below = Self::of(&limit.input, left_out)?;
                below.map(|view| view.limit(skip, fetch))
            }
            LogicalPlan::Join(join) => {
                let below = Self::of(&join.left, left_out)?;
                match below {
                    Some(view) => chosen::chosen(view, join)?,
                    None => None,
                }
            }
            _ => None,
        })
    }

    fn scan(scan: &TableScan, left_out: &[usize]) -> Option<Self> {
        let table = table_of(scan)?;
        let schema = Arc::clone(table.table_schema());
        let shown = schema.shown_columns();
        let projection = scan.projection.clone();
        let places =
            projection.unwrap_or_else(|| (0..scan.source.schema().fields().len()).collect());
        let mut columns = Vec::with_capacity(places.len());
        for place in places {
            // Beyond are the columns that say which row it is, for statements that change rows.
            let source = schema.source(shown.position(place)?);
            columns.push(match source? {
                ColumnSource::Time => Column::Time,
                ColumnSource::Tag(tag) => Column::Tag(tag),
                ColumnSource::Field(field) => Column::Field(field),
            });
        }
        let mut view = Self {
            names: names_of(&schema),
            below: None,
            table,
            pushdown: Pushdown::everything(),
            tags: Vec::new(),
            holes: Vec::new(),
            rows: Vec::new(),
            grouped: None,
            order: None,
            limit: None,
            with_ties: false,
            chosen: None,
            columns,
        };
        for (at, filter) in scan.filters.iter().enumerate() {
            if left_out.contains(&at) {
                view.holes.push((at, view.tags.len()));
                continue;
            }
            let (pushed, coverage) = Pushdown::of(filter, &schema);
            match coverage {
                Coverage::Exact => {
                    view.tags.extend(condition::of_tags(&pushed, &schema)?);
                }
                // The filter stands above the scan once more.
                Coverage::Inexact | Coverage::None => {}
            }
            view.pushdown = view.pushdown.and(pushed);
        }
        Some(view)
    }

    /// The table as the engine knows it.
    pub(super) fn schema(&self) -> &Arc<TableSchema> {
        self.table.table_schema()
    }

    /// The times that are asked for.
    pub(super) fn time(&self) -> RangeInclusive<i64> {
        self.pushdown.time.clone()
    }

    /// The column that an expression is.
    pub(super) fn column(&self, expr: &Expr, input: &DFSchema) -> Option<&Column> {
        match expr {
            Expr::Alias(alias) => self.column(&alias.expr, input),
            Expr::Column(column) => self.columns.get(input.maybe_index_of_column(column)?),
            _ => None,
        }
    }

    /// Whether SQL shows times as times. Days and numbers are added up, compared and put into buckets otherwise.
    pub(super) fn has_clock(&self) -> bool {
        matches!(self.names.time, TimeKind::TimestampTz | TimeKind::Timestamp)
    }

    /// Whether no two rows of a group have one time: its tags are those of one series, and the table keeps no duplicates.
    pub(super) fn has_one_row_a_time(&self, group: &[usize]) -> bool {
        let mut tags = 0..self.schema().tags.len();
        self.below.is_none()
            && self.has_clock()
            && self.schema().settings.duplicates != Duplicates::Keep
            && tags.all(|tag| group.contains(&tag))
    }

    /// Whether rows are rows of the table, all of them that the filters leave.
    pub(super) fn is_rows(&self) -> bool {
        self.grouped.is_none() && self.limit.is_none()
    }

    pub(super) fn filter(mut self, predicate: &Expr, input: &DFSchema) -> Option<Self> {
        if !self.is_rows() {
            self = self.around(input)?;
        }
        if self.order.is_some() {
            return None;
        }
        if self.below.is_some() {
            for conjunct in split_conjunction(predicate) {
                self.rows.push(condition::of_rows(conjunct, &self, input)?);
            }
            return Some(self);
        }
        let schema = Arc::clone(self.schema());
        for conjunct in split_conjunction(predicate) {
            // By the names of the table, which the filter's columns have where nothing renames them.
            let plain = condition::by_names_of_table(conjunct, &self, input);
            let pushed = plain.map(|conjunct| Pushdown::of(&conjunct, &schema));
            match pushed {
                Some((pushed, Coverage::Exact)) => {
                    self.tags.extend(condition::of_tags(&pushed, &schema)?);
                    self.pushdown = self.pushdown.and(pushed);
                }
                pushed => {
                    let (tags, rows) = condition::of(conjunct, &self, input)?;
                    self.tags.extend(tags);
                    self.rows.extend(rows);
                    // The scan may have been told already.
                    let is_known = |pushed: &Pushdown| {
                        let known = &self.pushdown.fields;
                        pushed.fields.iter().all(|field| known.contains(field))
                    };
                    if let Some((pushed, Coverage::Inexact)) = pushed
                        && !is_known(&pushed)
                    {
                        self.pushdown = self.pushdown.and(pushed);
                    }
                }
            }
        }
        Some(self)
    }

    pub(super) fn project(mut self, exprs: &[Expr], input: &DFSchema) -> Option<Self> {
        let mut columns = Vec::with_capacity(exprs.len());
        for expr in exprs {
            columns.push(match self.column(expr, input) {
                Some(column) => column.clone(),
                None => match group::bucket(expr, &self, input) {
                    Some(bucket) => Column::Bucket(bucket),
                    None => Column::Aggregate(self.calculated(expr, input)?),
                },
            });
        }
        self.columns = columns;
        Some(self)
    }

    pub(super) fn sort(
        mut self,
        keys: &[Sort],
        fetch: Option<usize>,
        input: &DFSchema,
    ) -> Option<Self> {
        if self.limit.is_some() || self.order.is_some() {
            return None;
        }
        self.order = Some(self.order(keys, input)?);
        if let Some(fetch) = fetch {
            self = self.limit(0, Some(fetch));
        }
        Some(self)
    }

    /// The order that keys of a sort are, if a series query has it.
    fn order(&self, keys: &[Sort], input: &DFSchema) -> Option<Ordered> {
        let mut tags: Vec<usize> = Vec::new();
        // Where the time stands among the tags, and whether it descends.
        let mut time: Option<(usize, bool)> = None;
        for key in keys {
            match self.column(&key.expr, input)? {
                // What comes after the time of a row, or after the bucket of one group, orders no more than ties.
                Column::Time | Column::Bucket(_) => {
                    time.get_or_insert((tags.len(), !key.asc));
                }
                Column::Tag(tag) => {
                    if tags.contains(tag) {
                        continue;
                    }
                    // Groups ascend by their texts, and absent tags are last.
                    let is_integer = self.names.tags.get(*tag)?.is_integer;
                    if is_integer || !key.asc || key.nulls_first {
                        return None;
                    }
                    tags.push(*tag);
                }
                _ => return None,
            }
        }
        let ends = self.grouped.as_ref().and_then(|grouped| grouped.ends);
        let (by, descending) = match time {
            Some((0, descending)) => (OrderBy::Time, descending),
            Some((place, descending)) if place == tags.len() => (OrderBy::Group, descending),
            // Tags, the time, and tags again.
            Some(_) => return None,
            None => (OrderBy::Group, ends.is_some_and(|ends| ends.descending)),
        };
        if let Some(grouped) = &self.grouped {
            if !tags.iter().all(|tag| grouped.tags.contains(tag)) {
                return None;
            }
            let has_all = tags.len() == grouped.tags.len();
            // Between the tags that are ordered by and the time others would come.
            if time.is_some() && by == OrderBy::Group && !has_all {
                return None;
            }
            // The ends are those of the same direction.
            if ends.is_some_and(|ends| time.is_some() && ends.descending != descending) {
                return None;
            }
            // Groups without buckets have no time.
            if time.is_some() && grouped.bucket.is_none() && ends.is_none() {
                return None;
            }
        }
        Some(Ordered {
            by,
            descending,
            tags,
        })
    }

    fn limit(mut self, skip: usize, fetch: Option<usize>) -> Self {
        let (skip, fetch) = (skip as u64, fetch.map(|rows| rows as u64));
        let before = self.limit.unwrap_or(Limited {
            skip: 0,
            rows: None,
        });
        let left = before.rows.map(|rows| rows.saturating_sub(skip));
        self.limit = Some(Limited {
            skip: before.skip.saturating_add(skip),
            rows: match (left, fetch) {
                (Some(left), Some(fetch)) => Some(left.min(fetch)),
                (left, fetch) => left.or(fetch),
            },
        });
        self
    }

    /// Whether the answer is rows in any order, which are read as they are asked for.
    pub(super) fn streams(&self) -> bool {
        self.grouped.is_none() && self.order.is_none() && self.below.is_none()
    }

    /// Whether the answer is all rows in an order.
    pub(super) fn sorts_all(&self) -> bool {
        let is_limited = self.limit.is_some_and(|limit| limit.rows.is_some());
        self.grouped.is_none() && self.below.is_none() && self.order.is_some() && !is_limited
    }
}
