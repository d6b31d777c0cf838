//! Sources of continuous aggregates, and rows of the ranges in which stored answers may be wrong.

use crate::relation::{RelationId, Value};
use crate::schema::TableId;

/// What an aggregate reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AggregateSource {
    /// A table over time whose rows concern the buckets of their times.
    Times(TableId),
    /// A table over time any of whose rows concern all buckets.
    Table(TableId),
    /// A relation; its rows concern all buckets.
    Relation(RelationId),
}

impl AggregateSource {
    pub(super) fn row(self) -> [i64; 2] {
        match self {
            Self::Times(id) => [0, i64::from(id.0)],
            Self::Table(id) => [1, i64::from(id.0)],
            Self::Relation(id) => [2, id.0.cast_signed()],
        }
    }

    /// `None` = a later version keeps more kinds.
    pub(super) fn of(kind: i64, id: i64) -> Option<Self> {
        let table = || u32::try_from(id).ok().map(TableId);
        match kind {
            0 => table().map(Self::Times),
            1 => table().map(Self::Table),
            2 => Some(Self::Relation(RelationId(id.cast_unsigned()))),
            _ => None,
        }
    }
}

/// A range as it is kept; `is_new` = nothing was ever computed there.
pub(super) fn range_row(
    aggregate: i64,
    number: i64,
    (first, last, is_new): (i64, i64, bool),
) -> Vec<Value> {
    [aggregate, number, first, last, i64::from(is_new)]
        .map(Value::from)
        .to_vec()
}
