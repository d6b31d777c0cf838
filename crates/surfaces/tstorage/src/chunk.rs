//! Records on their way into the store, collected until they are enough for a batch.
//!
//! Does: keep them as columns from the first byte, count what they take, make a record batch of them. Does not: read them off
//! a socket (`put.rs` does), or store them.

use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BinaryArray, DictionaryArray, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampNanosecondArray,
};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, Field, Schema};
use nilometer_engine::TIME_COLUMN;
use nilometer_service::{BodyMemory, BodyPermit, Error as ServiceError};
use rustc_hash::FxHashMap;

use crate::payload::{NUMBER_BYTES, Payloads};
use crate::table::{ACQ, IDS, PAYLOAD, Shape};

/// Records of a batch.
const ROWS_MAX: usize = 64 * 1024;
/// Bytes of their payloads together; the last may take them beyond it.
const PAYLOADS_BYTES_MAX: usize = 4 << 20;
/// Bytes that a record takes beside its payload, about.
const ROW_BYTES: usize = 40;

/// Integers of which many are the same: each once, and which of them a row has.
#[derive(Debug, Default)]
struct Ids {
    values: Vec<i64>,
    known: FxHashMap<i64, i32>,
    rows: Vec<i32>,
    last: Option<(i64, i32)>,
}

impl Ids {
    fn push(&mut self, value: i64) {
        let code = match self.last {
            Some((last, code)) if last == value => code,
            // Clients come in the same order again and again.
            Some((_, code)) if self.values.get(after(code)) == Some(&value) => code + 1,
            _ => {
                let next = i32::try_from(self.values.len()).unwrap_or(i32::MAX);
                let code = *self.known.entry(value).or_insert(next);
                if code == next {
                    self.values.push(value);
                }
                code
            }
        };
        self.last = Some((value, code));
        self.rows.push(code);
    }

    fn array(self, is_tag: bool) -> Result<ArrayRef, ArrowError> {
        if is_tag {
            let texts = self.values.iter().map(i64::to_string);
            let texts: StringArray = texts.map(Some).collect();
            let keys = Int32Array::from(self.rows);
            let array = DictionaryArray::<Int32Type>::try_new(keys, Arc::new(texts))?;
            return Ok(Arc::new(array));
        }
        let value = |code: i32| {
            let at = usize::try_from(code).unwrap_or_default();
            self.values.get(at).copied().unwrap_or_default()
        };
        let values: Vec<i64> = self.rows.iter().map(|code| value(*code)).collect();
        Ok(Arc::new(Int64Array::from(values)))
    }
}

/// The place after a code.
fn after(code: i32) -> usize {
    usize::try_from(code).map_or(usize::MAX, |code| code + 1)
}

/// What a record says beside its payload. Times are nanoseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) cid: i32,
    pub(crate) mid: i64,
    pub(crate) moid: i32,
    pub(crate) cap: i64,
    /// The client's; `None` = it is stamped when it is stored.
    pub(crate) acq: Option<i64>,
}

/// Records that are stored together.
#[derive(Debug)]
pub(crate) struct Chunk {
    ids: [Ids; 3],
    cap: Vec<i64>,
    /// Those that clients gave.
    acq: Vec<i64>,
    payload_ends: Vec<i32>,
    payloads: Vec<u8>,
    memory: BodyPermit,
    covered: usize,
}

impl Chunk {
    pub(crate) fn new(memory: &BodyMemory) -> Self {
        Self {
            ids: Default::default(),
            cap: Vec::new(),
            acq: Vec::new(),
            payload_ends: vec![0],
            payloads: Vec::new(),
            memory: memory.hold(),
            covered: 0,
        }
    }

    pub(crate) fn rows(&self) -> usize {
        self.cap.len()
    }

    pub(crate) fn payload_bytes(&self) -> usize {
        self.payloads.len()
    }

    /// Whether it is enough for a batch.
    pub(crate) fn is_full(&self) -> bool {
        self.rows() >= ROWS_MAX || self.payloads.len() >= PAYLOADS_BYTES_MAX
    }

    /// Adds a piece of the payload of the record that comes next.
    pub(crate) fn payload(&mut self, piece: &[u8]) -> Result<(), ServiceError> {
        let bytes = self.payloads.len() + piece.len() + self.rows() * ROW_BYTES;
        if bytes > self.covered {
            // Ahead of need, so that the count is touched seldom.
            let wanted = bytes + bytes / 2;
            self.memory.cover(wanted)?;
            self.covered = wanted;
        }
        self.payloads.extend_from_slice(piece);
        Ok(())
    }

    /// Adds a record, whose payload is what came since the last one.
    pub(crate) fn push(&mut self, row: &Row) {
        let [cid, mid, moid] = &mut self.ids;
        cid.push(row.cid.into());
        mid.push(row.mid);
        moid.push(row.moid.into());
        self.cap.push(row.cap);
        self.acq.extend(row.acq);
        // Below 2 GiB: a chunk is full long before.
        let end = i32::try_from(self.payloads.len()).unwrap_or(i32::MAX);
        self.payload_ends.push(end);
    }

    /// The records as rows of the table; those that are stamped here get stamps from `first_acq` on, one each. With the
    /// permit for the memory that they take.
    pub(crate) fn into_batch(
        self,
        shape: &Shape,
        first_acq: i64,
    ) -> Result<(RecordBatch, BodyPermit), ServiceError> {
        let rows = self.cap.len();
        let numbers = rows * shape.numbers.len() * NUMBER_BYTES;
        let mut memory = self.memory;
        if numbers > 0 {
            memory.cover(self.covered + numbers)?;
        }
        let acq = if self.acq.is_empty() {
            (first_acq..).take(rows).collect()
        } else {
            self.acq
        };
        let mut fields = Vec::new();
        let mut columns: Vec<ArrayRef> = Vec::new();
        let mut push = |name: &str, column: ArrayRef| {
            let is_nullable = column.null_count() > 0;
            fields.push(Field::new(name, column.data_type().clone(), is_nullable));
            columns.push(column);
        };
        push(
            TIME_COLUMN,
            Arc::new(TimestampNanosecondArray::from(self.cap)),
        );
        for ((ids, part), (name, _)) in self.ids.into_iter().zip(shape.ids).zip(IDS) {
            push(name, ids.array(part.is_tag).map_err(surface)?);
        }
        if shape.acq_is_time {
            push(ACQ, Arc::new(TimestampNanosecondArray::from(acq)));
        } else {
            push(ACQ, Arc::new(Int64Array::from(acq)));
        }
        let payloads = Payloads {
            ends: &self.payload_ends,
            bytes: &self.payloads,
        };
        for number in &shape.numbers {
            push(&number.name, payloads.column(number));
        }
        let ends = OffsetBuffer::new(ScalarBuffer::from(self.payload_ends));
        let payloads = BinaryArray::try_new(ends, Buffer::from_vec(self.payloads), None);
        let payloads = payloads.map_err(surface)?;
        push(PAYLOAD, Arc::new(payloads));
        let batch = RecordBatch::try_new(Arc::new(Schema::new(fields)), columns);
        Ok((batch.map_err(surface)?, memory))
    }
}

fn surface(error: ArrowError) -> ServiceError {
    ServiceError::Surface(error.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Part;
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Int64Type, TimestampNanosecondType};

    #[test]
    fn records_become_rows_with_one_stamp_each() {
        let memory = BodyMemory::new(1 << 20);
        let mut chunk = Chunk::new(&memory);
        for (mid, payload) in [(7, &b"ab"[..]), (8, b""), (7, b"c")] {
            let (first, rest) = payload.split_at(payload.len() / 2);
            chunk.payload(first).unwrap();
            chunk.payload(rest).unwrap();
            chunk.push(&Row {
                cid: 1,
                mid,
                moid: -2,
                cap: mid * 10,
                acq: None,
            });
        }
        let tag = |at| Part { at, is_tag: true };
        let shape = Shape {
            ids: [
                tag(1),
                Part {
                    at: 3,
                    is_tag: false,
                },
                tag(2),
            ],
            time: 0,
            acq: 4,
            acq_is_time: true,
            payload: 5,
            numbers: Vec::new(),
        };
        let (batch, _) = chunk.into_batch(&shape, 100).unwrap();
        let column = |name| Arc::clone(batch.column_by_name(name).unwrap());
        let moid = column("moid");
        let moid = moid.as_dictionary::<Int32Type>();
        assert_eq!(moid.values().as_string::<i32>().value(0), "-2");
        assert_eq!(moid.keys().values(), &[0, 0, 0]);
        assert_eq!(
            column("mid").as_primitive::<Int64Type>().values(),
            &[7, 8, 7]
        );
        let acq = column("acq");
        let acq = acq.as_primitive::<TimestampNanosecondType>();
        assert_eq!(acq.values(), &[100, 101, 102]);
        let payloads = column("payload");
        let payloads = payloads.as_binary::<i32>();
        let payloads: Vec<&[u8]> = (0..payloads.len()).map(|row| payloads.value(row)).collect();
        assert_eq!(payloads, [&b"ab"[..], b"", b"c"]);
    }

    #[test]
    fn a_chunk_asks_for_the_memory_that_it_takes() {
        let memory = BodyMemory::new(1 << 20);
        let mut chunk = Chunk::new(&memory);
        let piece = vec![0; 64 << 10];
        let mut taken = 0;
        while chunk.payload(&piece).is_ok() {
            taken += piece.len();
            assert!(taken <= 1 << 20);
        }
        assert!(taken >= 1 << 19, "{taken}");
    }
}
