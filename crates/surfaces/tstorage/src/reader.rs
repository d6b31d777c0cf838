//! Records of a box, from rows to the bytes of an answer, a few slices of the table at a time.
//!
//! Does: find the series by the ids in the tag index, cut them and their times into slices of about so many bytes, read several
//! slices at once, leave out what lies beside the box. Does not: order records, or send them.

use std::ops::{Range, RangeInclusive};
use std::sync::{Arc, Mutex, PoisonError};

use nilometer_engine::{
    Error as EngineError, FieldMatch, FieldPredicate, Narrowing, Scan, ScanRequest, SeriesId,
    Snapshot, TableSchema, TagMatch, TagPredicate,
};
use nilometer_service::{Error as ServiceError, Executor};

use crate::encoder::{Encoded, Encoder};
use crate::table::Shape;
use crate::wire::{EPOCH_NS, KEY_BYTES, KeyBox};

/// Rows of the first slice, while nothing is known of the length of payloads.
const FIRST_ROWS: u64 = 1024;
/// Bytes of a slice, about.
const SLICE_BYTES: u64 = 4 << 20;
/// Bytes of large payloads that are read at one time, about. They are known beforehand, so that not even the first slice of a table,
/// or one behind many small records, has more.
const LARGE_BYTES: u64 = 4 * SLICE_BYTES;
/// Rows of a slice, at least and at most.
const SLICE_ROWS: RangeInclusive<u64> = 16..=65_536;

/// A part of the table that is still to be read.
#[derive(Debug, Clone)]
struct Slice {
    /// Positions among the series.
    series: Range<usize>,
    time: RangeInclusive<i64>,
    /// It is not cut again.
    is_cut: bool,
}

/// What a few slices gave.
#[derive(Debug)]
pub(crate) struct Step {
    /// Records as the answer has them.
    pub(crate) parts: Vec<Vec<u8>>,
    pub(crate) records: u64,
    /// There are no more.
    pub(crate) is_last: bool,
}

/// Reads the records of a box.
#[derive(Debug)]
pub(crate) struct Reader {
    snapshot: Snapshot,
    table: Arc<TableSchema>,
    encoder: Encoder,
    tags: Vec<TagPredicate>,
    narrowing: Narrowing,
    projection: Vec<usize>,
    time: RangeInclusive<i64>,
    series: Vec<SeriesId>,
    /// The next one is the last; `None` = the series are not found yet.
    left: Option<Vec<Slice>>,
    /// Rows of a slice; `None` = nothing is known of payloads yet.
    rows: Option<u64>,
    /// Buffers of parts that were sent.
    spare: Vec<Vec<u8>>,
}

impl Reader {
    pub(crate) fn new(
        snapshot: Snapshot,
        table: Arc<TableSchema>,
        shape: &Shape,
        asked: &KeyBox,
    ) -> Self {
        let (min, max) = (&asked.min, &asked.max);
        let ids = [
            i64::from(min.cid)..=i64::from(max.cid) - 1,
            min.mid..=max.mid.saturating_sub(1),
            i64::from(min.moid)..=i64::from(max.moid) - 1,
        ];
        let tags = shape.ids.iter().zip(&ids).filter(|(part, _)| part.is_tag);
        let tags: Vec<TagPredicate> = tags
            .map(|(part, range)| tag_predicate(part.at, range))
            .collect();
        let mut fields: Vec<FieldPredicate> = shape
            .ids
            .iter()
            .zip(&ids)
            .filter(|(part, range)| !part.is_tag && **range != (i64::MIN..=i64::MAX - 1))
            .map(|(part, range)| FieldPredicate {
                column: part.at,
                matches: FieldMatch::Int(vec![range.clone()]),
            })
            .collect();
        let acq = since_1970(min.acq)..=since_1970(max.acq.saturating_sub(1));
        // Most ask for whatever there is, and then the times of acquisition need no look beforehand.
        if min.acq > 0 {
            fields.push(FieldPredicate {
                column: shape.acq,
                matches: FieldMatch::Int(vec![acq.clone()]),
            });
        }
        let narrowing = if fields.is_empty() {
            Narrowing::None
        } else {
            Narrowing::Fields(fields)
        };
        let [cid, mid, moid] = shape.ids.map(|part| part.at);
        Self {
            snapshot,
            table,
            encoder: Encoder::new(ids, acq),
            tags,
            narrowing,
            projection: vec![cid, mid, moid, shape.time, shape.acq, shape.payload],
            time: since_1970(min.cap)..=since_1970(max.cap.saturating_sub(1)),
            series: Vec::new(),
            left: None,
            rows: None,
            spare: Vec::new(),
        }
    }

    /// Takes the buffers of parts that were sent, to be filled again: to map and to clear as much memory anew takes as long as to
    /// fill it. What had to be very large is let go.
    pub(crate) fn take_back(&mut self, parts: Vec<Vec<u8>>) {
        let usual = |part: &Vec<u8>| part.capacity() as u64 <= 4 * SLICE_BYTES;
        self.spare = parts.into_iter().filter(usual).collect();
    }

    /// Reads the next slices, several at once once it is known how large they are. Blocks.
    pub(crate) fn step(&mut self, executor: &dyn Executor) -> Result<Step, ServiceError> {
        let wanted = match self.rows {
            None => 1,
            Some(_) => executor.threads(2 * SLICES_MAX).clamp(1, SLICES_MAX),
        };
        let (mut scans, mut large) = (Vec::new(), 0);
        while scans.len() < wanted && large < LARGE_BYTES {
            let Some((scan, bytes)) = self.next_scan()? else {
                break;
            };
            scans.push(scan);
            large += bytes;
        }
        let mut spare = std::mem::take(&mut self.spare).into_iter();
        let outcomes: Vec<Mutex<Outcome>> = scans
            .iter()
            .map(|_| Mutex::new(Outcome::Wanted(spare.next().unwrap_or_default())))
            .collect();
        let read = |at: usize| {
            if let (Some(scan), Some(outcome)) = (scans.get(at), outcomes.get(at)) {
                let mut outcome = outcome.lock().unwrap_or_else(PoisonError::into_inner);
                if let Outcome::Wanted(buffer) = &mut *outcome {
                    let buffer = std::mem::take(buffer);
                    *outcome = Outcome::There(self.encoder.encode(scan, buffer));
                }
            }
        };
        if scans.len() == 1 {
            read(0);
        } else {
            executor.run_together(scans.len(), &read);
        }
        let mut step = Step {
            parts: Vec::with_capacity(scans.len()),
            records: 0,
            is_last: self.left.as_ref().is_some_and(Vec::is_empty),
        };
        let (mut rows, mut payloads) = (0, 0);
        for outcome in outcomes {
            let outcome = outcome.into_inner().unwrap_or_else(PoisonError::into_inner);
            let Outcome::There(encoded) = outcome else {
                return Err(ServiceError::Panicked { what: "GET" });
            };
            let encoded = encoded?;
            step.records += encoded.records;
            rows += encoded.rows;
            payloads += encoded.payload_bytes;
            step.parts.push(encoded.bytes);
        }
        if let Some(bytes) = payloads.checked_div(rows) {
            let fit = SLICE_BYTES / (bytes + KEY_BYTES as u64);
            self.rows = Some(fit.clamp(*SLICE_ROWS.start(), *SLICE_ROWS.end()));
        }
        Ok(step)
    }

    /// Plans the read of the next slice, cut as small as it has to be, with the bytes of its large payloads; `None` = there is none.
    fn next_scan(&mut self) -> Result<Option<(Scan, u64)>, EngineError> {
        if self.left.is_none() {
            self.series = self.snapshot.series(&self.table, &self.tags)?;
            let all = Slice {
                series: 0..self.series.len(),
                time: self.time.clone(),
                is_cut: false,
            };
            let has_some = !self.series.is_empty() && self.time.start() <= self.time.end();
            self.left = Some(has_some.then_some(all).into_iter().collect());
        }
        let rows = self.rows.unwrap_or(FIRST_ROWS);
        while let Some(slice) = self.left.as_mut().and_then(Vec::pop) {
            let series = self.series.get(slice.series.clone()).unwrap_or_default();
            let request = ScanRequest {
                table: Arc::clone(&self.table),
                projection: self.projection.clone(),
                time: slice.time.clone(),
                tags: Vec::new(),
                limit: None,
            };
            let scan = self
                .snapshot
                .scan_series(&request, series, &self.narrowing)?;
            let estimate = scan.rows_estimate();
            if estimate == 0 {
                continue;
            }
            let large = scan.large_bytes_estimate();
            if slice.is_cut || (estimate <= 2 * rows && large <= 2 * SLICE_BYTES) {
                return Ok(Some((scan, large)));
            }
            let parts = if series.len() > 1 {
                let Range { start, end } = slice.series;
                let middle = start + (end - start) / 2;
                let half = |series| Slice {
                    series,
                    ..slice.clone()
                };
                vec![half(middle..end), half(start..middle)]
            } else {
                let weights = self.snapshot.weights(&self.table, series, &slice.time)?;
                cut(&slice, weights.cuts_within(rows, SLICE_BYTES))
            };
            if let Some(left) = &mut self.left {
                left.extend(parts);
            }
        }
        Ok(None)
    }
}

/// What became of a slice.
#[derive(Debug)]
enum Outcome {
    /// With the buffer for it.
    Wanted(Vec<u8>),
    There(Result<Encoded, EngineError>),
}

/// Slices that are read at once.
const SLICES_MAX: usize = 4;

/// A slice as parts that end at these times, the last part first.
fn cut(slice: &Slice, ends: Vec<i64>) -> Vec<Slice> {
    let (mut first, last) = (*slice.time.start(), *slice.time.end());
    let mut parts = Vec::with_capacity(ends.len() + 1);
    for end in ends.into_iter().filter(|end| *end < last).chain([last]) {
        parts.push(Slice {
            time: first..=end,
            is_cut: true,
            ..slice.clone()
        });
        first = end.saturating_add(1);
    }
    parts.reverse();
    parts
}

fn tag_predicate(column: usize, range: &RangeInclusive<i64>) -> TagPredicate {
    if range.start() == range.end() {
        return TagPredicate::one_of(column, vec![Some(range.start().to_string())]);
    }
    TagPredicate {
        column,
        matches: TagMatch::Integers(vec![range.clone()]),
        negated: false,
    }
}

/// A time of the wire in nanoseconds since 1970; beyond what the store has, the last one, which no row has.
fn since_1970(ns: i64) -> i64 {
    ns.saturating_add(EPOCH_NS)
}
