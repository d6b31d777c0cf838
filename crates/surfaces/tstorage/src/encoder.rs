//! Rows as the records of an answer.
//!
//! Does: leave out what lies beside the box, and write the bytes of the rest. Does not: read rows (`reader.rs` does), or order them.

use std::ops::RangeInclusive;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, TimestampNanosecondType};
use arrow_array::{Array, ArrayRef, BinaryArray, Int64Array, RecordBatch};
use arrow_buffer::NullBuffer;
use arrow_schema::DataType;
use nilometer_engine::{Error as EngineError, Scan};

use crate::wire::{EPOCH_NS, KEY_BYTES, Key};

/// What a slice gave.
#[derive(Debug, Default)]
pub(crate) struct Encoded {
    pub(crate) bytes: Vec<u8>,
    pub(crate) records: u64,
    /// Those that were looked at.
    pub(crate) rows: u64,
    pub(crate) payload_bytes: u64,
}

/// Turns rows into records, if they are in the box.
#[derive(Debug)]
pub(crate) struct Encoder {
    ids: [RangeInclusive<i64>; 3],
    /// Nanoseconds since 1970.
    acq: RangeInclusive<i64>,
}

impl Encoder {
    /// Of a box: clients, messages, origins, and acquisition times since 1970.
    pub(crate) fn new(ids: [RangeInclusive<i64>; 3], acq: RangeInclusive<i64>) -> Self {
        Self { ids, acq }
    }

    /// The records of a scan, in `buffer`, whatever it has.
    pub(crate) fn encode(&self, scan: &Scan, mut buffer: Vec<u8>) -> Result<Encoded, EngineError> {
        buffer.clear();
        let mut encoded = Encoded {
            bytes: buffer,
            ..Encoded::default()
        };
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
        let [cids, mids, moids] = &self.ids;
        let ids = [
            Integers::of(cid, cids),
            Integers::of(mid, mids),
            Integers::of(moid, moids),
        ];
        let nulls = [acq.nulls(), payload.nulls()];
        let is_whole = |row| {
            nulls
                .iter()
                .flatten()
                .all(|nulls: &&NullBuffer| nulls.is_valid(row))
        };
        let rows = batch.num_rows();
        let bytes = payload_bytes(payloads);
        to.rows += rows as u64;
        to.payload_bytes += bytes as u64;
        to.bytes.reserve(bytes + rows * (4 + KEY_BYTES));
        let values = payloads.value_data();
        let ends = payloads.value_offsets().array_windows();
        // Rows of one series stand together, and so do their ids.
        let mut of_row = None;
        for (row, ((&cap, &acq), [start, end])) in times.iter().zip(acqs).zip(ends).enumerate() {
            if !ids.iter().all(|ids| ids.repeats(row)) {
                of_row = ids_of(&ids, row);
            }
            if !self.acq.contains(&acq) || !is_whole(row) {
                continue;
            }
            let Some(key) = of_row.and_then(|ids| key(ids, (cap, acq))) else {
                continue;
            };
            let payload = values.get(*start as usize..*end as usize);
            let payload = payload.unwrap_or_default();
            let size = i32::try_from(KEY_BYTES + payload.len()).unwrap_or(i32::MAX);
            let mut head = [0; 4 + KEY_BYTES];
            let mut room = head.as_mut_slice();
            bytes::BufMut::put_i32_le(&mut room, size);
            key.put(&mut room);
            to.bytes.extend_from_slice(&head);
            to.bytes.extend_from_slice(payload);
            to.records += 1;
        }
    }
}

/// The ids of a row; `None` = they are not in the box, or are none that a client of the protocol could have written.
fn ids_of([cid, mid, moid]: &[Integers<'_>; 3], row: usize) -> Option<(i32, i64, i32)> {
    let cid = i32::try_from(cid.get(row)?).ok()?;
    let moid = i32::try_from(moid.get(row)?).ok()?;
    Some((cid, mid.get(row)?, moid))
}

/// The key of a row; `None` = it has times that no client of the protocol could have written.
fn key((cid, mid, moid): (i32, i64, i32), (cap, acq): (i64, i64)) -> Option<Key> {
    Some(Key {
        cid,
        mid,
        moid,
        cap: cap.checked_sub(EPOCH_NS)?,
        acq: acq.checked_sub(EPOCH_NS)?,
    })
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

/// Integers of a tag or a field, those of a range.
enum Integers<'a> {
    Tag {
        nulls: Option<&'a NullBuffer>,
        codes: &'a [i32],
        /// Of each text; `None` = it is no integer, or not in the range.
        values: Vec<Option<i64>>,
    },
    Field(&'a Int64Array, &'a RangeInclusive<i64>),
    None,
}

impl<'a> Integers<'a> {
    fn of(array: &'a ArrayRef, range: &'a RangeInclusive<i64>) -> Self {
        if matches!(array.data_type(), DataType::Dictionary(..))
            && let Some(dictionary) = array.as_dictionary_opt::<Int32Type>()
            && let Some(texts) = dictionary.values().as_string_opt::<i32>()
        {
            let value = |text: Option<&str>| {
                let value = text?.parse().ok()?;
                range.contains(&value).then_some(value)
            };
            return Self::Tag {
                nulls: array.nulls(),
                codes: dictionary.keys().values(),
                values: texts.iter().map(value).collect(),
            };
        }
        array
            .as_primitive_opt::<Int64Type>()
            .map_or(Self::None, |integers| Self::Field(integers, range))
    }

    /// Whether a row surely has what the row before has.
    fn repeats(&self, row: usize) -> bool {
        let Some(before) = row.checked_sub(1) else {
            return false;
        };
        match self {
            Self::Tag { nulls, codes, .. } => {
                nulls.is_none() && codes.get(before) == codes.get(row)
            }
            Self::Field(array, _) => {
                array.null_count() == 0 && array.value(before) == array.value(row)
            }
            Self::None => true,
        }
    }

    fn get(&self, row: usize) -> Option<i64> {
        match self {
            Self::Tag {
                nulls,
                codes,
                values,
            } => {
                if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                    return None;
                }
                let code = usize::try_from(*codes.get(row)?).ok()?;
                *values.get(code)?
            }
            Self::Field(array, range) => {
                let value = array.is_valid(row).then(|| array.value(row))?;
                range.contains(&value).then_some(value)
            }
            Self::None => None,
        }
    }
}
