//! Flash pages that stand as they are in a file of their own, and the rows of a head that are left beside them.
//!
//! Does: hold every block of a page against the rows of the head, after its deletes: where the rows in the block's span of time are
//! those of the block, value by value, the block stands for them. Does not: trust that rows came from the page: whatever happened to
//! them since (an overwrite, a delete, another page of the same times, a change of type) shows in the comparison.
//!
//! So the two files that a flush writes have no key in common, and which of them is the newer does not matter.

use std::ops::Range;
use std::sync::Arc;

use nilometer_codec::device::{DeviceBlock, DevicePage};
use nilometer_codec::{ColumnBuf, ColumnRef, ValuesRef, decode_page};

use crate::batch::{Column, TableRows, Values};
use crate::kept_page::{BlockPlace, KeptPage};
use crate::order::sorted_order;
use crate::schema::{Duplicates, TableId, TableSettings};
use crate::segment::time_of;

/// The pages of a head, and which blocks of them stand so far.
#[derive(Debug)]
pub(super) struct KeptPages<'a> {
    pages: Vec<Looked<'a>>,
    column: ColumnBuf,
    times: Vec<i64>,
}

#[derive(Debug)]
struct Looked<'a> {
    kept: &'a KeptPage,
    page: DevicePage<'a>,
    stands: Vec<bool>,
}

impl<'a> KeptPages<'a> {
    pub(super) fn new(pages: &'a [Arc<KeptPage>]) -> Self {
        let opened = pages.iter().filter_map(|kept| {
            let page = DevicePage::open(&kept.bytes).ok()?;
            let stands = vec![false; page.blocks.len()];
            Some(Looked { kept, page, stands })
        });
        Self {
            pages: opened.collect(),
            column: ColumnBuf::default(),
            times: Vec::new(),
        }
    }

    /// Marks the blocks of a table that stand for some of its rows, and returns the positions of the others; `None` = all of them.
    pub(super) fn take(&mut self, rows: &TableRows, settings: TableSettings) -> Option<Vec<u32>> {
        // Where each row counts for itself, or its key was looked up, rows stay rows.
        if settings.duplicates != Duplicates::Last || !self.concern(rows.table) {
            return None;
        }
        let order = sorted_order(&rows.series, &rows.times);
        let mut is_taken = vec![false; rows.rows()];
        let mut taken = 0;
        for looked in &mut self.pages {
            let blocks = looked.page.blocks.iter().zip(&looked.kept.blocks);
            for ((block, place), stands) in blocks.zip(&mut looked.stands) {
                let Some(place) = place.as_ref().filter(|it| it.table == rows.table) else {
                    continue;
                };
                let own = Own {
                    page: &looked.page,
                    kept: looked.kept,
                    block,
                    place,
                };
                let room = (&mut self.column, &mut self.times);
                let Some(found) = own.rows_of(rows, &order, room) else {
                    continue;
                };
                *stands = true;
                taken += found.len();
                for row in order.get(found).unwrap_or_default() {
                    if let Some(slot) = is_taken.get_mut(*row as usize) {
                        *slot = true;
                    }
                }
            }
        }
        if taken == 0 {
            return None;
        }
        let rest = (0u32..).zip(&is_taken).filter(|(_, is_taken)| !**is_taken);
        Some(rest.map(|(row, _)| row).collect())
    }

    fn concern(&self, table: TableId) -> bool {
        let blocks = self.pages.iter().flat_map(|it| &it.kept.blocks);
        let mut places = blocks.flatten();
        places.any(|place| place.table == table)
    }

    /// The pages with a block that stands, with no place for those that do not.
    pub(super) fn finish(self) -> Vec<KeptPage> {
        let pages = self.pages.into_iter();
        let pages = pages.filter(|it| it.stands.contains(&true));
        let with_places = pages.map(|it| {
            let mut kept = it.kept.clone();
            for (place, stands) in kept.blocks.iter_mut().zip(&it.stands) {
                if !stands {
                    *place = None;
                }
            }
            kept
        });
        with_places.collect()
    }
}

/// A block and what it became.
struct Own<'a> {
    page: &'a DevicePage<'a>,
    kept: &'a KeptPage,
    block: &'a DeviceBlock<'a>,
    place: &'a BlockPlace,
}

impl Own<'_> {
    /// Where the rows of the block stand in the order of the table's, if they are what it says and no other is between them.
    fn rows_of(
        &self,
        rows: &TableRows,
        order: &[u32],
        (column, times): (&mut ColumnBuf, &mut Vec<i64>),
    ) -> Option<Range<usize>> {
        let mut columns = self.place.columns.clone();
        columns.sort_unstable();
        columns.dedup();
        if columns.len() != self.block.fields.len() {
            return None;
        }
        self.times(column, times)?;
        let (first, last) = (*times.first()?, *times.last()?);
        let key = |row: &u32| {
            let at = *row as usize;
            (rows.series.get(at).copied(), rows.times.get(at).copied())
        };
        let series = Some(self.place.series);
        let start = order.partition_point(|row| key(row) < (series, Some(first)));
        let end = order.partition_point(|row| key(row) <= (series, Some(last)));
        let own = order.get(start..end)?;
        let is_same = |(row, time): (&u32, &i64)| rows.times.get(*row as usize) == Some(time);
        if own.len() != times.len() || !own.iter().zip(times.iter()).all(is_same) {
            return None;
        }
        for (field, id) in self.block.fields.iter().zip(&self.place.columns) {
            let known = rows.columns.iter().find(|it| it.id == *id)?;
            decode_page(self.kept.bytes.get(field.page.clone())?, column).ok()?;
            if !has_values(known, own, column.as_column()) {
                return None;
            }
        }
        let mut others = rows.columns.iter();
        let is_null = |column: &Column| {
            let is_valid = |row: &u32| column.validity.is_valid(*row as usize);
            self.place.columns.contains(&column.id) || !own.iter().any(is_valid)
        };
        others.all(is_null).then_some(start..end)
    }

    /// The times of the block's rows, each once.
    fn times(&self, column: &mut ColumnBuf, times: &mut Vec<i64>) -> Option<()> {
        let bytes = self.kept.bytes.get(self.block.time_page.clone())?;
        decode_page(bytes, column).ok()?;
        // What the directory says of the block must be had without overflow, too.
        let shift = time_of(self.page, self.kept.start_ns, self.block.base)?;
        let tick = i64::from(self.page.tick_ns);
        times.clear();
        for own in column.i64s() {
            times.push(own.checked_mul(tick)?.checked_add(shift)?);
        }
        times.is_sorted_by(|one, next| one < next).then_some(())
    }
}

/// Whether these rows of a column have these values, bit for bit.
fn has_values(column: &Column, rows: &[u32], page: ColumnRef<'_>) -> bool {
    if page.validity.is_some()
        || !rows
            .iter()
            .all(|row| column.validity.is_valid(*row as usize))
    {
        return false;
    }
    match (&column.values, page.values) {
        (Values::I64(known), ValuesRef::I64(values)) => same((known, rows), values, |it| it),
        (Values::U64(known), ValuesRef::U64(values)) => same((known, rows), values, |it| it),
        (Values::F64(known), ValuesRef::F64(values)) => same((known, rows), values, f64::to_bits),
        (Values::Bool(known), ValuesRef::Bool(values)) => same((known, rows), values, |it| it),
        (Values::Text(known), ValuesRef::Text { offsets, bytes })
        | (Values::Bytes(known), ValuesRef::Bytes { offsets, bytes }) => {
            let values = offsets.array_windows();
            let mut both = rows.iter().zip(values);
            rows.len() + 1 == offsets.len()
                && both.all(|(row, [start, end])| {
                    bytes.get(*start as usize..*end as usize) == Some(known.get(*row as usize))
                })
        }
        _ => false,
    }
}

fn same<T: Copy, B: PartialEq>(
    (known, rows): (&[T], &[u32]),
    values: &[T],
    bits: impl Fn(T) -> B,
) -> bool {
    let is_same = |(row, value): (&u32, &T)| {
        let known = known.get(*row as usize);
        known.is_some_and(|known| bits(*known) == bits(*value))
    };
    rows.len() == values.len() && rows.iter().zip(values).all(is_same)
}
