//! The series query that all statements of one shape are, without the values of one.
//!
//! Does: put the values of a statement into the query. Does not: plan; from here to the answer there is no planner.

use std::ops::RangeInclusive;

use datafusion::logical_expr::Operator;
use nilometer_series::{Literal, SeriesQuery, Shape, TagExpr, TimeRange};

use super::slots::{Asked, Place, Slots};
use crate::planning::recognise::{all_of, time_range};
use crate::planning::recognised::{Columns, Recognised, limits};

/// One shape.
#[derive(Debug)]
pub(super) struct SeriesTemplate {
    slots: Slots,
    shape: Shape,
    /// The conditions on tags, in the order of the plan's.
    tags: Vec<Part>,
    /// Times that the query is about, whatever the values are.
    time: RangeInclusive<i64>,
    pub(super) columns: Columns,
    pub(super) threads: usize,
}

#[derive(Debug)]
enum Part {
    Fixed(TagExpr),
    /// The condition of a value of the statement.
    Value(usize),
}

impl SeriesTemplate {
    /// What was recognised while the filters of these values were left out.
    pub(super) fn of(slots: Slots, found: Recognised) -> Self {
        let mut tags = Vec::with_capacity(found.tags.len() + slots.filters.len());
        let mut holes = found.holes.iter().peekable();
        let values_of = |filter: usize| {
            let places = slots.filters.iter().zip(&slots.places).enumerate();
            places
                .filter(move |(_, (at, _))| **at == filter)
                .filter(|(_, (_, (place, _)))| matches!(place, Place::Tag(_)))
                .map(|(value, _)| Part::Value(value))
        };
        let all = found.tags.len();
        for (number, fixed) in found.tags.into_iter().enumerate() {
            while let Some((filter, _)) = holes.next_if(|(_, before)| *before <= number) {
                tags.extend(values_of(*filter));
            }
            tags.push(Part::Fixed(fixed));
        }
        while let Some((filter, _)) = holes.next_if(|(_, before)| *before <= all) {
            tags.extend(values_of(*filter));
        }
        Self {
            tags,
            shape: found.shape,
            time: found.time,
            columns: Columns {
                schema: found.schema,
                outputs: found.outputs.into(),
            },
            threads: found.table.threads,
            slots,
        }
    }

    pub(super) fn slots(&self) -> &Slots {
        &self.slots
    }

    /// Memory in use, about.
    pub(super) fn bytes(&self) -> usize {
        // A node of an expression takes some times its text.
        let text = self.shape.to_string().len();
        let columns = self.columns.schema.fields().iter();
        size_of::<Self>() + 16 * text + columns.map(|field| field.size()).sum::<usize>()
    }

    /// The query of a statement with these values; `None` = one of them is not understood.
    pub(super) fn bind(&self, values: &[Vec<String>], asked: &Asked<'_>) -> Option<SeriesQuery> {
        let (mut first, mut last) = (*self.time.start(), *self.time.end());
        for ((place, reading), values) in self.slots.places.iter().zip(values) {
            let (Place::Time(op), [value]) = (place, values.as_slice()) else {
                continue;
            };
            let time = reading.time(value, asked)?;
            // Before the first time, and after the last, there is none.
            match op {
                Operator::Gt => first = first.max(time.checked_add(1)?),
                Operator::GtEq => first = first.max(time),
                Operator::Lt => last = last.min(time.checked_sub(1)?),
                Operator::LtEq => last = last.min(time),
                _ => return None,
            }
        }
        let tags = self.tags.iter().map(|part| match part {
            Part::Fixed(tags) => Some(tags.clone()),
            Part::Value(at) => {
                let (Place::Tag(tag), _) = self.slots.places.get(*at)? else {
                    return None;
                };
                let values = values.get(*at)?.iter();
                let values = values.map(|value| Literal::from(value.as_str())).collect();
                Some(TagExpr::OneOf(tag.clone(), values))
            }
        });
        let mut shape = self.shape.clone();
        let reads = shape.innermost_mut();
        reads.tags = all_of(tags.collect::<Option<_>>()?);
        let (from, to) = time_range(&(first..=last));
        reads.time = TimeRange { from, to };
        SeriesQuery::new(shape, limits()).ok()
    }
}
