//! Rows in an order, and the places in it that a query asks for.
//!
//! Does: gather rows with their keys, drop early what cannot be among the first, sort, and give batches. Does not: read.

mod gather;
mod words;

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, BooleanArray, RecordBatch};
use arrow_select::filter::filter_record_batch;

use crate::context::{BATCH_ROWS, Charge, Context, Step};
use crate::error::Error;
use crate::long::{self, ASK_ROWS};
use crate::query::{Order, OrderBy, SeriesQuery, Window};

/// Rows that are gathered before those are dropped that cannot be among the first.
const SLACK_ROWS: usize = 65_536;

/// How often keys are parted before they are sorted as they are. Halves of what fits into memory are small long before.
const SORT_DEPTH: usize = 40;

/// Bytes of text in a batch: an array of it holds less than 2 GiB.
const TEXT_BYTES_MAX: usize = 512 << 20;

/// What a row is sorted by, and where it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    pub(super) group: u32,
    pub(super) time: i64,
    pub(super) tie: u64,
    /// In the order of reading, which is that of writing within a series.
    pub(super) sequence: u64,
    batch: u32,
    row: u32,
}

/// Rows that are gathered.
#[derive(Debug)]
pub(super) struct Sorter {
    order: Order,
    per_group: Window,
    overall: Window,
    batches: Vec<Arc<RecordBatch>>,
    keys: Vec<Key>,
    next: u64,
    context: Context,
    charge: Charge,
}

impl Sorter {
    /// Of all rows in the order of their groups and times, which some columns are made of.
    pub(super) fn whole(context: &Context) -> Self {
        let order = Order {
            by: OrderBy::Group,
            descending: false,
        };
        Self::new(order, Window::ALL, Window::ALL, context)
    }

    /// Of all rows in an order.
    pub(super) fn all(order: Order, context: &Context) -> Self {
        Self::new(order, Window::ALL, Window::ALL, context)
    }

    /// Of those that a query asks for, in its order.
    pub(super) fn of(query: &SeriesQuery, context: &Context) -> Self {
        let (per_group, overall) = (query.bound.per_group, query.bound.overall);
        Self::new(query.shape().order, per_group, overall, context)
    }

    fn new(order: Order, per_group: Window, overall: Window, context: &Context) -> Self {
        Self {
            order,
            per_group,
            overall,
            batches: Vec::new(),
            keys: Vec::new(),
            next: 0,
            context: context.clone(),
            charge: context.charge(),
        }
    }

    /// Adds the rows of a batch: group, time and tie of each.
    pub(super) fn push(
        &mut self,
        batch: RecordBatch,
        keys: impl ExactSizeIterator<Item = (u32, i64, u64)>,
    ) -> Result<(), Error> {
        let context = self.context.clone();
        context.check()?;
        let _timed = context.timed(Step::Operate);
        let bytes = batch.get_array_memory_size() + keys.len() * size_of::<Key>();
        self.charge.grow(bytes)?;
        let number = u32::try_from(self.batches.len()).unwrap_or(u32::MAX);
        self.batches.push(Arc::new(batch));
        let first = self.next;
        self.next += keys.len() as u64;
        let keys = keys.zip(0..).zip(first..);
        self.keys
            .extend(keys.map(|(((group, time, tie), row), sequence)| Key {
                group,
                time,
                tie,
                sequence,
                batch: number,
                row,
            }));
        let needed = usize::try_from(self.overall.end()).unwrap_or(usize::MAX);
        let is_bounded = !self.overall.is_all() || !self.per_group.is_all();
        if is_bounded && self.keys.len() > needed.min(self.keys.len() / 2) + SLACK_ROWS {
            self.prune()?;
        }
        Ok(())
    }

    /// Drops the rows that come after all that are asked for.
    fn prune(&mut self) -> Result<(), Error> {
        let per_group = Window {
            rows: self.per_group.end(),
            ..Window::ALL
        };
        // Which rows of a group are left out is not known before its last.
        let overall = if self.per_group.is_all() {
            self.overall.end()
        } else {
            u64::MAX
        };
        let overall = Window {
            rows: overall,
            with_ties: self.overall.with_ties,
            ..Window::ALL
        };
        let keys = std::mem::take(&mut self.keys);
        let mut kept = chosen(keys, self.order, (per_group, overall), &self.context)?;
        let mut compact = Vec::new();
        for (number, part) in (0..).zip(kept.chunks_mut(BATCH_ROWS)) {
            self.context.check()?;
            compact.push(Arc::new(gather(&self.batches, part)));
            for (row, key) in (0..).zip(part) {
                (key.batch, key.row) = (number, row);
            }
        }
        let bytes: usize = compact
            .iter()
            .map(|batch| batch.get_array_memory_size())
            .sum();
        self.charge.resize(bytes + kept.len() * size_of::<Key>())?;
        self.batches = compact;
        self.keys = kept;
        Ok(())
    }

    /// The rows that are asked for, in their order.
    pub(super) fn finish(self) -> Result<Ordered, Error> {
        let windows = (self.per_group, self.overall);
        let _timed = self.context.timed(Step::Operate);
        let mut keys = chosen(self.keys, self.order, windows, &self.context)?;
        let mut kept = self.charge;
        // Of one batch of an answer the words are merged once anyway; and where memory is short, each time.
        let mut charge = self.context.charge();
        let is_long = keys.len() > BATCH_ROWS;
        let is_united = is_long && charge.grow(words::united_bytes(&self.batches)).is_ok();
        let mut batches = if is_united {
            words::united(self.batches)
        } else {
            self.batches
        };
        if is_united && let Some(whole) = whole(&batches, &keys, &mut charge) {
            kept.resize(whole.get_array_memory_size() + keys.len() * size_of::<Key>())?;
            batches = vec![Arc::new(whole)];
            for (row, key) in (0..).zip(&mut keys) {
                (key.batch, key.row) = (0, row);
            }
        }
        Ok(Ordered {
            keys,
            batches,
            at: 0,
            _charge: kept,
        })
    }
}

/// All rows as one batch in their order; `None` = few of those that were gathered are asked for, memory is short, or a type is one that
/// is taken a batch at a time.
fn whole(batches: &[Arc<RecordBatch>], keys: &[Key], charge: &mut Charge) -> Option<RecordBatch> {
    let rows: usize = batches.iter().map(|batch| batch.num_rows()).sum();
    let is_in_order = keys.is_sorted_by_key(|key| (key.batch, key.row));
    if batches.len() < 2 || is_in_order || rows > 2 * keys.len() {
        return None;
    }
    let first = batches.first()?;
    let bytes = batches.iter().map(|batch| batch.get_array_memory_size());
    let bytes = bytes.sum::<usize>() + rows * gather::Scattered::ROW_BYTES;
    charge.grow(bytes).ok()?;
    let lengths = batches.iter().map(|batch| batch.num_rows());
    let places = keys.iter().map(|key| (key.batch, key.row));
    let places = gather::Scattered::new(lengths, places);
    let column = |column: usize| {
        let arrays = batches.iter().map(|batch| batch.column(column).as_ref());
        let arrays: Vec<&dyn Array> = arrays.collect();
        gather::all(&arrays, &places)
    };
    let columns: Option<Vec<_>> = (0..first.num_columns()).map(column).collect();
    let whole = RecordBatch::try_new(first.schema(), columns?);
    Some(whole.expect("the batches are of one schema"))
}

fn compare(one: &Key, other: &Key, order: Order) -> Ordering {
    let turned = |order_: Ordering| {
        if order.descending {
            order_.reverse()
        } else {
            order_
        }
    };
    let by_time = turned(one.time.cmp(&other.time));
    let by_group = one.group.cmp(&other.group);
    let first = match order.by {
        OrderBy::Time => by_time.then(by_group),
        OrderBy::Group | OrderBy::Nothing => by_group.then(by_time),
    };
    let tie = (one.tie, one.sequence).cmp(&(other.tie, other.sequence));
    first.then(turned(tie))
}

/// Sorts keys, and keeps those at the places that are asked for.
fn chosen(
    mut keys: Vec<Key>,
    order: Order,
    (per_group, overall): (Window, Window),
    context: &Context,
) -> Result<Vec<Key>, Error> {
    let before = |one: &Key, other: &Key| compare(one, other, order);
    // No two are equal.
    if !long::is_sorted(&keys, context, before)? {
        sort(&mut keys, &before, SORT_DEPTH, context)?;
    }
    if !per_group.is_all() {
        let mut places: Vec<u64> = Vec::new();
        long::retain(&mut keys, context, |key| {
            let group = key.group as usize;
            if group >= places.len() {
                places.resize(group + 1, 0);
            }
            let Some(place) = places.get_mut(group) else {
                return false;
            };
            *place += 1;
            per_group.contains(*place - 1)
        })?;
    }
    if !overall.is_all() {
        let mut place = 0;
        let mut last = None;
        long::retain(&mut keys, context, |key| {
            place += 1;
            let is_tie = overall.with_ties && last == Some(key.time);
            let is_kept = overall.contains(place - 1) || is_tie;
            if is_kept {
                last = Some(key.time);
            }
            is_kept
        })?;
    }
    Ok(keys)
}

/// Sorts keys, of which no two are equal. Millions of them take seconds, in which the query may have to end: they are parted by
/// a key near their middle until the parts are small.
fn sort(
    keys: &mut [Key],
    compare: &impl Fn(&Key, &Key) -> Ordering,
    depth: usize,
    context: &Context,
) -> Result<(), Error> {
    context.check()?;
    if keys.len() <= ASK_ROWS || depth == 0 {
        keys.sort_unstable_by(compare);
        return Ok(());
    }
    let mut sample: Vec<Key> = keys.iter().step_by(keys.len() / 99).copied().collect();
    sample.sort_unstable_by(compare);
    let middle = sample[sample.len() / 2];
    // The sample's middle is neither the first nor the last of all: both parts have keys.
    let mut split = 0;
    for at in 0..keys.len() {
        if compare(&keys[at], &middle).is_lt() {
            keys.swap(split, at);
            split += 1;
        }
        if at % ASK_ROWS == 0 {
            context.check()?;
        }
    }
    let (low, high) = keys.split_at_mut(split);
    sort(low, compare, depth - 1, context)?;
    sort(high, compare, depth - 1, context)
}

/// Bytes of the texts of a batch.
fn text_bytes(batch: &RecordBatch) -> usize {
    let columns = batch.columns().iter();
    let bytes = columns.map(|column| {
        let texts = column
            .as_string_opt::<i32>()
            .map(|texts| texts.values().len());
        texts.or_else(|| Some(column.as_binary_opt::<i32>()?.values().len()))
    });
    bytes.flatten().sum()
}

/// Those of a row.
fn text_bytes_of(batch: &RecordBatch, row: usize) -> usize {
    let columns = batch.columns().iter();
    let bytes = columns.map(|column| {
        if let Some(texts) = column.as_string_opt::<i32>() {
            return texts.value(row).len();
        }
        let bytes = column.as_binary_opt::<i32>();
        bytes.map_or(0, |bytes| bytes.value(row).len())
    });
    bytes.sum()
}

/// The rows of some keys, of which there are as many as a batch has. Of the batches only those are looked at that have one of
/// them: there may be thousands, each with a dictionary.
fn gather(batches: &[Arc<RecordBatch>], keys: &[Key]) -> RecordBatch {
    let mut used: Vec<u32> = keys.iter().map(|key| key.batch).collect();
    used.sort_unstable();
    used.dedup();
    let own = used.iter().filter_map(|at| batches.get(*at as usize));
    let own: Vec<&RecordBatch> = own.map(AsRef::as_ref).collect();
    let mut numbers = vec![u32::MAX; batches.len()];
    for (number, at) in (0..).zip(&used) {
        if let Some(place) = numbers.get_mut(*at as usize) {
            *place = number;
        }
    }
    let places = keys.iter().map(|key| {
        let number = numbers.get(key.batch as usize);
        (number.copied().unwrap_or(u32::MAX), key.row)
    });
    let places: Vec<gather::Place> = places.collect();
    let first = own.first().expect("a row is in a batch");
    let columns = (0..first.num_columns()).map(|column| {
        let arrays = own.iter().map(|batch| batch.column(column).as_ref());
        let arrays: Vec<&dyn Array> = arrays.collect();
        gather::rows(&arrays, &places)
    });
    let gathered = RecordBatch::try_new(first.schema(), columns.collect());
    gathered.expect("the batches are of one schema")
}

/// The rows of a batch that are within the limits; `None` = there are none. `seen` are rows so far, by group, and `passed`
/// those of them that were within their group's limit.
pub(super) fn within(
    batch: RecordBatch,
    groups: impl Iterator<Item = u32>,
    (per_group, overall): (Window, Window),
    seen: &mut [u64],
    passed: &mut u64,
) -> Option<RecordBatch> {
    let kept = groups.map(|group| {
        let Some(place) = seen.get_mut(group as usize) else {
            return Some(false);
        };
        *place += 1;
        let is_in_group = per_group.contains(*place - 1);
        let is_kept = is_in_group && overall.contains(*passed);
        *passed += u64::from(is_in_group);
        Some(is_kept)
    });
    let kept: BooleanArray = kept.collect();
    if kept.true_count() == batch.num_rows() {
        return Some(batch);
    }
    (kept.true_count() > 0).then(|| {
        let batch = filter_record_batch(&batch, &kept);
        batch.expect("the filter and the batch have the same rows")
    })
}

/// Rows in their order.
#[derive(Debug)]
pub(super) struct Ordered {
    batches: Vec<Arc<RecordBatch>>,
    pub(super) keys: Vec<Key>,
    at: usize,
    _charge: Charge,
}

impl Ordered {
    /// The next rows.
    pub(super) fn advance(&mut self) -> Option<RecordBatch> {
        let end = self.end_of_batch();
        let part = self
            .keys
            .get(self.at..end)
            .filter(|part| !part.is_empty())?;
        let batch = gather(&self.batches, part);
        self.at = end;
        Some(batch)
    }

    /// The same, with the group of each row.
    pub(super) fn advance_with_groups(&mut self) -> Option<(RecordBatch, Vec<u32>)> {
        let start = self.at;
        let batch = self.advance()?;
        let keys = self.keys.get(start..self.at).unwrap_or_default();
        Some((batch, keys.iter().map(|key| key.group).collect()))
    }

    /// Where the next batch ends: its texts are not more than an array can hold.
    fn end_of_batch(&self) -> usize {
        let end = (self.at + BATCH_ROWS).min(self.keys.len());
        let bytes: usize = self.batches.iter().map(|it| text_bytes(it)).sum();
        if bytes <= TEXT_BYTES_MAX {
            return end;
        }
        let mut bytes = 0;
        for at in self.at..end {
            let Some(key) = self.keys.get(at) else { break };
            let batch = self.batches.get(key.batch as usize);
            bytes += batch.map_or(0, |batch| text_bytes_of(batch, key.row as usize));
            if bytes > TEXT_BYTES_MAX {
                return at.max(self.at + 1);
            }
        }
        end
    }

    /// Some rows at once, no more than a batch has and its neighbours.
    pub(super) fn some(&self, places: Range<usize>) -> RecordBatch {
        gather(&self.batches, self.keys.get(places).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::long::tests::ends_at;

    /// Keys as they come from many series: each in its order, and all of one time.
    fn keys(rows: u32, number: impl Fn(u32) -> u32) -> Vec<Key> {
        let key = |row: u32| Key {
            group: number(row) % 300,
            time: i64::from(number(row) / 300),
            tie: u64::from(number(row) % 7),
            sequence: u64::from(row),
            batch: 0,
            row,
        };
        (0..rows).map(key).collect()
    }

    /// A sort of millions of rows was one call, which nobody could end.
    #[test]
    fn a_sort_of_many_rows_is_that_of_the_standard_library_and_can_be_ended() {
        let order = |by, descending| Order { by, descending };
        let spread = |row: u32| row.wrapping_mul(2_654_435_761) >> 8;
        let shapes: [&dyn Fn(u32) -> u32; 4] = [&spread, &|row| row, &|row| u32::MAX - row, &|_| 5];
        for number in shapes {
            for by in [OrderBy::Time, OrderBy::Group] {
                for descending in [false, true] {
                    let keys = keys(300_000, number);
                    let order = order(by, descending);
                    let mut expected = keys.clone();
                    expected.sort_by(|one, other| compare(one, other, order));
                    let all = (Window::ALL, Window::ALL);
                    let sorted = chosen(keys.clone(), order, all, &Context::default()).unwrap();
                    assert!(
                        sorted
                            .iter()
                            .map(|key| key.row)
                            .eq(expected.iter().map(|key| key.row))
                    );
                    if !keys.is_sorted_by(|one, other| compare(one, other, order).is_lt()) {
                        for looks in [0, 1, 5] {
                            let ended = chosen(keys.clone(), order, all, &ends_at(looks));
                            assert!(matches!(ended, Err(Error::Cancelled)), "{looks}");
                        }
                    }
                }
            }
        }
    }
}
