//! Hour rollups of a group: statistics of each series and hour. Bytes: `docs/format/segment.md`.
//!
//! Does: keep the bytes as they are in the file and unpack the columns that are asked for. Does not: say whether they
//! may be used; see `read/scan/aggregate.rs`.
//!
//! An entry speaks of rows in blocks of one series only. An hour may go on in the next group, which has an entry of
//! its own then: every row is in one entry at most.

mod lists;

use nilometer_codec::{PhysicalType, varint};

use super::checksum::SegmentFormat;
use super::statistics::PackedColumns;
use super::summary::Summary;
use crate::definition::{take_bytes, take_u32};
use crate::error::Malformed;
use crate::segment::GROUP_BLOCKS_MAX;

/// An hour in nanoseconds.
pub(crate) const HOUR_NS: i64 = 3_600_000_000_000;
/// Rows that an entry has at least, on average, or a group has none: fewer are as quickly read as rows.
pub(super) const HOUR_ROWS_MIN: usize = 64;
/// Follows from the two limits.
const ENTRIES_MAX: usize = GROUP_BLOCKS_MAX * nilometer_codec::BLOCK_ROWS_MAX / HOUR_ROWS_MIN;

/// Some rows of a series within an hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HourEntry {
    pub(crate) series: u32,
    /// Hours since 1970.
    pub(crate) hour: i64,
    pub(crate) rows: u32,
    pub(crate) min_time: i64,
    pub(crate) max_time: i64,
}

/// The rollups of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupRollups {
    /// Ordered by (series, hour).
    pub(crate) entries: Vec<HourEntry>,
    columns: PackedColumns,
    format: SegmentFormat,
}

impl GroupRollups {
    pub(super) fn new(entries: Vec<HourEntry>, format: SegmentFormat) -> Self {
        Self {
            entries,
            columns: PackedColumns::default(),
            format,
        }
    }

    /// Adds a column: by entry what is known of its values, `None` = there are none.
    pub(super) fn push(&mut self, column: u32, kind: PhysicalType, values: &[Option<Summary>]) {
        let (entries, format) = (&self.entries, self.format);
        let pack = |out: &mut Vec<u8>| lists::encode(entries, kind, values, format, out);
        self.columns.push(column, kind, pack);
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        varint::put_u64(self.entries.len() as u64, out);
        let mut keys = Vec::new();
        lists::put(self.entries.iter().map(|e| i64::from(e.series)), &mut keys);
        lists::put(self.entries.iter().map(|e| e.hour), &mut keys);
        lists::put(self.entries.iter().map(|e| i64::from(e.rows)), &mut keys);
        lists::put(self.entries.iter().map(HourEntry::lead), &mut keys);
        lists::put(self.entries.iter().map(HourEntry::duration), &mut keys);
        varint::put_u64(keys.len() as u64, out);
        out.extend_from_slice(&keys);
        self.columns.encode(out);
    }

    /// Reads all of `input`.
    pub(super) fn decode(mut input: &[u8], format: SegmentFormat) -> Result<Self, Malformed> {
        let n = take_u32(&mut input)? as usize;
        if n > ENTRIES_MAX {
            return Err(Malformed::new(format!("rollups of {n} hours")));
        }
        let bytes = take_u32(&mut input)? as usize;
        let mut keys = take_bytes(&mut input, bytes)?;
        let entries = decode_entries(&mut keys, n)?;
        if !keys.is_empty() {
            return Err(Malformed::new("bytes after the hours of rollups"));
        }
        let columns = PackedColumns::decode(input)?;
        Ok(Self {
            entries,
            columns,
            format,
        })
    }

    /// Positions of the entries of a series.
    pub(crate) fn of_series(&self, series: u32) -> std::ops::Range<usize> {
        let start = self.entries.partition_point(|entry| entry.series < series);
        let end = self.entries.partition_point(|entry| entry.series <= series);
        start..end
    }

    /// What is known of a column in some entries, given as ascending positions; the outer `None` = nothing in any. Without
    /// `ends` the first and last values are left out, and their lists are not read if the format says where they end.
    pub(crate) fn column(
        &self,
        column: u32,
        kind: PhysicalType,
        entries: &[usize],
        ends: bool,
    ) -> Result<Option<Vec<Option<Summary>>>, Malformed> {
        let Some(bytes) = self.columns.get(column, kind) else {
            return Ok(None);
        };
        let lists = lists::Lists::open(bytes, kind, self.format)?;
        lists.decode(&self.entries, kind, entries, ends).map(Some)
    }

    pub(super) fn memory(&self) -> usize {
        self.entries.len() * size_of::<HourEntry>() + self.columns.memory()
    }
}

impl HourEntry {
    /// Time of the first row since the hour's start.
    fn lead(&self) -> i64 {
        self.min_time.wrapping_sub(self.hour.wrapping_mul(HOUR_NS))
    }

    fn duration(&self) -> i64 {
        self.max_time.wrapping_sub(self.min_time)
    }
}

fn decode_entries(input: &mut &[u8], n: usize) -> Result<Vec<HourEntry>, Malformed> {
    let series = lists::take(input, n)?;
    let hours = lists::take(input, n)?;
    let rows = lists::take(input, n)?;
    let leads = lists::take(input, n)?;
    let durations = lists::take(input, n)?;
    let mut entries = Vec::with_capacity(n);
    for ((((series, &hour), rows), &lead), &duration) in series
        .iter()
        .zip(&hours)
        .zip(&rows)
        .zip(&leads)
        .zip(&durations)
    {
        let to_u32 = |number: &i64| {
            u32::try_from(*number).map_err(|_| Malformed::new("number of a rollup exceeds 32 bits"))
        };
        let min_time = hour.wrapping_mul(HOUR_NS).wrapping_add(lead);
        entries.push(HourEntry {
            series: to_u32(series)?,
            hour,
            rows: to_u32(rows)?,
            min_time,
            max_time: min_time.wrapping_add(duration),
        });
    }
    let key = |entry: &HourEntry| (entry.series, entry.hour);
    let is_sound = |entry: &HourEntry| {
        let is_inside = |time: i64| time.div_euclid(HOUR_NS) == entry.hour;
        entry.rows > 0
            && entry.min_time <= entry.max_time
            && is_inside(entry.min_time)
            && is_inside(entry.max_time)
    };
    if !entries.is_sorted_by(|a, b| key(a) < key(b)) || !entries.iter().all(is_sound) {
        return Err(Malformed::new("hours of rollups are out of order"));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests;
