//! The search for series, by tags and by presence of rows.

use std::ops::RangeInclusive;

use nilometer_codec::ColumnBuf;
use roaring::RoaringBitmap;

use crate::catalogue::{Condition, Layers};
use crate::error::Error;
use crate::head::Run;
use crate::predicate::TagPredicate;
use crate::schema::{ColumnSource, Lsn, TableId, TableSchema};
use crate::segment::{BlockEntry, GroupDirectory, SERIES_PAGE, Segment};
use crate::state::State;

/// What predicates say about the tags of a table.
pub(crate) fn conditions<'a>(table: &TableSchema, tags: &'a [TagPredicate]) -> Vec<Condition<'a>> {
    let condition = |predicate: &'a TagPredicate| {
        let Some(ColumnSource::Tag(at)) = table.source(predicate.column) else {
            return None;
        };
        let tag = table.tags.get(at)?;
        Some((tag.id, &predicate.matches, predicate.negated))
    };
    tags.iter().filter_map(condition).collect()
}

/// Ids of the series that every predicate keeps, ascending.
pub(crate) fn find_series(
    layers: &Layers,
    table: &TableSchema,
    tags: &[TagPredicate],
) -> Result<Vec<u32>, Error> {
    layers.select(table.id, &conditions(table, tags))
}

/// Ids of the series with a row in a range of time, to the block: of a block that touches the range every series
/// counts, and rows that a delete hides count until they are gone from the files.
pub(crate) fn live_series(
    state: &State,
    visible: Lsn,
    table: TableId,
    time: &RangeInclusive<i64>,
) -> Result<RoaringBitmap, Error> {
    let mut live = RoaringBitmap::new();
    for segment in state.version.segments_of(table) {
        for (at, group) in segment.groups(table) {
            if group.max_time < *time.start() || group.min_time > *time.end() {
                continue;
            }
            let directory = segment.directory(at)?;
            add_group(segment, &directory, time, &mut live)?;
        }
    }
    for (head, visible) in state.heads(visible) {
        for (run, rows) in head.runs(table, visible) {
            add_run(&run, rows, time, &mut live);
        }
    }
    Ok(live)
}

fn add_run(run: &Run, rows: usize, time: &RangeInclusive<i64>, live: &mut RoaringBitmap) {
    let rows = run.rows.series.iter().zip(&run.rows.times).take(rows);
    let inside = rows.filter(|(_, at)| time.contains(at));
    live.extend(inside.map(|(series, _)| *series));
}

fn add_group(
    segment: &Segment,
    directory: &GroupDirectory,
    time: &RangeInclusive<i64>,
    live: &mut RoaringBitmap,
) -> Result<(), Error> {
    let mut page = ColumnBuf::default();
    for (at, block) in directory.blocks.iter().enumerate() {
        if block.max_time < *time.start() || block.min_time > *time.end() {
            continue;
        }
        if is_known(block, live) {
            continue;
        }
        if block.first_series == block.last_series {
            live.insert(block.first_series);
            continue;
        }
        let chunk = directory.chunk(SERIES_PAGE);
        let place = chunk.and_then(|chunk| Some((chunk, chunk.page(at)?)));
        let (chunk, (offset, length)) = place.ok_or_else(|| {
            Error::corrupt(segment.path(), 0, "a shared block has no page of series")
        })?;
        let bytes = segment.read_span(offset, u64::from(length))?;
        segment.decode_page(chunk, block.rows as usize, &bytes, offset, &mut page)?;
        let ids = page.i64s().iter().map(|&id| u32::try_from(id));
        live.extend(ids.filter_map(Result::ok));
    }
    Ok(())
}

/// Whether a block can add nothing: later segments mostly repeat the series of the first.
fn is_known(block: &BlockEntry, live: &RoaringBitmap) -> bool {
    live.contains_range(block.first_series..=block.last_series)
}
