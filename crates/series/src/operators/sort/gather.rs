//! Rows of several arrays of one type, taken by their places.
//!
//! Does: take numbers, times and keys of words by slices, which the library does through each array again: the rows of a batch by
//! their places (`rows`), or all rows in the order in which they stand in memory (`all`). In the order of an answer the rows of a
//! thousand series come one after the other, each from another page of memory, and the processor waits for each; what is read from
//! its begin to its end has come before it is asked for. Does not: know keys or batches; types that are seldom in long answers
//! are taken by the library.

use std::ops::Range;
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

/// The rows in these places.
pub(super) fn rows(arrays: &[&dyn Array], places: &[Place]) -> ArrayRef {
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
    taken.unwrap_or_else(|| by_library(arrays, places))
}

/// Rows of an array that follow each other, as an array of their own: a slice would keep all the others in memory.
pub(super) fn run(array: &dyn Array, rows: Range<usize>) -> ArrayRef {
    if let Some((keys, list)) = words::of_one_list(&[array]) {
        let keys = keys.first().map(|keys| run(*keys, rows));
        let keys = keys
            .expect("one array has keys")
            .as_primitive::<Int32Type>()
            .clone();
        let array = DictionaryArray::try_new(keys, list);
        return Arc::new(array.expect("the keys were those of these words"));
    }
    let taken = match array.data_type() {
        DataType::Int32 => copied::<Int32Type>(array, &rows),
        DataType::Int64 => copied::<Int64Type>(array, &rows),
        DataType::UInt64 => copied::<UInt64Type>(array, &rows),
        DataType::Float64 => copied::<Float64Type>(array, &rows),
        DataType::Timestamp(..) => copied::<TimestampNanosecondType>(array, &rows),
        _ => None,
    };
    taken.unwrap_or_else(|| {
        let wide: Vec<(usize, usize)> = rows.map(|row| (0, row)).collect();
        interleave(&[array], &wide).expect("the array has these rows")
    })
}

fn copied<T: ArrowPrimitiveType>(array: &dyn Array, rows: &Range<usize>) -> Option<ArrayRef> {
    let own = array.as_primitive_opt::<T>()?.slice(rows.start, rows.len());
    let nulls = own.nulls().map(|nulls| {
        let are_valid = nulls.inner();
        NullBuffer::new(BooleanBuffer::collect_bool(rows.len(), |row| {
            are_valid.value(row)
        }))
    });
    let values = own.values().to_vec();
    let taken = PrimitiveArray::<T>::try_new(values.into(), nulls).ok()?;
    Some(Arc::new(taken.with_data_type(array.data_type().clone())))
}

/// All rows of the arrays, each at the place that `places` has for it; those that have none are left out. `None` = types that are
/// not taken all at once.
pub(super) fn all(arrays: &[&dyn Array], places: &Scattered) -> Option<ArrayRef> {
    if let Some((keys, list)) = words::of_one_list(arrays) {
        let keys = all(&keys, places)?.as_primitive::<Int32Type>().clone();
        let array = DictionaryArray::try_new(keys, list);
        return Some(Arc::new(array.expect("the keys were those of these words")));
    }
    match arrays.first()?.data_type() {
        DataType::Int32 => scattered::<Int32Type>(arrays, places),
        DataType::Int64 => scattered::<Int64Type>(arrays, places),
        DataType::UInt64 => scattered::<UInt64Type>(arrays, places),
        DataType::Float64 => scattered::<Float64Type>(arrays, places),
        DataType::Timestamp(..) => scattered::<TimestampNanosecondType>(arrays, places),
        _ => None,
    }
}

/// Where each row of several arrays goes.
#[derive(Debug)]
pub(super) struct Scattered {
    /// By array, one after the other, and by row.
    places: Vec<u32>,
    rows: usize,
}

impl Scattered {
    /// What a row of the arrays takes.
    pub(super) const ROW_BYTES: usize = size_of::<u32>();

    /// `lengths` are those of the arrays, `asked` the places of the rows that are asked for, in their order.
    pub(super) fn new(
        lengths: impl Iterator<Item = usize>,
        asked: impl ExactSizeIterator<Item = Place>,
    ) -> Self {
        let mut total = 0;
        let starts: Vec<usize> = lengths
            .map(|length| {
                total += length;
                total - length
            })
            .collect();
        let mut places = vec![u32::MAX; total];
        let rows = asked.len();
        for ((array, row), at) in asked.zip(0..) {
            let start = starts.get(array as usize).copied().unwrap_or(usize::MAX);
            if let Some(place) = places.get_mut(start.saturating_add(row as usize)) {
                *place = at;
            }
        }
        Self { places, rows }
    }
}

fn scattered<T: ArrowPrimitiveType>(arrays: &[&dyn Array], places: &Scattered) -> Option<ArrayRef> {
    let own: Option<Vec<&PrimitiveArray<T>>> = arrays
        .iter()
        .map(|array| array.as_primitive_opt::<T>())
        .collect();
    let own = own?;
    let mut values = vec![T::Native::default(); places.rows];
    let stored = own.iter().flat_map(|array| array.values().iter());
    for (value, at) in stored.zip(&places.places) {
        if let Some(place) = values.get_mut(*at as usize) {
            *place = *value;
        }
    }
    let has_nulls = own.iter().any(|array| array.null_count() > 0);
    let nulls = has_nulls.then(|| {
        let mut are_valid = vec![false; places.rows];
        let stored = own
            .iter()
            .flat_map(|array| (0..array.len()).map(|row| array.is_valid(row)));
        for (is_valid, at) in stored.zip(&places.places) {
            if let Some(place) = are_valid.get_mut(*at as usize) {
                *place = is_valid;
            }
        }
        NullBuffer::from(are_valid)
    });
    let taken = PrimitiveArray::<T>::try_new(values.into(), nulls).ok()?;
    let kind = arrays.first()?.data_type().clone();
    Some(Arc::new(taken.with_data_type(kind)))
}

fn by_library(arrays: &[&dyn Array], places: &[Place]) -> ArrayRef {
    let wide = places.iter();
    let wide: Vec<(usize, usize)> = wide
        .map(|(array, row)| (*array as usize, *row as usize))
        .collect();
    interleave(arrays, &wide).expect("the arrays are of one type, and have these places")
}

fn primitives<T: ArrowPrimitiveType>(arrays: &[&dyn Array], places: &[Place]) -> Option<ArrayRef> {
    let own: Option<Vec<&PrimitiveArray<T>>> = arrays
        .iter()
        .map(|array| array.as_primitive_opt::<T>())
        .collect();
    let own = own?;
    let slices: Vec<&[T::Native]> = own.iter().map(|array| array.values().as_ref()).collect();
    let values = places.iter().map(|(array, row)| {
        let values = slices.get(*array as usize);
        let value = values.and_then(|values| values.get(*row as usize));
        value.copied().unwrap_or_default()
    });
    let values: Vec<T::Native> = values.collect();
    let has_nulls = own.iter().any(|array| array.null_count() > 0);
    let nulls = has_nulls.then(|| {
        let is_there = |place: usize| {
            let (array, row) = places.get(place).copied().unwrap_or_default();
            let array = own.get(array as usize);
            array.is_some_and(|array| array.is_valid(row as usize))
        };
        NullBuffer::new(BooleanBuffer::collect_bool(places.len(), is_there))
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
        let several: [&[Place]; 3] = [
            &[(1, 1), (0, 2), (0, 2), (0, 0), (1, 0), (0, 1)],
            &[(0, 0)],
            &[],
        ];
        for arrays in &columns {
            let arrays: Vec<&dyn Array> = arrays.iter().map(AsRef::as_ref).collect();
            for places in several {
                let own = rows(&arrays, places);
                let expected = by_library(&arrays, places);
                assert_eq!(own.data_type(), expected.data_type());
                assert_eq!(own.to_data(), expected.to_data(), "{own:?} {expected:?}");
            }
            for rows in [0..2, 1..3, 0..3, 2..2] {
                let places: Vec<Place> = rows.clone().map(|row| (0, row)).collect();
                let own = run(arrays[0], rows.start as usize..rows.end as usize);
                let expected = by_library(&arrays[..1], &places);
                assert_eq!(own.to_data(), expected.to_data(), "{own:?} {expected:?}");
            }
            // All rows in another order, and all but one.
            let all_of: [&[Place]; 2] = [
                &[(1, 1), (0, 2), (0, 0), (1, 0), (0, 1)],
                &[(0, 1), (0, 0), (1, 0), (0, 2)],
            ];
            for places in all_of {
                let lengths = arrays.iter().map(|array| array.len());
                let scattered = Scattered::new(lengths, places.iter().copied());
                let is_taken = !matches!(arrays[0].data_type(), DataType::Boolean | DataType::Utf8);
                let own = all(&arrays, &scattered);
                assert_eq!(own.is_some(), is_taken);
                if let Some(own) = own {
                    let expected = by_library(&arrays, places);
                    assert_eq!(own.to_data(), expected.to_data(), "{own:?} {expected:?}");
                }
            }
        }
    }
}
