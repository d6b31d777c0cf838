//! The operator `TopN` of buckets: the newest, or oldest, of a query that wants only some.
//!
//! Does: find where the rows begin and end, and aggregate from that end of time on, more and more of it, until there are as
//! many rows as are wanted. Does not: sort or cut; its caller does.

use super::aggregate::{Plan, Sorted};
use super::fill::Frame;
use crate::error::Error;

/// Each step reads so many times the buckets of the one before.
const WIDENING: u64 = 4;

pub(super) fn collect(plan: &Plan<'_>) -> Result<Sorted, Error> {
    let range = (plan.query.bound.first_ns, plan.query.bound.last_ns);
    let shape = plan.query.shape();
    let extent = plan.inputs.extent(plan.snapshot, range, plan.context)?;
    let (Some(bucket), Some((oldest, newest))) = (&shape.bucket, extent) else {
        return plan.collect(range);
    };
    let newest_first = shape.order.descending;
    let wanted = usize::try_from(plan.query.bound.overall.end()).unwrap_or(usize::MAX);
    let (mut whole, mut charge) = (Frame::default(), plan.context.charge());
    whole.columns.clear();
    let mut buckets = plan.query.bound.overall.end().clamp(1, u64::from(u16::MAX));
    // What is left of the extent.
    let (mut first, mut last) = (oldest, newest);
    while first <= last {
        plan.context.check()?;
        let (from, to) = if newest_first {
            let mut from = last;
            for step in 0..buckets {
                let (start, _) = bucket.around(from);
                from = if step + 1 == buckets {
                    start
                } else {
                    start.saturating_sub(1)
                };
                if from <= first {
                    break;
                }
            }
            // The whole of the last bucket that is touched.
            (bucket.around(from).0.max(first), last)
        } else {
            let mut to = first;
            for _ in 0..buckets {
                let (_, end) = whole_bucket(bucket, to);
                to = end;
                if to > last {
                    break;
                }
            }
            (first, to.saturating_sub(1).min(last))
        };
        let (part, own) = plan.collect((from, to))?;
        charge.absorb(own);
        append(&mut whole, part);
        if whole.keys.len() >= wanted {
            break;
        }
        let is_done = if newest_first {
            from <= first
        } else {
            to >= last
        };
        if is_done {
            break;
        }
        if newest_first {
            last = from - 1;
        } else {
            first = to + 1;
        }
        buckets = buckets.saturating_mul(WIDENING);
    }
    sort(&mut whole);
    Ok((whole, charge))
}

/// Start of the bucket of a time, and where the next begins; in a zone its end is searched for.
fn whole_bucket(bucket: &crate::bucket::Bucket, time: i64) -> (i64, i64) {
    let (start, mut end) = bucket.around(time);
    // Where the end is not known at once, a time that is surely in another bucket is halved down to it.
    if bucket.zone.is_some() || bucket.offset.months != 0 {
        let mut step = 1_i64 << 40;
        while bucket.around(end.saturating_add(step)).0 == start && end < i64::MAX {
            end = end.saturating_add(step);
        }
        while step > 1 {
            step /= 2;
            if bucket.around(end.saturating_add(step)).0 == start {
                end = end.saturating_add(step);
            }
        }
        end = end.saturating_add(1);
    }
    (start, end)
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
fn sort(frame: &mut Frame) {
    let mut order: Vec<usize> = (0..frame.keys.len()).collect();
    order.sort_by_key(|at| frame.keys.get(*at).copied());
    frame.keys.sort_unstable();
    for column in &mut frame.columns {
        let picked = order.iter().map(|at| column.get(*at).cloned().flatten());
        *column = picked.collect();
    }
}
