//! The operator `TopN` of buckets: the newest, or oldest, of a query that wants only some.
//!
//! Does: find where the rows begin and end, and aggregate from that end of time on, more and more of it, until there are as
//! many rows as are wanted. Does not: sort or cut; its caller does.

use super::aggregate::{Plan, Sorted};
use super::fill::Frame;
use crate::bucket::{Bucket, Width};
use crate::context::{Context, Step};
use crate::error::Error;
use crate::long;

/// Each step reads so many times the buckets of the one before.
const WIDENING: i128 = 4;

/// The shortest month: a step of months is a whole number of buckets or a little less.
const MONTH_NS: i128 = 28 * 86_400_000_000_000;

pub(super) fn collect(plan: &Plan<'_>) -> Result<Sorted, Error> {
    let range = (plan.query.bound.first_ns, plan.query.bound.last_ns);
    let shape = plan.query.shape();
    // Where clocks are set, a bucket may have times on both sides of its start, so time cannot be cut there.
    let bucket = shape
        .bucket
        .as_ref()
        .filter(|bucket| bucket.is_contiguous());
    let pruning = plan.context.timed(Step::Prune);
    let extent = plan.inputs.extent(plan.snapshot, range)?;
    drop(pruning);
    let (Some(bucket), Some((oldest, newest))) = (bucket, extent) else {
        return plan.frame(plan.collect(range)?);
    };
    let newest_first = shape.order.descending;
    let wanted = plan.query.bound.overall.end();
    let (mut whole, mut charge) = (Frame::default(), plan.context.charge());
    let mut length = width_of(bucket).saturating_mul(i128::from(wanted.max(1)));
    // What is left of the extent.
    let (mut first, mut last) = (oldest, newest);
    while first <= last {
        plan.context.check()?;
        let (from, to) = if newest_first {
            let near = (i128::from(last) - length).max(i128::from(first));
            let near = i64::try_from(near).unwrap_or(first);
            (bucket.around(near).0.clamp(first, last), last)
        } else {
            let near = (i128::from(first) + length).min(i128::from(last));
            let near = i64::try_from(near).unwrap_or(last);
            let end = bucket.around(near).1.saturating_sub(1);
            (first, end.clamp(near, last))
        };
        let (part, own) = plan.frame(plan.collect((from, to))?)?;
        charge.absorb(own);
        append(&mut whole, part);
        let is_done = if newest_first {
            from <= first
        } else {
            to >= last
        };
        if is_done || whole.keys.len() as u64 >= wanted {
            break;
        }
        if newest_first {
            last = from - 1;
        } else {
            first = to + 1;
        }
        length = length.saturating_mul(WIDENING);
    }
    let _timed = plan.context.timed(Step::Operate);
    sort(&mut whole, plan.context)?;
    Ok((whole, charge))
}

fn width_of(bucket: &Bucket) -> i128 {
    match bucket.width {
        Width::Fixed(width) => i128::from(width),
        Width::Months(months) => i128::from(months) * MONTH_NS,
    }
}

fn append(whole: &mut Frame, part: Frame) {
    whole.keys.extend(part.keys);
    if whole.columns.is_empty() {
        whole.columns = part.columns;
        return;
    }
    for (to, from) in whole.columns.iter_mut().zip(part.columns) {
        to.extend(from);
    }
}

/// By group and time, as an aggregation gives them.
fn sort(frame: &mut Frame, context: &Context) -> Result<(), Error> {
    let keys = frame.keys.iter().copied().enumerate().collect();
    let keys: Vec<(usize, (u32, i64))> =
        long::sorted(keys, context, |one, other| one.1.cmp(&other.1))?;
    let (order, keys): (Vec<usize>, Vec<(u32, i64)>) = keys.into_iter().unzip();
    frame.keys = keys;
    for column in &mut frame.columns {
        context.check()?;
        let picked = order.iter().map(|at| column.get(*at).cloned().flatten());
        *column = picked.collect();
    }
    Ok(())
}
