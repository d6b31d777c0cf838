//! The last row of each of many series, without reading those before it.
//!
//! Does: take it from what is kept of the groups of segments and from the end of runs, where nothing else says what it is;
//! say of which series it could not. Does not: guess: where a delete touches the row, where two sources have rows of its time
//! that become one, or where it lies outside of the range of time, the series is left to a scan.

use std::ops::RangeInclusive;
use std::sync::Arc;

use nilometer_codec::PhysicalType;

use crate::batch::{Column, Values};
use crate::cast::cast;
use crate::error::Error;
use crate::head::Run;
use crate::moment::Moment;
use crate::scan::plan::{Source, find_sources};
use crate::scan::{ScanRequest, field_array};
use crate::schema::{ColumnId, ColumnKind, ColumnSource, Duplicates, SeriesId, TableSchema};
use crate::segment::LatestColumn;

/// The last rows of some series.
#[derive(Debug)]
pub struct LastRows {
    /// Positions among the series that were asked for, ascending.
    pub positions: Vec<u32>,
    /// By row.
    pub times: Vec<i64>,
    /// By field of the request.
    pub columns: Vec<arrow_array::ArrayRef>,
    /// Series whose last row, if they have one, has to be looked for.
    pub rest: Vec<SeriesId>,
}

/// The best row of a series so far.
#[derive(Debug, Clone, Copy)]
struct Best {
    time: i64,
    /// Position of the source; `NONE` = there is none.
    source: u32,
    /// Place in the group's list, or row of the run.
    at: u32,
    /// It does not say what the last row is.
    is_unsure: bool,
}

const NONE: u32 = u32::MAX;

/// What is known of a source.
enum Known {
    /// What its last rows have in each field.
    Group(Vec<Option<Arc<LatestColumn>>>),
    Run(Arc<Run>),
}

/// The last rows of series of a table, which ascend; `fields` are positions in its schema. `None` = one of them is no field.
/// Of texts is known what runs have, and where groups have none.
pub(crate) fn last_rows(
    moment: &Moment,
    table: &Arc<TableSchema>,
    series: &[u32],
    fields: &[usize],
    time: &RangeInclusive<i64>,
) -> Result<Option<LastRows>, Error> {
    let Some(kinds) = kinds(table, fields) else {
        return Ok(None);
    };
    let request = ScanRequest {
        table: Arc::clone(table),
        projection: Vec::new(),
        time: time.clone(),
        tags: Vec::new(),
        limit: None,
    };
    let sources = find_sources(moment, &request, series)?;
    let keeps = table.settings.duplicates == Duplicates::Keep;
    let none = Best {
        time: i64::MIN,
        source: NONE,
        at: 0,
        is_unsure: false,
    };
    let mut best = vec![none; series.len()];
    let mut known = Vec::with_capacity(sources.len());
    for (number, source) in (0..).zip(&sources) {
        match source {
            Source::Group {
                segment,
                group,
                mask,
                ..
            } => {
                let latest = segment.latest(*group)?;
                each_common(series, &latest.series, |position, at| {
                    let Some(best) = best.get_mut(position) else {
                        return;
                    };
                    let found = latest.times.get(at).copied().unwrap_or(i64::MAX);
                    let id = series.get(position).copied().unwrap_or(0);
                    let is_hidden = !mask.is_empty() && mask.hides(0, id, found);
                    let is_sure = time.contains(&found) && !is_hidden;
                    let is_tied = latest.is_tied(at, keeps);
                    let row = u32::try_from(at).unwrap_or(NONE);
                    best.offer(found, (number, row), is_sure && !is_tied, keeps);
                });
                known.push(Known::Group(Vec::new()));
            }
            Source::Run { run, visible, mask } => {
                for (&id, best) in series.iter().zip(&mut best) {
                    let Some((row, found)) = last_of(run, *visible, id, time) else {
                        continue;
                    };
                    let is_hidden = !mask.is_empty() && mask.hides(row, id, found);
                    let row = u32::try_from(row).unwrap_or(NONE);
                    let is_tied = !keeps && has_before(run, *visible, id, found);
                    best.offer(found, (number, row), !is_hidden && !is_tied, keeps);
                }
                known.push(Known::Run(Arc::clone(run)));
            }
        }
    }
    let mut found = LastRows {
        positions: Vec::new(),
        times: Vec::new(),
        columns: Vec::with_capacity(kinds.len()),
        rest: Vec::new(),
    };
    // Of groups that have a field as another type, or texts, nothing is known.
    for (source, known) in sources.iter().zip(&mut known) {
        let (Source::Group { segment, group, .. }, Known::Group(columns)) = (source, known) else {
            continue;
        };
        for (id, kind) in &kinds {
            columns.push(segment.latest_column(*group, (id.0, *kind))?);
        }
    }
    let mut rows = Vec::new();
    for ((position, best), id) in (0..).zip(&best).zip(series) {
        let is_other = match known.get(best.source as usize) {
            Some(Known::Group(columns)) => columns.iter().any(Option::is_none),
            _ => false,
        };
        if best.is_unsure || is_other {
            found.rest.push(SeriesId(*id));
        } else if best.source != NONE {
            found.positions.push(position);
            found.times.push(best.time);
            rows.push((best.source, best.at));
        }
    }
    for (field, (id, kind)) in kinds.iter().enumerate() {
        found
            .columns
            .push(field_array(gather(&known, &rows, field, (*id, *kind))));
    }
    Ok(Some(found))
}

impl Best {
    fn offer(&mut self, time: i64, (source, at): (u32, u32), is_sure: bool, keeps: bool) {
        if self.source != NONE && time < self.time {
            return;
        }
        // Rows of one time in two sources become one, or stay two, of which the later written is the last.
        let is_met = self.source != NONE && time == self.time;
        let was_unsure = is_met && self.is_unsure;
        *self = Self {
            time,
            source,
            at,
            is_unsure: !is_sure || was_unsure || (is_met && !keeps),
        };
    }
}

fn kinds(table: &TableSchema, fields: &[usize]) -> Option<Vec<(ColumnId, PhysicalType)>> {
    let kind = |position: &usize| {
        let ColumnSource::Field(at) = table.source(*position)? else {
            return None;
        };
        let field = table.fields.get(at)?;
        match field.kind {
            ColumnKind::Tag => None,
            ColumnKind::Field(kind) => Some((field.id, kind)),
        }
    };
    fields.iter().map(kind).collect()
}

/// Calls with the places in both lists, which ascend, of what is in both.
fn each_common(one: &[u32], other: &[u32], mut call: impl FnMut(usize, usize)) {
    if one.len() * 8 < other.len() {
        for (position, id) in one.iter().enumerate() {
            if let Ok(at) = other.binary_search(id) {
                call(position, at);
            }
        }
        return;
    }
    let mut at = 0;
    let start = other
        .first()
        .map_or(0, |first| one.partition_point(|id| id < first));
    for (position, id) in one.iter().enumerate().skip(start) {
        while other.get(at).is_some_and(|known| known < id) {
            at += 1;
        }
        match other.get(at) {
            None => break,
            Some(known) if known == id => call(position, at),
            Some(_) => {}
        }
    }
}

fn key(run: &Run, row: u32) -> (u32, i64) {
    let row = row as usize;
    let series = run.rows.series.get(row).copied().unwrap_or(u32::MAX);
    (series, run.rows.times.get(row).copied().unwrap_or(i64::MAX))
}

/// The last visible row of a series in a run, within a range of time, and its time.
fn last_of(
    run: &Run,
    visible: usize,
    series: u32,
    time: &RangeInclusive<i64>,
) -> Option<(usize, i64)> {
    let order = run.order();
    let end = order.partition_point(|&row| key(run, row) <= (series, *time.end()));
    let before = order.get(..end)?.iter().rev();
    let own = before.map(|&row| (row as usize, key(run, row)));
    let mut own = own.take_while(|(_, key)| key.0 == series);
    let (row, (_, found)) = own.find(|(row, _)| *row < visible)?;
    time.contains(&found).then_some((row, found))
}

/// Whether a run has several visible rows of a series and time.
fn has_before(run: &Run, visible: usize, series: u32, time: i64) -> bool {
    let order = run.order();
    let start = order.partition_point(|&row| key(run, row) < (series, time));
    let same = order.get(start..).unwrap_or_default().iter();
    let same = same.take_while(|&&row| key(run, row) == (series, time));
    same.filter(|&&row| (row as usize) < visible).count() > 1
}

/// A field of rows, each by its source and place.
fn gather(
    known: &[Known],
    rows: &[(u32, u32)],
    field: usize,
    (id, kind): (ColumnId, PhysicalType),
) -> Column {
    let mut cast_runs: Vec<Option<Column>> = Vec::new();
    cast_runs.resize_with(known.len(), || None);
    let mut column = Column::new(id, kind);
    for &(source, at) in rows {
        match known.get(source as usize) {
            Some(Known::Group(columns)) => {
                let own = columns.get(field).and_then(Option::as_ref);
                let bits = own.and_then(|own| own.get(at as usize));
                push(&mut column, bits.map(Cell::Bits));
            }
            Some(Known::Run(run)) => {
                let own = run.rows.columns.iter().find(|column| column.id == id);
                let own = own.and_then(|own| {
                    if own.values.kind() == kind {
                        return Some(own);
                    }
                    // It is older than its field's type.
                    let slot = cast_runs.get_mut(source as usize)?;
                    Some(&*slot.get_or_insert_with(|| cast(own, kind)))
                });
                push(&mut column, own.and_then(|own| cell(own, at as usize)));
            }
            None => push(&mut column, None),
        }
    }
    column
}

/// A value.
#[derive(Debug, Clone, Copy)]
enum Cell<'a> {
    Bits(u64),
    Text(&'a [u8]),
}

fn cell(column: &Column, row: usize) -> Option<Cell<'_>> {
    if !column.validity.is_valid(row) {
        return None;
    }
    Some(match &column.values {
        Values::I64(values) => Cell::Bits(values.get(row)?.cast_unsigned()),
        Values::U64(values) => Cell::Bits(*values.get(row)?),
        Values::F64(values) => Cell::Bits(values.get(row)?.to_bits()),
        Values::Bool(values) => Cell::Bits(u64::from(*values.get(row)?)),
        Values::Text(strings) | Values::Bytes(strings) => Cell::Text(strings.get(row)),
    })
}

fn push(column: &mut Column, value: Option<Cell<'_>>) {
    let (bits, text) = match value {
        Some(Cell::Bits(bits)) => (bits, &[][..]),
        Some(Cell::Text(text)) => (0, text),
        None => (0, &[][..]),
    };
    match &mut column.values {
        Values::I64(values) => values.push(bits.cast_signed()),
        Values::U64(values) => values.push(bits),
        Values::F64(values) => values.push(f64::from_bits(bits)),
        Values::Bool(values) => values.push(bits != 0),
        Values::Text(strings) | Values::Bytes(strings) => strings.push(text),
    }
    column.validity.push(value.is_some());
}
