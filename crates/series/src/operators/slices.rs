//! Rows in an order, a slice of time or of groups at a time, so that an answer of any length is made in flat memory.
//!
//! Does: cut what is asked for into slices that follow each other in the order, and read, sort and give one after another. Does
//! not: part rows of one time, nor look for the first rows of few; the engine narrows those.

use std::collections::VecDeque;
use std::ops::Range;

use arrow_array::RecordBatch;
use nilometer_engine::{Narrowing, Snapshot};

use super::parallel;
use super::project::{Piece, Projection};
use super::sort::{Ordered, Sorter, within};
use crate::context::Context;
use crate::error::Error;
use crate::input::{Inputs, Reading, Which};
use crate::query::{Order, OrderBy, SeriesQuery, Window};

/// Some rows that stand together in the order.
#[derive(Debug, Clone)]
struct Slice {
    groups: Option<Range<u32>>,
    range: (i64, i64),
}

/// What is left to read.
#[derive(Debug)]
pub(super) struct Slices {
    snapshot: Snapshot,
    order: Order,
    range: (i64, i64),
    /// Of a slice, about.
    rows: u64,
    /// Groups that are not cut yet, those that come first at the end.
    groups: Vec<Range<u32>>,
    cut: VecDeque<Slice>,
}

impl Slices {
    /// `None` = the rows are few, or not those of tables, or no slices follow each other in their order.
    pub(super) fn of(
        query: &SeriesQuery,
        inputs: &Inputs,
        (snapshot, context): (&Snapshot, &Context),
    ) -> Result<Option<Self>, Error> {
        let shape = query.shape();
        let range = (query.bound.first_ns, query.bound.last_ns);
        let is_ordered = shape.order.by != OrderBy::Nothing;
        if range.0 > range.1 || shape.has_neighbours() || !is_ordered {
            return Ok(None);
        }
        let order = shape.order;
        let Some(weights) = inputs.weights(snapshot, range, None)? else {
            return Ok(None);
        };
        let rows = context.memory.slice_rows().max(1);
        if weights.rows() <= rows {
            return Ok(None);
        }
        let mut slices = Self {
            snapshot: snapshot.clone(),
            order,
            range,
            rows,
            groups: Vec::new(),
            cut: VecDeque::new(),
        };
        if order.by == OrderBy::Time {
            slices.cut_by_time(None, weights.cuts(rows));
        } else {
            let groups = u32::try_from(inputs.groups.len()).unwrap_or(u32::MAX);
            slices.groups.push(0..groups);
        }
        Ok(Some(slices))
    }

    /// Slices of groups that end at these times.
    fn cut_by_time(&mut self, groups: Option<&Range<u32>>, cuts: Vec<i64>) {
        let (mut first, last) = self.range;
        let mut slices = Vec::with_capacity(cuts.len() + 1);
        let ends = cuts.into_iter().filter(|end| *end < last);
        for end in ends.chain([last]) {
            slices.push(Slice {
                groups: groups.cloned(),
                range: (first, end),
            });
            first = end.saturating_add(1);
        }
        if self.order.descending {
            slices.reverse();
        }
        self.cut.extend(slices);
    }

    fn next(&mut self, inputs: &Inputs) -> Result<Option<Slice>, Error> {
        loop {
            if let Some(slice) = self.cut.pop_front() {
                return Ok(Some(slice));
            }
            let Some(groups) = self.groups.pop() else {
                return Ok(None);
            };
            let weights = inputs.weights(&self.snapshot, self.range, Some(&groups))?;
            let weights = weights.unwrap_or_default();
            let rows = weights.rows();
            if groups.len() > 1 && rows / 2 > self.rows {
                let middle = groups.start + (groups.end - groups.start) / 2;
                self.groups.push(middle..groups.end);
                self.groups.push(groups.start..middle);
            } else if groups.len() == 1 && rows > self.rows {
                self.cut_by_time(Some(&groups), weights.cuts(self.rows));
            } else {
                self.cut_by_time(Some(&groups), Vec::new());
            }
        }
    }
}

/// Rows in their order, a slice at a time.
#[derive(Debug)]
pub(super) struct SlicedStream {
    inputs: Inputs,
    projection: Projection,
    slices: Slices,
    ordered: Option<Ordered>,
    windows: (Window, Window),
    /// Rows so far, by group, and those that were within their group's limit.
    seen: Vec<u64>,
    passed: u64,
}

impl SlicedStream {
    pub(super) fn new(
        query: &SeriesQuery,
        inputs: Inputs,
        projection: Projection,
        slices: Slices,
    ) -> Self {
        Self {
            seen: vec![0; inputs.groups.len()],
            inputs,
            projection,
            slices,
            ordered: None,
            windows: (query.bound.per_group, query.bound.overall),
            passed: 0,
        }
    }

    /// The next rows.
    pub(super) fn advance(&mut self, context: &Context) -> Result<Option<RecordBatch>, Error> {
        loop {
            context.check()?;
            if self.passed >= self.windows.1.end() {
                return Ok(None);
            }
            if let Some(ordered) = &mut self.ordered {
                let Some((batch, groups)) = ordered.advance_with_groups() else {
                    // Its memory is given back before the next slice is read.
                    self.ordered = None;
                    continue;
                };
                let (seen, passed) = (&mut self.seen, &mut self.passed);
                let groups = groups.into_iter();
                match within(batch, groups, self.windows, seen, passed) {
                    Some(batch) => return Ok(Some(batch)),
                    None => continue,
                }
            }
            let Some(slice) = self.slices.next(&self.inputs)? else {
                return Ok(None);
            };
            self.ordered = Some(self.read(&slice, context)?);
        }
    }

    fn read(&self, slice: &Slice, context: &Context) -> Result<Ordered, Error> {
        let groups = slice.groups.as_ref();
        let which = (None, groups.map_or(Which::All, Which::Groups));
        let none = Narrowing::None;
        let snapshot = &self.slices.snapshot;
        let reading = self
            .inputs
            .read(snapshot, slice.range, &none, which, context)?;
        let workers = context.workers(reading.rows_estimate, reading.units())?;
        let mut sorter = Sorter::all(self.slices.order, context);
        let mut next = 0;
        let from = (&self.inputs, &reading, &self.projection);
        while let Some(pieces) = wave(from, (next, workers), context)? {
            next += workers;
            for Piece { batch, chunk, .. } in pieces {
                let keys = chunk.groups.iter().zip(&chunk.times).zip(&chunk.ties);
                let keys = keys.map(|((group, time), tie)| (*group, *time, *tie));
                sorter.push(batch, keys)?;
            }
        }
        sorter.finish()
    }
}

/// The rows of some units from one on; `None` = there are no more.
fn wave(
    (inputs, reading, projection): (&Inputs, &Reading, &Projection),
    (first, workers): (usize, usize),
    context: &Context,
) -> Result<Option<Vec<Piece>>, Error> {
    if first >= reading.units() {
        return Ok(None);
    }
    let end = (first + workers).min(reading.units());
    let units = parallel::each(context, workers, first..end, |unit| {
        let mut pieces = Vec::new();
        inputs.visit(reading, unit, context, &mut |chunk| {
            pieces.push(Piece::of(chunk, (inputs, projection), context)?);
            Ok(true)
        })?;
        Ok(pieces)
    })?;
    Ok(Some(units.into_iter().flatten().collect()))
}
