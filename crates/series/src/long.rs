//! Long loops that can be ended.
//!
//! Does: ask, in loops over all that a query holds, whether it has to end: at least once in [`ASK_ROWS`] rows. Does not: ask within
//! a batch of rows, which is shorter.

use std::cmp::Ordering;

use crate::context::Context;
use crate::error::Error;

/// Rows that are worked on without a look at whether the query has to end: some milliseconds of sorting.
pub(crate) const ASK_ROWS: usize = 65_536;

/// Asks once in [`ASK_ROWS`] rows.
#[derive(Debug)]
pub(crate) struct Asks<'a> {
    context: &'a Context,
    rows: usize,
}

impl<'a> Asks<'a> {
    pub(crate) fn of(context: &'a Context) -> Self {
        Self { context, rows: 0 }
    }

    /// So many more rows were worked on.
    pub(crate) fn rows(&mut self, rows: usize) -> Result<(), Error> {
        self.rows += rows;
        if self.rows >= ASK_ROWS {
            self.rows = 0;
            self.context.check()?;
        }
        Ok(())
    }
}

/// Keeps what meets a condition, in its order.
pub(crate) fn retain<T>(
    all: &mut Vec<T>,
    context: &Context,
    mut keeps: impl FnMut(&T) -> bool,
) -> Result<(), Error> {
    let mut asks = Asks::of(context);
    let mut kept = 0;
    for at in 0..all.len() {
        asks.rows(1)?;
        if all.get(at).is_some_and(&mut keeps) {
            all.swap(kept, at);
            kept += 1;
        }
    }
    all.truncate(kept);
    Ok(())
}

/// Whether all are in their order already.
pub(crate) fn is_sorted<T>(
    all: &[T],
    context: &Context,
    compare: impl Fn(&T, &T) -> Ordering,
) -> Result<bool, Error> {
    let mut asks = Asks::of(context);
    let pairs = all.iter().zip(all.iter().skip(1));
    for (one, other) in pairs {
        asks.rows(1)?;
        if compare(one, other).is_gt() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// All in their order; equal ones stay as they were.
pub(crate) fn sorted<T>(
    all: Vec<T>,
    context: &Context,
    compare: impl Fn(&T, &T) -> Ordering,
) -> Result<Vec<T>, Error> {
    sort_asking(all, &|| context.check(), compare)
}

/// All in their order; equal ones stay as they were. Asks once in 65,536 rows at least, and ends where it is told to.
///
/// Parts are sorted, and then merged two by two.
pub fn sort_asking<T, E>(
    mut all: Vec<T>,
    ask: &impl Fn() -> Result<(), E>,
    compare: impl Fn(&T, &T) -> Ordering,
) -> Result<Vec<T>, E> {
    let mut runs = Vec::with_capacity(all.len() / ASK_ROWS + 1);
    while !all.is_empty() {
        ask()?;
        let mut run = all.split_off((all.len() - 1) / ASK_ROWS * ASK_ROWS);
        run.sort_by(&compare);
        runs.push(run);
    }
    // The last part was taken first.
    runs.reverse();
    while runs.len() > 1 {
        let mut merged = Vec::with_capacity(runs.len().div_ceil(2));
        let mut pairs = runs.into_iter();
        while let Some(one) = pairs.next() {
            merged.push(match pairs.next() {
                Some(other) => merge(one, other, ask, &compare)?,
                None => one,
            });
        }
        runs = merged;
    }
    Ok(runs.pop().unwrap_or_default())
}

fn merge<T, E>(
    mut one: Vec<T>,
    other: Vec<T>,
    ask: &impl Fn() -> Result<(), E>,
    compare: &impl Fn(&T, &T) -> Ordering,
) -> Result<Vec<T>, E> {
    // What is in its order already is not gone through.
    if let (Some(last), Some(first)) = (one.last(), other.first())
        && compare(last, first).is_le()
    {
        ask()?;
        one.extend(other);
        return Ok(one);
    }
    let mut merged = Vec::with_capacity(one.len() + other.len());
    let mut one = one.into_iter().peekable();
    let mut other = other.into_iter().peekable();
    loop {
        if merged.len() % ASK_ROWS == 0 {
            ask()?;
        }
        let takes_other = match (one.peek(), other.peek()) {
            (Some(one), Some(other)) => compare(other, one).is_lt(),
            (one, _) => one.is_none(),
        };
        let next = if takes_other {
            other.next()
        } else {
            one.next()
        };
        let Some(next) = next else {
            return Ok(merged);
        };
        merged.push(next);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering as Memory};

    use super::*;
    use crate::context::Watch;

    /// Ends the query at so many looks.
    #[derive(Debug)]
    struct Ends(AtomicU64);

    impl Watch for Ends {
        fn has_to_end(&self) -> bool {
            let left = self.0.load(Memory::Relaxed);
            self.0.store(left.saturating_sub(1), Memory::Relaxed);
            left == 0
        }
    }

    pub(crate) fn ends_at(looks: u64) -> Context {
        Context {
            watch: Arc::new(Ends(AtomicU64::new(looks))),
            ..Context::default()
        }
    }

    #[test]
    fn a_sort_in_parts_is_that_of_the_standard_library_and_can_be_ended() {
        // Three parts and a bit, with many equal numbers, of which each is told apart by its place.
        let spread = |row: u32| (row.wrapping_mul(2_654_435_761) >> 20, row);
        let all: Vec<(u32, u32)> = (0..200_000).map(spread).collect();
        let by_number = |one: &(u32, u32), other: &(u32, u32)| one.0.cmp(&other.0);
        let mut expected = all.clone();
        expected.sort_by(by_number);
        let context = Context::default();
        assert_eq!(sorted(all.clone(), &context, by_number).unwrap(), expected);
        assert_eq!(
            sorted(expected.clone(), &context, by_number).unwrap(),
            expected
        );
        assert!(
            sorted(Vec::<u32>::new(), &context, u32::cmp)
                .unwrap()
                .is_empty()
        );
        // Four parts, and two merges of which each has at least a part: it is asked each time.
        for looks in 0..8 {
            let ended = sorted(all.clone(), &ends_at(looks), by_number);
            assert!(matches!(ended, Err(Error::Cancelled)), "{looks}");
        }
    }

    #[test]
    fn what_is_kept_stays_in_its_order() {
        let mut all: Vec<u32> = (0..150_000).collect();
        retain(&mut all, &Context::default(), |it| it % 3 == 1).unwrap();
        let expected: Vec<u32> = (0..150_000).filter(|it| it % 3 == 1).collect();
        assert_eq!(all, expected);
        let mut all: Vec<u32> = (0..150_000).collect();
        let ended = retain(&mut all, &ends_at(1), |_| true);
        assert!(matches!(ended, Err(Error::Cancelled)));
    }
}
