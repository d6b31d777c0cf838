//! Tombstones: deletes, until the rows are gone from every file.
//!
//! Does: say which rows a delete hides, and turn into bytes and back. Does not: know files or heads; whoever reads rows
//! knows their LSN and asks only the tombstones that are newer, through `mask.rs`.
//!
//! A tombstone of LSN d hides rows below d. A flush leaves out what the head's older rows lost; compaction what its
//! inputs lost. A file says up to which LSN that was done to it (`SegmentMeta::applied_lsn`), so a tombstone
//! concerns the files below it only, and goes when there is none.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

use nilometer_codec::{decode_i64s, encode_i64s, varint};

use crate::definition::{take_byte, take_u32};
use crate::error::Malformed;
use crate::schema::{Lsn, TableId};

/// Most series or rows that an encoded tombstone may claim before its bytes are looked at.
const ENTRIES_MAX: usize = 1 << 26;

const RANGE_OF_ALL: u8 = 0;
const RANGE_OF_SOME: u8 = 1;
const ROWS: u8 = 2;

/// One delete in one table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tombstone {
    /// Rows below this LSN are concerned; 0 while the batch that carries it has none yet.
    pub(crate) lsn: Lsn,
    pub(crate) table: TableId,
    pub(crate) what: Deleted,
}

/// Which rows are gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Deleted {
    /// Every row of some series in a range of time.
    Range {
        /// Ascending; `None` = all series of the table.
        series: Option<Vec<u32>>,
        /// First and last time, both included.
        time: RangeInclusive<i64>,
    },
    /// Rows by key, ordered by (series, time).
    Rows {
        series: Vec<u32>,
        /// Parallel to `series`.
        times: Vec<i64>,
    },
}

impl Tombstone {
    /// Whether a row of this key is hidden, given that its LSN is lower.
    pub(crate) fn hides(&self, series: u32, time: i64) -> bool {
        match &self.what {
            Deleted::Range {
                series: some,
                time: range,
            } => {
                range.contains(&time)
                    && some
                        .as_ref()
                        .is_none_or(|some| some.binary_search(&series).is_ok())
            }
            Deleted::Rows {
                series: ids,
                times: at,
            } => {
                let start = ids.partition_point(|&id| id < series);
                let end = ids.partition_point(|&id| id <= series);
                at.get(start..end)
                    .is_some_and(|own| own.binary_search(&time).is_ok())
            }
        }
    }

    /// Whether a row of one of these series in this time could be hidden; sure about no.
    pub(crate) fn touches(&self, series: RangeInclusive<u32>, time: RangeInclusive<i64>) -> bool {
        let overlaps = |range: &RangeInclusive<i64>| {
            range.start() <= time.end() && time.start() <= range.end() && !range.is_empty()
        };
        match &self.what {
            Deleted::Range {
                series: some,
                time: range,
            } => {
                overlaps(range)
                    && some.as_ref().is_none_or(|some| {
                        let at = some.partition_point(|id| id < series.start());
                        some.get(at).is_some_and(|id| id <= series.end())
                    })
            }
            Deleted::Rows {
                series: ids,
                times: at,
            } => {
                let start = ids.partition_point(|id| id < series.start());
                let end = ids.partition_point(|id| id <= series.end());
                at.get(start..end)
                    .is_some_and(|own| own.iter().any(|at| time.contains(at)))
            }
        }
    }

    /// The keys that it names, ascending; none if it is a range.
    pub(crate) fn rows(&self) -> impl ExactSizeIterator<Item = (u32, i64)> {
        let (series, times) = match &self.what {
            Deleted::Range { .. } => ([].as_slice(), [].as_slice()),
            Deleted::Rows { series, times } => (series.as_slice(), times.as_slice()),
        };
        series.iter().copied().zip(times.iter().copied())
    }

    /// The same with other ids of series; a range stays as it is.
    pub(crate) fn with_series(&self, id_of: impl Fn(u32) -> u32) -> Self {
        let what = match &self.what {
            range @ Deleted::Range { .. } => range.clone(),
            Deleted::Rows { .. } => {
                let mut keys: Vec<(u32, i64)> =
                    self.rows().map(|(id, time)| (id_of(id), time)).collect();
                keys.sort_unstable();
                let (series, times) = keys.into_iter().unzip();
                Deleted::Rows { series, times }
            }
        };
        Self { what, ..*self }
    }

    /// Memory in use, roughly.
    pub(crate) fn bytes(&self) -> usize {
        let lists = match &self.what {
            Deleted::Range { series, .. } => series.as_ref().map_or(0, |some| some.len() * 4),
            Deleted::Rows { series, .. } => series.len() * 12,
        };
        size_of::<Self>() + lists
    }

    /// Appends it.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        varint::put_u64(self.lsn, out);
        varint::put_u64(u64::from(self.table.0), out);
        match &self.what {
            Deleted::Range { series, time } => {
                out.push(if series.is_some() {
                    RANGE_OF_SOME
                } else {
                    RANGE_OF_ALL
                });
                varint::put_i64(*time.start(), out);
                varint::put_i64(*time.end(), out);
                if let Some(some) = series {
                    put_series(some, out);
                }
            }
            Deleted::Rows { series, times } => {
                out.push(ROWS);
                put_series(series, out);
                encode_i64s(times, out);
            }
        }
    }

    /// Reads one and moves `input` past it.
    pub(crate) fn decode(input: &mut &[u8]) -> Result<Self, Malformed> {
        let lsn = varint::get_u64(input)?;
        let table = TableId(take_u32(input)?);
        let what = match take_byte(input)? {
            ROWS => {
                let series = take_series(input)?;
                let mut times = Vec::new();
                decode_i64s(input, series.len(), &mut times)?;
                let sorted = series.iter().zip(&times).is_sorted_by(|a, b| a <= b);
                if !sorted {
                    return Err(Malformed::new("deleted rows are out of order"));
                }
                Deleted::Rows { series, times }
            }
            kind @ (RANGE_OF_ALL | RANGE_OF_SOME) => {
                let start = varint::get_i64(input)?;
                let end = varint::get_i64(input)?;
                let series = if kind == RANGE_OF_SOME {
                    Some(take_series(input)?)
                } else {
                    None
                };
                if series.as_ref().is_some_and(|some| !some.is_sorted()) {
                    return Err(Malformed::new("deleted series are out of order"));
                }
                Deleted::Range {
                    series,
                    time: start..=end,
                }
            }
            other => return Err(Malformed::new(format!("unknown kind of delete {other}"))),
        };
        Ok(Self { lsn, table, what })
    }
}

fn put_series(series: &[u32], out: &mut Vec<u8>) {
    varint::put_u64(series.len() as u64, out);
    let numbers: Vec<i64> = series.iter().map(|&id| i64::from(id)).collect();
    encode_i64s(&numbers, out);
}

fn take_series(input: &mut &[u8]) -> Result<Vec<u32>, Malformed> {
    let n = take_u32(input)? as usize;
    if n > ENTRIES_MAX {
        return Err(Malformed::new(format!("delete of {n} entries")));
    }
    let mut numbers = Vec::new();
    decode_i64s(input, n, &mut numbers)?;
    numbers
        .iter()
        .map(|&id| u32::try_from(id).map_err(|_| Malformed::new("series id exceeds 32 bits")))
        .collect()
}

/// The deletes of a head as few as can be: its lists of rows become one a table, of the last LSN. To what is older than
/// the head, and to what is newer, that is the same.
pub(crate) fn joined(tombstones: Vec<Arc<Tombstone>>) -> Vec<Arc<Tombstone>> {
    let mut kept = Vec::new();
    let mut lists: BTreeMap<TableId, Vec<Arc<Tombstone>>> = BTreeMap::new();
    for tombstone in tombstones {
        match &tombstone.what {
            Deleted::Rows { .. } => lists.entry(tombstone.table).or_default().push(tombstone),
            Deleted::Range { .. } => kept.push(tombstone),
        }
    }
    for list in lists.into_values() {
        let rows: usize = list.iter().map(|it| it.rows().len()).sum();
        let last = list.last().map(|it| (it.lsn, it.table));
        let (Some((lsn, table)), 2.., ..=ENTRIES_MAX) = (last, list.len(), rows) else {
            kept.extend(list);
            continue;
        };
        let mut keys: Vec<(u32, i64)> = list.iter().flat_map(|it| it.rows()).collect();
        keys.sort_unstable();
        keys.dedup();
        let (series, times) = keys.into_iter().unzip();
        kept.push(Arc::new(Tombstone {
            lsn,
            table,
            what: Deleted::Rows { series, times },
        }));
    }
    kept.sort_by_key(|it| it.lsn);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<Tombstone> {
        let make = |what| Tombstone {
            lsn: 9,
            table: TableId(3),
            what,
        };
        vec![
            make(Deleted::Range {
                series: None,
                time: i64::MIN..=-5,
            }),
            make(Deleted::Range {
                series: Some(vec![2, 7, 9]),
                time: 10..=20,
            }),
            make(Deleted::Rows {
                series: vec![1, 1, 4],
                times: vec![5, 8, -3],
            }),
        ]
    }

    #[test]
    fn a_tombstone_reads_back_as_written_and_no_part_of_it_does() {
        for tombstone in samples() {
            let mut bytes = Vec::new();
            tombstone.encode(&mut bytes);
            assert_eq!(Tombstone::decode(&mut bytes.as_slice()), Ok(tombstone));
            for n in 0..bytes.len() {
                let mut part = bytes.get(..n).unwrap_or_default();
                assert!(Tombstone::decode(&mut part).is_err(), "{n} bytes");
            }
        }
    }

    #[test]
    fn what_is_hidden_is_touched_and_nothing_else_is_hidden() {
        let hidden = [
            vec![(1, -5), (2, i64::MIN)],
            vec![(2, 10), (7, 20), (9, 15)],
            vec![(1, 5), (1, 8), (4, -3)],
        ];
        let shown = [
            vec![(1, -4), (2, 0)],
            vec![(2, 9), (7, 21), (3, 15)],
            vec![(1, 6), (4, 5), (2, 5)],
        ];
        for ((tombstone, hidden), shown) in samples().iter().zip(hidden).zip(shown) {
            for (series, time) in hidden {
                assert!(tombstone.hides(series, time), "{series} {time}");
                assert!(tombstone.touches(series..=series, time..=time));
            }
            for (series, time) in shown {
                assert!(!tombstone.hides(series, time), "{series} {time}");
                assert!(!tombstone.touches(series..=series, time..=time));
            }
        }
    }

    #[test]
    fn joined_lists_of_rows_hide_what_they_hid_apart() {
        let rows = |lsn, table, keys: &[(u32, i64)]| {
            let (series, times) = keys.iter().copied().unzip();
            Arc::new(Tombstone {
                lsn,
                table: TableId(table),
                what: Deleted::Rows { series, times },
            })
        };
        let range = Arc::new(Tombstone {
            lsn: 4,
            table: TableId(1),
            what: Deleted::Range {
                series: None,
                time: 0..=1,
            },
        });
        let apart = vec![
            rows(2, 1, &[(1, 5), (2, 5)]),
            rows(3, 2, &[(9, 9)]),
            Arc::clone(&range),
            rows(5, 1, &[(1, 4), (1, 5)]),
        ];
        let expected = [
            rows(3, 2, &[(9, 9)]),
            range,
            rows(5, 1, &[(1, 4), (1, 5), (2, 5)]),
        ];
        assert_eq!(joined(apart), expected);
    }
}
