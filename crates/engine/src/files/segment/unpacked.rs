//! Rollups and statistics of a field in the hours or blocks of a group, unpacked into columns.
//!
//! Does: hold counts, extremes, sums and, if they are asked for, first and last values, each as one list, so that who adds
//! them up goes over lists. Does not: read files, or say which of them may stand for their rows but for what it is of itself.
//!
//! They never change, as their file does not, and are kept in the segment cache under its budget.

use std::ops::Range;

use nilometer_codec::PhysicalType;
use nilometer_codec::stats::PageStatistics;

use super::directory::BlockEntry;
use super::summary::{Moment, Summary, Totals};

/// Of some stretches of rows one after another: hours or blocks.
#[derive(Debug)]
pub(crate) struct Unpacked {
    /// Numbers of values.
    counts: Vec<u32>,
    /// Whether it may stand for the rows; empty = everywhere.
    usable: Vec<bool>,
    totals: Lists,
    /// First and last values; empty if they were not asked for.
    first: Vec<(i64, u64)>,
    last: Vec<(i64, u64)>,
}

#[derive(Debug)]
enum Lists {
    Int {
        min: Vec<i64>,
        max: Vec<i64>,
        sum: Sums,
    },
    Unsigned {
        min: Vec<u64>,
        max: Vec<u64>,
        sum: Sums,
    },
    Float {
        min: Vec<f64>,
        max: Vec<f64>,
        sum: Vec<f64>,
    },
    Bool {
        trues: Vec<u32>,
    },
}

/// Sums of integers, as narrow as all of them allow.
#[derive(Debug)]
enum Sums {
    Narrow(Vec<i64>),
    Wide(Vec<i128>),
}

/// What is stored of a field in some stretches of rows, one after another.
#[derive(Debug, Clone, Copy)]
pub struct StoredField<'a> {
    /// Numbers of values. Where there are none, all else is zero.
    pub counts: &'a [u32],
    /// Extremes and sums.
    pub totals: StoredTotals<'a>,
    /// Time and bits of the first values: integers and floats as their 64 bits, booleans as 0 or 1. Empty if nobody asked.
    pub first: &'a [(i64, u64)],
    /// The same of the last values.
    pub last: &'a [(i64, u64)],
}

/// Extremes and sums, by type. Floats are finite.
#[derive(Debug, Clone, Copy)]
pub enum StoredTotals<'a> {
    /// Of integers.
    Int {
        /// The smallest.
        min: &'a [i64],
        /// The largest.
        max: &'a [i64],
        /// All together.
        sum: StoredSums<'a>,
    },
    /// Of unsigned integers.
    Unsigned {
        /// The smallest.
        min: &'a [u64],
        /// The largest.
        max: &'a [u64],
        /// All together.
        sum: StoredSums<'a>,
    },
    /// Of floats.
    Float {
        /// The smallest; -0.0 is below 0.0.
        min: &'a [f64],
        /// The largest.
        max: &'a [f64],
        /// All together.
        sum: &'a [f64],
    },
    /// Of booleans.
    Bool {
        /// How many are true.
        trues: &'a [u32],
    },
}

/// Sums of integers.
#[derive(Debug, Clone, Copy)]
pub enum StoredSums<'a> {
    /// All of them fit.
    Narrow(&'a [i64]),
    /// One of them does not.
    Wide(&'a [i128]),
}

impl Unpacked {
    /// Of a field of no values, of a type.
    fn empty(kind: PhysicalType, rows: usize) -> Option<Self> {
        let wide = || Sums::Wide(Vec::with_capacity(rows));
        let totals = match kind {
            PhysicalType::I64 => Lists::Int {
                min: Vec::with_capacity(rows),
                max: Vec::with_capacity(rows),
                sum: wide(),
            },
            PhysicalType::U64 => Lists::Unsigned {
                min: Vec::with_capacity(rows),
                max: Vec::with_capacity(rows),
                sum: wide(),
            },
            PhysicalType::F64 => Lists::Float {
                min: Vec::with_capacity(rows),
                max: Vec::with_capacity(rows),
                sum: Vec::with_capacity(rows),
            },
            PhysicalType::Bool => Lists::Bool {
                trues: Vec::with_capacity(rows),
            },
            PhysicalType::Text | PhysicalType::Bytes => return None,
        };
        Some(Self {
            counts: Vec::with_capacity(rows),
            usable: Vec::with_capacity(rows),
            totals,
            first: Vec::new(),
            last: Vec::new(),
        })
    }

    /// Of hours; with their first and last values if `ends`. `None` = nothing is stored of the type.
    pub(super) fn of_hours(
        kind: PhysicalType,
        hours: &[Option<Summary>],
        ends: bool,
    ) -> Option<Self> {
        let mut unpacked = Self::empty(kind, hours.len())?;
        for hour in hours {
            match hour {
                None => unpacked.push(0, None, true),
                Some(hour) => {
                    let count = u32::try_from(hour.count).unwrap_or(u32::MAX);
                    unpacked.push(count, Some(hour.totals), hour.is_usable());
                }
            }
            if ends {
                let none = Moment { time: 0, bits: 0 };
                let (first, last) = hour.map_or((none, none), |hour| (hour.first, hour.last));
                unpacked.first.push((first.time, first.bits));
                unpacked.last.push((last.time, last.bits));
            }
        }
        Some(unpacked.finish())
    }

    /// Of blocks: what is known of the page of each, and whether there is one. The directory has the times of a block's
    /// first and last row only, so of others' values the times are not known.
    pub(super) fn of_blocks(
        kind: PhysicalType,
        blocks: &[BlockEntry],
        pages: &[Option<PageStatistics>],
        has_page: impl Fn(usize) -> bool,
        ends: bool,
    ) -> Option<Self> {
        let mut unpacked = Self::empty(kind, blocks.len())?;
        for (at, block) in blocks.iter().enumerate() {
            let page = pages.get(at).and_then(Option::as_ref);
            let page = page.filter(|_| has_page(at));
            let summary = page.and_then(|page| {
                Summary::of(page, |row| match u32::from(row) {
                    0 => Some(block.min_time),
                    row if row + 1 == block.rows => Some(block.max_time),
                    _ => None,
                })
            });
            let totals = page.filter(|page| page.first.is_some());
            let totals = totals.and_then(|page| Totals::of(page.values));
            let is_known = match page {
                None => !has_page(at),
                Some(page) if page.first.is_none() => true,
                Some(_) if ends && summary.is_none() => false,
                Some(_) => totals.is_some_and(|totals| is_finite(&totals)),
            };
            let count = page.map_or(0, |page| page.non_null);
            unpacked.push(count, totals, is_known);
            if ends {
                let none = Moment { time: 0, bits: 0 };
                let (first, last) = summary.map_or((none, none), |it| (it.first, it.last));
                unpacked.first.push((first.time, first.bits));
                unpacked.last.push((last.time, last.bits));
            }
        }
        Some(unpacked.finish())
    }

    fn push(&mut self, count: u32, totals: Option<Totals>, usable: bool) {
        self.counts.push(count);
        self.usable.push(usable);
        let add = |to: &mut Sums, sum: i128| match to {
            Sums::Wide(all) => all.push(sum),
            Sums::Narrow(_) => {}
        };
        match &mut self.totals {
            Lists::Int { min, max, sum } => {
                let (a, b, c) = match totals {
                    Some(Totals::Int { min, max, sum }) => (min, max, sum),
                    _ => (0, 0, 0),
                };
                min.push(a);
                max.push(b);
                add(sum, c);
            }
            Lists::Unsigned { min, max, sum } => {
                let (a, b, c) = match totals {
                    // 2^40 values of 64 bits have a sum far below the widest.
                    Some(Totals::Unsigned { min, max, sum }) => (min, max, sum.cast_signed()),
                    _ => (0, 0, 0),
                };
                min.push(a);
                max.push(b);
                add(sum, c);
            }
            Lists::Float { min, max, sum } => {
                let (a, b, c) = match totals {
                    Some(Totals::Float { min, max, sum, .. }) => (min, max, sum),
                    _ => (0.0, 0.0, 0.0),
                };
                min.push(a);
                max.push(b);
                sum.push(c);
            }
            Lists::Bool { trues } => trues.push(match totals {
                Some(Totals::Bool { trues }) => u32::try_from(trues).unwrap_or(u32::MAX),
                _ => 0,
            }),
        }
    }

    fn finish(mut self) -> Self {
        if self.usable.iter().all(|usable| *usable) {
            self.usable = Vec::new();
        }
        if let Lists::Int { sum, .. } | Lists::Unsigned { sum, .. } = &mut self.totals
            && let Sums::Wide(wide) = &*sum
        {
            let narrow = wide.iter().map(|&sum| i64::try_from(sum));
            if let Ok(narrow) = narrow.collect::<Result<Vec<i64>, _>>() {
                *sum = Sums::Narrow(narrow);
            }
        }
        self
    }

    /// Whether it may stand for the rows of a stretch.
    pub(crate) fn is_usable(&self, at: usize) -> bool {
        self.usable.is_empty() || self.usable.get(at).copied().unwrap_or(false)
    }

    /// What is known of some of the stretches.
    pub(crate) fn of(&self, range: Range<usize>) -> StoredField<'_> {
        StoredField {
            counts: part(&self.counts, &range),
            totals: match &self.totals {
                Lists::Int { min, max, sum } => StoredTotals::Int {
                    min: part(min, &range),
                    max: part(max, &range),
                    sum: sum.of(&range),
                },
                Lists::Unsigned { min, max, sum } => StoredTotals::Unsigned {
                    min: part(min, &range),
                    max: part(max, &range),
                    sum: sum.of(&range),
                },
                Lists::Float { min, max, sum } => StoredTotals::Float {
                    min: part(min, &range),
                    max: part(max, &range),
                    sum: part(sum, &range),
                },
                Lists::Bool { trues } => StoredTotals::Bool {
                    trues: part(trues, &range),
                },
            },
            first: part(&self.first, &range),
            last: part(&self.last, &range),
        }
    }

    pub(super) fn memory(&self) -> usize {
        let totals = match &self.totals {
            Lists::Int { min, sum, .. } => 2 * size_of_val(min.as_slice()) + sum.memory(),
            Lists::Unsigned { min, sum, .. } => 2 * size_of_val(min.as_slice()) + sum.memory(),
            Lists::Float { min, .. } => 3 * size_of_val(min.as_slice()),
            Lists::Bool { trues } => size_of_val(trues.as_slice()),
        };
        size_of::<Self>()
            + size_of_val(self.counts.as_slice())
            + self.usable.len()
            + totals
            + 2 * size_of_val(self.first.as_slice())
    }
}

impl Sums {
    fn of(&self, range: &Range<usize>) -> StoredSums<'_> {
        match self {
            Self::Narrow(sums) => StoredSums::Narrow(part(sums, range)),
            Self::Wide(sums) => StoredSums::Wide(part(sums, range)),
        }
    }

    fn memory(&self) -> usize {
        match self {
            Self::Narrow(sums) => size_of_val(sums.as_slice()),
            Self::Wide(sums) => size_of_val(sums.as_slice()),
        }
    }
}

fn part<'a, T>(list: &'a [T], range: &Range<usize>) -> &'a [T] {
    list.get(range.clone()).unwrap_or_default()
}

fn is_finite(totals: &Totals) -> bool {
    !matches!(
        totals,
        Totals::Float {
            non_finite: true,
            ..
        }
    )
}
