//! Groups and buckets while they fill.
//!
//! Does: find the place of a group and bucket, by arithmetic where the grid is known and small, else by a hash; charge memory
//! before it grows, and refuse buckets that would be too many. Does not: know what is added up (`accumulate`).

use rustc_hash::FxHashMap;

use super::accumulate::Accumulator;
use crate::bucket::{Bucket, Width};
use crate::context::Charge;
use crate::error::Error;
use crate::query::Aggregate;
use crate::value::Rules;

/// Places of a grid that is kept whole. Four bytes each.
const DENSE_MAX: u64 = 1 << 20;

/// In place of the number of a cell that has no rows.
const UNUSED: u32 = u32::MAX;

/// Where cells are found.
#[derive(Debug, Clone)]
enum Places {
    /// `[group][bucket]`.
    Dense {
        first: i64,
        width: i64,
        buckets: usize,
        numbers: Vec<u32>,
    },
    Sparse(FxHashMap<(u32, i64), u32>),
}

/// What is known of each group and bucket that has rows.
#[derive(Debug)]
pub(super) struct Cells {
    places: Places,
    /// Group and start of the bucket, in the order of their first row.
    pub(super) keys: Vec<(u32, i64)>,
    /// `[cell][aggregate]`.
    states: Vec<Accumulator>,
    fresh: Vec<Accumulator>,
    last: Option<usize>,
    buckets_max: u64,
    charge: Charge,
}

/// Group and start of the bucket, and its aggregates.
pub(super) type Filled = ((u32, i64), Vec<Accumulator>);

/// The grid that cells lie in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grid<'a> {
    pub(super) groups: usize,
    /// `None` = one bucket of all time.
    pub(super) bucket: Option<&'a Bucket>,
    /// First and last time of the rows; `None` = not known.
    pub(super) range: Option<(i64, i64)>,
    pub(super) buckets_max: u64,
}

impl Places {
    fn of(grid: &Grid<'_>, charge: &mut Charge) -> Result<Self, Error> {
        let (first, width, buckets) = match (grid.bucket, grid.range) {
            (None, _) => (0, i64::MAX, 1),
            (Some(bucket), Some((first, last))) => match bucket.width {
                Width::Fixed(width) if bucket.is_contiguous() => {
                    let (start, _) = bucket.around(first);
                    (start, width, bucket.count(start, last))
                }
                _ => return Ok(Self::Sparse(FxHashMap::default())),
            },
            (Some(_), None) => return Ok(Self::Sparse(FxHashMap::default())),
        };
        let cells = buckets.saturating_mul(grid.groups as u64);
        let places = usize::try_from(cells).ok().filter(|_| cells <= DENSE_MAX);
        let (Some(places), Ok(buckets)) = (places, usize::try_from(buckets)) else {
            return Ok(Self::Sparse(FxHashMap::default()));
        };
        charge.grow(places * size_of::<u32>())?;
        Ok(Self::Dense {
            first,
            width,
            buckets,
            numbers: vec![UNUSED; places],
        })
    }

    /// The number of a cell, or the place for it; `None` = it is not in the grid.
    fn place(&mut self, group: u32, start: i64) -> Option<&mut u32> {
        match self {
            Self::Dense {
                first,
                width,
                buckets,
                numbers,
            } => {
                let bucket = if *buckets == 1 {
                    0
                } else {
                    usize::try_from(start.checked_sub(*first)? / *width).ok()?
                };
                if bucket >= *buckets {
                    return None;
                }
                numbers.get_mut(group as usize * *buckets + bucket)
            }
            Self::Sparse(numbers) => Some(numbers.entry((group, start)).or_insert(UNUSED)),
        }
    }
}

impl Cells {
    pub(super) fn new(
        grid: &Grid<'_>,
        aggregates: &[Aggregate],
        mut charge: Charge,
    ) -> Result<Self, Error> {
        Ok(Self {
            places: Places::of(grid, &mut charge)?,
            keys: Vec::new(),
            states: Vec::new(),
            fresh: aggregates.iter().map(Accumulator::new).collect(),
            last: None,
            buckets_max: if grid.bucket.is_some() {
                grid.buckets_max
            } else {
                u64::MAX
            },
            charge,
        })
    }

    /// The aggregates of a group and bucket.
    pub(super) fn cell(&mut self, group: u32, start: i64) -> Result<&mut [Accumulator], Error> {
        let known = self
            .last
            .filter(|at| self.keys.get(*at) == Some(&(group, start)));
        let at = match known {
            Some(at) => at,
            None => self.find(group, start)?,
        };
        self.last = Some(at);
        let width = self.fresh.len();
        let cell = self.states.get_mut(at * width..(at + 1) * width);
        Ok(cell.unwrap_or_default())
    }

    fn find(&mut self, group: u32, start: i64) -> Result<usize, Error> {
        let new = u32::try_from(self.keys.len()).unwrap_or(UNUSED);
        let Some(number) = self.places.place(group, start) else {
            return Err(Error::contradiction(
                "a row lies outside of the range of time that was read",
            ));
        };
        if *number != UNUSED {
            return Ok(*number as usize);
        }
        if u64::from(new) >= self.buckets_max {
            return Err(Error::TooManyBuckets {
                buckets: u64::from(new) + 1,
                buckets_max: self.buckets_max,
            });
        }
        if self.keys.len() == self.keys.capacity() {
            // The lists double.
            let more = self.keys.len().max(16);
            let bytes = self.fresh.len() * size_of::<Accumulator>() + 3 * size_of::<(u32, i64)>();
            self.charge.grow(more * bytes)?;
            self.keys.reserve_exact(more);
            self.states.reserve_exact(more * self.fresh.len());
        }
        *number = new;
        self.keys.push((group, start));
        self.states.extend(self.fresh.iter().cloned());
        Ok(new as usize)
    }

    /// Charges what aggregates have grown by.
    pub(super) fn charge(&mut self, bytes: usize) -> Result<(), Error> {
        Ok(self.charge.grow(bytes)?)
    }

    /// Takes in what another thread knows.
    pub(super) fn join(
        &mut self,
        other: Self,
        aggregates: &[Aggregate],
        rules: Rules,
    ) -> Result<(), Error> {
        let mut states = other.states.into_iter();
        for (group, start) in other.keys {
            let cell = self.cell(group, start)?;
            for ((mine, theirs), aggregate) in cell.iter_mut().zip(&mut states).zip(aggregates) {
                mine.join(theirs, aggregate, rules);
            }
        }
        self.charge.absorb(other.charge);
        Ok(())
    }

    /// The aggregates of each cell in the order of groups and times, and the memory that they take.
    pub(super) fn finish(self) -> (Vec<Filled>, Charge) {
        let mut states = self.states.into_iter();
        let width = self.fresh.len();
        let cells = self.keys.into_iter();
        let mut cells: Vec<_> = cells
            .map(|key| (key, states.by_ref().take(width).collect::<Vec<_>>()))
            .collect();
        cells.sort_by_key(|(key, _)| *key);
        (cells, self.charge)
    }
}
