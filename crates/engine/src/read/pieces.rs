//! Pieces of a table on disk, and the slots of time that have rows.
//!
//! Does: say what files hold of a table, with their bytes; say in which slots of a width rows are, deletes counted. Does not: read
//! more than times, and these only where a file or a run has rows of several slots, or deletes touch it.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;

use crate::error::Error;
use crate::mask::{Deletes, Mask};
use crate::moment::Moment;
use crate::scan::{Narrowing, Scan, ScanRequest};
use crate::schema::{TableId, TableSchema};
use crate::segment::{Home, Tier};

/// Rows of a table that stand together in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TablePiece {
    /// The number of the file.
    pub file_id: u64,
    /// First and last time of its rows.
    pub time: RangeInclusive<i64>,
    /// Its rows.
    pub rows: u64,
    /// Its bytes: the whole file's where no other table has rows in it.
    pub bytes: u64,
    /// What its pages were written for.
    pub tier: Tier,
    /// The file holds rows of one partition only.
    pub is_of_partition: bool,
}

/// The pieces of a table, in the order of files.
pub(crate) fn pieces(moment: &Moment, table: TableId) -> Vec<TablePiece> {
    let mut pieces = Vec::new();
    for segment in moment.state.version.segments_of(table) {
        let is_of_partition = matches!(segment.meta.home, Home::Partition(_));
        let mut own: Option<TablePiece> = None;
        for (_, group) in segment.groups(table) {
            let parts = [
                group.directory,
                group.statistics,
                group.rollups,
                group.large,
            ];
            let parts: u64 = parts.iter().map(|part| u64::from(part.length)).sum();
            let piece = TablePiece {
                file_id: segment.meta.file_id,
                time: group.min_time..=group.max_time,
                rows: group.rows,
                bytes: group.pages + parts,
                tier: segment.tier(),
                is_of_partition,
            };
            match &mut own {
                Some(known) if is_of_partition => {
                    let first = (*known.time.start()).min(group.min_time);
                    known.time = first..=(*known.time.end()).max(group.max_time);
                    known.rows += group.rows;
                }
                _ => pieces.extend(own.replace(piece)),
            }
        }
        if let Some(known) = own.as_mut().filter(|_| is_of_partition) {
            known.bytes = segment.meta.bytes;
        }
        pieces.extend(own);
    }
    pieces
}

/// About how many rows a table has: those in files and in memory, some of which may be of one key, or deleted.
pub(crate) fn rows(moment: &Moment, table: TableId) -> u64 {
    let filed: u64 = pieces(moment, table).iter().map(|piece| piece.rows).sum();
    let heads = moment.state.heads(moment.visible);
    let runs = heads.flat_map(|(head, visible)| head.runs(table, visible));
    filed + runs.map(|(_, rows)| rows as u64).sum::<u64>()
}

/// The slots of a width, counted from time 0, in which a table has rows.
pub(crate) fn slots(
    moment: &Moment,
    table: &Arc<TableSchema>,
    width: i64,
) -> Result<BTreeSet<i64>, Error> {
    let width = width.max(1);
    let (state, visible) = (&moment.state, moment.visible);
    let deletes = Deletes::new(&state.tombstones(table.id, visible));
    let mut slots = BTreeSet::new();
    // What has to be read, by first and last time.
    let mut unsure: Vec<(i64, i64)> = Vec::new();
    let mut found = |first: i64, last: i64, is_whole: bool| {
        let slot = first.div_euclid(width);
        if is_whole && slot == last.div_euclid(width) {
            slots.insert(slot);
        } else {
            unsure.push((first, last));
        }
    };
    for segment in state.version.segments_of(table.id) {
        for (_, group) in segment.groups(table.id) {
            let series = group.first_series..=group.last_series;
            let span = group.min_time..=group.max_time;
            let mask = Mask::of_segment(&deletes, segment.meta.applied_lsn, series, span);
            found(group.min_time, group.max_time, mask.is_empty());
        }
    }
    for (head, visible) in state.heads(visible) {
        for (run, rows) in head.runs(table.id, visible) {
            let times = run.times();
            let is_whole = rows == run.rows.rows() && Mask::of_run(&deletes, &run).is_empty();
            found(*times.start(), *times.end(), is_whole && rows > 0);
        }
    }
    for (first, last) in joined(unsure) {
        read_slots(moment, table, first..=last, width, &mut slots)?;
    }
    Ok(slots)
}

/// Ranges that overlap as one.
fn joined(mut ranges: Vec<(i64, i64)>) -> Vec<(i64, i64)> {
    ranges.sort_unstable();
    let mut joined: Vec<(i64, i64)> = Vec::new();
    for (first, last) in ranges {
        match joined.last_mut() {
            Some((_, end)) if first <= *end => *end = last.max(*end),
            _ => joined.push((first, last)),
        }
    }
    joined
}

fn read_slots(
    moment: &Moment,
    table: &Arc<TableSchema>,
    time: RangeInclusive<i64>,
    width: i64,
    slots: &mut BTreeSet<i64>,
) -> Result<(), Error> {
    let request = ScanRequest {
        table: Arc::clone(table),
        projection: vec![0],
        time,
        tags: Vec::new(),
        limit: None,
    };
    let scan = Scan::plan(moment, &request, &Narrowing::None)?;
    for morsel in 0..scan.morsels() {
        for batch in scan.read(morsel) {
            let batch = batch?;
            let times = batch.columns().first();
            let times = times.and_then(|it| it.as_primitive_opt::<TimestampNanosecondType>());
            let mut before = None;
            for time in times.map_or([].as_slice(), |times| times.values().as_ref()) {
                let slot = Some(time.div_euclid(width));
                if slot != before {
                    slots.extend(slot);
                    before = slot;
                }
            }
        }
    }
    Ok(())
}
