//! Groups and buckets while they fill.
//!
//! Does: find the place of a group and bucket, by arithmetic where the grid is known and small, else by a hash; charge memory
//! before it grows, refuse buckets that would be too many, and say which cells come in which order. Does not: know what is
//! added up (`lanes`).

use rustc_hash::FxHashMap;

use super::lanes::Lane;
use crate::bucket::{Bucket, Width};
use crate::context::{Charge, Context};
use crate::error::Error;
use crate::long::{self, Asks};
use crate::query::{Order, OrderBy, SeriesQuery};

/// Places of a grid that is kept whole. Four bytes each.
const DENSE_MAX: u64 = 1 << 20;

/// Cells that are made at once, at least.
const CELLS_MIN: usize = 16;

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
    /// By aggregate.
    pub(super) lanes: Vec<Lane>,
    /// Cells that the lanes have room for.
    room: usize,
    last: Option<u32>,
    buckets_max: u64,
    charge: Charge,
}

/// The place of a cell in a grid that is kept whole; `None` = it is not in it.
fn dense((first, width): (i64, i64), buckets: usize, group: u32, start: i64) -> Option<usize> {
    let bucket = if buckets == 1 {
        0
    } else {
        usize::try_from(start.checked_sub(first)? / width).ok()?
    };
    (bucket < buckets).then_some(group as usize * buckets + bucket)
}

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
                    // A bucket that would begin before the first time begins there, so it is not as wide as the others; and the
                    // whole of time is wider than a number of nanoseconds.
                    if start == i64::MIN || last.checked_sub(start).is_none() {
                        return Ok(Self::Sparse(FxHashMap::default()));
                    }
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
            } => numbers.get_mut(dense((*first, *width), *buckets, group, start)?),
            Self::Sparse(numbers) => Some(numbers.entry((group, start)).or_insert(UNUSED)),
        }
    }
}

impl Cells {
    pub(super) fn new(
        grid: &Grid<'_>,
        lanes: Vec<Lane>,
        mut charge: Charge,
    ) -> Result<Self, Error> {
        Ok(Self {
            places: Places::of(grid, &mut charge)?,
            keys: Vec::new(),
            lanes,
            room: 0,
            last: None,
            buckets_max: if grid.bucket.is_some() {
                grid.buckets_max
            } else {
                u64::MAX
            },
            charge,
        })
    }

    /// The number of the cell of a group and bucket.
    pub(super) fn cell(&mut self, group: u32, start: i64) -> Result<u32, Error> {
        let known = self
            .last
            .filter(|at| self.keys.get(*at as usize) == Some(&(group, start)));
        let at = match known {
            Some(at) => at,
            None => self.find(group, start)?,
        };
        self.last = Some(at);
        Ok(at)
    }

    /// The number of the cell of a group and bucket, if it has rows.
    pub(super) fn known(&self, group: u32, start: i64) -> Option<u32> {
        let number = match &self.places {
            Places::Dense {
                first,
                width,
                buckets,
                numbers,
            } => numbers.get(dense((*first, *width), *buckets, group, start)?)?,
            Places::Sparse(numbers) => numbers.get(&(group, start))?,
        };
        (*number != UNUSED).then_some(*number)
    }

    fn find(&mut self, group: u32, start: i64) -> Result<u32, Error> {
        let new = u32::try_from(self.keys.len()).unwrap_or(UNUSED);
        let Some(number) = self.places.place(group, start) else {
            return Err(Error::contradiction(
                "a row lies outside of the range of time that was read",
            ));
        };
        if *number != UNUSED {
            return Ok(*number);
        }
        if u64::from(new) >= self.buckets_max {
            return Err(Error::TooManyBuckets {
                buckets: u64::from(new) + 1,
                buckets_max: self.buckets_max,
            });
        }
        if self.keys.len() == self.room {
            // The lists double.
            let more = self.room.max(CELLS_MIN);
            let lanes: usize = self.lanes.iter().map(Lane::bytes_each).sum();
            let bytes = lanes + 3 * size_of::<(u32, i64)>();
            self.charge.grow(more * bytes)?;
            self.room += more;
            self.keys.reserve_exact(more);
            for lane in &mut self.lanes {
                lane.resize(self.room);
            }
        }
        *number = new;
        self.keys.push((group, start));
        Ok(new)
    }

    /// Charges what aggregates have grown by.
    pub(super) fn charge(&mut self, bytes: usize) -> Result<(), Error> {
        Ok(self.charge.grow(bytes)?)
    }

    /// Takes in what another thread knows.
    pub(super) fn join(&mut self, other: Self, context: &Context) -> Result<(), Error> {
        let mut asks = Asks::of(context);
        let mut cells = Vec::with_capacity(other.keys.len());
        for (group, start) in other.keys {
            asks.rows(1)?;
            cells.push(self.cell(group, start)?);
        }
        for (mine, theirs) in self.lanes.iter_mut().zip(other.lanes) {
            context.check()?;
            mine.join(theirs, &cells, context)?;
        }
        self.charge.absorb(other.charge);
        Ok(())
    }

    /// The cells in an order.
    pub(super) fn ordered(&self, order: Order, context: &Context) -> Result<Vec<u32>, Error> {
        let cells: Vec<u32> = match &self.places {
            Places::Dense {
                buckets, numbers, ..
            } => {
                let (buckets, used) = (*buckets, |number: &u32| *number != UNUSED);
                let is_by_time = order.by == OrderBy::Time;
                match (is_by_time, order.descending) {
                    (false, false) => {
                        return Ok(numbers.iter().copied().filter(used).collect());
                    }
                    (false, true) => {
                        let groups = numbers.chunks(buckets);
                        let cells = groups.flat_map(|group| group.iter().rev().copied());
                        return Ok(cells.filter(used).collect());
                    }
                    (true, is_descending) => {
                        let mut cells = Vec::with_capacity(self.keys.len());
                        for bucket in 0..buckets {
                            let bucket = if is_descending {
                                buckets - 1 - bucket
                            } else {
                                bucket
                            };
                            let own = numbers.iter().skip(bucket).step_by(buckets);
                            cells.extend(own.copied().filter(used));
                        }
                        return Ok(cells);
                    }
                }
            }
            Places::Sparse(_) => (0..).take(self.keys.len()).collect(),
        };
        let key = |cell: &u32| self.keys.get(*cell as usize).copied().unwrap_or_default();
        long::sorted(cells, context, |one, other| {
            compare(key(one), key(other), order)
        })
    }

    /// What is charged for it.
    pub(super) fn take_charge(&mut self, empty: Charge) -> Charge {
        std::mem::replace(&mut self.charge, empty)
    }
}

/// How two cells are ordered.
pub(super) fn compare(one: (u32, i64), other: (u32, i64), order: Order) -> std::cmp::Ordering {
    let by_time = one.1.cmp(&other.1);
    let by_time = if order.descending {
        by_time.reverse()
    } else {
        by_time
    };
    let by_group = one.0.cmp(&other.0);
    match order.by {
        OrderBy::Time => by_time.then(by_group),
        OrderBy::Group | OrderBy::Nothing => by_group.then(by_time),
    }
}

/// The rows of the answer, in its order: those within its limits.
pub(super) fn within_limits(
    mut places: Vec<u32>,
    keys: &[(u32, i64)],
    query: &SeriesQuery,
    context: &Context,
) -> Result<Vec<u32>, Error> {
    let per_group = query.bound.per_group;
    if !per_group.is_all() {
        let mut seen = FxHashMap::default();
        long::retain(&mut places, context, |at| {
            let group = keys.get(*at as usize).map_or(0, |key| key.0);
            let place: &mut u64 = seen.entry(group).or_default();
            *place += 1;
            per_group.contains(*place - 1)
        })?;
    }
    let window = query.bound.overall;
    if !window.is_all() {
        let skip = usize::try_from(window.skip).unwrap_or(usize::MAX);
        let rows = usize::try_from(window.rows).unwrap_or(usize::MAX);
        places = places.into_iter().skip(skip).take(rows).collect();
    }
    Ok(places)
}
