//! Keys sorted by stretches of time.
//!
//! Does: part keys that are sorted by their time into short stretches of it, and sort each by itself. The rows of a thousand series
//! come one series after the other; with the series in the order of their ties, those of one time are in their order already, so that
//! where a stretch has one time a look is enough. Does not: compare keys.

use super::{Key, SORT_DEPTH, compare, sort};
use crate::context::Context;
use crate::error::Error;
use crate::long::{ASK_ROWS, Asks};
use crate::query::{Order, OrderBy};

/// Fewer keys are sorted as they are.
const KEYS_MIN: usize = 4096;

/// Keys for each stretch, if all times were equally far from each other.
const KEYS_PER_STRETCH: usize = 16;

/// Keys of a series that come together at least, on average, where it is worth to look for its place.
const KEYS_PER_RUN: usize = 4;

/// Keys in their order, of which no two are equal.
pub(super) fn sorted(
    mut keys: Vec<Key>,
    order: Order,
    context: &Context,
) -> Result<Vec<Key>, Error> {
    let whole = |one: &Key, other: &Key| compare(one, other, order);
    // Where memory is short, or a stretch has nearly all of them, they are sorted in their place.
    let mut charge = context.charge();
    let has_room = keys.len() >= KEYS_MIN && charge.grow(size_of_val(keys.as_slice())).is_ok();
    // Without tags to group by, all rows are of one group, and it is the time that orders them.
    let first = keys.first().map(|key| key.group);
    let is_by_time = order.by == OrderBy::Time || keys.iter().all(|key| Some(key.group) == first);
    if !is_by_time || !has_room {
        sort(&mut keys, &whole, SORT_DEPTH, context)?;
        return Ok(keys);
    }
    let (mut parted, ends) = parted(&keys, order.descending, context)?;
    drop(keys);
    let mut asks = Asks::of(context);
    let mut start = 0;
    for end in ends {
        let part = parted.get_mut(start..end).unwrap_or_default();
        asks.rows(part.len())?;
        if part.len() > ASK_ROWS {
            sort(part, &whole, SORT_DEPTH, context)?;
        } else if !part.is_sorted_by(|one, other| whole(one, other).is_lt()) {
            part.sort_unstable_by(whole);
        }
        start = end;
    }
    Ok(parted)
}

/// The keys by stretch, those of one as they came, and where each stretch ends.
fn parted(
    keys: &[Key],
    descending: bool,
    context: &Context,
) -> Result<(Vec<Key>, Vec<usize>), Error> {
    let mut asks = Asks::of(context);
    let (mut first, mut last) = (i64::MAX, i64::MIN);
    for key in keys {
        asks.rows(1)?;
        (first, last) = (first.min(key.time), last.max(key.time));
    }
    let stretches = (keys.len() / KEYS_PER_STRETCH).next_power_of_two();
    let width = u64::BITS - last.abs_diff(first).leading_zeros();
    let shift = width.saturating_sub(stretches.trailing_zeros());
    let stretch = |key: &Key| {
        let end = if descending { last } else { first };
        usize::try_from(key.time.abs_diff(end) >> shift).unwrap_or(usize::MAX)
    };
    let mut places = vec![0_usize; stretches];
    for key in keys {
        asks.rows(1)?;
        if let Some(count) = places.get_mut(stretch(key)) {
            *count += 1;
        }
    }
    let mut total = 0;
    for place in &mut places {
        total += std::mem::replace(place, total);
    }
    let mut parted = keys.to_vec();
    let mut put = |key: &Key| {
        if let Some(place) = places.get_mut(stretch(key)) {
            if let Some(slot) = parted.get_mut(*place) {
                *slot = *key;
            }
            *place += 1;
        }
    };
    for run in runs(keys, descending) {
        asks.rows(run.len())?;
        if descending {
            run.iter().rev().for_each(&mut put);
        } else {
            run.iter().for_each(&mut put);
        }
    }
    Ok((parted, places))
}

/// The keys by series, these in the order of their ties. Where they did not come by series, as they came.
fn runs(keys: &[Key], descending: bool) -> Vec<&[Key]> {
    let is_one = |one: &Key, other: &Key| (one.group, one.tie) == (other.group, other.tie);
    if keys.chunk_by(is_one).count() > keys.len() / KEYS_PER_RUN {
        return vec![keys];
    }
    let mut runs: Vec<&[Key]> = keys.chunk_by(is_one).collect();
    runs.sort_by_key(|run| run.first().map(|key| (key.group, key.tie, key.sequence)));
    if descending {
        runs.reverse();
    }
    runs
}
