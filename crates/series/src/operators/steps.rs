//! The first rows of groups that meet a condition, or the last: looked for from that end.
//!
//! Does: read a slice of time at the end, and then longer and longer ones before it, of those groups only that want more. Does not:
//! read what the engine finds at the ends by itself, which is all where there is no condition.
//!
//! Slices do not overlap, and each is read whole: so a row of a later slice never comes before one of an earlier slice.

use arrow_array::BooleanArray;
use arrow_buffer::BooleanBufferBuilder;
use nilometer_engine::{Narrowing, SeriesId, Snapshot};

use super::parallel;
use super::project::{Piece, Projection};
use super::sort::{Ordered, Sorter};
use crate::context::Context;
use crate::error::Error;
use crate::input::{Chunk, Inputs, Reading, Which};
use crate::query::SeriesQuery;

/// Rows of a series in the first slice, about: those of a block, of which less is hardly faster to read.
const FIRST_ROWS: u64 = 1024;

/// A slice is so many times as long as the one before.
const GROWTH: i128 = 4;

/// Rows of a group that are worth being looked for in this way.
const ROWS_MAX: u64 = 1000;

/// The rows that a query asks for; `None` = all rows are read as well. `all` = all of them.
pub(super) fn run(
    query: &SeriesQuery,
    (inputs, all, projection): (&Inputs, &Reading, &Projection),
    (snapshot, context): (&Snapshot, &Context),
) -> Result<Option<Ordered>, Error> {
    let shape = query.shape();
    let wanted = query.bound.per_group.end();
    let is_asked = shape.rows.is_some() && (1..=ROWS_MAX).contains(&wanted);
    let Some(tables) = inputs.tables().filter(|_| is_asked) else {
        return Ok(None);
    };
    let series: usize = tables.iter().map(|table| table.series.len()).sum();
    let first_rows = FIRST_ROWS.min(context.memory.slice_rows());
    let first_rows = first_rows.saturating_mul(series as u64).max(1);
    if all.rows_estimate <= first_rows.saturating_mul(2) {
        return Ok(None);
    }
    let range = (query.bound.first_ns, query.bound.last_ns);
    let mut sorter = Sorter::of(query, context);
    let Some((first, last)) = inputs.extent(snapshot, range)? else {
        return Ok(Some(sorter.finish()?));
    };
    let (first, last) = (i128::from(first), i128::from(last));
    let mut length = (last - first) * i128::from(first_rows) / i128::from(all.rows_estimate) + 1;
    let mut found = vec![0_u64; inputs.groups.len()];
    let (mut from, mut to) = (first, last);
    while from <= to {
        let (begin, end) = if shape.order.descending {
            ((to - length + 1).max(from), to)
        } else {
            (from, (from + length - 1).min(to))
        };
        let wants = |group: u32| found.get(group as usize).is_some_and(|it| *it < wanted);
        let own = tables.iter().map(|table| {
            let pairs = table.series.iter().zip(&table.groups);
            let own = pairs.filter(|(_, group)| wants(**group));
            own.map(|(series, _)| *series).collect()
        });
        let own: Vec<Vec<SeriesId>> = own.collect();
        if own.iter().all(Vec::is_empty) {
            break;
        }
        // Within the extent, which is one of times.
        let slice = (nanoseconds(begin), nanoseconds(end));
        let which = (None, Which::Series(&own));
        let reading = inputs.read(snapshot, slice, &Narrowing::None, which, context)?;
        let workers = context.workers(reading.rows_estimate, reading.units())?;
        let pieces = parallel::each(context, workers, 0..reading.units(), |unit| {
            let mut pieces = Vec::new();
            inputs.visit(&reading, unit, context, &mut |chunk| {
                let chunk = ends_of(chunk, wanted, shape.order.descending);
                pieces.push(Piece::of(chunk, (inputs, projection), context)?);
                Ok(true)
            })?;
            Ok(pieces)
        })?;
        for Piece { batch, chunk, .. } in pieces.into_iter().flatten() {
            for group in &chunk.groups {
                if let Some(found) = found.get_mut(*group as usize) {
                    *found += 1;
                }
            }
            let keys = chunk.groups.iter().zip(&chunk.times).zip(&chunk.ties);
            let keys = keys.map(|((group, time), tie)| (*group, *time, *tie));
            sorter.push(batch, keys)?;
        }
        if shape.order.descending {
            to = begin - 1;
        } else {
            from = end + 1;
        }
        length *= GROWTH;
    }
    Ok(Some(sorter.finish()?))
}

/// So many rows at the end of each series: others of it are not among those of its group. Its rows stand together, oldest first.
fn ends_of(chunk: Chunk, wanted: u64, descending: bool) -> Chunk {
    let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
    let keys: Vec<(&u32, &u64)> = chunk.groups.iter().zip(&chunk.ties).collect();
    let mut kept = BooleanBufferBuilder::new(keys.len());
    for run in keys.chunk_by(|one, other| one == other) {
        let own = run.len().min(wanted);
        let others = run.len() - own;
        if descending {
            kept.append_n(others, false);
            kept.append_n(own, true);
        } else {
            kept.append_n(own, true);
            kept.append_n(others, false);
        }
    }
    let kept = BooleanArray::new(kept.finish(), None);
    chunk.filtered(&kept)
}

fn nanoseconds(time: i128) -> i64 {
    i64::try_from(time).unwrap_or(if time < 0 { i64::MIN } else { i64::MAX })
}
