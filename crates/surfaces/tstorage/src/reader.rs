//! Records of a box, from rows to the bytes of an answer, a few slices of the table at a time.
//!
//! Does: find the series by the ids in the tag index, cut them and their times into slices of about so many bytes, read several
//! slices at once, leave out what lies beside the box. Does not: order records, or send them.

use std::ops::{Range, RangeInclusive};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, TimestampNanosecondType};
use arrow_array::{Array, ArrayRef, BinaryArray, Int64Array, RecordBatch};
use arrow_schema::DataType;
use nilometer_engine::{
    Error as EngineError, FieldMatch, FieldPredicate, Narrowing, Scan, ScanRequest, SeriesId,
    Snapshot, TableSchema, TagMatch, TagPredicate,
};
use nilometer_service::{Error as ServiceError, Executor};

use crate::table::Shape;
use crate::wire::{EPOCH_NS, KEY_BYTES, Key, KeyBox};

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
            encoder: Encoder { ids, acq },
            tags,
            narrowing,
            projection: vec![cid, mid, moid, shape.time, shape.acq, shape.payload],
            time: since_1970(min.cap)..=since_1970(max.cap.saturating_sub(1)),
            series: Vec::new(),
            left: None,
            rows: None,
        }
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
        let outcomes: Vec<Mutex<Option<Result<Encoded, EngineError>>>> =
            scans.iter().map(|_| Mutex::new(None)).collect();
        let read = |at: usize| {
            if let (Some(scan), Some(outcome)) = (scans.get(at), outcomes.get(at)) {
                let encoded = self.encoder.encode(scan);
                *outcome.lock().unwrap_or_else(PoisonError::into_inner) = Some(encoded);
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
            let encoded = outcome.ok_or(ServiceError::Panicked { what: "GET" })??;
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

/// What a slice gave.
#[derive(Debug, Default)]
struct Encoded {
    bytes: Vec<u8>,
    records: u64,
    /// Those that were looked at.
    rows: u64,
    payload_bytes: u64,
}

/// Turns rows into records, if they are in the box.
#[derive(Debug)]
struct Encoder {
    ids: [RangeInclusive<i64>; 3],
    /// Nanoseconds since 1970.
    acq: RangeInclusive<i64>,
}

impl Encoder {
    fn encode(&self, scan: &Scan) -> Result<Encoded, EngineError> {
        let mut encoded = Encoded::default();
        for morsel in 0..scan.morsels() {
            for batch in scan.read(morsel) {
                self.add(&batch?, &mut encoded);
            }
        }
        Ok(encoded)
    }

    fn add(&self, batch: &RecordBatch, to: &mut Encoded) {
        let [cid, mid, moid, time, acq, payload] = batch.columns() else {
            return;
        };
        let (Some(times), Some(acqs), Some(payloads)) = (
            instants(time),
            instants(acq),
            payload.as_binary_opt::<i32>(),
        ) else {
            return;
        };
        let ids = [cid, mid, moid].map(Integers::of);
        let rows = batch.num_rows();
        let bytes = payload_bytes(payloads);
        to.rows += rows as u64;
        to.payload_bytes += bytes as u64;
        to.bytes.reserve(bytes + rows * (4 + KEY_BYTES));
        for row in 0..rows {
            let Some(key) = self.key(&ids, (times, acqs), (row, acq)) else {
                continue;
            };
            if payloads.is_null(row) {
                continue;
            }
            let payload = payloads.value(row);
            let size = i32::try_from(KEY_BYTES + payload.len()).unwrap_or(i32::MAX);
            to.bytes.extend_from_slice(&size.to_le_bytes());
            key.put(&mut to.bytes);
            to.bytes.extend_from_slice(payload);
            to.records += 1;
        }
    }

    /// The key of a row; `None` = it is not in the box, or is one that no client of the protocol could have written.
    fn key(
        &self,
        ids: &[Integers<'_>; 3],
        (times, acqs): (&[i64], &[i64]),
        (row, acq_column): (usize, &ArrayRef),
    ) -> Option<Key> {
        let acq = *acqs.get(row)?;
        if !self.acq.contains(&acq) || acq_column.is_null(row) {
            return None;
        }
        let [cid, mid, moid] = ids;
        let (cid, mid, moid) = (cid.get(row)?, mid.get(row)?, moid.get(row)?);
        let [cids, mids, moids] = &self.ids;
        if !(cids.contains(&cid) && mids.contains(&mid) && moids.contains(&moid)) {
            return None;
        }
        Some(Key {
            cid: i32::try_from(cid).ok()?,
            mid,
            moid: i32::try_from(moid).ok()?,
            cap: times.get(row)?.checked_sub(EPOCH_NS)?,
            acq: acq.checked_sub(EPOCH_NS)?,
        })
    }
}

fn payload_bytes(payloads: &BinaryArray) -> usize {
    let offsets = payloads.value_offsets();
    let bytes = match (offsets.first(), offsets.last()) {
        (Some(first), Some(last)) => last - first,
        _ => 0,
    };
    usize::try_from(bytes).unwrap_or_default()
}

/// Nanoseconds, as times or as integers.
fn instants(array: &ArrayRef) -> Option<&[i64]> {
    if let Some(integers) = array.as_primitive_opt::<Int64Type>() {
        return Some(integers.values());
    }
    let times = array.as_primitive_opt::<TimestampNanosecondType>()?;
    Some(times.values())
}

/// Integers of a tag or a field.
enum Integers<'a> {
    Tag {
        array: &'a ArrayRef,
        codes: &'a [i32],
        /// Of each text; `None` = it is no integer.
        values: Vec<Option<i64>>,
    },
    Field(&'a Int64Array),
    None,
}

impl<'a> Integers<'a> {
    fn of(array: &'a ArrayRef) -> Self {
        if matches!(array.data_type(), DataType::Dictionary(..))
            && let Some(dictionary) = array.as_dictionary_opt::<Int32Type>()
            && let Some(texts) = dictionary.values().as_string_opt::<i32>()
        {
            let values = texts.iter().map(|text| text?.parse().ok());
            return Self::Tag {
                array,
                codes: dictionary.keys().values(),
                values: values.collect(),
            };
        }
        array
            .as_primitive_opt::<Int64Type>()
            .map_or(Self::None, Self::Field)
    }

    fn get(&self, row: usize) -> Option<i64> {
        match self {
            Self::Tag {
                array,
                codes,
                values,
            } => {
                if array.is_null(row) {
                    return None;
                }
                let code = usize::try_from(*codes.get(row)?).ok()?;
                *values.get(code)?
            }
            Self::Field(array) => array.is_valid(row).then(|| array.value(row)),
            Self::None => None,
        }
    }
}
