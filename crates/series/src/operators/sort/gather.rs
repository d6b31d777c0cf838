//! Rows of several arrays of one type, taken by their places.
//!
//! Does: take numbers, times and keys of words in the order in which they stand in memory. In the order of an answer the rows of a
//! thousand series come one after the other, each from another line of the cache, and lines that are a power of two apart
//! push each other out before their next row is asked for. Does not: know keys or batches; types that are seldom in long answers
//! are taken by the library.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Float64Type, Int32Type, Int64Type, TimestampNanosecondType, UInt64Type,
};
use arrow_array::{Array, ArrayRef, DictionaryArray, PrimitiveArray};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::DataType;
use arrow_select::interleave::interleave;

use super::words;

/// The array and the row in it.
pub(super) type Place = (u32, u32);

/// Places of rows, in the order of the rows and in that of the arrays.
#[derive(Debug)]
pub(super) struct Places {
    asked: Vec<Place>,
    /// With the row of the answer.
    stored: Vec<(Place, u32)>,
}

impl Places {
    pub(super) fn new(asked: Vec<Place>) -> Self {
        let mut stored: Vec<(Place, u32)> = asked.iter().copied().zip(0..).collect();
        if !stored.is_sorted() {
            stored.sort_unstable();
        }
        Self { asked, stored }
    }
}

/// The rows in these places.
pub(super) fn rows(arrays: &[&dyn Array], places: &Places) -> ArrayRef {
    if let Some((keys, list)) = words::of_one_list(arrays) {
        let keys = rows(&keys, places).as_primitive::<Int32Type>().clone();
        let array = DictionaryArray::try_new(keys, list);
        return Arc::new(array.expect("the keys were those of these words"));
    }
    let taken = match arrays.first().map(|first| first.data_type()) {
        Some(DataType::Int32) => primitives::<Int32Type>(arrays, places),
        Some(DataType::Int64) => primitives::<Int64Type>(arrays, places),
        Some(DataType::UInt64) => primitives::<UInt64Type>(arrays, places),
        Some(DataType::Float64) => primitives::<Float64Type>(arrays, places),
        Some(DataType::Timestamp(..)) => primitives::<TimestampNanosecondType>(arrays, places),
        _ => None,
    };
    taken.unwrap_or_else(|| by_library(arrays, &places.asked))
}

fn by_library(arrays: &[&dyn Array], places: &[Place]) -> ArrayRef {
    let wide = places.iter();
    let wide: Vec<(usize, usize)> = wide
        .map(|(array, row)| (*array as usize, *row as usize))
        .collect();
    interleave(arrays, &wide).expect("the arrays are of one type, and have these places")
}

fn primitives<T: ArrowPrimitiveType>(arrays: &[&dyn Array], places: &Places) -> Option<ArrayRef> {
    let own: Option<Vec<&PrimitiveArray<T>>> = arrays
        .iter()
        .map(|array| array.as_primitive_opt::<T>())
        .collect();
    let own = own?;
    let mut values = vec![T::Native::default(); places.asked.len()];
    for of_array in places
        .stored
        .chunk_by(|((one, _), _), ((other, _), _)| one == other)
    {
        let array = of_array
            .first()
            .and_then(|((array, _), _)| own.get(*array as usize))?;
        let from: &[T::Native] = array.values();
        for ((_, row), at) in of_array {
            if let (Some(value), Some(place)) =
                (from.get(*row as usize), values.get_mut(*at as usize))
            {
                *place = *value;
            }
        }
    }
    let has_nulls = own.iter().any(|array| array.null_count() > 0);
    let nulls = has_nulls.then(|| {
        let is_there = |place: usize| {
            let (array, row) = places.asked.get(place).copied().unwrap_or_default();
            let array = own.get(array as usize);
            array.is_some_and(|array| array.is_valid(row as usize))
        };
        NullBuffer::new(BooleanBuffer::collect_bool(places.asked.len(), is_there))
    });
    let taken = PrimitiveArray::<T>::try_new(values.into(), nulls).ok()?;
    let kind = arrays.first()?.data_type().clone();
    Some(Arc::new(taken.with_data_type(kind)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{
        BooleanArray, Float64Array, Int64Array, StringArray, TimestampNanosecondArray,
    };

    /// As the library takes them: with nulls and without, of every type, a time with its zone, a place twice, none at all.
    #[test]
    fn rows_are_those_that_the_library_takes() {
        let zoned = |times: Vec<Option<i64>>| {
            TimestampNanosecondArray::from(times).with_timezone("Europe/Berlin")
        };
        let columns: [Vec<ArrayRef>; 6] = [
            vec![
                Arc::new(Int64Array::from(vec![1, i64::MIN, 3])),
                Arc::new(Int64Array::from(vec![i64::MAX, -5])),
            ],
            vec![
                Arc::new(Int64Array::from(vec![Some(1), None, Some(3)])),
                Arc::new(Int64Array::from(vec![4, 5])),
            ],
            vec![
                Arc::new(Float64Array::from(vec![f64::NAN, -0.0, 1.5])),
                Arc::new(Float64Array::from(vec![None, Some(f64::INFINITY)])),
            ],
            vec![
                Arc::new(zoned(vec![Some(5), None, Some(7)])),
                Arc::new(zoned(vec![Some(-1), Some(0)])),
            ],
            vec![
                Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
                Arc::new(BooleanArray::from(vec![true, false])),
            ],
            vec![
                Arc::new(StringArray::from(vec![Some("a"), None, Some("")])),
                Arc::new(StringArray::from(vec!["b", "c"])),
            ],
        ];
        let all: [&[Place]; 3] = [
            &[(1, 1), (0, 2), (0, 2), (0, 0), (1, 0), (0, 1)],
            &[(0, 0)],
            &[],
        ];
        for arrays in &columns {
            let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
            for places in all {
                let own = rows(&arrays, &Places::new(places.to_vec()));
                let expected = by_library(&arrays, places);
                assert_eq!(own.data_type(), expected.data_type());
                assert_eq!(own.to_data(), expected.to_data(), "{own:?} {expected:?}");
            }
        }
    }
}
