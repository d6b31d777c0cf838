//! The form of a series query: what is asked, of which rows, grouped and ordered how.
//!
//! Does: hold the question as values, with parameters in the places of literals where its caller keeps it as a shape.
//! Does not: know whether tables and columns exist; that is found out when it is run, against one snapshot.

mod bind;
mod check;
mod expr;
mod text;

use crate::bucket::Bucket;
use crate::context::Limits;
use crate::error::Error;
use crate::value::{Literal, Rules, Value};

pub use check::EXPR_DEPTH_MAX;
pub use expr::{
    Aggregate, Binary, Expr, Function, Percentile, Selector, TagExpr, Transform, Unary,
};

/// Where rows come from.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// The rows of tables, all together. Columns are found by name; a table that lacks one has no value in it.
    Tables(Vec<TableName>),
    /// The rows of another query's answer. Its groups' tags are the tags, its columns the fields, and each of its rows has
    /// a time: that of the row, of the bucket, or else the first of its range of time, which is 1970 if it has none.
    Nested(Box<Shape>),
}

/// A table's name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TableName {
    /// The database.
    pub database: String,
    /// The schema; `None` = the database's default.
    pub schema: Option<String>,
    /// The table.
    pub table: String,
}

/// A range of time. The literals are times, or integers of nanoseconds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TimeRange {
    /// First time; `None` = no bound.
    pub from: Option<Literal>,
    /// The time that comes after the last; `None` = no bound.
    pub to: Option<Literal>,
}

/// A column of the answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What it is.
    pub expr: Expr,
}

/// Rows at an end of time that are looked for before the scan. Their keys are held in memory.
pub const TOP_ROWS_MAX: u64 = 100_000;

/// What rows are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OrderBy {
    /// In whatever order they are read, which takes no memory. Rows of one series stand together, oldest first.
    Nothing,
    /// By group, then by time.
    Group,
    /// By time, then by group.
    Time,
}

/// The order of the answer. Groups ascend by the bytes of their tags. Of rows of one group and time that of the series whose
/// tags come first is first, and of one series that which was written first; `descending` turns this around with the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Order {
    /// What comes first.
    pub by: OrderBy,
    /// From the last time on backwards.
    pub descending: bool,
}

/// Some of the rows, by their place in the order.
#[derive(Debug, Clone, PartialEq)]
pub struct Limit {
    /// How many. An integer.
    pub rows: Literal,
    /// How many are left out before them. An integer.
    pub skip: Literal,
}

/// What stands in a bucket without rows, of a group that has rows in another.
#[derive(Debug, Clone, PartialEq)]
pub enum Fill {
    /// There is no row.
    Absent,
    /// Null.
    Null,
    /// What stands in the bucket before.
    Previous,
    /// What lies on the line between the neighbours; null outside of them.
    Linear,
    /// This.
    Value(Literal),
}

/// Some rows, or values, of each group and bucket, in place of one row of aggregates. Nulls do not count.
#[derive(Debug, Clone, PartialEq)]
pub enum Choice {
    /// The rows with the greatest or smallest numbers. The answer has their times, and its columns are expressions over them.
    Top(Top),
    /// Each value of an expression once, as the first rows that have them come in the order of the answer, and of those of one
    /// time by value: descending it is the last rows in time that say where the values stand. The answer has the starts of buckets, and its columns are made of the expression, those and the tags of the group. A zero is
    /// one value by `Influx`, shown with the sign that comes first; by `Postgres` its signs are two, as in `count(distinct x)`.
    Distinct(Expr),
}

/// Which rows are at the top.
#[derive(Debug, Clone, PartialEq)]
pub struct Top {
    /// By which number or time. NaN is above everything; the two zeros are equal by `Influx`.
    pub by: Expr,
    /// How many of each group and bucket. An integer.
    pub rows: Literal,
    /// The smallest in place of the greatest.
    pub smallest: bool,
    /// Of rows that agree in all of these only the first counts; nothing = all rows count.
    pub each: Vec<Expr>,
}

/// A question that is not checked, and may have parameters in the places of its literals.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// Whose rules its expressions follow.
    pub rules: Rules,
    /// Where the rows come from.
    pub source: Source,
    /// Of which time.
    pub time: TimeRange,
    /// Of which series.
    pub tags: TagExpr,
    /// What holds for each row: a boolean expression without aggregates. Rows for which it is null are left out.
    pub rows: Option<Expr>,
    /// Tags that make a group.
    pub group: Vec<String>,
    /// Buckets that divide each group.
    pub bucket: Option<Bucket>,
    /// What is chosen of each group and bucket, if it is not one row of aggregates. Of equal numbers the row comes first that is
    /// first in time, and of one time the one that is first in the order of the answer.
    pub choice: Option<Choice>,
    /// The columns of the answer. Before them come `time`, if there are buckets or no aggregates, and the tags of the group.
    pub columns: Vec<Column>,
    /// What buckets without rows have.
    pub fill: Fill,
    /// Columns whose aggregates are filled in another way, by their names.
    pub fills: Vec<(String, Fill)>,
    /// The order.
    pub order: Order,
    /// How many groups, by their place in the order of groups, counting those that have a row at any time that the condition on
    /// tags lets through, whatever the range of time and the condition on rows say. By `Influx` they are counted in the order of
    /// `InfluxDB`'s index: by the names of the tags that they have, then by the values, each joined with `|`.
    pub limit_groups: Option<Limit>,
    /// How many rows of each group.
    pub limit_per_group: Option<Limit>,
    /// How many rows.
    pub limit: Option<Limit>,
    /// After them all others of the time at which the last of them stands: for a caller who orders further than by time. Of rows
    /// of one table in the order of their times, without a condition on rows.
    pub with_ties: bool,
}

/// How a query is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operator {
    /// Rows, each for itself.
    Rows,
    /// The first or last rows of each group, through the ends of its series.
    Last,
    /// The first or last rows, or buckets, by their time.
    TopN,
    /// One row for each group and bucket.
    Aggregate,
    /// Some rows or values of each group and bucket.
    Choose,
}

/// A checked question without parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct SeriesQuery {
    shape: Shape,
    pub(crate) bound: Bound,
}

/// Literals of a query as numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bound {
    /// First and last time, both included. Empty if the first is after the last.
    pub(crate) first_ns: i64,
    pub(crate) last_ns: i64,
    pub(crate) has_first: bool,
    pub(crate) has_last: bool,
    pub(crate) groups: Window,
    pub(crate) per_group: Window,
    pub(crate) overall: Window,
    /// Rows at the top of each group and bucket.
    pub(crate) top: u64,
}

/// Places of rows in an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) skip: u64,
    pub(crate) rows: u64,
    /// And all others of the time at which the last of them stands.
    pub(crate) with_ties: bool,
}

impl Window {
    pub(crate) const ALL: Self = Self {
        skip: 0,
        rows: u64::MAX,
        with_ties: false,
    };

    /// How many rows of the order have to be known.
    pub(crate) fn end(self) -> u64 {
        self.skip.saturating_add(self.rows)
    }

    pub(crate) fn contains(self, place: u64) -> bool {
        self.skip <= place && place < self.end()
    }

    pub(crate) fn is_all(self) -> bool {
        self == Self::ALL
    }
}

impl Shape {
    /// All rows of a table, by `PostgreSQL`'s rules, in any order, without columns yet: the start of most queries.
    pub fn of(rules: Rules, source: Source) -> Self {
        Self {
            rules,
            source,
            time: TimeRange::default(),
            tags: TagExpr::All,
            rows: None,
            group: Vec::new(),
            bucket: None,
            choice: None,
            columns: Vec::new(),
            fill: Fill::Absent,
            fills: Vec::new(),
            order: Order {
                by: OrderBy::Nothing,
                descending: false,
            },
            limit_groups: None,
            limit_per_group: None,
            limit: None,
            with_ties: false,
        }
    }

    /// Puts values into the places of the parameters, by their numbers, and checks what comes out.
    pub fn bind(&self, values: &[Value], limits: Limits) -> Result<SeriesQuery, Error> {
        SeriesQuery::new(bind::bound(self, values)?, limits)
    }

    /// The question that reads tables, inside of all others.
    pub fn innermost_mut(&mut self) -> &mut Self {
        match self.source {
            Source::Tables(_) => self,
            Source::Nested(ref mut nested) => nested.innermost_mut(),
        }
    }

    /// The fill of all columns without one of their own, and those.
    pub(crate) fn all_fills(&self) -> impl Iterator<Item = &Fill> {
        let own = self.fills.iter().map(|(_, fill)| fill);
        std::iter::once(&self.fill).chain(own)
    }

    /// Which of the fills a column has: 0 = that of all columns without one of their own, 1 = the first of `fills`.
    pub(crate) fn fill_place(&self, column: &str) -> usize {
        let own = self.fills.iter().position(|(name, _)| name == column);
        own.map_or(0, |place| place + 1)
    }

    /// Whether rows become groups and buckets.
    pub fn is_aggregate(&self) -> bool {
        let has_aggregate = |column: &Column| column.expr.has_aggregate();
        if self.choice.is_some() {
            return false;
        }
        self.bucket.is_some() || self.columns.iter().any(has_aggregate)
    }

    /// Whether the answer begins with a column `time`.
    pub fn shows_time(&self) -> bool {
        match self.choice {
            Some(Choice::Top(_)) => true,
            Some(Choice::Distinct(_)) => self.bucket.is_some(),
            None => self.bucket.is_some() || !self.is_aggregate(),
        }
    }
}

impl SeriesQuery {
    /// Checks a question: whether its parts fit together, and whether its buckets are not too many.
    pub fn new(shape: Shape, limits: Limits) -> Result<Self, Error> {
        let bound = check::check(&shape, limits)?;
        Ok(Self { shape, bound })
    }

    /// What is asked.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// How it is answered.
    pub fn operator(&self) -> Operator {
        let shape = &self.shape;
        if shape.choice.is_some() {
            return Operator::Choose;
        }
        let is_limited = !self.bound.overall.is_all();
        if shape.is_aggregate() {
            let is_top = is_limited
                && shape.order.by == OrderBy::Time
                && shape.bucket.is_some()
                && shape.fill == Fill::Absent
                && self.bound.per_group.is_all();
            return if is_top {
                Operator::TopN
            } else {
                Operator::Aggregate
            };
        }
        let is_table = matches!(&shape.source, Source::Tables(tables) if tables.len() == 1);
        let is_whole = shape.rows.is_none() && is_table && !shape.has_neighbours();
        match shape.order.by {
            OrderBy::Group | OrderBy::Time if is_whole && !self.bound.per_group.is_all() => {
                Operator::Last
            }
            OrderBy::Time if is_whole && is_limited => Operator::TopN,
            OrderBy::Group if is_whole && is_limited && shape.group.is_empty() => Operator::TopN,
            _ => Operator::Rows,
        }
    }
}
