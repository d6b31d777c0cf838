//! Numbers of payloads, as columns beside them.
//!
//! Does: read what a payload schema names out of many payloads at once; a payload that ends before a number has none there. Does
//! not: change payloads, or keep schemas (`service::define` does).

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, UInt64Array};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer, ScalarBuffer};
use nilometer_service::define::{PayloadColumn, PayloadNumber};

/// Bytes of a number in a column, with its null.
pub(crate) const NUMBER_BYTES: usize = 9;

/// Payloads one after the other.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Payloads<'a> {
    /// Where each ends, after the start of the first.
    pub(crate) ends: &'a [i32],
    pub(crate) bytes: &'a [u8],
}

impl Payloads<'_> {
    /// All of them, if they have one length, which is not 0.
    fn of_one_length(&self) -> Option<std::slice::ChunksExact<'_, u8>> {
        let [first, second, ..] = self.ends else {
            return None;
        };
        let length = second - first;
        let is_even = self
            .ends
            .array_windows()
            .all(|[start, end]| end - start == length);
        let length = usize::try_from(length)
            .ok()
            .filter(|it| *it > 0 && is_even)?;
        let (first, last) = (*first, *self.ends.last()?);
        let bytes = self
            .bytes
            .get(usize::try_from(first).ok()?..usize::try_from(last).ok()?)?;
        Some(bytes.chunks_exact(length))
    }

    /// The numbers of a column; null where a payload is too short.
    pub(crate) fn column(&self, of: &PayloadColumn) -> ArrayRef {
        use PayloadNumber::{Float, Signed, Unsigned};
        match (of.number, of.bytes) {
            (Signed, 1) => self.integers(of, |it| i8::from_le_bytes(it).into()),
            (Signed, 2) => self.integers(of, |it| i16::from_le_bytes(it).into()),
            (Signed, 4) => self.integers(of, |it| i32::from_le_bytes(it).into()),
            (Signed, _) => self.integers(of, i64::from_le_bytes),
            (Unsigned, 1) => self.integers(of, |it| u8::from_le_bytes(it).into()),
            (Unsigned, 2) => self.integers(of, |it| u16::from_le_bytes(it).into()),
            (Unsigned, 4) => self.integers(of, |it| u32::from_le_bytes(it).into()),
            (Unsigned, _) => {
                let (values, nulls) = self.numbers(of, u64::from_le_bytes);
                Arc::new(UInt64Array::new(ScalarBuffer::from(values), nulls))
            }
            (Float, 4) => self.floats(of, |it| f32::from_le_bytes(it).into()),
            (Float, _) => self.floats(of, f64::from_le_bytes),
        }
    }

    fn integers<const N: usize>(
        &self,
        of: &PayloadColumn,
        number: impl Fn([u8; N]) -> i64,
    ) -> ArrayRef {
        let (values, nulls) = self.numbers(of, number);
        Arc::new(Int64Array::new(ScalarBuffer::from(values), nulls))
    }

    fn floats<const N: usize>(
        &self,
        of: &PayloadColumn,
        number: impl Fn([u8; N]) -> f64,
    ) -> ArrayRef {
        let (values, nulls) = self.numbers(of, number);
        Arc::new(Float64Array::new(ScalarBuffer::from(values), nulls))
    }

    fn numbers<const N: usize, T: Copy + Default>(
        &self,
        of: &PayloadColumn,
        number: impl Fn([u8; N]) -> T,
    ) -> (Vec<T>, Option<NullBuffer>) {
        let rows = self.ends.len().saturating_sub(1);
        let value_of = |bytes: &[u8; N]| {
            let mut bytes = *bytes;
            if of.is_big_endian {
                bytes.reverse();
            }
            number(bytes)
        };
        // Payloads of one length, which most have, need no look at each.
        let here = |payload: &[u8]| Some(value_of(payload.get(of.at..)?.first_chunk::<N>()?));
        if let Some(payloads) = self.of_one_length() {
            let values: Vec<T> = payloads.map_while(here).collect();
            if values.len() == rows {
                return (values, None);
            }
        }
        let mut values = Vec::with_capacity(rows);
        let mut present = BooleanBufferBuilder::new(rows);
        for pair in self.ends.windows(2) {
            let bytes = match pair {
                [start, end] => self.bytes.get(*start as usize..*end as usize),
                _ => None,
            };
            let value = bytes.and_then(here);
            present.append(value.is_some());
            values.push(value.unwrap_or_default());
        }
        let nulls = NullBuffer::new(present.finish());
        (values, (nulls.null_count() > 0).then_some(nulls))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
    use nilometer_service::define::PayloadSchema;

    /// Payloads of one length go another way, and so do those of one that is too short for the number.
    #[test]
    fn payloads_of_one_length_have_their_numbers_too() {
        let schema = PayloadSchema::parse("a int2be, b int2le").unwrap();
        let payloads = Payloads {
            ends: &[0, 4, 8, 12],
            bytes: &[0, 1, 2, 0, 0xff, 0xff, 0, 1, 0x7f, 0xff, 0xff, 0xff],
        };
        let integers = |payloads: Payloads<'_>, at: usize| -> Vec<Option<i64>> {
            let column = payloads.column(&schema.columns[at]);
            column.as_primitive::<Int64Type>().iter().collect()
        };
        assert_eq!(integers(payloads, 0), [Some(1), Some(-1), Some(32767)]);
        assert_eq!(integers(payloads, 1), [Some(2), Some(256), Some(-1)]);
        let short = Payloads {
            ends: &[0, 3, 6],
            bytes: &[0, 1, 2, 0, 3, 4],
        };
        assert_eq!(integers(short, 0), [Some(1), Some(3)]);
        assert_eq!(integers(short, 1), [None, None]);
    }

    /// The bytes are written by hand.
    #[test]
    fn numbers_stand_where_the_schema_says_and_short_payloads_have_none() {
        let text = "a int4be, b int2le, c uint1, skip 1, d float4be, e uint8le, f int1, g float8le";
        let schema = PayloadSchema::parse(text).unwrap();
        let whole: &[u8] = &[
            0xff, 0xff, 0xff, 0xfe, // -2
            0x01, 0x80, // -32767
            0xfd, // 253
            0x99, // nobody's
            0xc0, 0x20, 0x00, 0x00, // -2.5
            0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, // 2^64 - 1
            0x80, // -128
            0, 0, 0, 0, 0, 0, 0xf8, 0x3f, // 1.5
            7,    // nobody's
        ];
        let cut: &[u8] = &[0, 0, 1, 0, 5, 0];
        let payloads = [cut, &[], whole].concat();
        let payloads = Payloads {
            ends: &[0, 6, 6, i32::try_from(payloads.len()).unwrap()],
            bytes: &payloads,
        };
        let arrays: Vec<ArrayRef> = schema
            .columns
            .iter()
            .map(|column| payloads.column(column))
            .collect();
        let integers = |at: usize| -> Vec<Option<i64>> {
            arrays[at].as_primitive::<Int64Type>().iter().collect()
        };
        let floats = |at: usize| -> Vec<Option<f64>> {
            arrays[at].as_primitive::<Float64Type>().iter().collect()
        };
        assert_eq!(integers(0), [Some(256), None, Some(-2)]);
        assert_eq!(integers(1), [Some(5), None, Some(-32767)]);
        assert_eq!(integers(2), [None, None, Some(253)]);
        assert_eq!(floats(3), [None, None, Some(-2.5)]);
        let unsigned = arrays[4].as_primitive::<UInt64Type>();
        assert_eq!(
            unsigned.iter().collect::<Vec<_>>(),
            [None, None, Some(u64::MAX)]
        );
        assert_eq!(integers(5), [None, None, Some(-128)]);
        assert_eq!(floats(6), [None, None, Some(1.5)]);
    }
}
