//! One dictionary for all batches of a sort.
//!
//! Does: give the dictionaries of a column one list of words. Does not: sort, or take rows (`gather`).
//!
//! Each chunk that was read brings dictionaries of its own. Rows of thousands of them stand side by side in the order of time,
//! and each batch of the answer merged all their words anew.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, DictionaryArray, Int32Array, RecordBatch, StringArray};
use rustc_hash::FxHashMap;

type Dictionary = DictionaryArray<Int32Type>;

/// What a word takes while lists are united: its places in the old list and the new one.
const WORD_BYTES: usize = 64;

/// Memory that it takes to unite the lists of batches.
pub(super) fn united_bytes(batches: &[Arc<RecordBatch>]) -> usize {
    let columns = batches.iter().flat_map(|batch| batch.columns());
    let bytes = columns.map(|column| {
        let words = column.as_dictionary_opt::<Int32Type>();
        words.map_or(0, |words| {
            let list = words.values();
            list.get_array_memory_size() + list.len() * WORD_BYTES + words.len() * size_of::<i32>()
        })
    });
    bytes.sum()
}

/// Batches of one schema, with one list of words for each column of words.
pub(super) fn united(batches: Vec<Arc<RecordBatch>>) -> Vec<Arc<RecordBatch>> {
    let columns = batches.first().map_or(0, |first| first.num_columns());
    let united: Vec<(usize, Vec<ArrayRef>)> = (0..columns)
        .filter_map(|column| {
            let arrays: Option<Vec<&Dictionary>> = batches
                .iter()
                .map(|batch| batch.column(column).as_dictionary_opt())
                .collect();
            Some((column, with_one_list(&arrays?)?))
        })
        .collect();
    if united.is_empty() {
        return batches;
    }
    let with = |(number, batch): (usize, Arc<RecordBatch>)| {
        let mut columns = batch.columns().to_vec();
        for (place, arrays) in &united {
            if let (Some(column), Some(array)) = (columns.get_mut(*place), arrays.get(number)) {
                *column = Arc::clone(array);
            }
        }
        let batch = RecordBatch::try_new(batch.schema(), columns);
        Arc::new(batch.expect("the columns have the same types and rows as before"))
    };
    batches.into_iter().enumerate().map(with).collect()
}

/// The same columns over one list of words; `None` = they have one, or it would be too long, or not all of them are of words.
fn with_one_list(arrays: &[&Dictionary]) -> Option<Vec<ArrayRef>> {
    let first = arrays.first()?;
    let is_first = |other: &&Dictionary| Arc::ptr_eq(first.values(), other.values());
    let total: usize = arrays.iter().map(|array| array.values().len()).sum();
    if arrays.iter().all(is_first) || i32::try_from(total).is_err() {
        return None;
    }
    let mut places: FxHashMap<&str, i32> = FxHashMap::default();
    let mut known: Vec<&str> = Vec::new();
    let mut keys: Vec<Int32Array> = Vec::with_capacity(arrays.len());
    for array in arrays {
        let words: &StringArray = array.values().as_string_opt()?;
        if words.null_count() > 0 {
            return None;
        }
        let moved = words.iter().flatten().map(|word| {
            *places.entry(word).or_insert_with(|| {
                known.push(word);
                // There are no more than all of them together.
                i32::try_from(known.len() - 1).unwrap_or(i32::MAX)
            })
        });
        let moved: Vec<i32> = moved.collect();
        let place = |key: &i32| usize::try_from(*key).ok().and_then(|key| moved.get(key));
        // What stands where a row has no word is nobody's key.
        let own = array.keys().values().iter();
        let own = own.map(|key| place(key).copied().unwrap_or_default());
        keys.push(Int32Array::new(
            own.collect(),
            array.keys().nulls().cloned(),
        ));
    }
    let values: ArrayRef = Arc::new(StringArray::from_iter_values(known));
    let over = keys.into_iter().map(|keys| {
        let array = Dictionary::try_new(keys, Arc::clone(&values));
        Arc::new(array.expect("every key is the place of a word")) as ArrayRef
    });
    Some(over.collect())
}

/// The columns over their one list, and the list; `None` = they are not of words, or have several.
pub(super) fn of_one_list<'a>(arrays: &[&'a dyn Array]) -> Option<(Vec<&'a dyn Array>, ArrayRef)> {
    let words = arrays.iter().map(|array| array.as_dictionary_opt());
    let words: Option<Vec<&Dictionary>> = words.collect();
    let words = words?;
    let list = words.first()?.values();
    let is_of_it = |other: &&Dictionary| Arc::ptr_eq(list, other.values());
    let keys = words.iter().map(|words| words.keys() as &dyn Array);
    words
        .iter()
        .all(is_of_it)
        .then(|| (keys.collect(), Arc::clone(list)))
}

#[cfg(test)]
mod tests {
    use super::super::gather;
    use super::*;
    use arrow_array::builder::StringDictionaryBuilder;
    use arrow_schema::{DataType, Field, Schema};

    fn batch(words: &[Option<&str>]) -> Arc<RecordBatch> {
        let mut column = StringDictionaryBuilder::<Int32Type>::new();
        for word in words {
            column.append_option(*word);
        }
        let numbers: Int32Array = (0..).take(words.len()).collect();
        let words: ArrayRef = Arc::new(column.finish());
        let fields = vec![
            Field::new("tag", words.data_type().clone(), true),
            Field::new("n", DataType::Int32, true),
        ];
        let schema = Arc::new(Schema::new(fields));
        Arc::new(RecordBatch::try_new(schema, vec![words, Arc::new(numbers)]).unwrap())
    }

    fn texts(array: &ArrayRef) -> Vec<Option<String>> {
        let words = array.as_dictionary::<Int32Type>();
        let words = words.downcast_dict::<StringArray>().unwrap();
        words
            .into_iter()
            .map(|word| word.map(str::to_owned))
            .collect()
    }

    #[test]
    fn batches_share_one_list_of_words_and_keep_their_rows() {
        let rows: [&[Option<&str>]; 4] = [
            &[Some("a"), None, Some("b")],
            &[Some("b"), Some("c"), Some("b")],
            &[None, None],
            &[Some("a"), Some("")],
        ];
        let before: Vec<_> = rows.iter().map(|words| batch(words)).collect();
        let after = united(before.clone());
        let first = after[0].column(0).as_dictionary::<Int32Type>().values();
        assert_eq!(first.len(), 4);
        for ((batch, rows), old) in after.iter().zip(rows).zip(&before) {
            let own = batch.column(0).as_dictionary::<Int32Type>().values();
            assert!(Arc::ptr_eq(first, own));
            let expected: Vec<_> = rows.iter().map(|word| word.map(str::to_owned)).collect();
            assert_eq!(texts(batch.column(0)), expected);
            assert_eq!(batch.column(1), old.column(1));
        }
        let places = [(3, 1), (1, 1), (0, 1), (2, 0), (0, 0), (1, 2), (3, 0)];
        let expected =
            places.map(|(batch, row)| rows[batch as usize][row as usize].map(str::to_owned));
        for batches in [&before, &after] {
            let arrays: Vec<&dyn Array> = batches.iter().map(|it| it.column(0).as_ref()).collect();
            assert_eq!(texts(&gather::rows(&arrays, &places)), expected);
        }
        let again = united(after.clone());
        assert!(
            after
                .iter()
                .zip(&again)
                .all(|(one, two)| Arc::ptr_eq(one, two))
        );
    }
}
