//! Sizes of values: of each row, and the largest.
//!
//! Does not: count buffers that rows share, such as a dictionary's values, where a row has a number only.

use arrow::array::{Array, ArrayRef, AsArray, OffsetSizeTrait};
use arrow::datatypes::DataType;

/// What a row has of a value of variable size, beside its bytes.
const PLACE_BYTES: usize = 4;

/// Bytes of each row's value.
pub(crate) fn bytes_each(column: &ArrayRef) -> Vec<usize> {
    let rows = column.len();
    match column.data_type() {
        DataType::Utf8 => lengths(column.as_string::<i32>().value_offsets()),
        DataType::LargeUtf8 => lengths(column.as_string::<i64>().value_offsets()),
        DataType::Binary => lengths(column.as_binary::<i32>().value_offsets()),
        DataType::LargeBinary => lengths(column.as_binary::<i64>().value_offsets()),
        DataType::Utf8View => {
            let texts = column.as_string_view();
            texts.lengths().map(of_length).collect()
        }
        DataType::BinaryView => {
            let values = column.as_binary_view();
            values.lengths().map(of_length).collect()
        }
        DataType::List(_) => {
            let lists = column.as_list::<i32>();
            match lists.values().data_type().primitive_width() {
                Some(bytes) => pairs(lists.value_offsets())
                    .map(|(from, to)| (to - from) * bytes + PLACE_BYTES)
                    .collect(),
                None => sums(lists.value_offsets(), &bytes_each(lists.values())),
            }
        }
        DataType::LargeList(_) => {
            let lists = column.as_list::<i64>();
            sums(lists.value_offsets(), &bytes_each(lists.values()))
        }
        DataType::FixedSizeList(_, length) => {
            let lists = column.as_fixed_size_list();
            let items = bytes_each(lists.values());
            let length = usize::try_from(*length).unwrap_or(0);
            (0..rows)
                .map(|row| items.iter().skip(row * length).take(length).sum())
                .collect()
        }
        DataType::Map(..) => {
            let maps = column.as_map();
            let entries: ArrayRef = std::sync::Arc::new(maps.entries().clone());
            sums(maps.value_offsets(), &bytes_each(&entries))
        }
        DataType::Struct(_) => {
            let mut sums = vec![0; rows];
            for column in column.as_struct().columns() {
                for (sum, bytes) in sums.iter_mut().zip(bytes_each(column)) {
                    *sum += bytes;
                }
            }
            sums
        }
        kind => vec![fixed(kind); rows],
    }
}

/// Bytes of each text or value, without its place in a column.
pub(crate) fn lengths_each(column: &ArrayRef) -> Vec<usize> {
    let mut bytes = bytes_each(column);
    let has_place = matches!(
        column.data_type(),
        DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
    );
    if has_place {
        for bytes in &mut bytes {
            *bytes -= PLACE_BYTES;
        }
    }
    bytes
}

/// Bytes of the largest value.
pub(crate) fn widest(column: &ArrayRef) -> usize {
    let kind = column.data_type();
    if kind.is_primitive() || matches!(kind, DataType::Dictionary(..)) {
        return fixed(kind);
    }
    bytes_each(column).into_iter().max().unwrap_or(0)
}

/// Bytes of a value whose size its type says; of others, at least what a row has of them.
fn fixed(kind: &DataType) -> usize {
    match kind {
        DataType::Dictionary(key, _) => fixed(key),
        DataType::FixedSizeBinary(bytes) => usize::try_from(*bytes).unwrap_or(0),
        kind => kind.primitive_width().unwrap_or(1),
    }
}

fn of_length(length: u32) -> usize {
    length as usize + PLACE_BYTES
}

fn lengths<O: OffsetSizeTrait>(offsets: &[O]) -> Vec<usize> {
    pairs(offsets)
        .map(|(from, to)| to - from + PLACE_BYTES)
        .collect()
}

fn sums<O: OffsetSizeTrait>(offsets: &[O], items: &[usize]) -> Vec<usize> {
    pairs(offsets)
        .map(|(from, to)| {
            let items = items.get(from..to).unwrap_or_default();
            items.iter().sum::<usize>() + PLACE_BYTES
        })
        .collect()
}

fn pairs<O: OffsetSizeTrait>(offsets: &[O]) -> impl Iterator<Item = (usize, usize)> {
    let from = offsets.iter().map(|offset| offset.as_usize());
    from.clone().zip(from.skip(1))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, ListArray, StringArray};
    use arrow::datatypes::Int64Type;

    use super::*;

    #[test]
    fn a_row_is_as_large_as_what_it_has() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("abc"), None, Some("")]));
        assert_eq!(bytes_each(&texts), [7, 4, 4]);
        assert_eq!(widest(&texts), 7);
        let views = arrow::compute::cast(&texts, &DataType::Utf8View).unwrap();
        assert_eq!(bytes_each(&views)[0], 7);
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        assert_eq!(widest(&numbers), 8);
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>([
            Some(vec![Some(1), Some(2)]),
            None,
            Some(vec![]),
        ]);
        let lists: ArrayRef = Arc::new(lists);
        // Part of it, too.
        assert_eq!(bytes_each(&lists), [20, 4, 4]);
        assert_eq!(bytes_each(&lists.slice(1, 2)), [4, 4]);
        assert_eq!(widest(&lists), 20);
    }
}
