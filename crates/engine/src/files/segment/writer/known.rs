//! Statistics and rollups of a group, as it is written.
//!
//! Looks at every page while it is written, block by block, and keeps of each block of one series what it says.

use std::ops::Range;

use nilometer_codec::stats::{PageStatistics, statistics};
use nilometer_codec::{ColumnBuf, ColumnRef, PhysicalType, ValuesRef, decode_page};

use crate::error::Malformed;
use crate::segment::checksum::SegmentFormat;
use crate::segment::directory::BlockEntry;
use crate::segment::rollup::{GroupRollups, HOUR_NS, HOUR_ROWS_MIN, HourEntry};
use crate::segment::statistics::GroupStatistics;
use crate::segment::summary::Summary;
use crate::segment::{SERIES_PAGE, TIME_PAGE};

/// What is known so far. Times come before fields, and of each column the blocks in order.
#[derive(Debug)]
pub(super) struct Known {
    format: SegmentFormat,
    /// By block; empty for shared ones.
    times: Vec<Vec<i64>>,
    /// By block: rows of one hour, and which entry of the rollups they are in.
    slices: Vec<Vec<(Range<usize>, usize)>>,
    entries: Vec<HourEntry>,
    statistics: GroupStatistics,
    /// Made when the times are known, if wanted and worth it.
    rollups: Option<GroupRollups>,
    wants_rollups: bool,
    /// Series and time of the last row of the last block of one series.
    last_key: Option<(u32, i64)>,
    has_duplicates: bool,
    /// Of the column being written, by block.
    of_blocks: Vec<Option<PageStatistics>>,
    /// Of the column being written, by entry of the rollups.
    of_hours: Vec<Option<Summary>>,
    page: ColumnBuf,
    bitmap: Vec<u8>,
}

impl Known {
    pub(super) fn new(blocks: usize, wants_rollups: bool, format: SegmentFormat) -> Self {
        Self {
            format,
            times: vec![Vec::new(); blocks],
            slices: vec![Vec::new(); blocks],
            entries: Vec::new(),
            statistics: GroupStatistics::default(),
            rollups: None,
            wants_rollups,
            last_key: None,
            has_duplicates: false,
            of_blocks: vec![None; blocks],
            of_hours: Vec::new(),
            page: ColumnBuf::default(),
            bitmap: Vec::new(),
        }
    }

    /// Looks at a page that stays as it is.
    pub(super) fn observe_page(
        &mut self,
        column: u32,
        block: usize,
        entry: &BlockEntry,
        page: &[u8],
    ) -> Result<(), Malformed> {
        if entry.is_shared() {
            return Ok(());
        }
        let mut decoded = std::mem::take(&mut self.page);
        let read = decode_page(page, &mut decoded);
        self.observe(column, block, entry, decoded.as_column());
        self.page = decoded;
        Ok(read?)
    }

    /// Looks at the values of a page.
    pub(super) fn observe(
        &mut self,
        column: u32,
        block: usize,
        entry: &BlockEntry,
        values: ColumnRef<'_>,
    ) {
        if entry.is_shared() || column == SERIES_PAGE {
            return;
        }
        if column == TIME_PAGE {
            if let ValuesRef::I64(times) = values.values {
                self.observe_times(block, entry.first_series, times);
            }
            return;
        }
        if let Some(slot) = self.of_blocks.get_mut(block) {
            *slot = Some(statistics(values));
        }
        let is_text = matches!(
            values.physical_type(),
            PhysicalType::Text | PhysicalType::Bytes
        );
        if self.rollups.is_none() || is_text {
            return;
        }
        let times = self.times.get(block).map(Vec::as_slice).unwrap_or_default();
        for (rows, entry) in self.slices.get(block).into_iter().flatten() {
            let part = slice(values, rows.clone(), &mut self.bitmap);
            let time = |row: u16| times.get(rows.start + usize::from(row)).copied();
            let Some(summary) = Summary::of(&statistics(part), time) else {
                continue;
            };
            match self.of_hours.get_mut(*entry) {
                Some(Some(known)) => known.join(&summary),
                Some(slot) => *slot = Some(summary),
                None => {}
            }
        }
    }

    fn observe_times(&mut self, block: usize, series: u32, times: &[i64]) {
        if let Some(slot) = self.times.get_mut(block) {
            times.clone_into(slot);
        }
        self.has_duplicates |= times.windows(2).any(|pair| match pair {
            [a, b] => a == b,
            _ => false,
        });
        if let (Some(&first), Some(&last)) = (times.first(), times.last()) {
            self.has_duplicates |= self.last_key == Some((series, first));
            self.last_key = Some((series, last));
        }
        if !self.wants_rollups {
            return;
        }
        let mut start = 0;
        for same in times.chunk_by(|a, b| a.div_euclid(HOUR_NS) == b.div_euclid(HOUR_NS)) {
            let (Some(&min_time), Some(&max_time)) = (same.first(), same.last()) else {
                continue;
            };
            let hour = min_time.div_euclid(HOUR_NS);
            let rows = u32::try_from(same.len()).unwrap_or(u32::MAX);
            match self.entries.last_mut() {
                Some(last) if (last.series, last.hour) == (series, hour) => {
                    last.rows = last.rows.saturating_add(rows);
                    last.max_time = max_time;
                }
                _ => self.entries.push(HourEntry {
                    series,
                    hour,
                    rows,
                    min_time,
                    max_time,
                }),
            }
            let end = start + same.len();
            if let Some(slices) = self.slices.get_mut(block) {
                slices.push((start..end, self.entries.len() - 1));
            }
            start = end;
        }
    }

    /// Every block's page of this column was looked at.
    pub(super) fn end_column(&mut self, column: u32, kind: PhysicalType) {
        if column == TIME_PAGE {
            self.decide();
            return;
        }
        self.statistics.push(column, kind, &self.of_blocks);
        if let Some(rollups) = &mut self.rollups
            && self.of_blocks.iter().any(Option::is_some)
            && !matches!(kind, PhysicalType::Text | PhysicalType::Bytes)
        {
            rollups.push(column, kind, &self.of_hours);
        }
        self.of_blocks.fill(None);
        self.of_hours.fill(None);
    }

    /// Whether rollups are worth their bytes.
    fn decide(&mut self) {
        let entries = std::mem::take(&mut self.entries);
        let rows: usize = entries.iter().map(|entry| entry.rows as usize).sum();
        // Where every block lies in one hour, its statistics say as much.
        let is_finer = self.slices.iter().any(|slices| slices.len() > 1);
        let is_sorted = entries.is_sorted_by(|a, b| (a.series, a.hour) < (b.series, b.hour));
        if is_sorted && is_finer && rows >= entries.len() * HOUR_ROWS_MIN {
            self.of_hours = vec![None; entries.len()];
            self.rollups = Some(GroupRollups::new(entries, self.format));
        }
    }

    /// Whether two rows in blocks of one series have one time.
    pub(super) fn has_duplicates(&self) -> bool {
        self.has_duplicates
    }

    /// Statistics and rollups, if there are any.
    pub(super) fn finish(self) -> (Option<GroupStatistics>, Option<GroupRollups>) {
        let statistics = (!self.statistics.is_empty()).then_some(self.statistics);
        (statistics, self.rollups)
    }
}

/// Some rows of a column; `bitmap` is room for their validity.
fn slice<'a>(column: ColumnRef<'a>, rows: Range<usize>, bitmap: &'a mut Vec<u8>) -> ColumnRef<'a> {
    let text = |offsets: &'a [u32]| offsets.get(rows.start..=rows.end).unwrap_or_default();
    let values = match column.values {
        ValuesRef::I64(all) => ValuesRef::I64(all.get(rows.clone()).unwrap_or_default()),
        ValuesRef::U64(all) => ValuesRef::U64(all.get(rows.clone()).unwrap_or_default()),
        ValuesRef::F64(all) => ValuesRef::F64(all.get(rows.clone()).unwrap_or_default()),
        ValuesRef::Bool(all) => ValuesRef::Bool(all.get(rows.clone()).unwrap_or_default()),
        ValuesRef::Text { offsets, bytes } => ValuesRef::Text {
            offsets: text(offsets),
            bytes,
        },
        ValuesRef::Bytes { offsets, bytes } => ValuesRef::Bytes {
            offsets: text(offsets),
            bytes,
        },
    };
    let Some(bits) = column.validity else {
        return ColumnRef {
            values,
            validity: None,
        };
    };
    bitmap.clear();
    bitmap.resize(rows.len().div_ceil(8), 0);
    for (at, row) in rows.enumerate() {
        let is_present = bits.get(row / 8).is_some_and(|b| b >> (row % 8) & 1 == 1);
        if let (true, Some(byte)) = (is_present, bitmap.get_mut(at / 8)) {
            *byte |= 1 << (at % 8);
        }
    }
    ColumnRef {
        values,
        validity: Some(bitmap),
    }
}
